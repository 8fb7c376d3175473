//! Networks whose promises are kept, one whose are not, and what the report says of them.

use std::path::Path;

use serde_json::Value;

use crate::support::*;

/// The experiment of the source at one shaping interval: never a broken promise, no loss, the load really there.
fn experiment(file: &str, published_ns: u64) {
    let _alone = alone();
    let (code, report) = measured(&example(file), &["--duration", "3s", "--calibration", "1s"]);
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
        &[
            "--duration",
            "2s",
            "--calibration",
            "500ms",
            "--no-admission",
        ],
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
        &["--duration", "2500ms", "--calibration", "500ms"],
    );
    // One stream is too slow for a verdict in so short a time; nothing is broken or lost.
    assert!(matches!(code, 0 | 4), "{}", report["reasons"]);
    let streams = report["streams"].as_array().unwrap();
    for stream in streams {
        assert!(
            stream["network_delay_ns"]["samples"].as_u64().unwrap() > 100,
            "{}",
            stream["name"]
        );
    }
    check_losses(&report, "line");
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

/// Five nodes, and a newest-value stream, over each way in and out. The ports' counts hold by all of them: the receive program
/// takes frames before the kernel counts them at the interface, and frames that go past the host's queue meet its link.
#[test]
fn every_way_in_and_out_keeps_the_promises_and_is_said() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("five-and-newest.toml");
    let five = std::fs::read_to_string(example("five-nodes.toml")).unwrap();
    let newest = "\n[[stream]]\nname = \"newest\"\ntalker = \"B\"\nlisteners = [\"A\"]\npayload = \"64 B\"\n\
        interval = \"1 ms\"\npriority = 5\nsemantics = \"newest\"\n";
    std::fs::write(&file, five + newest).unwrap();
    let sleeps = "packet (its reader sleeps: a packet socket costs less)";
    for (path, of_queues, of_newest, out) in [
        ("packet", "packet", "packet", "direct"),
        ("auto", sleeps, "native", "qdisc"),
        ("native", "native", "native", "xdp"),
        ("generic", "generic", "generic", "xdp"),
    ] {
        let arguments = ["--duration", "1500ms", "--calibration", "500ms"];
        let ways = ["--receive-path", path, "--transmit-path", out];
        let arguments = [&arguments[..], &ways, &["--police", "200ms"]].concat();
        let (code, report) = measured(&file, &arguments);
        assert!(matches!(code, 0 | 4), "{path}: {}", report["reasons"]);
        check_losses(&report, path);
        let past_the_queue = Some(out).filter(|out| *out != "qdisc");
        for stream in report["streams"].as_array().unwrap() {
            let expected = match stream["name"].as_str() {
                Some("newest") => of_newest,
                _ => of_queues,
            };
            assert_eq!(stream["receive_path"], expected, "{path}");
            assert_eq!(stream["transmit_path"].as_str(), past_the_queue);
            let name = &stream["name"];
            assert!(
                stream["frames_received"].as_u64() > Some(1_000),
                "{path} {name}"
            );
            assert_eq!(stream["stamps_missing"], 0, "{path} {name}");
            // Nothing is faster than its way: two links of 100 Mbit/s.
            let wire_ns = if name == "newest" {
                2 * 8_960
            } else {
                2 * 123_040
            };
            let least = stream["network_delay_ns"]["min"].as_u64();
            assert!(least > Some(wire_ns), "{path} {out} {name}: {least:?}");
        }
        check_ports(&report, path);
        let notes = report["notes"].to_string();
        let said = past_the_queue.is_some_and(|out| notes.contains(&format!("sent by `{out}`")));
        assert_eq!(said, past_the_queue.is_some(), "{notes}");
    }
}

/// Frames go the ways of the plan, best effort too, and none goes around for ever.
#[test]
fn a_ring_forwards_as_planned() {
    let _alone = alone();
    let (code, report) = measured(
        &example("ring.toml"),
        &["--duration", "2s", "--calibration", "500ms"],
    );
    assert!(matches!(code, 0 | 4), "{}", report["reasons"]);
    for stream in report["streams"].as_array().unwrap() {
        let samples = stream["network_delay_ns"]["samples"].as_u64().unwrap();
        // Not more: a cycle that this machine begins later than the tick error of 50 us is not sent.
        assert!(samples > 10, "{stream}: {}", report["hosts"]);
    }
    check_losses(&report, "ring");
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
fn the_report_is_written_beside_its_data() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let html = directory.path().join("five.html");
    let output = lab(
        &example("five-nodes.toml"),
        &["--duration", "500ms", "--calibration", "300ms", "--report"],
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
                _ if word.ends_with(".plan.json") => {
                    scratch.path().join(word).display().to_string()
                }
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
