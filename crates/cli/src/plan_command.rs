//! `rtwire plan FILE`: promises and needed memory, or the reasons of a refusal.

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
use rtwire_plan::{Analysis, Network, Options, Plan, Refusal, plan_file};

use crate::arguments::{NETWORK_HELP, key_and_value, parse_duration};
use crate::certificate;
use crate::input::{self, Input, InputFault};
use crate::output;
use crate::plan_schedule::{self, Ended};
use crate::plan_synthesis::{SynthesisArguments, Synthesized, summary};
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
    /// Each route as one, with ports as in `full`: for comparison
    Sfa,
    /// And what leaves a port together; the closed form where it applies
    Full,
    /// And a stream's own frames as sent, and ports in a row as one, where that is less
    Rows,
    /// And each frame as the last on its link
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
            MethodName::Rows => Analysis::Rows,
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
    /// A line for each redundant stream: promise, history, timer and buffer behind both copies
    Recoveries,
}

/// Arguments of `rtwire plan`.
#[derive(Args)]
pub(crate) struct PlanArguments {
    #[arg(help = NETWORK_HELP)]
    file: PathBuf,
    /// Write the plan to this file; every other command takes it in place of the description
    #[arg(short, long, value_name = "PLAN.json", conflicts_with = "diff")]
    output: Option<PathBuf>,
    /// Print JSON (its schema: `rtwire schema plan`)
    #[arg(long)]
    json: bool,
    /// Write into the plan the facts on which each promise rests; `rtwire verify` has them checked by themselves, and plans again
    #[arg(long, conflicts_with = "diff")]
    certificate: bool,
    /// With --certificate: search this many simulations for schedules that attain the promises
    #[arg(long, value_name = "N", requires = "certificate")]
    search: Option<u64>,
    /// Override a value of the table `defaults`, such as shaping-interval=10ms
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_and_value)]
    set: Vec<(String, String)>,
    /// Plan even if limits are exceeded, and list the ignored ones
    #[arg(long)]
    no_admission: bool,
    /// Show the terms of this stream's promise, hop by hop
    #[arg(long, value_name = "STREAM", conflicts_with = "json")]
    explain: Option<String>,
    /// Keep the identities, launches and windows of this plan (from --output); only new streams are placed
    #[arg(long, value_name = "PLAN.json")]
    keep: Option<PathBuf>,
    /// With --keep: move kept streams if a new one finds no place otherwise
    #[arg(long, requires = "keep")]
    replan: bool,
    /// Search this long for a schedule, such as 30s, where the usual effort finds none; Ctrl-C shows the best so far
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    budget: Option<Duration>,
    #[command(flatten)]
    synthesis: SynthesisArguments,
    /// Show every gate list, entry by entry
    #[arg(long, conflicts_with_all = ["json", "explain"])]
    gates: bool,
    #[arg(
        long,
        value_enum,
        help = "How bounds are found; all are sound, the later ones are tighter [default: end-to-end]"
    )]
    method: Option<MethodName>,
    /// Print comma-separated values
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with_all = ["json", "explain"])]
    csv: Option<CsvOf>,
    /// Print the differences from this plan, or from the plan of this description
    #[arg(long, value_name = "OLD", conflicts_with_all = ["explain", "csv"])]
    diff: Option<PathBuf>,
}

