//! Routers in the simulator: each frame is in the queue of the priority that the last router gave it.

use crate::common;
use crate::routed_networks::{routed, switched, without_tables};
use crate::searched;

use common::networks::{random_description, random_line, random_ring};
use common::{network, promises};
use rtwire_plan::Network;
use rtwire_sim::random::Random;
use searched::searched;

const MS: u64 = 1_000_000_000;

fn random_network(seed: u64) -> Option<[Network; 2]> {
    let kinds = [random_description, random_ring, random_line];
    let mut random = Random::new(seed, 31);
    let plain = network(&kinds[(seed % 3) as usize](&mut random));
    let routed = routed(&plain, &mut |limit| random.below(limit));
    assert_eq!(routed.check(), Ok(()), "seed {seed}");
    // On a ring a stream may pass a router twice, with another queue each time: no map of priorities says that.
    let switches = switched(&routed)?;
    Some([routed, switches])
}

/// Bursts and a search end with the same delays and the same backlogs as those of switches at which the queue of each stream is
/// stated. Nothing exceeds a promise. What was promised without the tables is exceeded.
#[test]
fn a_routed_network_is_played_as_switches_with_stated_queues() {
    let (mut compared, mut near, mut broken) = (0, 0, 0);
    for seed in 0..90 {
        let Some([routed, switches]) = random_network(seed) else {
            continue;
        };
        let plan = promises(&routed);
        let ours = searched(&routed, &plan, 60, 20 * MS);
        let theirs = searched(&switches, &promises(&switches), 60, 20 * MS);
        assert_eq!(ours.streams, theirs.streams, "seed {seed}");
        assert_eq!(ours.ports, theirs.ports, "seed {seed}");
        compared += 1;
        for stream in ours.streams.iter().filter(|stream| !stream.best_effort) {
            assert!(!stream.violated, "seed {seed}: {stream:?}");
            let worst = stream.worst_delay_ps.unwrap_or(0);
            let promised = stream.promised_delay_ns.map(|ns| ns * 1_000);
            near += u64::from(promised.is_some_and(|promised| worst * 10 >= promised * 8));
        }
        let mut plain = routed.clone();
        without_tables(&mut plain);
        let report = searched(&routed, &promises(&plain), 60, 20 * MS);
        broken += u64::from(report.streams.iter().any(|stream| stream.violated));
    }
    println!(
        "{compared} networks, {near} promises used to 80 %, {broken} exceed those without tables"
    );
    assert!(
        compared > 60 && near > 60 && broken > 3,
        "{compared} {near} {broken}"
    );
}
