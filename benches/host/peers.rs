//! Figures of other tools: cyclictest (rt-tests) for wake-ups; isochron for sending and receiving, if it runs.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rtwire_measure::bench::Row;
use rtwire_testkit::NetnsPair;

/// Returns p50, p99, p99.9 and the largest wake-up latency, µs; `None` if cyclictest is missing.
pub(crate) fn cyclictest(seconds: u64, busy: bool) -> Option<[f64; 4]> {
    let stop = AtomicBool::new(!busy);
    let output = thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                let mut memory = vec![0_u8; 4 << 20];
                while !stop.load(Ordering::Relaxed) {
                    memory.fill(std::hint::black_box(1));
                }
            });
        }
        let output = Command::new("cyclictest")
            .args([
                "-q", "-p", "80", "-i", "1000", "-t", "1", "-m", "-h", "50000",
            ])
            .args(["-D", &seconds.to_string()])
            .stderr(Stdio::null())
            .output();
        stop.store(true, Ordering::Relaxed);
        output.ok()
    })?;
    histogram(&String::from_utf8_lossy(&output.stdout))
}

/// Reads lines of latency and count; other lines begin with `#`.
fn histogram(text: &str) -> Option<[f64; 4]> {
    let bars: Vec<(u64, u64)> = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.starts_with('/'))
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
        })
        .filter(|(_, count)| *count > 0)
        .collect();
    let total: u64 = bars.iter().map(|(_, count)| count).sum();
    let last = text.lines().find_map(|line| {
        let line = line.strip_prefix("# Max Latencies:")?;
        line.trim().parse::<u64>().ok()
    });
    let at = |permille: u64| {
        let rank = (total * permille).div_ceil(1000).max(1);
        let mut seen = 0;
        let bar = bars.iter().find(|(_, count)| {
            seen += count;
            seen >= rank
        });
        bar.map(|(us, _)| *us as f64)
    };
    Some([at(500)?, at(990)?, at(999)?, last? as f64])
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
