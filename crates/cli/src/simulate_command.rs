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
    Break, Model, Outcome, PatternChoice, Report, Scenario, SearchOptions, Simulator,
    random::Random, search,
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
    /// Break the link between these two nodes: frames on it are lost, in both directions
    #[arg(long, value_name = "A,B", value_parser = ends)]
    break_link: Option<(String, String)>,
    /// With --break-link: the time of the break [default: drawn by the seed]
    #[arg(long, value_name = "TIME", value_parser = moment_ps, requires = "break_link")]
    break_at: Option<u64>,
    /// With --break-link: the time until the link is repaired [default: never]
    #[arg(long, value_name = "TIME", value_parser = duration_ps, requires = "break_link")]
    break_for: Option<u64>,
    /// Let the talker of this stream or best-effort allowance go wrong: it sends frames of any size as fast as its link takes
    /// them. Nothing is promised to its host; the switches' flow meters guard all others
    #[arg(long, value_name = "NAME", conflicts_with = "search")]
    babble: Vec<String>,
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

/// Reads a time from the start, which may be 0.
fn moment_ps(text: &str) -> Result<u64, String> {
    if text.trim() == "0" {
        return Ok(0);
    }
    duration_ps(text)
}

/// Reads the two ends of a link.
fn ends(text: &str) -> Result<(String, String), String> {
    match text.split(',').map(str::trim).collect::<Vec<_>>()[..] {
        [one, other] if !one.is_empty() && !other.is_empty() => {
            Ok((one.to_owned(), other.to_owned()))
        }
        _ => Err("name the two nodes of a link, such as s1,s2".to_owned()),
    }
}

/// Returns both directions of the link that is to be broken.
fn breaks(
    arguments: &SimulateArguments,
    network: &Network,
    model: &Model,
) -> Result<Vec<Break>, String> {
    let Some((one, other)) = &arguments.break_link else {
        return Ok(Vec::new());
    };
    let Some(ports) = model.link_ports(one, other) else {
        let links = network.links.iter();
        let links: Vec<String> = links.map(|link| link.ends.join(",")).collect();
        return Err(format!(
            "--break-link {one},{other}: there is no such link; links are {}",
            links.join(" ")
        ));
    };
    let from_ps = arguments
        .break_at
        .unwrap_or_else(|| Random::new(arguments.seed, BREAK_NUMBERS).below(arguments.duration));
    let length_ps = arguments.break_for.unwrap_or(u64::MAX);
    let until_ps = from_ps.saturating_add(length_ps);
    let broken = |port| Break {
        port,
        from_ps,
        until_ps,
    };
    Ok(ports.map(broken).to_vec())
}

