//! `rtwire plan FILE`: promises, needed memory, or why not.

use std::cell::Cell;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Args, ValueEnum};
use rtwire_plan::answer::Answer;
use rtwire_plan::diff::{PlanDiff, diff};
use rtwire_plan::schedule::Scheduling;
use rtwire_plan::{Analysis, Options, Plan, Refusal};

use crate::lab_command::parse_duration;
use crate::plan_schedule::{self, Ended};
use crate::plan_text::{explanation, tables};

/// The plan was refused.
const REFUSED: u8 = 1;
/// Wrong usage or a faulty file.
const FAULTY: u8 = 2;

/// The method that computes bounds.
#[derive(Clone, Copy, ValueEnum)]
enum MethodName {
    /// Contracts as straight lines, each port for itself
    Tfa,
    /// And no link brings more than its rate allows
    #[value(name = "tfa++")]
    TfaPlusPlus,
    /// And periodic streams send whole frames
    Staircase,
    /// Each way as one, with ports as in `full`: for comparison
    Sfa,
    /// And what leaves a port together; the closed form where it applies
    Full,
    /// And ports in a row as one, where that is less
    EndToEnd,
}

impl From<MethodName> for Analysis {
    fn from(name: MethodName) -> Analysis {
        match name {
            MethodName::Tfa => Analysis::Tfa,
            MethodName::TfaPlusPlus => Analysis::TfaPlusPlus,
            MethodName::Staircase => Analysis::Staircase,
            MethodName::Sfa => Analysis::Sfa,
            MethodName::Full => Analysis::Full,
            MethodName::EndToEnd => Analysis::EndToEnd,
        }
    }
}

/// The contents of comma-separated values.
#[derive(Clone, Copy, ValueEnum)]
enum CsvOf {
    /// A line for each promise
    Streams,
    /// A line for each port
    Ports,
}

/// Arguments of `rtwire plan`.
#[derive(Args)]
pub(crate) struct PlanArguments {
    /// The network description, TOML
    file: PathBuf,
    /// Print JSON (its schema: `rtwire schema plan`)
    #[arg(long)]
    json: bool,
    /// Override a value of the table `defaults`, such as shaping-interval=10ms
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_and_value)]
    set: Vec<(String, String)>,
    /// Plan what can be planned although limits are exceeded; what was ignored is listed
    #[arg(long)]
    no_admission: bool,
    /// Show where the promise of this stream comes from, hop by hop
    #[arg(long, value_name = "STREAM", conflicts_with = "json")]
    explain: Option<String>,
    /// Keep the launches and windows of this plan (from --json); only what is new finds a place
    #[arg(long, value_name = "PLAN.json")]
    keep: Option<PathBuf>,
    /// With --keep: let kept streams move where a new one finds no place otherwise
    #[arg(long, requires = "keep")]
    replan: bool,
    /// Search for a schedule for so long, such as 30s, where the usual effort finds none; Ctrl-C shows the best so far
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    budget: Option<Duration>,
    /// Show every gate list, entry by entry
    #[arg(long, conflicts_with_all = ["json", "explain"])]
    gates: bool,
    /// The method that computes bounds; all are sound, the later ones are tighter
    #[arg(long, value_enum, default_value = "end-to-end")]
    method: MethodName,
    /// Print comma-separated values
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with_all = ["json", "explain"])]
    csv: Option<CsvOf>,
    /// Print what differs from the plan of this description, or from a plan that `--json` printed
    #[arg(long, value_name = "OLD", conflicts_with_all = ["explain", "csv"])]
    diff: Option<PathBuf>,
}

pub(crate) fn key_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
        None => Err("expected KEY=VALUE, for instance shaping-interval=10ms".to_owned()),
    }
}

