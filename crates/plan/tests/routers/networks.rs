//! Networks with routers, and the same ones without any: each node's map of priorities says the queue of each stream there.
//!
//! It has its own walk along the routes, and none of the code of routers.

use std::collections::BTreeMap;

use rtwire_plan::network::{CutThrough, Network, Routing, Transport};

/// Code points that are drawn often, so that tables meet what streams have.
const CODES: [u8; 8] = [0, 8, 10, 26, 34, 40, 46, 63];
/// Priorities 1 to 7 of a map, one for each stream. Priority 0 is that of best effort.
pub(crate) const MOST_STREAMS: usize = 7;

fn code(draw: &mut dyn FnMut(u64) -> u64) -> u8 {
    CODES[usize::try_from(draw(CODES.len() as u64)).unwrap()]
}

fn below(draw: &mut dyn FnMut(u64) -> u64, limit: u64) -> u8 {
    u8::try_from(draw(limit)).unwrap()
}

/// Makes most switches routers with random tables. Streams that pass one are carried by UDP, some with a DSCP of their own. Keeps
/// at most seven streams and one best effort.
pub(crate) fn routed(plain: &Network, draw: &mut dyn FnMut(u64) -> u64) -> Network {
    let mut network = plain.clone();
    network.streams.truncate(MOST_STREAMS);
    network.best_effort.truncate(1);
    for allowance in &mut network.best_effort {
        allowance.to.truncate(1);
        allowance.routes.truncate(1);
    }
    // Several queues at most nodes, so that a priority matters.
    let strict = draw(4) > 0;
    for switch in &mut network.switches {
        if strict && switch.priority_map.is_none() {
            switch.queues = 3 + below(draw, 6);
        }
        if draw(3) == 0 {
            continue;
        }
        switch.cut_through = CutThrough::Off;
        switch.ports.iter_mut().for_each(|it| it.cut_through = None);
        let mut routing = Routing::default();
        for _ in 0..draw(6) {
            let from = code(draw);
            routing.priorities.insert(from, below(draw, 8));
        }
        for _ in 0..draw(4) {
            let from = code(draw);
            routing.remark.insert(from, code(draw));
        }
        switch.routing = Some(routing);
    }
    let routers: Vec<String> = network
        .switches
        .iter()
        .filter(|it| it.routing.is_some())
        .map(|it| it.name.clone())
        .collect();
    for stream in &mut network.streams {
        if stream
            .routes
            .iter()
            .flatten()
            .any(|it| routers.contains(it))
        {
            stream.transport = Transport::Udp;
            stream.dscp = (draw(3) > 0).then(|| code(draw));
        }
    }
    network
}

/// Takes the tables away that give priorities and re-mark: all routers read the class selector.
pub(crate) fn without_tables(network: &mut Network) {
    for switch in &mut network.switches {
        switch.routing = switch.routing.as_ref().map(|_| Routing::default());
    }
}

/// Returns the network with switches in place of its routers. Each stream has a priority of its own, and each node a map with the
/// queue that this stream has there. `None` if a stream has two queues at a node.
pub(crate) fn switched(network: &Network) -> Option<Network> {
    assert!(network.streams.len() <= MOST_STREAMS && network.shapers.is_empty());
    let mut tables: BTreeMap<&str, &Routing> = BTreeMap::new();
    let mut queues: BTreeMap<&str, (u8, Option<[u8; 8]>)> = BTreeMap::new();
    for host in &network.hosts {
        queues.insert(&host.name, (host.queues, host.priority_map));
    }
    for switch in &network.switches {
        queues.insert(&switch.name, (switch.queues, switch.priority_map));
        if let Some(routing) = &switch.routing {
            tables.insert(&switch.name, routing);
        }
    }
    let mut found: BTreeMap<(&str, usize), u8> = BTreeMap::new();
    // Best effort is number 0, streams count from 1.
    let none = Vec::new();
    let best = network.best_effort.first().map_or(&none, |one| &one.routes);
    let mut flows = vec![(best, 0, 0)];
    for one in &network.streams {
        flows.push((&one.routes, one.pcp, one.dscp.unwrap_or(one.pcp * 8)));
    }
    for (number, (routes, first_priority, first_code)) in flows.into_iter().enumerate() {
        for route in routes {
            let (mut priority, mut code) = (first_priority, first_code);
            for node in &route[..route.len() - 1] {
                if let Some(table) = tables.get(node.as_str()) {
                    priority = match table.priorities.get(&code) {
                        Some(stated) => *stated,
                        None => code / 8,
                    };
                    if let Some(other) = table.remark.get(&code) {
                        code = *other;
                    }
                }
                let (count, map) = queues[node.as_str()];
                let queue = match map {
                    Some(map) => map[usize::from(priority)],
                    None => priority * count / 8,
                };
                if *found.entry((node, number)).or_insert(queue) != queue {
                    return None;
                }
            }
        }
    }
    let map = |node: &str| {
        let mut map = [0; 8];
        for (number, place) in map.iter_mut().enumerate() {
            *place = found.get(&(node, number)).copied().unwrap_or(0);
        }
        Some(map)
    };
    let mut other = network.clone();
    for host in &mut other.hosts {
        host.priority_map = map(&host.name);
    }
    for switch in &mut other.switches {
        switch.priority_map = map(&switch.name);
        switch.routing = None;
    }
    for (at, stream) in other.streams.iter_mut().enumerate() {
        stream.pcp = u8::try_from(at + 1).unwrap();
        stream.dscp = None;
        stream.transport = Transport::Rtdip;
    }
    Some(other)
}
