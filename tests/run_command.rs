//! `rtwire run` as a user runs it: two hosts, two processes, two namespaces. Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "ptp_common/mod.rs"]
mod ptp_common;
#[path = "run_common/mod.rs"]
mod run_common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use ptp_common::Ptp;
use rtwire_channel::{Semantics, Talker, TalkerConfig, Transport};
use rtwire_testkit::{NetnsPair, SLOWER, Side, ip, require, slowed};
use run_common::{OPEN, RUNNING, Running, row, signal};
use serde_json::Value;

const NETWORK: &str = r#"
[network]
name = "two hosts"

[defaults]
tick-error = "5 ms"
link-rate = "1 Gbit/s"

[[host]]
name = "A"
latency = "100 ms"
[[host]]
name = "B"
latency = "100 ms"

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
name = "newest"
talker = "A"
listeners = ["B"]
payload = "1000 B"
interval = "2 ms"
priority = 3
semantics = "newest"

[[stream]]
name = "back"
talker = "B"
listeners = ["A"]
frame = "1514 B"
rate = "5 Mbit/s"
"#;

const OVER_UDP: &str = r#"
[[stream]]
name = "datagrams"
talker = "A"
listeners = ["B"]
payload = "64 B"
interval = "1 ms"
priority = 5
transport = "udp"
"#;

/// Held by all tests at once, or by one alone: floods and spinning threads of others make its cycles late.
static BESIDE: RwLock<()> = RwLock::new(());

struct Bench {
    pair: NetnsPair,
    folder: tempfile::TempDir,
    file: PathBuf,
    _beside: Result<RwLockReadGuard<'static, ()>, RwLockWriteGuard<'static, ()>>,
}

impl Bench {
    fn new(network: &str) -> Self {
        // A test that failed leaves nothing behind that would matter to the next one.
        let beside = BESIDE.read().unwrap_or_else(PoisonError::into_inner);
        Self::with(network, Ok(beside))
    }

    /// A bench beside which no other test of this file runs.
    fn alone(network: &str) -> Self {
        let alone = BESIDE.write().unwrap_or_else(PoisonError::into_inner);
        Self::with(network, Err(alone))
    }

    fn with(
        network: &str,
        beside: Result<RwLockReadGuard<'static, ()>, RwLockWriteGuard<'static, ()>>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("network.toml");
        std::fs::write(&file, network).unwrap();
        Self {
            pair: NetnsPair::new(),
            folder,
            file,
            _beside: beside,
        }
    }

    fn command(&self, host: &str, arguments: &[&str]) -> Command {
        let mut command = run_common::run(self.side(host), &self.file, host);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn side(&self, host: &str) -> &Side {
        run_common::side(&self.pair, host)
    }

    fn start(&self, host: &str, arguments: &[&str]) -> Running {
        Running::start(&mut self.command(host, arguments))
    }

    fn refused(&self, host: &str, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.command(host, arguments).output().unwrap();
        assert!(output.stdout.is_empty(), "{output:?}");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    }
}

/// The exit code, the report and the messages of a run that has ended.
fn ended(output: &Output) -> (Option<i32>, Value, String) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let json = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code(), json, said)
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// B listens for the whole time in which A talks. Neither is broken. A machine that stalls, or other tests, may make cycles
/// late: that is inconclusive, and no frame is lost for it.
fn exchange(bench: &Bench, a: &[&str], b: &[&str]) -> (Value, Value) {
    let ((talked_code, talked), (heard_code, heard)) = exchange_once(bench, a, b);
    for (code, report) in [(talked_code, &talked), (heard_code, &heard)] {
        let stalled = |reason: &Value| {
            let reason = reason.to_string();
            reason.contains("while the machine stalled") || reason.contains("may be too short")
        };
        let all_stalled = || report["reasons"].as_array().unwrap().iter().all(stalled);
        assert!(
            code == Some(0) || code == Some(4) && all_stalled(),
            "{report:#}"
        );
    }
    (talked, heard)
}

/// As [`exchange`] in a network that is slower where the machine stalls, and both are called good.
fn exchange_called_good(network: &str) -> (Value, Value) {
    let mut tries = Vec::new();
    for factor in SLOWER {
        let bench = Bench::alone(&slowed(network, factor));
        let duration = format!("{}ms", 1_000 * factor.min(10));
        let (talked, heard) = exchange(&bench, &["--duration", &duration], &[]);
        if [&talked, &heard]
            .iter()
            .all(|report| report["verdict"] == "complete")
        {
            return (talked, heard);
        }
        tries.push(format!("{} {}", talked["reasons"], heard["reasons"]));
    }
    panic!("never called good: {tries:#?}");
}

