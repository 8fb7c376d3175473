//! Segments whose bounds are computed by hand, by the formula in this module's documentation. Every term is seen.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use super::*;
use crate::bound::graph::{Flow, Server};

const SHORT: i128 = 1_000;
const LONG: i128 = 12_000;

fn port(mbit: i128) -> Server {
    Server {
        rate: Ratio::whole(mbit * 1_000_000),
        classes: 2,
        ..Server::default()
    }
}

/// A flow with frames of `bits`, bursts of `frames`, and a rate in kbit/s, by these servers in one class.
fn flow((bits, frames, kbit): (i128, i128, i128), class: u8, servers: &[usize]) -> Flow {
    let hops = servers.iter().enumerate().map(|(at, server)| Hop {
        server: *server,
        class,
        before: at.checked_sub(1),
    });
    Flow {
        burst: Ratio::whole(bits * frames),
        rate: Ratio::whole(kbit * 1_000),
        frame_max: Ratio::whole(bits),
        frame_min: Ratio::whole(bits),
        period: None,
        jitter: Ratio::ZERO,
        meter: None,
        hops: hops.collect(),
    }
}

fn graph(servers: Vec<Server>, flows: Vec<Flow>) -> Graph {
    Graph { servers, flows }
}

/// The bound of the first flow over its first two hops, in nanoseconds, rounded up.
fn delay_ns(graph: &Graph) -> u64 {
    let mut segments = Segments::new(graph, Method::FULL, 1_000).unwrap();
    let delay = segments.delay(0, &[0, 1]).unwrap().unwrap();
    delay.ceil_ns().unwrap()
}

/// Rounding to the units of `fixed` adds less than this, ns.
const ROUNDING_NS: u64 = 2;

#[track_caller]
fn assert_is(found_ns: u64, by_hand_ns: u64) {
    assert!(
        (by_hand_ns..=by_hand_ns + ROUNDING_NS).contains(&found_ns),
        "{found_ns} ns, by hand {by_hand_ns} ns"
    );
}

const OWN: (i128, i128, i128) = (SHORT, 10, 1_000);

#[test]
fn the_slowest_port_of_a_row_serves_its_burst() {
    // Wherever it is: L/C of the first port, and 10 frames at 10 Mbit/s.
    let both = |first, last| graph(vec![port(first), port(last)], vec![flow(OWN, 0, &[0, 1])]);
    assert_is(delay_ns(&both(10, 100)), 100_000 + 1_000_000);
    assert_is(delay_ns(&both(100, 10)), 10_000 + 1_000_000);
}

#[test]
fn others_of_the_class_take_their_rate_and_their_burst() {
    let other = flow((SHORT, 2, 50_000), 0, &[0]);
    let graph = graph(
        vec![port(100), port(100)],
        vec![flow(OWN, 0, &[0, 1]), other],
    );
    // b_X / C, L / C, and the burst at C - r_X.
    assert_is(delay_ns(&graph), 20_000 + 10_000 + 200_000);
}

#[test]
fn classes_above_take_their_rate_from_all_that_is_behind() {
    let above = flow((SHORT, 2, 50_000), 1, &[0]);
    let graph = graph(
        vec![port(100), port(100)],
        vec![flow(OWN, 0, &[0, 1]), above],
    );
    // b_H / (C - r_H), L / C, and the burst at C - r_H.
    assert_is(delay_ns(&graph), 40_000 + 10_000 + 200_000);
}

#[test]
fn the_next_port_waits_for_the_longest_frame_of_the_sharers() {
    let long = flow((LONG, 1, 1_000), 0, &[0, 1]);
    let graph = graph(
        vec![port(100), port(100)],
        vec![flow((SHORT, 1, 1_000), 0, &[0, 1]), long],
    );
    // L / C of the long frame, and both bursts.
    assert_is(delay_ns(&graph), 120_000 + 130_000);
}

