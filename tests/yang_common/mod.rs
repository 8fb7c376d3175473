//! The referee of switches' data: `yanglint` with the published modules where `RTWIRE_YANG_MODULES` names their folder,
//! else their structure in `tests/yang/structure.txt`.
#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod modules;
pub(crate) mod netconfd;
pub(crate) mod structure;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use serde_json::Value;

/// Modules that every switch has.
const ALWAYS: [&str; 4] = [
    "ietf-interfaces",
    "iana-if-type",
    "ieee802-dot1q-types",
    "ieee802-dot1q-bridge",
];
/// A word of the data, and the modules that it needs. A switch without gates does not implement theirs: their constraints
/// compare values that must then be there.
const BY_CONTENT: [(&str, &[&str]); 5] = [
    (
        "ieee802-dot1q-sched-bridge:",
        &["ieee802-dot1q-sched", "ieee802-dot1q-sched-bridge"],
    ),
    (
        "ieee802-dot1q-stream-filters-gates-bridge:",
        &[
            "ieee802-dot1q-stream-filters-gates",
            "ieee802-dot1q-stream-filters-gates-bridge",
        ],
    ),
    (
        "ieee802-dot1cb-stream-identification:",
        &["ieee802-dot1cb-stream-identification"],
    ),
    ("ieee802-dot1q-cbsa-bridge:", &["ieee802-dot1q-cbsa-bridge"]),
    (
        "ieee802-dot1q-preemption-bridge:",
        &[
            "ieee802-dot1q-preemption",
            "ieee802-dot1q-preemption-bridge",
        ],
    ),
];

/// Judges the data of one switch: whether they are valid, and the referee's words.
///
/// # Errors
/// The referee cannot be asked.
pub(crate) fn lint(folder: &Path, document: &Value) -> io::Result<(bool, String)> {
    match env::var_os("RTWIRE_YANG_MODULES") {
        Some(modules) => by_modules(Path::new(&modules), folder, document),
        None => {
            let faults = structure::faults(document);
            Ok((faults.is_empty(), faults.join("\n")))
        }
    }
}

/// Asks `yanglint` with the modules in a folder.
pub(crate) fn by_modules(
    modules: &Path,
    folder: &Path,
    document: &Value,
) -> io::Result<(bool, String)> {
    let text = document.to_string();
    let file = folder.join("data.json");
    fs::write(&file, &text)?;
    let mut files = Vec::new();
    yang_files(modules, &mut files)?;
    files.sort();
    let needed = BY_CONTENT
        .iter()
        .filter(|(word, _)| text.contains(word))
        .flat_map(|(_, names)| names.iter());
    let mut command = Command::new("yanglint");
    command.args(["-t", "config"]);
    let mut folders: Vec<&Path> = files.iter().filter_map(|file| file.parent()).collect();
    folders.dedup();
    for one in folders {
        command.arg("-p").arg(one);
    }
    for name in ALWAYS.iter().chain(needed) {
        // With several revisions of a module, the newest is the last.
        let is_it = |file: &&PathBuf| {
            let stem = file.file_stem().and_then(|stem| stem.to_str());
            stem.is_some_and(|stem| stem.split('@').next() == Some(*name))
        };
        let found = files.iter().rev().find(is_it).ok_or_else(|| {
            io::Error::other(format!("{} has no module {name}", modules.display()))
        })?;
        command.arg(found);
    }
    let output = command.arg(&file).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((output.status.success(), said))
}

fn yang_files(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            yang_files(&path, found)?;
        } else if path.extension().is_some_and(|end| end == "yang") {
            found.push(path);
        }
    }
    Ok(())
}