/// A host's exit code and its report.
type Done = (Option<i32>, Value);

fn exchange_once(bench: &Bench, a: &[&str], b: &[&str]) -> (Done, Done) {
    let listens = bench.start("B", b).says(OPEN);
    let (code, talked, said) = ended(&bench.start("A", a).output());
    listens.signal("-INT");
    let (heard_code, heard, heard_said) = ended(&listens.output());
    assert!(
        code != Some(2) && heard_code != Some(2),
        "{said}{heard_said}"
    );
    ((code, talked), (heard_code, heard))
}

fn all_there(talked: &Value, heard: &Value) {
    for stream in ["there", "newest"] {
        let sent = number(&row(talked, "talkers", stream)["frames_sent"]);
        let listener = row(heard, "listeners", stream);
        assert!(sent > 100, "{stream}: {sent}");
        assert_eq!(number(&listener["frames_received"]), sent, "{stream}");
        assert_eq!(number(&listener["frames_lost"]), 0, "{stream}");
    }
    let back = row(talked, "listeners", "back");
    assert!(number(&back["frames_received"]) > 50, "{back}");
    assert_eq!(number(&back["frames_lost"]), 0);
}

#[test]
fn two_hosts_exchange_their_streams() {
    require!(root, program "ip");
    let (talked, heard) = exchange_called_good(NETWORK);
    all_there(&talked, &heard);
    assert_eq!(
        talked["receive_work"]
            .as_str()
            .unwrap()
            .find("soft interrupt"),
        Some(0)
    );
    // The priorities are those of the description.
    assert_eq!(row(&talked, "talkers", "there")["realtime"], 79);
    assert_eq!(row(&talked, "talkers", "newest")["realtime"], 76);
    assert!(number(&row(&heard, "listeners", "there")["promise_ns"]) > 0);
    let schema = rtwire_session::run::json_schema();
    for report in [&talked, &heard] {
        let fault = jsonschema::validate(&schema, report)
            .err()
            .map(|e| e.to_string());
        assert_eq!(fault, None);
    }
}

/// A queue that holds every frame, as a gate does that never opens, does not hold the end of a run. What found no room is counted.
#[test]
fn a_queue_that_holds_every_frame_does_not_hold_the_end() {
    require!(root, program "ip", program "tc");
    let bench = Bench::alone(NETWORK);
    let side = bench.side("A");
    // One frame passes, the next one in half an hour.
    let queue = "rate 8bit burst 2000 limit 100mb";
    let status = Command::new("ip")
        .args(["netns", "exec", &side.namespace, "tc", "qdisc", "add"])
        .args(["dev", &side.interface, "root", "tbf"])
        .args(queue.split(' '))
        .status()
        .unwrap();
    assert!(status.success());
    let _listens = bench.start("B", &[]).says(OPEN);
    let talks = bench.start("A", &["--duration", "2s"]);
    // Far more than a busy machine needs, far less than the next frame.
    let (code, report, said) = ended(&talks.ends_within(Duration::from_secs(60)).output());
    assert_eq!(code, Some(1), "{report:#}{said}");
    let there = row(&report, "talkers", "there");
    assert!(number(&there["frames_refused"]) > 100, "{there:#}");
    let reasons = report["reasons"].to_string();
    assert!(reasons.contains("found no room"), "{reasons}");
}

#[test]
fn every_path_and_address_carries_them() {
    require!(root, program "ip");
    let bench = Bench::new(NETWORK);
    let (to_a, to_b) = ("A=02:00:00:00:00:01", "B=02:00:00:00:00:02");
    let (talked, heard) = exchange(
        &bench,
        &[
            "--duration",
            "500ms",
            "--path",
            "direct",
            "--no-admission",
            "--peer",
            to_b,
        ],
        &["--path", "xdp", "--peer", to_a],
    );
    all_there(&talked, &heard);
    assert_eq!(talked["path"], "direct");
    assert_eq!(heard["path"], "xdp");
}

