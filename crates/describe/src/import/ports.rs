//! Converts servers in rows to switches and links.

use std::collections::BTreeMap;

use super::draft::{Draft, Link, Switch};
use super::fault::ImportFault;
use crate::ratio::Ratio;

/// One output port.
pub(super) struct Server {
    pub(super) name: String,
    pub(super) latency_ns: u64,
    /// The port's rate, bit/s.
    pub(super) rate: Ratio,
}

/// The rate of links that exist in the description only, bit/s. A frame takes some nanoseconds.
const FAST: Ratio = Ratio::whole(1_000_000_000_000);

/// The switch that each server is a port of. Servers that follow the same server share a switch.
struct Groups(Vec<usize>);

impl Groups {
    fn of(&self, mut server: usize) -> usize {
        while self.0[server] != server {
            server = self.0[server];
        }
        server
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.of(a), self.of(b));
        // The earlier one names the switch.
        self.0[a.max(b)] = a.min(b);
    }
}

/// Makes switches, hosts and links, and the route of each path from its talker to its listener.
///
/// # Errors
/// [`ImportFault::Shape`] if a server leads back to its own switch, or two servers make the same link.
pub(super) fn lay_out(
    servers: &[Server],
    paths: &[(String, Vec<usize>)],
    draft: &mut Draft,
) -> Result<Vec<Vec<String>>, ImportFault> {
    let mut groups = Groups((0..servers.len()).collect());
    let mut next: Vec<Option<usize>> = vec![None; servers.len()];
    for (_, path) in paths {
        for pair in path.windows(2) {
            match next[pair[0]] {
                Some(known) => groups.join(known, pair[1]),
                None => next[pair[0]] = Some(pair[1]),
            }
        }
    }
    let switch = |server: usize| format!("at-{}", servers[groups.of(server)].name);
    let mut latencies: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for (number, server) in servers.iter().enumerate() {
        let list = latencies.entry(groups.of(number)).or_default();
        list.push(server.latency_ns);
    }
    for (first, list) in latencies {
        let latency_ns = list.iter().copied().max().unwrap_or(0);
        let latency_min_ns = list.iter().copied().min().unwrap_or(0);
        if latency_min_ns != latency_ns {
            draft.notes.push(format!(
                "the latencies of the ports of {} differ: each frame takes {latency_min_ns} to {latency_ns} ns",
                switch(first)
            ));
        }
        draft.switches.push(Switch {
            name: switch(first),
            latency_ns,
            latency_min_ns,
            queues: 1,
        });
    }
    let link = |from: String, to: String, rate: Ratio| Link {
        ends: [from, to],
        rate,
        cable_ns: 0,
    };
    let mut drawn: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (number, server) in servers.iter().enumerate() {
        let from = switch(number);
        let Some(to) = next[number].map(switch) else {
            // Nothing follows: its link leads to a host.
            let sink = format!("to-{}", server.name);
            draft.hosts.push(sink.clone());
            draft.links.push(link(from, sink, server.rate));
            continue;
        };
        if from == to {
            return Err(ImportFault::Shape(format!(
                "{} leads to a port of its own switch: no network of switches and links has these paths",
                server.name
            )));
        }
        if let Some(other) = drawn.insert((from.clone(), to.clone()), number) {
            return Err(ImportFault::Shape(format!(
                "{} and {} lead from one switch to the same one: two links in parallel are not supported",
                servers[other].name, server.name
            )));
        }
        match drawn.get(&(to.clone(), from.clone())) {
            Some(back) if servers[*back].rate != server.rate => {
                return Err(ImportFault::Shape(format!(
                    "{} and {} are the two directions of one link, but have different rates",
                    servers[*back].name, server.name
                )));
            }
            Some(_) => {}
            None => draft.links.push(link(from, to, server.rate)),
        }
    }
    let mut routes = Vec::new();
    let mut ends = Vec::new();
    for (name, path) in paths {
        let talker = format!("from-{name}");
        let mut route = vec![talker.clone()];
        route.extend(path.iter().map(|server| switch(*server)));
        let (Some(first), Some(last)) = (path.first(), path.last()) else {
            continue;
        };
        draft.links.push(link(talker.clone(), switch(*first), FAST));
        draft.hosts.push(talker);
        if let Some(following) = next[*last] {
            // Others go on from there; this one ends at a host of its own.
            let beyond = switch(following);
            route.push(beyond.clone());
            let sink = format!("end-{name}");
            route.push(sink.clone());
            ends.push(link(beyond, sink.clone(), FAST));
            draft.hosts.push(sink);
        } else {
            route.push(format!("to-{}", servers[*last].name));
        }
        routes.push(route);
    }
    draft.links.extend(ends);
    Ok(routes)
}
