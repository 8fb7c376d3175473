//! Figures about the kernel module `uman`: a reply's latency and a cyclic frame's jitter, beside raw sockets, and the same of whole POWERLINK
//! stations. Measured in the kernel lab (`tests/vm/measure/uman.sh`, `cell.sh`) in virtual time, so a loaded machine changes nothing.
//!
//! - `--only WORD` runs one part: `module`, `stations`.
//! - `--out FOLDER` writes to `FOLDER/bench/kernel.json`.
#![allow(
    clippy::unwrap_used,
    clippy::missing_docs_in_private_items,
    reason = "a benchmark that cannot run should stop"
)]

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use rtwire_measure::bench::{Asked, BenchTable, Compared, Place, Row, refuse};

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

/// The kernels on which whole stations are measured, and their names in a row. Only the last one has netpoll.
const KERNELS: [(&str, &str); 3] = [
    ("newest", "6.12 rt"),
    ("backports", "7.3 rt"),
    ("6.1/generic", "6.1 without rt"),
];

/// The reason of a row without a figure.
const NO_FIGURE: &str = "the kernel lab returned no figure: see its output above";

/// The parts, each with its own rows.
const PARTS: [&str; 2] = ["module", "stations"];

fn main() {
    let asked = Asked::from_command_line(&[], &[]);
    let only = asked.value("--only");
    if let Some(only) = only.filter(|only| !PARTS.contains(only)) {
        let parts = PARTS.join(", ");
        refuse(&format!("unknown part `{only}`; there are {parts}"));
    }
    let mut all = Vec::new();
    if asked.wants("module") {
        eprintln!("uman in the kernel lab, virtual time …");
        all.extend(rows(&in_guest("newest", "uman")));
    }
    if asked.wants("stations") {
        for (kernel, name) in KERNELS {
            eprintln!("whole stations, {name}, virtual time …");
            let figures = in_guest(kernel, "cell");
            all.extend(cell_rows(&figures, &format!("{name}, virtual time")));
        }
    }
    let place = if only.is_some() {
        Place::Part
    } else {
        Place::Whole
    };
    let table = BenchTable::of(asked.command(), None, all);
    table.publish(&asked.out(), "kernel", place);
}

/// Runs a measurement on a kernel in virtual time, and returns its figures by their names.
fn in_guest(kernel: &str, name: &str) -> BTreeMap<String, f64> {
    let output = Command::new(rtwire_benches::root().join("scripts/vm"))
        .args(["bench", name, "virtual"])
        .env("RTWIRE_VM_KERNELS", kernel)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let figures = figures(&text);
    if figures.is_empty() {
        eprint!("{text}");
    }
    figures
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
        row.why = Some(NO_FIGURE.to_owned());
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

/// A figure of whole stations: its name, its key, and what it may be at most of the raw socket's.
type Figure = (&'static str, &'static str, Option<f64>);

/// The figures of SoC by each way of the managing node, and of PRes by each way of the controlled one.
const STATIONS: [(&str, &str, &[Figure]); 2] = [
    (
        "soc",
        "SoC–SoC jitter",
        &[("max − min", "spread", Some(0.25))],
    ),
    (
        "response",
        "PReq–PRes",
        &[
            ("p50", "p50", None),
            ("p99", "p99", None),
            ("max", "max", None),
        ],
    ),
];

/// The way that the others are held against.
const RAW: &str = "raw_socket";

/// Returns the rows of whole stations.
fn cell_rows(figures: &BTreeMap<String, f64>, place: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for (kind, what, measured) in STATIONS {
        for (cycle, load) in [("5", "idle"), ("5", "load"), ("1", "idle"), ("1", "load")] {
            let behind = format!("/{cycle}/{load}");
            let key = |way: &str, figure: &str| format!("cell/{kind}/{way}{behind}/{figure}");
            let of = |way: &str, figure: &str| figures.get(&key(way, figure)).copied();
            let way = |key: &String| {
                let rest = key.strip_prefix("cell/")?.strip_prefix(kind)?;
                let way = rest.strip_prefix('/')?.strip_suffix("/p50")?;
                way.strip_suffix(&behind).map(str::to_owned)
            };
            for way in figures.keys().filter_map(way) {
                for (name, figure, most) in measured {
                    let about = format!("{what} {name}, {way}, {cycle} ms, {load}, {place}");
                    let samples = of(&way, "samples").unwrap_or_default() as u64;
                    let most = most.filter(|_| way != RAW);
                    if let Some(value) = of(&way, figure) {
                        rows.push(station_row(about, value, of(RAW, figure), most, samples));
                    }
                }
            }
        }
    }
    if rows.is_empty() {
        let mut row = station_row(format!("whole stations, {place}"), 0.0, None, None, 0);
        row.why = Some(NO_FIGURE.to_owned());
        rows.push(row);
    }
    rows
}

fn station_row(
    figure: String,
    value: f64,
    raw: Option<f64>,
    most: Option<f64>,
    samples: u64,
) -> Row {
    let bounds = most.zip(raw);
    let missed = bounds.filter(|(most, raw)| value > raw * most);
    Row {
        figure,
        value,
        unit: "ns".to_owned(),
        reach: most.map(|most| format!("at most {most} of a raw socket's")),
        held: bounds.map(|_| missed.is_none()),
        why: missed.map(|(_, raw)| format!("{:.2} of the raw socket's", value / raw)),
        samples,
        against: raw
            .map(|value| Compared {
                name: "raw socket".to_owned(),
                value,
            })
            .into_iter()
            .collect(),
    }
}
