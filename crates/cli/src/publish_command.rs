//! `rtwire publish`: sends the data sets of a PubSub project.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use rtwire_pubsub_station::{
    Limit, PlanPlace, Project, PublishReport, PublisherStation, StationError, StreamEnd, Times,
};
use rtwire_sys::signal;

use crate::arguments::{nanoseconds, parse_duration};
use crate::{columns, interrupted};

/// Messages were not sent.
const BROKEN: u8 = 1;
/// Wrong usage or a faulty file.
const FAULTY: u8 = 2;
/// The host lacks something.
const LACKING: u8 = 3;

/// Arguments of `rtwire publish`.
#[derive(Args)]
pub(crate) struct PublishArguments {
    /// The PubSub project, TOML
    file: PathBuf,
    /// The interface, in place of the project's
    #[arg(long)]
    interface: Option<String>,
    /// The plan of groups with `stream`, in place of the project's
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// The host of the plan that this machine is; then it must be the streams' talker
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Stop after this number of instants
    #[arg(long)]
    cycles: Option<u64>,
    /// Stop after this time; without it and `--cycles`, at Ctrl-C
    #[arg(long, value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Take the values from memory-mapped files GROUP.DATASET.image in this folder
    #[arg(long, value_name = "FOLDER")]
    images: Option<PathBuf>,
    /// Print the report as JSON (its schema: `rtwire schema publish`)
    #[arg(long)]
    json: bool,
}

/// Returns the exit code of a station's error.
pub(crate) fn code(error: &StationError) -> u8 {
    if error.is_usage() { FAULTY } else { LACKING }
}

/// Runs `rtwire publish`.
pub(crate) fn run(arguments: &PublishArguments) -> ExitCode {
    match publish(arguments) {
        Ok(code) => ExitCode::from(code),
        Err((code, message)) => {
            eprintln!("rtwire publish: {message}");
            ExitCode::from(code)
        }
    }
}

fn publish(arguments: &PublishArguments) -> Result<u8, (u8, String)> {
    let failed = |error: StationError| (code(&error), error.to_string());
    let place = PlanPlace {
        plan: arguments.plan.clone(),
        host: arguments.host.clone(),
        end: StreamEnd::Talker,
    };
    let project = Project::read_at(&arguments.file, &place).map_err(failed)?;
    let stop = signal::install_stop_flag().map_err(|error| (LACKING, error.to_string()))?;
    let interface = arguments.interface.as_deref();
    let mut station = PublisherStation::open(&project, interface).map_err(failed)?;
    if let Some(folder) = &arguments.images {
        station.map_images(folder).map_err(failed)?;
    }
    let limit = Limit {
        cycles: arguments.cycles,
        duration_ns: arguments.duration.map(nanoseconds),
    };
    eprintln!("publishing {}", described(&project));
    let begun = std::time::Instant::now();
    let report = station.run(stop, limit, |_| {}).map_err(failed)?;
    if arguments.json {
        crate::output::line(&serde_json::to_string(&report).unwrap_or_default());
    } else {
        crate::output::print(&table(&report));
    }
    let faults: u64 = report
        .groups
        .iter()
        .map(|group| group.counters.faults)
        .sum();
    let own = if faults > 0 || report.refused > 0 {
        BROKEN
    } else {
        0
    };
    if stop.load(Ordering::Relaxed) {
        interrupted::say(&interrupted::time(begun.elapsed(), arguments.duration));
        let cut = arguments.duration.is_some() || arguments.cycles.is_some();
        return Ok(interrupted::code(own, cut));
    }
    Ok(own)
}

/// Returns the groups in words.
pub(crate) fn described(project: &Project) -> String {
    let groups = project.groups.iter().map(|entry| {
        let group = &entry.group;
        let when = match entry.answer {
            Some(_) => "as answers".to_owned(),
            None => format!("every {}", time(group.interval_ns)),
        };
        format!("`{}` (id {}) {when}", group.name, group.id)
    });
    groups.collect::<Vec<_>>().join(", ")
}

