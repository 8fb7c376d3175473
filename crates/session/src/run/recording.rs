//! Turns one host's run into the header and the totals of its evidence.

use std::sync::Arc;

use rtwire_channel::TxPath;
use rtwire_measure::evidence::{
    End, FORMAT, Header, ListenerEntry, ListenerTotals, StampKind, TalkerEntry, TalkerTotals,
};
use rtwire_measure::noise::NoiseRecord;
use rtwire_measure::report::Machine;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RunOptions;
use super::clock::ClockWatch;
use crate::evidence::Recorder;
use crate::evidence::taps::{DelayWatch, ListenerTap, TalkerTap, frames_per_second};
use crate::outcome::{HostResult, ListenerResult, TalkerResult};
use crate::task::{Assignment, ListenerTask, Pattern, TalkerTask};

/// The file of evidence that a run wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EvidenceRow {
    /// The file.
    pub file: String,
    /// Its size, bytes.
    pub bytes: u64,
    /// Frames, stamps and arrivals that are not in it: beyond its largest size, or the writer was held up.
    pub records_missing: u64,
    /// The reason why it is not whole; null if it is.
    pub fault: Option<String>,
}

/// The taps of one host's threads.
pub(super) struct Taps {
    pub(super) talkers: Vec<TalkerTap>,
    pub(super) listeners: Vec<ListenerTap>,
    pub(super) delays: Vec<Arc<DelayWatch>>,
}

impl Taps {
    /// Makes the taps of an assignment. Frames are noted only for evidence; delays are always watched.
    /// `card_ns` is what the card's clock adds to the difference of the clocks.
    pub(super) fn new(options: &RunOptions, assignment: &Assignment, card_ns: u64) -> Self {
        let recorded = options.evidence.is_some();
        let clocks_ns = both_clocks_ns(options.clock.uncertainty_ns()).unwrap_or(0);
        let clocks_ns = clocks_ns.saturating_add(card_ns);
        let delays: Vec<Arc<DelayWatch>> = assignment
            .listeners
            .iter()
            .map(|task| {
                let (promise, deadline) = limits(options, task);
                Arc::new(DelayWatch::new(promise, deadline, clocks_ns))
            })
            .collect();
        let listeners = assignment.listeners.iter().zip(&delays);
        Self {
            talkers: assignment
                .talkers
                .iter()
                .map(|task| match recorded {
                    true => TalkerTap::new(frames_per_second(task)),
                    false => TalkerTap::default(),
                })
                .collect(),
            listeners: listeners
                .map(|(task, delays)| {
                    let frames = recorded.then(|| arrivals_per_second(options, task));
                    ListenerTap::new(frames, Arc::clone(delays))
                })
                .collect(),
            delays,
        }
    }
}

/// Returns the largest difference of two clocks, each within `own_ns` of the network's time.
pub(super) fn both_clocks_ns(own_ns: Option<u64>) -> Option<u64> {
    own_ns.map(|ns| ns.saturating_mul(2))
}

/// Returns the promise and the deadline of a stream at this host, ns.
pub(super) fn limits(options: &RunOptions, task: &ListenerTask) -> (Option<u64>, Option<u64>) {
    let plan = &options.plan;
    let promises = plan.streams.get(task.stream).map(|plan| &plan.promises);
    let promise = promises.and_then(|all| all.iter().find(|p| p.listener == options.host));
    let stream = plan.network.streams.get(task.stream);
    (
        promise.and_then(|promise| promise.delay_ns),
        stream.and_then(|stream| stream.deadline_ns),
    )
}

/// Returns the most frames of a stream that a listener expects in a second.
fn arrivals_per_second(options: &RunOptions, task: &ListenerTask) -> u64 {
    let stream = options.plan.network.streams.get(task.stream);
    let shaped = stream.filter(|stream| stream.shaped);
    shaped.map_or(u64::MAX, |stream| {
        crate::streams::frames_in(stream.contract.rate, stream.wire_bytes, 1_000_000_000) + 1
    })
}

