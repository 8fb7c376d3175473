//! `rtwire subscribe`: receives the data sets of a PubSub project.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use rtwire_pubsub_station::{
    Goes, MetadataNews, PlanPlace, Project, ReaderReport, StationError, StreamEnd, SubscribeReport,
    SubscriberStation, Update,
};
use rtwire_sys::signal;

use crate::arguments::parse_duration;
use crate::publish_command::{cells, code, described, heading};
use crate::{columns, interrupted};

/// A reader lost messages, or took none.
const BROKEN: u8 = 1;
/// The host lacks something.
const LACKING: u8 = 3;

/// Arguments of `rtwire subscribe`.
#[derive(Args)]
pub(crate) struct SubscribeArguments {
    /// The PubSub project, TOML: the publisher's own
    file: PathBuf,
    /// The interface, in place of the project's
    #[arg(long)]
    interface: Option<String>,
    /// The plan of groups with `stream`, in place of the project's
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// The host of the plan that this machine is; then it must be the streams' listener
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Stop when each reader has taken this number of messages
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    messages: Option<u64>,
    /// Stop after this time; without it and `--messages`, at Ctrl-C
    #[arg(long, value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Put the values into memory-mapped files GROUP.DATASET.image in this folder
    #[arg(long, value_name = "FOLDER")]
    images: Option<PathBuf>,
    /// Print each message with its values while it runs
    #[arg(long)]
    values: bool,
    /// Print the report as JSON (its schema: `rtwire schema subscribe`)
    #[arg(long)]
    json: bool,
}

/// Runs `rtwire subscribe`.
pub(crate) fn run(arguments: &SubscribeArguments) -> ExitCode {
    match subscribe(arguments) {
        Ok(code) => ExitCode::from(code),
        Err((code, message)) => {
            eprintln!("rtwire subscribe: {message}");
            ExitCode::from(code)
        }
    }
}

fn subscribe(arguments: &SubscribeArguments) -> Result<u8, (u8, String)> {
    let failed = |error: StationError| (code(&error), error.to_string());
    let place = PlanPlace {
        plan: arguments.plan.clone(),
        host: arguments.host.clone(),
        end: StreamEnd::Listener,
    };
    let project = Project::read_at(&arguments.file, &place).map_err(failed)?;
    let signalled = signal::install_stop_flag().map_err(|error| (LACKING, error.to_string()))?;
    let interface = arguments.interface.as_deref();
    let mut station = SubscriberStation::open(&project, interface).map_err(failed)?;
    if let Some(folder) = &arguments.images {
        station.map_images(folder).map_err(failed)?;
    }
    station.tell_metadata(|news| match news {
        MetadataNews::Taken { group } => {
            eprintln!(
                "group {}: the publisher's new metadata are in use",
                group.name
            );
        }
        MetadataNews::Refused { group, why } => {
            eprintln!(
                "group {}: messages of other metadata are passed over: {why}",
                group.name
            );
        }
    });
    eprintln!("subscribed to {}", described(&project));
    let begun = Instant::now();
    let sets = project
        .groups
        .iter()
        .map(|entry| entry.group.data_sets.len())
        .sum();
    let mut wanted = Wanted::new(arguments.messages, sets);
    let report = station
        .run(signalled, arguments.duration, |update| {
            if arguments.values {
                crate::output::line(&line(&update));
            }
            wanted.took(&update)
        })
        .map_err(failed)?;
    if arguments.json {
        crate::output::line(&serde_json::to_string(&report).unwrap_or_default());
    } else {
        crate::output::print(&table(&report));
    }
    let own = if kept(&report) { 0 } else { BROKEN };
    if signalled.load(Ordering::Relaxed) {
        interrupted::say(&interrupted::time(begun.elapsed(), arguments.duration));
        let cut = arguments.duration.is_some() || arguments.messages.is_some();
        return Ok(interrupted::code(own, cut));
    }
    Ok(own)
}

/// The messages that a run waits for.
struct Wanted {
    each: Option<u64>,
    /// Readers that have not taken all yet.
    left: usize,
}

