//! Latencies: that of a switch's frames before their queue, and that of a port that is late and then catches up.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Switch;

/// The latency of one port, measured or declared. A frame may leave late by this time; then the port catches up faster
/// than its rate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortLatency {
    /// The node that sends.
    pub from: String,
    /// The neighbour that it sends to.
    pub to: String,
    /// The latency, nanoseconds.
    pub latency_ns: u64,
}

/// The latency of a port. See `docs/bounds.md` for the two kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyRange {
    /// The least latency of a frame, nanoseconds.
    pub min_ns: u64,
    /// The largest latency of a frame, nanoseconds.
    pub max_ns: u64,
    /// True if frames may be held after they were sent, and then follow each other faster than the link's rate. False
    /// for a latency of each frame between its arrival and its queue.
    pub catches_up: bool,
}

impl LatencyRange {
    /// Returns the latency of a port that is late by up to `max_ns` nanoseconds and then catches up.
    #[must_use]
    pub const fn catching_up(max_ns: u64) -> LatencyRange {
        LatencyRange {
            min_ns: 0,
            max_ns,
            catches_up: true,
        }
    }

    /// Returns the latency of a switch's frames.
    #[must_use]
    pub const fn of_switch(switch: &Switch) -> LatencyRange {
        LatencyRange {
            min_ns: switch.latency_min_ns,
            max_ns: switch.latency_ns,
            catches_up: false,
        }
    }

    /// Returns the difference between the largest and the least latency of a frame before its queue, nanoseconds. Zero
    /// for ports that catch up: their latency is behind the queue.
    #[must_use]
    pub const fn variation_ns(&self) -> u64 {
        if self.catches_up {
            0
        } else {
            self.max_ns.saturating_sub(self.min_ns)
        }
    }
}