/// Each way in carries them all, and the report says which each listener really had.
#[test]
fn every_way_in_is_used_and_said() {
    require!(root, program "ip");
    let bench = Bench::new(NETWORK);
    let sleeps = "packet (its reader sleeps: a packet socket costs less)";
    for (path, queue, newest) in [
        ("packet", "packet", "packet"),
        ("auto", sleeps, "native"),
        ("native", "native", "native"),
        ("generic", "generic", "generic"),
    ] {
        let way = ["--duration", "800ms", "--receive-path", path];
        let (talked, heard) = exchange(&bench, &way, &way[2..]);
        all_there(&talked, &heard);
        let said = |report: &Value, stream| {
            let row = row(report, "listeners", stream);
            row["receive_path"].as_str().unwrap().to_owned()
        };
        assert_eq!(said(&heard, "there"), queue, "{path}");
        assert_eq!(said(&heard, "newest"), newest, "{path}");
        assert_eq!(said(&talked, "back"), queue, "{path}");
        assert_eq!(heard["strays"], serde_json::json!([]), "{path}: {heard:#}");
    }
    // Too long for native mode, said with the reason; and where it was asked for, an error.
    for (side, name) in [(&bench.pair.a, "rtwa"), (&bench.pair.b, "rtwb")] {
        ip(&side.namespace, &format!("link set {name} mtu 9000"));
    }
    let (_, heard) = exchange(&bench, &["--duration", "300ms"], &[]);
    let said = row(&heard, "listeners", "newest")["receive_path"].to_string();
    assert!(said.contains("generic (") && said.contains("MTU"), "{said}");
    let (code, said) = bench.refused("B", &["--receive-path", "native"]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("MTU"), "{said}");
}

/// The plan of a description, as every host of a network has it.
fn planned(network: &str) -> rtwire_plan::Plan {
    let network = rtwire_plan::read(network, "network.toml", &[]).unwrap();
    rtwire_plan::plan(&network, &rtwire_plan::Options::default()).unwrap()
}

/// Sends values of stream `name` in its plan's name, but `interval` apart and `bytes` long, whatever the plan says.
fn offend(bench: &Bench, name: &str, (count, interval, bytes): (u64, Duration, usize)) {
    let plan = planned(&std::fs::read_to_string(&bench.file).unwrap());
    let stream = plan.streams.iter().find(|one| one.name == name).unwrap();
    let of_network = plan.network.streams.iter().find(|one| one.name == name);
    let newest = of_network.unwrap().semantics == rtwire_plan::Semantics::Newest;
    let identity = &stream.identity;
    let rtwire_plan::Destination::Group { mac } = identity.destination else {
        panic!("an RTDiP stream has a group");
    };
    let transport = Transport::rtdip(rtwire_wire::MacAddress(mac));
    bench.pair.a.run(|| {
        let mut talker = Talker::open(&TalkerConfig {
            key: identity.key,
            semantics: if newest {
                Semantics::Newest
            } else {
                Semantics::Queue
            },
            source_port: identity.port,
            ..TalkerConfig::new("rtwa", transport, identity.port)
        })
        .unwrap();
        for _ in 0..count {
            talker.send(&vec![0; bytes]).unwrap();
            std::thread::sleep(interval);
        }
    });
}

/// What keeps its contract is let through by each way in; a talker that sends ten times as much is held to it, and told.
#[test]
fn each_way_in_polices() {
    require!(root, program "ip");
    let slow = NETWORK
        .replace("interval = \"1 ms\"", "interval = \"10 ms\"")
        .replace("interval = \"2 ms\"", "interval = \"20 ms\"");
    for path in ["packet", "native", "generic"] {
        // Generous: this machine may keep a host waiting.
        let way = ["--receive-path", path, "--police", "200ms"];
        let bench = Bench::new(NETWORK);
        let (talked, heard) = exchange(&bench, &["--duration", "500ms"], &way);
        all_there(&talked, &heard);
        for stream in ["there", "newest"] {
            let row = row(&heard, "listeners", stream);
            for count in [
                "frames_policed",
                "frames_too_long",
                "frames_too_frequent",
                "frames_foreign",
            ] {
                assert_eq!(row[count], 0, "{path}: {row}");
            }
        }
        for (stream, bytes) in [("there", 64), ("newest", 1000)] {
            let bench = Bench::new(&slow);
            let listens = bench.start("B", &way).says(OPEN);
            offend(&bench, stream, (500, Duration::from_millis(1), bytes));
            listens.signal("-INT");
            let (code, heard, heard_said) = ended(&listens.output());
            assert_eq!(code, Some(1), "{heard_said}");
            let listener = row(&heard, "listeners", stream);
            let policed = number(&listener["frames_policed"]);
            assert!(policed > 150 && policed < 500, "{path}: {listener}");
            assert_eq!(
                number(&listener["frames_received"]) + policed,
                500,
                "{path}"
            );
            let reasons = heard["reasons"].to_string();
            assert!(reasons.contains("beyond its contract"), "{reasons}");
        }
    }
}

