//! `rtwire judge`: one verdict on a real network, from the evidence of all its hosts.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use rtwire_measure::evidence::{Opened, Source};
use rtwire_measure::verdict::Rule;
use rtwire_session::judge::{EvidenceFile, JudgeOptions, judge};

use crate::arguments::{nanoseconds, parse_duration_or_none};
use crate::input::{self, Input};
use crate::output;

/// Arguments of `rtwire judge`.
#[derive(Args)]
#[command(after_help = "\
On each host:   rtwire run plan.json --host A --interface eth0 --duration 60s --evidence A.evidence
Then, anywhere: rtwire judge plan.json A.evidence B.evidence --report network.html

Exit code: 0 kept, 1 broken, 2 a file that cannot be judged (changed, of another plan, twice), 4 inconclusive.
Clocks of different machines must agree: by ptp4l, or as stated with `rtwire run --clock-uncertainty`.")]
pub(crate) struct JudgeArguments {
    /// The plan that the hosts ran (JSON, from `rtwire plan --output`), or its description
    plan: PathBuf,
    /// The evidence of each host, from `rtwire run --evidence`; a FILE.part of a run that was cut off, too
    #[arg(required = true, value_name = "EVIDENCE")]
    evidence: Vec<PathBuf>,
    /// Write the report to this file (HTML)
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Print the report's data as JSON instead of tables (its schema: `rtwire schema report`)
    #[arg(long)]
    json: bool,
    /// The time at the beginning and at the end for which the hosts need not have run together; it is named and not judged.
    /// A longer one makes the verdict inconclusive
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration_or_none)]
    allow_missing: Duration,
}

/// Runs `rtwire judge`.
pub(crate) fn run(arguments: &JudgeArguments) -> ExitCode {
    match judged(arguments) {
        Ok(code) => ExitCode::from(code),
        Err((code, message)) => {
            eprintln!("error: {message}");
            ExitCode::from(code)
        }
    }
}

fn judged(arguments: &JudgeArguments) -> Result<u8, (u8, String)> {
    let faulty = |message: String| (2, message);
    let plan = match input::read(&arguments.plan, &[]) {
        Ok(Input::Plan(plan)) => *plan,
        Ok(Input::Description(_)) => input::plan_of(&arguments.plan, &[], true)?,
        Err(fault) => return Err(faulty(fault.to_string())),
    };
    let mut files = Vec::new();
    for path in &arguments.evidence {
        let name = path.display().to_string();
        let source = opened(path).map_err(faulty)?;
        let evidence = Opened::open(source).map_err(|error| faulty(format!("{name}: {error}")))?;
        files.push(EvidenceFile { name, evidence });
    }
    let options = JudgeOptions {
        allow_missing_ns: nanoseconds(arguments.allow_missing),
        rule: Rule::default(),
        command: std::env::args().collect::<Vec<_>>().join(" "),
        rtwire_version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let report = judge(&plan, &files, &options).map_err(|error| faulty(error.to_string()))?;
    let text = if arguments.json {
        let json = report.to_json();
        json.map_err(|error| faulty(format!("the report has no JSON form: {error}")))? + "\n"
    } else {
        report.print_text()
    };
    // Tables first: a report file that cannot be written must not cost the verdict.
    output::print(&text);
    if let Some(path) = &arguments.report {
        output::replace(path, &report.to_html())
            .map_err(|message| (3, format!("--report: {message}")))?;
    }
    Ok(report.verdict.exit_code())
}

/// Opens a file of evidence. What is no file, for instance a pipe, cannot be read twice: it is taken into memory.
fn opened(path: &Path) -> Result<Box<dyn Source>, String> {
    let cannot = |error| format!("cannot read `{}`: {error}", path.display());
    let file = File::open(path).map_err(cannot)?;
    if file.metadata().map_err(cannot)?.is_file() {
        return Ok(Box::new(file));
    }
    Ok(Box::new(input::bytes_of(path)?))
}
