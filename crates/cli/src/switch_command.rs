//! `rtwire switch`: a switch's share of a plan over NETCONF, pushed or compared.

mod line;
mod party;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use rtwire_netconf::{Client, Difference, Job, Outcome, Report, RpcError, Settings, data};
use serde_json::{Value, json};

use crate::arguments::{NETWORK_HELP, key_and_value, nanoseconds, parse_duration};
use crate::{export_command, output};

use line::{Command, Session, Turn};

pub(crate) use party::{AtSwitch, NamedSwitches};

/// The switch differs from the plan, or refused it.
const REFUSED: u8 = 1;
/// Wrong usage or a faulty file.
const FAULTY: u8 = 2;
/// The switch cannot be reached, or lacks something.
const LACKING: u8 = 3;

/// A message and the exit code that goes with it.
type Failure = (u8, String);

/// Arguments of `rtwire switch`.
#[derive(Args)]
pub(crate) struct SwitchArguments {
    #[command(subcommand)]
    command: SwitchCommand,
}

#[derive(Subcommand)]
enum SwitchCommand {
    /// Name each difference between a plan and a switch, and change nothing
    Check(CheckArguments),
    /// Bring a switch to its share of a plan: all or nothing, read back, and undone by the switch unless that is as planned
    Push(PushArguments),
}

/// The switch, its share, and the way to it.
#[derive(Args)]
struct ReachArguments {
    /// The switch, as the plan names it
    switch: String,
    #[arg(long, value_name = "FILE", help = NETWORK_HELP)]
    plan: PathBuf,
    /// The command whose standard input and output are a NETCONF session with the switch; otherwise `ssh -s SWITCH netconf`
    #[arg(long, value_name = "COMMAND")]
    via: Option<String>,
    /// The name of a port at the switch, as in `rtwire export`
    #[arg(long = "port", value_name = "SWITCH>NEIGHBOUR=NAME", value_parser = key_and_value)]
    ports: Vec<(String, String)>,
    /// The switch's own address; otherwise it keeps the one that it has
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
    /// Leave out the data of modules that the switch does not have, and name them
    #[arg(long)]
    limited: bool,
    /// The longest time for a reply
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    reply_within: Duration,
}

