//! Tests whether a description may state a network: the rules of time-triggered streams, as the reader of descriptions has them.

use std::collections::BTreeSet;

use crate::network::{Marks, Network};

/// Returns true if the routes and queues of time-triggered and cyclic streams are allowed.
///
/// Each switch on their routes has gates, a gated node has two queues or more, and their queues at gated ports are
/// theirs alone.
pub(super) fn legal(network: &Network) -> bool {
    if !network.cyclic_faults().is_empty() {
        return false;
    }
    let mut taken: BTreeSet<(&str, &str, u8)> = BTreeSet::new();
    let scheduled = || {
        network
            .streams
            .iter()
            .filter(|stream| stream.time_triggered)
    };
    if scheduled().next().is_none() {
        return true;
    }
    for stream in scheduled() {
        for (from, to) in hops(&stream.routes) {
            if network.gates(from).is_none() {
                // Routers, too: they have no gates.
                if network.switch(from).is_some() {
                    return false;
                }
                continue;
            }
            if network.queues(from) < 2 {
                return false;
            }
            taken.insert((from, to, network.class(from, stream.pcp)));
        }
    }
    let routers = network.routers();
    let free = |routes: &[Vec<String>], marks: Marks| {
        let mut hops = routers.hops_of_all(routes, marks);
        hops.all(|(from, to, pcp)| !taken.contains(&(from, to, network.class(from, pcp))))
    };
    let others = network
        .streams
        .iter()
        .filter(|stream| !stream.time_triggered);
    let mut others = others.map(|stream| (&stream.routes, stream.marks()));
    let best_effort = network.best_effort.iter();
    let mut best_effort = best_effort.map(|one| (&one.routes, one.marks()));
    others.all(|(routes, marks)| free(routes, marks))
        && best_effort.all(|(routes, marks)| free(routes, marks))
}

fn hops(routes: &[Vec<String>]) -> impl Iterator<Item = (&str, &str)> {
    let pairs = routes.iter().flat_map(|route| route.windows(2));
    pairs.map(|pair| (pair[0].as_str(), pair[1].as_str()))
}