/// Returns the header of the evidence. `times` are the instants at which all was open and at which its talkers begin.
pub(super) fn header(
    options: &RunOptions,
    assignment: &Assignment,
    receive_paths: Vec<String>,
    times: (u64, u64),
) -> Header {
    let plan = &options.plan;
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let boot_id = boot_id.trim().to_owned();
    let listeners = assignment.listeners.iter().zip(receive_paths);
    Header {
        format: FORMAT,
        run: format!("{boot_id}-{}-{}", std::process::id(), times.0),
        network: plan.network.name.clone(),
        plan_id: plan.plan_id.clone(),
        epoch: plan.epoch,
        host: options.host.clone(),
        interface: options.interface.clone(),
        open_ns: times.0,
        start_ns: times.1,
        planned_ns: options.duration.map(crate::streams::ns),
        talkers: assignment
            .talkers
            .iter()
            .map(|task| entry(options, task))
            .collect(),
        listeners: listeners
            .map(|(task, path)| ListenerEntry {
                stream: task.name.clone(),
                path,
            })
            .collect(),
        clock: options.clock.basis(),
        stamps: None,
        boot_id,
        machine: Machine::this(&options.rtwire_version),
    }
}

fn entry(options: &RunOptions, task: &TalkerTask) -> TalkerEntry {
    let by_program = options.values.iter().any(|(name, _)| *name == task.name);
    TalkerEntry {
        stream: task.name.clone(),
        path: task.path.to_string(),
        stamps: match task.path {
            path if path.has_launch_times() => StampKind::Launch,
            TxPath::Qdisc => StampKind::Kernel,
            _ => StampKind::Call,
        },
        paced: !by_program && task.pattern != Pattern::Greedy,
    }
}

/// Returns the totals of one host's talkers and listeners.
fn totals(
    assignment: &Assignment,
    result: &HostResult,
) -> (Vec<TalkerTotals>, Vec<ListenerTotals>) {
    let talkers = assignment.talkers.iter().zip(&result.talkers);
    let listeners = assignment.listeners.iter().zip(&result.listeners);
    (
        talkers
            .map(|(task, result)| of_talker(task, result))
            .collect(),
        listeners
            .map(|(task, result)| of_listener(task, result))
            .collect(),
    )
}

fn of_talker(task: &TalkerTask, result: &TalkerResult) -> TalkerTotals {
    TalkerTotals {
        stream: task.name.clone(),
        frames_sent: result.frames_sent,
        cycles_skipped: result.ticks_skipped,
        frames_refused: result.sends_refused,
        lateness_ns: result.lateness,
        late: result
            .stalls
            .iter()
            .map(|stall| (stall.due_ns, stall.woke_ns))
            .collect(),
        fault: result.fault.clone(),
        ..TalkerTotals::default()
    }
}

fn of_listener(task: &ListenerTask, result: &ListenerResult) -> ListenerTotals {
    ListenerTotals {
        stream: task.name.clone(),
        frames_received: result.frames_received,
        frames_lost: result.frames_lost,
        frames_duplicated: result.frames_duplicated,
        frames_reordered: result.frames_reordered,
        frames_overtaken: result.frames_overtaken,
        arrivals_missed: result.arrivals_missed,
        frames_corrupted: result.frames_corrupted,
        socket_drops: result.socket_drops,
        frames_policed: result.frames_policed,
        frames_foreign: result.frames_foreign,
        frames_too_long: result.frames_too_long,
        frames_too_frequent: result.frames_too_frequent,
        talker_restarts: result.restarts,
        fault: result.fault.clone(),
        ..ListenerTotals::default()
    }
}

/// Ends the file of evidence, and returns its row in the report.
pub(super) fn finish(
    options: &RunOptions,
    assignment: &Assignment,
    (recorder, result, clocks): (Recorder, &HostResult, &ClockWatch<'_>),
    noise: Option<&NoiseRecord>,
    end: End,
) -> EvidenceRow {
    let (talkers, listeners) = totals(assignment, result);
    let written = recorder.finish(talkers, listeners, noise, end, clocks.take());
    let file = options.evidence.as_ref().map(|options| &options.path);
    EvidenceRow {
        file: file.map_or(String::new(), |path| path.display().to_string()),
        bytes: written.bytes,
        records_missing: written.unkept,
        fault: written.failed.map(|error| error.to_string()),
    }
}
