//! The reasons why a network is refused.
//!
//! ```text
//! words   the text of a reason
//! find    all reasons against a plan
//! ```

mod find;
mod words;

use core::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::network::Network;
use crate::plan::Plan;
use crate::suggestion::Suggestion;
pub(crate) use find::reasons;
use rtwire_describe::ratio::Overflow;

/// One limit that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "limit", rename_all = "snake_case")]
pub enum Reason {
    /// A sender that does not shape.
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
        /// The streams and allowances that send there.
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
    /// The rates that flow meters let through reach the link's rate, those of the contracts do not.
    Meters {
        /// The node that sends.
        node: String,
        /// The neighbour.
        port: String,
        /// Sum of the rates on the wire that pass the meters, bit/s, rounded up.
        rate_bps: u64,
        /// Rate of the link, bit/s.
        link_rate_bps: u64,
    },
    /// A port without a bound although its rates fit: something before it has none, or a loop does not settle.
    Unbounded {
        /// The node that sends.
        node: String,
        /// The neighbour.
        port: String,
    },
    /// A promise that is later than the deadline.
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
    /// A port that needs more bytes than it has.
    Buffer {
        /// The switch.
        node: String,
        /// The neighbour.
        port: String,
        /// Bytes needed.
        needed_bytes: u64,
        /// Bytes available.
        buffer_bytes: u64,
        /// The difference, bytes.
        excess_bytes: u64,
    },
    /// A port that needs more frames than its buffer holds.
    BufferFrames {
        /// The switch.
        node: String,
        /// The neighbour.
        port: String,
        /// Frames needed.
        needed_frames: u64,
        /// Frames available.
        buffer_frames: u64,
        /// The difference, frames.
        excess_frames: u64,
    },
    /// The ports of a switch together need more than its pool.
    SharedBuffer {
        /// The switch.
        node: String,
        /// Bytes needed by all ports.
        needed_bytes: u64,
        /// Bytes available.
        buffer_bytes: u64,
        /// The difference, bytes.
        excess_bytes: u64,
    },
    /// The ports of a switch together need more frames than its pool is counted in.
    SharedBufferFrames {
        /// The switch.
        node: String,
        /// Frames needed by all ports.
        needed_frames: u64,
        /// Frames available.
        buffer_frames: u64,
        /// The difference, frames.
        excess_frames: u64,
    },
    /// Two frames of a time-triggered or cyclic stream differ in their delay by more than the limit.
    Jitter {
        /// The stream.
        stream: String,
        /// The listener.
        listener: String,
        /// Largest difference of delays, nanoseconds.
        jitter_ns: u64,
        /// The limit, nanoseconds.
        limit_ns: u64,
        /// The excess over the limit, nanoseconds.
        excess_ns: u64,
    },
    /// Frames of a redundant stream, recovered from both of its copies, exceed a limit that each copy keeps.
    Recovered {
        /// The stream.
        stream: String,
        /// The listener.
        listener: String,
        /// The limit that is exceeded.
        what: RecoveredLimit,
        /// The delay or the difference of delays, nanoseconds.
        value_ns: u64,
        /// The limit, nanoseconds.
        limit_ns: u64,
        /// The excess over the limit, nanoseconds.
        excess_ns: u64,
    },
    /// Frames of the two copies of a redundant stream may be too far apart for sequence numbers of 16 bits.
    RecoveryNumbers {
        /// The stream.
        stream: String,
        /// The listener.
        listener: String,
        /// The largest lag between the two ways, nanoseconds.
        lag_ns: u64,
        /// The most frames that are sent within it.
        frames: u64,
        /// The most frames that sequence numbers tell apart.
        most_frames: u64,
    },
    /// The time-triggered frames of a port need more time than there is.
    ScheduleLoad {
        /// The node that sends.
        node: String,
        /// The neighbour.
        port: String,
        /// The time that they need in each cycle, nanoseconds.
        needed_ns: u64,
        /// The time that the share for others leaves in each cycle, nanoseconds.
        available_ns: u64,
        /// The cycle, nanoseconds.
        cycle_ns: u64,
        /// The difference, nanoseconds.
        excess_ns: u64,
        /// The streams that send there.
        streams: Vec<String>,
    },
    /// The cycle of a port (least common multiple of all intervals) is too long, or has too many windows.
    ScheduleCycle {
        /// The node that sends.
        node: String,
        /// The neighbour.
        port: String,
        /// The cycle, nanoseconds; absent beyond 64 bits.
        cycle_ns: Option<u64>,
        /// The longest cycle of the gates, nanoseconds.
        longest_ns: u64,
        /// Windows in the cycle; absent beyond 64 bits.
        windows: Option<u64>,
    },
    /// Two streams that collide at any offset: the common divisor of their intervals is too small.
    SchedulePeriods {
        /// The node that sends.
        node: String,
        /// The neighbour.
        port: String,
        /// The two streams.
        streams: [String; 2],
        /// Greatest common divisor of their intervals, nanoseconds.
        common_ns: u64,
        /// The time that both frames need, nanoseconds.
        needed_ns: u64,
        /// The difference, nanoseconds.
        excess_ns: u64,
    },
    /// A time-triggered stream for which no place was found.
    SchedulePlace {
        /// The stream.
        stream: String,
        /// The node of the busiest port on its route.
        node: String,
        /// The neighbour.
        port: String,
        /// The load of all time-triggered streams at that port, in thousandths, rounded up.
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
        /// Entries needed.
        entries: u64,
        /// Entries available.
        available: u64,
        /// The difference.
        excess: u64,
    },
    /// A queue that opens more often in a cycle than its hardware supports.
    ScheduleOpenings {
        /// The node that sends.
        node: String,
        /// The neighbour.
        port: String,
        /// Openings needed.
        openings: u64,
        /// Openings supported.
        possible: u64,
        /// The difference.
        excess: u64,
    },
    /// A gate list with a state that is shorter than its hardware supports.
    ScheduleWindow {
        /// The node that sends.
        node: String,
        /// The neighbour.
        port: String,
        /// The state, nanoseconds.
        window_ns: u64,
        /// The shortest state supported, nanoseconds.
        minimum_ns: u64,
        /// The difference, nanoseconds.
        short_ns: u64,
    },
    /// Windows and guard bands leave less time to other traffic than its share.
    ScheduleShare {
        /// The node that sends.
        node: String,
        /// The neighbour.
        port: String,
        /// Time left in each cycle, nanoseconds.
        open_ns: u64,
        /// Time required by the share, nanoseconds.
        needed_ns: u64,
        /// The cycle, nanoseconds.
        cycle_ns: u64,
        /// The difference, nanoseconds.
        short_ns: u64,
    },
    /// A port that may not be able to send in one cycle all that came in the one before.
    Cycle {
        /// The switch that sends.
        node: String,
        /// The neighbour.
        port: String,
        /// The time from the start of a cycle until all is surely out, and the clocks' difference, nanoseconds.
        needed_ns: u64,
        /// The part of it in which the frames are sent, nanoseconds.
        sending_ns: u64,
        /// The cycle, nanoseconds.
        cycle_ns: u64,
        /// The difference, nanoseconds.
        excess_ns: u64,
        /// The cyclic streams that send there.
        streams: Vec<String>,
    },
    /// Numbers, addresses or ports ran out: more streams than the wire can tell apart.
    Identities {
        /// The number, address or port that ran out, in words.
        what: String,
    },
    /// A number left the range of exact arithmetic.
    Overflow {
        /// The overflow in words.
        what: String,
    },
}

/// The limit that recovered frames exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecoveredLimit {
    /// The stream's deadline.
    Deadline,
    /// The stream's limit of jitter.
    Jitter,
}

impl Reason {
    /// True if nothing bounds it; false for a bound beyond a limit.
    #[must_use]
    pub const fn is_unbounded(&self) -> bool {
        matches!(
            self,
            Reason::Unshaped { .. }
                | Reason::Rate { .. }
                | Reason::Credit { .. }
                | Reason::Meters { .. }
                | Reason::Unbounded { .. }
                | Reason::Cycle { .. }
                | Reason::Overflow { .. }
        )
    }
}

/// A network that cannot be promised, with the reasons.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
pub struct Refusal {
    /// The limits that do not hold, at least one.
    pub reasons: Vec<Reason>,
    /// Changes that were planned again and fit.
    pub suggestions: Vec<Suggestion>,
    /// The part of the plan that could be computed.
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

    /// True if a stream or port has no bound at all.
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
