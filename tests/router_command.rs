//! Routers: planned, explained, proved and simulated. What knows switches only names the router.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const EXAMPLE: &str = include_str!("../examples/routed.toml");

fn rtwire(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rtwire"));
    command.args(arguments).output().unwrap()
}

#[track_caller]
fn ends_with(output: &Output, code: i32) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{out}{err}");
    (out, err)
}

/// Writes a text into a folder. Returns its path.
fn written(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_routed_network_is_planned_proved_and_simulated() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), "routed.toml", EXAMPLE);
    let planned = folder.path().join("routed.json");
    let planned = planned.to_str().unwrap();
    let _ = ends_with(&rtwire(&["plan", &file, "--certificate", "-o", planned]), 0);
    let (out, _) = ends_with(&rtwire(&["verify", planned]), 0);
    assert!(
        out.starts_with("certificate: 4 promises proved from their facts\n"),
        "{out}"
    );
    let (out, _) = ends_with(&rtwire(&["simulate", planned, "--search", "300"]), 0);
    assert!(out.contains("all within the promises"), "{out}");
    let (out, _) = ends_with(&rtwire(&["plan", planned, "--explain", "images"]), 0);
    let on_the_way =
        "  priority 4, DSCP 34; from router r1 on priority 4; from router r2 on priority 1\n";
    assert!(out.contains(on_the_way), "{out}");
    let (out, _) = ends_with(&rtwire(&["plan", planned, "--explain", "setpoints"]), 0);
    assert!(!out.contains("router"), "{out}");
    // What others read: the priority at each port, and the router's kind.
    let plan: Value = serde_json::from_str(&std::fs::read_to_string(planned).unwrap()).unwrap();
    let streams = plan["streams"].as_array().unwrap();
    let images = streams.iter().find(|it| it["name"] == "images").unwrap();
    assert_eq!(
        images["promises"][0]["priorities"],
        serde_json::json!([4, 4, 4, 1, 1])
    );
    assert_eq!(images["identity"]["dscp"], 34);
    let commands = streams.iter().find(|it| it["name"] == "commands").unwrap();
    assert_eq!(commands["identity"]["dscp"], 40);
    let ports = plan["ports"].as_array().unwrap();
    let of_router = ports.iter().filter(|it| it["node_kind"] == "router");
    assert_eq!(of_router.count(), 4);
    // Another table for 46 alone changes the promise of `alarms`, and is no plan of this file.
    let other = EXAMPLE.replace("dscp-priority = { 46 = 6 }", "dscp-priority = { 46 = 0 }");
    let other = written(folder.path(), "other.toml", &other);
    let (out, _) = ends_with(&rtwire(&["plan", &other, "--diff", planned]), 0);
    assert!(out.contains("alarms to panel: "), "{out}");
    let changed = "priority 6>6>6>6>6 -> 6>6>6>0>0";
    assert!(out.contains(changed), "{out}");
    let (out, _) = ends_with(&rtwire(&["plan", planned, "--csv", "streams"]), 0);
    let last = |stream: &str| {
        let row = out.lines().find(|row| row.starts_with(stream)).unwrap();
        row.rsplit(',').next().unwrap()
    };
    assert_eq!(
        ["stream", "images", "setpoints"].map(last),
        ["priorities", "4>4>4>1>1", "7"]
    );
    let mut spoiled = plan;
    let switches = spoiled["network"]["switches"].as_array_mut().unwrap();
    let last = switches.iter_mut().find(|it| it["name"] == "r2").unwrap();
    last["routing"]["priorities"]["46"] = 0.into();
    let spoiled = spoiled.to_string();
    let spoiled = written(folder.path(), "spoiled.json", &spoiled);
    let (out, _) = ends_with(&rtwire(&["verify", &spoiled]), 1);
    assert!(out.contains("\"alarms\", promises[0].delay_ns"), "{out}");
}

#[test]
fn what_knows_switches_only_names_the_router() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), "routed.toml", EXAMPLE);
    let planned = folder.path().join("routed.json");
    let planned = planned.to_str().unwrap();
    let _ = ends_with(&rtwire(&["plan", &file, "-o", planned]), 0);
    let own = ["--host", "plc", "--interface", "lo"];
    let keys = folder.path().to_str().unwrap();
    for arguments in [
        &["lab", &file, "--duration", "1s"][..],
        &[&["run", &file][..], &own].concat(),
        &[&["run", "--plan", planned][..], &own].concat(),
        &["export", &file, "--page"],
        &["switch", "check", "s1", "--plan", planned, "--via", "false"],
        &[&["apply", planned, "--dry-run"][..], &own].concat(),
        &[
            "manager",
            planned,
            "--state",
            keys,
            "--keys",
            keys,
            "--listen",
            "127.0.0.1:0",
        ],
    ] {
        let (_, err) = ends_with(&rtwire(arguments), 2);
        assert!(err.contains("\"r1\" is a router: "), "{arguments:?}: {err}");
    }
}

/// A typo, and a layer-2 stream over a router: each has its line, its column, and what would be right.
#[test]
fn faults_of_routers_are_shown_where_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let line_of = |text: &str, part: &str| {
        let mut lines = text.lines();
        lines.position(|line| line.contains(part)).unwrap() + 1
    };
    for (name, from, to, part, message, help) in [
        (
            "typo.toml",
            "dscp-priority = { 46 = 6, 34",
            "dscp-priorty = { 46 = 6, 34",
            "dscp-priorty",
            ":1: unknown key `dscp-priorty` in [[router]]",
            "did you mean `dscp-priority`?",
        ),
        (
            "name.toml",
            "dscp-priority = { 46 = 6, 34",
            "dscp-priority = { EF = 6, 34",
            "EF",
            ":19: `dscp-priority` has DSCP \"EF\", but DSCPs are numbers 0 to 63",
            "EF is 46",
        ),
        (
            "layer2.toml",
            "listeners = [\"drive\"]",
            "listeners = [\"archive\"]",
            "listeners = [\"archive\"]",
            ":14: \"archive\" is reached from \"plc\" through router \"r1\" only, but RTDiP upon Ethernet is layer 2",
            "transport = \"udp\" passes routers, or add links between switches",
        ),
        (
            "cut.toml",
            "buffer = \"256 KiB\"\nqueues = 8\ndscp-priority = { 46 = 6 }",
            "buffer = \"256 KiB\"\ncut-through = \"on\"\nqueues = 8\ndscp-priority = { 46 = 6 }",
            "cut-through",
            ":15: router \"r2\" has cut-through",
            "cut-through = \"off\", or leave it away",
        ),
    ] {
        assert!(EXAMPLE.contains(from), "{name}");
        let text = EXAMPLE.replacen(from, to, 1);
        let file = written(folder.path(), name, &text);
        let (_, err) = ends_with(&rtwire(&["plan", &file]), 2);
        let wanted = format!("{file}:{}{message}", line_of(&text, part));
        assert!(err.contains(&wanted), "{err}\nwanted: {wanted}");
        assert!(err.contains(help) && err.ends_with("1 fault\n"), "{err}");
    }
}
