//! The report of one host's run.

use std::sync::Arc;

use rtwire_measure::clock_steps::ClockStep;
use rtwire_measure::noise::{NoiseRecord, Stall, Stalls};
use rtwire_measure::stamp_origin::StampOrigin;
use rtwire_measure::summary::Summary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::judge::{Circumstances, judge};
use super::recording::{EvidenceRow, limits};
use super::{NetworkTime, RunOptions};
use crate::evidence::taps::DelayWatch;
use crate::late_cycles::LateCycles;
use crate::outcome::{HostResult, ListenerResult, TalkerResult};
use crate::streams::frames_planned;
use crate::task::{Assignment, ListenerTask, Pattern, TalkerTask};

/// The verdict on one host's end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every talker sent in time, and no frame for a listener here is missing or seen to be late.
    Complete,
    /// Frames were lost, late, of another plan or beyond their contract. Or cycles were late, or a talker or listener ended
    /// early. `reasons` names them.
    Broken,
    /// This end cannot tell. Nothing was received, the run was interrupted, or the machine stalled. Or delays are beyond the
    /// promise, and the clocks or the talker's own call may be the reason.
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
    /// True if it was stopped before the duration that was asked for.
    #[serde(default)]
    pub interrupted: bool,
    /// The largest difference of this host's clock and another host's, ns; null if it is not known.
    #[serde(default)]
    pub clocks_differ_ns: Option<u64>,
    /// Place and clock of the hardware timestamps; null where the kernel and the receive program stamp.
    #[serde(default)]
    pub stamps: Option<StampOrigin>,
    /// The stalls of this machine during the run; null if they were not recorded.
    #[serde(default)]
    pub stalls: Option<StallCount>,
    /// The file of evidence; null without `--evidence`.
    #[serde(default)]
    pub evidence: Option<EvidenceRow>,
    /// The transmit path of RTDiP frames: qdisc, direct, xdp, launch, xdp-launch or uman.
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

/// The stalls of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StallCount {
    /// Their number.
    pub count: u64,
    /// The longest one, ns.
    pub longest_ns: u64,
    /// Those that found no room in the record.
    pub unrecorded: u64,
}

impl StallCount {
    fn of(noise: &NoiseRecord) -> Self {
        Self {
            count: noise.cores.iter().map(|core| core.stalls).sum(),
            longest_ns: noise.stalls.iter().map(Stall::length_ns).max().unwrap_or(0),
            unrecorded: noise.cores.iter().map(|core| core.dropped_stalls).sum(),
        }
    }
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
    /// The lateness of its thread's wake-ups, each against the time that it slept until; null where it has none.
    #[serde(default)]
    pub wake_late_ns: Option<Summary>,
    /// The kernel's transmit timestamps minus the instants of their frames; null where the transmit path has none.
    #[serde(default)]
    pub off_grid_ns: Option<Summary>,
    /// The card's transmit timestamps, converted to CLOCK_TAI, minus the instants of their frames; null without those.
    #[serde(default)]
    pub on_wire_ns: Option<Summary>,
    /// Frames that the card stamped; null if it was not asked.
    #[serde(default)]
    pub card_stamps: Option<u64>,
    /// The time before an instant at which its thread woke at last, to spin until then, ns; 0: it did not spin.
    #[serde(default)]
    pub spin_margin_ns: u64,
    /// The time that its thread spun, ns.
    #[serde(default)]
    pub spun_ns: u64,
    /// Processor time of its thread, ns.
    #[serde(default)]
    pub cpu_ns: u64,
    /// The lateness that the description allows, ns.
    pub tick_error_ns: u64,
    /// Times at which one or more cycles of a stream with an interval were later than that, or skipped.
    #[serde(default)]
    pub cycles_late: u64,
    /// Those of them that no recorded stall of the machine explains.
    #[serde(default)]
    pub cycles_unexplained: u64,
    /// True if those show a fault of the talker. A few short ones do not: the record of stalls does not show every short
    /// delay.
    #[serde(default)]
    pub cycles_are_proof: bool,
    /// True if there were more of them than were recorded.
    #[serde(default)]
    pub cycles_untold: bool,
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
    /// Arrivals of newest values that are unknown, because too many came while the listener was held up. Their delay is
    /// not in `delay_ns`.
    pub arrivals_missed: u64,
    /// Frames whose payload was altered on the way: its checksum is wrong.
    pub frames_corrupted: u64,
    /// Frames whose payload carries no checksum: the values of a program at the talker.
    pub frames_unchecked: u64,
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
    /// The deadline, ns.
    #[serde(default)]
    pub deadline_ns: Option<u64>,
    /// Frames that took longer than the promise and the difference of the clocks, where that is known.
    #[serde(default)]
    pub frames_beyond_promise: u64,
    /// Frames that took longer than the deadline and that difference.
    #[serde(default)]
    pub frames_beyond_deadline: u64,
    /// Those of them that no recorded stall of this machine explains.
    #[serde(default)]
    pub frames_late_unexplained: u64,
    /// Frames that arrived before they were sent, by more than that difference.
    #[serde(default)]
    pub frames_contradicting: u64,
    /// The reason for an early end.
    pub fault: Option<String>,
}

