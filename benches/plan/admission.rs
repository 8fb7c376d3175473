//! Admission: a million streams offered to a network of a thousand switches.

use std::sync::Arc;
use std::time::Instant;

use rtwire_measure::bench::Row;
use rtwire_plan::admission::{Admission, Budgets, Offer, Route, Ticket};
use rtwire_plan::network::{Buffer, Defaults, Host, Link, Network, Switch};
use rtwire_sim::random::Random;

use crate::tools::{against, at_least, at_most, judged, quantile, timed};

/// Returns a tree: switches in layers, hosts at the lowest. Links have 1, 10, 100 Gbit/s upwards.
pub(crate) fn tree(layers: &[usize], hosts: usize) -> Network {
    let mut network = Network {
        name: "tree".to_owned(),
        defaults: Defaults {
            frame_overhead_bytes: 24,
            ..Defaults::default()
        },
        ..Network::default()
    };
    let mut first_above = 0;
    let mut first = 0;
    for (depth, count) in layers.iter().enumerate() {
        for index in 0..*count {
            let name = format!("s{}", first + index);
            if depth > 0 {
                let above = layers[depth - 1];
                let parent = first_above + index * above / count;
                network.links.push(Link {
                    ends: [name.clone(), format!("s{parent}")],
                    rate_bps: if depth == 1 {
                        100_000_000_000
                    } else {
                        10_000_000_000
                    },
                    cable_delay_ns: 500,
                });
            }
            network.switches.push(Switch {
                name,
                latency_ns: 2_000,
                buffer: Buffer {
                    bytes: 64 << 20,
                    frames: None,
                    shared: false,
                    ..Default::default()
                },
                queues: 4,
                priority_map: None,
                ..Default::default()
            });
        }
        first_above = first;
        first += count;
    }
    let leaves = *layers.last().unwrap();
    for host in 0..hosts {
        let name = format!("h{host}");
        network.hosts.push(Host {
            name: name.clone(),
            queues: 4,
            priority_map: None,
            latency_ns: 0,
            ..Default::default()
        });
        network.links.push(Link {
            ends: [name, format!("s{}", first_above + host * leaves / hosts)],
            rate_bps: 1_000_000_000,
            cable_delay_ns: 50,
        });
    }
    network
}

/// Returns the path between two hosts of [`tree`].
pub(crate) fn way(layers: &[usize], hosts: usize, from: usize, to: usize) -> Vec<String> {
    let leaves = *layers.last().unwrap();
    let first: Vec<usize> = layers
        .iter()
        .scan(0, |sum, count| {
            let here = *sum;
            *sum += count;
            Some(here)
        })
        .collect();
    let climb = |host: usize| {
        let mut index = host * leaves / hosts;
        let mut way = Vec::new();
        for depth in (0..layers.len()).rev() {
            way.push(first[depth] + index);
            if depth > 0 {
                index = index * layers[depth - 1] / layers[depth];
            }
        }
        way
    };
    let (mut up, mut down) = (climb(from), climb(to));
    while up.len() > 1 && down.len() > 1 && up[up.len() - 2] == down[down.len() - 2] {
        up.pop();
        down.pop();
    }
    if up.last() == down.last() {
        down.pop();
    }
    let mut names = vec![format!("h{from}")];
    names.extend(
        up.into_iter()
            .chain(down.into_iter().rev())
            .map(|at| format!("s{at}")),
    );
    names.push(format!("h{to}"));
    names
}

/// Returns offers of small periodic control frames, at all priorities.
fn offers(
    admission: &Admission,
    layers: &[usize],
    hosts: usize,
    count: usize,
) -> Vec<(Offer, Arc<Route>)> {
    let mut random = Random::new(7, 0);
    (0..count)
        .map(|_| {
            let from = random.below(hosts as u64) as usize;
            let mut to = random.below(hosts as u64 - 1) as usize;
            to += usize::from(to >= from);
            let route = admission.route(&[way(layers, hosts, from, to)]).unwrap();
            let frame = [84_u64, 128, 200, 324][random.below(4) as usize] * 8;
            let period_us = [5_000_u64, 10_000, 20_000, 40_000, 80_000][random.below(5) as usize];
            let offer = Offer {
                frame_bits: frame as u32,
                smallest_bits: frame as u32,
                burst_bits: frame + 100,
                rate_1024: (frame * 1_000_000 / period_us + 1) << 10,
                pcp: random.below(8) as u8,
                deadline_ns: None,
            };
            (offer, route)
        })
        .collect()
}

