//! How far from its launch time does a frame leave? Frames of ETF (path `launch`) beside those of a sender that sleeps to the
//! instant (`clock_nanosleep`) and sends then; idle and under load; stamped by the kernel where they arrive.
//!
//! Kernels like the usual one of a virtual machine have no ETF, so this runs in the kernel lab: in virtual time, where it
//! repeats, and in real time. Adds its rows to `target/bench/host.json`. `--guest` is the part that runs in the lab, and prints
//! rows; `--direct` runs that part here, for a kernel that has sch_etf.
#![allow(clippy::unwrap_used)]

#[path = "launch/guest.rs"]
mod guest;

use rtwire_measure::bench::{BenchTable, Row, commit};
use rtwire_measure::report::Machine;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    if has("--guest") {
        return guest::main(&arguments);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut rows = Vec::new();
    if has("--direct") {
        rows.extend(guest::rows(500, "this kernel"));
    } else {
        for time in ["virtual", "real"] {
            rows.extend(from_lab(&root, time));
        }
    }
    let out =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let table = BenchTable {
        machine: Machine::this(env!("CARGO_PKG_VERSION")),
        commit: commit(),
        command: arguments.join(" "),
        noise: None,
        rows,
    };
    print!("{}", table.print_text());
    match table.add_to(&out, "host") {
        Ok(path) => println!("written to {}", path.display()),
        Err(error) => eprintln!("launch: {error}"),
    }
}

/// The rows that a guest in the lab prints.
fn from_lab(root: &Path, time: &str) -> Vec<Row> {
    let output = Command::new(root.join("scripts/vm"))
        .args(["bench", "launch", time])
        .stderr(Stdio::inherit())
        .output();
    let missing = |why: String| {
        vec![Row {
            figure: format!("launch error, {time} time"),
            value: 0.0,
            unit: "µs".to_owned(),
            reach: None,
            held: None,
            why: Some(why),
            samples: 0,
            against: Vec::new(),
        }]
    };
    let output = match output {
        Ok(output) => output,
        Err(error) => return missing(format!("scripts/vm cannot be run: {error}")),
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let rows: Vec<Row> = text
        .lines()
        .filter_map(|line| line.strip_prefix("@@ row "))
        .filter_map(|json| serde_json::from_str(json).ok())
        .collect();
    if rows.is_empty() {
        eprint!("{text}");
        return missing("the kernel lab gave no figures; its output is above".to_owned());
    }
    rows
}
