//! The clock is set while a lab runs: it ends at once, and judges no time.

use std::time::{Duration, Instant};

use rtwire_testkit::{Apart, require};

use crate::planted::{SMALL, assert_says, written};
use crate::support::*;

/// The length of a step, s.
const STEP_S: i64 = 30;

fn set_while_it_runs(by_s: i64, words: &str) {
    let _alone = alone();
    let (_directory, file) = written(SMALL);
    let times = ["--calibration", "500ms", "--duration", "3s", "--json"];
    let child = started(&mut lab(&file, &times));
    let lab = wait_for_phase(child.id(), "running");
    while since_ns(&lab) < 300_000_000 {
        std::thread::sleep(Duration::from_millis(20));
    }
    let begun = Instant::now();
    let apart = Apart::set(by_s);
    let (code, report) = reported(child);
    drop(apart);
    let lasted = begun.elapsed();
    assert!(lasted < Duration::from_secs(20), "it hung for {lasted:?}");
    assert_eq!(
        (report["verdict"].as_str(), code),
        (Some("inconclusive"), Some(4)),
        "{}",
        report["reasons"]
    );
    assert_says(&report, words);
    // What is counted is counted still: nothing is lost because of it.
    assert_eq!(report["streams"][0]["frames_lost"], 0, "{report}");
}

#[test]
fn a_lab_ends_when_the_clock_is_set_back() {
    require!(root, program "phc_ctl");
    set_while_it_runs(-STEP_S, "clock was set back by 30");
}

#[test]
fn a_lab_ends_when_the_clock_is_set_forward() {
    require!(root, program "phc_ctl");
    set_while_it_runs(STEP_S, "clock was set forward by 30");
}
