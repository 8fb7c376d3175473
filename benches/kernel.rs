//! Figures about the kernel module `uman`: a reply's latency and a cyclic frame's jitter, beside raw sockets. Measured in the
//! kernel lab in virtual time (`tests/vm/measure/uman.sh`), so a loaded machine changes nothing.
//!
//! `--out FOLDER` writes to `FOLDER/bench/kernel.json`.
#![allow(
    clippy::unwrap_used,
    clippy::missing_docs_in_private_items,
    reason = "a benchmark that cannot run should stop"
)]

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use rtwire_measure::bench::{Asked, BenchTable, Compared, Place, Row};

/// Samples behind each figure: 1000 cycles, of which the first ten warm the path.
const SAMPLES: u64 = 990;

/// A promise: a figure of a path, at most so much of the same figure with raw sockets.
struct Promise {
    what: &'static str,
    figure: &'static str,
    name: &'static str,
    most: f64,
    modes: &'static [&'static str],
}

const PROMISES: [Promise; 2] = [
    Promise {
        what: "reply",
        figure: "p50",
        name: "automatic reply, latency p50",
        most: 0.4,
        modes: &["qdisc", "direct"],
    },
    Promise {
        what: "cyclic",
        figure: "spread",
        name: "cyclic frame, jitter (max − min)",
        most: 0.25,
        modes: &["qdisc", "direct", "direct_spinning"],
    },
];

fn main() {
    let asked = Asked::from_command_line(&[], &[]);
    eprintln!("uman in the kernel lab, virtual time …");
    let output = Command::new(rtwire_benches::root().join("scripts/vm"))
        .args(["bench", "uman", "virtual"])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let figures = figures(&text);
    if figures.is_empty() {
        eprint!("{text}");
    }
    let table = BenchTable::of(asked.command(), None, rows(&figures));
    table.publish(&asked.out(), "kernel", Place::Whole);
}

/// Reads the lines `@@ value NAME NUMBER UNIT`.
fn figures(text: &str) -> BTreeMap<String, f64> {
    text.lines()
        .filter_map(|line| line.strip_prefix("@@ value "))
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
        })
        .collect()
}

fn rows(figures: &BTreeMap<String, f64>) -> Vec<Row> {
    let mut rows = Vec::new();
    for promise in &PROMISES {
        for load in ["idle", "load"] {
            for mode in promise.modes {
                rows.push(row(figures, promise, load, mode));
            }
        }
    }
    rows
}

fn row(figures: &BTreeMap<String, f64>, promise: &Promise, load: &str, mode: &str) -> Row {
    let of = |path: &str| {
        let key = format!("uman/{}/{path}/{load}/{}", promise.what, promise.figure);
        figures.get(&key).copied()
    };
    let mut row = Row {
        figure: format!("{}, uman {mode}, {load}, virtual time", promise.name),
        value: 0.0,
        unit: "ns".to_owned(),
        reach: Some(format!("at most {} of a raw socket's", promise.most)),
        held: None,
        why: None,
        samples: SAMPLES,
        against: Vec::new(),
    };
    let (Some(own), Some(raw)) = (of(mode), of("raw")) else {
        row.why = Some("the kernel lab returned no figure: see its output above".to_owned());
        row.samples = 0;
        return row;
    };
    row.value = own;
    row.held = Some(own <= raw * promise.most);
    if row.held == Some(false) {
        row.why = Some(format!("{:.2} of the raw socket's", own / raw));
    }
    row.against.push(Compared {
        name: "raw socket".to_owned(),
        value: raw,
    });
    if let Some(spinning) = of("raw_spinning") {
        row.against.push(Compared {
            name: "raw socket, spinning".to_owned(),
            value: spinning,
        });
    }
    row
}
