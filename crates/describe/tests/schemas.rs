//! Tests that the committed schemas and the key reference match the code. `RTWIRE_UPDATE=1 cargo test -p
//! rtwire-describe --test schemas` writes them again.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::{Path, PathBuf};

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn compare(path: &str, generated: &str) {
    let path = project().join(path);
    if std::env::var_os("RTWIRE_UPDATE").is_some() {
        std::fs::write(&path, generated).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert!(
        committed == generated,
        "{} differs from what the code says; run with RTWIRE_UPDATE=1",
        path.display()
    );
}

fn pretty(value: &serde_json::Value) -> String {
    serde_json::to_string_pretty(value).unwrap() + "\n"
}

#[test]
fn network_schema_is_committed() {
    compare(
        "schema/network.schema.json",
        &pretty(&rtwire_describe::json_schema()),
    );
}

#[test]
fn the_manual_lists_every_key() {
    let path = project().join("docs/network-description.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- keys: generated -->\n", "<!-- end of keys -->");
    let (head, rest) = page.split_once(begin).unwrap();
    let (_, tail) = rest.split_once(end).unwrap();
    let fresh = format!(
        "{head}{begin}\n{}{end}{tail}",
        rtwire_describe::schema::key_reference()
    );
    compare("docs/network-description.md", &fresh);
}

fn examples() -> Vec<(String, serde_json::Value)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(project().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            let text = std::fs::read_to_string(&path).unwrap();
            let value: toml::Table = text.parse().unwrap();
            found.push((
                path.display().to_string(),
                serde_json::to_value(value).unwrap(),
            ));
        }
    }
    assert!(found.len() >= 3, "the examples are missing");
    found
}

#[test]
fn every_example_satisfies_the_schema() {
    let validator = jsonschema::validator_for(&rtwire_describe::json_schema()).unwrap();
    for (name, value) in examples() {
        let faults: Vec<String> = validator
            .iter_errors(&value)
            .map(|fault| fault.to_string())
            .collect();
        assert!(faults.is_empty(), "{name}: {faults:?}");
    }
}

#[test]
fn the_schema_refuses_what_the_parser_refuses() {
    let validator = jsonschema::validator_for(&rtwire_describe::json_schema()).unwrap();
    let (_, good) = examples().remove(0);
    for (pointer, wrong) in [
        ("/network/name", serde_json::json!(5)),
        ("/switch/0/queues", serde_json::json!(9)),
        ("/stream/0/talker", serde_json::json!("two words")),
        ("/link/0/ends", serde_json::json!(["A"])),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = wrong;
        assert!(!validator.is_valid(&bad), "{pointer}");
    }
    let mut bad = good;
    bad["stream"][0]["colour"] = serde_json::json!("red");
    assert!(!validator.is_valid(&bad));
}
