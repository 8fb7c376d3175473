//! Publishing interval and age of a sample, ours beside open62541's, over two namespaces and a virtual cable.
//!
//! Rounds are interleaved: ours, theirs, ours, … The intervals are those of the kernel's stamps where the frames arrive. The other
//! stack is driven by a SCHED_FIFO thread that sleeps to each instant, since its own loop cannot publish faster than 1 ms.

use rtwire_benches::{root, rtwire};
use rtwire_link::{Receiver, ReceiverConfig, WakeUp};
use rtwire_measure::bench::{Compared, Row};
use rtwire_sys::filter::{Filter, Instruction};
use rtwire_testkit::{NetnsPair, Side};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const INTERVALS_NS: [u64; 4] = [1_000_000, 500_000, 250_000, 100_000];
const URL: &str = "opc.eth://01-00-5E-7F-00-01";
const OTHER: &str = "open62541 1.5.10, by a SCHED_FIFO thread";

/// A process that ends with this value.
pub(crate) struct Ends(pub(crate) Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Times in ns of one side.
#[derive(Default)]
pub(crate) struct Times(pub(crate) Vec<u64>);

impl Times {
    pub(crate) fn at_us(&mut self, percent: usize) -> Option<f64> {
        self.0.sort_unstable();
        let at = self.0.len() * percent / 100;
        self.0.get(at).map(|ns| *ns as f64 / 1_000.0)
    }
}

pub(crate) fn peer() -> PathBuf {
    let target = root().join("target/open62541");
    let built = Command::new(env!("CARGO"))
        .args(["build", "-q", "--locked", "--release", "--manifest-path"])
        .arg(root().join("tests/open62541/Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .env_remove("RUSTFLAGS")
        .status();
    assert!(built.unwrap().success(), "the peer does not build");
    target.join("release/rtwire-open62541")
}

fn project(interval_ns: u64) -> String {
    format!(
        "[connection]\naddress = \"01-00-5E-7F-00-01\"\npublisher-id = 2234\n[real-time]\npriority = 80\n\
         [[writer-group]]\nid = 100\ninterval = \"{interval_ns} ns\"\n[[writer-group.data-set]]\nwriter = 7\n\
         [[writer-group.data-set.field]]\nname = \"up\"\ntype = \"Int32\"\nvalue = \"counter\"\n\
         [[writer-group.data-set.field]]\nname = \"down\"\ntype = \"Int64\"\nvalue = \"time\"\n\
         [[writer-group.data-set.field]]\nname = \"same\"\ntype = \"Double\"\nvalue = 2.5\n"
    )
}

pub(crate) fn spawn(side: &Side, program: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &side.namespace]);
    command.arg(program).args(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().unwrap()
}

fn ours(side: &Side, file: &Path) -> Ends {
    let file = file.to_str().unwrap();
    let arguments = ["publish", file, "--interface", &side.interface];
    Ends(spawn(side, &rtwire(), &arguments))
}

fn theirs(side: &Side, peer: &Path, interval_ns: u64) -> Ends {
    let (peer, interval) = (peer.to_str().unwrap(), interval_ns.to_string());
    let interface = &side.interface;
    let arguments = [
        "-f", "80", peer, "pace", URL, interface, "fixed", "none", &interval,
    ];
    Ends(spawn(side, Path::new("chrt"), &arguments))
}

/// Records arrivals, and adds their intervals' deviations. Returns the messages sent in that time, by the interval, and seen.
fn record(side: &Side, frames: usize, interval_ns: u64, times: &mut Times) -> (u64, u64) {
    side.run(|| {
        let config = ReceiverConfig {
            interface: side.interface.clone(),
            wake_up: WakeUp::Block,
            queue_frames: 4096,
            stamps: true,
            one_by_one: false,
        };
        let all = Filter::new(&[Instruction::Accept]).unwrap();
        let mut receiver = Receiver::frames(&config, 0xb62c, &all).unwrap();
        let (mut first, mut last, mut seen) = (None, None, 0);
        // The first ones are its start.
        while seen < frames + 200 {
            let arrived = receiver.wait(Some(Duration::from_secs(10))).unwrap();
            assert!(arrived, "no frame for 10 s");
            let stamp = receiver.peek().and_then(|frame| frame.stamp_tai_ns);
            receiver.release();
            let stamp = stamp.unwrap();
            seen += 1;
            if seen <= 200 {
                first = Some(stamp);
            } else if let Some(last) = last {
                let took = stamp.saturating_sub(last);
                times.0.push(took.abs_diff(interval_ns));
            }
            last = Some(stamp);
        }
        let whole = last.unwrap_or(0).saturating_sub(first.unwrap_or(0));
        (whole / interval_ns, frames as u64)
    })
}

fn row(figure: String, unit: &str, own: Option<f64>, other: Option<f64>, share: f64) -> Row {
    let (value, other) = (own.unwrap_or(0.0), other.unwrap_or(0.0));
    Row {
        figure,
        value,
        unit: unit.to_owned(),
        reach: Some(format!("at most {share} of {OTHER}")),
        held: Some(value <= other * share),
        why: None,
        samples: 0,
        against: vec![Compared {
            name: OTHER.to_owned(),
            value: other,
        }],
    }
}

/// Measures the deviation of the publishing interval.
fn intervals(pair: &NetnsPair, folder: &Path, peer: &Path, quick: bool) -> Vec<Row> {
    let (rounds, frames) = if quick { (1, 1_000) } else { (5, 4_000) };
    let mut rows = Vec::new();
    for interval_ns in INTERVALS_NS {
        let file = folder.join("project.toml");
        std::fs::write(&file, project(interval_ns)).unwrap();
        let (mut own, mut other) = (Times::default(), Times::default());
        let (mut due, mut sent) = (0, 0);
        for _ in 0..rounds {
            let publisher = ours(&pair.a, &file);
            let counts = record(&pair.b, frames, interval_ns, &mut own);
            (due, sent) = (due + counts.0, sent + counts.1);
            drop(publisher);
            let publisher = theirs(&pair.a, peer, interval_ns);
            record(&pair.b, frames, interval_ns, &mut other);
            drop(publisher);
        }
        let name = format!("publishing interval deviation, {} us", interval_ns / 1_000);
        let samples = own.0.len() as u64;
        for percent in [50, 99] {
            let pair = (own.at_us(percent), other.at_us(percent));
            let mut row = row(format!("{name}, p{percent}"), "us", pair.0, pair.1, 1.0);
            row.samples = samples;
            if interval_ns == 100_000 && percent == 50 {
                row.reach = Some("below 5 us".to_owned());
                row.held = Some(row.value < 5.0);
            }
            rows.push(row);
        }
        if interval_ns == 100_000 {
            let share = 100.0 * sent as f64 / due.max(1) as f64;
            rows.push(Row {
                figure: "messages sent, of the instants, 100 us".to_owned(),
                value: share,
                unit: "%".to_owned(),
                reach: Some("at least 99.9 %".to_owned()),
                held: Some(share >= 99.9),
                why: None,
                samples: due,
                against: Vec::new(),
            });
        }
    }
    rows
}

/// Returns p50 and p99 of the ages of samples at our subscriber, ns. It ends after `count` messages.
fn own_ages(pair: &NetnsPair, file: &Path, count: &str) -> [u64; 2] {
    let path = file.to_str().unwrap();
    let interface = &pair.b.interface;
    let arguments = [
        "subscribe",
        path,
        "--interface",
        interface,
        "--json",
        "--messages",
        count,
    ];
    let subscriber = spawn(&pair.b, &rtwire(), &arguments);
    let publisher = ours(&pair.a, file);
    let output = subscriber.wait_with_output().unwrap();
    drop(publisher);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let latency = &report["groups"][0]["readers"][0]["latency"];
    ["p50_ns", "p99_ns"].map(|name| latency[name].as_u64().unwrap())
}

/// Measures the time from the sample at the publisher to the value at the subscriber, which sleeps until a frame comes, or polls.
fn ages(pair: &NetnsPair, folder: &Path, peer: &Path, quick: bool) -> Vec<Row> {
    let (rounds, samples) = if quick { (1, 1_000) } else { (5, 4_000) };
    let interval_ns = 250_000;
    let (file, polling) = (folder.join("project.toml"), folder.join("polling.toml"));
    let text = project(interval_ns);
    std::fs::write(&file, &text).unwrap();
    let poll = "[real-time]\nreceive-spin = \"1 ms\"\n";
    std::fs::write(&polling, text.replace("[real-time]\n", poll)).unwrap();
    let empty = || [Vec::new(), Vec::new()];
    let (mut own, mut polled, mut other) = (empty(), empty(), empty());
    let count = samples.to_string();
    for _ in 0..rounds {
        for (times, file) in [(&mut own, &file), (&mut polled, &polling)] {
            let found = own_ages(pair, file, &count);
            times
                .iter_mut()
                .zip(found)
                .for_each(|(all, ns)| all.push(ns));
        }
        let interface = &pair.b.interface;
        let peer_path = peer.to_str().unwrap();
        let arguments = [
            "-f", "80", peer_path, "watch", URL, interface, "fixed", "none", &count,
        ];
        let mut subscriber = spawn(&pair.b, Path::new("chrt"), &arguments);
        let publisher = theirs(&pair.a, peer, interval_ns);
        let lines = BufReader::new(subscriber.stdout.take().unwrap()).lines();
        let found = lines.map_while(Result::ok).find_map(|line| {
            let rest = line.strip_prefix("latency ")?.to_owned();
            let (p50, p99) = rest.split_once(' ')?;
            Some([p50.parse().ok()?, p99.parse().ok()?])
        });
        drop(publisher);
        drop(Ends(subscriber));
        let found: [u64; 2] = found.unwrap();
        other
            .iter_mut()
            .zip(found)
            .for_each(|(times, ns)| times.push(ns));
    }
    // The middle of the rounds.
    let [own, polled, mut other] = [own, polled, other].map(|both| both.map(Times));
    let mut rows = Vec::new();
    for (mut times, how) in [(own, ""), (polled, " with receive-spin")] {
        for at in 0..2 {
            let figure = format!("sample to subscriber{how}, 250 us, {}", ["p50", "p99"][at]);
            let values = (times[at].at_us(50), other[at].at_us(50));
            let mut row = row(figure, "us", values.0, values.1, 0.5);
            row.samples = rounds * samples;
            rows.push(row);
        }
    }
    rows
}

/// Measures both stacks in one run.
pub(crate) fn rows(quick: bool) -> Vec<Row> {
    let pair = NetnsPair::new();
    let folder = tempfile::tempdir().unwrap();
    let peer = peer();
    let mut rows = intervals(&pair, folder.path(), &peer, quick);
    rows.extend(ages(&pair, folder.path(), &peer, quick));
    rows
}
