//! The common time: the delay until its state is known, and until the loss of a master is noticed. Two real `ptp4l`
//! over veth.

use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use rtwire_measure::bench::Row;
use rtwire_testkit::NetnsPair;

use super::ptp_common::Ptp;
use super::{RTWIRE, median, row};

/// The longest wait for a state.
const PATIENCE: Duration = Duration::from_secs(60);

fn clock(socket: &str) -> (Output, f64) {
    let start = Instant::now();
    let output = Command::new(RTWIRE.as_str())
        // With software timestamps on a shared machine, a second separates a clock that follows from one that does
        // not.
        .args([
            "clock",
            "--socket",
            socket,
            "--json",
            "--limit",
            "1000000000",
        ])
        .env("RTWIRE_STATE_DIRECTORY", std::env::temp_dir())
        .output()
        .unwrap();
    (output, start.elapsed().as_secs_f64() * 1e3)
}

/// Returns the time until `rtwire clock` ends with `code`, ms.
fn until(socket: &str, code: i32) -> Option<f64> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if clock(socket).0.status.code() == Some(code) {
            return Some(start.elapsed().as_secs_f64() * 1e3);
        }
        thread::sleep(Duration::from_millis(20));
    }
    None
}

pub(crate) fn rows(rounds: u64) -> Vec<Row> {
    let missing = |why: &str| {
        vec![Row {
            why: Some(why.to_owned()),
            ..row("clock state", 0.0, "ms", 0)
        }]
    };
    if Command::new("ptp4l").arg("-v").output().is_err() {
        return missing("ptp4l cannot be started: install linuxptp");
    }
    let (mut common, mut asked, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let pair = NetnsPair::new();
        let folder = tempfile::tempdir().unwrap();
        let master = Ptp::start(&pair.a, folder.path(), "master", "priority1 100");
        let slave = Ptp::start(&pair.b, folder.path(), "slave", "slaveOnly 1");
        let Some(ms) = until(&slave.socket, 0) else {
            return missing("two ptp4l over veth found no common time within a minute");
        };
        common.push(ms);
        asked.extend((0..20).map(|_| clock(&slave.socket).1));
        drop(master);
        let Some(ms) = until(&slave.socket, 1) else {
            return missing("the loss of the master was not noticed within a minute");
        };
        gone.push(ms);
    }
    let samples = asked.len() as u64;
    vec![
        row(
            "clock state asked and judged, median",
            median(asked),
            "ms",
            samples,
        ),
        row(
            "two ptp4l started until a common time is seen, median",
            median(common),
            "ms",
            rounds,
        ),
        // The daemon itself waits for three announcements, 750 ms here.
        row(
            "master killed until it is seen, median",
            median(gone),
            "ms",
            rounds,
        ),
    ]
}
