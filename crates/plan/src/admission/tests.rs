//! Compares admission with planning from scratch, and with the condition computed in exact fractions by other means.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod random;

use std::sync::Arc;

use proptest::prelude::*;
use random::{network, offer, route};

use super::types::RouteHop;
use super::{Admission, AdmissionError, Budgets, Denied, Offer, Route, Ticket};
use crate::bound::exact::curve::{Line, excess};
use crate::bound::exact::dice::Dice;
use crate::bound::graph::{Flow, Graph, Hop, Method, Server};
use crate::bound::tfa::analyse;
use crate::network::Network;
use rtwire_describe::ratio::Ratio;

fn ratio(numerator: u64, bits: u32) -> Ratio {
    Ratio::new(numerator.into(), 1 << bits).unwrap()
}

/// Returns the admitted streams as a graph of servers.
fn graph(admission: &Admission, more: Option<(&Offer, &Route)>) -> Graph {
    let servers = admission.ports.iter().map(|port| Server {
        rate: ratio(port.rate, 10),
        latency: ratio(port.latency, 40),
        latency_min: Ratio::ZERO,
        catches_up: port.least_per_bit == 0,
        classes: port.classes,
        foreign_frame: Ratio::whole(admission.foreign_frame_bits.into()),
        ..Server::default()
    });
    let admitted = admission.streams.iter().flatten();
    let all = admitted
        .map(|record| (&record.offer, &*record.route))
        .chain(more);
    let flows = all.map(|(offer, route)| Flow {
        burst: Ratio::whole(offer.burst_bits.into()),
        rate: ratio(offer.rate_1024, 10),
        frame_max: Ratio::whole(offer.frame_bits.into()),
        frame_min: Ratio::whole(offer.smallest_bits.into()),
        meter: None,
        period: None,
        jitter: Ratio::ZERO,
        hops: route
            .hops
            .iter()
            .map(|hop: &RouteHop| Hop {
                server: hop.port as usize,
                class: admission.ports[hop.port as usize].class(offer.pcp),
                before: (hop.before != super::types::NONE).then_some(usize::from(hop.before)),
            })
            .collect(),
    });
    Graph {
        servers: servers.collect(),
        flows: flows.collect(),
    }
}

