//! Measurements in the kernel lab: kernels with queueing disciplines that few machines have.

use std::process::{Command, Stdio};

use rtwire_measure::bench::Row;

/// Returns the rows that a measurement of the lab (`tests/vm/measure/NAME.sh`) prints, in `virtual` or `real` time.
pub(crate) fn rows(name: &str, time: &str) -> Vec<Row> {
    let script = rtwire_benches::root().join("scripts/vm");
    let output = Command::new(script)
        .args(["bench", name, time])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output();
    let missing = |why: String| {
        vec![Row {
            why: Some(why),
            ..super::row(&format!("{name}, {time} time"), 0.0, "", 0)
        }]
    };
    let output = match output {
        Ok(output) => output,
        Err(error) => return missing(format!("scripts/vm cannot be run: {error}")),
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let rows: Vec<Row> = text
        .lines()
        .filter_map(|line| line.strip_prefix("@@ row "))
        .filter_map(|json| serde_json::from_str(json).ok())
        .collect();
    if rows.is_empty() {
        eprint!("{text}");
        return missing("the kernel lab returned no figures: see its output above".to_owned());
    }
    rows
}
