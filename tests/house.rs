//! The rules of the house that a program can check: which crate may know which.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What each crate may depend on; nothing depends on the command. `testkit` only ever serves tests.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("bpf", &[]),
    ("describe", &[]),
    ("proof", &[]),
    ("plan", &["describe"]),
    ("sim", &["describe", "plan"]),
    ("sys", &[]),
    ("link", &["bpf", "wire", "sys"]),
    ("channel", &["link", "wire", "sys"]),
    ("manager", &["plan"]),
    ("netconf", &[]),
    ("managerd", &["manager", "plan"]),
    ("agent", &[]),
    (
        "agentd",
        &["agent", "bpf", "host", "manager", "managerd", "plan", "sys"],
    ),
    ("deploy", &["manager", "managerd"]),
    ("measure", &["wire", "sys"]),
    ("powerlink", &["wire"]),
    ("pubsub", &["wire"]),
    (
        "pubsub-station",
        &["pubsub", "link", "bpf", "wire", "sys", "describe", "plan"],
    ),
    ("host", &["describe", "plan", "sys", "wire"]),
    (
        "session",
        &["agent", "plan", "channel", "host", "measure", "wire", "sys"],
    ),
    (
        "lab",
        &[
            "agentd", "bpf", "describe", "plan", "sim", "session", "host", "measure", "wire", "sys",
        ],
    ),
    (
        "cli",
        &[
            "describe",
            "plan",
            "host",
            "agent",
            "agentd",
            "deploy",
            "manager",
            "managerd",
            "channel",
            "link",
            "measure",
            "netconf",
            "wire",
            "sys",
            "lab",
            "sim",
            "session",
            "powerlink",
            "powerlink-station",
            "proof",
            "pubsub",
            "pubsub-station",
        ],
    ),
    (
        "powerlink-station",
        &["powerlink", "link", "bpf", "wire", "sys", "describe"],
    ),
    ("testkit", &["sys"]),
    (
        "rtwire",
        &[
            "describe",
            "plan",
            "channel",
            "session",
            "powerlink-station",
            "pubsub-station",
        ],
    ),
    (
        "fuzz",
        &[
            "agent",
            "wire",
            "deploy",
            "describe",
            "plan",
            "manager",
            "measure",
            "netconf",
            "powerlink",
            "proof",
            "pubsub-station",
        ],
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn manifests() -> Vec<(String, toml::Table)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(path.join("Cargo.toml")).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        found.push((name, text.parse().unwrap()));
    }
    found
}

fn own(table: Option<&toml::Value>) -> BTreeSet<String> {
    table
        .and_then(toml::Value::as_table)
        .into_iter()
        .flat_map(toml::Table::keys)
        .filter_map(|name| name.strip_prefix("rtwire-"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn dependencies_point_one_way() {
    for (name, manifest) in manifests() {
        let allowed = MAY_KNOW
            .iter()
            .find(|(candidate, _)| *candidate == name)
            .unwrap_or_else(|| panic!("crate `{name}` has no place in the table of this test"))
            .1;
        for dependency in own(manifest.get("dependencies")) {
            assert!(
                allowed.contains(&dependency.as_str()),
                "crate `{name}` depends on `{dependency}`; it may know {allowed:?} only"
            );
        }
    }
}

#[test]
fn unsafe_code_lives_in_sys_only() {
    for (name, manifest) in manifests() {
        let inherits = manifest
            .get("lints")
            .and_then(|lints| lints.get("workspace"))
            .and_then(toml::Value::as_bool)
            .unwrap_or(false);
        assert_eq!(
            inherits,
            name != "sys",
            "crate `{name}`: all but `sys` take the workspace's lints, which forbid unsafe code"
        );
    }
    let workspace: toml::Table = fs::read_to_string(root().join("Cargo.toml"))
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(
        workspace["workspace"]["lints"]["rust"]["unsafe_code"].as_str(),
        Some("forbid")
    );
}

/// Software of other makes serves tests only: no part of the product may reach it.
#[test]
fn foreign_peers_are_no_part_of_the_workspace() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    for foreign in ["open62541", "zerodds"] {
        assert!(
            !lock.contains(foreign),
            "{foreign} serves tests/{foreign} only"
        );
        let manifest = root().join("tests").join(foreign).join("Cargo.toml");
        let manifest: toml::Table = fs::read_to_string(manifest).unwrap().parse().unwrap();
        assert!(
            manifest.contains_key("workspace"),
            "tests/{foreign} has a workspace of its own"
        );
        assert_eq!(manifest["package"]["publish"].as_bool(), Some(false));
    }
    // C with unsafe bindings.
    let main = fs::read_to_string(root().join("tests/open62541/src/main.rs")).unwrap();
    assert!(!main.contains("unsafe"), "its unsafe code is in peer.rs");
}

#[test]
fn the_clone_is_whole_by_itself() {
    // Nothing may be read from beside the project: what tests need is copied into it.
    let mut waiting = vec![root()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap_or_default();
            if path.is_dir() {
                if !matches!(name, "target" | ".git") {
                    waiting.push(path);
                }
                continue;
            }
            let source = path
                .extension()
                .is_some_and(|e| e == "rs" || e == "toml" || e == "c" || e == "h");
            if source && name != "house.rs" {
                let text = fs::read_to_string(&path).unwrap();
                assert!(
                    !text.contains("../shared"),
                    "{} refers to a folder outside of the project",
                    path.display()
                );
            }
        }
    }
}

/// A package has no file from outside of its folder: what is compiled into it must lie there. (Tests are no part of it.)
#[test]
fn packages_are_whole_by_themselves() {
    for (name, _) in manifests() {
        let folder = root().join("crates").join(&name);
        let mut waiting = vec![folder.join("src")];
        while let Some(directory) = waiting.pop() {
            for entry in fs::read_dir(&directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    waiting.push(path);
                    continue;
                }
                let text = fs::read_to_string(&path).unwrap_or_default();
                let file = path.file_name().unwrap().to_str().unwrap();
                let tests_begin = text.find("#[cfg(test)]").unwrap_or(text.len());
                if file.ends_with("tests.rs") || directory.ends_with("tests") {
                    continue;
                }
                for line in text[..tests_begin].lines() {
                    let code = line.trim_start();
                    let includes = ["include_str!(\"", "include_bytes!(\"", "#[path = \""];
                    let Some(start) = includes.iter().find_map(|one| code.find(one)) else {
                        continue;
                    };
                    if code.starts_with("//") {
                        continue;
                    }
                    let target = code[start..].split('"').nth(1).unwrap_or("");
                    let lies = directory.join(target);
                    let lies = lies.canonicalize().unwrap_or(lies);
                    assert!(
                        lies.starts_with(folder.canonicalize().unwrap()),
                        "{}: `{target}` lies outside of the package",
                        path.display()
                    );
                }
            }
        }
    }
}

