//! `rtwire export`: valid YANG data by `yanglint`, and a page that has it all.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "yang_common/mod.rs"]
mod yang_common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use rtwire_testkit::require;
use serde_json::Value;

const GATED: &str = r#"
[network]
name = "t"
[[switch]]
name = "s"
buffer = "200 kB"
queues = 8
gates = "unlimited"
[[host]]
name = "A"
[[host]]
name = "B"
[[link]]
ends = ["A", "s"]
rate = "100 Mbit/s"
[[link]]
ends = ["s", "B"]
rate = "100 Mbit/s"
[[stream]]
name = "fast"
talker = "A"
listeners = ["B"]
payload = "64 B"
interval = "1 ms"
priority = 7
schedule = "time-triggered"
vlan = 5
"#;

fn export(text: &str, more: &[&str]) -> (tempfile::TempDir, Output) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.toml");
    fs::write(&file, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_rtwire"))
        .arg("export")
        .arg(&file)
        .args(more)
        .output()
        .unwrap();
    (folder, output)
}

fn lint(folder: &Path, document: &Value) -> (bool, String) {
    yang_common::lint(folder, document).unwrap()
}

#[test]
fn the_data_of_a_gated_switch_are_valid_and_a_nanosecond_less_is_not() {
    require!(program "yanglint");
    let (folder, output) = export(GATED, &["--yang", "--switch", "s", "--port", "s>B=swp2"]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let data: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (valid, said) = lint(folder.path(), &data);
    assert!(valid, "{said}\n{data:#}");
    let interfaces = data["ietf-interfaces:interfaces"]["interface"]
        .as_array()
        .unwrap();
    let place = interfaces
        .iter()
        .position(|one| one["name"] == "swp2")
        .unwrap();
    let gates = "/ieee802-dot1q-bridge:bridge-port/ieee802-dot1q-sched-bridge:gate-parameter-table";
    let first = format!(
        "/ietf-interfaces:interfaces/interface/{place}{gates}/admin-control-list/gate-control-entry/0/time-interval-value"
    );
    let interval = data.pointer(&first).unwrap().as_u64().unwrap();
    let mut wrong = data.clone();
    *wrong.pointer_mut(&first).unwrap() = (interval - 1).into();
    let (valid, said) = lint(folder.path(), &wrong);
    assert!(!valid && said.contains("Must condition"), "{said}");
    // A gate that no filter can refer to, and a name that the standard does not have.
    let mut wrong = data.clone();
    let component = "/ieee802-dot1q-bridge:bridges/bridge/0/component/0";
    let gates = format!(
        "{component}/ieee802-dot1q-stream-filters-gates:stream-gates/stream-gate-instance-table"
    );
    *wrong.pointer_mut(&gates).unwrap() = Value::Array(Vec::new());
    assert!(!lint(folder.path(), &wrong).0);
    let mut wrong = data;
    wrong["ietf-interfaces:interfaces"]["interface"][0]["gates"] = true.into();
    assert!(!lint(folder.path(), &wrong).0);
}

#[test]
fn every_example_exports_valid_data() {
    require!(program "yanglint");
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut seen = 0;
    for entry in fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let (folder, output) = export(&fs::read_to_string(&path).unwrap(), &["--yang"]);
        // Some are there to be refused.
        if output.status.code() == Some(1) {
            continue;
        }
        assert!(
            output.status.success(),
            "{}: {}",
            path.display(),
            String::from_utf8_lossy(&output.stderr)
        );
        let all: Value = serde_json::from_slice(&output.stdout).unwrap();
        for (name, data) in all.as_object().unwrap() {
            let (valid, said) = lint(folder.path(), data);
            assert!(valid, "{}: {name}: {said}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 2);
}

#[test]
fn the_page_has_what_a_person_types_in() {
    let (_folder, output) = export(GATED, &["--page", "--port", "s>B=swp2"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "switch s",
        "traffic class",
        "port swp2 (to B)",
        "cycle 1000000 ns",
        "0x80",
        "tc7",
        "fast",
    ] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
}

#[test]
fn wrong_usage_is_named() {
    for (more, part) in [
        (vec!["--yang", "--switch", "x"], "switches are s"),
        (vec!["--page", "--port", "s>X=swp1"], "no such port"),
        (vec![], "--yang"),
    ] {
        let (_folder, output) = export(GATED, &more);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part), "{said}");
    }
}