/// Returns the flows whose talkers go wrong.
fn babbling(
    arguments: &SimulateArguments,
    network: &Network,
    model: &Model,
) -> Result<Vec<usize>, String> {
    let flow = |name: &String| {
        model.flow(name).ok_or_else(|| {
            let streams = network.streams.iter().map(|it| it.name.as_str());
            let allowances = network.best_effort.iter().map(|it| it.name.as_str());
            let names: Vec<&str> = streams.chain(allowances).collect();
            format!(
                "--babble {name}: there is no such stream or best-effort allowance; there are {}",
                names.join(" ")
            )
        })
    };
    arguments.babble.iter().map(flow).collect()
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

/// The number of the random sequence that the time of a break is drawn from.
const BREAK_NUMBERS: u64 = 1 << 42;

/// Returns the report, and true if the search was interrupted.
fn simulate(
    arguments: &SimulateArguments,
    network: &Network,
    plan: &Plan,
) -> Result<(Report, bool), String> {
    let model = Model::with_plan(network, plan).map_err(|fault| fault.to_string())?;
    let choice = PatternChoice::from(arguments.pattern);
    let mut scenario = Scenario::new(
        &model,
        choice,
        arguments.seed,
        arguments.duration,
        arguments.drift,
    );
    scenario.breaks = breaks(arguments, network, &model)?;
    scenario.babbling = babbling(arguments, network, &model)?;
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

/// Adds the redundant streams behind their recovery, if there are any.
fn recovered(text: &mut String, report: &Report) {
    if report.recovered.is_empty() {
        return;
    }
    let head = [
        "recovered",
        "listener",
        "worst",
        "promise",
        "used",
        "sent",
        "lost",
        "twice",
        "history",
        "waiting",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for stream in &report.recovered {
        rows.push(vec![
            stream.stream.clone(),
            stream.listener.clone(),
            shown(stream.worst_delay_ps.map(|ps| ps.div_ceil(1000))),
            show_ns(stream.promised_delay_ns),
            percent(stream.used_permille),
            grouped(stream.frames_sent),
            grouped(stream.frames_lost),
            grouped(stream.frames_twice),
            grouped(stream.history_length),
            format!(
                "{} of {}",
                stream.frames_waiting, stream.promised_frames_waiting
            ),
        ]);
    }
    text.push('\n');
    crate::columns::table(text, 2, &rows);
}

/// Adds the flow meters, and the talkers that went wrong.
fn metered(text: &mut String, report: &Report) {
    if !report.meters.is_empty() {
        let head = ["meter at", "of", "passed", "discarded"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for meter in &report.meters {
            rows.push(vec![
                meter.switch.clone(),
                meter.flow.clone(),
                grouped(meter.frames_passed),
                grouped(meter.frames_discarded),
            ]);
        }
        text.push('\n');
        crate::columns::table(text, 2, &rows);
    }
    if !report.babbling.is_empty() {
        let _ = writeln!(
            text,
            "\nbabbling: {}; nothing was promised to the streams of its host, which are not judged",
            report.babbling.join(", ")
        );
    }
}

/// Adds the broken links, the frames that they lost, and the recovered streams that were not recovered.
fn broken(text: &mut String, report: &Report) {
    for link in report.broken_links.iter().step_by(2) {
        let until = link.until_ns.map_or_else(
            || "until the end".to_owned(),
            |ns| format!("to {}", show_ns(ns)),
        );
        let cut: u64 = report.streams.iter().map(|stream| stream.frames_cut).sum();
        let _ = writeln!(
            text,
            "link {} - {} broken from {} {until}: {} frames lost on it",
            link.node,
            link.port,
            show_ns(link.from_ns),
            grouped(cut)
        );
    }
    for stream in report.recovered.iter().filter(|stream| stream.violated) {
        let _ = writeln!(
            text,
            "RECOVERY BROKEN: {} to {}: {} lost, {} passed twice, {} seen, {} promised",
            stream.stream,
            stream.listener,
            grouped(stream.frames_lost),
            grouped(stream.frames_twice),
            shown(stream.worst_delay_ps.map(|ps| ps.div_ceil(1000))),
            show_ns(stream.promised_delay_ns),
        );
    }
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
    recovered(&mut text, report);
    metered(&mut text, report);
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
    broken(&mut text, report);
    let judged = report.streams.iter().filter(|stream| !stream.unjudged);
    let lost: u64 = judged.map(|stream| stream.frames_lost).sum();
    let dropped: u64 = report.ports.iter().map(|port| port.frames_dropped).sum();
    let _ = writeln!(
        text,
        "{}",
        match report.outcome {
            Outcome::Kept if lost > 0 =>
                "all within the promises, nothing lost but on the broken link".to_owned(),
            Outcome::Kept if !report.babbling.is_empty() =>
                "all other hosts' streams within the promises, none of their frames lost".to_owned(),
            Outcome::Kept => "all within the promises, nothing lost".to_owned(),
            Outcome::Broken if dropped > 0 || (lost > 0 && report.broken_links.is_empty()) =>
                format!(
                    "not within the promises: {} frames dropped at ports",
                    grouped(dropped)
                ),
            Outcome::Broken => "not within the promises".to_owned(),
        }
    );
    text
}
