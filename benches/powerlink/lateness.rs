//! Is a controlled node in user space late more often than it must be?
//!
//! Our node and the plainest one in C take turns under the same managing node, on the same machine. The plain node only waits
//! for a frame and sends another one that is ready. A stack of POWERLINK does more, so it is late no less often. A
//! response counts as late if it has not come within [`TIMEOUT_US`], whether it comes at all or not.
//!
//! Late responses come in bursts, with the machine's stalls. So a difference is judged by rounds, not by responses: if both
//! nodes were alike, each round could as well have gone the other way round.

use crate::rig::{Path, Rig, Scenario};
use rtwire_measure::bench::{Compared, Row};
use std::collections::BTreeMap;
use std::time::Duration;

/// The response timeout (object 1F92h) of the other stack's stock configuration, µs.
const TIMEOUT_US: u64 = 200;
/// A difference that chance alone makes more often than this is no difference.
const CHANCE: f64 = 0.05;

/// Late responses of one round, or of several.
#[derive(Clone, Copy, Default)]
struct Counted {
    requests: u64,
    late: u64,
    booted: bool,
}

impl Counted {
    /// Late responses in a million.
    fn rate(self) -> f64 {
        self.late as f64 * 1e6 / self.requests.max(1) as f64
    }
}

/// Our node and the plain one in the same round.
type Round = [Counted; 2];

/// Measures `rounds` rounds of `each`, both nodes in turns, and returns a row for each scenario and one for all.
pub(crate) fn rows(rounds: u32, each: Duration) -> Vec<Row> {
    let rig = Rig::new(1);
    let mut rows = Vec::new();
    let mut all = Vec::new();
    for cycle_us in [1_000, 500] {
        for loaded in [false, true] {
            let scenario = Scenario {
                timeout_us: Some(TIMEOUT_US),
                ..Scenario::new(cycle_us, 1, Path::Apart, loaded)
            };
            let measured: Vec<Round> = (0..rounds)
                .map(|round| self::round(&rig, scenario, round, each))
                .collect();
            rows.push(row(&scenario.to_string(), &measured));
            all.extend(measured);
        }
    }
    rows.push(row("1 CN, user space, all of these", &all));
    rows
}

fn round(rig: &Rig, scenario: Scenario, number: u32, each: Duration) -> Round {
    let mut both = Round::default();
    let mut order = [(0, Path::Apart), (1, Path::Plain)];
    // Neither always follows the other.
    if number % 2 == 1 {
        order.reverse();
    }
    for (at, path) in order {
        let scenario = Scenario { path, ..scenario };
        let outcome = rig.measure(scenario, each, true);
        eprintln!("round {number}, {scenario}: {}", outcome.in_short());
        both[at] = Counted {
            requests: outcome.cycles,
            late: outcome.lost,
            booted: outcome.booted,
        };
    }
    both
}

fn row(what: &str, rounds: &[Round]) -> Row {
    let sum = |at: usize| {
        rounds
            .iter()
            .fold(Counted::default(), |sum, round| Counted {
                requests: sum.requests + round[at].requests,
                late: sum.late + round[at].late,
                booted: true,
            })
    };
    let (ours, plain) = (sum(0), sum(1));
    let counts = format!(
        "{} of {} late, the plain node's {} of {}",
        ours.late, ours.requests, plain.late, plain.requests
    );
    let failed = rounds
        .iter()
        .flatten()
        .filter(|counted| !counted.booted)
        .count();
    let chance = chance(rounds);
    let (held, why) = if failed > 0 {
        let why = format!("{counts}; {failed} times the network did not become operational");
        (None, why)
    } else if ours.rate() <= plain.rate() {
        (Some(true), counts)
    } else if chance > CHANCE {
        let why = format!(
            "{counts}: of two nodes that are alike, one is as much behind with a probability of {chance:.2}"
        );
        (None, why)
    } else {
        (Some(false), format!("{counts}; by chance {chance:.3}"))
    };
    Row {
        figure: format!("responses later than {TIMEOUT_US} µs, {what}"),
        value: ours.rate(),
        unit: "of a million".to_owned(),
        reach: Some("at most those of the plainest node in C, in turns with it".to_owned()),
        held,
        why: Some(why),
        samples: ours.requests,
        against: vec![Compared {
            name: "plain node in C".to_owned(),
            value: plain.rate(),
        }],
    }
}

/// Returns the probability that our node is at least as much behind as it was, if each round could as well have gone
/// the other way round: Fisher's randomization test for pairs, over all ways.
fn chance(rounds: &[Round]) -> f64 {
    let differences = rounds
        .iter()
        .map(|[ours, plain]| ours.late as i64 - plain.late as i64);
    let found: i64 = differences.clone().sum();
    // The probability of each sum.
    let mut sums = BTreeMap::from([(0, 1.0)]);
    for difference in differences {
        let mut next = BTreeMap::new();
        for (sum, probability) in sums {
            for way in [sum + difference, sum - difference] {
                *next.entry(way).or_insert(0.0) += probability / 2.0;
            }
        }
        sums = next;
    }
    sums.range(found..)
        .map(|(_, probability)| probability)
        .sum()
}
