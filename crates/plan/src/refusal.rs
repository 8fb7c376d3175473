//! Why a network is refused.
//!
//! ```text
//! words   what a reason says
//! find    everything that speaks against a plan
//! ```

mod find;
mod words;

use core::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::network::Network;
use crate::plan::Plan;
use crate::suggest::Suggestion;
pub(crate) use find::reasons;
use rtwire_describe::ratio::Overflow;

/// One limit that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "limit", rename_all = "snake_case")]
pub enum Reason {
    /// A sender does not shape.
    Unshaped {
        /// The stream.
        stream: String,
    },
    /// The rates at a port reach the link's rate.
    Rate {
        /// The node that sends.
        node: String,
        /// The neighbour.
        port: String,
        /// Sum of the rates on the wire, bit/s, rounded up.
        rate_bps: u64,
        /// Rate of the link, bit/s.
        link_rate_bps: u64,
        /// Who sends there.
        flows: Vec<String>,
    },
    /// The rates of a class reach the idle slope of its credit.
    Credit {
        /// The node that sends.
        node: String,
        /// The neighbour.
        port: String,
        /// The class.
        class: u8,
        /// Sum of its rates on the wire, bit/s, rounded up.
        rate_bps: u64,
        /// Its idle slope, bit/s, rounded down.
        idle_slope_bps: u64,
    },
    /// A port has no bound although its rates fit: something before it has none, or a loop does not settle.
    Unbounded {
        /// The node that sends.
        node: String,
        /// The neighbour.
        port: String,
    },
    /// A promise is later than the deadline.
    Deadline {
        /// The stream.
        stream: String,
        /// The listener.
        listener: String,
        /// The promise, nanoseconds.
        delay_ns: u64,
        /// The deadline, nanoseconds.
        deadline_ns: u64,
        /// The difference, nanoseconds.
        excess_ns: u64,
    },
    /// A port needs more bytes than it has.
    Buffer {
        /// The switch.
        node: String,
        /// The neighbour.
        port: String,
        /// Needed, bytes.
        needed_bytes: u64,
        /// There are, bytes.
        buffer_bytes: u64,
        /// The difference, bytes.
        excess_bytes: u64,
    },
    /// A port needs more frames than its buffer is counted in.
    BufferFrames {
        /// The switch.
        node: String,
        /// The neighbour.
        port: String,
        /// Needed, frames.
        needed_frames: u64,
        /// There are, frames.
        buffer_frames: u64,
        /// The difference, frames.
        excess_frames: u64,
    },
    /// The ports of a switch together need more than its pool.
    SharedBuffer {
        /// The switch.
        node: String,
        /// Needed by all ports, bytes.
        needed_bytes: u64,
        /// There are, bytes.
        buffer_bytes: u64,
        /// The difference, bytes.
        excess_bytes: u64,
    },
    /// The ports of a switch together need more frames than its pool is counted in.
    SharedBufferFrames {
        /// The switch.
        node: String,
        /// Needed by all ports, frames.
        needed_frames: u64,
        /// There are, frames.
        buffer_frames: u64,
        /// The difference, frames.
        excess_frames: u64,
    },
    /// Two frames of a time-triggered stream differ more in their delay than is of use.
    Jitter {
        /// The stream.
        stream: String,
        /// The listener.
        listener: String,
        /// Largest difference, nanoseconds.
        jitter_ns: u64,
        /// What is of use, nanoseconds.
        limit_ns: u64,
        /// The difference of both, nanoseconds.
        excess_ns: u64,
    },
    /// The time-triggered frames of a port need more time than there is.
    ScheduleLoad {
        /// The node that sends.
        node: String,
        /// The neighbour.
        port: String,
        /// What they need of each cycle, nanoseconds.
        needed_ns: u64,
        /// What the share for others leaves of each cycle, nanoseconds.
        available_ns: u64,
        /// The cycle, nanoseconds.
        cycle_ns: u64,
        /// The difference, nanoseconds.
        excess_ns: u64,
        /// Who sends there.
        streams: Vec<String>,
    },
    /// The cycle of a port, least common multiple of all intervals, is too long, or has too many windows.
    ScheduleCycle {
        /// The node that sends.
        node: String,
        /// The neighbour.
        port: String,
        /// The cycle, nanoseconds; none beyond 64 bits.
        cycle_ns: Option<u64>,
        /// Longest that the gates can do, nanoseconds.
        longest_ns: u64,
        /// Windows in it; none beyond 64 bits.
        windows: Option<u64>,
    },
    /// Two streams meet wherever they are put: the common divisor of their intervals is too small.
    SchedulePeriods {
        /// The node that sends.
        node: String,
        /// The neighbour.
        port: String,
        /// The two.
        streams: [String; 2],
        /// Greatest common divisor of their intervals, nanoseconds.
        common_ns: u64,
        /// What both frames need, nanoseconds.
        needed_ns: u64,
        /// The difference, nanoseconds.
        excess_ns: u64,
    },
    /// No place was found for a time-triggered stream.
    SchedulePlace {
        /// The stream.
        stream: String,
        /// The busiest port on its way.
        node: String,
        /// The neighbour.
        port: String,
        /// How much of that port all time-triggered streams need, in thousandths, rounded up.
        load_permille: u64,
        /// Rounds of search.
        rounds: u32,
    },
    /// A gate list has more entries than its hardware holds.
    ScheduleEntries {
        /// The node that sends.
        node: String,
        /// The neighbour.
        port: String,
        /// Needed.
        entries: u64,
        /// There are.
        available: u64,
        /// The difference.
        excess: u64,
    },
    /// A queue opens more often in a cycle than its hardware can do.
    ScheduleOpenings {
        /// The node that sends.
        node: String,
        /// The neighbour.
        port: String,
        /// Needed.
        openings: u64,
        /// Possible.
        possible: u64,
        /// The difference.
        excess: u64,
    },
    /// A gate list has a state that is shorter than its hardware can do.
    ScheduleWindow {
        /// The node that sends.
        node: String,
        /// The neighbour.
        port: String,
        /// The state, nanoseconds.
        window_ns: u64,
        /// The shortest possible, nanoseconds.
        minimum_ns: u64,
        /// The difference, nanoseconds.
        short_ns: u64,
    },
    /// Windows and guard bands leave less to others than they were to have.
    ScheduleShare {
        /// The node that sends.
        node: String,
        /// The neighbour.
        port: String,
        /// Left of each cycle, nanoseconds.
        open_ns: u64,
        /// Asked for, nanoseconds.
        needed_ns: u64,
        /// The cycle, nanoseconds.
        cycle_ns: u64,
        /// The difference, nanoseconds.
        short_ns: u64,
    },
    /// Numbers, addresses or ports ran out: more streams than the wire can tell apart.
    Identities {
        /// What happened.
        what: String,
    },
    /// Exact arithmetic ran out.
    Overflow {
        /// What happened.
        what: String,
    },
}

