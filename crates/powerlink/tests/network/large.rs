//! Many nodes, and many cycles.

use crate::harness::*;
use rtwire_powerlink::{Event, NodeEvent};

#[test]
fn two_hundred_nodes() {
    let nodes: Vec<u8> = (1..=200).collect();
    let mut network = network(20_000, &nodes, |_| ());
    let took_ns = network.run_till(600 * SECOND, "operational", Network::operational);
    println!("200 nodes are operational after {} ms", took_ns / MS);
    // One command leaves in a cycle: 200 to become ready and 200 to start take 8 s. Nobody is begun anew on the way.
    let lost = |_: usize, event: &Event| {
        matches!(
            event,
            Event::Node {
                what: NodeEvent::Lost(_),
                ..
            }
        )
    };
    assert_eq!(network.happened(lost), None);
    network.run(2 * SECOND);
    let statistics = network.mn().statistics();
    assert_eq!(
        (statistics.lost_responses, statistics.late_responses),
        (0, 0)
    );
    assert!(network.operational());
}

/// `RTWIRE_POWERLINK_HOURS` (default: one minute) of a cycle of 1 ms, exact to the nanosecond.
#[test]
fn a_day_of_cycles() {
    let hours = std::env::var("RTWIRE_POWERLINK_HOURS").ok();
    let hours: Option<u64> = hours.and_then(|hours| hours.parse().ok());
    let ns = hours.map_or(60 * SECOND, |hours| hours * 3600 * SECOND);
    let mut network = network(1000, &[1], |_| ());
    network.run_till(5 * SECOND, "operational", Network::operational);
    network.keep_events = false;
    let before = network.mn().statistics().cycles;
    let began = std::time::Instant::now();
    network.run(ns);
    let statistics = network.mn().statistics();
    assert_eq!(statistics.cycles - before, ns / MS);
    assert_eq!(
        (statistics.lost_responses, statistics.skipped_cycles),
        (0, 0)
    );
    assert_eq!(network.cn(1).statistics().lost_soc, 0);
    assert!(network.operational());
    println!("{} cycles in {:?}", ns / MS, began.elapsed());
}
