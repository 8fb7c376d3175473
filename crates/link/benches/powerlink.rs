//! POWERLINK's isochronous phase in figures: PReq–PRes times, SoC jitter and the length of the phase, in user space and in the
//! driver, with 1 and 8 controlled nodes, idle and under load, seen from outside: at the managing node's port of a bridge, by
//! the kernel's stamps. Writes `target/bench/powerlink.json`.
//!
//! `--quick` measures each for half a second, for tests; `--seconds N` for N seconds (5); `--minutes N` is how long the
//! smallest cycle has to hold (1); `--out FOLDER` writes to `FOLDER/bench/powerlink.json`.
#![allow(clippy::unwrap_used)]

#[path = "powerlink/load.rs"]
mod load;
#[path = "../tests/mini/mod.rs"]
mod mini;
#[path = "powerlink/rig.rs"]
mod rig;
#[path = "powerlink/rows.rs"]
mod rows;

use rig::{Outcome, Path, Rig, Scenario};
use rtwire_measure::bench::BenchTable;
use rtwire_measure::noise::{NoiseOptions, NoiseRecorder};
use rtwire_measure::report::Machine;
use rtwire_sys::{memory, sched};
use std::path::PathBuf;
use std::time::Duration;

struct Options {
    each: Duration,
    hold: Duration,
    out: PathBuf,
    quick: bool,
}

fn options() -> Options {
    let arguments: Vec<String> = std::env::args().collect();
    let after = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let number = |name: &str, usual: f64| {
        let given = after(name).and_then(|text| text.parse::<f64>().ok());
        given.filter(|n| *n > 0.0).unwrap_or(usual)
    };
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let default = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")),
        PathBuf::from,
    );
    Options {
        each: Duration::from_secs_f64(if quick { 0.5 } else { number("--seconds", 5.0) }),
        hold: Duration::from_secs_f64(if quick {
            0.5
        } else {
            number("--minutes", 1.0) * 60.0
        }),
        out: after("--out").map_or(default, PathBuf::from),
        quick,
    }
}

fn main() {
    let options = options();
    if let Err(error) = sched::set_fifo(rig::MANAGING_PRIORITY).and_then(|_| memory::lock_all()) {
        eprintln!("powerlink: {error}");
        std::process::exit(3);
    }
    sched::set_other().unwrap();
    let recorder = NoiseRecorder::start(NoiseOptions {
        period_ns: 2_000_000,
        stall_threshold_ns: 500_000,
        ..NoiseOptions::default()
    })
    .unwrap();
    let mut measured: Vec<(Scenario, Outcome)> = Vec::new();
    let cycles: &[u64] = if options.quick {
        &[5_000, 1_000]
    } else {
        &[5_000, 1_000, 500, 250]
    };
    for nodes in [1, 8] {
        let rig = Rig::new(nodes);
        for &cycle_us in cycles {
            for loaded in [false, true] {
                // Paths next to each other, so that they meet the same weather.
                for path in [Path::User, Path::Driver] {
                    let scenario = Scenario {
                        cycle_us,
                        nodes,
                        path,
                        loaded,
                    };
                    let outcome = rig.measure(scenario, options.each);
                    eprintln!("{scenario}: {}", outcome.in_short());
                    measured.push((scenario, outcome));
                }
            }
        }
    }
    let mut holding = Vec::new();
    for (nodes, cycle_us) in [(1, 250), (8, 250)] {
        let scenario = Scenario {
            cycle_us,
            nodes,
            path: Path::Driver,
            loaded: false,
        };
        let outcome = Rig::new(nodes).measure(scenario, options.hold);
        eprintln!("{scenario}, for {:?}: {}", options.hold, outcome.in_short());
        holding.push((scenario, outcome));
    }
    let noise = recorder.stop().unwrap();
    let table = BenchTable {
        machine: Machine::this(env!("CARGO_PKG_VERSION")),
        commit: commit(),
        command: std::env::args().collect::<Vec<_>>().join(" "),
        rows: rows::all(&measured, &holding, options.hold),
        noise: Some(noise),
    };
    print!("{}", table.print_text());
    match table.write(&options.out, "powerlink") {
        Ok(path) => println!("written to {}", path.display()),
        Err(error) => eprintln!("powerlink: {error}"),
    }
}
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = std::process::Command::new("git")
            .args(arguments)
            .output()
            .ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let dirty = git(&["status", "--porcelain"]).is_none_or(|changes| !changes.is_empty());
    match git(&["rev-parse", "--short=12", "HEAD"]) {
        Some(commit) if dirty => commit + "-dirty",
        Some(commit) => commit,
        None => "unknown".to_owned(),
    }
}
