//! `rtwire jitter`: the real binary on a real capture, on damaged ones, and live.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rtwire_link::{Cycle, CycleConfig, Sender, SenderConfig, TxPath};
use rtwire_measure::capture::Reader;
use rtwire_sys::clock::Clock;
use rtwire_testkit::{NetnsPair, require};
use serde_json::Value;

fn rtwire(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rtwire"))
        .arg("jitter")
        .args(arguments)
        .output()
        .unwrap()
}

fn capture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/captures/powerlink/boot-three-nodes.pcap")
}

fn json(arguments: &[&str]) -> (Value, i32) {
    let output = rtwire(&[arguments, &["--json"]].concat());
    let value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|fault| panic!("{fault}: {}", String::from_utf8_lossy(&output.stderr)));
    (value, output.status.code().unwrap())
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_real_network_from_start_to_operational() {
    let folder = tempfile::tempdir().unwrap();
    let html = folder.path().join("jitter.html");
    let around = folder.path().join("worst.pcapng");
    let (report, code) = json(&[
        capture().to_str().unwrap(),
        "--report",
        html.to_str().unwrap(),
        "--worst-to",
        around.to_str().unwrap(),
    ]);
    assert_eq!(code, 0);
    // What the capture's note of origin says.
    let frames = &report["frames"];
    for (kind, count) in [
        ("packets", 4805),
        ("soc", 493),
        ("preq", 1395),
        ("pres", 1395),
        ("soa", 1316),
        ("asnd", 206),
        ("malformed", 0),
        ("not_powerlink", 0),
    ] {
        assert_eq!(frames[kind], count, "{kind}");
    }
    assert_eq!(report["cycle"]["cycle_ns"], 50_000_000);
    assert_eq!(report["soc"]["missing"], 0);
    let nodes = report["nodes"].as_array().unwrap();
    let numbers: Vec<_> = nodes.iter().map(|n| n["node"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 32, 110]);
    for node in nodes {
        assert_eq!(node["last_state"], "operational");
        assert_eq!(node["lost"], 0);
        assert_eq!(node["answered"], node["polled"]);
    }
    // Every ASnd but the managing node's own was asked for.
    let asynchronous = report["asynchronous"].as_array().unwrap();
    assert!(
        asynchronous
            .iter()
            .any(|n| n["node"] == 253 && n["answered"] == 0)
    );
    let used = &report["utilization"];
    assert!(used["isochronous_percent_p50"].as_f64().unwrap() < 5.0);
    let html = std::fs::read_to_string(html).unwrap();
    assert!(html.contains("SoC–SoC jitter") && html.contains("Node 110"));
    assert!(!html.contains("NaN") && !html.contains("<script"));
    let mut reader = Reader::new(std::fs::File::open(around).unwrap()).unwrap();
    let mut packets = 0;
    while reader.next_packet().unwrap().is_some() {
        packets += 1;
    }
    assert!((40..800).contains(&packets), "{packets}");
}

#[test]
fn the_same_figures_as_by_an_independent_dissector() {
    require!(program "tshark");
    let output = Command::new("tshark")
        .args(["-r", capture().to_str().unwrap(), "-T", "fields"])
        .args([
            "-e",
            "frame.time_epoch",
            "-e",
            "epl.mtyp",
            "-e",
            "epl.src",
            "-e",
            "epl.dest",
        ])
        .output()
        .unwrap();
    let mut waiting = [None::<i128>; 256];
    let (mut socs, mut latencies) = (Vec::new(), Vec::new());
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let (seconds, part) = fields[0].split_once('.').unwrap();
        let now = seconds.parse::<i128>().unwrap() * 1_000_000_000
            + format!("{part:0<9}")[..9].parse::<i128>().unwrap();
        let number = |text: &str| match text.strip_prefix("0x") {
            Some(hex) => usize::from_str_radix(hex, 16).unwrap(),
            None => text.parse().unwrap(),
        };
        match number(fields[1]) {
            1 => socs.push(now),
            3 => waiting[number(fields[3])] = Some(now),
            4 => {
                if let Some(since) = waiting[number(fields[2])].take() {
                    latencies.push((now - since) as u64);
                }
            }
            _ => {}
        }
    }
    latencies.sort_unstable();
    let (report, _) = json(&[capture().to_str().unwrap()]);
    let all = &report["latency_ns"];
    let rank = |permille: usize| latencies[(latencies.len() * permille).div_ceil(1000) - 1];
    assert_eq!(all["samples"], latencies.len());
    assert_eq!(all["p50"], rank(500));
    assert_eq!(all["p99"], rank(990));
    assert_eq!(all["max"], rank(1000));
    let intervals = socs.windows(2).map(|w| (w[1] - w[0]) as u64);
    let longest = intervals.max().unwrap();
    assert_eq!(report["soc"]["interval_ns"]["max"], longest);
}

