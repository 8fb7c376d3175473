//! `rtwire plan FILE`: promises, needed memory, or why not.

use std::cell::Cell;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Args, ValueEnum};
use rtwire_plan::answer::Answer;
use rtwire_plan::diff::{PlanDiff, diff};
use rtwire_plan::refusal::show_ns;
use rtwire_plan::schedule::Scheduling;
use rtwire_plan::{Analysis, NodeKind, Options, Plan, Promise, Refusal, TermKind};

use crate::lab_command::parse_duration;
use crate::plan_schedule::{self, Ended};

/// The plan was refused.
const REFUSED: u8 = 1;
/// Wrong usage or a faulty file.
const FAULTY: u8 = 2;

/// How bounds are found.
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

/// What is printed as comma-separated values.
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
    /// How bounds are found; all are sound, the later ones are tighter
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

/// What differs from another plan; the exit code is that of the new one.
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

/// Columns as wide as their widest entry; the first `left` are text, the others numbers.
pub(crate) fn table(text: &mut String, left: usize, rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[column] - cell.chars().count());
            let (before, behind) = if column < left {
                ("", pad.as_str())
            } else {
                (pad.as_str(), "")
            };
            let _ = write!(line, "  {before}{cell}{behind}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

fn cells(row: &[&str]) -> Vec<String> {
    row.iter().map(|cell| (*cell).to_owned()).collect()
}

fn shown(ns: Option<u64>) -> String {
    ns.map_or_else(|| "none".to_owned(), show_ns)
}

fn total(promise: &Promise, kinds: &[TermKind]) -> String {
    if promise.delay_ns.is_none() {
        return "-".to_owned();
    }
    show_ns(
        promise
            .terms
            .iter()
            .filter(|term| kinds.contains(&term.what))
            .map(|term| term.ns)
            .sum(),
    )
}

fn tables(name: &str, plan: &Plan) -> String {
    let mut text = format!(
        "{name}: guaranteed worst case, from the talker's queue to the last bit at the listener\n\n"
    );
    let mut rows = vec![cells(&[
        "stream",
        "listener",
        "promise",
        "deadline",
        "queueing",
        "blocking",
        "transmission",
        "latency",
        "cable",
    ])];
    let scheduled = plan.streams.iter().any(|stream| stream.launch.is_some());
    if scheduled {
        rows[0].push("windows, clocks".to_owned());
    }
    for stream in &plan.streams {
        for promise in &stream.promises {
            rows.push(vec![
                stream.name.clone(),
                promise.listener.clone(),
                shown(promise.delay_ns),
                promise.deadline_ns.map_or_else(|| "-".to_owned(), show_ns),
                total(promise, &[TermKind::Queueing]),
                total(promise, &[TermKind::Blocking]),
                total(promise, &[TermKind::Transmission]),
                total(promise, &[TermKind::Latency]),
                total(promise, &[TermKind::Cable]),
            ]);
            if let (true, Some(row)) = (scheduled, rows.last_mut()) {
                row.push(total(promise, &[TermKind::Window, TermKind::Clock]));
            }
        }
    }
    table(&mut text, 2, &rows);
    text.push('\n');
    let mut rows = vec![cells(&[
        "port",
        "needs",
        "buffer",
        "frames",
        "of",
        "utilization",
    ])];
    for port in plan
        .ports
        .iter()
        .filter(|port| port.utilization_permille > 0 || !port.classes.is_empty())
    {
        let buffer = match (port.node_kind, port.buffer_bytes) {
            (NodeKind::Switch, Some(bytes)) if port.shared => format!("{bytes} B shared"),
            (NodeKind::Switch, Some(bytes)) => format!("{bytes} B"),
            _ => "-".to_owned(),
        };
        rows.push(vec![
            format!("{}>{}", port.node, port.port),
            port.backlog_bytes
                .map_or_else(|| "none".to_owned(), |bytes| format!("{bytes} B")),
            buffer,
            port.backlog_frames
                .map_or_else(|| "-".to_owned(), |frames| frames.to_string()),
            port.buffer_frames
                .map_or_else(|| "-".to_owned(), |frames| frames.to_string()),
            format!(
                "{}.{} %",
                port.utilization_permille / 10,
                port.utilization_permille % 10
            ),
        ]);
    }
    table(&mut text, 1, &rows);
    if let Some(routes) = &plan.routes {
        let _ = writeln!(text, "\nroutes, {routes}");
    }
    plan_schedule::summary(&mut text, plan);
    for warning in &plan.warnings {
        let _ = writeln!(text, "\nwarning: {warning}");
    }
    text
}

fn explanation(plan: &Plan, name: &str) -> String {
    let mut text = String::new();
    for stream in plan.streams.iter().filter(|stream| stream.name == name) {
        let shaper = &stream.shaper;
        let rate = if shaper.rate_den == "1" {
            shaper.rate_num.clone()
        } else {
            format!("{}/{}", shaper.rate_num, shaper.rate_den)
        };
        let _ = writeln!(
            text,
            "{name}: contract on the wire: burst {} bit, rate {rate} bit/s (interval {}, tick error {})",
            shaper.burst_bits,
            show_ns(shaper.interval_ns),
            show_ns(shaper.tick_error_ns)
        );
        plan_schedule::launch(&mut text, stream);
        for promise in &stream.promises {
            let _ = writeln!(
                text,
                "\nto {} by {}",
                promise.listener,
                promise.route.join(" > ")
            );
            let mut rows: Vec<Vec<String>> = promise
                .terms
                .iter()
                .map(|term| {
                    vec![
                        term.at.clone(),
                        term.what.word().to_owned(),
                        show_ns(term.ns),
                    ]
                })
                .collect();
            rows.push(vec![
                "promise".to_owned(),
                String::new(),
                shown(promise.delay_ns),
            ]);
            table(&mut text, 2, &rows);
            for pair in promise.route.windows(2) {
                let Some(port) = plan
                    .ports
                    .iter()
                    .find(|port| port.node == pair[0] && port.port == pair[1])
                else {
                    continue;
                };
                for class in port
                    .classes
                    .iter()
                    .filter(|class| class.flows.iter().any(|flow| flow == name))
                {
                    let others: Vec<&str> = class
                        .flows
                        .iter()
                        .map(String::as_str)
                        .filter(|flow| *flow != name)
                        .collect();
                    let others = if others.is_empty() {
                        "nobody".to_owned()
                    } else {
                        others.join(", ")
                    };
                    let _ = writeln!(
                        text,
                        "  at {}>{} it shares its queue with {others}",
                        port.node, port.port
                    );
                }
            }
        }
    }
    text
}
