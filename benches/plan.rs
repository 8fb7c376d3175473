//! Figures about the planner, one row for each goal: the tightness of bounds, and the speed of planning, admission,
//! schedules and simulation.
//!
//! Writes `target/bench/plan.json`. `--quick` makes everything small, for tests. `--only WORD` runs only the part
//! with that name. `--out FOLDER` writes to `FOLDER/bench/plan.json`. `--page FILE` also writes the table as a page
//! of the book.
#![allow(
    clippy::unwrap_used,
    clippy::missing_docs_in_private_items,
    reason = "a benchmark that cannot run should stop"
)]

#[path = "plan/admission.rs"]
mod admission;
#[path = "plan/bounds.rs"]
mod bounds;
#[path = "plan/certificates.rs"]
mod certificates;
#[path = "plan/file.rs"]
mod file;
#[path = "plan/page.rs"]
mod page;
#[path = "plan/peers.rs"]
mod peers;
#[path = "plan/planning.rs"]
mod planning;
#[path = "plan/schedules.rs"]
mod schedules;
#[path = "../crates/sim/tests/common/searched.rs"]
mod searched;
#[path = "../crates/sim/tests/common/shaped.rs"]
mod shaped;
#[path = "plan/synthesis.rs"]
mod synthesis;
#[path = "plan/tools.rs"]
mod tools;

use rtwire_measure::bench::{Asked, BenchTable, Place, Row};
use rtwire_measure::noise::{NoiseOptions, NoiseRecorder};

/// A part of the table: its name, and the function that measures it; true asks that for little work.
type Part = (&'static str, fn(bool) -> Vec<Row>);

const PARTS: &[Part] = &[
    ("peers", peers::rows),
    ("bounds", bounds::rows),
    ("certificates", certificates::rows),
    ("planning", planning::rows),
    ("file", file::rows),
    ("admission", admission::rows),
    ("schedules", schedules::rows),
    ("synthesis", synthesis::rows),
];

fn main() {
    let asked = Asked::from_command_line(&["--page"], &[]);
    let noise = NoiseRecorder::start(NoiseOptions::beside_a_benchmark());
    let mut rows = Vec::new();
    for (name, part) in PARTS {
        if asked.wants(name) {
            eprintln!("{name} …");
            rows.extend(part(asked.quick));
        }
    }
    let noise = noise.ok().and_then(|noise| noise.stop().ok());
    let table = BenchTable::of(asked.command(), noise, rows);
    if let Some(file) = asked.value("--page") {
        match std::fs::write(file, page::page(&table)) {
            Ok(()) => println!("page: {file}"),
            Err(error) => eprintln!("{file}: {error}"),
        }
    }
    table.publish(&asked.out(), "plan", Place::Whole);
}
