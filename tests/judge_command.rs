//! `rtwire run --evidence` on two hosts, and `rtwire judge`, as a user runs them. Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "run_common/mod.rs"]
mod run_common;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rtwire_measure::evidence::{
    self, ArrivalRecord, ClockBasis, Encoder, End, Header, HostEvidence, ListenerEntry,
    ListenerTotals, SentRecord, StampKind, TalkerEntry, TalkerTotals,
};
use rtwire_measure::noise::NoiseRecord;
use rtwire_measure::report::Machine;
use rtwire_testkit::{NetnsPair, SLOWER, require, slowed, tc};
use serde_json::Value;

use run_common::Running;

const QUIET: &str = r#"
[network]
name = "two hosts"

[defaults]
tick-error = "5 ms"
link-rate = "1 Gbit/s"

[[host]]
name = "A"
latency = "2 ms"
[[host]]
name = "B"
latency = "2 ms"

[[link]]
ends = ["A", "B"]

[[stream]]
name = "there"
talker = "A"
listeners = ["B"]
payload = "64 B"
interval = "1 ms"
priority = 6

[[stream]]
name = "back"
talker = "B"
listeners = ["A"]
payload = "200 B"
interval = "1 ms"
"#;

/// Four frames at the same instants: some 50 us at 1 Gbit/s.
fn four_at_once() -> String {
    let head = r#"
[network]
name = "four at once"
[defaults]
tick-error = "1 ms"
link-rate = "1 Gbit/s"
[[host]]
name = "A"
[[host]]
name = "B"
[[link]]
ends = ["A", "B"]
"#;
    let stream = |number: u32| {
        format!(
            "[[stream]]\nname = \"s{number}\"\ntalker = \"A\"\nlisteners = [\"B\"]\npayload = \"1400 B\"\ninterval = \"10 ms\"\n\
             deadline = \"2 ms\"\n"
        )
    };
    (0..4).fold(head.to_owned(), |all, number| all + &stream(number))
}