#[test]
fn a_port_with_a_credit_serves_at_its_idle_slope() {
    let mut shaped = port(100);
    shaped.shapers[0] = ClassShaper::Credit {
        idle_slope: Ratio::whole(50_000_000),
    };
    shaped.foreign_frame = Ratio::whole(LONG);
    let first = flow((SHORT, 9, 1_000), 0, &[0]);
    let second = flow((SHORT, 5, 1_000), 0, &[1]);
    let graph = graph(
        vec![port(100), shaped],
        vec![flow(OWN, 0, &[0, 1]), first, second],
    );
    // Port 0: b_X / C and L / C. Port 1: L_low / C, b_X / I, and the burst at I - r_X, which is the least rate.
    let by_hand = 90_000 + 10_000 + 120_000 + 100_000 + 204_082;
    assert_is(delay_ns(&graph), by_hand);
}

#[test]
fn a_port_with_regulators_is_in_no_segment() {
    let mut shaped = port(100);
    shaped.shapers[0] = ClassShaper::Regulated;
    let other = flow((SHORT, 9, 1_000), 0, &[0]);
    let graph = graph(vec![port(100), shaped], vec![flow(OWN, 0, &[0, 1]), other]);
    let mut segments = Segments::new(&graph, Method::FULL, 1_000).unwrap();
    assert_eq!(segments.delay(0, &[0, 1]), Ok(None));
    assert_eq!(segments.own(0, 1), Ok(None));
    assert!(segments.delay(0, &[0]).unwrap().is_some());
}

#[test]
fn the_bound_of_one_hop_leaves_the_others_as_they_were() {
    // The first flow gains jitter at port 0 and brings it to port 1, which is in the way of the third.
    let graph = graph(
        vec![port(100), port(100), port(100)],
        vec![
            flow((SHORT, 10, 40_000), 0, &[0, 1]),
            flow((SHORT, 50, 40_000), 0, &[0]),
            flow((SHORT, 1, 1_000), 0, &[1, 2]),
        ],
    );
    let fresh = || Segments::new(&graph, Method::FULL, 1_000).unwrap();
    let mut used = fresh();
    let own = used.own(0, 1).unwrap().unwrap();
    assert!(own < used.ports()[1].classes[0].delay.unwrap());
    assert_eq!(used.delay(2, &[0, 1]), fresh().delay(2, &[0, 1]));
}

#[test]
fn work_is_counted_and_ends() {
    let graph = graph(
        vec![port(100), port(100)],
        vec![flow(OWN, 0, &[0, 1]), flow(OWN, 0, &[0, 1])],
    );
    // Two flows at each of two ports.
    let mut segments = Segments::new(&graph, Method::FULL, 5).unwrap();
    assert!(segments.delay(0, &[0, 1]).unwrap().is_some());
    assert!(!segments.is_exhausted());
    // What is known costs nothing.
    assert!(segments.delay(1, &[0, 1]).unwrap().is_some());
    assert!(!segments.is_exhausted());
    assert!(segments.delay(0, &[0]).unwrap().is_some());
    assert!(segments.is_exhausted());
    // Nothing new is found out, and what is known is still told: a certificate asks for it again.
    assert_eq!(segments.delay(0, &[1]), Ok(None));
    assert!(segments.delay(0, &[0, 1]).unwrap().is_some());
}

#[test]
fn a_route_is_cut_where_the_sum_is_least() {
    let cut = |costs: &dyn Fn(usize, usize) -> Option<u64>| {
        super::cut::<()>(3, |first, last| Ok(costs(first, last))).unwrap()
    };
    // Of equal sums the one with short pieces.
    let length = |first: usize, last: usize| Some((last - first + 1) as u64);
    assert_eq!(cut(&length), Some((vec![0, 1, 2], 3)));
    // The last two together cost less than apart by 1.
    let together = |first, last| match (first, last) {
        (1, 2) => Some(19),
        (first, last) if first == last => Some(10),
        _ => None,
    };
    assert_eq!(cut(&together), Some((vec![0, 2], 29)));
    assert_eq!(cut(&|_, _| None), None);
}