/// True if all budgets hold, computed from scratch with `slack` times the exact room.
fn all_fit(admission: &Admission, graph: &Graph, slack: Ratio) -> bool {
    let largest = Ratio::whole(admission.largest_frame_bits.into());
    for (number, port) in admission.ports.iter().enumerate() {
        let server = &graph.servers[number];
        let mut backlog = vec![Vec::new(); port.slots as usize];
        // The network of this test states no least latency; a host is late behind its queue.
        let variation = match server.catches_up {
            true => Ratio::ZERO,
            false => server.latency.minus(server.latency_min).unwrap(),
        };
        for class in 0..port.classes {
            let here = admission.class(port, class);
            let budget = Ratio::from_ns(here.budget_ns);
            let mut groups = Vec::new();
            let (mut later, mut used) = (Ratio::ZERO, false);
            for slot in 0..port.slots {
                let (mut own, mut above) = (Vec::new(), Vec::new());
                for flow in &graph.flows {
                    let mut jitter = vec![Ratio::ZERO; flow.hops.len()];
                    for (at, hop) in flow.hops.iter().enumerate() {
                        if let Some(before) = hop.before {
                            let at_before = &flow.hops[before];
                            let port = &admission.ports[at_before.server];
                            let spent =
                                Ratio::from_ns(admission.class(port, at_before.class).budget_ns);
                            let least = if port.least_per_bit == 0 {
                                Ratio::ZERO
                            } else {
                                flow.frame_min
                                    .over(graph.servers[at_before.server].rate)
                                    .unwrap()
                            };
                            jitter[at] = jitter[before].plus(spent).unwrap().minus(least).unwrap();
                        }
                        let from = hop
                            .before
                            .map_or(0, |at| admission.ports[flow.hops[at].server].slot_behind);
                        if hop.server != number || from != slot {
                            continue;
                        }
                        let window = jitter[at].plus(variation).unwrap();
                        let burst = flow.burst.plus(flow.rate.times(window).unwrap()).unwrap();
                        if class == 0 {
                            backlog[slot as usize].push((burst, flow.rate));
                        }
                        if hop.class == class {
                            used = true;
                            own.push((burst, flow.rate));
                        } else if hop.class > class {
                            above.push((burst, flow.rate));
                        }
                    }
                }
                let sum = |list: &[(Ratio, Ratio)]| {
                    list.iter().fold((Ratio::ZERO, Ratio::ZERO), |sum, one| {
                        (sum.0.plus(one.0).unwrap(), sum.1.plus(one.1).unwrap())
                    })
                };
                let (own, above) = (sum(&own), sum(&above));
                later = later.plus(above.1.times(budget).unwrap()).unwrap();
                let mut lines = vec![Line {
                    burst: own.0.plus(above.0).unwrap(),
                    rate: own.1.plus(above.1).unwrap(),
                }];
                if port.lines {
                    let input = port.inputs[slot as usize];
                    let rate = ratio(input.rate, 10);
                    // In the queue frames follow each other closer than on the link.
                    let closer = rate.times(variation).unwrap();
                    let burst = Ratio::whole(input.burst.into()).plus(closer).unwrap();
                    lines.push(Line {
                        burst: burst.plus(above.0).unwrap(),
                        rate,
                    });
                }
                groups.push(lines);
            }
            if !used {
                continue;
            }
            let low = if class > 0 {
                largest.max(server.foreign_frame)
            } else {
                server.foreign_frame
            };
            let room = server
                .rate
                .times(budget.minus(server.latency).unwrap())
                .unwrap()
                .times(slack)
                .unwrap();
            let Some(bits) = excess(&groups, server.rate, None).unwrap() else {
                return false;
            };
            if bits.plus(later).unwrap().plus(low).unwrap() > room {
                return false;
            }
        }
        let mut groups = Vec::new();
        for (slot, list) in backlog.iter().enumerate() {
            let total = list.iter().fold((Ratio::ZERO, Ratio::ZERO), |sum, one| {
                (sum.0.plus(one.0).unwrap(), sum.1.plus(one.1).unwrap())
            });
            let mut lines = vec![Line {
                burst: total.0,
                rate: total.1,
            }];
            if port.lines {
                let input = port.inputs[slot];
                let rate = ratio(input.rate, 10);
                let closer = rate.times(variation).unwrap();
                lines.push(Line {
                    burst: Ratio::whole(input.burst.into()).plus(closer).unwrap(),
                    rate,
                });
            }
            groups.push(lines);
        }
        if port.memory_bits != u64::MAX {
            let room = Ratio::whole(port.memory_bits.into()).times(slack).unwrap();
            match excess(&groups, server.rate, None).unwrap() {
                Some(bits) if bits <= room => {}
                _ => return false,
            }
        }
    }
    true
}

/// Returns all values that decide, for comparison.
fn sums(admission: &Admission) -> (Vec<super::Sum>, Vec<super::Sum>, Vec<u64>) {
    (
        admission.cells.clone(),
        admission.classes.iter().map(|class| class.total).collect(),
        admission.pools.iter().map(|pool| pool.used_bits).collect(),
    )
}

fn same(a: &Admission, b: &Admission) -> bool {
    sums(a) == sums(b) && a.streams == b.streams && a.free == b.free && a.admitted == b.admitted
}

fn budgets(dice: &mut Dice) -> Budgets {
    let mut budgets = Budgets::default();
    let scale = dice.of(&[1, 2, 5]);
    for delay in &mut budgets.delay_ns {
        *delay *= scale;
    }
    budgets.foreign_wire_bytes = dice.of(&[0, 1_542]);
    budgets
}

