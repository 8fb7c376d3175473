//! The report of one host's run.

use rtwire_measure::summary::Summary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NetworkTime, RunOptions};
use crate::outcome::{HostResult, ListenerResult, TalkerResult};
use crate::streams::frames_planned;
use crate::task::{Assignment, ListenerTask, Pattern, TalkerTask};

/// The verdict on one host's end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every talker sent, and no frame for a listener here is missing.
    Complete,
    /// Frames were lost, of another plan or beyond their contract, or a talker or listener ended early. `reasons` names
    /// them.
    Broken,
    /// A listener received nothing at all: its talker may not have run.
    Inconclusive,
}

/// The report of `rtwire run`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "rtwire run")]
pub struct RunReport {
    /// The version of this format: 1.
    pub format: u32,
    /// The network's name.
    pub network: String,
    /// The fingerprint of the network's description.
    pub plan_hash: String,
    /// The plan's fingerprint: equal at all ends that run the same plan.
    pub plan_id: String,
    /// The plan's epoch.
    pub epoch: u64,
    /// The host's name in the plan.
    pub host: String,
    /// The host's interface.
    pub interface: String,
    /// The instant at which the talkers began, ns of CLOCK_TAI.
    pub started_tai_ns: u64,
    /// The time for which they sent, seconds.
    pub duration_s: f64,
    /// The transmit path of RTDiP frames: qdisc, direct, xdp, launch or xdp-launch.
    pub path: String,
    /// The thread or interrupt that did the receive work, in words.
    pub receive_work: String,
    /// Things that the interface lacks for the plan's promises, each with the way to get it.
    #[serde(default)]
    pub missing: Vec<String>,
    /// The verdict.
    pub verdict: Verdict,
    /// The reasons for the verdict.
    pub reasons: Vec<String>,
    /// The network's time at this host during the run; null where nothing depends on it.
    #[serde(default)]
    pub time: Option<NetworkTime>,
    /// The streams that this host sent.
    pub talkers: Vec<TalkerRow>,
    /// The streams that this host received.
    pub listeners: Vec<ListenerRow>,
    /// Frames that belonged to no channel here, by reason and count.
    pub strays: Vec<(String, u64)>,
}

/// One stream at its talker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TalkerRow {
    /// The stream's name.
    pub stream: String,
    /// Its priority (PCP).
    pub priority: u8,
    /// SCHED_FIFO priority of its thread.
    pub realtime: u8,
    /// Frames sent.
    pub frames_sent: u64,
    /// Frames that the description asks for in this time; null where it asks for as many as possible.
    pub frames_planned: Option<u64>,
    /// Ticks in which nothing was sent: they had passed, or a frame would have broken the contract.
    pub ticks_skipped: u64,
    /// Frames for which the interface's own queue had no room.
    pub frames_refused: u64,
    /// The lateness of its ticks; null where it has none.
    pub lateness_ns: Option<Summary>,
    /// The lateness that the description allows, ns.
    pub tick_error_ns: u64,
    /// The reason for an early end.
    pub fault: Option<String>,
}

/// One stream at a listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListenerRow {
    /// The stream's name.
    pub stream: String,
    /// True for best effort: nothing was promised, so a loss breaks nothing.
    pub best_effort: bool,
    /// SCHED_FIFO priority of its thread.
    pub realtime: u8,
    /// The receive path of its frames: `native` or `generic` (the receive program), `packet` or `datagrams` (sockets). The
    /// reason follows where it is not the first choice.
    pub receive_path: String,
    /// Different frames received.
    pub frames_received: u64,
    /// Sequence numbers that did not arrive.
    pub frames_lost: u64,
    /// Frames that arrived twice.
    pub frames_duplicated: u64,
    /// Frames that arrived behind a later one.
    pub frames_reordered: u64,
    /// Values overtaken by newer ones before they were read (newest-value streams).
    pub frames_overtaken: u64,
    /// Frames for which the kernel had no room here.
    pub socket_drops: u64,
    /// Frames dropped here because they were beyond the stream's contract (`--police`).
    pub frames_policed: u64,
    /// Frames at this stream's port with another key: of another plan, or of another version of this one. None was taken.
    pub frames_foreign: u64,
    /// Frames with more user data than the contract allows.
    pub frames_too_long: u64,
    /// Frames beyond the contract's rate and burst; the tolerance is 10 ms beside the promised delay.
    pub frames_too_frequent: u64,
    /// The number of times that its talker began again.
    pub talker_restarts: u64,
    /// Time from the talker's timestamp to the kernel's here. Its error is the difference of the two hosts' clocks.
    pub delay_ns: Option<Summary>,
    /// Frames that arrived before they were sent, by those clocks: the clocks do not agree then.
    pub frames_before_sent: u64,
    /// The promised delay from entering the talker's transmit queue, ns.
    pub promise_ns: Option<u64>,
    /// The reason for an early end.
    pub fault: Option<String>,
}