/// Arguments of `rtwire switch check`.
#[derive(Args)]
struct CheckArguments {
    #[command(flatten)]
    reach: ReachArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `rtwire switch push`.
#[derive(Args)]
struct PushArguments {
    #[command(flatten)]
    reach: ReachArguments,
    /// The time after which the switch puts its settings back, unless they were read back as planned by then
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    confirm_within: Duration,
    /// Make interfaces that the switch does not have
    #[arg(long)]
    new_interfaces: bool,
    /// Replace the settings that a restart begins with, too, where the switch keeps them apart
    #[arg(long)]
    keep: bool,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Checks or pushes.
pub(crate) fn run(arguments: &SwitchArguments) -> ExitCode {
    let (verb, done) = match &arguments.command {
        SwitchCommand::Check(arguments) => ("check", check(arguments)),
        SwitchCommand::Push(arguments) => ("push", push(arguments)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, message)) => {
            eprintln!("rtwire switch {verb}: {message}");
            ExitCode::from(code)
        }
    }
}

fn check(arguments: &CheckArguments) -> Result<(), Failure> {
    let switch = &arguments.reach.switch;
    let report = job(&arguments.reach, Job::Check, Settings::default())?;
    let differences = match &report.outcome {
        Outcome::Same => &[][..],
        Outcome::Differs(differences) => differences,
        other => return Err(failed(switch, other)),
    };
    if arguments.json {
        output::print(&format!("{:#}\n", as_json(switch, differences, &report)));
    } else if differences.is_empty() {
        output::line(&format!("switch {switch}: as planned"));
    } else {
        print(switch, differences);
    }
    match differences.len() {
        0 => Ok(()),
        number => Err((
            REFUSED,
            format!("switch {switch}: {} from the plan", counted(number)),
        )),
    }
}

fn push(arguments: &PushArguments) -> Result<(), Failure> {
    let switch = &arguments.reach.switch;
    let settings = Settings {
        confirm_within_s: seconds(arguments.confirm_within),
        new_interfaces: arguments.new_interfaces,
        keep_for_restart: arguments.keep,
        ..Settings::default()
    };
    let kind = match arguments.dry_run {
        true => Job::Show,
        false => Job::Push,
    };
    let report = job(&arguments.reach, kind, settings)?;
    print(switch, differences_of(&report.outcome));
    let words = success(&report.outcome).ok_or_else(|| failed(switch, &report.outcome))?;
    output::line(&format!("switch {switch}: {words}"));
    Ok(())
}

/// Returns the time in whole seconds, at least 1.
fn seconds(time: Duration) -> u32 {
    let seconds = nanoseconds(time).div_ceil(1_000_000_000).max(1);
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

/// Holds a session with the switch. What is beside its outcome goes to standard error.
fn job(arguments: &ReachArguments, job: Job, settings: Settings) -> Result<Report, Failure> {
    let faulty = |message: String| (FAULTY, message);
    let switch = &arguments.switch;
    let plan = export_command::plan_for_switches(&arguments.plan, &[])
        .map_err(|(message, code)| (code, message))?;
    if plan.network.switch(switch).is_none() {
        let names: Vec<&str> = plan
            .network
            .switches
            .iter()
            .map(|one| one.name.as_str())
            .collect();
        return Err(faulty(format!(
            "{}: there is no switch \"{switch}\"; its switches are {}",
            arguments.plan.display(),
            names.join(", ")
        )));
    }
    let address = arguments.address.iter();
    let addresses: Vec<(String, String)> = address
        .map(|address| (switch.clone(), address.clone()))
        .collect();
    let (planned, left_out) =
        export_command::switch_data(&plan, switch, &arguments.ports, &addresses).map_err(faulty)?;
    for what in left_out {
        eprintln!("switch {switch}: {what}");
    }
    let planned = data::elements(&planned).map_err(|error| faulty(error.to_string()))?;
    let settings = Settings {
        limited: arguments.limited,
        address_stated: arguments.address.is_some(),
        ..settings
    };
    let client = Client::new(job, planned, settings);
    let command = match &arguments.via {
        Some(command) => Command::Shell(command),
        None => Command::Ssh(switch),
    };
    let report = held(client, &command, arguments.reply_within)
        .map_err(|message| (LACKING, format!("switch {switch}: {message}")))?;
    for module in &report.left_out {
        eprintln!("switch {switch}: without the data of {module}, which it does not have");
    }
    for note in &report.notes {
        eprintln!("switch {switch}: {note}");
    }
    Ok(report)
}

/// Holds a session to its end: settings that are as planned stay.
fn held(client: Client, command: &Command<'_>, within: Duration) -> Result<Report, String> {
    let mut session = Session::open(client, command, within)?;
    let mut turn = session.begin()?;
    loop {
        match turn {
            Turn::Decide => turn = session.confirm()?,
            Turn::Done(report) => return Ok(*report),
        }
    }
}

fn counted(number: usize) -> String {
    match number {
        1 => "1 difference".to_owned(),
        _ => format!("{number} differences"),
    }
}

fn print(switch: &str, differences: &[Difference]) {
    let lines = differences.iter().map(|one| format!("{switch}: {one}\n"));
    output::print(&lines.collect::<String>());
}

fn as_json(switch: &str, differences: &[Difference], report: &Report) -> Value {
    let all: Vec<Value> = differences
        .iter()
        .map(|one| json!({ "place": one.place, "planned": one.planned, "found": one.found }))
        .collect();
    json!({ "switch": switch, "as_planned": all.is_empty(), "differences": all, "left_out": report.left_out })
}

/// Returns the message of an outcome that is no success.
fn failed(switch: &str, outcome: &Outcome) -> Failure {
    let (code, words) = failure(outcome);
    (code, format!("switch {switch}: {words}"))
}

/// Returns the differences that are a part of an outcome.
fn differences_of(outcome: &Outcome) -> &[Difference] {
    match outcome {
        Outcome::Differs(all)
        | Outcome::Pushed { changes: all, .. }
        | Outcome::NotTaken {
            differences: all, ..
        } => all,
        _ => &[],
    }
}

/// Returns the words for a push that has done what it should.
fn success(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Same => Some("as planned, nothing changed".to_owned()),
        Outcome::Differs(all) => Some(format!("{} would be mended", counted(all.len()))),
        Outcome::Pushed { changes, confirmed } => {
            let way = match confirmed {
                true => "read back as planned, confirmed",
                false => "read back as planned; it has no commit that waits for a confirmation",
            };
            Some(format!("{} mended, {way}", counted(changes.len())))
        }
        _ => None,
    }
}

/// Returns the exit code and the words for an outcome that is no success.
fn failure(outcome: &Outcome) -> Failure {
    let lacking = |words: String| (LACKING, words);
    match outcome {
        Outcome::NoModules(modules) => lacking(format!(
            "it does not have the modules {}; with --limited it gets the rest",
            modules.join(", ")
        )),
        Outcome::NoCandidate => lacking(
            "it has no candidate settings, so that a push could be half applied; load the data of `rtwire export --yang` by hand, \
             `rtwire switch check` compares them"
                .to_owned(),
        ),
        Outcome::NoConfirmation => lacking(
            "it has no commit that waits for a confirmation, so that it could keep a plan that others have put back; \
             bring it to its share by `rtwire switch push`"
                .to_owned(),
        ),
        Outcome::NoInterfaces { missing, known } => {
            let known = match known.is_empty() {
                true => "none".to_owned(),
                false => known.join(", "),
            };
            lacking(format!(
                "it has no interface {}; it has {known}. State the names of its ports with --port, or make them with --new-interfaces",
                missing.join(", "),
            ))
        }
        Outcome::Refused {
            request,
            errors,
            left,
        } => {
            let reasons: Vec<String> = errors.iter().map(RpcError::to_string).collect();
            let reasons = match reasons.is_empty() {
                true => "it gives no reason".to_owned(),
                false => reasons.join("; "),
            };
            (REFUSED, format!("it refused {request}: {reasons}; {left}"))
        }
        Outcome::NotTaken { differences, left } => {
            let number = counted(differences.len());
            let words = format!("it shows {number} from what it was sent; {left}");
            (REFUSED, words)
        }
        Outcome::Cancelled { left } => (REFUSED, format!("cancelled; {left}")),
        _ => (REFUSED, "the session ended without a result".to_owned()),
    }
}
