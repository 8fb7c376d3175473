//! Faults planted behind the plan's back while a lab runs. Each must be found, and the machine's own noise must not be
//! taken for one: both directions of the verdict are required.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::*;

/// Times in which a quiet network may fail to be called kept, because the machine stalls.
const TRIES: usize = 5;

/// Runs the five nodes, plants a fault at the switch while they run, and returns the report.
fn planted(script: &str) -> Value {
    planted_in(example("five-nodes.toml"), script)
}

fn planted_in(file: PathBuf, script: &str) -> Value {
    let (code, report) = planted_while(
        &file,
        script,
        &["--calibration", "500ms", "--duration", "4s"],
    );
    assert_eq!(
        (report["verdict"].as_str(), code),
        (Some("broken"), Some(1)),
        "{script}: {}",
        report["reasons"]
    );
    report
}

/// Runs a network, does what the script says at the switch while it runs, and returns the exit code and the report.
pub(crate) fn planted_while(file: &Path, script: &str, arguments: &[&str]) -> (Option<i32>, Value) {
    let child = started(lab(file, arguments).arg("--json"));
    while_running(child.id(), |lab| {
        let id = lab["id"].as_str().unwrap();
        let status = rtwire(&["lab", "enter", id, "s1", "--", "sh", "-ec", script]).status();
        assert!(status.unwrap().success(), "planting failed: {script}");
    });
    reported(child)
}

pub(crate) fn assert_says(report: &Value, words: &str) {
    let reasons = report["reasons"].to_string();
    assert!(reasons.contains(words), "not {words:?}: {reasons}");
}

/// A classifier in classic BPF: frames whose sequence number (bytes 22 to 25 of an untagged RTDiP frame) modulo `of` is 7.
/// It returns `hit` for them, else `miss`.
fn each(of: u32, hit: u32, miss: u32) -> String {
    format!("5,32 0 0 22,148 0 0 {of},21 0 1 7,6 0 0 {hit},6 0 0 {miss}")
}

/// What is done to the network of five nodes behind its plan's back, and what the verdict has to say.
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    /// Commands at the switch.
    pub(crate) script: String,
    pub(crate) says: &'static str,
}

impl Fault {
    fn new(name: &'static str, script: impl Into<String>, says: &'static str) -> Self {
        let script = script.into();
        Self { name, script, says }
    }

    pub(crate) fn slower_by_a_tenth() -> Self {
        let script = "tc class change dev to-B classid 1:1 htb rate 90mbit ceil 90mbit overhead 24 burst 3125b cburst 3125b";
        Self::new("a port slower by a tenth", script, "Port s1 to B")
    }

    /// The rate limiter's credit (250 µs) hides a fiftieth from every frame: such a port sends no frame late. Without the
    /// credit each frame is within the calibrated latency, and only the slope shows the rate.
    pub(crate) fn slower_by_a_fiftieth() -> Self {
        let script = "tc class change dev to-B classid 1:1 htb rate 98mbit ceil 98mbit overhead 24 burst 200b cburst 200b";
        Self::new(
            "a port slower by a fiftieth",
            script,
            "slower than its rate",
        )
    }

    pub(crate) fn pauses() -> Self {
        let set = "tc class change dev to-B classid 1:1 htb overhead 24 burst 3125b cburst 3125b";
        let pause = format!("{set} rate 8kbit ceil 8kbit; {set} rate 100mbit ceil 100mbit;");
        let script = format!("for i in 1 2 3 4 5 6 7 8; do {pause} done");
        Self::new("a port that pauses", script, "does not behave as described")
    }

    pub(crate) fn dropped_in_a_thousand() -> Self {
        let shot = each(1_000, 2, u32::MAX);
        let script = format!(
            "tc filter add dev to-B egress prio 60000 protocol all bpf da bytecode '{shot}'"
        );
        Self::new(
            "a frame of a thousand dropped",
            script,
            "Lost in the network",
        )
    }

    pub(crate) fn doubled_in_a_thousand() -> Self {
        let matched = each(1_000, u32::MAX, 0);
        let script = format!(
            "tc filter add dev to-A ingress prio 60000 protocol all bpf bytecode '{matched}' action mirred egress mirror dev to-B"
        );
        Self::new("a frame of a thousand doubled", script, "arrived twice")
    }

    /// Eight frames of a thousand take a detour through a slow queue of the switch: others overtake those that have to
    /// wait there.
    pub(crate) fn held_back() -> Self {
        let detoured = format!(
            "5,32 0 0 22,148 0 0 1000,53 1 0 8,6 0 0 {},6 0 0 0",
            u32::MAX
        );
        let all = format!("1,6 0 0 {}", u32::MAX);
        let script = format!(
            "ip link add slow type veth peer name back; ip link set slow up; ip link set back up;
             tc qdisc add dev slow root tbf rate 200kbit burst 1600 latency 10s; tc qdisc add dev back clsact;
             tc filter add dev back ingress protocol all bpf bytecode '{all}' action mirred egress redirect dev to-B;
             tc filter add dev to-A ingress prio 60000 protocol all bpf bytecode '{detoured}' action mirred egress redirect dev slow"
        );
        Self::new(
            "frames that are held back",
            script,
            "after one that was sent later",
        )
    }

