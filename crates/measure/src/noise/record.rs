//! The results of a noise recorder: plain data.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::summary::Summary;

/// The thread that saw a stall.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum StallSource {
    /// The noise thread of this core: nothing of lower priority ran on the core.
    Core(u32),
    /// A switch, by name, that one of rtwire's processes emulates: its own wake-up was late.
    Switch(String),
    /// The talker of this stream: its tick was late. This delays no frame in the network.
    Talker(String),
    /// The listener of this stream: it read late. This delays no frame in the network.
    Listener(String),
}

impl StallSource {
    /// Returns true if a stall from this source can have delayed a frame within the network.
    ///
    /// A late talker sends late and a late listener reads late. Neither lies between the two kernel timestamps.
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

/// An interval in which a thread should have run and did not. Times are CLOCK_TAI ns.
///
/// `alive_ns <= due_ns <= woke_ns`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stall {
    /// The thread that saw the stall.
    pub source: StallSource,
    /// The thread's last run before. The stall began after it, at most one period before `due_ns`.
    pub alive_ns: u64,
    /// The time at which it should have woken. From then on the stall is certain.
    pub due_ns: u64,
    /// The time at which it woke.
    pub woke_ns: u64,
}

impl Stall {
    /// Returns true if its times are in their order: `alive_ns <= due_ns <= woke_ns`.
    #[must_use]
    pub fn is_in_order(&self) -> bool {
        self.alive_ns <= self.due_ns && self.due_ns <= self.woke_ns
    }

    /// Returns the length of the certain part, ns.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        self.woke_ns.saturating_sub(self.due_ns)
    }
}

/// An interval at whose end the hypervisor reported more stolen time. It says how much was stolen, not when, so it is
/// shown but excuses nothing. Time that was really stolen also appears as a stall of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StealInterval {
    /// The core whose time was stolen.
    pub core: u32,
    /// Start of the interval, CLOCK_TAI ns.
    pub from_ns: u64,
    /// End of the interval, CLOCK_TAI ns.
    pub to_ns: u64,
    /// Time stolen within the interval, ns, in steps of one kernel tick (usually 10 ms).
    pub stolen_ns: u64,
}

/// One bar of a histogram: `count` values from `from_ns` (inclusive) to `to_ns` (exclusive).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistogramBucket {
    /// Lower edge, ns.
    pub from_ns: u64,
    /// Upper edge, ns.
    pub to_ns: u64,
    /// Number of values between the edges.
    pub count: u64,
}

/// The results of the noise thread of one core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CoreNoise {
    /// The core's number.
    pub core: u32,
    /// Scheduling policy in force, read back after it was set. It is `"SCHED_FIFO"`, or another one if the fallback
    /// was allowed.
    pub policy: String,
    /// Priority within the policy, read back.
    pub priority: u32,
    /// Scheduling policy at the end of the record, read again.
    #[serde(default)]
    pub policy_at_end: String,
    /// Priority at the end of the record, read again.
    #[serde(default)]
    pub priority_at_end: u32,
    /// The reason why the requested policy is not in force; absent if it is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fallback: Option<String>,
    /// Wake-up overshoot, ns, exact to three digits; absent if the thread never woke.
    pub overshoot_ns: Option<Summary>,
    /// The overshoot's histogram, in doubling steps.
    pub histogram: Vec<HistogramBucket>,
    /// Time that the hypervisor stole from this core during the record, ns.
    pub steal_ns: u64,
    /// Number of stalls.
    pub stalls: u64,
    /// Total length of the stalls, ns.
    pub stalled_ns: u64,
    /// Number of stalls that found no room in the record. They excuse nothing.
    pub dropped_stalls: u64,
}

/// The host's noise during one measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NoiseRecord {
    /// Start of the record, CLOCK_TAI ns.
    pub from_ns: u64,
    /// End of the record, CLOCK_TAI ns.
    pub to_ns: u64,
    /// Wake-up period of each core's thread, ns.
    pub period_ns: u64,
    /// Overshoot from which a wake-up counts as a stall, ns.
    pub stall_threshold_ns: u64,
    /// The results of each core.
    pub cores: Vec<CoreNoise>,
    /// The stalls, sorted by time. They include those of talkers, listeners and switches that were
    /// [`NoiseRecord::add`]ed.
    pub stalls: Vec<Stall>,
    /// The intervals in which the hypervisor stole time.
    pub steal: Vec<StealInterval>,
}

impl NoiseRecord {
    /// Adds stalls that others saw, for example late reads of a listener. Keeps the order by time.
    pub fn add(&mut self, stalls: impl IntoIterator<Item = Stall>) {
        self.stalls.extend(stalls);
        self.stalls.sort_by_key(|s| (s.due_ns, s.woke_ns));
    }

    /// Returns the reasons why this record excuses nothing, in plain sentences: a thread that lost its scheduling during
    /// the record, or stalls that found no room.
    #[must_use]
    pub fn doubts(&self) -> Vec<String> {
        self.lost_scheduling().chain(self.overfull()).collect()
    }

    /// Returns a sentence for each thread that lost its scheduling during the record. What such a thread takes for a stall of
    /// its core may be a task beside it.
    pub fn lost_scheduling(&self) -> impl Iterator<Item = String> + '_ {
        self.cores.iter().filter_map(|core| {
            let (policy, priority) = (&core.policy_at_end, core.priority_at_end);
            ((policy, priority) != (&core.policy, core.priority)).then(|| {
                format!(
                    "The noise thread of core {} began as {} {} and ended as {policy} {priority}.",
                    core.core, core.policy, core.priority
                )
            })
        })
    }

    /// Returns a sentence for each core with stalls that found no room in the record.
    pub fn overfull(&self) -> impl Iterator<Item = String> + '_ {
        let full = self.cores.iter().filter(|core| core.dropped_stalls > 0);
        full.map(|core| {
            format!(
                "{} stalls of core {} found no room in the noise record.",
                core.dropped_stalls, core.core
            )
        })
    }

    /// Returns the stalls as the verdict needs them.
    #[must_use]
    pub fn stall_record(&self) -> StallRecord {
        StallRecord {
            stalls: self.stalls.clone(),
        }
    }
}

/// Stalls from several sources, each with its source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StallRecord {
    /// The stalls, in any order.
    pub stalls: Vec<Stall>,
}

impl StallRecord {
    /// Returns the certain intervals `[due, woke)` that can have delayed a frame in the network, unmerged.
    pub fn certain(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.of_network().map(|s| (s.due_ns, s.woke_ns))
    }

    /// Returns the same stalls at their longest possible length, `[alive, woke)`.
    pub fn possible(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.of_network()
            .map(|s| (s.alive_ns.min(s.due_ns), s.woke_ns))
    }

    fn of_network(&self) -> impl Iterator<Item = &Stall> + '_ {
        self.stalls.iter().filter(|s| s.source.delays_network())
    }
}