/// Plans and prints.
pub(crate) fn run(arguments: &PlanArguments) -> ExitCode {
    let network = match input::read(&arguments.file, &arguments.set) {
        Ok(Input::Description(network)) => *network,
        Ok(Input::Plan(plan)) => return show(arguments, *plan),
        Err(fault) => {
            let answer = match &fault {
                InputFault::Description(faults) => Some(Answer::from(faults)),
                InputFault::Plan(fault) => Some(Answer::from(fault)),
                InputFault::Other(_) => None,
            };
            if let (Some(answer), true, None) = (answer, arguments.json, &arguments.diff) {
                output::print(&plan_file::json_text(&answer));
            }
            return fail(&fault.to_string());
        }
    };
    if let Err(message) = known_stream(arguments, &network) {
        return fail(&message);
    }
    let options = Options {
        ignore_limits: arguments.no_admission,
        analysis: arguments
            .method
            .map_or_else(Analysis::default, Analysis::from),
    };
    if arguments.synthesis.is_wanted() {
        return synthesis(arguments, &network, options);
    }
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
    match outcome {
        Ok(plan) => good(arguments, plan, None),
        Err(refusal) => {
            if let (Some(name), Some(plan)) = (&arguments.explain, &refusal.plan) {
                output::print(&explanation(plan, name));
            } else if let (Some(_), Some(plan), false) =
                (ended.get(), &refusal.plan, arguments.json)
            {
                output::print(&tables(&network.name, plan));
            }
            tell_end(ended.get());
            let file = arguments.file.display();
            eprintln!("rtwire plan: {file}: {refusal}");
            if arguments.json {
                let answer = Answer::from(&Err(refusal));
                output::print(&plan_file::json_text(&answer));
            }
            ExitCode::from(REFUSED)
        }
    }
}

/// Says why a search ended early.
fn tell_end(ended: Option<Ended>) {
    match ended {
        Some(Ended::Stopped) => eprintln!(
            "rtwire plan: ended by Ctrl-C: this is the best so far; not all changes were tried"
        ),
        Some(Ended::Budget) => eprintln!(
            "rtwire plan: the budget is used up: this is the best so far; not all changes were tried"
        ),
        None => {}
    }
}

/// Synthesizes, and shows the plan of the changed description, or the refusal of the try that came nearest.
fn synthesis(arguments: &PlanArguments, network: &Network, options: Options) -> ExitCode {
    let input = (arguments.file.as_path(), arguments.set.as_slice());
    let found = arguments
        .synthesis
        .run(input, network, options, arguments.budget);
    let found = match found {
        Ok(found) => found,
        Err(message) => return fail(&message),
    };
    tell_end(found.ended);
    let refusal = match &found.outcome {
        Ok(plan) => {
            let code = good(arguments, plan.clone(), Some(&found));
            if let (true, Some(path)) = (code == ExitCode::SUCCESS, arguments.synthesis.written()) {
                if let Err(message) = found.write(path) {
                    return fail(&message);
                }
            }
            return code;
        }
        Err(refusal) => refusal,
    };
    let file = arguments.file.display();
    eprint!("rtwire plan: {file}: {}", summary(&found.report));
    if found.report.changes.is_empty() {
        eprintln!("rtwire plan: {file}: {refusal}");
    } else {
        eprintln!(
            "rtwire plan: {file}: with these changes, the nearest that was found, still {refusal}"
        );
    }
    if arguments.json {
        let mut answer = Answer::from(&found.outcome);
        answer.synthesis = Some(found.report);
        output::print(&plan_file::json_text(&answer));
    }
    ExitCode::from(REFUSED)
}

/// Refuses a stream to explain that does not exist.
fn known_stream(arguments: &PlanArguments, network: &Network) -> Result<(), String> {
    let names = || network.streams.iter().map(|stream| stream.name.as_str());
    match &arguments.explain {
        Some(name) if !names().any(|known| known == name) => Err(format!(
            "--explain {name}: there is no such stream; streams are {}",
            names().collect::<Vec<_>>().join(", ")
        )),
        _ => Ok(()),
    }
}