/// Makes random offers, removals and changes. Returns the tickets that are valid at the end.
fn play(
    admission: &mut Admission,
    network: &Network,
    steps: u64,
    dice: &mut Dice,
) -> Vec<(Ticket, Offer, Arc<Route>)> {
    let mut there: Vec<(Ticket, Offer, Arc<Route>)> = Vec::new();
    for _ in 0..steps {
        let what = dice.below(8);
        if what == 0 && !there.is_empty() {
            let at = usize::try_from(dice.below(there.len() as u64)).unwrap();
            let (ticket, ..) = there.swap_remove(at);
            admission.remove(ticket).unwrap();
            assert_eq!(admission.remove(ticket), Err(AdmissionError::NoTicket));
        } else if what == 1 && !there.is_empty() {
            let at = usize::try_from(dice.below(there.len() as u64)).unwrap();
            let (offer, route) = (offer(dice), route(admission, network, dice));
            if admission.change(there[at].0, &offer, &route).is_ok() {
                there[at] = (there[at].0, offer, route);
            }
        } else {
            let (offer, route) = (offer(dice), route(admission, network, dice));
            if let Ok(ticket) = admission.offer(&offer, &route) {
                there.push((ticket, offer, route));
            }
        }
    }
    there
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn the_same_as_from_scratch(seed in 1_u64..u64::MAX) {
        let mut dice = Dice(seed);
        let network = network(&mut dice);
        let budgets = budgets(&mut dice);
        let mut admission = Admission::new(&network, &budgets).unwrap();
        let there = play(&mut admission, &network, 60, &mut dice);
        // The survivors in another order, into a fresh one.
        let mut fresh = Admission::new(&network, &budgets).unwrap();
        for (_, offer, route) in there.iter().rev() {
            let again = fresh.offer(offer, route);
            prop_assert!(again.is_ok(), "{:?}", again);
        }
        prop_assert_eq!(sums(&admission), sums(&fresh));
        prop_assert_eq!(admission.len(), there.len());
        let refined = admission.refine(20);
        // One more: the decision is that of the exact condition over all streams.
        for _ in 0..4 {
            let (offer, route) = (offer(&mut dice), route(&admission, &network, &mut dice));
            let offer = Offer { deadline_ns: None, ..offer };
            let with = graph(&admission, Some((&offer, &route)));
            // Each burst at each hop is rounded up to a bit.
            let slack = Ratio::new(9_990, 10_000).unwrap();
            match admission.would_admit(&offer, &route) {
                Ok(()) => prop_assert!(all_fit(&admission, &with, Ratio::ONE)),
                // The pool is counted more carefully than this.
                Err(Denied::SharedBuffer { .. }) => {}
                Err(denied) => prop_assert!(!all_fit(&admission, &with, slack), "{denied}"),
            }
        }
        // Bounds of total flow analysis for all that is there: every budget is kept.
        let graph = graph(&admission, None);
        let bounds = analyse(&graph, Method { aggregates: false, staircase: false, ..Method::FULL }).unwrap();
        for (number, port) in admission.ports.iter().enumerate() {
            for class in 0..port.classes {
                if admission.class(port, class).total.burst == 0 {
                    continue;
                }
                let budget = Ratio::from_ns(admission.class(port, class).budget_ns);
                let delay = bounds[number].classes[usize::from(class)].delay;
                if let Some(delay) = delay {
                    prop_assert!(delay <= budget, "{} {class}: {delay} {budget}", admission.labels[number].name);
                }
            }
        }
        for (ticket, _, route) in &there {
            for listener in 0..route.ends.len() {
                let promise = admission.promise_to_ns(*ticket, listener).unwrap();
                let less = refined.delay_ns(&admission, *ticket, listener).unwrap();
                prop_assert!(less <= promise);
            }
        }
    }

    #[test]
    fn what_if_leaves_no_trace(seed in 1_u64..u64::MAX) {
        let mut dice = Dice(seed);
        let network = network(&mut dice);
        let mut admission = Admission::new(&network, &budgets(&mut dice)).unwrap();
        let there = play(&mut admission, &network, 20, &mut dice);
        let before = admission.clone();
        let outer = admission.mark();
        for (ticket, ..) in there.iter().take(3) {
            admission.remove(*ticket).unwrap();
        }
        let inner = admission.mark();
        let tried = play(&mut admission, &network, 20, &mut dice);
        let kept = dice.below(2) == 0;
        if kept {
            admission.release(inner).unwrap();
        } else {
            admission.undo_to(inner).unwrap();
        }
        admission.undo_to(outer).unwrap();
        prop_assert!(same(&admission, &before));
        for (ticket, ..) in tried {
            prop_assert_eq!(admission.promise_ns(ticket), None);
        }
        prop_assert!(admission.journal.is_empty());
    }
}

/// Returns three switches with links of two rates.
fn line() -> Network {
    crate::read(
        include_str!("../../../../examples/line.toml"),
        "line.toml",
        &[],
    )
    .unwrap()
}