/// A crate that links its tests as few programs names each file: cargo no longer finds them by itself.
#[test]
fn no_file_of_tests_is_forgotten() {
    for (name, manifest) in manifests() {
        if manifest["package"]
            .get("autotests")
            .and_then(toml::Value::as_bool)
            != Some(false)
        {
            continue;
        }
        let folder = root().join("crates").join(&name).join("tests");
        let main = fs::read_to_string(folder.join("main.rs")).unwrap();
        let programs = manifest["test"].as_array().unwrap();
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let file = path.file_stem().unwrap().to_str().unwrap();
            if path.extension().is_none_or(|ending| ending != "rs") {
                continue;
            }
            let alone = programs
                .iter()
                .any(|program| program["name"].as_str() == Some(file));
            assert!(
                alone || main.contains(&format!("\nmod {file};\n")),
                "{} is in no program: `mod {file};` belongs into main.rs",
                path.display()
            );
        }
    }
}

/// The promised compiler (`rust-version`, Debian 13's) knows no `let` in a chain of conditions, and a newer one says nothing.
#[test]
fn no_condition_has_a_let_that_the_oldest_compiler_refuses() {
    let mut sources = Vec::new();
    for folder in ["crates", "tests", "benches", "tools", "examples", "fuzz"] {
        rust_files(&root().join(folder), &mut sources);
    }
    assert!(sources.len() > 500, "{} files", sources.len());
    for path in sources {
        let text = fs::read_to_string(&path).unwrap();
        if let Some(line) = chained_let(&text) {
            panic!(
                "{}:{line}: `let` in a chain of conditions needs Rust 1.88: nest it, or filter the Option",
                path.display()
            );
        }
    }
    // It finds what it looks for, in each form that rustfmt writes.
    for bad in [
        "if let Some(a) = b && c > 1 {\n}",
        "    if a\n        && let Some(b) = c\n    {\n    }",
        "    } else if let Some(a) =\n        b()\n        && c\n    {\n    }",
        "while let Some(a) = b && let Some(c) = d {\n}",
    ] {
        assert!(chained_let(bad).is_some(), "{bad}");
    }
    for good in [
        "if let Some(a) = b.filter(|b| b > 1 && b < 3) {\n}",
        "if let (Some(a), true) = (b, c && d) {\n}",
        "    if let Some(a) = b\n        .filter(|b| {\n            b > 1\n                && b < 3\n        })\n    {\n    }",
        "let a = b && c;\nif let Some(d) = e {\n    f(g && h);\n}",
    ] {
        assert_eq!(chained_let(good), None, "{good}");
    }
}

fn rust_files(folder: &Path, into: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            into.push(path);
        }
    }
}

/// Returns the line of a condition that chains a `let`, in text as rustfmt writes it.
fn chained_let(text: &str) -> Option<usize> {
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let depth = line.len() - code.len();
        let code = code.strip_prefix("} else ").unwrap_or(code);
        if code.starts_with("&& let ") || code.starts_with("|| let ") {
            return Some(at + 1);
        }
        if !code.starts_with("if let ") && !code.starts_with("while let ") {
            continue;
        }
        let mut open = 0_i32;
        for (index, letter) in code.char_indices() {
            match letter {
                '(' | '[' | '{' => open += 1,
                ')' | ']' | '}' => open -= 1,
                '&' if open == 0 && code[index..].starts_with("&& ") => return Some(at + 1),
                _ => {}
            }
        }
        // On several lines, an operand begins one step deeper than its `if`.
        let operand = format!("{}&& ", " ".repeat(depth + 4));
        for more in lines[at + 1..].iter().take_while(|_| !line.ends_with('{')) {
            if more.starts_with(&operand) {
                return Some(at + 1);
            }
            if more.len() - more.trim_start().len() <= depth {
                break;
            }
        }
    }
    None
}
