//! What one host saw of its streams.

use rtwire_measure::summary::Summary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NetworkTime, StationOptions};
use crate::assignment::{
    Assignment, HostResult, ListenerResult, ListenerTask, Pattern, TalkerResult, TalkerTask,
    TransmitPath,
};
use crate::tasks::frames_planned;

/// What one host's end of a run comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every talker sent, and nothing that was sent to a listener here is missing.
    Complete,
    /// Frames were lost, or a talker or listener ended early; `reasons` says where.
    Broken,
    /// A listener got nothing at all: its talker may not have run.
    Inconclusive,
}

/// What `rtwire run` reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "rtwire run")]
pub struct StationReport {
    /// The version of this format: 1.
    pub format: u32,
    /// The network's name.
    pub network: String,
    /// The fingerprint of its description.
    pub plan_hash: String,
    /// Which host this was.
    pub host: String,
    /// Its interface.
    pub interface: String,
    /// When the talkers began, ns of CLOCK_TAI.
    pub started_tai_ns: u64,
    /// How long they sent, seconds.
    pub duration_s: f64,
    /// The way out of RTDiP frames.
    pub path: TransmitPath,
    /// Who did the receive work.
    pub receive_work: String,
    /// What it comes to.
    pub verdict: Verdict,
    /// Why.
    pub reasons: Vec<String>,
    /// Whether this host had the network's time meanwhile; null where nothing hangs on it.
    #[serde(default)]
    pub time: Option<NetworkTime>,
    /// What was sent from here.
    pub talkers: Vec<TalkerRow>,
    /// What was received here.
    pub listeners: Vec<ListenerRow>,
    /// Frames that belonged to no channel here, by reason.
    pub strays: Vec<(String, u64)>,
}

/// One stream at its talker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TalkerRow {
    /// The stream.
    pub stream: String,
    /// Its priority (PCP).
    pub priority: u8,
    /// SCHED_FIFO priority of its thread.
    pub realtime: u8,
    /// Frames sent.
    pub frames_sent: u64,
    /// Frames that the description asks for in that time; null where it asks for as many as possible.
    pub frames_planned: Option<u64>,
    /// Ticks skipped since the next was due already.
    pub ticks_skipped: u64,
    /// Frames that the interface's own queue had no room for.
    pub frames_refused: u64,
    /// How late its ticks were; null where it has none.
    pub lateness_ns: Option<Summary>,
    /// How late they may be by the description, ns.
    pub tick_error_ns: u64,
    /// What ended it early.
    pub fault: Option<String>,
}

/// One stream at a listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListenerRow {
    /// The stream.
    pub stream: String,
    /// Whether it is best effort: then nothing was promised, and nothing is broken by a loss.
    pub best_effort: bool,
    /// SCHED_FIFO priority of its thread.
    pub realtime: u8,
    /// The way its frames came: `native` or `generic` (the receive program), `packet` or `datagrams` (sockets), and behind
    /// it why not another.
    pub receive_path: String,
    /// Different frames received.
    pub frames_received: u64,
    /// Numbers that did not come.
    pub frames_lost: u64,
    /// Frames that came twice.
    pub frames_duplicated: u64,
    /// Frames that came behind a later one.
    pub frames_reordered: u64,
    /// Values overtaken by newer ones before they were read (newest-value streams).
    pub frames_overtaken: u64,
    /// Frames that the kernel had no room for here.
    pub socket_drops: u64,
    /// Frames dropped here since they were beyond the stream's contract (`--police`).
    pub frames_policed: u64,
    /// How often its talker began again.
    pub talker_restarts: u64,
    /// From the talker's time stamp to the kernel's here: as true as the two hosts' clocks agree.
    pub delay_ns: Option<Summary>,
    /// Frames that came before they were sent, by those clocks: they do not agree then.
    pub frames_before_sent: u64,
    /// What the plan promises, from entering the talker's transmit queue, ns.
    pub promise_ns: Option<u64>,
    /// What ended it early.
    pub fault: Option<String>,
}

/// The JSON Schema of [`StationReport`], as it is committed in `schema/run.schema.json`.
#[must_use]
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(StationReport).to_value()
}

pub(super) fn assemble(
    options: &StationOptions,
    assignment: &Assignment,
    result: HostResult,
    receive_work: String,
    (started_tai_ns, duration_ns): (u64, u64),
) -> StationReport {
    let talkers = assignment.talkers.iter().zip(result.talkers);
    let talkers: Vec<TalkerRow> = talkers
        .map(|(task, result)| talker(options, task, result, duration_ns))
        .collect();
    let listeners = assignment.listeners.iter().zip(result.listeners);
    let listeners: Vec<ListenerRow> = listeners
        .map(|(task, result)| listener(options, task, result))
        .collect();
    let (verdict, reasons) = judge(&talkers, &listeners);
    StationReport {
        format: 1,
        network: options.network.name.clone(),
        plan_hash: options.plan.input_hash.clone(),
        host: options.host.clone(),
        interface: options.interface.clone(),
        started_tai_ns,
        #[allow(clippy::cast_precision_loss)] // shown to a millisecond
        duration_s: duration_ns as f64 / 1e9,
        path: options.path,
        receive_work,
        verdict,
        reasons,
        time: None,
        talkers,
        listeners,
        strays: result.strays,
    }
}

fn talker(
    options: &StationOptions,
    task: &TalkerTask,
    result: TalkerResult,
    duration_ns: u64,
) -> TalkerRow {
    let stream = options.network.streams.get(task.stream);
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

fn listener(options: &StationOptions, task: &ListenerTask, result: ListenerResult) -> ListenerRow {
    let planned = options.plan.streams.get(task.stream);
    let promise = planned
        .and_then(|plan| plan.promises.iter().find(|p| p.listener == options.host))
        .and_then(|promise| promise.delay_ns);
    ListenerRow {
        stream: task.name.clone(),
        best_effort: task.stream >= options.network.streams.len(),
        realtime: task.realtime,
        receive_path: result.path,
        frames_received: result.frames_received,
        frames_lost: result.frames_lost,
        frames_duplicated: result.frames_duplicated,
        frames_reordered: result.frames_reordered,
        frames_overtaken: result.frames_overtaken,
        socket_drops: result.socket_drops,
        frames_policed: result.frames_policed,
        talker_restarts: result.restarts,
        delay_ns: result.delay,
        frames_before_sent: result.before_sent,
        promise_ns: promise,
        fault: result.fault,
    }
}

/// What this end can know: nothing here is judged that only both ends together show.
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
    pub(in crate::station) fn empty() -> StationReport {
        StationReport {
            format: 1,
            network: String::new(),
            plan_hash: String::new(),
            host: String::new(),
            interface: String::new(),
            started_tai_ns: 0,
            duration_s: 0.0,
            path: TransmitPath::Qdisc,
            receive_work: String::new(),
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
            talker_restarts: 0,
            delay_ns: None,
            frames_before_sent: 0,
            promise_ns: None,
            fault: None,
        }
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
