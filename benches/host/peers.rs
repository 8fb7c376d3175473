//! Figures of other tools: cyclictest (rt-tests) for wake-ups; isochron for sending and receiving, if it runs.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rtwire_benches::busy::Busy;
use rtwire_measure::bench::Row;
use rtwire_testkit::NetnsPair;

/// Returns p50, p99, p99.9 and the largest wake-up latency, µs; `None` if cyclictest is missing.
pub(crate) fn cyclictest(seconds: u64, busy: bool) -> Option<[f64; 4]> {
    let _load = busy.then(Busy::start);
    rtwire_benches::cyclictest::cyclictest(1_000, seconds)
}

/// Returns isochron's result on a veth pair of this machine.
pub(crate) fn isochron() -> Row {
    let pair = NetnsPair::new();
    let child = Command::new("ip")
        .args([
            "netns",
            "exec",
            &pair.b.namespace,
            "isochron",
            "rcv",
            "-i",
            "rtwb",
            "--quiet",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let why = match child {
        Err(error) => format!("isochron cannot be started: {error}"),
        Ok(mut child) => {
            let start = Instant::now();
            // If it runs at all, it waits for a sender.
            while child.try_wait().unwrap().is_none() && start.elapsed() < Duration::from_secs(3) {
                thread::sleep(Duration::from_millis(50));
            }
            let runs = child.try_wait().unwrap().is_none();
            let _ = child.kill();
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr)
                .trim()
                .replace('\n', "; ");
            if runs {
                format!("its receiver runs, but sender and clock are not compared here: {said}")
            } else {
                format!("isochron does not run without a hardware clock: {said}")
            }
        }
    };
    Row {
        why: Some(why),
        ..super::row("transmit, isochron", 0.0, "µs", 0)
    }
}
