//! Maps of priorities to queues, `priority-map` of a switch or host, and lists of priorities.

use toml::Spanned;
use toml::de::DeValue;

use super::fault::Findings;
use super::value::{short, wrong_type};
use super::walk::{Record, Span};
use crate::network::{Network, PriorityMap, fitting, recommended, reserved};

const PRIORITIES: usize = 8;

/// Reads a list of eight queues.
pub(super) fn list(
    key: &str,
    items: &[Spanned<DeValue<'_>>],
    span: &Span,
    findings: &mut Findings<'_>,
) -> Option<PriorityMap> {
    let mut map = [0; PRIORITIES];
    if items.len() != PRIORITIES {
        let message = format!(
            "`{key}` has {} queues, but there are eight priorities",
            items.len()
        );
        let help = "the first is the queue of priority 0: [0, 0, 1, 1, 2, 2, 3, 3]";
        findings.at(span, message, Some(help.to_owned()));
        return None;
    }
    for (place, item) in map.iter_mut().zip(items) {
        let told = |number: &str| format!("`{key}` has queue {number}, but queues are 0 to 7");
        *place = below_eight(key, item, told, findings)?;
    }
    Some(map)
}

/// Reads one number of a list, 0 to 7. `told` says what is wrong with another number.
fn below_eight(
    key: &str,
    item: &Spanned<DeValue<'_>>,
    told: impl FnOnce(&str) -> String,
    findings: &mut Findings<'_>,
) -> Option<u8> {
    let (span, value) = (item.span(), item.get_ref());
    let DeValue::Integer(number) = value else {
        wrong_type(findings, &span, key, "a list of whole numbers", value);
        return None;
    };
    let read = u8::from_str_radix(number.as_str(), number.radix()).ok();
    let read = read.filter(|read| *read < 8);
    if read.is_none() {
        findings.at(&span, told(number.as_str()), None);
    }
    read
}

/// Reads a list of priorities. The result is in ascending order.
pub(super) fn set(
    key: &str,
    items: &[Spanned<DeValue<'_>>],
    findings: &mut Findings<'_>,
) -> Option<Vec<u8>> {
    let mut found: Vec<u8> = Vec::new();
    for item in items {
        let told = |number: &str| {
            let number = short(number);
            format!("`{key}` has {number}, but priorities are 0 to 7")
        };
        let priority = below_eight(key, item, told, findings)?;
        if found.contains(&priority) {
            let message = format!("`{key}` has priority {priority} twice");
            findings.at(&item.span(), message, None);
            return None;
        }
        found.push(priority);
    }
    found.sort_unstable();
    Some(found)
}

/// Returns the map of a switch or host with this number of queues; `None` for the default map.
pub(super) fn of_node(
    record: &Record,
    name: &str,
    queues: u8,
    findings: &mut Findings<'_>,
) -> Option<PriorityMap> {
    let place = record.place("priority-map");
    match record.text("priority-map") {
        Some("802.1q") => return Some(recommended(queues)),
        Some("802.1q-avb") => {
            let map = reserved(queues);
            if map.is_none() {
                let message = format!(
                    "`priority-map` of \"{name}\" has stream classes A and B, but its ports have one queue"
                );
                let help = Some(format!("queues = 3 or more at \"{name}\""));
                findings.at(&place, message, help);
            }
            return map;
        }
        _ => {}
    }
    let map = record.classes("priority-map")?;
    let largest = map.iter().copied().max().unwrap_or(0);
    if largest >= queues {
        let pcp = map.iter().position(|class| *class == largest).unwrap_or(0);
        let message = format!(
            "`priority-map` of \"{name}\" gives priority {pcp} queue {largest}, but its ports have {queues} (0 to {})",
            queues - 1
        );
        let fits = fitting(&map, queues);
        let help = format!("priority-map = {fits:?} fits, or queues = {}", largest + 1);
        findings.at(&place, message, Some(help));
        return None;
    }
    Some(map)
}

/// Returns the change after which these priorities, which have credits, have the highest queues of a node.
pub(super) fn on_top(network: &Network, node: &str, credits: &[u8]) -> String {
    let queues = usize::from(network.queues(node));
    let below = queues.saturating_sub(credits.len());
    if below == 0 {
        return format!(
            "credits are for the highest classes of a port: queues = {} or more at \"{node}\"",
            credits.len() + 1
        );
    }
    let highest = |map: &PriorityMap| {
        let of = |pcp: usize| usize::from(map[pcp]);
        (0..8).all(|pcp| (of(pcp) >= below) == credits.iter().any(|one| usize::from(*one) == pcp))
    };
    if reserved(network.queues(node)).is_some_and(|map| highest(&map)) {
        return format!("priority-map = \"802.1q-avb\" at \"{node}\"");
    }
    let now: PriorityMap =
        std::array::from_fn(|pcp| network.class(node, u8::try_from(pcp).unwrap_or(0)));
    let mut map = fitting(&now, u8::try_from(below).unwrap_or(1));
    for (class, pcp) in (below..queues).zip(credits) {
        map[usize::from(*pcp & 7)] = u8::try_from(class).unwrap_or(0);
    }
    format!("priority-map = {map:?} at \"{node}\" puts credits above all others")
}
