//! Gate schedules: the number of solved instances of the public generator's sets, and the time for them.

#[path = "../../crates/plan/tests/sets/mod.rs"]
mod sets;

use rtwire_measure::bench::{Compared, Row};
use rtwire_plan::schedule::solve::{Effort, Solution, solve};
use sets::{Instance, Kind, Topology, instance};

use super::tools::{at_least, at_most, timed};

const TOPOLOGIES: [(Topology, &str); 3] = [
    (Topology::Line, "line"),
    (Topology::Ring, "ring"),
    (Topology::Tree, "tree"),
];

/// Milliseconds of the fastest peer method and of the authors' first prototype, as recorded on another machine.
///
/// They are for divisibility scheduling of 200 streams, and for first fit of 1 000 (`tests/captures/bounds.json`,
/// `tas`).
const RECORDED_200_MS: [f64; 3] = [122.0, 94.0, 131.0];
const RECORDED_1000_MS: [f64; 3] = [63.9, 40.9, 49.0];

fn solved(set: &Instance) -> Solution {
    let mut effort = Effort {
        rounds: 200,
        seed: 1,
        keep_going: &mut || true,
    };
    solve(&set.requests, set.circles, &[], &mut effort)
}

fn counted(kind: Kind, streams: usize, seeds: u64) -> (f64, u64) {
    let (mut count, mut all) = (0, 0);
    for (topology, _) in TOPOLOGIES {
        for seed in 0..seeds {
            let set = instance(topology, kind, 8, streams, seed);
            count += u32::from(solved(&set).missing().is_empty());
            all += 1;
        }
    }
    (f64::from(count) * 100.0 / all as f64, all)
}

/// Returns the milliseconds of one run, and the number of streams without a place.
///
/// All runs are timed together, because processor time is counted in steps of some milliseconds.
fn took_ms(set: &Instance, runs: usize) -> (f64, usize) {
    let (total_s, missing) = timed(|| {
        let missing = (0..runs).map(|_| solved(set).missing().len());
        missing.max().unwrap_or(0)
    });
    (total_s * 1e3 / runs as f64, missing)
}

pub(crate) fn rows(quick: bool) -> Vec<Row> {
    let (seeds, runs) = if quick { (1, 3) } else { (4, 51) };
    let mut rows = Vec::new();
    for streams in [10, 50, 100, 200] {
        let (percent, samples) = counted(Kind::Easy, streams, seeds);
        let figure = format!("gate schedules, easy set, {streams} streams, solved");
        rows.push(at_least(&figure, percent, "%", 100.0, samples));
    }
    for (streams, reach) in [
        (20, 100.0),
        (40, 100.0),
        (60, 100.0),
        (80, 100.0),
        (120, 90.0),
    ] {
        let (percent, samples) = counted(Kind::Hard, streams, seeds);
        let figure = format!("gate schedules, hard set, {streams} streams, solved");
        rows.push(at_least(&figure, percent, "%", reach, samples));
    }
    for (at, (topology, name)) in TOPOLOGIES.into_iter().enumerate() {
        for (streams, recorded, limit_ms) in [
            (
                200,
                (
                    "divisibility scheduling, recorded elsewhere",
                    RECORDED_200_MS[at],
                ),
                RECORDED_200_MS[at] / 100.0,
            ),
            (
                1000,
                ("first fit, recorded elsewhere", RECORDED_1000_MS[at]),
                5.0,
            ),
        ] {
            let set = instance(topology, Kind::Easy, 8, streams, 0);
            let (ms, missing) = took_ms(&set, runs);
            let load = set.load_permille / 10;
            let figure = format!(
                "gate schedules, {streams} streams on 8 switches, {name}, busiest link {load} %"
            );
            let mut row = at_most(&figure, ms, "ms", limit_ms, runs as u64);
            if missing > 0 {
                row.held = Some(false);
                row.why = Some(format!("{missing} streams found no place"));
            }
            row.against.push(Compared {
                name: recorded.0.to_owned(),
                value: recorded.1,
            });
            rows.push(row);
        }
    }
    rows
}
