//! Scenarios: the behaviour of all parts within the limits of the description. A scenario determines a simulation to
//! the last picosecond.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::model::{Binding, Model};
use crate::random::Random;

/// The behaviour of a source. Every pattern conforms to the source's contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// The whole burst at once and as early as possible, then at the rate.
    Greedy,
    /// Evenly spaced, each frame randomly late within the tick error.
    Periodic,
    /// Random bursts, pauses and sizes.
    Random,
    /// Like the real shaper: at ticks of T_s, each randomly late within the tick error. Best effort: random.
    Shaped,
}

/// The use that a port makes of its permitted latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Lateness {
    /// Each frame has the least latency.
    Prompt,
    /// A switch begins each busy period with the full latency; a port with gates, credits or regulators is as with
    /// `Pipeline`. A host holds what it sends in that time and hands it over at once.
    BusyStart,
    /// Each frame has the full latency.
    Pipeline,
    /// Each frame has a random latency. At a switch, frames of different inputs may overtake each other by it.
    Random,
    /// Each frame of a switch has the latency with which it reaches its queue as close to `at_ps` as possible: full
    /// latency for early frames, the least one for late frames. The flow that is last at ties has the full latency. A
    /// host is late as with `BusyStart`.
    Gather {
        /// The time at which frames meet in the queue, picoseconds.
        at_ps: u64,
    },
}

/// The behaviour of one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Behaviour {
    /// Its pattern.
    pub pattern: Pattern,
    /// Its start, picoseconds.
    pub phase_ps: u64,
    /// Number of the frame before which it pauses once, counted from 1; 0 for no pause.
    pub gap_before: u32,
    /// Length of the pause, picoseconds.
    pub gap_ps: u64,
}

impl Behaviour {
    /// Creates the behaviour `pattern` from `phase_ps` on, without a pause.
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

/// All inputs of a simulation besides the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Scenario {
    /// The seed of the random numbers.
    pub seed: u64,
    /// Time after which sources stop, picoseconds. Frames in the network then still arrive.
    pub duration_ps: u64,
    /// The behaviour of each flow: streams in the order of the description, then best-effort allowances.
    pub sources: Vec<Behaviour>,
    /// The latency of each port, in the order of the plan's ports.
    pub lateness: Vec<Lateness>,
    /// The drift of each host's clock, parts per million; positive for a fast clock.
    pub drift_ppm: Vec<i32>,
    /// The flow whose frames come last among those that arrive at the same time.
    pub last_at_ties: Option<usize>,
    /// The clocks that gates and launches follow: of hosts, then of switches, in the order of the description. Empty
    /// if all clocks are exact.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clocks: Vec<Clock>,
    /// The broken links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub breaks: Vec<Break>,
    /// The flows whose talkers go wrong: they send frames of any size as fast as the link takes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub babbling: Vec<usize>,
}

/// One direction of a link that is broken for a time. A frame of which any part is on it then is lost, and all behave as
/// if it had been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Break {
    /// The port that sends into the link, by its number in the plan.
    pub port: usize,
    /// Begin, picoseconds.
    pub from_ps: u64,
    /// End, picoseconds.
    pub until_ps: u64,
}

/// Returns random clocks within the permitted error of a description. With `far` each error is at a limit.
pub(crate) fn clocks(model: &Model, random: &mut Random, far: bool) -> Vec<Clock> {
    // Two picoseconds are subtracted, because times are rounded up to whole picoseconds at both ends.
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

/// The choice of patterns for all sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PatternChoice {
    /// All [`Pattern::Greedy`], together, with the latest permitted ports.
    Greedy,
    /// All [`Pattern::Periodic`] with random phases.
    Periodic,
    /// All [`Pattern::Random`].
    Random,
    /// All [`Pattern::Shaped`] with random phases.
    Shaped,
    /// One of the four at random for each source.
    Mixed,
}

impl PatternChoice {
    /// Returns its name.
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

/// Returns the time after which a flow repeats itself, at least 1 ps.
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
    /// Creates a scenario of `choice` for a network. The same seed produces the same scenario.
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
            breaks: Vec::new(),
            babbling: Vec::new(),
        }
    }
}
