//! A network without a fault is never called broken: a quiet network is kept, and what the machine, the lab's own
//! generator or the user does has its own words. The faults are in `attacks.rs`.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::*;

/// Times in which a quiet network may fail to be called kept, because the machine stalls.
const TRIES: usize = 5;

pub(crate) fn assert_says(report: &Value, words: &str) {
    let reasons = report["reasons"].to_string();
    assert!(reasons.contains(words), "not {words:?}: {reasons}");
}

pub(crate) fn written(text: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("net.toml");
    std::fs::write(&file, text).unwrap();
    (directory, file)
}

/// Two hosts on a switch, and one stream.
pub(crate) const SMALL: &str = r#"
[network]
name = "small"
[defaults]
link-rate = "100 Mbit/s"
tick-error = "500 us"
[[switch]]
name = "s1"
buffer = "64 KiB"
[[host]]
name = "A"
[[host]]
name = "B"
[[link]]
ends = ["A", "s1"]
[[link]]
ends = ["B", "s1"]
[[stream]]
name = "values"
talker = "A"
listeners = ["B"]
payload = "64 B"
interval = "2 ms"
"#;

#[test]
fn a_quiet_small_network_is_kept() {
    let _alone = alone();
    let (_directory, file) = written(SMALL);
    let mut seen = Vec::new();
    for _ in 0..TRIES {
        let (code, report) = measured(&file, &["--calibration", "500ms", "--duration", "2500ms"]);
        assert_ne!(report["verdict"], "broken", "{}", report["reasons"]);
        if (report["verdict"].as_str(), code) == (Some("kept"), 0) {
            let stream = &report["streams"][0];
            assert!(stream["coverage_percent"].as_f64() > Some(50.0), "{stream}");
            assert!(
                stream["exact_delay_ns"]["max"].as_u64() <= stream["promised_delay_ns"].as_u64(),
                "{stream}"
            );
            return;
        }
        seen.push(report["reasons"].to_string());
    }
    panic!("{TRIES} times a quiet network was not kept: {seen:#?}");
}

/// 1 000 frames at 2 ms take 2 s: a run of 300 ms says so before it begins, and one that may last longer lasts that long.
#[test]
fn a_run_lasts_until_its_slowest_stream_has_its_frames() {
    let _alone = alone();
    let (_directory, file) = written(SMALL);
    let times = ["--calibration", "500ms", "--duration", "300ms"];
    let output = lab(&file, &times).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("Give --at-most 3s or more"), "{said}");
    assert!(said.contains("stream values"), "{said}");
    let longer = [&times[..], &["--at-most", "20s"]].concat();
    let (code, report) = measured(&file, &longer);
    let lasted_s = report["duration_s"].as_f64().unwrap();
    assert!((2.0..=20.5).contains(&lasted_s), "{lasted_s}");
    assert!(matches!(code, 0 | 4), "{}", report["reasons"]);
    // It was long enough, and it was not interrupted.
    let reasons = report["reasons"].to_string();
    for wrong in ["interrupted", "a verdict needs"] {
        assert!(!reasons.contains(wrong), "{reasons}");
    }
    let samples = report["streams"][0]["frames_sent"].as_u64();
    assert!(samples >= Some(1_000), "{samples:?}");
}

/// A process that takes all the time that it gets, until it is dropped.
pub(crate) struct Busy(Child);

impl Busy {
    pub(crate) fn start() -> Self {
        Self::of(Command::new("sh").args(["-c", "while :; do :; done"]))
    }

    pub(crate) fn of(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn beside_two_busy_loops_a_small_network_is_never_broken() {
    let _alone = alone();
    let (_directory, file) = written(SMALL);
    let _busy = [Busy::start(), Busy::start()];
    let (_, report) = measured(&file, &["--calibration", "500ms", "--duration", "2500ms"]);
    assert_ne!(report["verdict"], "broken", "{}", report["reasons"]);
}

/// Two receivers and no `burst`: the lab's own generator keeps the allowance of one frame for both together.
#[test]
fn best_effort_to_two_receivers_conforms_as_a_whole() {
    let _alone = alone();
    let office = "[[host]]\nname = \"C\"\n[[link]]\nends = [\"C\", \"s1\"]\n[[best-effort]]\nhost = \"A\"\nto = [\"B\", \"C\"]\n\
        rate = \"10 Mbit/s\"\n";
    let (_directory, file) = written(&(SMALL.to_owned() + office));
    let (_, report) = measured(&file, &["--calibration", "500ms", "--duration", "2s"]);
    assert_ne!(report["verdict"], "broken", "{}", report["reasons"]);
    let talkers = report["talkers"].as_array().unwrap();
    let office = || {
        talkers
            .iter()
            .filter(|talker| talker["best_effort"] == true)
    };
    assert_eq!(office().count(), 2, "{talkers:?}");
    for talker in office() {
        let sent = talker["frames_sent"].as_u64().unwrap();
        assert!(
            sent * 100 > talker["frames_planned"].as_u64().unwrap() * 80,
            "{talker}"
        );
        assert_eq!(talker["unexplained_excess_bits"], 0, "{talker}");
    }
}

#[test]
fn a_network_with_gates_has_a_verdict_with_reasons() {
    let _alone = alone();
    let (code, report) = measured(
        &example("scheduled-cell.toml"),
        &["--calibration", "500ms", "--duration", "3s"],
    );
    assert!(matches!(code, 0 | 4), "{}", report["reasons"]);
    let notes = report["notes"].to_string();
    assert!(notes.contains("have no gates"), "{notes}");
    check_losses(&report, "gates");
    for stream in report["streams"].as_array().unwrap() {
        assert!(
            stream["exact_delay_ns"]["samples"].as_u64() > Some(1_000),
            "{stream}"
        );
    }
}

/// The threads of the noise record lose their priority while the lab runs: their record excuses nothing, and says so.
#[test]
fn demoted_noise_threads_are_named() {
    let _alone = alone();
    let (_directory, file) = written(SMALL);
    let times = ["--calibration", "500ms", "--duration", "2s", "--json"];
    let child = started(&mut lab(&file, &times));
    let pid = child.id();
    while_running(pid, |_| {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let mut demoted = 0;
        for task in tasks.filter_map(Result::ok) {
            let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            if !name.starts_with("rtw-noise/") {
                continue;
            }
            let thread = task.file_name().into_string().unwrap();
            let status = Command::new("chrt")
                .args(["-i", "-p", "0", &thread])
                .status();
            assert!(status.unwrap().success(), "chrt {thread}");
            demoted += 1;
        }
        assert!(demoted > 0, "no noise thread was found");
    });
    let (_, report) = reported(child);
    assert_ne!(report["verdict"], "kept", "{}", report["reasons"]);
    assert_says(&report, "ended as");
}

#[test]
fn an_interrupted_run_says_so_and_is_never_kept() {
    let _alone = alone();
    let (_directory, file) = written(SMALL);
    let times = ["--calibration", "500ms", "--duration", "10s", "--json"];
    let child = started(&mut lab(&file, &times));
    let pid = child.id();
    while_running(pid, |lab| {
        while since_ns(lab) < 1_000_000_000 {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        signal(pid, "INT");
    });
    let (_, report) = reported(child);
    assert_ne!(report["verdict"], "kept", "{}", report["reasons"]);
    assert_says(&report, "interrupted");
}
