//! What the tests of `rtwire lab` share: a lab started, found, examined, signalled and ended.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rtwire_sys::clock::{Clock, now_ns};
use serde_json::Value;

/// Two labs at a time would be each other's noise.
pub(crate) static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .join(name)
}

pub(crate) fn rtwire(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rtwire"));
    command.args(arguments).stdin(Stdio::null());
    command
}

pub(crate) fn lab(file: &Path, arguments: &[&str]) -> Command {
    let mut command = rtwire(&["lab"]);
    command.arg(file).args(arguments);
    command
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a lab to its end and reads its JSON.
pub(crate) fn measured(file: &Path, arguments: &[&str]) -> (i32, Value) {
    let output = lab(file, arguments).arg("--json").output().unwrap();
    let stdout = text(&output.stdout);
    let report = serde_json::from_str(&stdout)
        .unwrap_or_else(|e| panic!("no JSON ({e}): {stdout}\n{}", text(&output.stderr)));
    (output.status.code().unwrap(), report)
}

/// The id of the lab that stays, from what `--keep` says of it.
pub(crate) fn kept_id(said: &str) -> &str {
    let line = said.lines().find(|line| line.contains(" is still up;"));
    let id = line.and_then(|line| line.strip_prefix("lab ")?.split_once(' '));
    id.unwrap_or_else(|| panic!("no lab stays: {said}")).0
}

pub(crate) fn labs() -> Vec<Value> {
    let output = rtwire(&["lab", "list", "--json"]).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

pub(crate) fn namespaces(id: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/run/netns").unwrap();
    entries
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter(|name| name.starts_with(&format!("rtw-{id}-")))
        .collect()
}

/// Waits until the lab of this process is in this phase or a later one; returns its record.
pub(crate) fn wait_for_phase(pid: u32, phase: &str) -> Value {
    let place = |name: &Value| PHASES.iter().position(|known| name == known);
    let wanted = place(&phase.into());
    assert!(wanted.is_some(), "there is no phase `{phase}`");
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        let found = labs().into_iter().find(|lab| lab["pid"] == pid);
        if let Some(lab) = found.filter(|lab| place(&lab["phase"]) >= wanted) {
            return lab;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("the lab of process {pid} does not come to the phase `{phase}`");
}

const PHASES: [&str; 4] = ["bringing-up", "calibrating", "running", "ended"];

/// The time since a record's phase began, ns.
pub(crate) fn since_ns(lab: &Value) -> u64 {
    now_ns(Clock::Tai).saturating_sub(lab["phase_since_tai_ns"].as_u64().unwrap())
}

/// Does something to a lab that runs, and proves that it still ran when that was done. Returns the lab's record.
pub(crate) fn while_running(pid: u32, act: impl FnOnce(&Value)) -> Value {
    let lab = wait_for_phase(pid, "running");
    assert_eq!(lab["phase"], "running", "it ended too soon: {lab}");
    act(&lab);
    let after = wait_for_phase(pid, "running");
    assert_eq!(after["phase"], "running", "it ended meanwhile: {after}");
    assert_eq!(after["phase_since_tai_ns"], lab["phase_since_tai_ns"]);
    lab
}

/// The process of a lab's host: the worker whose network namespace is the host's.
pub(crate) fn worker_of(lab: &Value, host: &str) -> u32 {
    let nodes = lab["nodes"].as_array().unwrap();
    let node = nodes.iter().find(|node| node["name"] == host).unwrap();
    let namespace = format!("/run/netns/{}", node["namespace"].as_str().unwrap());
    let namespace = std::fs::metadata(namespace).unwrap().ino();
    let pid = u32::try_from(lab["pid"].as_u64().unwrap()).unwrap();
    let of_host = |worker: &u32| {
        let own = std::fs::metadata(format!("/proc/{worker}/ns/net"));
        own.is_ok_and(|own| own.ino() == namespace)
    };
    let found: Vec<u32> = workers(pid).into_iter().filter(of_host).collect();
    assert_eq!(found.len(), 1, "host {host} has one process: {found:?}");
    found[0]
}

/// The processes of a lab's hosts.
pub(crate) fn workers(pid: u32) -> Vec<u32> {
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

pub(crate) fn signal(pid: u32, name: &str) {
    let status = Command::new("kill")
        .args([&format!("-{name}"), &pid.to_string()])
        .status();
    assert!(status.unwrap().success(), "kill -{name} {pid}");
}

/// Waits until the kernel has stopped every thread of a process.
pub(crate) fn wait_until_stopped(pid: u32) {
    let until = Instant::now() + Duration::from_secs(10);
    let is_stopped = |task: std::io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap_or_default();
        // The state is the first field behind the name.
        stat.rsplit_once(") ")
            .is_some_and(|(_, behind)| behind.starts_with('T'))
    };
    while !std::fs::read_dir(format!("/proc/{pid}/task"))
        .unwrap()
        .all(is_stopped)
    {
        assert!(Instant::now() < until, "process {pid} does not stop");
        thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn started(command: &mut Command) -> Child {
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The five nodes, begun with `--json`: to be read by [`reported`].
pub(crate) fn five_nodes(calibration: &str, duration: &str) -> Child {
    let times = [
        "--calibration",
        calibration,
        "--duration",
        duration,
        "--json",
    ];
    started(&mut lab(&example("five-nodes.toml"), &times))
}

pub(crate) fn finished(child: Child) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = child.wait_with_output().unwrap();
    (status.code(), text(&stdout), text(&stderr))
}

/// The exit code and the report of a lab that was started with `--json`.
pub(crate) fn reported(child: Child) -> (Option<i32>, Value) {
    let (code, stdout, stderr) = finished(child);
    let report = serde_json::from_str(&stdout).unwrap_or_else(|e| panic!("{e}: {stdout}{stderr}"));
    (code, report)
}

/// No port filled up or dropped a frame, but where the machine stood still meanwhile (`docs/verdict.md`, line 10), and all
/// frames that a port took arrived at its other end.
pub(crate) fn check_ports(report: &Value, case: &str) {
    for port in report["ports"].as_array().unwrap() {
        let id = (case, &port["switch"], &port["port"]);
        assert!(dropped(port) == 0 || stalled(port), "{id:?}: {port}");
        // A stall of the machine may explain a high backlog once; the report then says so.
        assert_ne!(port["verdict"], "broken", "{id:?}: {}", port["reasons"]);
        // A port whose frames are never counted as gone would fill for ever.
        let over_time = port["backlog_over_time"].as_array().unwrap();
        let last = over_time.iter().rev().take(40);
        let least = last.filter_map(|slice| slice["max_bytes"].as_u64()).min();
        assert!(least <= port["promised_backlog_bytes"].as_u64(), "{id:?}");
    }
    let notes = report["notes"].to_string();
    assert!(!notes.contains("had not arrived there"), "{case}: {notes}");
}

fn dropped(port: &Value) -> u64 {
    port["frames_dropped"].as_u64().unwrap()
}

/// A port that a hypervisor holds up for 11 ms while its senders go on runs over: the described port drops none of these.
fn stalled(port: &Value) -> bool {
    port["verdict"] == "inconclusive"
        && port["reasons"]
            .to_string()
            .contains("after stalls of the machine")
}

/// No stream lost a frame, but what a port or a listener's socket dropped while the machine stood still. The report is then
/// inconclusive.
pub(crate) fn check_losses(report: &Value, case: &str) {
    let ports = report["ports"].as_array().unwrap();
    let explained: u64 = ports.iter().filter(|port| stalled(port)).map(dropped).sum();
    for stream in report["streams"].as_array().unwrap() {
        let [lost, own] =
            ["frames_lost", "listener_drops"].map(|key| stream[key].as_u64().unwrap());
        let id = (case, &stream["name"]);
        assert!(
            lost <= explained + own,
            "{id:?}: {lost} lost: {}",
            stream["reasons"]
        );
        assert!(lost == 0 || stream["verdict"] == "inconclusive", "{id:?}");
    }
}

/// Everything the report's readers rely on is there and fits together.
pub(crate) fn check_shape(report: &Value) {
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
            "frames_explained",
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