/// Returns the JSON Schema of [`RunReport`], as it is committed in `schema/run.schema.json`.
#[must_use]
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(RunReport).to_value()
}

/// The outcome of a run beside the results of its threads.
pub(super) struct Ran<'a> {
    pub(super) receive_work: String,
    pub(super) missing: Vec<String>,
    pub(super) started_tai_ns: u64,
    pub(super) duration_ns: u64,
    pub(super) interrupted: bool,
    pub(super) noise: Option<&'a NoiseRecord>,
    pub(super) delays: &'a [Arc<DelayWatch>],
    pub(super) clocks_ns: Option<u64>,
    pub(super) clock_steps: Vec<ClockStep>,
    pub(super) evidence: Option<EvidenceRow>,
}

pub(super) fn assemble(
    options: &RunOptions,
    assignment: &Assignment,
    result: HostResult,
    ran: Ran<'_>,
) -> RunReport {
    let doubted: Vec<String> = ran
        .noise
        .map_or(Vec::new(), |noise| noise.lost_scheduling().collect());
    let stalls = trusted(ran.noise);
    let talkers = assignment.talkers.iter().zip(result.talkers);
    let talkers: Vec<TalkerRow> = talkers
        .map(|(task, result)| talker(options, task, result, ran.duration_ns, &stalls))
        .collect();
    let listeners = assignment.listeners.iter().zip(result.listeners);
    let listeners: Vec<ListenerRow> = listeners
        .zip(ran.delays)
        .map(|((task, result), delays)| listener(options, task, result, delays, &stalls))
        .collect();
    let count = ran.noise.map(StallCount::of);
    let asked_ns = options.duration.map_or(0, crate::streams::ns);
    let circumstances = Circumstances {
        clocks_ns: ran.clocks_ns,
        interrupted: ran.interrupted.then_some((ran.duration_ns, asked_ns)),
        noise: ran.noise.is_some(),
        noise_doubted: &doubted,
        noise_full: count.is_some_and(|count| count.unrecorded > 0),
        clock_steps: &ran.clock_steps,
    };
    let (verdict, reasons) = judge(&talkers, &listeners, &circumstances);
    RunReport {
        format: 1,
        network: options.plan.network.name.clone(),
        plan_hash: options.plan.input_hash.clone(),
        plan_id: options.plan.plan_id.clone(),
        epoch: options.plan.epoch,
        host: options.host.clone(),
        interface: options.interface.clone(),
        started_tai_ns: ran.started_tai_ns,
        #[allow(clippy::cast_precision_loss)] // shown to a millisecond
        duration_s: ran.duration_ns as f64 / 1e9,
        interrupted: ran.interrupted,
        clocks_differ_ns: ran.clocks_ns,
        stamps: None,
        stalls: count,
        evidence: ran.evidence,
        path: options.session.path.to_string(),
        receive_work: ran.receive_work,
        missing: ran.missing,
        verdict,
        reasons,
        time: None,
        talkers,
        listeners,
        strays: result.strays,
    }
}

/// Returns the stalls of a record that may excuse something: none if a thread of it lost its scheduling.
fn trusted(noise: Option<&NoiseRecord>) -> Stalls {
    noise
        .filter(|noise| noise.lost_scheduling().next().is_none())
        .map(Stalls::of)
        .unwrap_or_default()
}

