//! The results beside the promises, as data: the form of `rtwire simulate --json`.

use rtwire_plan::{Plan, Promise};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{MeterModel, Model};
pub use crate::report_recovered::{BrokenLink, RecoveredReport};
use crate::scenario::Scenario;
use crate::simulator::Simulator;

/// The version of the report's format.
pub const REPORT_VERSION: u32 = 1;

/// The outcome of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// No promise was exceeded and no frame was lost.
    Kept,
    /// A promise was exceeded, or a frame was lost.
    Broken,
}

/// A simulation's report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// [`REPORT_VERSION`].
    pub version: u32,
    /// The network's name.
    pub network: String,
    /// The network's fingerprint.
    pub input_hash: String,
    /// The outcome.
    pub outcome: Outcome,
    /// The seed of the random numbers: the same seed produces the same report.
    pub seed: u64,
    /// The pattern by which sources sent.
    pub pattern: String,
    /// Time during which sources sent, ns.
    pub duration_ns: u64,
    /// Number of simulations, including those of the search.
    pub simulations: u64,
    /// Number of transmissions by ports in all simulations.
    pub frame_hops: u64,
    /// Each stream at each listener, then each best-effort allowance at each receiver.
    pub streams: Vec<StreamReport>,
    /// Each redundant stream, recovered from both of its copies at its listener.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recovered: Vec<RecoveredReport>,
    /// The links that were broken in the plain simulation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken_links: Vec<BrokenLink>,
    /// The streams and allowances whose talkers went wrong in the plain simulation. Nothing is promised to their hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub babbling: Vec<String>,
    /// The flow meters of switches, in the plan's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meters: Vec<MeterReport>,
    /// Each port that sent something, in the plan's order.
    pub ports: Vec<PortReport>,
    /// The worst schedule that the search found for each promise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub witnesses: Vec<Witness>,
    /// The plan's warnings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// As [`Model::rounding_ps`]: a delay is above its promise only if it is by more.
    #[serde(skip)]
    pub rounding_ps: u64,
}

/// A stream at one listener. Counts and quantiles are from the plain simulation, the worst case from all simulations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamReport {
    /// Name of the stream or allowance.
    pub name: String,
    /// Name of the listener.
    pub listener: String,
    /// True for a best-effort allowance, which has no promise.
    pub best_effort: bool,
    /// Frames that the talker sent.
    pub frames_sent: u64,
    /// Frames that arrived.
    pub frames_received: u64,
    /// Frames that did not arrive.
    pub frames_lost: u64,
    /// Frames that a broken link lost on the way to this listener: no fault of the plan.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub frames_cut: u64,
    /// Largest delay, picoseconds; null if nothing arrived.
    pub worst_delay_ps: Option<u64>,
    /// Median delay, nanoseconds, rounded up by at most 1.6 %.
    pub p50_delay_ns: Option<u64>,
    /// 99th percentile of the delay, nanoseconds, rounded up by at most 1.6 %.
    pub p99_delay_ns: Option<u64>,
    /// 99.9th percentile of the delay, nanoseconds, rounded up by at most 1.6 %.
    pub p999_delay_ns: Option<u64>,
    /// The plan's promise, nanoseconds; null if there is none.
    pub promised_delay_ns: Option<u64>,
    /// The worst case in thousandths of the promise, rounded up.
    pub used_permille: Option<u64>,
    /// Jitter of the plain simulation (largest minus least delay), picoseconds, if the plan bounds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_ps: Option<u64>,
    /// The plan's bound on the jitter, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised_jitter_ns: Option<u64>,
    /// True if the worst case or the jitter exceeds the promise.
    pub violated: bool,
    /// True if its host babbled: then it is not judged.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unjudged: bool,
}

/// A flow meter of a switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MeterReport {
    /// The switch.
    pub switch: String,
    /// The stream or allowance.
    pub flow: String,
    /// Frames that passed.
    pub frames_passed: u64,
    /// Frames that were discarded.
    pub frames_discarded: u64,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortReport {
    /// The sending node.
    pub node: String,
    /// The neighbour that it sends to.
    pub port: String,
    /// Largest backlog, bytes on the wire, rounded up.
    pub highest_backlog_bytes: u64,
    /// Largest number of frames at once, including the one being sent.
    pub highest_backlog_frames: u64,
    /// The plan's bound on the backlog, bytes.
    pub promised_backlog_bytes: Option<u64>,
    /// The plan's bound on the backlog, frames.
    pub promised_backlog_frames: Option<u64>,
    /// The highest backlog in thousandths of the promised one, rounded up.
    pub used_permille: Option<u64>,
    /// Frames dropped because the memory was full.
    pub frames_dropped: u64,
    /// Scheduled frames that were not sent at the start of their window.
    #[serde(default)]
    pub frames_off_window: u64,
    /// True if a backlog or a class's delay exceeds its bound.
    pub violated: bool,
    /// Each class for which the plan has a bound.
    pub classes: Vec<ClassReport>,
}

