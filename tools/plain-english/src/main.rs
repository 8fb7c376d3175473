//! Are the texts easy to read? Checks doc comments and documents for the rules that a program can check.
//!
//! Reads the Rust sources in `crates/`, `benches/` and `tools/`, and the Markdown of `README.md`, `docs/` and
//! `CHANGELOG.md`. Prints `file:line: message`, in the order of the paths. Exits with 1 if a rule is broken in a path
//! that begins with a line of `clean.txt`. Findings elsewhere are only counted.
//!
//! ```text
//! plain-english              judge what clean.txt lists
//! plain-english PREFIX…      judge these paths instead; `.` is everything
//! ```

mod rules;
mod text;

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use rules::{Finding, Kind, Severity};

/// Folders and files that are read.
const READ: [&str; 6] = [
    "CHANGELOG.md",
    "README.md",
    "benches",
    "crates",
    "docs",
    "tools",
];

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("plain-english: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<ExitCode, Box<dyn Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.join("../..");
    let mut judged: Vec<String> = std::env::args().skip(1).collect();
    if judged.is_empty() {
        judged = clean(&read(&here.join("clean.txt"))?);
    }
    let judged: Vec<&str> = judged.iter().map(|prefix| from_root(prefix)).collect();

    let mut paths = Vec::new();
    for name in READ {
        collect(&root, name, &mut paths)?;
    }
    paths.sort();
    if let Some(nothing) = judged
        .iter()
        .find(|prefix| !paths.iter().any(|path| path.starts_with(**prefix)))
    {
        return Err(
            format!("`{nothing}` names no file: give a path from the root of the project").into(),
        );
    }
    let (mut failures, mut hints, mut elsewhere) = (0_u32, 0_u32, 0_u32);
    for path in &paths {
        let source = read(&root.join(path))?;
        let counted = judged.iter().any(|prefix| path.starts_with(prefix));
        for finding in findings(path, &source) {
            match (counted, finding.severity) {
                (true, Severity::Failure) => failures += 1,
                (true, Severity::Hint) => hints += 1,
                (false, Severity::Failure) => elsewhere += 1,
                (false, Severity::Hint) => {}
            }
            if counted {
                println!("{}", line(path, &finding));
            }
        }
    }
    println!(
        "Plain English: {failures} to mend, {hints} hints; {elsewhere} to mend in paths that are not judged yet"
    );
    Ok(ExitCode::from(u8::from(failures > 0)))
}

/// Returns the path prefixes in the text of `clean.txt`; `#` begins a comment.
fn clean(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim())
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Returns a prefix in the form of the paths: `.` is the root, and `./` in front is left out.
fn from_root(prefix: &str) -> &str {
    let prefix = prefix.trim_start_matches("./");
    if prefix == "." { "" } else { prefix }
}

/// Adds the paths below `name` that have rules, from the root, with `/`.
fn collect(root: &Path, name: &str, paths: &mut Vec<String>) -> Result<(), Box<dyn Error>> {
    let path = root.join(name);
    if !path.is_dir() {
        if kind(name).is_some() {
            paths.push(name.to_owned());
        }
        return Ok(());
    }
    let entries = fs::read_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    for entry in entries {
        let file = entry?.file_name();
        let file = file.to_string_lossy();
        if file != "target" {
            collect(root, &format!("{name}/{file}"), paths)?;
        }
    }
    Ok(())
}

/// The rules for a file; `None` if it has none.
fn kind(path: &str) -> Option<Kind> {
    match path.rsplit_once('.')?.1 {
        "rs" => Some(Kind::Rust),
        "md" if path == "CHANGELOG.md" => Some(Kind::Changelog),
        "md" => Some(Kind::Document),
        _ => None,
    }
}

/// Returns the findings in a file, in the order of its lines.
fn findings(path: &str, source: &str) -> Vec<Finding> {
    let Some(kind) = kind(path) else {
        return Vec::new();
    };
    let paragraphs = match kind {
        Kind::Rust => text::of_rust(source),
        Kind::Document | Kind::Changelog => text::of_markdown(source),
    };
    let mut findings: Vec<Finding> = paragraphs
        .iter()
        .flat_map(|paragraph| rules::check(path, kind, paragraph))
        .collect();
    findings.sort_by_key(|finding| finding.line);
    findings
}

/// A finding as it is printed.
fn line(path: &str, finding: &Finding) -> String {
    let kind = match finding.severity {
        Severity::Hint => "hint: ",
        Severity::Failure => "",
    };
    format!("{path}:{}: {kind}{}", finding.line, finding.message)
}

/// Reads a file; the error names it.
fn read(path: &Path) -> Result<String, Box<dyn Error>> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_printed_with_file_and_line_in_order() {
        let source =
            "/// Returns so many.\n/// What.\nfn f() {}\n\n/// What it gives.\nfn g() {}\n";
        let printed: Vec<String> = findings("crates/a.rs", source)
            .iter()
            .map(|finding| line("crates/a.rs", finding))
            .collect();
        assert_eq!(
            printed,
            [
                "crates/a.rs:1: \"so many\": write the number, with its unit",
                "crates/a.rs:5: a doc comment opens with \"what\": open with a verb (\"Returns\", \"True if\") or a noun phrase",
                "crates/a.rs:5: \"gives\": write \"returns\"",
            ]
        );
    }

    #[test]
    fn a_list_of_prefixes_has_comments_and_empty_lines() {
        assert_eq!(
            clean("# Clean.\n\ncrates/wire/ # all\ndocs/\n"),
            ["crates/wire/", "docs/"]
        );
    }

    #[test]
    fn prefixes_are_from_the_root() {
        assert_eq!(from_root("."), "");
        assert_eq!(from_root("./crates/wire"), "crates/wire");
        assert_eq!(from_root("docs/"), "docs/");
    }

    #[test]
    fn files_without_rules_are_not_read() {
        assert_eq!(kind("crates/bpf/programs/a.c"), None);
        assert_eq!(kind("CHANGELOG.md"), Some(Kind::Changelog));
        assert_eq!(kind("docs/host.md"), Some(Kind::Document));
        assert_eq!(kind("benches/lib.rs"), Some(Kind::Rust));
    }
}
