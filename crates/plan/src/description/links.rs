//! The links of a description: which nodes they join, and whether they form a tree.

use std::collections::{BTreeMap, BTreeSet};

use super::build::{ns, whole_rate};
use super::fault::Findings;
use super::nodes::Nodes;
use super::walk::{Record, Records, Span};
use crate::network::{Defaults, Link};
use crate::route::Topology;

/// Longer loops are told without the way: nobody reads it.
const LONGEST_LOOP_SHOWN: usize = 1000;

pub(super) fn links(
    records: &[Record],
    nodes: &mut Nodes<'_>,
    defaults: &Defaults,
    places: &BTreeMap<String, Span>,
    default_rate_given: bool,
    findings: &mut Findings<'_>,
) -> (Vec<Link>, bool) {
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
        let Some([(a_name, a_span), (b_name, b_span)]) = record.names("ends") else {
            complete = false;
            continue;
        };
        let (a, b) = (nodes.number(a_name), nodes.number(b_name));
        for (end, number, span) in [(a_name, a, a_span), (b_name, b, b_span)] {
            if number.is_none() {
                let help = findings
                    .nearest(end, places.keys().map(String::as_str))
                    .map(|near| format!("did you mean \"{near}\"?"));
                findings.at(
                    span,
                    format!("link end \"{end}\": there is no such host or switch"),
                    help,
                );
            }
        }
        let (Some(a), Some(b)) = (a, b) else {
            complete = false;
            continue;
        };
        if a == b {
            findings.at(
                &record.place("ends"),
                format!("the link joins \"{a_name}\" to itself"),
                None,
            );
            complete = false;
            continue;
        }
        if nodes.joined(a, b) {
            findings.at(
                &record.place("ends"),
                format!("a link between \"{a_name}\" and \"{b_name}\" is given already"),
                None,
            );
            continue;
        }
        for (end, number, span) in [(a_name, a, a_span), (b_name, b, b_span)] {
            if let Some(first) = nodes
                .neighbours(number)
                .first()
                .filter(|_| !nodes.forwards(number))
            {
                let help = Some("a host has exactly one link; more go to a switch".to_owned());
                let first = nodes.name(*first);
                findings.at(
                    span,
                    format!("host \"{end}\" has a link already, to \"{first}\""),
                    help,
                );
            }
        }
        nodes.join(a, b);
        let cable_delay_ns = record.quantity("cable-delay").map_or(0, ns);
        if let Some(rate_bps) = rate_bps {
            links.push(Link {
                ends: [a_name.clone(), b_name.clone()],
                rate_bps,
                cable_delay_ns,
            });
        }
    }
    let first_switch = nodes.names().get(nodes.host_names().len());
    for host in nodes
        .host_names()
        .iter()
        .filter(|host| complete && !nodes.has_link(host))
    {
        if let Some(place) = places.get(*host) {
            let help = first_switch
                .map(|switch| format!("add [[link]] ends = [\"{host}\", \"{switch}\"]"));
            findings.at(place, format!("host \"{host}\" has no link"), help);
        }
    }
    nodes.settle();
    (links, complete)
}

/// A loop leaves more than one way, so that each stream must say its own.
pub(super) fn loops(
    links: &[Record],
    records: &Records,
    nodes: &Nodes<'_>,
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
    let mut so_far: Vec<(usize, usize)> = Vec::new();
    let mut seen = BTreeSet::new();
    // Which nodes are connected so far; a host joins like a switch, so that a loop
    // through a host is found as well.
    let mut groups: Vec<usize> = (0..nodes.names().len()).collect();
    for link in links {
        let Some([(a, _), (b, _)]) = link.names("ends") else {
            continue;
        };
        let (Some(a), Some(b)) = (nodes.number(a), nodes.number(b)) else {
            continue;
        };
        if a == b || !seen.insert((a.min(b), a.max(b))) {
            continue;
        }
        so_far.push((a, b));
        let (of_a, of_b) = (group(&mut groups, a), group(&mut groups, b));
        if of_a != of_b {
            groups[of_a] = of_b;
            continue;
        }
        let on_loop = only_the_loop(&so_far, nodes.names().len());
        // A host with two links has been told already.
        if !on_loop.iter().all(|node| nodes.forwards(*node)) {
            return;
        }
        let shown = shown(&so_far, &on_loop, (a, b), nodes);
        let help = Some("remove one of its links, or give every stream a `route`".to_owned());
        findings.at(
            &link.place("ends"),
            format!("this link closes a loop{shown}"),
            help,
        );
        return;
    }
}

/// The group of a node; the way there is shortened for the next time.
fn group(groups: &mut [usize], mut node: usize) -> usize {
    while groups[node] != node {
        groups[node] = groups[groups[node]];
        node = groups[node];
    }
    node
}

/// The nodes that are left when loose ends are taken off again and again.
fn only_the_loop(links: &[(usize, usize)], count: usize) -> BTreeSet<usize> {
    let mut neighbours = vec![Vec::new(); count];
    for (a, b) in links {
        neighbours[*a].push(*b);
        neighbours[*b].push(*a);
    }
    let mut degrees: Vec<usize> = neighbours.iter().map(Vec::len).collect();
    let mut loose: Vec<usize> = (0..count).filter(|node| degrees[*node] == 1).collect();
    while let Some(node) = loose.pop() {
        degrees[node] = 0;
        for next in &neighbours[node] {
            degrees[*next] = degrees[*next].saturating_sub(1);
            if degrees[*next] == 1 {
                loose.push(*next);
            }
        }
    }
    (0..count).filter(|node| degrees[*node] > 1).collect()
}

/// The loop as people read it, with what leads over to it.
fn shown(
    links: &[(usize, usize)],
    on_loop: &BTreeSet<usize>,
    (a, b): (usize, usize),
    nodes: &Nodes<'_>,
) -> String {
    if on_loop.len() > LONGEST_LOOP_SHOWN {
        return format!(" of {} switches", on_loop.len());
    }
    let name = |node: usize| nodes.name(node);
    let mut topology = Topology::new(on_loop.iter().map(|node| name(*node).to_owned()).collect());
    for (one, other) in links {
        if on_loop.contains(one) && on_loop.contains(other) {
            topology.join(name(*one), name(*other));
        }
    }
    let way = topology.loop_through(name(a), name(b)).unwrap_or_default();
    let names: Vec<&str> = way.iter().chain(way.first()).map(String::as_str).collect();
    format!(": {}", names.join(" - "))
}
