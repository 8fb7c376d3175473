//! Planning a file from the command line: reading it, planning, the tables, and the plan file. No stream states a port.

use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use rtwire_measure::bench::Row;
use rtwire_sim::random::Random;

use crate::tools::{against, at_most};

/// Returns a tree of switches in three layers, with hosts at the lowest one and random periodic streams.
fn description(switches: [u64; 3], hosts: u64, streams: u64) -> String {
    let mut random = Random::new(12, 0);
    let mut text = "[network]\nname = \"file\"\n[defaults]\nlink-rate = \"1 Gbit/s\"\n".to_owned();
    let [top, middle, low] = switches;
    for at in 0..top + middle + low {
        writeln!(
            text,
            "[[switch]]\nname = \"s{at}\"\nbuffer = \"16 MiB\"\nqueues = 8"
        )
        .unwrap();
        if at >= top {
            let above = match at < top + middle {
                true => at % top,
                false => top + at % middle,
            };
            writeln!(
                text,
                "[[link]]\nends = [\"s{at}\", \"s{above}\"]\nrate = \"10 Gbit/s\""
            )
            .unwrap();
        }
    }
    for host in 0..hosts {
        let at = top + middle + host % low;
        writeln!(
            text,
            "[[host]]\nname = \"h{host}\"\n[[link]]\nends = [\"h{host}\", \"s{at}\"]"
        )
        .unwrap();
    }
    for stream in 0..streams {
        let from = random.below(hosts);
        let to = (from + 1 + random.below(hosts - 1)) % hosts;
        let (bytes, ms) = (64 << random.below(4), 4 << random.below(4));
        writeln!(
            text,
            "[[stream]]\nname = \"f{stream}\"\ntalker = \"h{from}\"\nlisteners = [\"h{to}\"]\nframe = \"{bytes} B\"\ninterval = \"{ms} ms\"\npriority = {}",
            random.below(8)
        )
        .unwrap();
    }
    text
}

/// Returns the processor time of all processes that this one has waited for, s.
fn of_children_s() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let behind = text.rsplit_once(')').unwrap().1;
    let ticks = behind.split_whitespace().skip(13).take(2);
    // `USER_HZ` is 100 on every architecture that the kernel has today.
    ticks
        .map(|ticks| ticks.parse::<f64>().unwrap())
        .sum::<f64>()
        / 100.0
}

pub(crate) fn rows(quick: bool) -> Vec<Row> {
    let (switches, hosts, count) = match quick {
        true => ([1, 5, 20], 160, 2_000),
        false => ([1, 10, 1000], 7_200, 100_000),
    };
    let folder = tempfile::tempdir().unwrap();
    let (file, made) = (
        folder.path().join("file.toml"),
        folder.path().join("plan.json"),
    );
    std::fs::write(&file, description(switches, hosts, count)).unwrap();
    let before = of_children_s();
    let mut child = Command::new(rtwire_benches::rtwire())
        .arg("plan")
        .arg(&file)
        .arg("--output")
        .arg(&made)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak_kib = 0;
    let ended = loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("VmHWM"));
        let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        peak_kib = kib.unwrap_or(0).max(peak_kib);
        match child.try_wait().unwrap() {
            Some(ended) => break ended,
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    assert!(ended.success(), "rtwire plan: {ended}");
    let seconds = of_children_s() - before;
    let bytes = std::fs::metadata(&made).unwrap().len() as f64;
    let what = format!(
        "planning a file from the command line, {} switches, {count} streams",
        switches.iter().sum::<u64>()
    );
    let row = at_most(&what, seconds, "s", 3.0, count);
    vec![
        against(row, "plan file, MiB", bytes / 1_048_576.0),
        at_most(
            &format!("{what}, memory"),
            peak_kib as f64 / 1024.0,
            "MiB",
            953.0,
            count,
        ),
    ]
}
