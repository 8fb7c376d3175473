//! `rtwire powerlink check`: the real binary, its output and its exit codes.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::process::{Command, Output};

use rtwire_powerlink::Cdc;
use serde_json::Value;

fn check(content: &[u8], more: &[&str]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, content).unwrap();
    Command::new(env!("CARGO_BIN_EXE_rtwire"))
        .args(["powerlink", "check"])
        .arg(&path)
        .args(more)
        .output()
        .unwrap()
}

fn network() -> Cdc {
    let mut cdc = Cdc::default();
    cdc.push(0x1006, 0, 1000, 4);
    cdc.push(0x1f81, 1, 0x8000_000f, 4);
    cdc.push(0x1f92, 1, 200_000, 4);
    cdc.push(0x1800, 1, 1, 1);
    cdc.push(0x1a00, 1, 0x0008_0000_0001_a4c0, 8);
    cdc.push(0x1a00, 0, 1, 1);
    cdc
}

#[test]
fn a_configuration_is_explained_in_words_and_as_json() {
    let output = check(&network().emit(), &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    for part in [
        "configuration of a network, for its managing node, 6 objects",
        "the cycle is 1000 µs",
        "   1   1 B       0 B           200 µs        0  mandatory",
        "sent to node 1, 1 bytes:",
        "0..1  A4C0h/1",
    ] {
        assert!(text.contains(part), "`{part}` is missing in:\n{text}");
    }
    let output = check(&network().emit(), &["--json"]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["cycle_us"], 1000);
    assert_eq!(value["nodes"][0]["response_timeout_us"], 200);
    assert_eq!(value["pdos"][0]["mapped"][0]["index"], 0xa4c0);
}

#[test]
fn faults_end_with_2_and_say_what_is_wrong() {
    let stderr = |content: &[u8]| {
        let output = check(content, &[]);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let mut bytes = network().emit();
    bytes.pop();
    assert!(stderr(&bytes).contains("needs 1 more"));
    assert!(stderr(b"").contains("the file is empty"));
    assert!(stderr(b"<?xml version=\"1.0\"?><a><b></a>").contains("line 1: no right XML"));
    let mut wrong = network();
    wrong.push(0x1f81, 2, 1, 4);
    assert!(stderr(&wrong.emit()).contains("node 2: its assignment 00000001h lacks bit 0 or 1"));
    let output = Command::new(env!("CARGO_BIN_EXE_rtwire"))
        .args(["powerlink", "check", "/nowhere.cdc"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("No such file")
    );
}

#[test]
fn what_check_tells_follows_its_schema() {
    let output = Command::new(env!("CARGO_BIN_EXE_rtwire"))
        .args(["schema", "powerlink-check"])
        .output()
        .unwrap();
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    let committed = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../schema/powerlink-check.schema.json");
    let committed: Value = serde_json::from_slice(&std::fs::read(committed).unwrap()).unwrap();
    assert_eq!(schema, committed, "`make generate` writes it anew");
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut faulty = network();
    faulty.push(0x1f81, 2, 1, 4);
    for cdc in [network(), faulty] {
        let output = check(&cdc.emit(), &["--json"]);
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        let faults: Vec<_> = validator
            .iter_errors(&told)
            .map(|fault| fault.to_string())
            .collect();
        assert!(faults.is_empty(), "{faults:?}");
    }
}
