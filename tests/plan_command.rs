//! `rtwire plan`: the real binary, its output and its exit codes.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

fn rtwire(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rtwire"))
        .args(arguments)
        .output()
        .unwrap()
}

fn project() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let up = here
        .ancestors()
        .find(|folder| folder.join("tests/captures/bounds.json").exists());
    up.map_or_else(
        || {
            PathBuf::from(file!())
                .ancestors()
                .nth(2)
                .unwrap()
                .to_owned()
        },
        Path::to_owned,
    )
}

fn example(name: &str) -> String {
    project().join("examples").join(name).display().to_string()
}

/// A file that is removed at the end of the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(content: &[u8]) -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("rtwire-plan-{}-{count}.toml", std::process::id()));
        std::fs::File::create(&path)
            .unwrap()
            .write_all(content)
            .unwrap();
        Scratch(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|fault| {
        panic!(
            "{fault}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A fraction times another, in lowest terms, as text.
fn times(fraction: &str, num: i128, den: i128) -> String {
    let (a, b) = fraction.split_once('/').unwrap_or((fraction, "1"));
    let value = rtwire_plan::Ratio::new(
        a.parse::<i128>().unwrap() * num,
        b.parse::<i128>().unwrap() * den,
    )
    .unwrap();
    value.to_string()
}

/// The description of one vector: each input is a host with a link of its own.
fn description(vector: &Value) -> String {
    let rate = vector["C_bps"].as_i64().unwrap();
    let frame_bits = vector["M_bits"].as_i64().unwrap();
    // 12112 bits are a full frame without overhead, 12304 the same with 24 bytes.
    let overhead = frame_bits / 8 - 1514;
    assert!(overhead == 0 || overhead == 24, "{vector}");
    let latency = match &vector["t_mux_s"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let buffer = vector["buffer_limit_bytes"]
        .as_i64()
        .unwrap_or(1_000_000_000);
    let mut text = format!(
        "[network]\nname = \"vector\"\n[defaults]\nframe-overhead = \"{overhead} B\"\nlink-rate = \"{rate} bit/s\"\n\
         [[switch]]\nname = \"s1\"\nlatency = {{ min = \"{latency} s\", max = \"{latency} s\" }}\n\
         buffer = \"{buffer} B\"\nbuffer-release = \"bit\"\n\
         [[host]]\nname = \"B\"\n[[link]]\nends = [\"B\", \"s1\"]\n"
    );
    for (index, input) in vector["ports_r_bps_b_bits"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
    {
        let (rate, burst) = (input[0].as_str().unwrap(), input[1].as_str().unwrap());
        // The file counts frame bytes, the vector what is on the wire.
        let rate = times(rate, 1514, 1514 + i128::from(overhead));
        let _ = write!(
            text,
            "[[host]]\nname = \"H{index}\"\n[[link]]\nends = [\"H{index}\", \"s1\"]\n\
             [[stream]]\nname = \"stream-{index}\"\ntalker = \"H{index}\"\nlisteners = [\"B\"]\n\
             frame = \"1514 B\"\nrate = \"{rate} bit/s\"\nburst = \"{burst} bit\"\n"
        );
    }
    text
}

#[test]
fn every_vector_of_the_closed_form_is_met_exactly() {
    let fixtures = std::fs::read(project().join("tests/captures/bounds.json")).unwrap();
    let fixtures: Value = serde_json::from_slice(&fixtures).unwrap();
    let vectors = fixtures["loeser_haertig"]["vectors"].as_array().unwrap();
    assert_eq!(vectors.len(), 40);
    for vector in vectors {
        let (id, expect) = (vector["id"].as_str().unwrap(), &vector["expect"]);
        let file = Scratch::new(description(vector).as_bytes());
        let output = rtwire(&["plan", file.path(), "--json"]);
        let answer = json(&output);
        let status = expect["status"].as_str().unwrap();
        assert_eq!(answer["status"], status, "{id}: {}", text(&output.stderr));
        assert_eq!(
            output.status.code(),
            Some(i32::from(status != "ok")),
            "{id}"
        );
        let port = answer["ports"]
            .as_array()
            .unwrap()
            .iter()
            .find(|port| port["node"] == "s1" && port["port"] == "B")
            .unwrap_or_else(|| panic!("{id}: no port"));
        let form = &port["loeser_haertig"];
        assert_eq!(form["status"], status, "{id}");
        assert_eq!(form.get("why"), expect.get("why"), "{id}");
        for (ours, theirs) in [
            ("g_max_s", "g_max_s"),
            ("delay_s", "delay_s"),
            ("delay_ns", "delay_ns_ceil"),
            ("buffer_bits_paper", "buffer_bits_paper"),
            ("buffer_bits_exact", "buffer_bits_exact"),
            ("buffer_bytes", "buffer_bytes_ceil"),
            ("buffer_frames", "frames1514_ceil"),
        ] {
            assert_eq!(form.get(ours), expect.get(theirs), "{id}: {ours}");
        }
        if let Some(delay) = expect
            .get("delay_ns_ceil")
            .filter(|_| !port["classes"].as_array().unwrap().is_empty())
        {
            assert_eq!(
                &port["classes"][0]["delay_ns"], delay,
                "{id}: the class must agree with the closed form"
            );
            assert_eq!(
                &port["backlog_bytes"], &expect["buffer_bytes_ceil"],
                "{id}: the backlog must agree"
            );
        }
    }
}

/// The contract r (t + T_s + J) + M gives the fractions of the experiment by itself.
#[test]
fn the_experiment_comes_out_of_rates_and_intervals() {
    let fixtures = std::fs::read(project().join("tests/captures/bounds.json")).unwrap();
    let fixtures: Value = serde_json::from_slice(&fixtures).unwrap();
    let source = std::fs::read_to_string(example("five-nodes.toml")).unwrap();
    // A's frame with J = 0 is the vectors' b = M.
    let source = source.replace(
        "\ninterval = \"1 ms\"",
        "\ntick-error = \"0 us\"\ninterval = \"1 ms\"",
    );
    let file = Scratch::new(source.as_bytes());
    for (interval, error, id) in [
        ("10ms", "0us", "exp_10ms_f_wire_tmux"),
        ("10ms", "1ms", "exp_10ms_k_jitter10pct"),
        ("1ms", "0us", "exp_1ms_f_wire_tmux"),
        ("1ms", "1ms", "exp_1ms_f1_jitter1ms"),
        ("1ms", "100us", "exp_1ms_k_jitter10pct"),
        ("100us", "0us", "exp_100us_f_wire_tmux"),
        ("100us", "10us", "exp_100us_k_jitter10pct"),
    ] {
        let vectors = fixtures["loeser_haertig"]["vectors"].as_array().unwrap();
        let expect = &vectors.iter().find(|vector| vector["id"] == id).unwrap()["expect"];
        let output = rtwire(&[
            "plan",
            file.path(),
            "--json",
            "--set",
            &format!("shaping-interval={interval}"),
            "--set",
            &format!("tick-error={error}"),
        ]);
        let answer = json(&output);
        let ports = answer["ports"].as_array().unwrap();
        let port = ports
            .iter()
            .find(|port| port["node"] == "s1" && port["port"] == "B")
            .unwrap();
        assert_eq!(port["loeser_haertig"]["delay_s"], expect["delay_s"], "{id}");
        assert_eq!(
            port["loeser_haertig"]["buffer_bits_paper"], expect["buffer_bits_paper"],
            "{id}"
        );
    }
}

#[test]
fn promises_are_the_sum_of_their_terms() {
    for name in [
        "cyclic.toml",
        "five-nodes.toml",
        "flow-meters.toml",
        "line.toml",
        "preemption.toml",
        "redundant.toml",
        "ring.toml",
    ] {
        let answer = json(&rtwire(&["plan", &example(name), "--json"]));
        for stream in answer["streams"].as_array().unwrap() {
            for promise in stream["promises"].as_array().unwrap() {
                let terms = promise["terms"].as_array().unwrap();
                let sum: u64 = terms.iter().map(|term| term["ns"].as_u64().unwrap()).sum();
                assert_eq!(
                    promise["delay_ns"].as_u64(),
                    Some(sum),
                    "{name} {}",
                    stream["name"]
                );
            }
        }
    }
}

#[test]
fn the_table_shows_streams_and_ports() {
    let output = rtwire(&["plan", &example("five-nodes.toml")]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for expected in ["A-to-B", "C-to-B", "s1>B", "130\u{a0}204 B", "95.7 %"] {
        assert!(
            shown.contains(expected),
            "{expected} is missing in\n{shown}"
        );
    }
    let output = rtwire(&["plan", &example("five-nodes.toml"), "--explain", "C-to-B"]);
    assert!(
        text(&output.stdout).contains("23\u{a0}070\u{a0}000\u{a0}000/757 bit/s"),
        "{}",
        text(&output.stdout)
    );
    let output = rtwire(&["plan", &example("five-nodes.toml"), "--explain", "nobody"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn an_unshaped_sender_is_refused_by_name() {
    let output = rtwire(&["plan", &example("five-nodes-unshaped.toml")]);
    assert_eq!(output.status.code(), Some(1));
    let shown = text(&output.stderr);
    assert!(
        shown.contains("stream \"C-to-B\": its shaper is off"),
        "{shown}"
    );
    let output = rtwire(&[
        "plan",
        &example("five-nodes-unshaped.toml"),
        "--no-admission",
        "--json",
    ]);
    assert_eq!(output.status.code(), Some(0));
    let answer = json(&output);
    assert!(
        answer["warnings"]
            .as_array()
            .unwrap()
            .iter()
            .any(|line| line.as_str().unwrap().contains("C-to-B"))
    );
    let promise = |name: &str| {
        let streams = answer["streams"].as_array().unwrap();
        streams
            .iter()
            .find(|stream| stream["name"] == name)
            .unwrap()["promises"][0]["delay_ns"]
            .clone()
    };
    assert_eq!(promise("C-to-B"), Value::Null);
    assert!(promise("A-to-B").is_u64());
}

#[test]
fn a_refusal_says_which_limit_by_how_much_and_what_would_fit() {
    let arguments = [
        "plan",
        &example("five-nodes.toml"),
        "--set",
        "shaping-interval=100ms",
    ];
    let output = rtwire(&arguments);
    assert_eq!(output.status.code(), Some(1));
    let shown = text(&output.stderr);
    for expected in [
        "port s1>B: needs",
        "B too few",
        "exceeds the deadline 12 ms by",
        "shaping-interval",
    ] {
        assert!(
            shown.contains(expected),
            "{expected} is missing in\n{shown}"
        );
    }
    assert!(output.stdout.is_empty());
    // With --json the refusal is JSON on standard output as well.
    let output = rtwire(&[&arguments[..], &["--json"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let answer = json(&output);
    assert_eq!(answer["status"], "reject");
    assert!(
        answer["suggestions"]
            .as_array()
            .is_some_and(|list| !list.is_empty())
    );
}

#[test]
fn faulty_files_and_usage_end_with_2() {
    let missing = rtwire(&["plan", "/nonexistent/network.toml"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("/nonexistent/network.toml"));
    let binary = Scratch::new(&[0xff, 0xfe, 0x00, 0x41]);
    assert_eq!(rtwire(&["plan", binary.path()]).status.code(), Some(2));
    let faulty = Scratch::new(b"[network]\nnam = \"x\"\n[[hosts]]\nname = \"A\"\n");
    let output = rtwire(&["plan", faulty.path(), "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let shown = text(&output.stderr);
    assert!(
        shown.contains(":2:1: unknown key `nam`") && shown.contains("did you mean `[[host]]`?"),
        "{shown}"
    );
    let answer = json(&output);
    assert_eq!(answer["status"], "invalid");
    assert!(answer["faults"].as_array().unwrap().len() >= 2);
    assert_eq!(
        rtwire(&["plan", &example("five-nodes.toml"), "--set", "nonsense"])
            .status
            .code(),
        Some(2)
    );
    let output = rtwire(&[
        "plan",
        &example("five-nodes.toml"),
        "--set",
        "tick-eror=1ms",
    ]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("--set tick-eror=1ms: unknown key"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_reader_that_goes_away_is_no_crash() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rtwire"))
        .args(["plan", &example("five-nodes.toml"), "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(
        !text(&output.stderr).contains("panicked"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn the_schema_command_prints_the_committed_schemas() {
    for (name, file) in [
        ("network", "network.schema.json"),
        ("plan", "plan.schema.json"),
    ] {
        let printed: Value = serde_json::from_slice(&rtwire(&["schema", name]).stdout).unwrap();
        let committed = std::fs::read(project().join("schema").join(file)).unwrap();
        assert_eq!(
            printed,
            serde_json::from_slice::<Value>(&committed).unwrap(),
            "{name}"
        );
    }
}

#[test]
fn what_a_change_does_is_told() {
    let old = example("line.toml");
    let text = std::fs::read_to_string(&old).unwrap();
    let new = Scratch::new(
        text.replace("payload = \"64 B\"", "payload = \"900 B\"")
            .as_bytes(),
    );
    let output = rtwire(&["plan", "--diff", &old, new.path()]);
    assert_eq!(output.status.code(), Some(0));
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(
        shown.contains("setpoints to drive1: ") && shown.contains(" (+"),
        "{shown}"
    );
    // The same from what --json printed, and as JSON.
    let printed = rtwire(&["plan", "--json", &old]);
    let kept = Scratch::new(&printed.stdout);
    let again = rtwire(&["plan", "--diff", kept.path(), new.path(), "--json"]);
    assert_eq!(again.status.code(), Some(0));
    let changes: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert!(!changes["promises"].as_array().unwrap().is_empty());
    let same = rtwire(&["plan", "--diff", kept.path(), &old]);
    assert_eq!(same.stdout, b"no promise and no port differs\n");
    let missing = rtwire(&["plan", "--diff", "nowhere.toml", &old]);
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn methods_are_ordered_and_values_are_separated_by_commas() {
    let mut before = u64::MAX;
    for method in ["tfa", "tfa++", "staircase", "full", "rows", "end-to-end"] {
        let output = rtwire(&[
            "plan",
            &example("line.toml"),
            "--method",
            method,
            "--csv",
            "streams",
        ]);
        assert_eq!(output.status.code(), Some(0), "{method}");
        let text = String::from_utf8(output.stdout).unwrap();
        let promises = text
            .lines()
            .skip(1)
            .map(|line| line.split(',').nth(3).unwrap());
        let total: u64 = promises.map(|ns| ns.parse::<u64>().unwrap()).sum();
        assert!(total <= before, "{method}: {total} ns after {before} ns");
        before = total;
    }
    let ports = rtwire(&["plan", &example("line.toml"), "--csv", "ports"]);
    assert!(ports.stdout.starts_with(b"node,port,link_rate_bps"));
}

/// With preemption and without: the promises that the example states, and that the simulator's search cannot break.
#[test]
fn preemption_is_planned_and_what_it_costs() {
    let text = std::fs::read_to_string(example("preemption.toml")).unwrap();
    let preemptable = |line: &&str| !line.starts_with("preemptable");
    let whole: Vec<&str> = text.lines().filter(preemptable).collect();
    let whole = Scratch::new(whole.join("\n").as_bytes());
    let promises = |file: &str| {
        let answer = json(&rtwire(&["plan", file, "--json"]));
        let of = |name: &str| {
            let mut streams = answer["streams"].as_array().unwrap().iter();
            let stream = streams.find(|stream| stream["name"] == name).unwrap();
            stream["promises"][0]["delay_ns"].as_u64().unwrap()
        };
        let mut ports = answer["ports"].as_array().unwrap().iter();
        let port = ports.find(|port| port["node"] == "s1" && port["port"] == "s2");
        (
            of("setpoints"),
            of("log"),
            port.unwrap()["preemption"].clone(),
        )
    };
    let (setpoints, log, port) = promises(&example("preemption.toml"));
    let wanted = serde_json::json!({ "first_express_class": 4, "longest_piece_bytes": 143 });
    assert_eq!(port, wanted);
    let (setpoints_whole, log_whole, port) = promises(whole.path());
    assert_eq!(port, Value::Null);
    // What the example tells its readers.
    let us = |ns: u64| format!("{}.{:03} us", ns / 1000, ns % 1000);
    for ns in [setpoints, setpoints_whole, log, log_whole] {
        assert!(text.contains(&us(ns)), "{} is not in the example", us(ns));
    }
    // Two switches, at each of which a piece of 143 bytes is in the way in place of a frame of 1538.
    assert_eq!(setpoints_whole - setpoints, 2 * (1538 - 143) * 80);
    assert!(log > log_whole);
}

/// What cannot set preemption up says so by name before it does anything.
#[test]
fn preemption_is_refused_where_nothing_sets_it_up() {
    let text = std::fs::read_to_string(example("preemption.toml")).unwrap();
    let hosts = text.replace(
        "name = \"drive1\"\npreemptable = []",
        "name = \"drive1\"\npreemptable = [0, 1]",
    );
    assert_ne!(text, hosts);
    let hosts = Scratch::new(hosts.as_bytes());
    let at = ["--host", "drive1", "--interface", "lo"];
    for (arguments, port) in [
        (vec!["lab", hosts.path(), "--duration", "1s"], "plc"),
        ([&["run", hosts.path()][..], &at].concat(), "drive1>s2"),
        (
            [&["apply", hosts.path()][..], &at, &["--dry-run"]].concat(),
            "drive1>s2",
        ),
    ] {
        let output = rtwire(&arguments);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(
            told.contains("preempts frames (802.1Qbu)") && told.contains(port),
            "{arguments:?}: {told}"
        );
    }
    // The checker of certificates names it, and what it does not cover is planned again.
    let output = rtwire(&[
        "plan",
        &example("preemption.toml"),
        "--certificate",
        "--json",
    ]);
    let kept = Scratch::new(&output.stdout);
    let output = rtwire(&["verify", kept.path()]);
    assert_eq!(output.status.code(), Some(0));
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains("frame preemption at s1>s2"), "{told}");
}

/// The recovery of a redundant stream: in the table, in the explanation of both copies, as CSV, as JSON, in the difference of
/// two plans. It is planned again by `verify`, and no part of a certificate.
#[test]
fn the_recovery_of_redundant_streams_is_shown() {
    let file = example("redundant.toml");
    let answer = json(&rtwire(&["plan", &file, "--json"]));
    let streams = answer["streams"].as_array().unwrap();
    let recovery = &streams[0]["recovery"];
    assert!(streams[1..].iter().all(|it| it["recovery"].is_null()));
    let number = |key: &str| recovery[key].as_u64().unwrap();
    let later = streams[1]["promises"][0]["delay_ns"].as_u64().unwrap();
    assert_eq!(
        (number("delay_ns"), number("deadline_ns")),
        (later, 1_000_000)
    );
    let ways = recovery["ways"].as_array().unwrap();
    let names: Vec<&str> = ways
        .iter()
        .filter_map(|way| way["stream"].as_str())
        .collect();
    assert_eq!(names, ["position", "position~2"]);
    let table = text(&rtwire(&["plan", &file]).stdout);
    assert!(table.contains("recovered from both copies"), "{table}");
    for name in names {
        let told = text(&rtwire(&["plan", &file, "--explain", name]).stdout);
        let history = format!(
            "frerSeqRcvyHistoryLength at least {}",
            number("history_length")
        );
        for part in [
            history.as_str(),
            "frerSeqRcvyResetMSec at least",
            "position~2",
            "in order: up to",
        ] {
            assert!(told.contains(part), "{name}: {part}: {told}");
        }
    }
    assert!(!text(&rtwire(&["plan", &file, "--explain", "picture"]).stdout).contains("802.1CB"));
    let csv = text(&rtwire(&["plan", &file, "--csv", "recoveries"]).stdout);
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 2, "{csv}");
    assert_eq!(lines[0].len(), lines[1].len());
    for (key, value) in lines[0].iter().zip(&lines[1]) {
        if let Some(stated) = recovery[*key].as_u64() {
            assert_eq!(*value, stated.to_string(), "{key}");
        }
    }
    let source = std::fs::read_to_string(&file).unwrap();
    let denser = Scratch::new(source.replace("250 us", "100 us").as_bytes());
    let told = text(&rtwire(&["plan", denser.path(), "--diff", &file]).stdout);
    assert!(
        told.contains("position recovered: ") && told.contains("history"),
        "{told}"
    );
    // A plan file with another history does not follow.
    let output = rtwire(&["plan", &file, "--certificate", "--json"]);
    let kept = Scratch::new(&output.stdout);
    let output = rtwire(&["verify", kept.path()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let told = text(&output.stdout);
    assert!(told.contains("recovery of \"position\""), "{told}");
    let stated = format!("\"history_length\": {}", number("history_length"));
    let changed =
        text(&std::fs::read(kept.path()).unwrap()).replace(&stated, "\"history_length\": 2");
    let output = rtwire(&["verify", Scratch::new(changed.as_bytes()).path()]);
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stdout);
    assert!(
        told.contains("recovery.history_length: the plan says 2"),
        "{told}"
    );
}

#[test]
fn flow_meters_are_listed_and_promises_count_with_them() {
    let file = example("flow-meters.toml");
    let output = rtwire(&["plan", &file]);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for line in ["flow meter at", "each promise holds whatever other hosts"] {
        assert!(told.contains(line), "{line}: {told}");
    }
    let with = json(&rtwire(&["plan", &file, "--json"]));
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain.toml");
    let described = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&plain, described.replace("flow-meters = \"on\"\n", "")).unwrap();
    let without = json(&rtwire(&["plan", plain.to_str().unwrap(), "--json"]));
    assert!(without.get("meters").is_none());
    assert_eq!(with["meters"].as_array().unwrap().len(), 4);
    let promised = |plan: &Value| {
        plan["streams"][0]["promises"][0]["delay_ns"]
            .as_u64()
            .unwrap()
    };
    assert!(promised(&with) > promised(&without));
    // The lab's switches have no meters, and the manager's admission knows none.
    let output = rtwire(&["lab", &file, "--duration", "1s"]);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("`flow-meters = \"on\"`"), "{told}");
}

/// A cycle that is too short is refused with the one that fits; a plan whose numbers do not follow is found.
#[test]
fn cyclic_streams_are_planned_and_verified() {
    let file = example("cyclic.toml");
    let output = rtwire(&["plan", &file]);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for line in ["cycles, clocks", "cycle at", "s2>s1"] {
        assert!(told.contains(line), "{line}: {told}");
    }
    let folder = tempfile::tempdir().unwrap();
    let described = std::fs::read_to_string(&file).unwrap();
    let with = |from: &str, to: &str| {
        assert!(described.contains(from), "{from}");
        let path = folder.path().join("other.toml");
        std::fs::write(&path, described.replace(from, to)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let short = rtwire(&["plan", &with("cycle = \"125 us\"", "cycle = \"10 us\"")]);
    let told = text(&short.stdout) + &text(&short.stderr);
    assert_eq!(short.status.code(), Some(1), "{told}");
    for line in [
        "port s1>s2: what comes in a cycle (axes) needs",
        "cycle = \"50 \u{b5}s\" in [schedule], in place of 10 \u{b5}s",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    // What is suggested is a description.
    let output = rtwire(&[
        "plan",
        &with("cycle = \"125 us\"", "cycle = \"50 \u{b5}s\""),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let crowded = rtwire(&["plan", &with("jitter = \"300 us\"", "jitter = \"100 us\"")]);
    let told = text(&crowded.stdout) + &text(&crowded.stderr);
    assert!(
        told.contains("\"axes\" to drives: its frames' delays differ"),
        "{told}"
    );
    let plan = folder.path().join("plan.json");
    let path = plan.to_str().unwrap();
    assert!(rtwire(&["plan", &file, "--output", path]).status.success());
    let output = rtwire(&["verify", path]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let whole = std::fs::read_to_string(&plan).unwrap();
    let bent = whole.replace("\"cycle_frames\": 2", "\"cycle_frames\": 1");
    assert_ne!(whole, bent);
    std::fs::write(&plan, bent).unwrap();
    let output = rtwire(&["verify", path]);
    let told = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("cycle_frames: the plan says 1"), "{told}");
    // The lab's switches have no cycles.
    let output = rtwire(&["lab", &file, "--duration", "1s"]);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("`schedule = \"cyclic\"`"), "{told}");
}