/// Without police, too: what is more frequent or longer than its contract is taken, and the run is broken for it.
#[test]
fn a_listener_watches_the_contract_without_police() {
    require!(root, program "ip");
    let slow = NETWORK
        .replace("interval = \"1 ms\"", "interval = \"10 ms\"")
        .replace("interval = \"2 ms\"", "interval = \"20 ms\"");
    for (stream, how, count, words) in [
        (
            "there",
            (300, Duration::from_millis(1), 64),
            "frames_too_frequent",
            "more frequent",
        ),
        (
            "newest",
            (300, Duration::from_millis(1), 1000),
            "frames_too_frequent",
            "more frequent",
        ),
        (
            "there",
            (20, Duration::from_millis(12), 65),
            "frames_too_long",
            "longer than",
        ),
    ] {
        let bench = Bench::new(&slow);
        let listens = bench.start("B", &[]).says(OPEN);
        offend(&bench, stream, how);
        listens.signal("-INT");
        let (code, heard, said) = ended(&listens.output());
        let row = row(&heard, "listeners", stream);
        assert_eq!(code, Some(1), "{said}{row}");
        assert!(number(&row[count]) > 0, "{row}");
        assert!(heard["reasons"].to_string().contains(words), "{heard:#}");
    }
}

/// A program of traffic control that alters one byte of the user data of each frame of at least 300 bytes, at the end,
/// where neither a header nor padding is.
const ALTERS: &str = r#"
struct __sk_buff { unsigned int length; };
static long (*store)(void *, unsigned int, const void *, unsigned int, unsigned long long) = (void *)9;
__attribute__((section("tc"), used)) int alter(struct __sk_buff *frame)
{
    unsigned char altered = 0xee;
    if (frame->length >= 300)
        store(frame, frame->length - 10, &altered, 1, 0);
    return 0;
}
char LICENSE[] __attribute__((section("license"), used)) = "GPL";
"#;

/// Frames that are whole by all their headers, with another content: found on each receive path, in every frame. The
/// values of a program carry no checksum: not checked, and said.
#[test]
fn an_altered_payload_is_found_and_a_programs_values_are_not_taken_for_one() {
    require!(root, program "ip");
    for path in ["native", "generic", "packet"] {
        let bench = Bench::new(NETWORK);
        let listens = bench.start("B", &["--receive-path", path]).says(OPEN);
        let alters = rtwire_testkit::foreign_bpf(ALTERS);
        bench.pair.a.run(|| {
            let index = rtwire_sys::interface::by_name("rtwa").unwrap().index;
            let out = rtwire_sys::bpf::Direction::Egress;
            alters.attach_tc("alter", index, out).unwrap();
        });
        bench.start("A", &["--duration", "500ms"]).output();
        listens.signal("-INT");
        let (code, heard, said) = ended(&listens.output());
        assert_eq!(code, Some(1), "{said}{heard:#}");
        let altered = row(&heard, "listeners", "newest");
        let read = number(&altered["frames_received"]) - number(&altered["frames_overtaken"]);
        assert!(read > 100, "{altered}");
        assert_eq!(number(&altered["frames_corrupted"]), read, "{altered}");
        let sound = row(&heard, "listeners", "there");
        assert_eq!(number(&sound["frames_corrupted"]), 0, "{sound}");
        assert_eq!(number(&sound["frames_unchecked"]), 0, "{sound}");
        let reasons = heard["reasons"].to_string();
        assert!(
            reasons.contains("frames of `newest` arrived with an altered payload"),
            "{reasons}"
        );
    }
    let bench = Bench::new(NETWORK);
    let values = "--exec=there=while echo a-value-of-a-program-that-is-long; do sleep 0.005; done";
    let (_, heard) = exchange(&bench, &["--duration", "500ms", values], &[]);
    let values = row(&heard, "listeners", "there");
    assert_eq!(number(&values["frames_corrupted"]), 0, "{values}");
    assert_eq!(
        values["frames_unchecked"], values["frames_received"],
        "{values}"
    );
}

