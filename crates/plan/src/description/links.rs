//! The links of a description: which nodes they join, and whether they form a tree.

use std::collections::BTreeMap;

use super::build::{ns, whole_rate};
use super::fault::Findings;
use super::walk::{Record, Records, Span};
use crate::nearest::nearest;
use crate::network::{Defaults, Host, Link, Switch};
use crate::route::Topology;

pub(super) fn links(
    records: &[Record],
    hosts: &[Host],
    switches: &[Switch],
    defaults: &Defaults,
    places: &BTreeMap<String, Span>,
    default_rate_given: bool,
    findings: &mut Findings<'_>,
) -> (Vec<Link>, Topology, bool) {
    let mut topology = Topology::new(switches.iter().map(|switch| switch.name.clone()).collect());
    let mut links = Vec::new();
    // Without all ends known, "no link" would be a wrong accusation.
    let mut complete = true;
    for record in records {
        let rate_bps = match record.quantity("rate") {
            Some(rate) => whole_rate("rate", rate, &record.place("rate"), findings),
            None if record.has("rate") => None,
            None => {
                if defaults.link_rate_bps.is_none() && !default_rate_given {
                    let help = Some("or give `link-rate` in [defaults]".to_owned());
                    findings.at(&record.span, "missing key `rate` in [[link]]", help);
                }
                defaults.link_rate_bps
            }
        };
        let Some([(a, a_span), (b, b_span)]) = record.names("ends") else {
            complete = false;
            continue;
        };
        let mut known = true;
        for (end, span) in [(a, a_span), (b, b_span)] {
            if !places.contains_key(end) {
                let help = nearest(end, places.keys().map(String::as_str))
                    .map(|near| format!("did you mean \"{near}\"?"));
                findings.at(
                    span,
                    format!("link end \"{end}\": there is no such host or switch"),
                    help,
                );
                known = false;
            }
        }
        if !known {
            complete = false;
            continue;
        }
        if a == b {
            findings.at(
                &record.place("ends"),
                format!("the link joins \"{a}\" to itself"),
                None,
            );
            complete = false;
            continue;
        }
        if topology.joined(a, b) {
            findings.at(
                &record.place("ends"),
                format!("a link between \"{a}\" and \"{b}\" is given already"),
                None,
            );
            continue;
        }
        for (end, span) in [(a, a_span), (b, b_span)] {
            if let Some(first) = topology
                .neighbours(end)
                .first()
                .filter(|_| !topology.is_switch(end))
            {
                let help = Some("a host has exactly one link; more go to a switch".to_owned());
                findings.at(
                    span,
                    format!("host \"{end}\" has a link already, to \"{first}\""),
                    help,
                );
            }
        }
        topology.join(a, b);
        let cable_delay_ns = record.quantity("cable-delay").map_or(0, ns);
        if let Some(rate_bps) = rate_bps {
            links.push(Link {
                ends: [a.clone(), b.clone()],
                rate_bps,
                cable_delay_ns,
            });
        }
    }
    for host in hosts
        .iter()
        .filter(|host| complete && topology.neighbours(&host.name).is_empty())
    {
        if let Some(place) = places.get(&host.name) {
            let help = switches.first().map(|switch| {
                format!(
                    "add [[link]] ends = [\"{}\", \"{}\"]",
                    host.name, switch.name
                )
            });
            findings.at(place, format!("host \"{}\" has no link", host.name), help);
        }
    }
    (links, topology, complete)
}

/// A loop leaves more than one way, so that each stream must say its own.
pub(super) fn loops(
    links: &[Record],
    records: &Records,
    topology: &Topology,
    findings: &mut Findings<'_>,
) {
    let without_route = |table: &str| {
        records
            .get(table)
            .is_some_and(|list| list.iter().any(|record| !record.has("route")))
    };
    let streams = records.get("stream").is_some_and(|list| !list.is_empty());
    if streams && !without_route("stream") && !without_route("best-effort") {
        return;
    }
    // Here every node forwards, so that a loop through a host is found as well.
    let names = links
        .iter()
        .filter_map(|link| link.names("ends"))
        .flatten()
        .map(|(name, _)| name.clone());
    let mut so_far = Topology::new(names.collect());
    for link in links {
        let Some([(a, _), (b, _)]) = link.names("ends") else {
            continue;
        };
        if a == b || !topology.joined(a, b) || !so_far.join(a, b) {
            continue;
        }
        if let Some(way) = so_far.loop_through(a, b) {
            // A host with two links has been told already.
            if !way.iter().all(|node| topology.is_switch(node)) {
                return;
            }
            let shown = way
                .iter()
                .chain(way.first())
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(" - ");
            let help = Some("remove one of its links, or give every stream a `route`".to_owned());
            findings.at(
                &link.place("ends"),
                format!("this link closes a loop: {shown}"),
                help,
            );
            return;
        }
    }
}
