//! Planned data beside those of a switch, value by value.
//!
//! A plan owns some nodes whole: an entry more in a gate list is a difference. Others it shares: a switch may have further
//! VLANs, static entries and interfaces.

use core::fmt;

use crate::data::{IDENTITY, keys, module};
use crate::element::{Content, Element};

/// Nodes that a plan owns whole. What it does not name there must not be there.
const OWNED: [&str; 10] = [
    "traffic-class-table",
    "transmission-selection-algorithm-table",
    "gate-parameter-table",
    "cbsa",
    "frame-preemption-parameters",
    "stream-filters",
    "stream-gates",
    "filtering-entry",
    "vlan-registration-entry",
    IDENTITY,
];
/// Entries that mean the same as none: node and value.
const NEUTRAL: [(&str, &str); 3] = [
    ("transmission-selection-algorithm", "strict-priority"),
    ("queue-max-sdu", "0"),
    ("admin-idle-slope", "0"),
];
/// A switch resets this one, and knows those about itself.
const NOT_COMPARED: [&str; 4] = [
    "config-change",
    "supported-list-max",
    "supported-cycle-max",
    "supported-interval-max",
];
/// Leaf-lists.
const LEAF_LISTS: [&str; 2] = ["input-port", "output-port"];
/// Leaves whose letters may be of either case.
const ADDRESSES: [&str; 3] = ["address", "destination-mac", "source-mac"];

/// A difference between a plan and a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The node: names, and the keys of list entries in brackets.
    pub place: String,
    /// The planned value; `None` if nothing is planned there.
    pub planned: Option<String>,
    /// The switch's value; `None` if it has nothing there.
    pub found: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A switch may name its values as it likes.
        let shown = |text: &String| text.escape_default().to_string();
        write!(f, "{}: ", self.place.escape_default())?;
        match (&self.planned, &self.found) {
            (Some(planned), Some(found)) => {
                write!(f, "planned {}, found {}", shown(planned), shown(found))
            }
            (Some(planned), None) if planned.is_empty() => f.write_str("planned, not there"),
            (Some(planned), None) => write!(f, "planned {}, not there", shown(planned)),
            (None, Some(found)) if found.is_empty() => f.write_str("there, not planned"),
            (None, found) => {
                let found = found.as_ref().map(shown).unwrap_or_default();
                write!(f, "{found} is there, not planned")
            }
        }
    }
}

/// Returns `true` for a node that a plan owns whole.
pub(crate) fn is_owned(one: &Element) -> bool {
    OWNED.contains(&one.name.as_str()) && module(&one.namespace).is_some()
}

/// Returns the differences between planned data and those of a switch.
#[must_use]
pub fn differences(planned: &[Element], found: &[Element]) -> Vec<Difference> {
    let mut all = Vec::new();
    compare(planned, found, "", false, &mut all);
    all
}

fn compare(
    planned: &[Element],
    found: &[Element],
    at: &str,
    owned: bool,
    all: &mut Vec<Difference>,
) {
    for one in planned {
        if NOT_COMPARED.contains(&one.name.as_str()) {
            continue;
        }
        let place = place(at, one);
        match counterpart(one, found) {
            None => all.push(Difference {
                place,
                planned: Some(one.value().to_owned()),
                found: None,
            }),
            Some(other) if is_leaf(one) => {
                if !same(one, other) {
                    all.push(Difference {
                        place,
                        planned: Some(one.value().to_owned()),
                        found: Some(other.value().to_owned()),
                    });
                }
            }
            Some(other) => {
                let owned = owned || is_owned(one);
                compare(one.children(), other.children(), &place, owned, all);
            }
        }
    }
    for one in found {
        let whole = owned || is_owned(one);
        if whole && !shared_entry(one, owned) && counterpart(one, planned).is_none() {
            extras(one, at, all);
        }
    }
}

/// Returns `true` for an entry of a list that a plan shares: its own entries are whole, others are not its business.
fn shared_entry(one: &Element, owned: bool) -> bool {
    !owned
        && matches!(
            one.name.as_str(),
            "filtering-entry" | "vlan-registration-entry"
        )
}

/// Notes what is in an element that no plan has, as far as it means anything.
fn extras(one: &Element, at: &str, all: &mut Vec<Difference>) {
    let place = place(at, one);
    let mut extra = |found: &str| {
        all.push(Difference {
            place: place.clone(),
            planned: None,
            found: Some(found.to_owned()),
        });
    };
    if !keys(one).is_empty() {
        if !is_neutral(one) {
            extra("");
        }
    } else if LEAF_LISTS.contains(&one.name.as_str()) {
        extra(one.value());
    } else if is_leaf(one) {
        // Other leaves may be defaults, which some switches show. These kinds turn something on: a meter, a limit, preemption.
        let is_on = matches!(one.value(), "true" | "preemptable") || one.name.ends_with("-ref");
        if is_on && !NOT_COMPARED.contains(&one.name.as_str()) {
            extra(one.value());
        }
    } else {
        let gates_off = one
            .child("gate-enabled")
            .is_none_or(|on| on.value() != "true");
        for inner in one.children() {
            if !(gates_off && inner.name == "admin-control-list") {
                extras(inner, &place, all);
            }
        }
    }
}