/// A listener that does not run for a while knows the arrival of every frame all the same: those that were overtaken are
/// counted, and are among the delays, which show when they came and not when they were read.
#[test]
fn a_listener_that_slept_knows_the_arrival_of_every_frame() {
    require!(root, program "ip");
    for path in ["native", "generic", "packet"] {
        let bench = Bench::new(NETWORK);
        let listens = bench.start("B", &["--receive-path", path]).says(OPEN);
        // How much of the run is hit is seen from the frames that were overtaken.
        let talks = bench.start("A", &["--duration", "1200ms"]).says(RUNNING);
        let under_ip = format!("/proc/{0}/task/{0}/children", listens.id());
        let worker = std::fs::read_to_string(under_ip).unwrap();
        let worker = worker.split_whitespace().next().map(str::to_owned);
        let worker = worker.unwrap_or_else(|| listens.id().to_string());
        signal(&worker, "-STOP");
        std::thread::sleep(Duration::from_millis(300));
        signal(&worker, "-CONT");
        let (_, talked, _) = ended(&talks.output());
        listens.signal("-INT");
        let (_, heard, said) = ended(&listens.output());
        let newest = row(&heard, "listeners", "newest");
        let sent = number(&row(&talked, "talkers", "newest")["frames_sent"]);
        assert!(
            number(&newest["frames_overtaken"]) > 50,
            "{path}: {said}{newest}"
        );
        assert_eq!(number(&newest["frames_received"]), sent, "{path}: {newest}");
        assert_eq!(
            newest["delay_ns"]["samples"], newest["frames_received"],
            "{path}: {newest}"
        );
        assert_eq!(number(&newest["arrivals_missed"]), 0, "{path}: {newest}");
        // Nothing of the 300 ms of sleep, a quarter of the run, is in the delays.
        let slow = number(&newest["delay_ns"]["p99"]);
        assert!(slow < 150_000_000, "{path}: {newest}");
    }
}

