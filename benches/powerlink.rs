//! Figures about POWERLINK, with the stations that users run.
//!
//! - PReq–PRes times, SoC jitter, and the length of the isochronous phase, in user space and in the driver. There
//!   are 1 or 8 controlled nodes, idle and under load. They are measured from outside, at the managing node's port of a
//!   bridge, by the kernel's timestamps.
//! - Late responses of a node in user space, beside those of the plainest node in C.
//! - The time for which a cycle of 250 µs stays operational.
//! - The cost of a controlled node.
//!
//! Writes `target/bench/powerlink.json`. Distributions and histograms of both paths, side by side, go to
//! `target/bench/powerlink.html`.
//!
//! - `--quick` measures two cycles for half a second each.
//! - `--seconds N` measures each cycle for N seconds (5).
//! - `--minutes N` is the time for which 250 µs have to hold (1). Each interruption and each lost response is
//!   attributed to a stall of the machine, or unexplained.
//! - `--stalls` really stalls each core meanwhile, up to 2 ms at a time.
//! - `--rounds N` is the number of turns in which our node and the plainest one in C are compared (10).
//! - `--only WORD` runs one part: `cycles`, `lateness`, `hold`, `cost`.
//! - `--nodes N` measures with N nodes only (1 or 8).
//! - `--out FOLDER` writes to `FOLDER/bench`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_docs_in_private_items,
    reason = "a benchmark that cannot run should stop"
)]

#[path = "powerlink/apart.rs"]
mod apart;
#[path = "powerlink/cost.rs"]
mod cost;
#[path = "powerlink/judge.rs"]
mod judge;
#[path = "powerlink/lateness.rs"]
mod lateness;
#[path = "powerlink/load.rs"]
mod load;
#[path = "powerlink/rig.rs"]
mod rig;
#[path = "powerlink/rows.rs"]
mod rows;
#[path = "powerlink/stalls.rs"]
mod stalls;
#[path = "powerlink/watch.rs"]
mod watch;

use judge::Account;
use rig::{Outcome, Path, Rig, Scenario};
use rtwire_measure::bench::{Asked, BenchTable, Place, refuse};
use rtwire_measure::jitter::compare::{self, Comparison, Way};
use rtwire_measure::noise::{NoiseOptions, NoiseRecorder};
use rtwire_measure::report::Machine;
use rtwire_sys::{memory, sched};
use stalls::Stalls;
use std::time::Duration;

struct Options {
    each: Duration,
    hold: Duration,
    rounds: u32,
    nodes: Option<u8>,
    stalls: bool,
    asked: Asked,
}

fn options() -> Options {
    let asked = Asked::from_command_line(
        &["--seconds", "--minutes", "--rounds", "--nodes"],
        &["--stalls"],
    );
    let known = ["cycles", "lateness", "hold", "cost"];
    if let Some(only) = asked.value("--only").filter(|only| !known.contains(only)) {
        refuse(&format!(
            "unknown part `{only}`; there are cycles, lateness, hold, cost"
        ));
    }
    let nodes = asked.value("--nodes").map(|nodes| match nodes {
        "1" => 1,
        "8" => 8,
        _ => refuse(&format!("`--nodes {nodes}`: 1 or 8")),
    });
    let (each, minutes) = if asked.quick {
        (0.5, 1.0 / 60.0)
    } else {
        (5.0, 1.0)
    };
    Options {
        each: Duration::from_secs_f64(asked.number("--seconds").unwrap_or(each)),
        hold: Duration::from_secs_f64(asked.number("--minutes").unwrap_or(minutes) * 60.0),
        rounds: asked
            .number("--rounds")
            .map_or(if asked.quick { 1 } else { 10 }, |rounds| rounds as u32),
        nodes,
        stalls: asked.has("--stalls"),
        asked,
    }
}