pub(crate) fn rows(quick: bool) -> Vec<Row> {
    let layers: &[usize] = if quick { &[1, 5, 20] } else { &[1, 10, 1000] };
    let (hosts, count) = if quick {
        (160, 5_000)
    } else {
        (7_200, 1_000_000)
    };
    let network = tree(layers, hosts);
    let budgets = Budgets::default();
    let mut admission = Admission::new(&network, &budgets).unwrap();
    let offers = offers(&admission, layers, hosts, count);
    let hops: usize = offers.iter().map(|(_, route)| route.hop_count()).sum();
    let mean_hops = hops as f64 / count as f64;
    let empty = admission.clone();

    // All in one go for the sum, then one by one for the distribution: reading the clock takes as long as a decision.
    let (total_s, tickets) = timed(|| {
        offers
            .iter()
            .map(|(offer, route)| admission.offer(offer, route).ok())
            .collect::<Vec<Option<Ticket>>>()
    });
    let accepted = tickets.iter().flatten().count();
    let what = format!(
        "{} switches, {} ports, {mean_hops:.1} hops, {count} offered",
        network.switches.len(),
        admission.port_count()
    );
    let mut again = empty.clone();
    let mut samples: Vec<u64> = offers
        .iter()
        .map(|(offer, route)| {
            let start = Instant::now();
            let _ = std::hint::black_box(again.offer(offer, route));
            u64::try_from(start.elapsed().as_nanos()).unwrap()
        })
        .collect();
    samples.sort_unstable();
    drop(again);

    let mark = admission.mark();
    let (remove_s, ()) = timed(|| {
        for ticket in tickets.iter().flatten() {
            admission.remove(*ticket).unwrap();
        }
    });
    let emptied = admission.is_empty();
    let (undo_s, ()) = timed(|| admission.undo_to(mark).unwrap());
    let (refine_s, refined) = timed(|| admission.refine(30));
    let (mut budgets_ns, mut refined_ns) = (0_u128, 0_u128);
    for ticket in tickets.iter().flatten() {
        budgets_ns += u128::from(admission.promise_ns(*ticket).unwrap());
        refined_ns += u128::from(refined.delay_ns(&admission, *ticket, 0).unwrap());
    }
    let below = 100.0 * (1.0 - refined_ns as f64 / budgets_ns as f64);
    let per = 1e9 / count as f64;
    let samples_count = count as u64;
    let limit = if quick { f64::INFINITY } else { 1.0 };
    vec![
        against(
            at_most(
                &format!("admission, {what}"),
                total_s,
                "s",
                limit,
                samples_count,
            ),
            "accepted",
            accepted as f64,
        ),
        at_most(
            "admission, mean decision",
            total_s * per / 1e3,
            "µs",
            1.0,
            samples_count,
        ),
        at_most(
            "admission, p99 decision (with the clock's own time)",
            quantile(&samples, 0.99) as f64 / 1e3,
            "µs",
            4.0,
            samples_count,
        ),
        judged(
            "admission, removal, mean",
            remove_s * 1e6 / accepted as f64,
            "µs",
            "all can be removed".to_owned(),
            emptied,
            accepted as u64,
        ),
        judged(
            "admission, exact undo of all removals, mean",
            undo_s * 1e6 / accepted as f64,
            "µs",
            "as many as before".to_owned(),
            admission.len() == accepted,
            accepted as u64,
        ),
        against(
            at_least(
                "admission, refined end-to-end bounds below the budgets",
                below,
                "%",
                40.0,
                accepted as u64,
            ),
            "seconds for all",
            refine_s,
        ),
    ]
}