/// Returns the JSON Schema of [`RunReport`], as it is committed in `schema/run.schema.json`.
#[must_use]
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(RunReport).to_value()
}

pub(super) fn assemble(
    options: &RunOptions,
    assignment: &Assignment,
    result: HostResult,
    (receive_work, missing): (String, Vec<String>),
    (started_tai_ns, duration_ns): (u64, u64),
) -> RunReport {
    let talkers = assignment.talkers.iter().zip(result.talkers);
    let talkers: Vec<TalkerRow> = talkers
        .map(|(task, result)| talker(options, task, result, duration_ns))
        .collect();
    let listeners = assignment.listeners.iter().zip(result.listeners);
    let listeners: Vec<ListenerRow> = listeners
        .map(|(task, result)| listener(options, task, result))
        .collect();
    let (verdict, reasons) = judge(&talkers, &listeners);
    RunReport {
        format: 1,
        network: options.plan.network.name.clone(),
        plan_hash: options.plan.input_hash.clone(),
        plan_id: options.plan.plan_id.clone(),
        epoch: options.plan.epoch,
        host: options.host.clone(),
        interface: options.interface.clone(),
        started_tai_ns,
        #[allow(clippy::cast_precision_loss)] // shown to a millisecond
        duration_s: duration_ns as f64 / 1e9,
        path: options.session.path.to_string(),
        receive_work,
        missing,
        verdict,
        reasons,
        time: None,
        talkers,
        listeners,
        strays: result.strays,
    }
}

fn talker(
    options: &RunOptions,
    task: &TalkerTask,
    result: TalkerResult,
    duration_ns: u64,
) -> TalkerRow {
    let stream = options.plan.network.streams.get(task.stream);
    TalkerRow {
        stream: task.name.clone(),
        priority: task.pcp,
        realtime: task.realtime,
        frames_sent: result.frames_sent,
        frames_planned: stream
            .filter(|_| task.pattern != Pattern::Greedy)
            .map(|stream| frames_planned(stream, duration_ns)),
        ticks_skipped: result.ticks_skipped,
        frames_refused: result.sends_refused,
        lateness_ns: result.lateness,
        tick_error_ns: task.tick_error_ns,
        fault: result.fault,
    }
}

fn listener(options: &RunOptions, task: &ListenerTask, result: ListenerResult) -> ListenerRow {
    let planned = options.plan.streams.get(task.stream);
    let promise = planned
        .and_then(|plan| plan.promises.iter().find(|p| p.listener == options.host))
        .and_then(|promise| promise.delay_ns);
    ListenerRow {
        stream: task.name.clone(),
        best_effort: task.stream >= options.plan.network.streams.len(),
        realtime: task.realtime,
        receive_path: result.path,
        frames_received: result.frames_received,
        frames_lost: result.frames_lost,
        frames_duplicated: result.frames_duplicated,
        frames_reordered: result.frames_reordered,
        frames_overtaken: result.frames_overtaken,
        socket_drops: result.socket_drops,
        frames_policed: result.frames_policed,
        frames_foreign: result.frames_foreign,
        frames_too_long: result.frames_too_long,
        frames_too_frequent: result.frames_too_frequent,
        talker_restarts: result.restarts,
        delay_ns: result.delay,
        frames_before_sent: result.before_sent,
        promise_ns: promise,
        fault: result.fault,
    }
}

