//! The table of `rtwire doctor`.

use std::fmt::Write as _;

use rtwire_host::doctor::{Examination, Finding, Level, Measurement};
use rtwire_measure::units;

use crate::columns;

/// Returns the findings, followed by the measurements.
pub(crate) fn table(examination: &Examination, all: bool) -> String {
    let mut text = String::new();
    let shown: Vec<&Finding> = examination
        .findings
        .iter()
        .filter(|finding| all || finding.level != Level::Good)
        .collect();
    let mut area = None;
    for finding in shown {
        if area != Some(finding.area) {
            let _ = writeln!(text, "{}", finding.area.word());
            area = Some(finding.area);
        }
        let _ = writeln!(text, "  {:<8}{}", finding.level.word(), finding.found);
        if finding.endangers() {
            let _ = writeln!(
                text,
                "          why: {} ({})",
                finding.why,
                finding.certainty.words()
            );
        }
        if let Some(remedy) = &finding.remedy {
            let by = if remedy.safe && finding.endangers() {
                "fix"
            } else {
                "do "
            };
            let _ = writeln!(text, "          {by}: {}", remedy.command);
        }
    }
    let count = |level| {
        let findings = examination.findings.iter();
        findings.filter(|finding| finding.level == level).count()
    };
    let (good, weak, faults) = (count(Level::Good), count(Level::Weak), count(Level::Fault));
    let _ = writeln!(
        text,
        "\n{}: {faults} fault(s), {weak} weak point(s), {good} as it should be{}",
        examination.interface.as_deref().unwrap_or("this machine"),
        if all { "" } else { " (--all shows those too)" }
    );
    let safe = examination.findings.iter().any(|finding| {
        finding.endangers() && finding.remedy.as_ref().is_some_and(|remedy| remedy.safe)
    });
    if safe {
        text.push_str(
            "`--fix` applies the remedies marked `fix`; `rtwire revert` puts them back\n",
        );
    }
    measured(&mut text, examination);
    text
}

fn time(ns: i64) -> String {
    let shown = units::short_duration(ns.unsigned_abs());
    if ns < 0 { format!("-{shown}") } else { shown }
}

fn measured(text: &mut String, examination: &Examination) {
    if !examination.verified.is_empty() {
        text.push_str("\nasked of the kernel, and read back\n");
    }
    for one in &examination.verified {
        let place = format!("{} ({})", one.what, one.at);
        let _ = if one.in_force {
            writeln!(text, "  {place}: {}", one.found)
        } else {
            writeln!(text, "  {place}: asked {}, FOUND {}", one.asked, one.found)
        };
    }
    if examination.measurements.is_empty() {
        return;
    }
    text.push_str("\nmeasured, once a millisecond, beside the machine's own noise\n\n");
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    let mut rows: Vec<Vec<String>> = vec![words(&[
        "what",
        "at",
        "load",
        "samples",
        "min",
        "p50",
        "p99",
        "p99.9",
        "max",
        "over 1 ms",
        "explained",
        "lost",
        "noise p99.9",
        "max",
    ])];
    rows.extend(examination.measurements.iter().map(row));
    columns::table(text, 3, &rows);
    text.push_str(
        "\nwake-up: from the instant to the program. transmit, launch: from the instant to the cable (on an interface: \
         to its driver).\nreceive: from the kernel's stamp to the program. explained: samples over 1 ms that stalls of \
         the machine explain. noise: the wake-up delay of a thread above all others, on the worst core.\n",
    );
}

fn row(one: &Measurement) -> Vec<String> {
    let time = |ns| match one.samples {
        0 => "-".to_owned(),
        _ => time(ns),
    };
    let noise = |ns: Option<u64>| ns.map_or("-".to_owned(), units::short_duration);
    vec![
        one.what.clone(),
        one.at.clone(),
        one.load.clone(),
        units::grouped(one.samples),
        time(one.min_ns),
        time(one.p50_ns),
        time(one.p99_ns),
        time(one.p999_ns),
        time(one.max_ns),
        units::grouped(one.stalled.count),
        units::grouped(one.stalled.explained),
        one.lost.map_or("-".to_owned(), units::grouped),
        noise(one.noise.map(|noise| noise.p999_ns)),
        noise(one.noise.map(|noise| noise.max_ns)),
    ]
}