/// Measures all cycles, paths and loads.
fn cycles(options: &Options) -> Vec<(Scenario, Outcome)> {
    let mut measured = Vec::new();
    let cycles: &[u64] = if options.asked.quick {
        &[5_000, 1_000]
    } else {
        &[5_000, 1_000, 500, 250]
    };
    for nodes in [1, 8] {
        if options.nodes.is_some_and(|only| only != nodes) {
            continue;
        }
        let rig = Rig::new(nodes);
        for &cycle_us in cycles {
            for loaded in [false, true] {
                // Both paths directly after each other, so that they meet the same disturbances.
                for path in [Path::User, Path::Driver] {
                    let scenario = Scenario::new(cycle_us, nodes, path, loaded);
                    let outcome = rig.measure(scenario, options.each, true);
                    eprintln!("{scenario}: {}", outcome.in_short());
                    measured.push((scenario, outcome));
                }
            }
        }
    }
    measured
}

/// Writes both paths of each scenario side by side, as a page.
fn figures(measured: &[(Scenario, Outcome)], command: &str, out: &std::path::Path) {
    let pairs = measured.chunks_exact(2);
    let comparisons: Vec<Comparison<'_>> = pairs
        .map(|pair| Comparison {
            title: pair[0].0.conditions(),
            ways: [&pair[1], &pair[0]].map(|(scenario, outcome)| Way {
                name: scenario.path.name(),
                report: outcome.report.as_ref(),
            }),
        })
        .collect();
    let machine = Machine::this(env!("CARGO_PKG_VERSION"));
    let title = "POWERLINK: the isochronous phase in the driver and in user space";
    let page = compare::to_html(title, &comparisons, command, &machine);
    let path = out.join("bench").join("powerlink.html");
    let written =
        std::fs::create_dir_all(out.join("bench")).and_then(|()| std::fs::write(&path, page));
    match written {
        Ok(()) => println!("figures in {}", path.display()),
        Err(error) => eprintln!("cannot write {}: {error}", path.display()),
    }
}

/// Runs the shortest cycle for a long time.
fn hold(options: &Options) -> Vec<(Scenario, Outcome, Account)> {
    let mut holding = Vec::new();
    for nodes in [1, 8] {
        if options.nodes.is_some_and(|only| only != nodes) {
            continue;
        }
        let scenario = Scenario::new(250, nodes, Path::Driver, false);
        let rig = Rig::new(nodes);
        let (watching, bearable) = judge::watching(nodes, options.stalls);
        let recorder = NoiseRecorder::start(watching).unwrap();
        let stalls = options.stalls.then(Stalls::start);
        let mut outcome = rig.measure(scenario, options.hold, false);
        drop(stalls);
        let account = Account {
            interruptions: std::mem::take(&mut outcome.interrupted),
            losses: std::mem::take(&mut outcome.lost_at),
            noise: recorder.stop().unwrap(),
            bearable,
            own_stalls: outcome.stalls as f64 / outcome.cycles.max(1) as f64,
        };
        eprintln!("{scenario}, for {:?}: {}", options.hold, outcome.in_short());
        holding.push((scenario, outcome, account));
    }
    holding
}

fn main() {
    let options = options();
    if let Err(error) = sched::set_fifo(rig::MANAGING_PRIORITY).and_then(|_| memory::lock_all()) {
        eprintln!("powerlink: {error}");
        std::process::exit(3);
    }
    sched::set_other().unwrap();
    let recorder = NoiseRecorder::start(NoiseOptions::beside_a_benchmark()).unwrap();
    let (command, out) = (options.asked.command(), options.asked.out());
    let mut rows = Vec::new();
    if options.asked.wants("cost") {
        rows.extend(cost::rows(options.each));
    }
    if options.asked.wants("cycles") {
        let measured = cycles(&options);
        figures(&measured, &command, &out);
        rows.extend(rows::cycles(&measured));
    }
    if options.asked.wants("lateness") && options.nodes != Some(8) {
        rows.extend(lateness::rows(options.rounds, options.each / 5));
    }
    if options.asked.wants("hold") {
        rows.extend(rows::held(&hold(&options), options.hold));
    }
    let noise = recorder.stop().unwrap();
    let place = match options.asked.value("--only") {
        Some(_) => Place::Part,
        None => Place::Whole,
    };
    BenchTable::of(command, Some(noise), rows).publish(&out, "powerlink", place);
}