impl Wanted {
    const fn new(each: Option<u64>, readers: usize) -> Self {
        Self {
            each,
            left: readers,
        }
    }

    fn took(&mut self, update: &Update<'_>) -> Goes {
        if Some(update.reader.counters().taken) == self.each {
            self.left -= 1;
        }
        match (self.each, self.left) {
            (Some(_), 0) => Goes::Out,
            _ => Goes::On,
        }
    }
}

/// Returns a message's values in one line.
fn line(update: &Update<'_>) -> String {
    let set = update.reader.data_set();
    let values = update.reader.all();
    let value = |at| values.and_then(|values| values.get(at));
    let fields = set.fields.iter().enumerate();
    let fields: Vec<String> = fields
        .filter_map(|(at, field)| Some(format!("{} = {}", field.name, value(at)?)))
        .collect();
    let (group, number) = (&update.group.name, update.reader.number());
    format!("{group} / {} #{number}: {}", set.name, fields.join(", "))
}

/// Returns true where each reader took messages and lost none.
fn kept(report: &SubscribeReport) -> bool {
    let mut readers = report.groups.iter().flat_map(|group| &group.readers);
    report.dropped == 0
        && readers.all(|reader| {
            reader.counters.taken > 0 && reader.counters.lost == 0 && reader.counters.timeouts == 0
        })
}

fn table(report: &SubscribeReport) -> String {
    let mut text = format!(
        "interface {}: {} frames, {} of another VLAN, {} lost in this host\n",
        report.interface, report.frames, report.other_vlans, report.dropped
    );
    for group in &report.groups {
        let counts = [
            ("foreign", group.counters.foreign),
            ("malformed", group.counters.malformed),
            ("of another kind", group.counters.other_kinds),
            ("refused by security", group.counters.refused),
            ("replays", group.counters.replays),
            ("of another version", group.counters.other_versions),
        ];
        text.push_str(&format!(
            "\ngroup {} (id {}), {}: {} messages{}\n",
            group.name,
            group.id,
            group.state,
            group.counters.messages,
            listed(&counts)
        ));
        if let Some(fault) = &group.metadata_fault {
            text.push_str(&format!("  metadata: {fault}\n"));
        }
        for reader in &group.readers {
            shown(&mut text, reader);
        }
    }
    text
}

/// Returns the counts that are not 0, each behind a comma.
fn listed(counts: &[(&str, u64)]) -> String {
    let there = counts.iter().filter(|(_, count)| *count > 0);
    there
        .map(|(name, count)| format!(", {count} {name}"))
        .collect()
}

fn shown(text: &mut String, reader: &ReaderReport) {
    let counts = [
        ("delta", reader.counters.delta_frames),
        ("keep-alives", reader.counters.keep_alives),
        ("duplicates", reader.counters.duplicates),
        ("old", reader.counters.old),
        ("restarts", reader.counters.restarts),
        ("with other fields", reader.counters.mismatches),
        ("of other metadata", reader.counters.other_versions),
        ("changes of metadata", reader.counters.changes),
        ("malformed", reader.counters.malformed),
        ("not valid", reader.counters.invalid),
        (
            "delta before a key frame",
            reader.counters.without_key_frame,
        ),
        ("of zeros, perhaps padding", reader.counters.ambiguous),
    ];
    text.push_str(&format!(
        "  {} (writer {}), {}: {} taken, {} gaps, {} lost, {} timeouts, {} recoveries{}\n",
        reader.name,
        reader.writer,
        reader.state,
        reader.counters.taken,
        reader.counters.gaps,
        reader.counters.lost,
        reader.counters.timeouts,
        reader.counters.recoveries,
        listed(&counts)
    ));
    let rows = [
        heading(),
        cells("interval deviation", &reader.interval_deviation),
        cells("sample to subscriber", &reader.latency),
    ];
    columns::table(text, 1, &rows);
    for field in &reader.values {
        text.push_str(&format!("    {} = {}\n", field.name, field.value));
    }
}
