//! The public generator of schedule synthesis benchmarks, as it is published: topologies, periods, sizes, deadlines.
//!
//! It follows the published description of tsnkit's data set (8 switches, 1 Gbit/s, 2 us in each switch), not its
//! code. A generator of our own draws the numbers, so that instances are of the same kind, not the same.

#![allow(unreachable_pub, reason = "a bench uses this file as well")]

use std::collections::VecDeque;

use rtwire_plan::schedule::board::{Hop, Request};

/// The links between switches. Each set has one host at each switch, or at each leaf of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    Line,
    Ring,
    Tree,
}

/// The periods, sizes and deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 0.5 to 4 ms, 100 to 500 B, deadline = period.
    Easy,
    /// 0.1 to 0.8 ms, 200 to 1500 B, deadline 0.1 to 1.6 ms beyond the delay without waiting.
    Hard,
}

/// An instance: requests, and the number of circles that they name.
pub struct Instance {
    pub requests: Vec<Request>,
    pub circles: usize,
    /// The load of the busiest link in thousandths.
    pub load_permille: u64,
}

const SWITCH_NS: u64 = 2_000;
const QUEUES: usize = 8;

/// Random numbers by SplitMix64.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % limit as u64).unwrap()
    }

    pub(crate) fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

fn joined(topology: Topology, switches: usize) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    if topology == Topology::Tree {
        for node in 0..switches {
            pairs.push((node, 2 * node + 1));
            pairs.push((node, 2 * node + 2));
        }
        return pairs;
    }
    pairs.extend((1..switches).map(|switch| (switch - 1, switch)));
    if topology == Topology::Ring {
        pairs.push((switches - 1, 0));
    }
    pairs.extend((0..switches).map(|switch| (switch, switch + switches)));
    pairs
}

fn shortest(neighbours: &[Vec<usize>], from: usize, to: usize) -> Vec<usize> {
    let mut before = vec![usize::MAX; neighbours.len()];
    let mut waiting = VecDeque::from([from]);
    before[from] = from;
    while let Some(node) = waiting.pop_front() {
        for &next in &neighbours[node] {
            if before[next] == usize::MAX {
                before[next] = node;
                waiting.push_back(next);
            }
        }
    }
    let mut way = vec![to];
    while way[way.len() - 1] != from {
        way.push(before[way[way.len() - 1]]);
    }
    way.reverse();
    way
}

/// Returns one instance.
pub fn instance(
    topology: Topology,
    kind: Kind,
    switches: usize,
    streams: usize,
    seed: u64,
) -> Instance {
    let mut chance = Chance(
        seed.wrapping_mul(0x1234_5678_9abc_def1) ^ streams as u64 ^ ((topology as u64) << 40),
    );
    let pairs = joined(topology, switches);
    let nodes = pairs.iter().map(|(a, b)| a.max(b) + 1).max().unwrap();
    let mut neighbours = vec![Vec::new(); nodes];
    let mut links = std::collections::HashMap::new();
    for (a, b) in pairs {
        neighbours[a].push(b);
        neighbours[b].push(a);
        for pair in [(a, b), (b, a)] {
            let number = links.len();
            links.insert(pair, number);
        }
    }
    let mut requests = Vec::new();
    let mut load = vec![0_u64; links.len()];
    let mut sent = vec![0_u64; switches];
    while requests.len() < streams {
        // Hosts that send less than three quarters of their link, as long as there are some.
        let quiet: Vec<usize> = (0..switches)
            .filter(|host| sent[*host] <= 750_000)
            .collect();
        let talker = if quiet.is_empty() {
            chance.below(switches)
        } else {
            quiet[chance.below(quiet.len())]
        };
        let listener = (talker + 1 + chance.below(switches - 1)) % switches;
        let way = shortest(&neighbours, talker + switches, listener + switches);
        let hops = way.len() as u64 - 1;
        let (period, bytes) = match kind {
            Kind::Easy => (
                chance.of(&[500_000, 1_000_000, 2_000_000, 4_000_000]),
                100 * (1 + chance.below(5) as u64),
            ),
            Kind::Hard => (
                chance.of(&[100_000, 200_000, 400_000, 800_000]),
                100 * (2 + chance.below(14) as u64),
            ),
        };
        let sending = bytes * 8;
        let deadline = match kind {
            Kind::Easy => period,
            Kind::Hard => {
                hops * (SWITCH_NS + sending)
                    + chance.of(&[100_000, 200_000, 400_000, 800_000, 1_600_000])
            }
        };
        if deadline > period {
            continue;
        }
        sent[talker] += sending * 1_000_000 / period;
        let number = requests.len();
        let list = way.windows(2).enumerate().map(|(at, pair)| {
            let link = links[&(pair[0], pair[1])];
            load[link] += sending * 1_000_000 / period;
            let ahead = if at == 0 { 0 } else { SWITCH_NS + sending };
            Hop {
                before: at.checked_sub(1),
                link,
                queue: (at > 0).then(|| links.len() + link * QUEUES + number % QUEUES),
                early_ns: i64::try_from(ahead).unwrap(),
                late_ns: ahead,
                length_ns: sending,
                hold_ns: 0,
                latest_ns: (at as u64 + 1 == hops).then(|| deadline - sending - SWITCH_NS),
            }
        });
        requests.push(Request {
            period_ns: period,
            hops: list.collect(),
            waits: true,
        });
    }
    Instance {
        requests,
        circles: links.len() * (1 + QUEUES),
        load_permille: load.iter().max().unwrap() / 1000,
    }
}
