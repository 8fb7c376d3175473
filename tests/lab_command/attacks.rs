//! Attacks: the network is made worse behind the plan's back while a lab runs. Each must be found. `CONTRIBUTING.md` lists
//! those that other tests make.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::planted::{SMALL, assert_says, written};
use crate::support::*;

/// Does what the script says at the switch of a lab that runs.
fn plant(lab: &Value, script: &str) {
    let id = lab["id"].as_str().unwrap();
    let status = rtwire(&["lab", "enter", id, "s1", "--", "sh", "-ec", script]).status();
    assert!(status.unwrap().success(), "planting failed: {script}");
}

/// Runs a network, plants a fault at its switch while it runs, and returns the exit code and the report.
pub(crate) fn planted_while(file: &Path, script: &str, arguments: &[&str]) -> (Option<i32>, Value) {
    let child = started(lab(file, arguments).arg("--json"));
    while_running(child.id(), |lab| plant(lab, script));
    reported(child)
}

/// As [`planted_while`]; the run must be broken.
fn planted(file: &Path, script: &str, duration: &str) -> Value {
    let times = ["--calibration", "500ms", "--duration", duration];
    let (code, report) = planted_while(file, script, &times);
    assert_eq!(
        (report["verdict"].as_str(), code),
        (Some("broken"), Some(1)),
        "{script}: {}",
        report["reasons"]
    );
    report
}

/// A classifier in classic BPF: of the frames of one talker, whose MAC address (bytes 6 to 11) ends in its place among the
/// hosts, those whose sequence number (bytes 22 to 25 of an untagged RTDiP frame) modulo 10 000 is `first` or one of the
/// `more` next. It returns `hit` for them, else `miss`.
fn in_ten_thousand(host: u32, (first, more): (u32, u32), hit: u32, miss: u32) -> String {
    let last = first + more;
    format!(
        "8,48 0 0 11,21 0 5 {host},32 0 0 22,148 0 0 10000,53 0 2 {first},37 1 0 {last},6 0 0 {hit},6 0 0 {miss}"
    )
}

/// The places of the hosts of the five nodes, in their description's order.
const A: u32 = 0;
const C: u32 = 2;
const D: u32 = 3;
const E: u32 = 4;

/// An attack on the network of five nodes behind its plan's back, and the words that the verdict must have.
///
/// Single frames are hit some two seconds after the run began: nothing else is wrong with it.
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    /// Commands at the switch.
    pub(crate) script: String,
    /// Of ten thousand frames of this stream the one with this sequence number is hit, where single frames are.
    hit: Option<(&'static str, u64)>,
    /// The words for so many frames hit.
    words: fn(u64) -> String,
}

impl Fault {
    fn new(name: &'static str, script: impl Into<String>, words: fn(u64) -> String) -> Self {
        let script = script.into();
        Self {
            name,
            script,
            hit: None,
            words,
        }
    }

    fn hits(self, stream: &'static str, sequence: u64) -> Self {
        let hit = Some((stream, sequence));
        Self { hit, ..self }
    }

    /// The words that the verdict of this report must have. The longer a stream sent, the more of its frames were hit.
    pub(crate) fn says(&self, report: &Value) -> String {
        let hit = self.hit.map_or(0, |(stream, sequence)| {
            let sent = row(report, stream)["frames_sent"].as_u64().unwrap();
            sent.saturating_sub(sequence).div_ceil(10_000)
        });
        (self.words)(hit)
    }

    fn slower_by_a_tenth() -> Self {
        let script = "tc class change dev to-B classid 1:1 htb rate 90mbit ceil 90mbit overhead 24 burst 3125b cburst 3125b";
        Self::new("a port slower by a tenth", script, |_| {
            "Port s1 to B".to_owned()
        })
    }

    /// The rate limiter's credit (250 µs) hides a fiftieth from every frame: such a port sends no frame late. Without the
    /// credit each frame is within the calibrated latency, and only the slope shows the rate.
    fn slower_by_a_fiftieth() -> Self {
        let script = "tc class change dev to-B classid 1:1 htb rate 98mbit ceil 98mbit overhead 24 burst 200b cburst 200b";
        Self::new("a port slower by a fiftieth", script, |_| {
            "slower than its rate".to_owned()
        })
    }

    /// Frames are delayed, and none is lost for it.
    fn pauses() -> Self {
        let set = "tc class change dev to-B classid 1:1 htb overhead 24 burst 3125b cburst 3125b";
        let pause = format!("{set} rate 8kbit ceil 8kbit; {set} rate 100mbit ceil 100mbit;");
        let script = format!("for i in 1 2 3 4 5 6 7 8; do {pause} done");
        Self::new("a port that pauses", script, |_| {
            "does not behave as described".to_owned()
        })
    }