/// Returns a time in the unit that suits it.
pub(crate) fn time(ns: u64) -> String {
    match ns {
        _ if ns >= 1_000_000 && ns % 1_000_000 == 0 => format!("{} ms", ns / 1_000_000),
        0..10_000 => format!("{ns} ns"),
        10_000..10_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        _ => format!("{:.1} ms", ns as f64 / 1e6),
    }
}

/// Returns the cells of a distribution.
pub(crate) fn cells(name: &str, times: &Times) -> Vec<String> {
    let mut row = vec![name.to_owned()];
    if times.samples == 0 {
        row.extend(["-"; 5].map(str::to_owned));
        return row;
    }
    row.extend([times.p50_ns, times.p99_ns, times.p99_9_ns, times.max_ns].map(time));
    row.push(times.samples.to_string());
    row
}

/// Returns the heading of a table of distributions.
pub(crate) fn heading() -> Vec<String> {
    ["time", "p50", "p99", "p99.9", "max", "samples"]
        .map(str::to_owned)
        .to_vec()
}

/// Adds what the driver has answered.
fn answers(text: &mut String, report: &PublishReport) {
    let Some(own) = &report.answers else {
        return;
    };
    text.push_str(&format!(
        "\nanswers by the driver, {} mode{}: {} frames to the questions' addresses, {} missed\n",
        own.mode,
        if own.attached { "" } else { ", DETACHED" },
        own.frames,
        own.missed
    ));
    if let Some(why) = &own.why_generic {
        text.push_str(&format!("  not native: {why}\n"));
    }
    let names = [
        "group",
        "answered",
        "no answer yet",
        "lease over",
        "too soon",
        "no room",
        "torn",
        "no question",
        "of zeros",
    ];
    let mut rows = vec![names.map(str::to_owned).to_vec()];
    for group in &report.groups {
        let Some(counters) = group.answers else {
            continue;
        };
        let mut row = vec![group.name.clone()];
        let counts = [
            counters.answered,
            counters.unarmed,
            counters.lapsed,
            counters.too_soon,
            counters.no_room,
            counters.torn,
            counters.others,
            counters.ambiguous,
        ];
        row.extend(counts.map(|count| count.to_string()));
        rows.push(row);
    }
    columns::table(text, 1, &rows);
    for group in &own.questions {
        for reader in &group.readers {
            text.push_str(&format!(
                "  question {} / {}, {}: {} taken, {} lost, {} timeouts\n",
                group.name,
                reader.name,
                reader.state,
                reader.counters.taken,
                reader.counters.lost,
                reader.counters.timeouts
            ));
        }
    }
}

fn table(report: &PublishReport) -> String {
    let mut text = format!(
        "interface {}, path {}: {} instants, {} frames sent, {} refused by the queue\n\n",
        report.interface, report.path, report.cycles, report.frames, report.refused
    );
    let names = [
        "group",
        "state",
        "messages",
        "key",
        "delta",
        "keep-alive",
        "skipped",
        "faults",
    ];
    let mut rows = vec![names.map(str::to_owned).to_vec()];
    for group in &report.groups {
        let mut row = vec![group.name.clone(), group.state.clone()];
        row.extend(
            [
                group.counters.messages,
                group.counters.key_frames,
                group.counters.delta_frames,
                group.counters.keep_alives,
                group.counters.skipped,
                group.counters.faults,
            ]
            .map(|count| count.to_string()),
        );
        rows.push(row);
    }
    columns::table(&mut text, 2, &rows);
    answers(&mut text, report);
    for group in &report.groups {
        if let Some(fault) = &group.last_fault {
            text.push_str(&format!("  {}: {fault}\n", group.name));
        }
    }
    text.push('\n');
    let rows = [
        heading(),
        cells("instant to wake-up", &report.late),
        cells("sampling", &report.sample),
        cells("writing and sealing", &report.encode),
        cells("sending", &report.send),
        cells("interval deviation", &report.interval_deviation),
    ];
    columns::table(&mut text, 1, &rows);
    text
}
