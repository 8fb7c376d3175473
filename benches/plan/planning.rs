//! Planning from scratch: a thousand switches, a hundred thousand streams.

use rtwire_measure::bench::Row;
use rtwire_plan::network::{Contract, ContractKind, Semantics, Stream, Transport};
use rtwire_plan::{Network, Options, Ratio, plan};
use rtwire_sim::random::Random;

use crate::admission::{tree, way};
use crate::tools::{against, at_most, peak_mib, timed};

/// Adds random periodic streams between hosts of a tree.
fn with_streams(mut network: Network, layers: &[usize], hosts: usize, count: usize) -> Network {
    let mut random = Random::new(11, 0);
    for index in 0..count {
        let from = random.below(hosts as u64) as usize;
        let mut to = random.below(hosts as u64 - 1) as usize;
        to += usize::from(to >= from);
        let frame_bytes = [64_u64, 128, 256, 512][random.below(4) as usize];
        let wire_bytes = frame_bytes + 24;
        let interval_ns =
            [4_000_000_u64, 8_000_000, 16_000_000, 32_000_000][random.below(4) as usize];
        let wire_bits = i128::from(wire_bytes) * 8;
        let rate = Ratio::new(wire_bits * 1_000_000_000, interval_ns.into()).unwrap();
        let kind = ContractKind::each(interval_ns);
        let contract = Contract::new(rate, wire_bytes, 0, 10_000, kind, Ratio::ZERO).unwrap();
        network.streams.push(Stream {
            name: format!("f{index}"),
            talker: format!("h{from}"),
            talker_index: from,
            listeners: vec![format!("h{to}")],
            listener_indices: vec![to],
            frame_bytes,
            payload_bytes: frame_bytes - 42,
            wire_bytes,
            contract,
            shaped: true,
            pcp: random.below(8) as u8,
            dscp: None,
            deadline_ns: None,
            published_delay_ns: None,
            semantics: Semantics::Queue,
            transport: Transport::Rtdip,
            port: 0,
            vlan: None,
            routes: vec![way(layers, hosts, from, to)],
            smallest_frame_bytes: None,
            time_triggered: false,
            cyclic: false,
            jitter_ns: None,
            copy_of: None,
        });
    }
    network
}

pub(crate) fn rows(quick: bool) -> Vec<Row> {
    let layers: &[usize] = if quick { &[1, 5, 20] } else { &[1, 10, 1000] };
    let (hosts, count) = if quick {
        (160, 2_000)
    } else {
        (7_200, 100_000)
    };
    let network = with_streams(tree(layers, hosts), layers, hosts, count);
    let before = peak_mib();
    let (seconds, outcome) = timed(|| {
        plan(
            &network,
            &Options {
                ignore_limits: true,
                ..Options::default()
            },
        )
    });
    let plan = outcome.unwrap();
    let promised = plan
        .streams
        .iter()
        .flat_map(|stream| &stream.promises)
        .filter(|promise| promise.delay_ns.is_some())
        .count();
    let what = format!(
        "planning from scratch, {} switches, {count} streams",
        network.switches.len()
    );
    vec![
        against(
            at_most(&what, seconds, "s", 3.0, count as u64),
            "promises",
            promised as f64,
        ),
        against(
            at_most(
                &format!("{what}, memory"),
                peak_mib(),
                "MiB",
                953.0,
                count as u64,
            ),
            "before planning",
            before,
        ),
    ]
}
