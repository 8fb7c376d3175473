//! Random networks, routes and offers.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::VecDeque;
use std::sync::Arc;

use super::super::{Admission, Offer, Route};
use crate::bound::exact::dice::Dice;
use crate::network::{Buffer, Defaults, Host, Link, Network, PriorityMap, Switch};

/// Returns the default map, or one with any queue for each priority.
fn map(dice: &mut Dice, queues: u8) -> Option<PriorityMap> {
    let own = dice.below(2) == 0;
    own.then(|| [0; 8].map(|_: u8| dice.below(u64::from(queues)) as u8))
}

/// Returns some switches, perhaps in a ring, with hosts.
pub(super) fn network(dice: &mut Dice) -> Network {
    let switches = 1 + dice.below(5);
    let hosts = 2 + dice.below(6);
    let mut network = Network {
        name: "random".to_owned(),
        defaults: Defaults {
            frame_overhead_bytes: 24,
            ..Defaults::default()
        },
        ..Network::default()
    };
    let queues = dice.of(&[1, 2, 4, 8]);
    for index in 0..switches {
        network.switches.push(Switch {
            name: format!("s{index}"),
            latency_ns: dice.of(&[0, 0, 5_000]),
            buffer: Buffer {
                bytes: dice.of(&[20_000, 100_000_000]),
                frames: None,
                shared: dice.below(3) == 0,
                ..Default::default()
            },
            queues,
            priority_map: map(dice, queues),
            ..Default::default()
        });
    }
    let mut link = |a: String, b: String, dice: &mut Dice| {
        network.links.push(Link {
            ends: [a, b],
            rate_bps: dice.of(&[100_000_000, 100_000_000, 1_000_000_000]),
            cable_delay_ns: dice.below(500),
        });
    };
    for index in 1..switches {
        link(format!("s{index}"), format!("s{}", dice.below(index)), dice);
    }
    if switches > 2 && dice.below(2) == 0 {
        let (a, b) = ("s0".to_owned(), format!("s{}", switches - 1));
        let known = network
            .links
            .iter()
            .any(|link| link.ends.contains(&a) && link.ends.contains(&b));
        if !known {
            network.links.push(Link {
                ends: [a, b],
                rate_bps: 100_000_000,
                cable_delay_ns: 0,
            });
        }
    }
    for index in 0..hosts {
        network.hosts.push(Host {
            name: format!("h{index}"),
            queues: 8,
            priority_map: map(dice, 8),
            latency_ns: dice.of(&[0, 0, 20_000]),
            ..Default::default()
        });
        network.links.push(Link {
            ends: [format!("h{index}"), format!("s{}", dice.below(switches))],
            rate_bps: 100_000_000,
            cable_delay_ns: 0,
        });
    }
    network
}

/// Returns a random route: breadth first, with the neighbours in another order each time.
fn way(network: &Network, from: &str, to: &str, dice: &mut Dice) -> Vec<String> {
    let mut waiting = VecDeque::from([vec![from.to_owned()]]);
    let mut seen = vec![from.to_owned()];
    while let Some(path) = waiting.pop_front() {
        let at = path.last().unwrap().clone();
        if at == to {
            return path;
        }
        if at.starts_with('h') && at != from {
            continue;
        }
        let mut next: Vec<String> = network
            .links
            .iter()
            .filter(|link| link.ends.contains(&at))
            .map(|link| link.ends[usize::from(link.ends[0] == at)].clone())
            .collect();
        if dice.below(2) == 0 {
            next.reverse();
        }
        for node in next {
            if !seen.contains(&node) {
                seen.push(node.clone());
                waiting.push_back([path.clone(), vec![node]].concat());
            }
        }
    }
    panic!("not connected");
}

pub(super) fn offer(dice: &mut Dice) -> Offer {
    let frame = dice.of(&[84_u64, 152, 400, 1_538]) * 8;
    let smallest = frame.min(dice.of(&[84_u64, 152, 1_538]) * 8);
    Offer {
        frame_bits: u32::try_from(frame).unwrap(),
        smallest_bits: u32::try_from(smallest).unwrap(),
        burst_bits: frame * (1 + dice.below(3)),
        rate_1024: (100_000 + dice.below(12_000_000)) << 10,
        pcp: u8::try_from(dice.below(8)).unwrap(),
        deadline_ns: (dice.below(6) == 0).then(|| 1_000_000 + dice.below(4_000_000)),
    }
}

pub(super) fn route(admission: &Admission, network: &Network, dice: &mut Dice) -> Arc<Route> {
    let hosts = network.hosts.len() as u64;
    let from = dice.below(hosts);
    let mut ways = vec![way(
        network,
        &format!("h{from}"),
        &format!("h{}", (from + 1) % hosts),
        dice,
    )];
    if dice.below(3) == 0 && hosts > 2 {
        let to = format!("h{}", (from + 2) % hosts);
        ways.push(way(network, &format!("h{from}"), &to, dice));
    }
    match admission.route(&ways) {
        Ok(route) => route,
        // Ways on a loop may part and come together again.
        Err(_) => admission.route(&ways[..1]).unwrap(),
    }
}