    /// All of them.
    pub(crate) fn all() -> [Self; 6] {
        [
            Self::slower_by_a_tenth(),
            Self::slower_by_a_fiftieth(),
            Self::pauses(),
            Self::dropped_in_a_thousand(),
            Self::doubled_in_a_thousand(),
            Self::held_back(),
        ]
    }
}

fn found(fault: &Fault) {
    let _alone = alone();
    assert_says(&planted(&fault.script), fault.says);
}

#[test]
fn a_port_slower_by_a_tenth_is_found() {
    found(&Fault::slower_by_a_tenth());
}

#[test]
fn a_port_slower_by_a_fiftieth_is_found() {
    found(&Fault::slower_by_a_fiftieth());
}

#[test]
fn a_port_that_pauses_without_a_stall_is_found() {
    found(&Fault::pauses());
}

#[test]
fn a_frame_dropped_in_a_thousand_is_found() {
    found(&Fault::dropped_in_a_thousand());
}

#[test]
fn a_frame_doubled_in_a_thousand_is_found() {
    found(&Fault::doubled_in_a_thousand());
}

#[test]
fn frames_that_are_held_back_are_found() {
    found(&Fault::held_back());
}

/// Two priorities at one busy port.
/// The bulk talkers send each shaping interval's frames together. Their intervals differ, so that the two bursts meet at the port
/// again and again, whenever the talkers began. With one interval they met always or, in a run of five, never.
const TWO_CLASSES: &str = r#"
[network]
name = "two classes"
[defaults]
link-rate = "100 Mbit/s"
tick-error = "500 us"
shaping-interval = "2 ms"
[[switch]]
name = "s1"
buffer = "256 KiB"
queues = 2
[[host]]
name = "A"
[[host]]
name = "B"
[[host]]
name = "C"
[[host]]
name = "D"
[[link]]
ends = ["A", "s1"]
[[link]]
ends = ["B", "s1"]
[[link]]
ends = ["C", "s1"]
[[link]]
ends = ["D", "s1"]
[[stream]]
name = "urgent"
talker = "A"
listeners = ["B"]
payload = "64 B"
interval = "1 ms"
priority = 7
[[stream]]
name = "bulk-1"
talker = "C"
listeners = ["B"]
frame = "1514 B"
rate = "40 Mbit/s"
priority = 0
[[stream]]
name = "bulk-2"
talker = "D"
listeners = ["B"]
frame = "1514 B"
rate = "40 Mbit/s"
shaping-interval = "2300 us"
priority = 0
"#;

pub(crate) fn written(text: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("net.toml");
    std::fs::write(&file, text).unwrap();
    (directory, file)
}

#[test]
fn swapped_priorities_are_found() {
    let _alone = alone();
    let (_directory, file) = written(TWO_CLASSES);
    let class = |minor: u32, prio: u32| {
        format!(
            "tc class change dev to-B parent 1:1 classid 1:{minor} htb prio {prio} rate 8bit ceil 120mbit burst 0b cburst 900b;"
        )
    };
    // The urgent class is 1:11. The smallest number is served first.
    let report = planted_in(file, &(class(11, 7) + &class(10, 0)));
    assert_says(&report, "should have gone first");
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
        let (code, report) = measured(&file, &["--calibration", "500ms", "--duration", "3s"]);
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
        let mut command = Command::new("sh");
        command
            .args(["-c", "while :; do :; done"])
            .stdin(Stdio::null());
        Self(command.spawn().unwrap())
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
    for _ in 0..3 {
        let (_, report) = measured(&file, &["--calibration", "500ms", "--duration", "3s"]);
        assert_ne!(report["verdict"], "broken", "{}", report["reasons"]);
    }
}

/// Two receivers and no `burst`: the lab's own generator keeps the allowance of one frame for both together.
#[test]
fn best_effort_to_two_receivers_conforms_as_a_whole() {
    let _alone = alone();
    let office = "[[host]]\nname = \"C\"\n[[link]]\nends = [\"C\", \"s1\"]\n[[best-effort]]\nhost = \"A\"\nto = [\"B\", \"C\"]\n\
        rate = \"10 Mbit/s\"\n";
    let (_directory, file) = written(&(SMALL.to_owned() + office));
    let (_, report) = measured(&file, &["--calibration", "500ms", "--duration", "3s"]);
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
    let times = ["--calibration", "500ms", "--duration", "3s", "--json"];
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
        while since_ns(lab) < 3_000_000_000 {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        signal(pid, "INT");
    });
    let (_, report) = reported(child);
    assert_ne!(report["verdict"], "kept", "{}", report["reasons"]);
    assert_says(&report, "interrupted");
}