    fn dropped() -> Self {
        let shot = in_ten_thousand(C, (5_200, 0), 2, u32::MAX);
        let script = format!(
            "tc filter add dev to-B egress prio 60000 protocol all bpf da bytecode '{shot}'"
        );
        Self::new("a frame of ten thousand dropped", script, |hit| {
            format!("Lost in the network: {hit} of")
        })
        .hits("C-to-B", 5_200)
    }

    fn doubled() -> Self {
        let matched = in_ten_thousand(A, (2_200, 0), u32::MAX, 0);
        let script = format!(
            "tc filter add dev to-A ingress prio 60000 protocol all bpf bytecode '{matched}' action mirred egress mirror dev to-B"
        );
        Self::new("a frame of ten thousand doubled", script, |hit| {
            format!("{} arrived twice", frames(hit))
        })
        .hits("A-to-B", 2_200)
    }

    /// Three frames of ten thousand take a detour through a slow queue of the switch: the first one passes at once, and
    /// others overtake those that have to wait there.
    fn held_back() -> Self {
        let detoured = in_ten_thousand(D, (5_600, 2), u32::MAX, 0);
        let all = format!("1,6 0 0 {}", u32::MAX);
        let script = format!(
            "ip link add slow type veth peer name back; ip link set slow up; ip link set back up;
             tc qdisc add dev slow root tbf rate 200kbit burst 1600 latency 10s; tc qdisc add dev back clsact;
             tc filter add dev back ingress protocol all bpf bytecode '{all}' action mirred egress redirect dev to-B;
             tc filter add dev to-D ingress prio 60000 protocol all bpf bytecode '{detoured}' action mirred egress redirect dev slow"
        );
        Self::new(
            "frames of ten thousand that are held back and so swapped with others",
            script,
            |_| "after one that was sent later".to_owned(),
        )
    }

    /// One byte of the user data of a frame is another one, at its end. The switch runs the program in this file.
    /// `tc` wants a file system of BPF. Its list of mounts still names the host's, which the switch's own /sys hides.
    fn altered(object: &Path) -> Self {
        let object = object.display();
        let script = format!(
            "mount -t bpf bpf /sys/fs/bpf
             tc filter add dev to-B egress prio 59000 protocol all bpf da object-file {object} section tc"
        );
        Self::new("a frame of ten thousand altered", script, |hit| {
            format!("{} arrived with an altered payload", frames(hit))
        })
        .hits("E-to-B", 3_500)
    }

    /// All of them; their programs are in this folder.
    pub(crate) fn all(folder: &Path) -> [Self; 7] {
        [
            Self::slower_by_a_tenth(),
            Self::slower_by_a_fiftieth(),
            Self::pauses(),
            Self::dropped(),
            Self::doubled(),
            Self::held_back(),
            Self::altered(&altering(folder)),
        ]
    }
}

/// What the report says of this stream.
fn row<'a>(report: &'a Value, stream: &str) -> &'a Value {
    let streams = report["streams"].as_array().unwrap();
    streams.iter().find(|row| row["name"] == stream).unwrap()
}

fn frames(count: u64) -> String {
    let frames = if count == 1 { "frame" } else { "frames" };
    format!("{count} {frames}")
}

/// Compiles a program of traffic control that alters one frame of ten thousand of host E. Returns its file.
fn altering(folder: &Path) -> PathBuf {
    let source = format!(
        r#"
struct __sk_buff {{ unsigned int length; }};
static long (*store)(void *, unsigned int, const void *, unsigned int, unsigned long long) = (void *)9;
static long (*load)(const void *, unsigned int, void *, unsigned int) = (void *)26;
__attribute__((section("tc"), used)) int alter(struct __sk_buff *frame)
{{
    unsigned char head[26], altered = 0xee;
    unsigned int sequence;
    if (load(frame, 0, head, sizeof(head)) || head[11] != {E})
        return -1;
    sequence = head[22] << 24 | head[23] << 16 | head[24] << 8 | head[25];
    if (sequence % 10000 == 3500)
        store(frame, frame->length - 10, &altered, 1, 0);
    return -1;
}}
char LICENSE[] __attribute__((section("license"), used)) = "GPL";
"#
    );
    let (file, object) = (folder.join("alter.c"), folder.join("alter.o"));
    std::fs::write(&file, source).unwrap();
    let compiled = Command::new("clang")
        .args(["-O2", "-target", "bpf", "-c"])
        .arg(&file)
        .arg("-o")
        .arg(&object)
        .stdin(Stdio::null())
        .status();
    assert!(compiled.unwrap().success());
    object
}

