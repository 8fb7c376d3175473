//! Figures about a host: setting it up, its latencies, its clock, its exports, and the kernel lab. Needs root.
//!
//! - The times that `doctor`, `apply` and `revert` take.
//! - The latencies of waking, sending and receiving, beside this host's own noise and cyclictest's figures.
//! - The time until the loss of the common time is noticed.
//! - The validity of the configuration that is written for switches.
//! - In the kernel lab: launch times and the OSADL experiment.
//!
//! `--quick` makes few rounds. `--only settings|latencies|clock|yang|launch|osadl` measures one part; its rows
//! replace those in `bench/host.json`. `--out FOLDER` writes to `FOLDER/bench/host.json`.
#![allow(
    clippy::unwrap_used,
    clippy::missing_docs_in_private_items,
    reason = "a benchmark that cannot run should stop"
)]

#[path = "host/clock.rs"]
mod clock;
#[path = "host/lab.rs"]
mod lab;
#[path = "host/peers.rs"]
mod peers;
#[path = "../tests/ptp_common/mod.rs"]
mod ptp_common;
#[path = "host/yang.rs"]
mod yang;
#[path = "../tests/yang_common/mod.rs"]
mod yang_common;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use rtwire_measure::bench::{Asked, BenchTable, Compared, Place, Row};
use rtwire_measure::noise::{NoiseOptions, NoiseRecorder};
use rtwire_testkit::NetnsPair;
use serde_json::Value;

/// The command under measurement.
static RTWIRE: std::sync::LazyLock<String> =
    std::sync::LazyLock::new(|| rtwire_benches::rtwire().display().to_string());
const NETWORK: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../tests/vm/suites/two-hosts.toml"
);
const NOT_SET: &str = "nothing was set to be reached";

fn main() {
    assert!(rtwire_testkit::require_root());
    let asked = Asked::from_command_line(&[], &[]);
    let quick = asked.quick;
    let noise = NoiseRecorder::start(NoiseOptions::beside_a_benchmark());
    let mut rows = Vec::new();
    if asked.wants("settings") {
        eprintln!("settings …");
        rows.extend(settings(if quick { 3 } else { 20 }));
    }
    let noise = noise.ok().and_then(|noise| noise.stop().ok());
    if asked.wants("latencies") {
        eprintln!("latencies …");
        let (rounds, seconds) = if quick { (1, 1) } else { (3, 10) };
        rows.extend(latencies(rounds, seconds));
        rows.push(peers::isochron());
    }
    if asked.wants("clock") {
        eprintln!("clock state …");
        rows.extend(clock::rows(if quick { 1 } else { 5 }));
    }
    if asked.wants("yang") {
        eprintln!("data for switches …");
        rows.extend(yang::rows());
    }
    for (name, times) in [
        ("launch", &["virtual", "real"][..]),
        ("osadl", &["virtual"]),
    ] {
        if asked.wants(name) && (!quick || asked.value("--only").is_some()) {
            for time in times {
                eprintln!("{name} in the kernel lab, {time} time …");
                rows.extend(lab::rows(name, time));
            }
        }
    }
    let table = BenchTable::of(asked.command(), noise, rows);
    table.publish(&asked.out(), "host", Place::Part);
}