/// Returns `true` if the element and all in it mean the same as nothing.
pub(crate) fn is_without_meaning(one: &Element) -> bool {
    let mut found = Vec::new();
    extras(one, "", &mut found);
    found.is_empty()
}

fn is_neutral(one: &Element) -> bool {
    let keys = keys(one);
    let mut values = one
        .children()
        .iter()
        .filter(|leaf| !keys.contains(&leaf.name.as_str()));
    values.all(|leaf| {
        let local = local(leaf);
        NEUTRAL.contains(&(leaf.name.as_str(), local))
    })
}

fn is_leaf(one: &Element) -> bool {
    !matches!(one.content, Content::Nodes(_))
}

/// Returns the value of a leaf without a prefix.
fn local(leaf: &Element) -> &str {
    let text = leaf.value();
    text.rsplit_once(':').map_or(text, |(_, name)| name)
}

/// Returns the element in `others` that stands for the same node, and the same entry of a list.
pub(crate) fn counterpart<'a>(one: &Element, others: &'a [Element]) -> Option<&'a Element> {
    let keys = keys(one);
    others.iter().find(|other| {
        let keyed = || {
            keys.iter()
                .all(|key| match (one.child(key), other.child(key)) {
                    (Some(one), Some(other)) => same(one, other),
                    _ => false,
                })
        };
        let valued = || !LEAF_LISTS.contains(&one.name.as_str()) || same(one, other);
        one.is_like(other) && keyed() && valued()
    })
}

/// Returns `true` if both leaves have the same value.
fn same(one: &Element, other: &Element) -> bool {
    let (one, other) = match (&one.content, &other.content) {
        (Content::Identity { namespace, name }, Content::Text { text, prefix })
        | (Content::Text { text, prefix }, Content::Identity { namespace, name }) => {
            let local = text
                .rsplit_once(':')
                .map_or(text.as_str(), |(_, name)| name);
            return local == name && prefix.as_ref().is_none_or(|prefix| prefix == namespace);
        }
        (Content::Nodes(_), Content::Nodes(_)) => return true,
        (Content::Text { text, .. }, Content::Text { text: other, .. })
            if ADDRESSES.contains(&one.name.as_str()) =>
        {
            return text.eq_ignore_ascii_case(other);
        }
        _ => (one.value(), other.value()),
    };
    let number = |text: &str| text.parse::<u64>().ok();
    one == other || number(one).is_some_and(|one| number(other) == Some(one))
}

/// Returns the place of an element below another one.
fn place(at: &str, one: &Element) -> String {
    let values = keys(one).iter().filter_map(|key| one.child(key));
    let values: Vec<&str> = values.map(Element::value).collect();
    if values.is_empty() {
        return format!("{at}/{}", one.name);
    }
    format!("{at}/{}[{}]", one.name, values.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::elements;
    use serde_json::{Value, json};

    fn filter(more: &[(&str, Value)]) -> Vec<Element> {
        let mut entry =
            json!({ "stream-filter-instance-id": 1, "stream-handle": 7, "max-sdu-size": 88 });
        for (name, value) in more {
            entry[name] = value.clone();
        }
        let filters = json!({ "stream-filter-instance-table": [entry] });
        let component = json!({ "name": "s", "ieee802-dot1q-stream-filters-gates-bridge:stream-filters": filters });
        let bridge = json!({ "bridge": [ { "name": "s", "component": [component] } ] });
        elements(&json!({ "ieee802-dot1q-bridge:bridges": bridge })).unwrap()
    }

    fn words(planned: &[Element], found: &[Element]) -> Vec<String> {
        let all = differences(planned, found);
        all.iter()
            .map(|one| {
                let words = one.to_string();
                let place = words.rfind("instance-table[1]").unwrap_or_default();
                words[place..].to_owned()
            })
            .collect()
    }

    #[test]
    fn what_turns_something_on_in_a_plan_s_own_entry_is_a_difference_and_a_default_is_none() {
        let planned = filter(&[]);
        let with = |name: &str, value: Value| words(&planned, &filter(&[(name, value)]));
        assert_eq!(
            with("flow-meter-ref", 3.into()),
            ["instance-table[1]/flow-meter-ref: 3 is there, not planned"]
        );
        let blocked = "stream-blocked-due-to-oversize-frame-enabled";
        assert_eq!(
            with(blocked, true.into()),
            [format!(
                "instance-table[1]/{blocked}: true is there, not planned"
            )]
        );
        assert!(with(blocked, false.into()).is_empty());
        assert!(with("max-sdu-size", "088".into()).is_empty());
        assert_eq!(
            with("max-sdu-size", 89.into()),
            ["instance-table[1]/max-sdu-size: planned 88, found 89"]
        );
    }

    #[test]
    fn values_of_a_switch_control_no_terminal() {
        let found = filter(&[("max-sdu-size", "\u{1b}[2J".into())]);
        let words = words(&filter(&[]), &found);
        assert!(!words[0].chars().any(char::is_control), "{words:?}");
    }
}
