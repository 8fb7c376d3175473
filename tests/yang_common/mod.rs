//! `yanglint` with the modules in `tests/yang`.

use std::path::Path;
use std::process::Command;
use std::{fs, io};

use serde_json::Value;

/// What `yanglint` says of a document: whether it is valid, and its words.
///
/// # Errors
/// It cannot be started.
pub(crate) fn lint(folder: &Path, document: &Value) -> io::Result<(bool, String)> {
    // Tests and benchmarks are packages in different folders.
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let modules = here
        .ancestors()
        .map(|folder| folder.join("tests/yang"))
        .find(|folder| folder.is_dir())
        .ok_or_else(|| io::Error::other("there is no folder tests/yang"))?;
    let file = folder.join("data.json");
    fs::write(&file, document.to_string())?;
    // A switch without gates does not implement their module.
    let gated = document.to_string().contains("gate-parameter-table");
    let names: Vec<&str> = if gated {
        vec![
            "iana-if-type",
            "ieee802-dot1q-sched",
            "ieee802-dot1q-sched-bridge",
            "ieee802-dot1q-stream-filters-gates",
        ]
    } else {
        vec!["iana-if-type", "ieee802-dot1q-stream-filters-gates"]
    };
    let output = Command::new("yanglint")
        .args(["-t", "config", "-p"])
        .arg(&modules)
        .args(
            names
                .iter()
                .map(|name| modules.join(format!("{name}.yang"))),
        )
        .arg(&file)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((output.status.success(), said))
}