pub(crate) fn row(figure: &str, value: f64, unit: &str, samples: u64) -> Row {
    Row {
        figure: figure.to_owned(),
        value,
        unit: unit.to_owned(),
        reach: None,
        held: None,
        why: Some(NOT_SET.to_owned()),
        samples,
        against: Vec::new(),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Runs a command in a namespace. Returns its standard output, and the time it took, ms.
fn timed(namespace: &str, state: &Path, words: &[&str]) -> (Vec<u8>, f64) {
    let start = Instant::now();
    let output = rtwire_benches::within(namespace)
        .args(words)
        .env("RTWIRE_STATE_DIRECTORY", state)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let took_ms = start.elapsed().as_secs_f64() * 1e3;
    // 1: doctor found something, which is not an error of the benchmark.
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        matches!(output.status.code(), Some(0 | 1)) && said.is_empty(),
        "{words:?}: {said}"
    );
    (output.stdout, took_ms)
}

fn settings(rounds: u64) -> Vec<Row> {
    let pair = NetnsPair::new();
    let state = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| timed(&pair.a.namespace, state.path(), words);
    let apply = [
        RTWIRE.as_str(),
        "apply",
        NETWORK,
        "--host",
        "A",
        "--interface",
        "rtwa",
    ];
    let moved = [&apply[..], &["--isolation", "namespace"]].concat();
    let revert = [RTWIRE.as_str(), "revert", "rtwa"];
    let all: [(&str, Vec<&str>, bool); 6] = [
        (
            "doctor, one interface",
            vec![RTWIRE.as_str(), "doctor", "rtwa"],
            true,
        ),
        ("apply, recorded and read back", apply.to_vec(), true),
        ("revert, read back", revert.to_vec(), true),
        ("apply in a namespace of its own", moved, true),
        ("revert from there", revert.to_vec(), true),
        ("", vec!["ip", "-d", "link"], false),
    ];
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); all.len()];
    let changes = run(&[&apply[..], &["--dry-run", "--json"]].concat()).0;
    let changes: Value = serde_json::from_slice(&changes).unwrap();
    // All in turn, so that a disturbance of one disturbs the others too.
    for _ in 0..rounds {
        for (times, (_, words, _)) in times.iter_mut().zip(&all) {
            times.push(run(words).1);
        }
    }
    let medians: Vec<f64> = times.into_iter().map(median).collect();
    let ip = *medians.last().unwrap();
    let mut rows: Vec<Row> = all
        .iter()
        .zip(&medians)
        .filter(|((_, _, shown), _)| *shown)
        .map(|((figure, ..), value)| Row {
            against: vec![Compared {
                name: "ip -d link".to_owned(),
                value: ip,
            }],
            ..row(&format!("{figure}, median"), *value, "ms", rounds)
        })
        .collect();
    let number = changes["changes"].as_array().unwrap().len();
    rows.push(row(
        "settings that apply changes here",
        number as f64,
        "",
        1,
    ));
    let found: Value =
        serde_json::from_slice(&run(&[RTWIRE.as_str(), "doctor", "rtwa", "--json"]).0).unwrap();
    let number = found["findings"].as_array().unwrap().len();
    rows.push(row("facts that doctor looks at here", number as f64, "", 1));
    rows
}

/// Runs `doctor --measure` and its peers in turn; each figure is the median over the rounds.
fn latencies(rounds: u64, seconds: u64) -> Vec<Row> {
    let state = tempfile::tempdir().unwrap();
    let duration = format!("{seconds}s");
    let mut ours: Vec<Value> = Vec::new();
    let mut theirs = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        let output = Command::new(RTWIRE.as_str())
            .args(["doctor", "--measure", "--json", "--load", "processors"])
            .args(["--duration", &duration])
            .env("RTWIRE_STATE_DIRECTORY", state.path())
            .output()
            .unwrap();
        ours.push(serde_json::from_slice(&output.stdout).unwrap());
        for (busy, all) in theirs.iter_mut().enumerate() {
            all.extend(peers::cyclictest(seconds, busy == 1));
        }
    }
    let first = ours[0]["measurements"].as_array().unwrap();
    let of = |one: &Value, key: &str| {
        let same = |other: &&Value| {
            ["what", "at", "load"]
                .iter()
                .all(|key| other[*key] == one[*key])
        };
        let values = ours.iter().filter_map(|run| {
            let found = run["measurements"].as_array()?.iter().find(same)?;
            let found = key.split('/').fold(found, |found, key| &found[key]);
            found.as_f64().map(|ns| ns / 1e3)
        });
        let values: Vec<f64> = values.collect();
        (!values.is_empty()).then(|| median(values))
    };
    let mut rows = Vec::new();
    for one in first {
        let text = |key: &str| one[key].as_str().unwrap_or_default();
        let peer = &theirs[usize::from(text("load") != "idle")];
        for (nth, (key, name, noise)) in [
            ("p50_ns", "p50", None),
            ("p99_ns", "p99", Some("noise/p99_ns")),
            ("p999_ns", "p99.9", Some("noise/p999_ns")),
            ("max_ns", "max", Some("noise/max_ns")),
        ]
        .into_iter()
        .enumerate()
        {
            let figure = format!("{}, {}, {name}", text("what"), text("load"));
            let samples = one["samples"].as_u64().unwrap_or(0) * rounds;
            let mut row = row(&figure, of(one, key).unwrap_or(0.0), "µs", samples);
            if let Some(noise) = noise.and_then(|key| of(one, key)) {
                row.against.push(Compared {
                    name: "noise".to_owned(),
                    value: noise,
                });
            }
            if text("what") == "wake-up" && !peer.is_empty() {
                let value = median(peer.iter().map(|run| run[nth]).collect());
                row.against.push(Compared {
                    name: "cyclictest".to_owned(),
                    value,
                });
                // The same sleep at the same priority: only the median does not depend on the machine's disturbances.
                if name == "p50" {
                    let held = row.value <= 2.0 * value;
                    row.reach = Some("at most twice cyclictest's".to_owned());
                    row.held = Some(held);
                    row.why = (!held).then(|| "not reached in this run".to_owned());
                }
            }
            rows.push(row);
        }
    }
    rows
}
