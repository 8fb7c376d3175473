//! `rtwire simulate FILE`: the plan, simulated frame by frame in virtual time.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use clap::{Args, ValueEnum};
use rtwire_plan::show::{grouped, show_ns};
use rtwire_plan::{Network, Plan};
use rtwire_sim::{
    Model, Outcome, PatternChoice, Report, Scenario, SearchOptions, Simulator, search,
};

use crate::arguments::{NETWORK_HELP, key_and_value, nanoseconds, parse_duration};
use crate::input::plan_of;
use crate::{interrupted, output};

/// A promise was exceeded, a frame was lost, or the plan was refused.
const BROKEN: u8 = 1;
/// Wrong usage or a faulty file.
const FAULTY: u8 = 2;
/// The longest simulation, ns: the end of the simulated clock, less the room that sums need.
const LONGEST_NS: u64 = 100 * 86_400 * 1_000_000_000;

/// The pattern of sources.
#[derive(Clone, Copy, ValueEnum)]
enum PatternName {
    /// Whole bursts, all together, as early as contracts allow; every port as late as it may be
    Greedy,
    /// Evenly, with random phases and tick errors
    Periodic,
    /// Random bursts and pauses
    Random,
    /// As the real shaper does: at ticks, with random lateness
    Shaped,
    /// For each source one of the four at random
    Mixed,
}

impl From<PatternName> for PatternChoice {
    fn from(name: PatternName) -> PatternChoice {
        match name {
            PatternName::Greedy => PatternChoice::Greedy,
            PatternName::Periodic => PatternChoice::Periodic,
            PatternName::Random => PatternChoice::Random,
            PatternName::Shaped => PatternChoice::Shaped,
            PatternName::Mixed => PatternChoice::Mixed,
        }
    }
}

/// Arguments of `rtwire simulate`.
#[derive(Args)]
pub(crate) struct SimulateArguments {
    #[arg(help = NETWORK_HELP)]
    file: PathBuf,
    /// The seed of random numbers; the same seed returns the same output
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// The time that sources send
    #[arg(long, default_value = "1s", value_parser = duration_ps)]
    duration: u64,
    /// The pattern of sources, always within their contracts
    #[arg(long, value_enum, default_value = "mixed")]
    pattern: PatternName,
    /// Then try to break each promise with this number of short simulations
    #[arg(long, value_name = "N")]
    search: Option<u64>,
    /// The largest rate error of each host's clock, parts per million, fast or slow (fast ones exceed their contracts)
    #[arg(long, value_name = "PPM", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    drift: u32,
    /// Print JSON (its schema: `rtwire schema simulation`)
    #[arg(long)]
    json: bool,
    /// Override a value of the table `defaults`, such as shaping-interval=10ms
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_and_value)]
    set: Vec<(String, String)>,
    /// Simulate even if the network is refused, and compare with the promises that there are
    #[arg(long)]
    no_admission: bool,
}

fn duration_ps(text: &str) -> Result<u64, String> {
    let ns = nanoseconds(parse_duration(text)?);
    if ns > LONGEST_NS {
        return Err("from 1 ns to 100 days".to_owned());
    }
    Ok(ns * 1_000)
}

/// Plans, simulates, compares and prints.
pub(crate) fn run(arguments: &SimulateArguments) -> ExitCode {
    let file = arguments.file.display().to_string();
    let plan = match plan_of(&arguments.file, &arguments.set, arguments.no_admission) {
        Ok(plan) => plan,
        Err((code, message)) => {
            let hint = match code {
                BROKEN => "\n--no-admission simulates it all the same",
                _ => "",
            };
            eprintln!("rtwire simulate: {message}{hint}");
            return ExitCode::from(code);
        }
    };
    match simulate(arguments, &plan.network, &plan) {
        Ok((report, cut)) => {
            output::print(&if arguments.json {
                match serde_json::to_string_pretty(&report) {
                    Ok(text) => text + "\n",
                    Err(fault) => return fail(&fault.to_string()),
                }
            } else {
                tables(&report)
            });
            let own = match report.outcome {
                Outcome::Kept => 0,
                Outcome::Broken => BROKEN,
            };
            ExitCode::from(interrupted::code(own, cut))
        }
        Err(fault) => fail(&format!("{file}: {fault}")),
    }
}