#[test]
fn a_way_out_that_breaks_the_promise_is_refused() {
    require!(root, program "ip", program "tc");
    let bench = Bench::new(NETWORK);
    let refused = |host: &str, arguments: &[&str], part: &str| {
        let (code, said) = bench.refused(host, arguments);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(part), "{said}");
    };
    refused("A", &["--path", "direct"], "the order of 2 priorities");
    refused("A", &["--path", "xdp"], "both have transmit queue 0");
    let shaper = "tc qdisc add dev rtwb root tbf rate 100mbit burst 15000 limit 30000";
    let done = Command::new("ip")
        .args(["netns", "exec", &bench.pair.b.namespace])
        .args(shaper.split(' '))
        .status()
        .unwrap();
    assert!(done.success());
    refused(
        "B",
        &["--path", "xdp"],
        "past its `tbf` at interface `rtwb`",
    );
    let (code, said) = bench.refused("B", &["--path", "quick"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("[possible values: qdisc, direct, xdp, launch, xdp-launch, uman]"),
        "{said}"
    );
    // What the host lacks is another exit code than what the plan forbids.
    let (code, said) = bench.refused("A", &["--path", "xdp-launch"]);
    assert_eq!(code, Some(3), "{said}");
    for part in [
        "interface `rtwa` keeps no launch times",
        "frames that go past the queue (AF_XDP)",
        "igc, stmmac",
    ] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn receive_work_runs_in_a_thread_as_urgent_as_its_most_urgent_reader() {
    require!(root, program "ip", program "ethtool");
    let bench = Bench::new(&(NETWORK.to_owned() + OVER_UDP));
    for (side, feature, state) in [("A", "tso", "off"), ("B", "gro", "on")] {
        let side = bench.side(side);
        let done = Command::new("ip")
            .args(["netns", "exec", &side.namespace, "ethtool", "-K"])
            .args([side.interface.as_str(), feature, state])
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    }
    let peer = ["--peer", "B=10.77.0.2"];
    let a = ["--duration", "700ms", peer[0], peer[1]];
    let (talked, heard) = exchange(&bench, &a, &["--receive", "thread"]);
    all_there(&talked, &heard);
    assert_eq!(heard["receive_work"], "1 NAPI thread of SCHED_FIFO 79");
    let datagrams = row(&heard, "listeners", "datagrams");
    assert_eq!(
        datagrams["frames_received"],
        row(&talked, "talkers", "datagrams")["frames_sent"]
    );
    // Threads that poll all the time: where the kernel has them, else it is named.
    let polled = ["--receive", "poll-thread"];
    if rtwire_testkit::kernel_at_least(6, 19) {
        let (talked, heard) = exchange(&bench, &a, &polled);
        all_there(&talked, &heard);
        let work = "1 NAPI thread that polls the driver all the time";
        assert_eq!(heard["receive_work"], work);
    } else {
        let (code, said) = bench.refused("B", &polled);
        assert_eq!(code, Some(3), "{said}");
        assert!(said.contains("came with Linux 6.19"), "{said}");
    }
    // Frames cannot be polled for.
    let (code, said) = bench.refused("B", &["--receive", "poll"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("`there` is no UDP stream"), "{said}");
}

#[test]
fn a_udp_stream_polled_by_its_reader_loses_nothing() {
    require!(root, program "ip", program "ethtool");
    let head = NETWORK.split("[[stream]]").next().unwrap();
    let bench = Bench::new(&(head.to_owned() + OVER_UDP));
    for (side, feature, state) in [("A", "tso", "off"), ("B", "gro", "on")] {
        let side = bench.side(side);
        let done = Command::new("ip")
            .args(["netns", "exec", &side.namespace, "ethtool", "-K"])
            .args([side.interface.as_str(), feature, state])
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    }
    let a = ["--duration", "700ms", "--peer", "B=10.77.0.2"];
    let (talked, heard) = exchange(&bench, &a, &["--receive", "poll"]);
    assert_eq!(heard["receive_work"], "polled by its readers");
    assert_eq!(
        row(&heard, "listeners", "datagrams")["frames_received"],
        row(&talked, "talkers", "datagrams")["frames_sent"]
    );
}

#[test]
fn nobody_talking_is_inconclusive_and_nobody_listening_is_not_noticed() {
    require!(root, program "ip");
    let bench = Bench::new(NETWORK);
    let (code, report, said) = ended(&bench.start("B", &["--duration", "300ms"]).output());
    assert_eq!(code, Some(4), "{said}{report:#}");
    assert_eq!(report["verdict"], "inconclusive");
    // Its own stream was sent all the same.
    assert!(number(&row(&report, "talkers", "back")["frames_sent"]) > 10);
}

#[test]
fn a_link_that_goes_ends_in_a_report_of_what_there_is() {
    require!(root, program "ip");
    let bench = Bench::new(NETWORK);
    let talks = bench.start("A", &["--duration", "20s"]).says(RUNNING);
    // Three streams' frames: of the fastest at least a third.
    while bench.pair.a.frames_sent() < 600 {
        std::thread::sleep(Duration::from_millis(20));
    }
    ip(&bench.pair.a.namespace, "link del rtwa");
    let (code, report, said) = ended(&talks.output());
    assert_eq!(code, Some(1), "{said}");
    assert!(number(&row(&report, "talkers", "there")["frames_sent"]) > 100);
    let reasons = report["reasons"].to_string();
    assert!(
        reasons.contains("gone") || reasons.contains("down"),
        "{reasons}"
    );
}

#[test]
fn what_cannot_be_run_is_refused_with_what_would_be_right() {
    require!(root, program "ip");
    let bench = Bench::new(&(NETWORK.to_owned() + OVER_UDP));
    let refused = |host: &str, arguments: &[&str], expected: i32, part: &str| {
        let (code, said) = bench.refused(host, arguments);
        assert_eq!(code, Some(expected), "{said}");
        assert!(said.contains(part), "{said}");
        assert_eq!(said.lines().count(), 1, "one message: {said}");
    };
    refused("C", &[], 2, "its hosts are A, B");
    refused("A", &[], 2, "--peer B=ADDRESS");
    refused("A", &["--peer", "D=10.0.0.1"], 2, "no such host");
    refused("B", &["--plan", "/nowhere"], 2, "/nowhere");
    let plan = bench.folder.path().join("plan.json");
    let other = bench.folder.path().join("other.toml");
    std::fs::write(&other, NETWORK).unwrap();
    let planned = Command::new(env!("CARGO_BIN_EXE_rtwire"))
        .arg("plan")
        .args([&other, Path::new("--output"), &plan])
        .status();
    assert!(planned.unwrap().success());
    refused(
        "B",
        &["--plan", plan.to_str().unwrap()],
        2,
        "another description",
    );
    // No receive context on a plain veth.
    refused("B", &["--receive", "thread"], 3, "gro on");
    // No card, and so no clock of its own.
    refused("B", &["--stamps", "hardware"], 3, "driver veth");
    let wrong = Command::new(env!("CARGO_BIN_EXE_rtwire"))
        .args(["run"])
        .arg(&bench.file)
        .args(["--host", "B", "--interface", "nowhere0"])
        .output()
        .unwrap();
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("nowhere0"));
}

#[test]
fn the_schema_is_the_committed_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/run.schema.json");
    let committed: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(
        committed,
        rtwire_session::run::json_schema(),
        "`make generate` writes it anew"
    );
}

