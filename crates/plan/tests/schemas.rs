//! Tests that the committed schema of plans matches the code. `RTWIRE_UPDATE=1 cargo test -p rtwire-plan --test main
//! schemas` writes them again.

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
fn plan_schema_is_committed() {
    compare(
        "schema/plan.schema.json",
        &pretty(&rtwire_plan::schema::plan_schema()),
    );
}

#[test]
fn plans_and_refusals_satisfy_their_schema() {
    let validator = jsonschema::validator_for(&rtwire_plan::schema::plan_schema()).unwrap();
    let text = std::fs::read_to_string(project().join("examples/five-nodes.toml")).unwrap();
    for interval in ["1 ms", "100 ms", "-1 ms"] {
        let set = [("shaping-interval".to_owned(), interval.to_owned())];
        let answer = match rtwire_plan::read(&text, "five-nodes.toml", &set) {
            Ok(network) => (&rtwire_plan::plan(&network, &rtwire_plan::Options::default())).into(),
            Err(faults) => rtwire_plan::answer::Answer::from(&faults),
        };
        let value = serde_json::to_value(answer).unwrap();
        let faults: Vec<String> = validator
            .iter_errors(&value)
            .map(|fault| fault.to_string())
            .collect();
        assert!(faults.is_empty(), "{interval}: {faults:?}");
    }
}