/// Judges what this end can know. What only both ends together show is not judged.
fn judge(talkers: &[TalkerRow], listeners: &[ListenerRow]) -> (Verdict, Vec<String>) {
    let mut broken = Vec::new();
    let mut silent = Vec::new();
    for row in talkers {
        if let Some(fault) = &row.fault {
            broken.push(format!("talker of `{}` ended: {fault}", row.stream));
        }
        if row.frames_refused > 0 {
            broken.push(format!(
                "{} frames of `{}` found no room in the interface's own queue",
                row.frames_refused, row.stream
            ));
        }
    }
    for row in listeners {
        if let Some(fault) = &row.fault {
            broken.push(format!("listener of `{}` ended: {fault}", row.stream));
        }
        if row.frames_policed > 0 {
            broken.push(format!(
                "{} frames of `{}` were beyond its contract and dropped here",
                row.frames_policed, row.stream
            ));
        }
        if row.frames_lost > row.frames_policed && !row.best_effort {
            let here = match row.socket_drops {
                0 => "on the way",
                _ => "here too: the listener was held up",
            };
            broken.push(format!(
                "{} frames of `{}` were lost {here}",
                row.frames_lost, row.stream
            ));
        }
        if row.frames_foreign > 0 {
            broken.push(format!(
                "{} frames at the port of `{}` were of a foreign plan: their talker runs another plan, or another version of \
                 this one; none was taken. Give all hosts the same plan file",
                row.frames_foreign, row.stream
            ));
        }
        if row.frames_too_long > 0 {
            broken.push(format!(
                "{} frames of `{}` were longer than its contract",
                row.frames_too_long, row.stream
            ));
        }
        if row.frames_too_frequent > 0 {
            broken.push(format!(
                "{} frames of `{}` were more frequent than its contract",
                row.frames_too_frequent, row.stream
            ));
        }
        if row.frames_received == 0 && row.fault.is_none() && !row.best_effort {
            silent.push(format!("nothing of `{}` came", row.stream));
        }
    }
    let verdict = match (broken.is_empty(), silent.is_empty()) {
        (false, _) => Verdict::Broken,
        (true, false) => Verdict::Inconclusive,
        (true, true) => Verdict::Complete,
    };
    broken.append(&mut silent);
    (verdict, broken)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Of a host to which nothing happened.
    pub(in crate::run) fn empty() -> RunReport {
        RunReport {
            format: 1,
            network: String::new(),
            plan_hash: String::new(),
            plan_id: String::new(),
            epoch: 1,
            host: String::new(),
            interface: String::new(),
            started_tai_ns: 0,
            duration_s: 0.0,
            path: "qdisc".to_owned(),
            receive_work: String::new(),
            missing: Vec::new(),
            verdict: Verdict::Complete,
            reasons: Vec::new(),
            time: None,
            talkers: Vec::new(),
            listeners: Vec::new(),
            strays: Vec::new(),
        }
    }

    fn heard(received: u64, lost: u64) -> ListenerRow {
        ListenerRow {
            stream: "a".to_owned(),
            best_effort: false,
            realtime: 80,
            receive_path: "packet".to_owned(),
            frames_received: received,
            frames_lost: lost,
            frames_duplicated: 0,
            frames_reordered: 0,
            frames_overtaken: 0,
            socket_drops: 0,
            frames_policed: 0,
            frames_foreign: 0,
            frames_too_long: 0,
            frames_too_frequent: 0,
            talker_restarts: 0,
            delay_ns: None,
            frames_before_sent: 0,
            promise_ns: None,
            fault: None,
        }
    }

    #[test]
    fn frames_of_another_plan_and_beyond_the_contract_break() {
        let foreign = ListenerRow {
            frames_foreign: 3,
            ..heard(0, 0)
        };
        let (verdict, reasons) = judge(&[], &[foreign]);
        assert_eq!(verdict, Verdict::Broken);
        assert!(reasons[0].contains("foreign plan"), "{reasons:?}");
        let long = ListenerRow {
            frames_too_long: 1,
            ..heard(5, 0)
        };
        assert_eq!(judge(&[], &[long]).0, Verdict::Broken);
        let frequent = ListenerRow {
            frames_too_frequent: 1,
            ..heard(5, 0)
        };
        assert_eq!(judge(&[], &[frequent]).0, Verdict::Broken);
    }

    #[test]
    fn what_is_missing_breaks_and_silence_settles_nothing() {
        assert_eq!(judge(&[], &[heard(5, 0)]).0, Verdict::Complete);
        assert_eq!(
            judge(&[], &[heard(5, 0), heard(0, 0)]).0,
            Verdict::Inconclusive
        );
        let (verdict, reasons) = judge(&[], &[heard(0, 0), heard(5, 1)]);
        assert_eq!(verdict, Verdict::Broken);
        assert_eq!(reasons.len(), 2, "{reasons:?}");
    }
}
