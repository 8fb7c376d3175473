//! The part of a report about redundant streams and broken links.

use rtwire_plan::{Plan, Recovery};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::Model;
use crate::recovery::RecoverySeen;
use crate::report::permille_of_ns;
use crate::scenario::Scenario;
use crate::simulator::Simulator;

/// A redundant stream behind the recovery function of its listener, which has the history and the timer of the plan.
///
/// Counts of sent, recovered and lost frames are from the plain simulation, all others from all simulations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecoveredReport {
    /// The stream.
    pub stream: String,
    /// The listener.
    pub listener: String,
    /// Frames that the talker sent, each counted once.
    pub frames_sent: u64,
    /// Frames that the recovery function passed on, each counted once.
    pub frames_recovered: u64,
    /// Frames that it did not pass on.
    pub frames_lost: u64,
    /// Frames that it passed on twice.
    pub frames_twice: u64,
    /// Frames that it passed on behind a later one.
    pub frames_out_of_order: u64,
    /// Frames that it discarded because their number was out of its window.
    pub frames_rogue: u64,
    /// The history of the vector recovery algorithm, sequence numbers.
    pub history_length: u32,
    /// Largest delay of a frame that was passed on, picoseconds; null if there was none.
    pub worst_delay_ps: Option<u64>,
    /// The plan's promise, nanoseconds.
    pub promised_delay_ns: u64,
    /// The largest delay in thousandths of the promise, rounded up.
    pub used_permille: Option<u64>,
    /// Most frames that waited at once for an earlier one, if they were handed over in order.
    pub frames_waiting: u64,
    /// The plan's bound on them.
    pub promised_frames_waiting: u64,
    /// True if a frame was lost, was passed twice or was later than promised, or more frames waited than promised.
    pub violated: bool,
}

/// A link that was broken for a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BrokenLink {
    /// The node that sends.
    pub node: String,
    /// The neighbour.
    pub port: String,
    /// Begin, nanoseconds, rounded down.
    pub from_ns: u64,
    /// End, nanoseconds, rounded up; null if it was not repaired while sources sent.
    pub until_ns: Option<u64>,
}

impl RecoveredReport {
    /// Returns the redundant streams of a simulation.
    pub(crate) fn all(
        model: &Model,
        simulator: &Simulator<'_>,
        plan: &Plan,
    ) -> Vec<RecoveredReport> {
        let all = model.recoveries.iter().zip(simulator.recoveries());
        let found = all.filter_map(|(model, (name, seen))| {
            let planned = plan.streams.get(model.flow as usize)?;
            let recovery: &Recovery = planned.recovery.as_ref()?;
            Some(RecoveredReport {
                stream: name.to_owned(),
                listener: recovery.listener.clone(),
                frames_sent: seen.sent,
                frames_recovered: seen.recovered,
                frames_lost: seen.sent.saturating_sub(seen.recovered),
                frames_twice: 0,
                frames_out_of_order: 0,
                frames_rogue: 0,
                history_length: recovery.history_length,
                worst_delay_ps: None,
                promised_delay_ns: recovery.delay_ns,
                used_permille: None,
                frames_waiting: 0,
                promised_frames_waiting: recovery.resequencing_frames,
                violated: seen.recovered < seen.sent,
            })
        });
        found.collect()
    }

    /// Adds the results of a simulation.
    pub(crate) fn include(&mut self, seen: &RecoverySeen) {
        self.frames_twice += seen.twice;
        self.frames_out_of_order += seen.out_of_order;
        self.frames_rogue += seen.rogue;
        self.frames_waiting = self.frames_waiting.max(seen.waiting);
        self.violated |= seen.recovered < seen.sent;
        if seen.recovered > 0 {
            self.worst_delay_ps = self.worst_delay_ps.max(Some(seen.worst_ps));
        }
    }

    /// Compares the results with the promise. The simulation may be later by `rounding_ps`.
    pub(crate) fn judge(&mut self, rounding_ps: u64) {
        let limit_ps = self.promised_delay_ns.saturating_mul(1_000);
        let limit_ps = limit_ps.saturating_add(rounding_ps);
        let worst = self.worst_delay_ps;
        self.used_permille = worst.map(|worst| permille_of_ns(worst, self.promised_delay_ns));
        self.violated |= self.frames_twice > 0
            || self.frames_waiting > self.promised_frames_waiting
            || worst.is_some_and(|worst| worst > limit_ps);
    }
}

impl BrokenLink {
    /// Returns the broken links of a scenario.
    pub(crate) fn all(model: &Model, scenario: &Scenario) -> Vec<BrokenLink> {
        let broken = scenario.breaks.iter().filter_map(|one| {
            let port = model.ports.get(one.port)?;
            Some(BrokenLink {
                node: port.node.clone(),
                port: port.to.clone(),
                from_ns: one.from_ps / 1_000,
                until_ns: (one.until_ps <= scenario.duration_ps)
                    .then_some(one.until_ps.div_ceil(1_000)),
            })
        });
        broken.collect()
    }
}
