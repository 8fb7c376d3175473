//! The clock is set while streams run: nothing hangs, the talkers go on by its new time, and no time of the run is judged.
//! Needs root. It sets this machine's clock, by half a minute and for some seconds.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "run_common/mod.rs"]
mod run_common;

use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rtwire_testkit::{Apart, NetnsPair, require};
use serde_json::Value;

use run_common::{RUNNING, Running, row, run, side};

/// The length of a step, s.
const STEP_S: i64 = 30;
const NETWORK: &str = r#"
[network]
name = "one stream"
[defaults]
tick-error = "40 ms"
link-rate = "1 Gbit/s"
[[host]]
name = "A"
[[host]]
name = "B"
[[link]]
ends = ["A", "B"]
[[stream]]
name = "cyclic"
talker = "A"
listeners = ["B"]
payload = "64 B"
interval = "50 ms"
priority = 7
[[stream]]
name = "shaped"
talker = "B"
listeners = ["A"]
frame = "1514 B"
rate = "250 kbit/s"
"#;

/// One test at a time: they share the machine's clock.
static ALONE: Mutex<()> = Mutex::new(());

fn reasons(report: &Value) -> String {
    report["reasons"].to_string().replace('\u{a0}', " ")
}

/// Two hosts on one cable.
fn two_hosts(by_s: i64, words: &str) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("network.toml");
    std::fs::write(&file, NETWORK).unwrap();
    let pair = NetnsPair::new();
    let start = |host: &str| {
        let mut command = run(side(&pair, host), &file, host);
        let evidence = folder.path().join(format!("{host}.evidence"));
        command
            .args(["--duration", "3s", "--evidence"])
            .arg(evidence);
        Running::start(&mut command).says(RUNNING)
    };
    let running = [start("A"), start("B")];
    let begun = Instant::now();
    thread::sleep(Duration::from_secs(1));
    let apart = Apart::set(by_s);
    let reports: Vec<Value> = running
        .into_iter()
        .map(|one| serde_json::from_slice(&one.output().stdout).unwrap())
        .collect();
    let lasted = begun.elapsed();
    drop(apart);
    assert!(
        lasted < Duration::from_secs(15),
        "they hung for {lasted:?} of a run of 3 s"
    );
    for report in &reports {
        assert_eq!(report["verdict"], "inconclusive", "{}", reasons(report));
        assert!(reasons(report).contains(words), "{}", reasons(report));
    }
    if by_s < 0 {
        // Set back, both go on: a shaper that waited for the old time would send a third. The frames are further apart than a
        // machine stands still.
        let [cyclic, shaped] =
            [(&reports[0], "cyclic"), (&reports[1], "shaped")].map(|(report, stream)| {
                row(report, "talkers", stream)["frames_sent"]
                    .as_u64()
                    .unwrap()
            });
        assert!(cyclic > 47, "{cyclic} of 60 cycles");
        assert!(shaped > 47, "{shaped} of some 61 frames");
    }
    let mut judge = Command::new(env!("CARGO_BIN_EXE_rtwire"));
    judge.arg("judge").arg(&file).arg("--json");
    for host in ["A", "B"] {
        judge.arg(folder.path().join(format!("{host}.evidence")));
    }
    let judged = judge.output().unwrap();
    let report: Value = serde_json::from_slice(&judged.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&judged.stderr)));
    assert_eq!(report["verdict"], "inconclusive", "{}", reasons(&report));
    assert!(reasons(&report).contains(words), "{}", reasons(&report));
}

#[test]
fn talkers_go_on_when_the_clock_is_set_back() {
    require!(root, program "ip", program "phc_ctl");
    two_hosts(-STEP_S, "clock was set back by 30.00 s");
}

#[test]
fn a_run_ends_when_the_clock_is_set_forward() {
    require!(root, program "ip", program "phc_ctl");
    two_hosts(STEP_S, "clock was set forward by 30.00 s");
}