struct Bench {
    pair: NetnsPair,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new(network: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let description = folder.path().join("network.toml");
        std::fs::write(&description, network).unwrap();
        let planned = Command::new(env!("CARGO_BIN_EXE_rtwire"))
            .arg("plan")
            .args([&description, Path::new("--output")])
            .arg(folder.path().join("plan.json"))
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(planned.success());
        Self {
            pair: NetnsPair::new(),
            folder,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start(&self, host: &str, evidence: &Path, arguments: &[&str]) -> Running {
        let side = run_common::side(&self.pair, host);
        let mut command = run_common::run(side, &self.path("plan.json"), host);
        Running::start(command.arg("--evidence").arg(evidence).args(arguments))
    }

    /// Runs both hosts, B first. Returns how each of them ended.
    fn run(&self, arguments: &[&str]) -> [Ended; 2] {
        let b = self.start("B", &self.path("B.evidence"), arguments);
        self.wait_for("B.evidence.part", 1);
        let a = self.start("A", &self.path("A.evidence"), arguments);
        [a, b].map(|run| Ended::of(&run.output()))
    }

    /// Waits until a file has more than this many bytes.
    fn wait_for(&self, name: &str, bytes: u64) {
        let start = Instant::now();
        while std::fs::metadata(self.path(name)).map_or(0, |file| file.len()) < bytes {
            assert!(start.elapsed() < Duration::from_secs(60), "no {name}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn judge(&self, files: &[&str], arguments: &[&str]) -> Ended {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rtwire"));
        command
            .current_dir(self.folder.path())
            .args(["judge", "plan.json", "--json"])
            .args(files)
            .args(arguments);
        Ended::of(&command.output().unwrap())
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }
}

#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    report: Value,
    said: String,
}

impl Ended {
    fn of(output: &std::process::Output) -> Self {
        Self {
            code: output.status.code(),
            report: serde_json::from_slice(&output.stdout).unwrap_or(Value::Null),
            said: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    fn reasons(&self) -> String {
        format!("{} {}", self.report["reasons"], self.report["notes"])
    }
}

/// Two hosts of a quiet network are kept, and every way to spoil their files is found.
#[test]
fn a_quiet_network_is_kept_and_spoiled_evidence_is_not() {
    require!(root, program "ip");
    let files = ["A.evidence", "B.evidence"];
    let mut tries = Vec::new();
    let kept = SLOWER.iter().find_map(|&factor| {
        let network = slowed(QUIET, factor);
        let bench = Bench::new(&network);
        let duration = format!("{}ms", 1_200 * factor);
        let runs = bench.run(&["--duration", &duration]);
        let judged = bench.judge(&files, &["--report", "r.html"]);
        if judged.code == Some(0) {
            return Some((network, bench, judged));
        }
        // A stall of the machine is the only excuse.
        let said = format!("{:?} {} {runs:?}", judged.code, judged.reasons());
        assert!(
            judged.code == Some(4) || said.contains("stalls of the machine"),
            "{said}"
        );
        tries.push(judged.reasons());
        None
    });
    let (network, bench, kept) = kept.unwrap_or_else(|| panic!("never kept: {tries:#?}"));
    assert_eq!(kept.report["verdict"], "kept");
    let schema = rtwire_measure::report::json_schema();
    let fault = jsonschema::validate(&schema, &kept.report).err();
    assert!(fault.is_none(), "{fault:?}");
    assert!(
        String::from_utf8(bench.read("r.html"))
            .unwrap()
            .contains("there")
    );
    for stream in kept.report["streams"].as_array().unwrap() {
        assert!(
            stream["frames_received"].as_u64().unwrap() > 1_000,
            "{stream}"
        );
    }
    spoiled(&bench, &network);
    differing_clocks(&bench);
}

fn spoiled(bench: &Bench, network: &str) {
    let refused = |files: &[&str], part: &str| {
        let judged = bench.judge(files, &[]);
        assert_eq!(judged.code, Some(2), "{}{}", judged.said, judged.report);
        assert!(judged.said.contains(part), "{}", judged.said);
        assert_eq!(judged.said.lines().count(), 1, "{}", judged.said);
    };
    let open = |files: &[&str], part: &str| {
        let judged = bench.judge(files, &[]);
        assert_eq!(judged.code, Some(4), "{}{}", judged.said, judged.report);
        assert!(judged.reasons().contains(part), "{}", judged.reasons());
    };
    open(&["A.evidence"], "no evidence of host B");
    let whole = bench.read("A.evidence");
    bench.write("copy.evidence", &whole);
    refused(
        &["A.evidence", "copy.evidence", "B.evidence"],
        "give it once",
    );
    bench.write("cut.part", &whole[..whole.len() / 2]);
    open(&["cut.part", "B.evidence"], "truncated");
    let mut changed = whole.clone();
    changed[whole.len() / 3] ^= 4;
    bench.write("changed.evidence", &changed);
    refused(
        &["changed.evidence", "B.evidence"],
        "changed.evidence: was changed",
    );
    refused(&["plan.json", "B.evidence"], "no evidence");
    bench.write("other.toml", network.replace("200 B", "201 B").as_bytes());
    let mut foreign = Command::new(env!("CARGO_BIN_EXE_rtwire"));
    let foreign = foreign.current_dir(bench.folder.path());
    let foreign = foreign.args(["judge", "other.toml", "A.evidence", "B.evidence"]);
    let foreign = Ended::of(&foreign.output().unwrap());
    assert_eq!(foreign.code, Some(2), "{}", foreign.said);
    assert!(foreign.said.contains("another plan"), "{}", foreign.said);
}

/// The same evidence, as if B had been another machine whose clock is ahead.
fn differing_clocks(bench: &Bench) {
    let read = |name| evidence::read(&bench.read(name)).unwrap();
    let claim = |evidence: &mut HostEvidence, boot: &str| {
        evidence.account.header.boot_id = boot.to_owned();
        evidence.account.header.clock = ClockBasis::Stated {
            uncertainty_ns: 100_000,
        };
    };
    let mut a = read("A.evidence");
    claim(&mut a, "a machine");
    bench.write("a.evidence", &a.to_bytes());
    let shifted = |ns: i64| {
        let mut b = read("B.evidence");
        claim(&mut b, "another machine");
        let shift = |time: &mut u64| *time = time.saturating_add_signed(ns);
        for arrival in b.arrivals.iter_mut().flatten() {
            shift(&mut arrival.stamp_ns);
            shift(&mut arrival.read_ns);
        }
        for sent in b.sent.iter_mut().flatten() {
            shift(&mut sent.called_ns);
            shift(&mut sent.returned_ns);
        }
        b.stamps
            .iter_mut()
            .flatten()
            .for_each(|one| shift(&mut one.stamp_ns));
        bench.write("b.evidence", &b.to_bytes());
        // What A received from B carries B's time.
        let mut a = a.clone();
        a.arrivals
            .iter_mut()
            .flatten()
            .for_each(|one| shift(&mut one.sender_ns));
        bench.write("a.evidence", &a.to_bytes());
        bench.judge(&["a.evidence", "b.evidence"], &[])
    };
    let within = shifted(150_000);
    assert_eq!(within.code, Some(0), "{}", within.reasons());
    let beyond = shifted(1_500_000);
    assert_eq!(beyond.code, Some(4), "{}", beyond.reasons());
    assert!(
        beyond.reasons().contains("before they were sent"),
        "{}",
        beyond.reasons()
    );
}

/// A shaper that the plan does not know, at the talker: some 50 us are promised, the last of four frames takes over 3 ms.
#[test]
fn a_shaper_behind_the_plan_s_back_is_broken() {
    require!(root, program "ip", program "tc");
    let bench = Bench::new(&four_at_once());
    tc(
        &bench.pair.a.namespace,
        "qdisc add dev rtwa root tbf rate 10mbit burst 1600 limit 100000",
    );
    let [_, b] = bench.run(&["--duration", "700ms"]);
    // Alone, B knows nothing of A's clock, and says so.
    assert_eq!(b.code, Some(4), "{}{:#}", b.said, b.report);
    assert!(
        b.reasons().contains("--clock-uncertainty"),
        "{}",
        b.reasons()
    );
    let judged = bench.judge(&["A.evidence", "B.evidence"], &[]);
    assert_eq!(judged.code, Some(1), "{}{}", judged.said, judged.reasons());
    assert!(
        judged.reasons().contains("took longer than the promised"),
        "{}",
        judged.reasons()
    );
    // Which of the four comes last is for their threads to settle.
    let slowest = judged.report["streams"].as_array().unwrap().iter();
    let slowest = slowest
        .filter_map(|one| one["network_delay_ns"]["max"].as_u64())
        .max();
    assert!(slowest.unwrap() > 3_000_000, "{slowest:?}");
    // With clocks that it is told to trust, B alone finds the deadline missed.
    let [_, b] = bench.run(&["--duration", "700ms", "--clock-uncertainty", "1us"]);
    assert_eq!(b.code, Some(1), "{}{:#}", b.said, b.report);
    assert!(
        b.reasons().contains("missed the deadline of 2.000 ms"),
        "{}",
        b.reasons()
    );
}

#[test]
fn a_run_that_is_cut_off_or_cannot_write_says_so() {
    require!(root, program "ip");
    let bench = Bench::new(QUIET);
    // A full disk: the report is there, one message, no file beside the device.
    let full = bench.start("A", Path::new("/dev/full"), &["--duration", "300ms"]);
    let full = Ended::of(&full.output());
    assert_eq!(full.code, Some(3), "{}{:#}", full.said, full.report);
    let faults = full.said.lines().filter(|line| line.starts_with("error"));
    assert_eq!(faults.count(), 1, "{}", full.said);
    assert!(
        full.said.contains("/dev/full") && full.said.contains("No space"),
        "{}",
        full.said
    );
    assert!(
        full.report["evidence"]["fault"].is_string(),
        "{:#}",
        full.report
    );
    let nowhere = bench.start("A", Path::new("/nowhere/a"), &["--duration", "300ms"]);
    let nowhere = Ended::of(&nowhere.output());
    assert_eq!(
        (nowhere.code, nowhere.said.lines().count()),
        (Some(2), 1),
        "{}",
        nowhere.said
    );
    // Ctrl-C before its end.
    let cut = bench.start("A", &bench.path("A.evidence"), &["--duration", "60s"]);
    bench.wait_for("A.evidence.part", 20_000);
    cut.signal("-INT");
    let cut = Ended::of(&cut.output());
    assert_eq!(
        (cut.code, &cut.report["interrupted"]),
        (Some(4), &Value::Bool(true)),
        "{}",
        cut.said
    );
    let schema = rtwire_session::run::json_schema();
    let fault = jsonschema::validate(&schema, &cut.report).err();
    assert!(fault.is_none(), "{fault:?}");
    let judged = bench.judge(&["A.evidence"], &[]);
    assert!(
        judged.reasons().contains("interrupted after"),
        "{}",
        judged.reasons()
    );
    // The end of a run without a duration is no interruption.
    let free = bench.start("A", &bench.path("free.evidence"), &[]);
    bench.wait_for("free.evidence.part", 20_000);
    free.signal("-INT");
    assert_eq!(Ended::of(&free.output()).report["interrupted"], false);
    // A machine that loses its power: the beginning is there, under a name that says so.
    let killed = bench.start("B", &bench.path("B.evidence"), &[]);
    bench.wait_for("B.evidence.part", 20_000);
    killed.signal("-KILL");
    killed.output();
    assert!(!bench.path("B.evidence").exists());
    let judged = bench.judge(&["B.evidence.part"], &[]);
    assert_eq!(judged.code, Some(4), "{}", judged.said);
    assert!(
        judged.reasons().contains("truncated"),
        "{}",
        judged.reasons()
    );
}

/// The network of `streams` equal streams from A to B, and both hosts' evidence of `frames` frames of each, on disk.
fn much(streams: u32, frames: u32) -> (tempfile::TempDir, u64) {
    let folder = tempfile::tempdir().unwrap();
    let mut text = QUIET.split("[[stream]]").next().unwrap().to_owned();
    for number in 0..streams {
        text += &format!(
            "[[stream]]\nname = \"s{number}\"\ntalker = \"A\"\nlisteners = [\"B\"]\npayload = \"64 B\"\ninterval = \"1 ms\"\n"
        );
    }
    std::fs::write(folder.path().join("network.toml"), &text).unwrap();
    let network = rtwire_plan::read(&text, "network.toml", &[]).unwrap();
    let plan = rtwire_plan::plan(&network, &rtwire_plan::Options::default()).unwrap();
    let names: Vec<String> = (0..streams).map(|number| format!("s{number}")).collect();
    let start_ns = 10_000_000_000;
    let end_ns = start_ns + u64::from(frames) * 1_000_000;
    let mut bytes = 0;
    for host in ["A", "B"] {
        let talkers = names.iter().filter(|_| host == "A");
        let listeners = names.iter().filter(|_| host == "B");
        let header = Header {
            format: evidence::FORMAT,
            run: host.to_owned(),
            network: plan.network.name.clone(),
            plan_id: plan.plan_id.clone(),
            epoch: plan.epoch,
            host: host.to_owned(),
            interface: "eth0".to_owned(),
            open_ns: start_ns - 500_000_000,
            start_ns,
            planned_ns: None,
            talkers: talkers
                .map(|stream| TalkerEntry {
                    stream: stream.clone(),
                    path: "direct".to_owned(),
                    stamps: StampKind::Call,
                    paced: true,
                })
                .collect(),
            listeners: listeners
                .map(|stream| ListenerEntry {
                    stream: stream.clone(),
                    path: "packet".to_owned(),
                })
                .collect(),
            clock: ClockBasis::Unknown,
            stamps: None,
            boot_id: "one machine".to_owned(),
            machine: Machine::default(),
        };
        let mut encoder = Encoder::default();
        let file = std::fs::File::create(folder.path().join(format!("{host}.evidence")));
        let mut file = std::io::BufWriter::new(file.unwrap());
        let mut write = |block: Vec<u8>| file.write_all(&block).unwrap();
        write(encoder.header(&header));
        // As a run writes them: some of each stream in turns.
        for first in (0..frames).step_by(1_000) {
            let numbers = first..(first + 1_000).min(frames);
            let at = |sequence: u32| start_ns + u64::from(sequence) * 1_000_000;
            for stream in 0..streams as usize {
                write(match host {
                    "A" => {
                        let sent = numbers.clone().map(|sequence| SentRecord {
                            sequence,
                            late_ns: sequence % 977,
                            called_ns: at(sequence),
                            returned_ns: at(sequence) + 9_000,
                            launch_ns: 0,
                        });
                        encoder.sent(stream, &sent.collect::<Vec<_>>())
                    }
                    _ => {
                        let came = numbers.clone().map(|sequence| ArrivalRecord {
                            sequence,
                            stamp_ns: at(sequence) + 20_000 + u64::from(sequence % 1_009),
                            sender_ns: at(sequence) + 1_000,
                            read_ns: at(sequence) + 60_000,
                        });
                        encoder.arrivals(stream, &came.collect::<Vec<_>>())
                    }
                });
            }
        }
        for entry in &header.talkers {
            write(encoder.talker(&TalkerTotals {
                stream: entry.stream.clone(),
                frames_sent: frames.into(),
                ..TalkerTotals::default()
            }));
        }
        for entry in &header.listeners {
            write(encoder.listener(&ListenerTotals {
                stream: entry.stream.clone(),
                frames_received: frames.into(),
                ..ListenerTotals::default()
            }));
        }
        write(encoder.noise(&NoiseRecord::default()));
        write(encoder.end(End {
            sent_to_ns: end_ns,
            heard_to_ns: end_ns + 400_000_000,
            ..End::default()
        }));
        drop(file);
        let written = std::fs::metadata(folder.path().join(format!("{host}.evidence")));
        bytes += written.unwrap().len();
    }
    (folder, bytes)
}

/// Evidence of many streams is judged in the memory that one of them needs. The kernel is the referee: it gives the process
/// no more address space than it may have.
#[test]
fn evidence_of_any_number_of_streams_is_judged_in_the_memory_of_one() {
    const ROOM_KIB: u32 = 48 << 10;
    let judged = |(streams, frames): (u32, u32)| {
        let (folder, bytes) = much(streams, frames);
        assert!(
            bytes > u64::from(ROOM_KIB) << 10,
            "the files alone are larger: {bytes} bytes"
        );
        let judge = format!(
            "ulimit -v {ROOM_KIB}; exec \"$0\" judge network.toml A.evidence B.evidence --json"
        );
        let output = Command::new("sh")
            .args(["-c", &judge, env!("CARGO_BIN_EXE_rtwire")])
            .current_dir(folder.path())
            .output()
            .unwrap();
        Ended::of(&output)
    };
    let many = judged((100, 9_000));
    assert_eq!(many.code, Some(0), "{}{}", many.said, many.reasons());
    let streams = many.report["streams"].as_array().unwrap();
    assert_eq!(streams.len(), 100);
    for stream in streams {
        assert_eq!(stream["frames_received"], 9_000, "{stream}");
        assert_eq!(stream["network_delay_ns"]["max"], 21_008, "{stream}");
    }
    // As many frames of one stream find no room there: the limit is one.
    let one = judged((1, 900_000));
    assert!(!matches!(one.code, Some(0 | 1 | 4)), "{:?}", one.code);
}

/// Returns where the last block of frames sent, stamps or arrivals begins, by the form that `docs/evidence.md` tells.
fn last_frames_at(file: &[u8]) -> usize {
    let (mut at, mut last) = (16, 0);
    while at < file.len() {
        if (2..=4).contains(&file[at]) {
            last = at;
        }
        let payload = u32::from_le_bytes(file[at + 1..at + 5].try_into().unwrap());
        at += 1 + 4 + 4 + payload as usize + 4;
    }
    last
}

#[test]
fn a_file_of_limited_size_counts_what_comes_after() {
    require!(root, program "ip");
    let bench = Bench::new(QUIET);
    let [a, _] = bench.run(&["--duration", "1s", "--evidence-limit", "10kB"]);
    let missing = a.report["evidence"]["records_missing"].as_u64().unwrap();
    assert!(missing > 500, "{:#}", a.report);
    // Behind it there are counters and the stalls of the machine, of which there may be any number.
    let last = last_frames_at(&bench.read("A.evidence"));
    assert!((1..10_000).contains(&last), "{last}");
    let judged = bench.judge(&["A.evidence", "B.evidence"], &[]);
    assert_eq!(judged.code, Some(4), "{}", judged.reasons());
    assert!(
        judged.reasons().contains("largest size"),
        "{}",
        judged.reasons()
    );
}