#[test]
fn the_report_follows_its_schema() {
    let (report, _) = json(&[capture().to_str().unwrap()]);
    let output = Command::new(env!("CARGO_BIN_EXE_rtwire"))
        .args(["schema", "jitter"])
        .output()
        .unwrap();
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/jitter.schema.json");
    let committed: Value = serde_json::from_slice(&std::fs::read(committed).unwrap()).unwrap();
    assert_eq!(schema, committed, "`make generate` writes it anew");
    let validator = jsonschema::validator_for(&schema).unwrap();
    let faults: Vec<_> = validator
        .iter_errors(&report)
        .map(|f| f.to_string())
        .collect();
    assert!(faults.is_empty(), "{faults:?}");
}

#[test]
fn limits_decide_the_exit_code() {
    let file = capture();
    let file = file.to_str().unwrap();
    let output = rtwire(&[file, "--limit-soc", "1s", "--limit-pres", "1s"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let output = rtwire(&[file, "--limit-pres", "1us"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("LIMIT BROKEN: node 1 took"));
}

#[test]
fn damaged_files_give_one_message_with_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(capture()).unwrap();
    let try_with = |octets: &[u8], extra: &[&str]| {
        let path = folder.path().join("damaged.pcap");
        std::fs::write(&path, octets).unwrap();
        let output = rtwire(&[&[path.to_str().unwrap()], extra].concat());
        (output.status.code().unwrap(), said(&output), output.stdout)
    };
    let (code, said, out) = try_with(&whole[..100_001], &[]);
    assert_eq!((code, out.len()), (2, 0), "nothing half told");
    assert!(said.contains("at byte 99"), "{said}");
    assert!(said.contains("the file ends within"), "{said}");
    assert!(said.contains("--partial"), "{said}");
    let (code, _, out) = try_with(&whole[..100_001], &["--partial"]);
    assert_eq!(code, 0);
    assert!(String::from_utf8_lossy(&out).contains("Only the part before the fault was measured"));
    let mut garbled = whole.clone();
    garbled[24 + 8..24 + 12].fill(0xff);
    let (code, said, _) = try_with(&garbled, &[]);
    assert_eq!(code, 2);
    assert!(
        said.contains("at byte 24: the header of a packet says that 4294967295 bytes follow"),
        "{said}"
    );
    let (code, said, _) = try_with(b"[network]\n", &[]);
    assert_eq!(code, 2);
    assert!(said.contains("neither pcap nor pcapng"), "{said}");
    let (code, said, _) = try_with(&whole[..24], &[]);
    assert_eq!(code, 4, "a capture of nothing proves nothing");
    assert!(said.contains("nothing to measure: 0 packets"), "{said}");
    let output = rtwire(&["no-such-thing"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("neither a file nor an interface"),);
}

#[test]
fn a_capture_may_come_by_a_pipe() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rtwire"))
        .args(["jitter", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(&std::fs::read(capture()).unwrap()).unwrap();
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["frames"]["packets"], 4805);
}

#[test]
fn live_from_an_interface_that_sends_and_from_one_that_receives() {
    require!(root);
    require!(program "ip");
    let pair = NetnsPair::new();
    let listen = |side: &rtwire_testkit::Side| {
        Command::new("ip")
            .args([
                "netns",
                "exec",
                &side.namespace,
                env!("CARGO_BIN_EXE_rtwire"),
            ])
            .args(["jitter", &side.interface, "--duration", "1500ms", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let children = [listen(&pair.a), listen(&pair.b)];
    pair.a.run(|| {
        // Through the queueing discipline, so that listeners on this side see what leaves.
        let config = SenderConfig {
            path: TxPath::Qdisc,
            ..SenderConfig::new(&pair.a.interface)
        };
        let mut sender = Sender::frames(&config).unwrap();
        let mut cycle = Cycle::new(CycleConfig {
            clock: Clock::Monotonic,
            period_ns: 10_000_000,
            epoch_ns: 0,
            spin_ns: 0,
        });
        let frame = |group: [u8; 6], payload: &[u8]| {
            let mut frame = group.to_vec();
            frame.extend(pair.a.mac);
            frame.extend([0x88, 0xab]);
            frame.extend(payload);
            frame.resize(60, 0);
            frame
        };
        let end = std::time::Instant::now() + Duration::from_millis(1800);
        while std::time::Instant::now() < end {
            cycle.wait().unwrap();
            sender
                .send(&frame([1, 0x11, 0x1e, 0, 0, 1], &[1, 255, 240]))
                .unwrap();
            // A poll of a third station: only who takes everything sees it.
            sender
                .send(&frame([2, 0, 0, 0, 0, 9], &[3, 9, 240]))
                .unwrap();
            sender
                .send(&frame([1, 0x11, 0x1e, 0, 0, 2], &[4, 255, 9, 0xfd]))
                .unwrap();
        }
    });
    for child in children {
        let output = child.wait_with_output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|fault| panic!("{fault}: {}", said(&output)));
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert_eq!(report["cycle"]["cycle_ns"], 10_000_000);
        assert_eq!(report["stamps"]["place"], "kernel");
        assert_eq!(report["stamps"]["clock"], "CLOCK_REALTIME");
        assert!(report["frames"]["soc"].as_u64().unwrap() >= 20);
        let node = &report["nodes"][0];
        assert_eq!(
            (node["node"].as_u64(), node["lost"].as_u64()),
            (Some(9), Some(0))
        );
        assert!(node["answered"].as_u64().unwrap() >= 20);
    }
}

#[test]
fn hardware_stamps_are_refused_with_the_reason() {
    require!(root);
    let pair = NetnsPair::new();
    let output = pair.a.run(|| {
        rtwire(&[
            &pair.a.interface,
            "--duration",
            "1s",
            "--stamps",
            "hardware",
        ])
    });
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    for part in [
        pair.a.interface.as_str(),
        "driver veth",
        "no clock of its own",
        "--stamps software",
    ] {
        assert!(said(&output).contains(part), "{}", said(&output));
    }
    let output = rtwire(&[capture().to_str().unwrap(), "--stamps", "hardware"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("--stamps is for an interface"));
}

/// A capture beside itself, and beside files that are none.
#[test]
fn two_captures_are_compared_on_one_page() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("both.html");
    let (page, capture) = (page.to_str().unwrap(), capture());
    let capture = capture.to_str().unwrap();
    let output = rtwire(&[capture, "--beside", capture, "--report", page]);
    assert!(output.status.success(), "{}", said(&output));
    let html = std::fs::read_to_string(page).unwrap();
    for wanted in [
        "PReq–PRes, ",
        "SoC deviation, ",
        "isochronous phase, ",
        "Distribution of PReq–PRes times",
        "Histogram of SoC deviations, ",
    ] {
        assert!(html.contains(wanted), "{wanted} is missing");
    }
    assert_eq!(html.matches("class=\"curve network\"").count(), 2);
    assert_eq!(html.matches("class=\"curve app\"").count(), 2);
    std::fs::remove_file(page).unwrap();

    let text = folder.path().join("text.pcap");
    std::fs::write(&text, "no capture").unwrap();
    for (beside, code, wanted) in [
        ("nowhere.pcap", 2, "nowhere.pcap"),
        (text.to_str().unwrap(), 2, "text.pcap"),
    ] {
        let output = rtwire(&[capture, "--beside", beside, "--report", page]);
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        assert!(said(&output).contains(wanted), "{}", said(&output));
        assert!(!Path::new(page).exists(), "nothing half done");
    }
    // A capture that is cut off, measured as far as it goes: the page says so.
    let cut = folder.path().join("cut.pcap");
    let whole = std::fs::read(capture).unwrap();
    std::fs::write(&cut, &whole[..whole.len() - 7]).unwrap();
    let cut = cut.to_str().unwrap();
    let output = rtwire(&[capture, "--beside", cut, "--report", page]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let output = rtwire(&[capture, "--beside", cut, "--partial", "--report", page]);
    assert!(output.status.success(), "{}", said(&output));
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains("Only the part before the fault"), "{html}");
    std::fs::remove_file(page).unwrap();

    let output = rtwire(&[capture, "--beside", capture]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("--report"), "{}", said(&output));
}
