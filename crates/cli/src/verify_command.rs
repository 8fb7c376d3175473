//! `rtwire verify PLAN.json`: every promise of a plan proved again.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use rtwire_plan::{Finding, Plan, plan_file, verify};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{input, output};

/// A value does not follow from the network, or the checksum is wrong.
const BROKEN: u8 = 1;
/// Wrong usage or a faulty file.
const FAULTY: u8 = 2;

/// Arguments of `rtwire verify`.
#[derive(Args)]
pub(crate) struct VerifyArguments {
    /// The plan (JSON, from `rtwire plan --output`)
    plan: PathBuf,
    /// Print JSON (its schema: `rtwire schema verify`)
    #[arg(long)]
    json: bool,
    /// Write the plan to this file with a new checksum, if all but the checksum holds
    #[arg(long, value_name = "OUT.json")]
    seal: Option<PathBuf>,
}

/// The report of `rtwire verify --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct VerifyReport {
    /// The version of this form.
    version: u32,
    /// True if everything in the plan follows from its network, and the checksum is right.
    holds: bool,
    /// The plan's fingerprint.
    plan_id: String,
    /// The plan's epoch.
    epoch: u64,
    /// The values that do not follow.
    findings: Vec<Finding>,
}

/// Verifies and prints.
pub(crate) fn run(arguments: &VerifyArguments) -> ExitCode {
    match verified(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(BROKEN),
        Err(message) => {
            eprintln!("rtwire verify: {message}");
            ExitCode::from(FAULTY)
        }
    }
}

fn verified(arguments: &VerifyArguments) -> Result<bool, String> {
    let file = arguments.plan.display().to_string();
    let bytes = input::bytes_of(&arguments.plan)?;
    let plan = plan_file::read_changed(&bytes, &file).map_err(|fault| fault.to_string())?;
    let findings = verify(&plan);
    let sound = findings.iter().all(Finding::is_checksum);
    let sealed = match &arguments.seal {
        Some(out) if sound => {
            output::replace(out, &plan_file::text(&plan_file::sealed(plan.clone())))
        }
        _ => Ok(()),
    };
    let seals = arguments.seal.is_some() && sound && sealed.is_ok();
    let holds = findings.is_empty() || seals;
    print(arguments, plan, findings, holds, sealed.is_err());
    sealed.map(|()| holds)
}

/// Prints the findings.
fn print(
    arguments: &VerifyArguments,
    plan: Plan,
    findings: Vec<Finding>,
    holds: bool,
    unwritten: bool,
) {
    let file = arguments.plan.display();
    let sound = findings.iter().all(Finding::is_checksum);
    if arguments.json {
        let report = VerifyReport {
            version: 1,
            holds,
            plan_id: plan.plan_id,
            epoch: plan.epoch,
            findings,
        };
        output::print(&plan_file::json_text(&report));
        return;
    }
    let promises = plan.streams.iter().flat_map(|stream| &stream.promises);
    let promises = promises.filter(|promise| promise.delay_ns.is_some());
    let promised = match promises.count() {
        0 => "there is no promise in it".to_owned(),
        1 => "the one promise holds".to_owned(),
        count => format!("all {count} promises hold"),
    };
    let mut text = String::new();
    for finding in &findings {
        text += &format!("{finding}\n");
    }
    text += &match (&arguments.seal, sound, findings.len()) {
        (Some(_), true, _) if unwritten => format!("{promised}; nothing was written\n"),
        (Some(out), true, _) => {
            format!(
                "{promised}; written with a new checksum to {}\n",
                out.display()
            )
        }
        (None, _, 0) => format!(
            "{promised}, and everything else in the plan follows ({})\n",
            plan.plan_id
        ),
        (None, true, _) => format!(
            "{promised}, but the file was changed: `rtwire verify {file} --seal OUT.json` writes it anew\n"
        ),
        (_, false, count) => {
            let seal = if arguments.seal.is_some() {
                "; nothing was written"
            } else {
                ""
            };
            format!("{count} finding(s): this plan does not hold{seal}\n")
        }
    };
    output::print(&text);
}

/// Returns the JSON Schema of the output of `--json`.
pub(crate) fn json_schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(VerifyReport).to_value();
    schema["title"] = serde_json::json!("rtwire verify");
    schema
}
