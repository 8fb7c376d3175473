//! The number of random networks that exceed promises that were made for other ones.

use crate::common;
use crate::searched;

use common::networks::{random_description, random_line, random_ring, random_shaped_ways};
use common::{network, promises};
use rtwire_plan::Network;
use rtwire_sim::random::Random;
use rtwire_sim::report::PortReport;
use searched::searched;

const MS: u64 = 1_000_000_000;

/// Returns the numbers of random networks, and of those in which a search exceeds a delay and a memory of the plan of
/// `planned`, while what is played is the network itself.
pub(crate) fn exceeded(
    networks: u64,
    simulations: u64,
    change: impl Fn(&mut Network, bool),
) -> [u64; 3] {
    let kinds: [fn(&mut Random) -> String; 4] = [
        random_description,
        random_ring,
        random_line,
        random_shaped_ways,
    ];
    let mut counts = [0; 3];
    for seed in 0..networks {
        let describe = kinds[(seed % 4) as usize];
        let mut played = network(&describe(&mut Random::new(seed, 17)));
        change(&mut played, false);
        let mut planned = played.clone();
        change(&mut planned, true);
        let plan = promises(&planned);
        let report = searched(&played, &plan, simulations, 20 * MS);
        let late = report.streams.iter().any(|stream| stream.violated);
        let mut classes = report.ports.iter().flat_map(|port| &port.classes);
        let class = classes.any(|class| class.violated);
        let over = |port: &PortReport| {
            let needs = port.promised_backlog_bytes;
            needs.is_some_and(|needs| port.highest_backlog_bytes > needs)
        };
        counts[0] += 1;
        counts[1] += u64::from(late || class);
        counts[2] += u64::from(report.ports.iter().any(over));
    }
    counts
}
