//! Routers of a description: their tables of DSCPs, and the streams that pass none.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

use super::context::Context;
use super::fault::Findings;
use super::streams::{time_triggered, transport};
use super::value::{short, wrong_type};
use super::walk::{Record, Records};
use crate::network::{LARGEST_DSCP, Network, Routing, Transport, kept};

/// The reason why no router forwards a stream, and the change after which each does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) why: &'static str,
    pub(super) help: &'static str,
}

impl Kept {
    /// Returns why no router forwards a stream; `None` for one that each router forwards.
    pub(super) fn of(record: &Record) -> Option<Kept> {
        if record.text("redundancy") == Some("disjoint") {
            return Some(Kept {
                why: kept::REDUNDANT,
                help: "leave `redundancy` away, or add links between switches",
            });
        }
        if time_triggered(record) {
            return Some(Kept {
                why: kept::TIME_TRIGGERED,
                help: "leave `schedule` away, or add links between switches",
            });
        }
        (transport(record) != Transport::Udp).then_some(Kept {
            why: kept::LAYER_2,
            help: "transport = \"udp\" passes routers, or add links between switches",
        })
    }
}

/// Reads the tables of a router.
pub(super) fn routing(record: &Record) -> Routing {
    let codes = |key| record.codes(key).cloned().unwrap_or_default();
    Routing {
        priorities: codes("dscp-priority"),
        remark: codes("remark"),
    }
}

/// Returns the stated DSCP of a stream. It needs an IPv4 header, and a router that reads it.
pub(super) fn dscp(
    record: &Record,
    context: &Context<'_>,
    findings: &mut Findings<'_>,
) -> Option<u8> {
    // The range 0 to 63 has been checked.
    let dscp = record.integer("dscp").and_then(|it| u8::try_from(it).ok());
    let place = || record.place("dscp");
    if record.has("dscp") && transport(record) != Transport::Udp {
        let message = "`dscp` is in the IPv4 header, which RTDiP upon Ethernet does not have";
        let help = "transport = \"udp\", or leave `dscp` away: switches read `priority`";
        findings.at(&place(), message, Some(help.to_owned()));
        return None;
    }
    if record.has("dscp") && !context.nodes.has_routers() {
        let message = "`dscp` is read by routers, and there is none";
        let help = "leave `dscp` away: switches read `priority`";
        findings.at(&place(), message, Some(help.to_owned()));
        return None;
    }
    dscp
}

/// Reads a table from DSCP to a number from 0 to `most`.
pub(super) fn codes(
    key: &str,
    most: u8,
    table: &DeTable<'_>,
    findings: &mut Findings<'_>,
) -> Option<BTreeMap<u8, u8>> {
    let before = findings.count();
    let mut found = BTreeMap::new();
    for (name, value) in table {
        let text = name.get_ref().as_ref();
        let code = text.parse::<u8>().ok();
        let code = code.filter(|code| *code <= LARGEST_DSCP && code.to_string() == text);
        let Some(code) = code else {
            let message = format!(
                "`{key}` has DSCP \"{}\", but DSCPs are numbers 0 to {LARGEST_DSCP}",
                short(text)
            );
            let help = named(text).map(|code| format!("{text} is {code}"));
            findings.at(&name.span(), message, help);
            continue;
        };
        let DeValue::Integer(number) = value.get_ref() else {
            let what = format!("{key}.{code}");
            wrong_type(
                findings,
                &value.span(),
                &what,
                "a whole number",
                value.get_ref(),
            );
            continue;
        };
        let read = u8::from_str_radix(number.as_str(), number.radix()).ok();
        match read.filter(|read| *read <= most) {
            Some(read) => {
                found.insert(code, read);
            }
            None => {
                let number = short(number.as_str());
                let what = if most == LARGEST_DSCP {
                    "DSCPs"
                } else {
                    "priorities"
                };
                let message =
                    format!("`{key}` has {number} for {code}, but {what} are 0 to {most}");
                findings.at(&value.span(), message, None);
            }
        }
    }
    (findings.count() == before).then_some(found)
}

/// Returns the number of a DSCP's name: `EF`, `CS5`, `AF41` (RFC 2474, RFC 2597, RFC 3246).
fn named(text: &str) -> Option<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .skip(2)
        .map(|digit| digit.wrapping_sub(b'0'))
        .collect();
    match (text.get(..2)?, digits.as_slice()) {
        ("EF", []) => Some(46),
        ("CS", [class @ 0..=7]) => Some(class << 3),
        ("AF", [class @ 1..=4, drop @ 1..=3]) => Some((class << 3) + (drop << 1)),
        _ => None,
    }
}

/// Checks that no router cuts through, by itself or at a port.
pub(super) fn check(network: &Network, records: &Records, findings: &mut Findings<'_>) {
    for (table, key) in [("router", "name"), ("port", "switch")] {
        for record in records.get(table).into_iter().flatten() {
            let node = record.text(key).and_then(|name| network.switch(name));
            let cuts = super::ports::cut_through(record).is_some_and(|cut| !cut.is_off());
            let Some(router) = node.filter(|node| cuts && node.routing.is_some()) else {
                continue;
            };
            let message = format!(
                "router \"{}\" has cut-through, but a router reads the whole IPv4 header and stores each frame",
                router.name
            );
            let help = Some("cut-through = \"off\", or leave it away".to_owned());
            findings.at(&record.place("cut-through"), message, help);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn names_of_code_points_are_those_of_the_standards() {
        let known = [
            ("EF", 46),
            ("CS0", 0),
            ("CS7", 56),
            ("AF11", 10),
            ("AF41", 34),
            ("AF43", 38),
        ];
        for (name, code) in known {
            assert_eq!(named(name), Some(code));
        }
        for name in ["", "E", "EFG", "CS8", "AF51", "AF44", "BE", "€€"] {
            assert_eq!(named(name), None);
        }
    }
}