/// Returns the report, and true if the search was interrupted.
fn simulate(
    arguments: &SimulateArguments,
    network: &Network,
    plan: &Plan,
) -> Result<(Report, bool), rtwire_sim::SimulationError> {
    let model = Model::with_plan(network, plan)?;
    let choice = PatternChoice::from(arguments.pattern);
    let scenario = Scenario::new(
        &model,
        choice,
        arguments.seed,
        arguments.duration,
        arguments.drift,
    );
    let mut simulator = Simulator::new(&model);
    simulator.run(&scenario);
    let mut report = Report::new(&model, &simulator, &scenario, choice.word(), plan);
    let mut cut = false;
    if let Some(simulations) = arguments.search {
        let options = SearchOptions {
            simulations,
            seed: arguments.seed,
            longest_ps: arguments.duration,
        };
        // Ctrl-C ends the search and shows its result; without the handler it ends the program.
        let stop = rtwire_sys::signal::install_stop_flag().ok();
        let shown = std::io::stderr().is_terminal();
        let mut last = 0;
        search(
            &model,
            &mut simulator,
            plan,
            &options,
            &mut report,
            |played| {
                if shown && played % 256 == 0 {
                    eprint!("\r{played} of {simulations} simulations");
                }
                last = played;
                cut = stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
                !cut
            },
        );
        if shown {
            eprint!("\r\x1b[K");
        }
        if cut {
            interrupted::say(&format!("{last} of {simulations} simulations"));
        }
    }
    Ok((report, cut))
}

fn fail(message: &str) -> ExitCode {
    eprintln!("rtwire simulate: {message}");
    ExitCode::from(FAULTY)
}

fn shown(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), show_ns)
}

fn percent(permille: Option<u64>) -> String {
    permille.map_or_else(
        || "-".to_owned(),
        |permille| format!("{}.{} %", permille / 10, permille % 10),
    )
}

fn tables(report: &Report) -> String {
    let mut text = format!(
        "{}: {} simulation{}, {} frame transmissions, seed {}, sources {} for {}\n\n",
        report.network,
        grouped(report.simulations),
        if report.simulations == 1 { "" } else { "s" },
        grouped(report.frame_hops),
        report.seed,
        report.pattern,
        show_ns(report.duration_ns),
    );
    let head = [
        "stream", "listener", "worst", "promise", "used", "p50", "p99", "p99.9", "sent", "lost",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for stream in &report.streams {
        rows.push(vec![
            stream.name.clone(),
            stream.listener.clone(),
            shown(stream.worst_delay_ps.map(|ps| ps.div_ceil(1000))),
            shown(stream.promised_delay_ns),
            percent(stream.used_permille),
            shown(stream.p50_delay_ns),
            shown(stream.p99_delay_ns),
            shown(stream.p999_delay_ns),
            grouped(stream.frames_sent),
            grouped(stream.frames_lost),
        ]);
    }
    crate::columns::table(&mut text, 2, &rows);
    text.push('\n');
    let head = ["port", "backlog", "bound", "used", "frames", "dropped"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for port in &report.ports {
        rows.push(vec![
            format!("{}>{}", port.node, port.port),
            format!("{} B", grouped(port.highest_backlog_bytes)),
            port.promised_backlog_bytes
                .map_or_else(|| "-".to_owned(), |bytes| format!("{} B", grouped(bytes))),
            percent(port.used_permille),
            grouped(port.highest_backlog_frames),
            grouped(port.frames_dropped),
        ]);
    }
    crate::columns::table(&mut text, 1, &rows);
    for warning in &report.warnings {
        let _ = writeln!(text, "\nwarning: {warning}");
    }
    text.push('\n');
    if let Some(witness) = report.witnesses.iter().max_by_key(|w| w.used_permille) {
        let _ = writeln!(
            text,
            "search: {} to {} came nearest to its promise, {} of it, in simulation {} (--seed {} --search {} finds it again)",
            witness.stream,
            witness.listener,
            percent(witness.used_permille),
            witness.simulation,
            report.seed,
            witness.simulation,
        );
    }
    for stream in report.streams.iter().filter(|stream| stream.violated) {
        let _ = writeln!(
            text,
            "PROMISE BROKEN: {} to {}: {} seen, {} promised",
            stream.name,
            stream.listener,
            shown(stream.worst_delay_ps.map(|ps| ps.div_ceil(1000))),
            shown(stream.promised_delay_ns),
        );
    }
    for port in report.ports.iter().filter(|port| port.violated) {
        let _ = writeln!(text, "BOUND BROKEN: port {}>{}", port.node, port.port);
    }
    let lost: u64 = report.streams.iter().map(|stream| stream.frames_lost).sum();
    let dropped: u64 = report.ports.iter().map(|port| port.frames_dropped).sum();
    let _ = writeln!(
        text,
        "{}",
        match report.outcome {
            Outcome::Kept => "all within the promises, nothing lost".to_owned(),
            Outcome::Broken if lost + dropped > 0 => format!(
                "not within the promises: {} frames dropped at ports",
                grouped(dropped)
            ),
            Outcome::Broken => "not within the promises".to_owned(),
        }
    );
    text
}