/// Plan and print.
pub(crate) fn run(arguments: &PlanArguments) -> ExitCode {
    let file = arguments.file.display().to_string();
    let bytes = match read_file(&arguments.file) {
        Ok(bytes) => bytes,
        Err(message) => return fail(&message),
    };
    let network = match rtwire_plan::read_bytes(bytes, &file, &arguments.set) {
        Ok(network) => network,
        Err(faults) => {
            if arguments.json && arguments.diff.is_none() {
                print_json(&Answer::from(&faults));
            }
            return fail(&faults.to_string());
        }
    };
    if let Some(name) = &arguments.explain {
        if !network.streams.iter().any(|stream| stream.name == *name) {
            let names: Vec<&str> = network
                .streams
                .iter()
                .map(|stream| stream.name.as_str())
                .collect();
            return fail(&format!(
                "--explain {name}: there is no such stream; streams are {}",
                names.join(", ")
            ));
        }
    }
    let options = Options {
        ignore_limits: arguments.no_admission,
        analysis: arguments.method.into(),
    };
    let kept = match arguments.keep.as_deref().map(plan_schedule::kept) {
        Some(Err(fault)) => return fail(&fault),
        Some(Ok(plan)) => Some(plan),
        None => None,
    };
    // Ctrl-C ends a search for places and shows what was found; without the handler it ends the program.
    let stop = if network.streams.iter().any(|stream| stream.time_triggered) {
        rtwire_sys::signal::install_stop_flag().ok()
    } else {
        None
    };
    let ended = Cell::new(None);
    let stopped = || stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
    let mut go_on = plan_schedule::progress(stopped, arguments.budget, &ended);
    let mut scheduling = Scheduling::new(&mut go_on);
    if arguments.budget.is_some() {
        scheduling.work = u32::MAX;
    }
    if let Some(kept) = &kept {
        scheduling = scheduling.keeping(kept);
        scheduling.moves = arguments.replan;
    }
    let outcome = rtwire_plan::plan_with(&network, &options, &mut scheduling);
    plan_schedule::clear();
    if let Some(old) = &arguments.diff {
        return differences(arguments, old, outcome, options);
    }
    if arguments.json {
        print_json(&Answer::from(&outcome));
    }
    match outcome {
        Ok(plan) => {
            if !arguments.json {
                print(&match (&arguments.explain, arguments.csv) {
                    (Some(name), _) => explanation(&plan, name),
                    (None, Some(CsvOf::Streams)) => plan.streams_csv(),
                    (None, Some(CsvOf::Ports)) => plan.ports_csv(),
                    (None, None) if arguments.gates => plan_schedule::lists(&plan),
                    (None, None) => tables(&network.name, &plan),
                });
            }
            ExitCode::SUCCESS
        }
        Err(refusal) => {
            if let (Some(name), Some(plan)) = (&arguments.explain, &refusal.plan) {
                print(&explanation(plan, name));
            } else if let (Some(_), Some(plan), false) =
                (ended.get(), &refusal.plan, arguments.json)
            {
                print(&tables(&network.name, plan));
            }
            match ended.get() {
                Some(Ended::Stopped) => eprintln!(
                    "rtwire plan: ended by Ctrl-C: this is the best so far; not all changes were tried"
                ),
                Some(Ended::Budget) => eprintln!(
                    "rtwire plan: the budget is used up: this is the best so far; not all changes were tried"
                ),
                None => {}
            }
            eprintln!("rtwire plan: {file}: {refusal}");
            ExitCode::from(REFUSED)
        }
    }
}

fn read_file(file: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|fault| format!("{}: {fault}", file.display()))
}

/// The plan of a description, limits or not; or one that `--json` printed.
fn other_plan(arguments: &PlanArguments, file: &Path, options: Options) -> Result<Plan, String> {
    let shown = file.display().to_string();
    let bytes = read_file(file)?;
    if bytes.trim_ascii_start().starts_with(b"{") {
        let answer: Answer = serde_json::from_slice(&bytes).map_err(|fault| {
            format!("{shown}: no plan that `rtwire plan --json` printed: {fault}")
        })?;
        return answer
            .plan
            .ok_or_else(|| format!("{shown}: there is no plan in it, its description was faulty"));
    }
    let network = rtwire_plan::read_bytes(bytes, &shown, &arguments.set)
        .map_err(|faults| faults.to_string())?;
    // What it was refused for is not the question here.
    let options = Options {
        ignore_limits: true,
        ..options
    };
    rtwire_plan::plan(&network, &options).map_err(|refusal| format!("{shown}: {refusal}"))
}

/// Prints the differences from another plan; the exit code is that of the new one.
fn differences(
    arguments: &PlanArguments,
    old: &Path,
    outcome: Result<Plan, Refusal>,
    options: Options,
) -> ExitCode {
    let before = match other_plan(arguments, old, options) {
        Ok(plan) => plan,
        Err(message) => return fail(&message),
    };
    let (plan, refusal) = match outcome {
        Ok(plan) => (Some(plan), None),
        Err(refusal) => (refusal.plan.clone().map(|plan| *plan), Some(refusal)),
    };
    if let Some(plan) = &plan {
        let found: PlanDiff = diff(&before, plan);
        if arguments.json {
            match serde_json::to_string_pretty(&found) {
                Ok(text) => print(&(text + "\n")),
                Err(fault) => return fail(&fault.to_string()),
            }
        } else {
            print(&found.print_text());
        }
    }
    match refusal {
        None => ExitCode::SUCCESS,
        Some(refusal) => {
            eprintln!("rtwire plan: {}: {refusal}", arguments.file.display());
            ExitCode::from(REFUSED)
        }
    }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("rtwire plan: {message}");
    ExitCode::from(FAULTY)
}

pub(crate) fn print(text: &str) {
    // A reader that went away (`| head`) is no fault of ours.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn print_json(answer: &Answer) {
    match serde_json::to_string_pretty(answer) {
        Ok(text) => print(&(text + "\n")),
        Err(fault) => eprintln!("rtwire plan: {fault}"),
    }
}