/// Writes a plan that holds to its file and to standard output, with what was changed for it.
fn good(arguments: &PlanArguments, plan: Plan, found: Option<&Synthesized>) -> ExitCode {
    let certified = || certificate::certified(&plan, arguments.search);
    let plan = match arguments.certificate.then(certified) {
        Some(Ok((plan, verdict))) => {
            eprintln!(
                "rtwire plan: certificate: {} of {} promises proved, {} exact",
                verdict.proved(),
                verdict.promises.len(),
                verdict.exact()
            );
            plan
        }
        Some(Err(message)) => {
            eprintln!("rtwire plan: --certificate: {message}");
            return ExitCode::from(REFUSED);
        }
        None => plan,
    };
    if let Some(path) = &arguments.output {
        let same = |path: &Path| path.canonicalize().ok();
        if same(path).is_some() && same(path) == same(&arguments.file) {
            return fail(&format!(
                "--output: `{}` is what is planned; choose another name",
                path.display()
            ));
        }
    }
    let changes = found.map(|found| summary(&found.report));
    let plain = !arguments.json && !arguments.gates;
    let plain = plain && arguments.csv.is_none() && arguments.explain.is_none();
    if let (Some(changes), false, false) = (&changes, plain, arguments.json) {
        eprint!("{changes}");
    }
    let text = match (&arguments.explain, arguments.csv) {
        _ if arguments.json => plan_file::json_text(&Answer {
            synthesis: found.map(|found| found.report.clone()),
            ..Answer::from(plan.clone())
        }),
        (Some(name), _) => explanation(&plan, name),
        (None, Some(CsvOf::Streams)) => plan.streams_csv(),
        (None, Some(CsvOf::Ports)) => plan.ports_csv(),
        (None, Some(CsvOf::Recoveries)) => plan.recoveries_csv(),
        (None, None) if arguments.gates => plan_schedule::lists(&plan),
        (None, None) => {
            let changes = changes.map(|changes| format!("\n{changes}"));
            tables(&plan.network.name, &plan) + &changes.unwrap_or_default()
        }
    };
    // The tables first: a file that cannot be written does not cost them.
    output::print(&text);
    drop(text);
    if let Some(path) = &arguments.output {
        let written = output::replace_with(path, |file| {
            let mut file = std::io::BufWriter::new(file);
            plan_file::write(&plan, &mut file)?;
            file.flush()
        });
        if let Err(message) = written {
            return fail(&format!("--output: {message}"));
        }
    }
    ExitCode::SUCCESS
}

/// Shows a plan that exists already; plans nothing anew.
fn show(arguments: &PlanArguments, plan: Plan) -> ExitCode {
    let anew = [
        ("--method", arguments.method.is_some()),
        ("--keep", arguments.keep.is_some()),
        ("--budget", arguments.budget.is_some()),
        ("--no-admission", arguments.no_admission),
        ("--synthesize", arguments.synthesis.is_wanted()),
    ];
    if let Some((option, _)) = anew.iter().find(|(_, given)| *given) {
        return fail(&format!(
            "{}: {option} is for planning, but this is a plan already; give its description",
            arguments.file.display()
        ));
    }
    if let Err(message) = known_stream(arguments, &plan.network) {
        return fail(&message);
    }
    match &arguments.diff {
        Some(old) => differences(arguments, old, Ok(plan), Options::default()),
        None => good(arguments, plan, None),
    }
}

/// Returns the plan in a file, or that of a description, ignoring limits.
fn other_plan(arguments: &PlanArguments, file: &Path, options: Options) -> Result<Plan, String> {
    let shown = file.display().to_string();
    let network = match input::read(file, &[]) {
        Ok(Input::Plan(plan)) => return Ok(*plan),
        Ok(Input::Description(network)) if arguments.set.is_empty() => network,
        _ => match input::read(file, &arguments.set) {
            Ok(Input::Description(network)) => network,
            Ok(Input::Plan(plan)) => return Ok(*plan),
            Err(fault) => return Err(fault.to_string()),
        },
    };
    // The reasons of a refusal do not matter here.
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
                Ok(text) => output::print(&(text + "\n")),
                Err(fault) => return fail(&fault.to_string()),
            }
        } else {
            output::print(&found.print_text());
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