fn talker(
    options: &RunOptions,
    task: &TalkerTask,
    result: TalkerResult,
    duration_ns: u64,
    stalls: &Stalls,
) -> TalkerRow {
    let interval_ns = match task.pattern {
        Pattern::Cyclic { interval_ns } => Some(interval_ns),
        _ => None,
    };
    let late = result.stalls.iter().map(|late| (late.due_ns, late.woke_ns));
    let cycles = LateCycles::of(
        (interval_ns, task.tick_error_ns),
        late,
        result.ticks_skipped,
        stalls,
    );
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
        wake_late_ns: result.wake_late,
        off_grid_ns: result.off_grid,
        on_wire_ns: result.on_wire,
        card_stamps: result.card_stamps,
        spin_margin_ns: result.margin_ns,
        spun_ns: result.spun_ns,
        cpu_ns: result.cpu_ns,
        tick_error_ns: task.tick_error_ns,
        cycles_late: cycles.late,
        cycles_unexplained: cycles.unexplained,
        cycles_are_proof: cycles.is_proof(result.frames_sent + result.ticks_skipped),
        cycles_untold: cycles.untold,
        fault: result.fault,
    }
}

fn listener(
    options: &RunOptions,
    task: &ListenerTask,
    result: ListenerResult,
    delays: &DelayWatch,
    stalls: &Stalls,
) -> ListenerRow {
    let (promise_ns, deadline_ns) = limits(options, task);
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
        arrivals_missed: result.arrivals_missed,
        frames_corrupted: result.frames_corrupted,
        frames_unchecked: result.frames_unchecked,
        socket_drops: result.socket_drops,
        frames_policed: result.frames_policed,
        frames_foreign: result.frames_foreign,
        frames_too_long: result.frames_too_long,
        frames_too_frequent: result.frames_too_frequent,
        talker_restarts: result.restarts,
        delay_ns: result.delay,
        frames_before_sent: result.before_sent,
        promise_ns,
        deadline_ns,
        frames_beyond_promise: delays.beyond_promise(),
        frames_beyond_deadline: delays.beyond_deadline(),
        frames_late_unexplained: delays
            .unexplained(|sent, came, limit| stalls.explain(sent, came, limit)),
        frames_contradicting: delays.before_sent(),
        fault: result.fault,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use rtwire_measure::noise::{CoreNoise, StallSource};

    use super::*;

    #[test]
    fn a_record_of_demoted_threads_excuses_nothing() {
        let core = CoreNoise {
            core: 0,
            policy: "SCHED_FIFO".to_owned(),
            priority: 90,
            policy_at_end: "SCHED_FIFO".to_owned(),
            priority_at_end: 90,
            fallback: None,
            overshoot_ns: None,
            histogram: Vec::new(),
            steal_ns: 0,
            stalls: 1,
            stalled_ns: 50,
            dropped_stalls: 0,
        };
        let mut noise = NoiseRecord {
            stalls: vec![Stall {
                source: StallSource::Core(0),
                alive_ns: 100,
                due_ns: 100,
                woke_ns: 150,
            }],
            cores: vec![core],
            ..NoiseRecord::default()
        };
        assert_eq!(trusted(Some(&noise)).count(), 1);
        noise.cores[0].policy_at_end = "SCHED_OTHER".to_owned();
        assert_eq!(trusted(Some(&noise)), Stalls::default());
        assert_eq!(trusted(None), Stalls::default());
    }

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
            interrupted: false,
            clocks_differ_ns: None,
            stamps: None,
            stalls: None,
            evidence: None,
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

    pub(in crate::run) fn heard(received: u64, lost: u64) -> ListenerRow {
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
            arrivals_missed: 0,
            frames_corrupted: 0,
            frames_unchecked: 0,
            socket_drops: 0,
            frames_policed: 0,
            frames_foreign: 0,
            frames_too_long: 0,
            frames_too_frequent: 0,
            talker_restarts: 0,
            delay_ns: None,
            frames_before_sent: 0,
            promise_ns: None,
            deadline_ns: None,
            frames_beyond_promise: 0,
            frames_beyond_deadline: 0,
            frames_late_unexplained: 0,
            frames_contradicting: 0,
            fault: None,
        }
    }

    pub(in crate::run) fn said() -> TalkerRow {
        TalkerRow {
            stream: "a".to_owned(),
            priority: 7,
            realtime: 80,
            frames_sent: 5,
            frames_planned: Some(5),
            ticks_skipped: 0,
            frames_refused: 0,
            lateness_ns: None,
            wake_late_ns: None,
            off_grid_ns: None,
            on_wire_ns: None,
            card_stamps: None,
            spin_margin_ns: 0,
            spun_ns: 0,
            cpu_ns: 0,
            tick_error_ns: 1_000,
            cycles_late: 0,
            cycles_unexplained: 0,
            cycles_are_proof: false,
            cycles_untold: false,
            fault: None,
        }
    }
}
