//! How everything behaves within what the description allows: one scenario is one simulation, to the last picosecond.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::model::{Binding, Model};
use crate::random::Random;

/// How a source sends. All conform to the source's contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// The whole burst at once and as early as may be, then at the rate.
    Greedy,
    /// Evenly, each frame late by chance within the tick error.
    Periodic,
    /// Bursts, pauses and sizes by chance.
    Random,
    /// As the real shaper does: at ticks of T_s, each late by chance within the tick error. Best effort: random.
    Shaped,
}

/// How a port uses the latency that it is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Lateness {
    /// Not at all.
    Prompt,
    /// A switch begins each busy period by all of it; a host holds what it sends in that time and hands it over at once.
    BusyStart,
    /// Each frame waits for all of it before it may be chosen, as in a pipeline.
    Pipeline,
    /// By chance: a switch at the start of each busy period, a host for each frame.
    Random,
}

/// One source's behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Behaviour {
    /// How it sends.
    pub pattern: Pattern,
    /// When it starts, picoseconds.
    pub phase_ps: u64,
    /// It pauses once before its frame of this number, from 1; 0: never.
    pub gap_before: u32,
    /// How long it pauses, picoseconds.
    pub gap_ps: u64,
}

impl Behaviour {
    /// `pattern` from `phase_ps` on, without a pause.
    #[must_use]
    pub const fn new(pattern: Pattern, phase_ps: u64) -> Behaviour {
        Behaviour {
            pattern,
            phase_ps,
            gap_before: 0,
            gap_ps: 0,
        }
    }
}

/// Everything that a simulation depends on beside the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Scenario {
    /// What chance is drawn from.
    pub seed: u64,
    /// Sources stop after this time, picoseconds; what is under way then still arrives.
    pub duration_ps: u64,
    /// By flow: streams in the order of the description, then best-effort allowances.
    pub sources: Vec<Behaviour>,
    /// By port, in the order of the plan's ports.
    pub lateness: Vec<Lateness>,
    /// By host: how much faster its clock runs, parts per million.
    pub drift_ppm: Vec<i32>,
    /// The flow whose frames come last among those of one instant.
    pub last_at_ties: Option<usize>,
    /// Clocks that gates and launches follow: of hosts, then of switches, in the order of the description. None: all exact.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clocks: Vec<Clock>,
}

/// Clocks by chance within the error that a description allows; `far` puts each at a limit.
pub(crate) fn clocks(model: &Model, random: &mut Random, far: bool) -> Vec<Clock> {
    // Two picoseconds are kept back: instants are rounded up to whole ones at both ends.
    let limit_ps = model.clock_error_ps.saturating_sub(2);
    if limit_ps == 0 {
        return Vec::new();
    }
    let limit = i64::try_from(limit_ps).unwrap_or(i64::MAX / 2);
    let wide = limit_ps.saturating_mul(2);
    let nodes = model.nodes.iter();
    nodes
        .map(|_| {
            let error_ps = if far {
                if random.once_in(2) { limit } else { -limit }
            } else {
                i64::try_from(random.up_to(wide)).unwrap_or(0) - limit
            };
            let drift_ppm = if far {
                0
            } else {
                i32::try_from(random.up_to(200)).unwrap_or(0) - 100
            };
            Clock {
                error_ps,
                drift_ppm,
                limit_ps,
            }
        })
        .collect()
}

/// What sources do when nobody says more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PatternChoice {
    /// All [`Pattern::Greedy`], together, with ports as late as they may be.
    Greedy,
    /// All [`Pattern::Periodic`] with phases by chance.
    Periodic,
    /// All [`Pattern::Random`].
    Random,
    /// All [`Pattern::Shaped`] with phases by chance.
    Shaped,
    /// Each one of the four by chance.
    Mixed,
}

impl PatternChoice {
    /// Its name.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            PatternChoice::Greedy => "greedy",
            PatternChoice::Periodic => "periodic",
            PatternChoice::Random => "random",
            PatternChoice::Shaped => "shaped",
            PatternChoice::Mixed => "mixed",
        }
    }
}

/// The time after which a flow repeats itself, at least 1 ps.
pub(crate) fn cycle_ps(model: &Model, flow: usize) -> u64 {
    let flow = &model.flows[flow];
    let cycle = match flow.binding {
        Binding::Interval { interval_ps } => interval_ps,
        Binding::Launch { period_ps, .. } => period_ps,
        _ => flow
            .shaping_ps
            .max(crate::fixed::duration_ps(u64::from(flow.bits), flow.rate).unwrap_or(0)),
    };
    cycle.clamp(1, 1 << 60)
}

impl Scenario {
    /// A scenario of `choice` for a network; the same seed gives the same one.
    #[must_use]
    pub fn new(
        model: &Model,
        choice: PatternChoice,
        seed: u64,
        duration_ps: u64,
        drift_limit_ppm: u32,
    ) -> Scenario {
        let mut random = Random::new(seed, 1 << 40);
        let patterns = [
            Pattern::Greedy,
            Pattern::Periodic,
            Pattern::Random,
            Pattern::Shaped,
        ];
        let sources = (0..model.flows.len())
            .map(|flow| {
                let pattern = match choice {
                    PatternChoice::Greedy => Pattern::Greedy,
                    PatternChoice::Periodic => Pattern::Periodic,
                    PatternChoice::Random => Pattern::Random,
                    PatternChoice::Shaped => Pattern::Shaped,
                    PatternChoice::Mixed => patterns[random.below(4) as usize],
                };
                let phase_ps = if choice == PatternChoice::Greedy {
                    0
                } else {
                    random.below(cycle_ps(model, flow))
                };
                Behaviour::new(pattern, phase_ps)
            })
            .collect();
        let late = if choice == PatternChoice::Greedy {
            Lateness::BusyStart
        } else {
            Lateness::Random
        };
        let limit = i32::try_from(drift_limit_ppm.min(500_000)).unwrap_or(0);
        let width = 2 * u64::from(limit.unsigned_abs());
        let drift_ppm = model
            .hosts
            .iter()
            .map(|_| i32::try_from(random.up_to(width)).unwrap_or(0) - limit)
            .collect();
        let clocks = clocks(model, &mut random, choice == PatternChoice::Greedy);
        Scenario {
            seed,
            duration_ps,
            sources,
            lateness: vec![late; model.ports.len()],
            drift_ppm,
            last_at_ties: None,
            clocks,
        }
    }
}
