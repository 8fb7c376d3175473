//! The cost of a controlled node: the `rtwire` command as users start it, beside a managing node, at 1 ms.

use crate::apart::Apart;
use crate::rig::{self, Path, Scenario};
use rtwire_measure::bench::Row;
use rtwire_powerlink_station::{Project, Station};
use rtwire_testkit::Star;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Reads a number of `/proc/PID/status`.
fn number(id: u32, key: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Returns the number of times that all threads went to sleep: each blocking system call is one.
fn sleeps(id: u32) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{id}/task"));
    threads
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let text = std::fs::read_to_string(entry.path().join("status")).ok()?;
            let line = text.lines().find(|l| l.starts_with("voluntary_ctxt"))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .sum()
}

pub(crate) fn rows(time: Duration) -> Vec<Row> {
    [Path::User, Path::Driver]
        .into_iter()
        .flat_map(|path| of(path, time))
        .collect()
}

fn of(path: Path, time: Duration) -> Vec<Row> {
    let scenario = Scenario::new(1_000, 1, path, false);
    let star = Star::new(2);
    // With `"driver"` the station selects the generic mode by itself here.
    let fitting = |text: String| text.replace("\"native\"", "\"driver\"");
    let node = Apart::command(&star.stations[1], &fitting(rig::controlled(scenario, 1)));
    let stop = AtomicBool::new(false);
    let (memory_kb, sleeps_a_cycle, cycles) = thread::scope(|scope| {
        let (told, handle) = std::sync::mpsc::channel();
        let (star, stop_of_mn) = (&star, &stop);
        scope.spawn(move || {
            star.stations[0].run(|| {
                let text = fitting(rig::managing(scenario));
                let text = text.replace("cdc = \"wait.cdc\"\n", "");
                let project = Project::parse(&text, "bench.toml".as_ref()).unwrap();
                let mut station = Station::managing(&project).unwrap();
                told.send(station.handle()).unwrap();
                station.run(stop_of_mn, |_| {}).unwrap();
            });
        });
        let handle = handle.recv().unwrap();
        let status = || handle.status(Duration::from_secs(10)).expect("it runs");
        let begun = Instant::now();
        while !status().nodes.iter().all(|node| node.operational) {
            if begun.elapsed() > Duration::from_secs(20) {
                break;
            }
            thread::sleep(Duration::from_millis(100));
        }
        let id = node.id();
        let (cycles, slept) = (status().cycles, sleeps(id));
        thread::sleep(time);
        let slept = sleeps(id) - slept;
        let cycles = status().cycles - cycles;
        let memory = number(id, "VmHWM:").unwrap_or(0);
        stop.store(true, Ordering::Relaxed);
        (memory, slept as f64 / cycles.max(1) as f64, cycles)
    });
    let where_it_runs = path.name();
    let row = |figure: &str, value: f64, unit: &str, reach: &str, held: bool| Row {
        figure: format!("{figure}, 1 CN, 1 ms, {where_it_runs}"),
        value,
        unit: unit.to_owned(),
        reach: Some(reach.to_owned()),
        held: (cycles > 0).then_some(held),
        why: match (cycles, held) {
            (0, _) => Some("the node did not become operational".to_owned()),
            (_, false) => Some("not reached in this run".to_owned()),
            _ => None,
        },
        samples: cycles,
        against: Vec::new(),
    };
    // The kernel's kB are of 1024 bytes.
    let megabytes = memory_kb as f64 * 1024.0 / 1e6;
    vec![
        row(
            "most memory of `rtwire powerlink cn`",
            megabytes,
            "MB",
            "under 10 MB",
            megabytes < 10.0,
        ),
        row(
            "sleeps of all its threads a cycle",
            sleeps_a_cycle,
            "times",
            "one or none",
            sleeps_a_cycle <= 1.05,
        ),
    ]
}
