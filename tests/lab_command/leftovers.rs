//! A lab kept, interrupted, killed, beside another: what is left behind.

use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::*;

#[test]
fn a_kept_lab_can_be_entered_listed_and_taken_down() {
    let _alone = alone();
    let file = example("five-nodes.toml");
    let output = lab(
        &file,
        &[
            "--duration",
            "200ms",
            "--calibration",
            "200ms",
            "--receive-path",
            "native",
            "--keep",
        ],
    )
    .output()
    .unwrap();
    let message = text(&output.stderr);
    let id = kept_id(&message).to_owned();
    assert!(
        message.contains(&format!("rtwire lab enter {id} A")),
        "{message}"
    );
    assert!(
        message.contains(&format!("rtwire lab down {id}")),
        "{message}"
    );

    let entry = labs().into_iter().find(|lab| lab["id"] == *id).unwrap();
    assert_eq!(entry["state"], "kept");
    let output = rtwire(&[
        "lab",
        "enter",
        &id,
        "B",
        "--",
        "cat",
        "/sys/class/net/eth0/address",
    ])
    .output()
    .unwrap();
    assert_eq!(text(&output.stdout).trim(), "02:72:74:00:00:01");
    let output = rtwire(&["lab", "enter", &id, "nobody"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("A, B, C, D, E, s1"));

    let output = rtwire(&["lab", "enter", &id, "B", "--", "no-such-program"])
        .output()
        .unwrap();
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(
        message.contains("cannot start `no-such-program`: No such file"),
        "{message}"
    );

    // Another run leaves a kept lab alone.
    let quick = ["--duration", "200ms", "--calibration", "200ms"];
    lab(&file, &quick).output().unwrap();
    // Six nodes, and where the cables of the hosts end.
    assert_eq!(namespaces(&id).len(), 7);
    assert!(rtwire(&["lab", "down", &id]).status().unwrap().success());
    assert_eq!(namespaces(&id), Vec::<String>::new());
    let output = rtwire(&["lab", "down", &id]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains(&format!("no lab `{id}`")));
}

#[test]
fn ctrl_c_reports_what_there_is_and_leaves_nothing() {
    let _alone = alone();
    let child = five_nodes("300ms", "60s");
    let pid = child.id();
    let lab = wait_for_phase(pid, "running");
    let id = lab["id"].as_str().unwrap().to_owned();
    // What is asked of the report below is half a second of values.
    while since_ns(&lab) < 600_000_000 {
        thread::sleep(Duration::from_millis(20));
    }
    signal(pid, "INT");
    let (code, stdout, stderr) = finished(child);
    let report: Value =
        serde_json::from_str(&stdout).unwrap_or_else(|e| panic!("{e}: {stdout}{stderr}"));
    assert!(matches!(code, Some(0 | 1 | 4)), "{code:?} {stderr}");
    let duration = report["duration_s"].as_f64().unwrap();
    assert!((0.5..30.0).contains(&duration), "{duration} s");
    for stream in report["streams"].as_array().unwrap() {
        assert!(stream["network_delay_ns"]["samples"].as_u64().unwrap() > 0);
    }
    assert_eq!(namespaces(&id), Vec::<String>::new());
    assert!(labs().iter().all(|lab| lab["id"] != *id));
}

#[test]
fn ctrl_c_before_the_run_says_so_and_leaves_nothing() {
    let _alone = alone();
    let child = started(&mut lab(
        &example("five-nodes.toml"),
        &["--calibration", "20s"],
    ));
    let lab = wait_for_phase(child.id(), "calibrating");
    assert_eq!(lab["phase"], "calibrating");
    let id = lab["id"].as_str().unwrap().to_owned();
    signal(child.id(), "TERM");
    let (code, stdout, stderr) = finished(child);
    assert_eq!(code, Some(2), "{stdout}{stderr}");
    assert!(stderr.contains("stopped before the run began"), "{stderr}");
    assert_eq!(namespaces(&id), Vec::<String>::new());
}

#[test]
fn after_sigkill_the_next_run_cleans_up() {
    let _alone = alone();
    let child = started(&mut lab(
        &example("five-nodes.toml"),
        &["--calibration", "200ms", "--duration", "60s"],
    ));
    let pid = child.id();
    let mut hosts = Vec::new();
    let record = while_running(pid, |_| hosts = workers(pid));
    let id = record["id"].as_str().unwrap().to_owned();
    // One for each of the hosts A to E.
    assert_eq!(hosts.len(), 5, "{hosts:?}");
    signal(pid, "KILL");
    finished(child);
    // A dead process that nobody has waited for yet has no program any more.
    let lives = |host: &u32| std::fs::read_link(format!("/proc/{host}/exe")).is_ok();
    let until = Instant::now() + Duration::from_secs(10);
    while hosts.iter().any(lives) {
        assert!(
            Instant::now() < until,
            "the hosts' processes die with the lab: {hosts:?}"
        );
        thread::sleep(Duration::from_millis(20));
    }
    // Six nodes, and where the cables of the hosts end.
    assert_eq!(namespaces(&id).len(), 7, "nobody could clean up yet");
    let entry = labs().into_iter().find(|lab| lab["id"] == *id).unwrap();
    assert_eq!(entry["state"], "crashed");
    lab(
        &example("five-nodes.toml"),
        &["--duration", "200ms", "--calibration", "200ms"],
    )
    .output()
    .unwrap();
    assert_eq!(namespaces(&id), Vec::<String>::new());
    assert!(labs().iter().all(|lab| lab["id"] != *id));
}

/// Whoever acts on a lab, a test or a user, waits for its phases: each comes, in order, with the time of its beginning.
#[test]
fn a_lab_tells_its_phases() {
    let _alone = alone();
    let times = ["--calibration", "500ms", "--duration", "700ms"];
    let kept = [&times[..], &["--keep", "--json"]].concat();
    let child = started(&mut lab(&example("five-nodes.toml"), &kept));
    let pid = child.id();
    let began = |record: &Value| record["phase_since_tai_ns"].as_u64().unwrap();
    let calibrates = wait_for_phase(pid, "calibrating");
    let runs = while_running(pid, |_| {
        let list = text(&rtwire(&["lab", "list"]).output().unwrap().stdout);
        assert!(list.contains("running"), "{list}");
    });
    let (_, report) = reported(child);
    let ended = wait_for_phase(pid, "ended");
    let id = ended["id"].as_str().unwrap();
    assert!(rtwire(&["lab", "down", id]).status().unwrap().success());
    assert_eq!(ended["state"], "kept");
    // The run began as the report says, 500 ms of calibration later, and lasted as long as was asked for.
    let start = report["started_tai_ns"].as_u64().unwrap();
    assert!(began(&runs) >= start, "{runs}");
    assert!(
        began(&calibrates) + 500_000_000 <= start,
        "{calibrates} {start}"
    );
    assert!(began(&ended) >= start + 700_000_000, "{ended} {start}");
}

#[test]
fn two_labs_at_once_do_not_touch_each_other() {
    let _alone = alone();
    let arguments = ["--duration", "1s", "--calibration", "300ms", "--json"];
    let children: Vec<Child> = (0..2)
        .map(|_| started(&mut lab(&example("five-nodes.toml"), &arguments)))
        .collect();
    for child in children {
        let (code, stdout, stderr) = finished(child);
        let report: Value =
            serde_json::from_str(&stdout).unwrap_or_else(|e| panic!("{e} {code:?} {stderr}"));
        for stream in report["streams"].as_array().unwrap() {
            // Twice the work on the same cores may be late, but every frame goes where it belongs.
            assert!(
                stream["frames_received"].as_u64().unwrap() > 100,
                "{stderr}"
            );
            assert_eq!(stream["frames_duplicated"], 0);
        }
        assert!(
            !report["notes"]
                .to_string()
                .contains("belonged to no channel")
        );
    }
}