fn found(fault: &Fault, duration: &str) {
    let _alone = alone();
    let report = planted(&example("five-nodes.toml"), &fault.script, duration);
    assert_says(&report, &fault.says(&report));
}

#[test]
fn a_port_slower_by_a_tenth_is_found() {
    found(&Fault::slower_by_a_tenth(), "2s");
}

#[test]
fn a_port_slower_by_a_fiftieth_is_found() {
    found(&Fault::slower_by_a_fiftieth(), "3s");
}

#[test]
fn a_port_that_pauses_without_a_stall_is_found() {
    found(&Fault::pauses(), "2s");
}

/// Of each of four streams at most three frames of ten thousand are hit, each stream's in another way. Each way is found,
/// and blamed on its own stream.
#[test]
fn a_frame_of_ten_thousand_dropped_doubled_swapped_and_altered_is_found() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let altered = Fault::altered(&altering(folder.path()));
    let ways = [
        ("C-to-B", Fault::dropped()),
        ("A-to-B", Fault::doubled()),
        ("D-to-B", Fault::held_back()),
        ("E-to-B", altered),
    ];
    let script: Vec<&str> = ways.iter().map(|(_, way)| way.script.as_str()).collect();
    let report = planted(&example("five-nodes.toml"), &script.join("\n"), "4s");
    for (stream, way) in &ways {
        let row = row(&report, stream);
        let reasons = row["reasons"].to_string();
        assert_eq!(row["verdict"], "broken", "{}: {reasons}", way.name);
        assert!(
            reasons.contains(&way.says(&report)),
            "{}: {reasons}",
            way.name
        );
        for (_, other) in ways.iter().filter(|(other, _)| other != stream) {
            assert!(
                !reasons.contains(&other.says(&report)),
                "{stream}: {reasons}"
            );
        }
    }
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
    let report = planted(&file, &(class(11, 7) + &class(10, 0)), "4s");
    assert_says(&report, "should have gone first");
}

/// Frames of newest values queue for hundreds of ms at a slow port while their listener is stopped. Those that newer ones
/// overtook before they were read are judged by their arrival like all others.
#[test]
fn newest_values_that_came_late_and_were_overtaken_are_found() {
    let _alone = alone();
    let newest = SMALL.replace("interval = \"2 ms\"", "interval = \"1 ms\"");
    let (_directory, file) = written(&(newest + "semantics = \"newest\"\n"));
    let times = ["--calibration", "500ms", "--duration", "3s", "--json"];
    let child = started(&mut lab(&file, &times));
    while_running(child.id(), |lab| {
        let listener = worker_of(lab, "B");
        signal(listener, "STOP");
        wait_until_stopped(listener);
        let set = "tc class change dev to-B classid 1:1 htb overhead 24 burst 200b cburst 200b";
        plant(
            lab,
            &format!("{set} rate 400kbit ceil 400kbit; sleep 0.5; {set} rate 100mbit ceil 100mbit"),
        );
        signal(listener, "CONT");
    });
    let (code, report) = reported(child);
    assert_eq!(
        (report["verdict"].as_str(), code),
        (Some("broken"), Some(1)),
        "{}",
        report["reasons"]
    );
    assert_says(&report, "Port s1 to B");
    let stream = &report["streams"][0];
    assert_eq!(
        stream["network_delay_ns"]["samples"], stream["frames_received"],
        "{stream}"
    );
    assert!(
        stream["network_delay_ns"]["max"].as_u64() > Some(50_000_000),
        "{stream}"
    );
    assert!(
        stream["reasons"].to_string().contains("Overtaken"),
        "{stream}"
    );
}

/// A listener that is stopped near the end, and then killed: what it received is not known, and nothing is kept for it.
#[test]
fn a_listener_that_is_stopped_at_the_end_and_killed_is_found() {
    let _alone = alone();
    let (_directory, file) = written(SMALL);
    let times = ["--calibration", "500ms", "--duration", "2500ms", "--json"];
    let child = started(&mut lab(&file, &times));
    let mut listener = 0;
    while_running(child.id(), |lab| {
        listener = worker_of(lab, "B");
        while since_ns(lab) < 2_100_000_000 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        signal(listener, "STOP");
        wait_until_stopped(listener);
    });
    std::thread::sleep(std::time::Duration::from_millis(600));
    signal(listener, "KILL");
    let (code, report) = reported(child);
    assert!(matches!(code, Some(1 | 4)), "{code:?}");
    assert_ne!(report["verdict"], "kept", "{}", report["reasons"]);
    assert_ne!(report["streams"][0]["verdict"], "kept");
    assert!(
        report["notes"].to_string().contains("host `B`"),
        "{}",
        report["notes"]
    );
}
