//! Data for switches: `rtwire export --yang` of every example, held against the published structure.

use std::process::Command;
use std::time::Instant;

use rtwire_measure::bench::Row;
use serde_json::Value;

use super::yang_common::lint;
use super::{RTWIRE, median, row};

pub(crate) fn rows() -> Vec<Row> {
    let examples = rtwire_benches::root().join("examples");
    let folder = tempfile::tempdir().unwrap();
    let (mut took_ms, mut valid, mut total, mut why) = (Vec::new(), 0_u64, 0_u64, None);
    for entry in std::fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let start = Instant::now();
        let output = Command::new(RTWIRE.as_str())
            .arg("export")
            .arg(&path)
            .arg("--yang")
            .output()
            .unwrap();
        // Some examples are there to be refused.
        let Ok(Value::Object(switches)) = serde_json::from_slice(&output.stdout) else {
            continue;
        };
        took_ms.push(start.elapsed().as_secs_f64() * 1e3);
        for (name, data) in &switches {
            total += 1;
            match lint(folder.path(), data) {
                Ok((true, _)) => valid += 1,
                Ok((false, said)) => why = Some(format!("{}, {name}: {said}", path.display())),
                Err(error) => why = Some(format!("the referee cannot be asked: {error}")),
            }
        }
    }
    let samples = took_ms.len() as u64;
    vec![
        Row {
            reach: Some(format!("all {total}")),
            held: Some(valid == total && total > 0),
            why,
            ..row(
                "switches whose exported YANG data are as published",
                valid as f64,
                "",
                total,
            )
        },
        row(
            "export of one plan as YANG, planned too, median",
            median(took_ms),
            "ms",
            samples,
        ),
    ]
}
