//! The context that the checks of links, gates, streams and allowances share: nodes, and values that are read alike.

use std::collections::BTreeSet;

use super::fault::Findings;
use super::nodes::Nodes;
use super::routers::Kept;
use super::walk::{Record, Span};
use crate::network::Defaults;
use crate::ratio::Ratio;

/// The network that streams and best-effort allowances are checked against.
pub(super) struct Context<'a> {
    pub(super) defaults: &'a Defaults,
    pub(super) nodes: &'a Nodes<'a>,
    /// True if every link of the file is valid.
    pub(super) links_complete: bool,
}

pub(super) fn ns(value: Ratio) -> u64 {
    // Quantities of time are whole nanoseconds and at most 1000 s by now.
    value.ceil_ns().unwrap_or(u64::MAX)
}

/// Converts bits to bytes. `None` if the result is not a whole number.
pub(super) fn bytes(value: Ratio) -> Option<u64> {
    let bytes = value.over(Ratio::whole(8)).ok()?;
    if bytes.den() == 1 {
        u64::try_from(bytes.num()).ok()
    } else {
        None
    }
}

pub(super) fn whole_rate(
    key: &str,
    rate: Ratio,
    place: &Span,
    findings: &mut Findings<'_>,
) -> Option<u64> {
    if rate.den() != 1 {
        findings.at(
            place,
            format!("`{key}` is no whole number of bit/s"),
            Some(format!("the nearest is \"{} bit/s\"", rate.floor())),
        );
        return None;
    }
    u64::try_from(rate.num()).ok()
}

/// Returns the index of a host by its name; notes a fault if there is none.
pub(super) fn find_host(
    context: &Context<'_>,
    what: &str,
    name: &str,
    span: &Span,
    findings: &mut Findings<'_>,
) -> Option<usize> {
    let found = context.nodes.host(name);
    if found.is_none() {
        if let Some(kind) = context.nodes.kind_word(name) {
            findings.at(
                span,
                format!("{what} \"{name}\" is a {kind}, not a host"),
                None,
            );
        } else {
            let near = findings.nearest(name, context.nodes.host_names().iter().copied());
            let help = near.map(|near| format!("did you mean \"{near}\"?"));
            findings.at(
                span,
                format!("{what} \"{name}\": there is no such host"),
                help,
            );
        }
    }
    found
}

/// Returns the route between two hosts; notes a fault if there is none. `kept` says why no router may be on it.
pub(super) fn find_route(
    context: &Context<'_>,
    (from, to): (&str, &str),
    kept: Option<Kept>,
    span: &Span,
    findings: &mut Findings<'_>,
) -> Option<Vec<String>> {
    let way = match kept {
        None => context.nodes.routed_way(from, to),
        Some(_) => context.nodes.way(from, to),
    };
    if let (None, Some(kept)) = (&way, kept) {
        let routed = context.nodes.routed_way(from, to);
        let is_router = |name: &&String| context.nodes.kind_word(name) == Some("router");
        if let Some(router) = routed.iter().flatten().find(is_router) {
            let message = format!(
                "\"{to}\" is reached from \"{from}\" through router \"{router}\" only, but {}",
                kept.why
            );
            findings.at(span, message, Some(kept.help.to_owned()));
            return None;
        }
    }
    if way.is_none()
        && context.links_complete
        && context.nodes.has_link(from)
        && context.nodes.has_link(to)
    {
        findings.at(
            span,
            format!("\"{to}\" cannot be reached from \"{from}\": no links lead there"),
            None,
        );
    }
    way
}

/// Returns the receivers of a stream or an allowance. Each must be known, differ from the sender and be listed once.
pub(super) fn receivers(
    context: &Context<'_>,
    record: &Record,
    key: &str,
    sender: &str,
    findings: &mut Findings<'_>,
) -> Option<Vec<(String, usize, Span)>> {
    let names = record.names(key)?;
    if names.is_empty() {
        findings.at(
            &record.place(key),
            format!("`{key}` is empty"),
            Some("name at least one host".to_owned()),
        );
        return None;
    }
    let mut found: Vec<(String, usize, Span)> = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let what = if key == "to" { "receiver" } else { "listener" };
    for (name, span) in names {
        if name == sender {
            findings.at(span, format!("\"{name}\" sends to itself"), None);
        } else if seen.contains(name.as_str()) {
            findings.at(span, format!("{what} \"{name}\" is given twice"), None);
        } else if let Some(index) = find_host(context, what, name, span, findings) {
            seen.insert(name);
            found.push((name.clone(), index, span.clone()));
        }
    }
    Some(found)
}

/// Returns the frame size in bytes; notes a fault if it is outside the limits of Ethernet.
pub(super) fn frame_size(
    record: &Record,
    tagged: bool,
    findings: &mut Findings<'_>,
) -> Option<u64> {
    let size = record.quantity("frame")?;
    let place = record.place("frame");
    let (least, largest) = frame_limits(tagged);
    match bytes(size) {
        None => findings.at(&place, "`frame` is no whole number of bytes", None),
        Some(size) if size < least => {
            let help = Some(format!("the smallest is \"{least} B\""));
            findings.at(
                &place,
                format!("`frame` of {size} B is below what Ethernet carries"),
                help,
            );
        }
        Some(size) if size > largest => {
            let help = Some(format!("the largest is \"{largest} B\""));
            findings.at(
                &place,
                format!("`frame` of {size} B is above what Ethernet carries"),
                help,
            );
        }
        Some(size) => return Some(size),
    }
    None
}

pub(super) fn burst_too_small(
    record: &Record,
    burst: Ratio,
    wire_bytes: u64,
    findings: &mut Findings<'_>,
) {
    let message = format!(
        "`burst` of {} bit is less than one frame on the wire, {} bit",
        burst,
        wire_bytes * 8
    );
    findings.at(
        &record.place("burst"),
        message,
        Some(format!("at least \"{wire_bytes} B\"")),
    );
}

/// Returns the least and the largest size of header and payload, without FCS.
pub(super) const fn frame_limits(tagged: bool) -> (u64, u64) {
    if tagged { (64, 1518) } else { (60, 1514) }
}
