//! What a noise recorder leaves behind: plain data.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::summary::Summary;

/// Who saw a stall.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum StallSource {
    /// The noise thread of this core: nothing of lower priority ran on it.
    Core(u32),
    /// A switch emulated by a process of ours, by name: it saw its own wake-up come late.
    Switch(String),
    /// The talker of this stream: its tick came late. It delays no frame in the network.
    Talker(String),
    /// The listener of this stream: it read late. It delays no frame in the network.
    Listener(String),
}

impl StallSource {
    /// Whether a stall from this source can have delayed a frame on its way through the network.
    ///
    /// A late talker sends late and a late listener reads late; neither lies between the two kernel time stamps.
    #[must_use]
    pub fn delays_network(&self) -> bool {
        matches!(self, Self::Core(_) | Self::Switch(_))
    }
}

impl fmt::Display for StallSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Core(core) => write!(f, "core {core}"),
            Self::Switch(name) => write!(f, "switch {name}"),
            Self::Talker(name) => write!(f, "talker of {name}"),
            Self::Listener(name) => write!(f, "listener of {name}"),
        }
    }
}

/// One interval in which a thread should have run and did not. Nanoseconds of CLOCK_TAI; `alive_ns <= due_ns <= woke_ns`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stall {
    /// Who saw it.
    pub source: StallSource,
    /// When the thread last ran before. The stall began after this: at most one period before `due_ns`.
    pub alive_ns: u64,
    /// When it should have woken. From here on the stall is certain.
    pub due_ns: u64,
    /// When it woke.
    pub woke_ns: u64,
}

impl Stall {
    /// Length of the certain part, ns.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        self.woke_ns.saturating_sub(self.due_ns)
    }
}

/// An interval at whose end the hypervisor had reported more stolen time. It says how much was stolen, not when, so it
/// is shown but excuses nothing: real theft also shows as a stall of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StealInterval {
    /// Core the time was stolen from.
    pub core: u32,
    /// Start of the interval, CLOCK_TAI ns.
    pub from_ns: u64,
    /// End of the interval, CLOCK_TAI ns.
    pub to_ns: u64,
    /// Stolen within it, ns, in steps of one kernel tick (usually 10 ms).
    pub stolen_ns: u64,
}

/// One bar of a histogram: `count` values from `from_ns` (inclusive) to `to_ns` (exclusive).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistogramBucket {
    /// Lower edge, ns.
    pub from_ns: u64,
    /// Upper edge, ns.
    pub to_ns: u64,
    /// Values between.
    pub count: u64,
}

/// What the noise thread of one core saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CoreNoise {
    /// The core's number.
    pub core: u32,
    /// Scheduling policy that was in force, read back after it was set: `"SCHED_FIFO"`, or what was left where the
    /// fallback was allowed.
    pub policy: String,
    /// Priority within the policy, read back.
    pub priority: u32,
    /// Why the asked-for policy is not in force; absent if it is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fallback: Option<String>,
    /// Wake-up overshoot, ns; absent if the thread never woke. Values are exact to three digits.
    pub overshoot_ns: Option<Summary>,
    /// The overshoot's histogram, in doubling steps.
    pub histogram: Vec<HistogramBucket>,
    /// Time the hypervisor stole from this core during the record, ns.
    pub steal_ns: u64,
    /// How many stalls were seen.
    pub stalls: u64,
    /// The length of all of them together, ns.
    pub stalled_ns: u64,
    /// How many of them found no room in the record. They excuse nothing.
    pub dropped_stalls: u64,
}

/// The host's noise during one measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NoiseRecord {
    /// When the record began, CLOCK_TAI ns.
    pub from_ns: u64,
    /// When it ended, CLOCK_TAI ns.
    pub to_ns: u64,
    /// How often each core's thread woke, ns.
    pub period_ns: u64,
    /// From which overshoot on a wake-up counts as a stall, ns.
    pub stall_threshold_ns: u64,
    /// Each core.
    pub cores: Vec<CoreNoise>,
    /// The stalls, by time. Also those that talkers, listeners and switches saw, once [`NoiseRecord::add`]ed.
    pub stalls: Vec<Stall>,
    /// When the hypervisor stole time.
    pub steal: Vec<StealInterval>,
}

impl NoiseRecord {
    /// Adds stalls that others saw, for example a listener its late readings. Keeps the order by time.
    pub fn add(&mut self, stalls: impl IntoIterator<Item = Stall>) {
        self.stalls.extend(stalls);
        self.stalls.sort_by_key(|s| (s.due_ns, s.woke_ns));
    }

    /// The stalls as the verdict needs them.
    #[must_use]
    pub fn stall_record(&self) -> StallRecord {
        StallRecord {
            stalls: self.stalls.clone(),
        }
    }
}

/// Stalls from several sources, each labelled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StallRecord {
    /// The stalls, in any order.
    pub stalls: Vec<Stall>,
}

impl StallRecord {
    /// The certain intervals `[due, woke)` that can have delayed a frame in the network, unmerged.
    pub fn certain(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.of_network().map(|s| (s.due_ns, s.woke_ns))
    }

    /// The same stalls as long as they can have been, `[alive, woke)`.
    pub fn possible(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.of_network()
            .map(|s| (s.alive_ns.min(s.due_ns), s.woke_ns))
    }

    fn of_network(&self) -> impl Iterator<Item = &Stall> + '_ {
        self.stalls.iter().filter(|s| s.source.delays_network())
    }
}