impl Reason {
    /// Whether nothing bounds it (as opposed to a bound beyond a limit).
    #[must_use]
    pub const fn is_unbounded(&self) -> bool {
        matches!(
            self,
            Reason::Unshaped { .. }
                | Reason::Rate { .. }
                | Reason::Credit { .. }
                | Reason::Unbounded { .. }
                | Reason::Overflow { .. }
        )
    }
}

/// A network that cannot be promised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
pub struct Refusal {
    /// What does not hold: at least one.
    pub reasons: Vec<Reason>,
    /// Changes that were planned again and fit.
    pub suggestions: Vec<Suggestion>,
    /// What could be computed.
    pub plan: Option<Box<Plan>>,
}

impl Refusal {
    pub(crate) fn overflow(network: &Network, overflow: Overflow) -> Refusal {
        let what = format!("network \"{}\": {overflow}", network.name);
        Refusal {
            reasons: vec![Reason::Overflow { what }],
            suggestions: Vec::new(),
            plan: None,
        }
    }

    /// Whether a stream or port has no bound at all.
    #[must_use]
    pub fn is_unbounded(&self) -> bool {
        self.reasons.iter().any(Reason::is_unbounded)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refused:")?;
        for reason in &self.reasons {
            write!(f, "\n  {reason}")?;
        }
        if self.suggestions.is_empty() {
            return write!(f, "\nno single change was found that fits");
        }
        write!(f, "\nany one of these would fit:")?;
        for suggestion in &self.suggestions {
            write!(f, "\n  {suggestion}")?;
        }
        Ok(())
    }
}