/// The same two hosts, with a stream that leaves at times of the network. A machine that stalls is no later than the tick error.
const AT_TIMES: &str = r#"
[network]
name = "two hosts of one time"

[defaults]
tick-error = "100 ms"
link-rate = "1 Gbit/s"

[[host]]
name = "A"
gates = "unlimited"
[[host]]
name = "B"

[[link]]
ends = ["A", "B"]

[[stream]]
name = "there"
talker = "A"
listeners = ["B"]
payload = "64 B"
interval = "200 ms"
priority = 6
schedule = "time-triggered"
jitter = "100 us"
"#;

#[test]
fn a_plan_of_times_is_not_run_without_a_common_time() {
    require!(root, program "ip");
    let bench = Bench::new(AT_TIMES);
    let nowhere = bench.folder.path().join("nobody");
    let socket = [
        "--ptp-socket",
        nowhere.to_str().unwrap(),
        "--duration",
        "1s",
    ];
    let (code, said) = bench.refused("A", &socket);
    assert_eq!(code, Some(3), "{said}");
    assert!(
        said.contains("ptp4l") && said.contains("--no-sync"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    // Whoever only listens hangs on no time.
    let (code, report, said) = ended(&bench.start("B", &socket).output());
    assert_eq!((code, &report["time"]), (Some(4), &Value::Null), "{said}");
    let all = [&socket[..], &["--no-sync"]].concat();
    let (code, report, said) = ended(&bench.start("A", &all).output());
    assert_eq!(code, Some(0), "{said}{report:#}");
    assert_eq!(report["time"]["waived"], true);
    assert_eq!(report["time"]["apart"], report["time"]["looks"]);
    let label = report["reasons"][0].as_str().unwrap();
    assert!(label.starts_with("NOT SYNCHRONISED"), "{label}");
    let fault = jsonschema::validate(&rtwire_session::run::json_schema(), &report).err();
    assert!(fault.is_none(), "{fault:?}");
}

#[test]
fn a_time_that_is_lost_meanwhile_makes_a_run_inconclusive() {
    require!(root, program "ip", program "ptp4l");
    let bench = Bench::new(AT_TIMES);
    let folder = bench.folder.path();
    let master = Ptp::start(bench.side("B"), folder, "master", "priority1 100");
    let slave = Ptp::start(bench.side("A"), folder, "slave", "slaveOnly 1");
    // Software stamps on a busy machine: a second is what it takes to tell a clock that follows from one that does not.
    let how = ["--ptp-socket", &slave.socket, "--clock-limit", "1000000000"];
    let brief = [&how[..], &["--duration", "1s"]].concat();
    let start = std::time::Instant::now();
    let report = loop {
        let (code, report, said) = ended(&bench.start("A", &brief).output());
        if code == Some(0) {
            break report;
        }
        assert!(code == Some(3) || code == Some(4), "{said}{report:#}");
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{said}{report:#}"
        );
        std::thread::sleep(Duration::from_millis(300));
    };
    assert_eq!(report["time"]["apart"], 0);
    assert!(number(&report["time"]["looks"]) > 0);
    assert_eq!(report["reasons"], serde_json::json!([]));

    let runs = bench.start("A", &[&how[..], &["--duration", "4s"]].concat());
    let runs = runs.says(RUNNING);
    drop(master);
    let (code, report, said) = ended(&runs.output());
    assert_eq!(code, Some(4), "{said}{report:#}");
    assert!(number(&report["time"]["apart"]) > 0, "{report:#}");
    assert_eq!(report["verdict"], "inconclusive");
}
