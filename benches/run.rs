//! Cyclic senders beside each other: is each frame on its grid? Needs root.
//!
//! `rtwire run`, isochron and a bare loop of `clock_nanosleep` and `sendto` in C send over a veth pair between two
//! namespaces, one after another in each round, idle and under load. All are judged by the same outside receiver: the
//! kernel's receive timestamps at the other end. cyclictest in the same rounds shows how late a thread wakes here.
//!
//! Writes `target/bench/run.json`.
//!
//! - `--quick` makes one round of half a second at 1 ms.
//! - `--rounds N` makes N rounds (3); `--seconds S` sends for S seconds in each (2).
//! - `--only idle|load` measures one half; its rows replace those in `bench/run.json`.
//! - `--cycle MICROSECONDS` measures one cycle.
//! - `--page FILE` also writes the table as a page of the book.
//! - `--out FOLDER` writes to `FOLDER/bench/run.json`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_docs_in_private_items,
    reason = "a benchmark that cannot run should stop"
)]

#[path = "run/judge.rs"]
mod judge;
#[path = "run/load.rs"]
mod load;
#[path = "run/page.rs"]
mod page;
#[path = "run/receiver.rs"]
mod receiver;
#[path = "run/rows.rs"]
mod rows;
#[path = "run/senders.rs"]
mod senders;
#[path = "run/watch.rs"]
mod watch;

use judge::Judged;
use load::Load;
use rtwire_benches::cyclictest::cyclictest;
use rtwire_measure::bench::{Asked, BenchTable, Place, refuse};
use rtwire_measure::noise::{NoiseOptions, NoiseRecord, NoiseRecorder};
use senders::{Sender, Senders};
use std::collections::BTreeMap;

/// The cycles that are measured, µs.
const CYCLES_US: [u64; 5] = [10_000, 1_000, 500, 250, 100];

/// All runs of one cycle under one load.
pub(crate) struct Measured {
    pub(crate) cycle_us: u64,
    pub(crate) loaded: bool,
    pub(crate) runs: BTreeMap<Sender, Vec<Judged>>,
    /// The reasons of senders that did not run.
    pub(crate) failed: BTreeMap<Sender, String>,
    /// The parts of the time for which `rtwire run` spun, and its margins in ns.
    pub(crate) spinning: Vec<(f64, f64)>,
    /// cyclictest's p50, p99, p99.9 and largest wake-up latency of each round, µs.
    pub(crate) waking: Vec<[f64; 4]>,
}

struct Options {
    rounds: u64,
    seconds: f64,
    cycles_us: Vec<u64>,
    asked: Asked,
}

fn options() -> Options {
    let asked = Asked::from_command_line(&["--rounds", "--seconds", "--cycle", "--page"], &[]);
    let known = ["idle", "load"];
    if let Some(only) = asked.value("--only").filter(|only| !known.contains(only)) {
        refuse(&format!("unknown part `{only}`; there are idle, load"));
    }
    let (rounds, seconds) = if asked.quick { (1.0, 0.5) } else { (3.0, 2.0) };
    let cycles_us = match (asked.number("--cycle"), asked.quick) {
        (Some(cycle), _) => vec![cycle as u64],
        (None, true) => vec![1_000],
        (None, false) => CYCLES_US.to_vec(),
    };
    Options {
        rounds: asked.number("--rounds").unwrap_or(rounds) as u64,
        seconds: asked.number("--seconds").unwrap_or(seconds),
        cycles_us,
        asked,
    }
}

/// Lets one sender run between its receiver and the record of the machine's stalls.
fn one(senders: &Senders, sender: Sender, seconds: f64, measured: &mut Measured) {
    let recorder = NoiseRecorder::start(watch::watching(measured.cycle_us * 1_000)).unwrap();
    let (said, stamps) = receiver::around(&senders.pair.b, || {
        senders.send(sender, measured.cycle_us, seconds)
    });
    let noise: NoiseRecord = recorder.stop().unwrap();
    let interval_ns = measured.cycle_us * 1_000;
    let judged = judge::judge(&stamps, interval_ns, sender.has_known_grid(), &noise);
    if let Some(why) = said.failed {
        measured.failed.insert(sender, why);
        return;
    }
    if let (Sender::Rtwire, Some(report)) = (sender, said.report) {
        let row = &report["talkers"][0];
        let of = |key: &str| row[key].as_f64().unwrap_or(0.0);
        let seconds = report["duration_s"].as_f64().unwrap_or(seconds);
        let share = of("spun_ns") / (seconds * 1e9);
        measured.spinning.push((share, of("spin_margin_ns")));
    }
    match judged {
        Some(judged) => measured.runs.entry(sender).or_default().push(judged),
        None => {
            let why = format!("{} sent fewer than two frames", sender.name());
            measured.failed.insert(sender, why);
        }
    }
}

/// Runs all senders in turn, so that they meet the same disturbances.
fn rounds(options: &Options, senders: &Senders, cycle_us: u64, loaded: bool) -> Measured {
    let mut measured = Measured {
        cycle_us,
        loaded,
        runs: BTreeMap::new(),
        failed: BTreeMap::new(),
        spinning: Vec::new(),
        waking: Vec::new(),
    };
    let _load = loaded.then(Load::start);
    for _ in 0..options.rounds {
        for sender in Sender::ALL {
            one(senders, sender, options.seconds, &mut measured);
        }
        measured
            .waking
            .extend(cyclictest(cycle_us, options.seconds.ceil() as u64));
    }
    measured
}

fn main() {
    assert!(rtwire_testkit::require_root());
    let options = options();
    let senders = Senders::new();
    let recorder = NoiseRecorder::start(NoiseOptions::beside_a_benchmark());
    let mut table = Vec::new();
    for loaded in [false, true] {
        let part = if loaded { "load" } else { "idle" };
        if !options.asked.wants(part) {
            continue;
        }
        for &cycle_us in &options.cycles_us {
            eprintln!("{cycle_us} µs, {part} …");
            table.extend(rows::of(&rounds(&options, &senders, cycle_us, loaded)));
        }
    }
    let noise = recorder.ok().and_then(|recorder| recorder.stop().ok());
    let part = options
        .asked
        .value("--only")
        .or(options.asked.value("--cycle"));
    let place = match part {
        Some(_) => Place::Part,
        None => Place::Whole,
    };
    let table = BenchTable::of(options.asked.command(), noise, table);
    if let Some(file) = options.asked.value("--page") {
        match std::fs::write(file, page::page(&table)) {
            Ok(()) => println!("page: {file}"),
            Err(error) => eprintln!("{file}: {error}"),
        }
    }
    table.publish(&options.asked.out(), "run", place);
}
