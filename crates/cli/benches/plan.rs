//! The planner in figures, one row for each that is to be reached: how near bounds come to what can happen, how fast
//! planning, admission, schedules and simulation are. Writes `target/bench/plan.json`.
//!
//! `--quick` makes everything small, for tests; `--only WORD` leaves out the parts whose name is another;
//! `--out FOLDER` writes to `FOLDER/bench/plan.json`; `--page FILE` writes the table as a page of the book, too.
#![allow(
    clippy::unwrap_used,
    clippy::missing_docs_in_private_items,
    reason = "a benchmark that cannot run should stop"
)]

#[path = "plan/admission.rs"]
mod admission;
#[path = "plan/bounds.rs"]
mod bounds;
#[path = "plan/page.rs"]
mod page;
#[path = "plan/peers.rs"]
mod peers;
#[path = "plan/planning.rs"]
mod planning;
#[path = "plan/schedules.rs"]
mod schedules;
#[path = "plan/tools.rs"]
mod tools;

use std::path::PathBuf;

use rtwire_measure::bench::{BenchTable, Row};
use rtwire_measure::noise::{NoiseOptions, NoiseRecorder};
use rtwire_measure::report::Machine;

/// A part of the table: its name, and what measures it; the flag asks for little work.
type Part = (&'static str, fn(bool) -> Vec<Row>);

const PARTS: &[Part] = &[
    ("peers", peers::rows),
    ("bounds", bounds::rows),
    ("planning", planning::rows),
    ("admission", admission::rows),
    ("schedules", schedules::rows),
];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let option = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")),
        PathBuf::from,
    );
    let out = option("--out").map_or(target, PathBuf::from);
    let only = option("--only");
    let noise = NoiseRecorder::start(NoiseOptions {
        period_ns: 2_000_000,
        stall_threshold_ns: 500_000,
        ..NoiseOptions::default()
    });
    let mut rows = Vec::new();
    for (name, part) in PARTS {
        if only.as_deref().is_none_or(|only| only == *name) {
            eprintln!("{name} …");
            rows.extend(part(quick));
        }
    }
    let table = BenchTable {
        machine: Machine::this(env!("CARGO_PKG_VERSION")),
        commit: tools::commit(),
        command: arguments.join(" "),
        noise: noise.ok().and_then(|noise| noise.stop().ok()),
        rows,
    };
    print!("{}", table.print_text());
    if let Some(file) = option("--page") {
        match std::fs::write(&file, page::page(&table)) {
            Ok(()) => println!("page: {file}"),
            Err(error) => eprintln!("{file}: {error}"),
        }
    }
    match table.write(&out, "plan") {
        Ok(path) => println!("written to {}", path.display()),
        Err(error) => eprintln!("{error}"),
    }
}