/// A class at a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClassReport {
    /// Its number; a larger one is more urgent.
    pub class: u8,
    /// Largest time from arrival at the port to the last bit on the link, picoseconds.
    pub worst_delay_ps: u64,
    /// The plan's bound, nanoseconds.
    pub promised_delay_ns: Option<u64>,
    /// True if the largest time exceeds the bound.
    pub violated: bool,
}

/// The worst schedule found for one promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Witness {
    /// The stream.
    pub stream: String,
    /// The listener.
    pub listener: String,
    /// Its delay, picoseconds.
    pub delay_ps: u64,
    /// The delay in thousandths of the promise, rounded up; null without a promise.
    pub used_permille: Option<u64>,
    /// The number of the simulation in the search, from 1. A search of at least this many simulations with the same
    /// seed finds it again.
    pub simulation: u64,
    /// The schedule. Its simulation reproduces the delay.
    pub scenario: Scenario,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// Returns `seen` in thousandths of `promised`, rounded up.
fn permille(seen: u64, promised: u64) -> u64 {
    let thousandths = (u128::from(seen) * 1000).div_ceil(u128::from(promised.max(1)));
    u64::try_from(thousandths).unwrap_or(u64::MAX)
}

pub(crate) fn permille_of_ns(seen_ps: u64, promised_ns: u64) -> u64 {
    permille(seen_ps, promised_ns.saturating_mul(1000))
}

/// Returns the promise for a stream's listener.
fn promise<'a>(plan: &'a Plan, stream: &str, listener: &str) -> Option<&'a Promise> {
    let stream = plan.streams.iter().find(|plan| plan.name == stream)?;
    let mut promises = stream.promises.iter();
    promises.find(|promise| promise.listener == listener)
}

pub(crate) fn promise_ns(plan: &Plan, stream: &str, listener: &str) -> Option<u64> {
    promise(plan, stream, listener)?.delay_ns
}

impl Report {
    /// Creates a report of what `simulator` saw in `scenario`, beside the plan's promises.
    #[must_use]
    pub fn new(
        model: &Model,
        simulator: &Simulator<'_>,
        scenario: &Scenario,
        pattern: &str,
        plan: &Plan,
    ) -> Report {
        let babbling = || {
            scenario
                .babbling
                .iter()
                .filter_map(|at| model.flows.get(*at))
        };
        let babbles = |host: &str| {
            let mut hosts = babbling().map(|flow| &model.hosts[flow.host as usize]);
            hosts.any(|one| one == host)
        };
        let meters = model.meters.iter().zip(simulator.meters());
        let meters = meters.map(|(meter, seen): (&MeterModel, _)| MeterReport {
            switch: meter.switch.clone(),
            flow: model.flows[meter.flow as usize].name.clone(),
            frames_passed: seen.passed,
            frames_discarded: seen.discarded,
        });
        let mut report = Report {
            version: REPORT_VERSION,
            network: model.name.clone(),
            input_hash: model.input_hash.clone(),
            outcome: Outcome::Kept,
            seed: scenario.seed,
            pattern: pattern.to_owned(),
            duration_ns: scenario.duration_ps / 1000,
            simulations: 1,
            frame_hops: simulator.frame_hops(),
            streams: Vec::new(),
            recovered: RecoveredReport::all(model, simulator, plan),
            broken_links: BrokenLink::all(model, scenario),
            babbling: babbling().map(|flow| flow.name.clone()).collect(),
            meters: meters.collect(),
            ports: Vec::new(),
            witnesses: Vec::new(),
            warnings: plan.warnings.clone(),
            rounding_ps: model.rounding_ps(),
        };
        for (listener, seen) in model.listeners.iter().zip(simulator.listeners()) {
            let flow = &model.flows[listener.flow as usize];
            let sent = simulator.sent()[listener.flow as usize];
            let quantile = |permille| seen.quantile_ps(permille).map(|ps| ps.div_ceil(1000));
            report.streams.push(StreamReport {
                name: flow.name.clone(),
                listener: listener.name.clone(),
                best_effort: flow.best_effort,
                frames_sent: sent,
                frames_received: seen.received,
                frames_lost: sent.saturating_sub(seen.received),
                frames_cut: seen.cut,
                worst_delay_ps: (seen.judged > 0).then_some(seen.worst_ps),
                p50_delay_ns: quantile(500),
                p99_delay_ns: quantile(990),
                p999_delay_ns: quantile(999),
                promised_delay_ns: if flow.best_effort {
                    None
                } else {
                    promise_ns(plan, &flow.name, &listener.name)
                },
                used_permille: None,
                jitter_ps: None,
                promised_jitter_ns: promise(plan, &flow.name, &listener.name)
                    .filter(|_| !flow.best_effort)
                    .and_then(|promise| promise.jitter_ns),
                violated: false,
                unjudged: babbles(&model.hosts[flow.host as usize]),
            });
        }
        for (index, port) in model.ports.iter().enumerate() {
            let bound = plan
                .ports
                .iter()
                .find(|bound| bound.node == port.node && bound.port == port.to)
                .filter(|bound| !babbles(&bound.node));
            if !model.edges.iter().any(|edge| edge.port as usize == index) {
                continue;
            }
            let classes = bound.map_or(&[][..], |bound| &bound.classes);
            report.ports.push(PortReport {
                node: port.node.clone(),
                port: port.to.clone(),
                highest_backlog_bytes: 0,
                highest_backlog_frames: 0,
                promised_backlog_bytes: bound.and_then(|bound| bound.backlog_bytes),
                promised_backlog_frames: bound.and_then(|bound| bound.backlog_frames),
                used_permille: None,
                frames_dropped: 0,
                frames_off_window: 0,
                violated: false,
                classes: classes
                    .iter()
                    .map(|class| ClassReport {
                        class: class.class,
                        worst_delay_ps: 0,
                        promised_delay_ns: class.delay_ns,
                        violated: false,
                    })
                    .collect(),
            });
        }
        report.include(model, simulator);
        report.judge();
        report
    }