#[test]
fn the_line_example_fits_its_budgets() {
    let mut network = line();
    let plan = crate::plan(&network, &crate::Options::default()).unwrap();
    for stream in &mut network.streams {
        stream.deadline_ns = None;
    }
    let budgets = Budgets {
        largest_wire_bytes: network.streams.iter().map(|s| s.wire_bytes).max().unwrap(),
        foreign_wire_bytes: 0,
        ..Budgets::around(&plan, 3_000)
    };
    let (admission, tickets) = Admission::with_streams(&network, &budgets).unwrap();
    let refined = admission.refine(30);
    for (at, stream) in network.streams.iter().enumerate() {
        for (listener, route) in stream.routes.iter().enumerate() {
            let promise = admission.promise_to_ns(tickets[at], listener).unwrap();
            let budgets: u64 = route
                .windows(2)
                .map(|pair| {
                    let class = crate::network::class_of(stream.pcp, network.queues(&pair[0]));
                    let cable = network.link(&pair[0], &pair[1]).unwrap().cable_delay_ns;
                    admission.budget_ns(&pair[0], &pair[1], class).unwrap() + cable
                })
                .sum();
            assert_eq!(promise, budgets, "{}", stream.name);
            let less = refined.delay_ns(&admission, tickets[at], listener).unwrap();
            assert!(less < promise, "{}: {less} {promise}", stream.name);
        }
    }
}

#[test]
fn every_no_has_its_reason() {
    let mut network = line();
    network.best_effort.clear();
    let mut admission = Admission::new(&network, &Budgets::default()).unwrap();
    let route = admission.route(&network.streams[0].routes).unwrap();
    let good = Offer {
        deadline_ns: None,
        ..Offer::of(&network.streams[0]).unwrap()
    };
    let large = Offer {
        frame_bits: 20_000,
        burst_bits: 20_000,
        ..good
    };
    assert!(matches!(
        admission.offer(&large, &route),
        Err(Denied::FrameTooLarge { .. })
    ));
    let late = Offer {
        deadline_ns: Some(1),
        ..good
    };
    assert!(matches!(
        admission.offer(&late, &route),
        Err(Denied::Deadline { deadline_ns: 1, .. })
    ));
    let fast = Offer {
        rate_1024: 100_000_000_000 << 10,
        ..good
    };
    assert!(matches!(
        admission.offer(&fast, &route),
        Err(Denied::Rate { .. })
    ));
    let bursty = Offer {
        burst_bits: 1 << 30,
        ..good
    };
    let denied = admission.offer(&bursty, &route);
    assert!(matches!(denied, Err(Denied::Budget { .. })), "{denied:?}");
    let absurd = Offer {
        rate_1024: u64::MAX,
        ..good
    };
    assert!(matches!(
        admission.offer(&absurd, &route),
        Err(Denied::Faulty(AdmissionError::Range { .. }))
    ));
    assert!(admission.is_empty());
    let nowhere = admission.route(&[vec!["moon".to_owned(), "mars".to_owned()]]);
    assert!(matches!(nowhere, Err(AdmissionError::NoRoute { .. })));
    let tight = Budgets {
        delay_ns: [1; 8],
        ..Budgets::default()
    };
    assert!(matches!(
        Admission::new(&network, &tight),
        Err(AdmissionError::Range { .. })
    ));
}

#[test]
fn a_mark_is_used_once() {
    let network = line();
    let mut admission = Admission::new(&network, &Budgets::default()).unwrap();
    let outer = admission.mark();
    let inner = admission.mark();
    assert_eq!(admission.undo_to(outer), Err(AdmissionError::NoMark));
    admission.release(inner).unwrap();
}

/// Each end of a link has the map of its own node, by the words of the description.
#[test]
fn each_port_has_the_map_of_its_node() {
    let mut own = 0;
    for seed in 1..=40 {
        let network = random::network(&mut Dice(seed));
        let admission = Admission::new(&network, &Budgets::default()).unwrap();
        let ports = admission
            .numbers
            .iter()
            .flat_map(|(node, to)| to.iter().map(move |(to, number)| (node, to, number)));
        for (node, to, number) in ports {
            let of_switch = network.switches.iter().find(|one| one.name == *node);
            let of_host = network.hosts.iter().find(|one| one.name == *node);
            let (queues, map) = match (of_switch, of_host) {
                (Some(one), _) => (one.queues, one.priority_map),
                (_, Some(one)) => (one.queues, one.priority_map),
                _ => panic!("no node {node}"),
            };
            for pcp in 0..8_u8 {
                let stated = map.map(|map| map[usize::from(pcp)]);
                own += usize::from(stated.is_some());
                let wanted = stated.unwrap_or(pcp * queues / 8);
                let found = admission.ports[*number as usize].class(pcp);
                assert_eq!(found, wanted, "seed {seed}: {node} to {to}, priority {pcp}");
            }
        }
    }
    assert!(own > 1000, "{own}");
}
