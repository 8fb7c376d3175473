//! `rtwire lab` as a user runs it: the experiment, its negative twin, faults, and what is left behind.
//!
//! Each test runs a real network on this machine, so they run one after the other. Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rtwire_testkit::{require, without_bpf};
use serde_json::Value;

/// Two labs at a time would be each other's noise.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .join(name)
}

fn rtwire(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rtwire"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn lab(file: &Path, arguments: &[&str]) -> Command {
    let mut command = rtwire(&["lab"]);
    command.arg(file).args(arguments);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a lab to its end and reads its JSON.
fn measured(file: &Path, arguments: &[&str]) -> (i32, Value) {
    let output = lab(file, arguments).arg("--json").output().unwrap();
    let stdout = text(&output.stdout);
    let report = serde_json::from_str(&stdout)
        .unwrap_or_else(|e| panic!("no JSON ({e}): {stdout}\n{}", text(&output.stderr)));
    (output.status.code().unwrap(), report)
}

fn labs() -> Vec<Value> {
    let output = rtwire(&["lab", "list", "--json"]).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

fn namespaces(id: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/run/netns").unwrap();
    entries
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter(|name| name.starts_with(&format!("rtw-{id}-")))
        .collect()
}

/// Waits until the lab of this process is up, with the processes of its hosts at work; gives its record.
fn wait_for_lab(pid: u32) -> Value {
    let until = Instant::now() + Duration::from_secs(30);
    while Instant::now() < until {
        let found = labs().into_iter().find(|lab| lab["pid"] == pid);
        if let Some(lab) = found.filter(|_| !workers(pid).is_empty()) {
            return lab;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("the lab of process {pid} does not come up");
}

/// The processes of a lab's hosts.
fn workers(pid: u32) -> Vec<u32> {
    let children = format!("/proc/{pid}/task");
    let Ok(tasks) = std::fs::read_dir(children) else {
        return Vec::new();
    };
    tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok())
        .flat_map(|line| {
            line.split_whitespace()
                .map(|id| id.parse().unwrap())
                .collect::<Vec<_>>()
        })
        .collect()
}

fn signal(pid: u32, name: &str) {
    let status = Command::new("kill")
        .args([&format!("-{name}"), &pid.to_string()])
        .status();
    assert!(status.unwrap().success(), "kill -{name} {pid}");
}

fn started(command: &mut Command) -> Child {
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn finished(child: Child) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = child.wait_with_output().unwrap();
    (status.code(), text(&stdout), text(&stderr))
}

/// The exit code and the report of a lab that was started with `--json`.
fn reported(child: Child) -> (Option<i32>, Value) {
    let (code, stdout, stderr) = finished(child);
    let report = serde_json::from_str(&stdout).unwrap_or_else(|e| panic!("{e}: {stdout}{stderr}"));
    (code, report)
}

/// Everything the report's readers rely on is there and fits together.
fn check_shape(report: &Value) {
    for key in [
        "verdict",
        "reasons",
        "streams",
        "ports",
        "hosts",
        "noise",
        "machine",
        "command",
        "calibration",
    ] {
        assert!(!report[key].is_null(), "no `{key}` in the report");
    }
    for stream in report["streams"].as_array().unwrap() {
        for key in [
            "name",
            "promised_delay_ns",
            "network_delay_ns",
            "app_delay_ns",
            "frames_sent",
            "frames_lost",
            "frames_duplicated",
            "frames_reordered",
            "samples_excluded",
            "verdict",
        ] {
            assert!(stream.get(key).is_some(), "no `{key}` in a stream");
        }
        for delay in ["network_delay_ns", "app_delay_ns"] {
            let of = |key: &str| {
                stream[delay][key]
                    .as_u64()
                    .unwrap_or_else(|| panic!("{delay}.{key}"))
            };
            assert!(of("min") <= of("p50") && of("p50") <= of("p99"));
            assert!(of("p99") <= of("p999") && of("p999") <= of("max"));
        }
    }
    for port in report["ports"].as_array().unwrap() {
        for key in [
            "switch",
            "port",
            "promised_backlog_bytes",
            "max_backlog_bytes",
            "buffer_bytes",
            "frames_dropped",
            "utilization_percent",
        ] {
            assert!(port.get(key).is_some(), "no `{key}` in a port");
        }
    }
    let cores = report["noise"]["cores"].as_array().unwrap();
    assert!(!cores.is_empty());
    for core in cores {
        assert_eq!(core["policy"], "SCHED_FIFO");
    }
}

/// The experiment of the source at one shaping interval: never a broken promise, no loss, the load really there.
fn experiment(file: &str, published_ns: u64) {
    let _alone = alone();
    let (code, report) = measured(&example(file), &["--duration", "6s", "--calibration", "2s"]);
    check_shape(&report);
    assert_eq!(report["streams"][0]["published_max_ns"], published_ns);
    let verdict = report["verdict"].as_str().unwrap();
    // A machine that stalls too much makes it inconclusive, and the reasons say so; broken it must never be.
    assert!(
        matches!((verdict, code), ("kept", 0) | ("inconclusive", 4)),
        "{verdict} {code}: {}",
        report["reasons"]
    );
    assert_eq!(report["streams"].as_array().unwrap().len(), 4);
    let to_b = report["ports"]
        .as_array()
        .unwrap()
        .iter()
        .find(|port| port["switch"] == "s1" && port["port"] == "B")
        .unwrap();
    assert_eq!(to_b["buffer_bytes"], 86 * 1514);
    if verdict == "kept" {
        assert_eq!(to_b["frames_dropped"], 0);
        assert!(
            to_b["utilization_percent"].as_f64().unwrap() >= 92.0,
            "{to_b}"
        );
        for stream in report["streams"].as_array().unwrap() {
            assert_eq!(stream["frames_lost"], 0);
        }
    }
}

#[test]
fn the_experiment_at_ten_milliseconds() {
    experiment("five-nodes-10ms.toml", 9_400_000);
}

#[test]
fn the_experiment_at_one_millisecond() {
    experiment("five-nodes.toml", 1_400_000);
}

#[test]
fn the_experiment_at_a_hundred_microseconds() {
    experiment("five-nodes-100us.toml", 582_000);
}

#[test]
fn the_verdict_can_fail() {
    let _alone = alone();
    let file = example("five-nodes-unshaped.toml");
    let output = lab(&file, &["--duration", "2s"]).output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(1),
        "refused before anything is brought up"
    );
    let message = text(&output.stderr);
    assert!(
        message.contains("C-to-B") && message.contains("--no-admission"),
        "{message}"
    );

    let (code, report) = measured(
        &file,
        &["--duration", "3s", "--calibration", "1s", "--no-admission"],
    );
    assert_eq!((report["verdict"].as_str(), code), (Some("broken"), 1));
    let lost: u64 = report["streams"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stream| stream["frames_lost"].as_u64().unwrap())
        .sum();
    assert!(lost > 100, "a sender without a shaper costs frames: {lost}");
}

#[test]
fn a_line_of_switches_with_every_kind_of_stream() {
    let _alone = alone();
    let (code, report) = measured(
        &example("line.toml"),
        &["--duration", "4s", "--calibration", "1s"],
    );
    // One stream is too slow for a verdict in four seconds; nothing is broken or lost.
    assert!(matches!(code, 0 | 4), "{}", report["reasons"]);
    let streams = report["streams"].as_array().unwrap();
    for stream in streams {
        assert!(
            stream["network_delay_ns"]["samples"].as_u64().unwrap() > 100,
            "{}",
            stream["name"]
        );
        assert_eq!(stream["frames_lost"], 0, "{}", stream["name"]);
    }
    let listeners: Vec<&Value> = streams
        .iter()
        .filter(|s| s["name"] == "setpoints")
        .collect();
    assert_eq!(listeners.len(), 2, "both listeners of the group are judged");
    let notes = report["notes"].to_string();
    assert!(
        !notes.contains("belonged to no channel"),
        "no stray frames: {notes}"
    );
}

/// Five nodes, and a newest-value stream, over each way in. The ports' counts hold by all of them: the receive program takes
/// frames before the kernel counts them at the interface.
#[test]
fn every_way_in_keeps_the_promises_and_is_said() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("five-and-newest.toml");
    let five = std::fs::read_to_string(example("five-nodes.toml")).unwrap();
    let newest = "\n[[stream]]\nname = \"newest\"\ntalker = \"B\"\nlisteners = [\"A\"]\npayload = \"64 B\"\n\
        interval = \"1 ms\"\npriority = 5\nsemantics = \"newest\"\n";
    std::fs::write(&file, five + newest).unwrap();
    let sleeps = "packet (its reader sleeps: a packet socket costs less)";
    for (path, of_queues, of_newest) in [
        ("packet", "packet", "packet"),
        ("auto", sleeps, "native"),
        ("native", "native", "native"),
        ("generic", "generic", "generic"),
    ] {
        let arguments = ["--duration", "1500ms", "--calibration", "500ms"];
        let police = ["--police", "200ms"];
        let arguments = [&arguments[..], &["--receive-path", path], &police].concat();
        let (code, report) = measured(&file, &arguments);
        assert!(matches!(code, 0 | 4), "{path}: {}", report["reasons"]);
        for stream in report["streams"].as_array().unwrap() {
            let expected = match stream["name"].as_str() {
                Some("newest") => of_newest,
                _ => of_queues,
            };
            assert_eq!(stream["receive_path"], expected, "{path}");
            let name = &stream["name"];
            assert_eq!(stream["frames_lost"], 0, "{path} {name}");
            assert!(
                stream["frames_received"].as_u64() > Some(1_000),
                "{path} {name}"
            );
            assert_eq!(stream["stamps_missing"], 0, "{path} {name}");
        }
        for port in report["ports"].as_array().unwrap() {
            assert_eq!(port["frames_dropped"], 0, "{path}");
            // A port whose frames are never counted as gone would fill for ever.
            let (highest, promised) = (&port["max_backlog_bytes"], &port["promised_backlog_bytes"]);
            assert!(highest.as_u64() <= promised.as_u64(), "{path}: {port}");
        }
        let notes = report["notes"].to_string();
        assert!(!notes.contains("had not arrived there"), "{path}: {notes}");
    }
}

/// Frames go the ways of the plan, best effort too, and none goes around for ever.
#[test]
fn a_ring_forwards_as_planned() {
    let _alone = alone();
    let (code, report) = measured(
        &example("ring.toml"),
        &["--duration", "3s", "--calibration", "1s"],
    );
    assert!(matches!(code, 0 | 4), "{}", report["reasons"]);
    for stream in report["streams"].as_array().unwrap() {
        let samples = stream["network_delay_ns"]["samples"].as_u64().unwrap();
        assert!(samples > 100, "{}", stream["name"]);
        assert_eq!(stream["frames_lost"], 0, "{}", stream["name"]);
    }
    // Nothing is planned from s1 to s4: nothing passed.
    let ports = report["ports"].as_array().unwrap();
    let passed = |from: &str, to: &str| {
        let port = ports
            .iter()
            .find(|port| port["switch"] == from && port["port"] == to);
        port.and_then(|port| port["max_backlog_bytes"].as_u64())
            .unwrap_or(0)
    };
    assert_eq!(passed("s1", "s4"), 0, "{ports:?}");
    assert!(passed("s3", "s4") > 0, "{ports:?}");
}

#[test]
fn a_kept_lab_can_be_entered_listed_and_taken_down() {
    let _alone = alone();
    let file = example("five-nodes.toml");
    let output = lab(
        &file,
        &[
            "--duration",
            "300ms",
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
    let id = message
        .split_whitespace()
        .nth(1)
        .unwrap_or_else(|| panic!("{message}"))
        .to_owned();
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
    // Six nodes, and the wires to the listener's receive program.
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
    let child = started(
        lab(
            &example("five-nodes.toml"),
            &["--calibration", "500ms", "--duration", "60s"],
        )
        .arg("--json"),
    );
    let pid = child.id();
    let id = wait_for_lab(pid)["id"].as_str().unwrap().to_owned();
    thread::sleep(Duration::from_secs(4));
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
    let id = wait_for_lab(child.id())["id"].as_str().unwrap().to_owned();
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
    let id = wait_for_lab(pid)["id"].as_str().unwrap().to_owned();
    let hosts = workers(pid);
    signal(pid, "KILL");
    finished(child);
    thread::sleep(Duration::from_millis(500));
    for host in hosts {
        // A dead process that nobody has waited for yet has no program any more.
        let program = std::fs::read_link(format!("/proc/{host}/exe"));
        assert!(
            program.is_err(),
            "the hosts' processes die with the lab: {program:?}"
        );
    }
    assert_eq!(namespaces(&id).len(), 6, "nobody could clean up yet");
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

#[test]
fn two_labs_at_once_do_not_touch_each_other() {
    let _alone = alone();
    let arguments = ["--duration", "2s", "--calibration", "500ms", "--json"];
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

#[test]
fn without_privileges_the_missing_ones_are_named() {
    let output = Command::new("setpriv")
        .args([
            "--reuid",
            "65534",
            "--clear-groups",
            "--inh-caps=-all",
            "--",
        ])
        .arg(env!("CARGO_BIN_EXE_rtwire"))
        .args(["lab", example("five-nodes.toml").to_str().unwrap()])
        .output()
        .unwrap();
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(
        message.contains("root") && message.contains("CAP_NET_ADMIN"),
        "{message}"
    );
    assert!(
        !message.contains("CAP_SYS_TIME"),
        "only what is needed: {message}"
    );
}

#[test]
fn what_the_kernel_lacks_is_named() {
    let _alone = alone();
    require!(root);
    let output = without_bpf(|| {
        lab(&example("five-nodes.toml"), &["--duration", "1s"])
            .output()
            .unwrap()
    });
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.contains("BPF"), "{message}");
    println!("{message}");
    assert!(labs().is_empty(), "nothing is left: {:?}", labs());
}

#[test]
fn bad_input_is_told_before_anything_is_done() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("net.toml");
    let good = std::fs::read_to_string(example("five-nodes.toml")).unwrap();
    std::fs::write(&file, good.replace("talker = \"C\"", "talker = \"Z\"")).unwrap();
    let before = labs().len();
    let output = lab(&file, &[]).output().unwrap();
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        message.contains("net.toml:") && message.contains('Z'),
        "{message}"
    );

    let cases: [(&[&str], &str); 8] = [
        (&["--receive-path", "fast"], "auto, native, generic, packet"),
        (&["--transmit-path", "xdp"], "past the emulated link"),
        (&["--duration", "20"], "unit"),
        (&["--duration", "0s"], "above 0"),
        (&["--duration", "5 sec"], "did you mean"),
        (&["--duration", "1000000s"], "shorten --duration"),
        (&["--report", "/nonexistent/report.html"], "/nonexistent"),
        (&["--set", "shaping-intervall=1ms"], "shaping-interval"),
    ];
    for (arguments, expected) in cases {
        let output = lab(&example("five-nodes.toml"), arguments)
            .output()
            .unwrap();
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
    let output = lab(&directory.path().join("missing.toml"), &[])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("missing.toml"));
    assert_eq!(labs().len(), before, "no lab was begun");
}

#[test]
fn the_report_is_written_beside_its_data() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let html = directory.path().join("five.html");
    let output = lab(
        &example("five-nodes.toml"),
        &["--duration", "1s", "--calibration", "300ms", "--report"],
    )
    .arg(&html)
    .output()
    .unwrap();
    assert!(
        matches!(output.status.code(), Some(0 | 1 | 4)),
        "{}",
        text(&output.stderr)
    );
    let page = std::fs::read_to_string(&html).unwrap();
    for name in ["A-to-B", "C-to-B", "D-to-B", "E-to-B"] {
        assert!(page.contains(name), "{name} is in the report");
        assert!(
            text(&output.stdout).contains(name),
            "{name} is in the table"
        );
    }
    let data = std::fs::read_to_string(directory.path().join("five.json")).unwrap();
    check_shape(&serde_json::from_str(&data).unwrap());
}

#[test]
fn an_interface_that_vanishes_is_named_and_the_rest_goes_on() {
    let _alone = alone();
    let child = started(
        lab(
            &example("five-nodes.toml"),
            &["--calibration", "300ms", "--duration", "5s"],
        )
        .arg("--json"),
    );
    let lab = wait_for_lab(child.id());
    let id = lab["id"].as_str().unwrap().to_owned();
    // Calibration has its own processes: wait until the run's are at work.
    thread::sleep(Duration::from_millis(3_500));
    let status = rtwire(&[
        "lab", "enter", &id, "C", "--", "ip", "link", "delete", "eth0",
    ])
    .status();
    assert!(status.unwrap().success());
    let (code, report) = reported(child);
    assert!(
        matches!(code, Some(1 | 4)),
        "a stream that could not be sent is not kept: {code:?}"
    );
    let notes = report["notes"].to_string();
    assert!(
        notes.contains("Host C") && notes.contains("eth0"),
        "{notes}"
    );
    let e_to_b = report["streams"]
        .as_array()
        .unwrap()
        .iter()
        .find(|s| s["name"] == "E-to-B")
        .unwrap();
    assert_eq!(e_to_b["frames_lost"], 0, "others do not suffer");
    assert_eq!(namespaces(&id), Vec::<String>::new());
}

#[test]
fn a_stopped_talker_makes_the_run_inconclusive_not_broken() {
    let _alone = alone();
    let child = started(
        lab(
            &example("five-nodes.toml"),
            &["--calibration", "300ms", "--duration", "4s"],
        )
        .arg("--json"),
    );
    let pid = child.id();
    wait_for_lab(pid);
    thread::sleep(Duration::from_millis(3_000));
    // Host A is the first to be started.
    let talker = *workers(pid).iter().min().unwrap();
    signal(talker, "STOP");
    thread::sleep(Duration::from_millis(400));
    signal(talker, "CONT");
    let (_, report) = reported(child);
    assert_eq!(report["verdict"], "inconclusive", "{}", report["reasons"]);
    assert!(
        report["reasons"].to_string().contains("planned frames"),
        "{}",
        report["reasons"]
    );
}

/// A real-time task that takes a core now and then, from outside of the lab.
fn busy(priority: &str, seconds: u32) -> Child {
    let script = "end=$(( $(date +%s) + $1 )); while [ $(date +%s) -lt $end ]; do \
        i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; sleep 0.1; done";
    Command::new("chrt")
        .args([
            "-f",
            priority,
            "sh",
            "-c",
            script,
            "busy",
            &seconds.to_string(),
        ])
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_busy_real_time_task_is_recorded_and_breaks_no_promise() {
    let _alone = alone();
    let mut task = busy("95", 8);
    let (_, report) = measured(
        &example("five-nodes.toml"),
        &["--calibration", "500ms", "--duration", "4s"],
    );
    task.wait().unwrap();
    let stalled: u64 = report["noise"]["cores"]
        .as_array()
        .unwrap()
        .iter()
        .map(|core| core["stalled_ns"].as_u64().unwrap())
        .sum();
    assert!(
        stalled > 10_000_000,
        "the noise record has it: {stalled} ns"
    );
    assert_ne!(report["verdict"], "broken", "{}", report["reasons"]);
}

#[test]
fn noise_cannot_make_a_broken_promise_kept() {
    let _alone = alone();
    let mut task = busy("95", 8);
    let (_, report) = measured(
        &example("five-nodes-unshaped.toml"),
        &[
            "--calibration",
            "500ms",
            "--duration",
            "3s",
            "--no-admission",
        ],
    );
    task.wait().unwrap();
    assert_ne!(report["verdict"], "kept", "{}", report["reasons"]);
    assert_ne!(report["streams"][0]["verdict"], "kept");
}

#[test]
fn a_host_whose_process_dies_costs_only_its_own_streams() {
    let _alone = alone();
    let child = started(
        lab(
            &example("five-nodes.toml"),
            &["--calibration", "300ms", "--duration", "4s"],
        )
        .arg("--json"),
    );
    let pid = child.id();
    wait_for_lab(pid);
    thread::sleep(Duration::from_millis(3_000));
    // Host A is the first to be started; its process talks only.
    signal(*workers(pid).iter().min().unwrap(), "KILL");
    let (code, report) = reported(child);
    assert!(matches!(code, Some(1 | 4)), "{code:?}");
    assert!(
        report["notes"].to_string().contains("host `A`"),
        "{}",
        report["notes"]
    );
    let streams = report["streams"].as_array().unwrap();
    let of = |name: &str| {
        streams
            .iter()
            .find(|stream| stream["name"] == name)
            .unwrap()
    };
    assert_ne!(of("A-to-B")["verdict"], "kept");
    for other in ["C-to-B", "D-to-B", "E-to-B"] {
        assert_eq!(of(other)["frames_lost"], 0, "{other} goes on");
        assert!(of(other)["frames_received"].as_u64().unwrap() > 1_000);
    }
}

#[test]
fn a_lost_value_of_a_newest_value_channel_is_lost() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("newest.toml");
    let text = "[network]\nname = \"newest\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\n\
        [[switch]]\nname = \"s1\"\nbuffer = \"64 KiB\"\n[[host]]\nname = \"A\"\n[[host]]\nname = \"B\"\n\
        [[link]]\nends = [\"A\", \"s1\"]\n[[link]]\nends = [\"B\", \"s1\"]\n\
        [[stream]]\nname = \"values\"\ntalker = \"A\"\nlisteners = [\"B\"]\npayload = \"64 B\"\n\
        interval = \"1 ms\"\nsemantics = \"newest\"\n";
    std::fs::write(&file, text).unwrap();
    let child = started(lab(&file, &["--calibration", "300ms", "--duration", "4s"]).arg("--json"));
    let id = wait_for_lab(child.id())["id"].as_str().unwrap().to_owned();
    thread::sleep(Duration::from_millis(2_500));
    let forwarding = |what: &str| {
        let arguments = [
            "lab",
            "enter",
            &id,
            "s1",
            "--",
            "bridge",
            "fdb",
            what,
            "02:72:74:00:00:01",
        ];
        let status = rtwire(&arguments)
            .args(["dev", "to-B", "master", "static"])
            .status();
        assert!(status.unwrap().success(), "bridge fdb {what}");
    };
    forwarding("del");
    thread::sleep(Duration::from_millis(200));
    forwarding("add");
    let (code, report) = reported(child);
    let stream = &report["streams"][0];
    assert!(stream["frames_lost"].as_u64().unwrap() > 50, "{stream}");
    assert_eq!(
        (stream["verdict"].as_str(), code),
        (Some("broken"), Some(1)),
        "{}",
        stream["reasons"]
    );
}

#[test]
fn a_reader_that_goes_away_costs_no_report() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let html = directory.path().join("gone.html");
    let mut child = started(
        lab(
            &example("five-nodes.toml"),
            &[
                "--calibration",
                "300ms",
                "--duration",
                "500ms",
                "--json",
                "--report",
            ],
        )
        .arg(&html),
    );
    drop(child.stdout.take());
    let (code, _, stderr) = finished(child);
    assert!(matches!(code, Some(0 | 1 | 4)), "{code:?} {stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    assert!(html.exists() && html.with_extension("json").exists());
}

#[test]
fn the_tour_of_the_readme_runs_as_it_stands() {
    let _alone = alone();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let tour = readme
        .split("## A tour")
        .nth(1)
        .unwrap()
        .split("\n## ")
        .next()
        .unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let mut commands = 0;
    for line in tour
        .lines()
        .filter_map(|line| line.strip_prefix("    rtwire "))
    {
        let mut words: Vec<String> = Vec::new();
        for word in line.split('#').next().unwrap().split_whitespace() {
            // The same commands, only shorter, and with nothing left in the project's folder.
            let word = match words.last().map(String::as_str) {
                Some("--duration") => "300ms".to_owned(),
                Some("--search") => "20".to_owned(),
                Some("--report") => scratch.path().join(word).display().to_string(),
                _ => word.to_owned(),
            };
            words.push(word);
        }
        if words[0] == "lab" && words.iter().any(|word| word == "--duration") {
            words.extend(["--calibration", "300ms"].map(str::to_owned));
        }
        let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = rtwire(&arguments).current_dir(&root).output().unwrap();
        assert!(
            matches!(output.status.code(), Some(0 | 1 | 4)),
            "`rtwire {line}`: {:?} {}",
            output.status.code(),
            text(&output.stderr)
        );
        commands += 1;
    }
    assert!(commands >= 9, "only {commands} commands found in the tour");
}
