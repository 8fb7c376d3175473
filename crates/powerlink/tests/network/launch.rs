//! SoC that are handed over ahead of their instant, to something that lets them leave then (`lead_ns`).

use crate::harness::{MS, Network, Station, US, address, cn, mn_cdc};
use rtwire_powerlink::ManagingNode;
use rtwire_powerlink::mn::ManagingConfig;
use rtwire_wire::Node;
use rtwire_wire::powerlink::{MessageType, View};

const LEAD_NS: u64 = 400 * US;

fn network(nodes: &[u8], lead_ns: u64) -> Network {
    let cdc = mn_cdc(1000, nodes, |_| {});
    let mut config = ManagingConfig::from_cdc(address(240), &cdc).unwrap();
    config.lead_ns = lead_ns;
    let mut stations = vec![Station::Mn(Box::new(ManagingNode::new(config).unwrap()))];
    stations.extend(nodes.iter().map(|&node| Station::Cn(Box::new(cn(node)))));
    let mut network = Network::new(stations);
    network.run_till(20_000 * MS, "operational", Network::operational);
    network
}

/// Returns the times at which frames of the managing node left: SoC, and first requests behind them.
fn sent(network: &Network) -> (Vec<u64>, Vec<u64>) {
    let (mut soc, mut first) = (Vec::new(), Vec::new());
    for (at_ns, frame) in network.record.as_deref().unwrap_or_default() {
        match View::new(frame).message_type() {
            Some(MessageType::SOC) => soc.push(*at_ns),
            Some(MessageType::PREQ) if first.len() < soc.len() => first.push(*at_ns),
            _ => {}
        }
    }
    (soc, first)
}

fn on_the_grid(soc: &[u64]) -> bool {
    soc.windows(2).all(|pair| pair[1] - pair[0] == MS)
}

#[test]
fn the_cycle_begins_when_the_soc_leaves_not_when_it_is_handed_over() {
    let mut network = network(&[1, 2], LEAD_NS);
    network.record = Some(Vec::new());
    let mut awaited = 0;
    for _ in 0..1000 {
        network.run(100 * US);
        let mn = network.mn();
        awaited += usize::from(mn.wake_at_ns() == Some(mn.next_soc_ns() - LEAD_NS));
    }
    assert!(awaited > 300, "woken ahead {awaited} times of 1000");
    let (soc, first) = sent(&network);
    assert!(soc.len() >= 99 && on_the_grid(&soc), "{soc:?}");
    for (soc, first) in soc.iter().zip(&first) {
        assert_eq!(first - soc, 10 * US);
    }
    // From a request's leaving, not from when its cycle was begun.
    let latency_ns = network.mn().nodes().map(|node| node.latency_ns).max();
    assert!(latency_ns < Some(60 * US), "{latency_ns:?}");
    assert_eq!(network.mn().statistics().own_stalls, 0);
}

#[test]
fn who_wakes_within_the_lead_is_in_time() {
    let mut network = network(&[1, 2], LEAD_NS);
    // The responses of a cycle are there 100 µs behind its SoC.
    let soc_ns = network.mn().next_soc_ns();
    network.run_until(soc_ns + 100 * US);
    network.record = Some(Vec::new());
    for _ in 0..50 {
        let soc_ns = network.mn().next_soc_ns();
        network.stalled_ns[0] = soc_ns - 50 * US;
        network.run_until(soc_ns + 100 * US);
    }
    let (soc, _) = sent(&network);
    assert!(soc.len() >= 50 && on_the_grid(&soc), "{soc:?}");
    assert!(network.operational());
    let statistics = network.mn().statistics();
    assert_eq!((statistics.own_stalls, statistics.skipped_cycles), (0, 0));
}

#[test]
fn requests_and_responses_may_last_into_the_lead() {
    // More than the cycle has half of which counts.
    let nodes: Vec<u8> = (1..=8).collect();
    let mut network = network(&nodes, 900 * US);
    for reaction_ns in &mut network.reaction_ns[1..] {
        *reaction_ns = 70 * US;
    }
    network.run(10 * MS);
    network.record = Some(Vec::new());
    let before = network.mn().statistics();
    network.run(200 * MS);
    assert!(network.operational());
    let after = network.mn().statistics();
    assert_eq!(after.skipped_cycles, before.skipped_cycles);
    assert_eq!(after.lost_responses, before.lost_responses);
    let (soc, _) = sent(&network);
    assert!(soc.len() >= 199 && on_the_grid(&soc), "{soc:?}");
    let responses = |network: &Network| {
        let record = network.record.as_deref().unwrap_or_default();
        let kinds = record
            .iter()
            .map(|(_, frame)| View::new(frame).message_type());
        kinds
            .filter(|kind| *kind == Some(MessageType::PRES))
            .count()
    };
    assert!(responses(&network) >= 8 * 199);
}