    /// Adds the extremes of another simulation of the same network. [`Report::judge`] must follow.
    pub(crate) fn include(&mut self, model: &Model, simulator: &Simulator<'_>) {
        for (stream, seen) in self.streams.iter_mut().zip(simulator.listeners()) {
            if seen.judged > 0 {
                stream.worst_delay_ps = stream.worst_delay_ps.max(Some(seen.worst_ps));
                if stream.promised_jitter_ns.is_some() {
                    let jitter_ps = seen.worst_ps - seen.least_ps;
                    stream.jitter_ps = stream.jitter_ps.max(Some(jitter_ps));
                }
            }
        }
        for (stream, (_, seen)) in self.recovered.iter_mut().zip(simulator.recoveries()) {
            stream.include(seen);
        }
        let mut reports = self.ports.iter_mut().peekable();
        for (index, model) in model.ports.iter().enumerate() {
            let named = |port: &&mut PortReport| port.node == model.node && port.port == model.to;
            let Some(port) = reports.next_if(named) else {
                continue;
            };
            let Some(seen) = simulator.port(index) else {
                continue;
            };
            let bytes = seen.backlog_bits.div_ceil(8);
            port.highest_backlog_bytes = port.highest_backlog_bytes.max(bytes);
            port.highest_backlog_frames = port.highest_backlog_frames.max(seen.backlog_frames);
            port.frames_dropped += seen.dropped;
            port.frames_off_window += seen.off_window;
            for class in &mut port.classes {
                let worst = seen.class_delay_ps.get(usize::from(class.class));
                class.worst_delay_ps = class.worst_delay_ps.max(worst.copied().unwrap_or(0));
            }
        }
    }

    /// Compares all results with the promises.
    pub(crate) fn judge(&mut self) {
        let mut broken = false;
        let rounding_ps = self.rounding_ps;
        let limit_ps =
            |promised_ns: u64| promised_ns.saturating_mul(1000).saturating_add(rounding_ps);
        for stream in self.streams.iter_mut().filter(|it| !it.unjudged) {
            let worst = stream.worst_delay_ps.unwrap_or(0);
            if let Some(promised) = stream.promised_delay_ns {
                stream.used_permille = Some(permille_of_ns(worst, promised));
                stream.violated = worst > limit_ps(promised);
            }
            if let (Some(jitter_ps), Some(promised)) = (stream.jitter_ps, stream.promised_jitter_ns)
            {
                stream.violated |= jitter_ps > limit_ps(promised);
            }
            broken |= stream.violated || stream.frames_lost > stream.frames_cut;
        }
        for stream in &mut self.recovered {
            stream.judge(rounding_ps);
            let mut own = self.streams.iter();
            stream.violated &= !own.any(|it| it.unjudged && it.name == stream.stream);
            broken |= stream.violated;
        }
        for port in &mut self.ports {
            port.violated = port
                .promised_backlog_bytes
                .is_some_and(|bytes| port.highest_backlog_bytes > bytes)
                || port
                    .promised_backlog_frames
                    .is_some_and(|frames| port.highest_backlog_frames > frames);
            port.used_permille = port
                .promised_backlog_bytes
                .map(|bytes| permille(port.highest_backlog_bytes, bytes));
            for class in &mut port.classes {
                class.violated = class
                    .promised_delay_ns
                    .is_some_and(|ns| class.worst_delay_ps > limit_ps(ns));
                port.violated |= class.violated;
            }
            broken |= port.violated || port.frames_dropped > 0 || port.frames_off_window > 0;
        }
        self.outcome = if broken {
            Outcome::Broken
        } else {
            Outcome::Kept
        };
    }
}

impl Witness {
    pub(crate) fn used(delay_ps: u64, promised_ns: Option<u64>) -> Option<u64> {
        promised_ns.map(|ns| permille_of_ns(delay_ps, ns))
    }
}

/// Returns the JSON Schema of a report.
#[must_use]
pub fn report_schema() -> schemars::Schema {
    let mut schema = schemars::schema_for!(Report);
    schema.insert("title".to_owned(), "rtwire simulate".into());
    schema
}
