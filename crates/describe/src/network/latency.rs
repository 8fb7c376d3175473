//! Latencies: that of a switch's frames before their queue, and that of a port that is late and then catches up.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CutThrough, Switch};

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

/// The least and the largest latency of a frame before its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LatencyLimits {
    /// The least one, nanoseconds.
    pub min_ns: u64,
    /// The largest one, nanoseconds.
    pub max_ns: u64,
}

/// Values of one port of a switch, of one input, or of the way from an input to a port. They replace the switch's own.
///
/// A value for a pair of both comes before one for a port alone, and that before one for an input alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchPort {
    /// The neighbour over whose link frames come; every one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The neighbour to which the port sends; every one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The latency of frames there, if it is stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyLimits>,
    /// The readiness to forward frames there before their end has come, if it is stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_through: Option<CutThrough>,
    /// The priorities whose frames the port may interrupt, if they are stated. Only of a port, for all of its inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemptable: Option<Vec<u8>>,
}

impl SwitchPort {
    /// Returns how exactly it names frames from `before` to `to`; `None` if it is not about them.
    pub(super) fn rank(&self, before: &str, to: &str) -> Option<u8> {
        let fits = |stated: &Option<String>, name: &str| match stated {
            None => Some(0),
            Some(stated) => (stated == name).then_some(1),
        };
        Some(fits(&self.from, before)? + 2 * fits(&self.to, to)?)
    }
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

    /// Returns the latency of a switch's frames where none is stated for a port or an input.
    #[must_use]
    pub const fn of_switch(switch: &Switch) -> LatencyRange {
        LatencyRange {
            min_ns: switch.latency_min_ns,
            max_ns: switch.latency_ns,
            catches_up: false,
        }
    }

    /// Returns the latency of a switch's frames that come over the link from `before` and leave to `to`.
    #[must_use]
    pub fn of_pair(switch: &Switch, before: &str, to: &str) -> LatencyRange {
        let stated = switch.ports.iter().filter_map(|port| {
            let rank = port.rank(before, to)?;
            port.latency.map(|latency| (rank, latency))
        });
        match stated.max_by_key(|(rank, _)| *rank) {
            None => LatencyRange::of_switch(switch),
            Some((_, limits)) => LatencyRange {
                min_ns: limits.min_ns,
                max_ns: limits.max_ns,
                catches_up: false,
            },
        }
    }

    /// Returns a range that contains both.
    #[must_use]
    pub(super) fn and(self, other: LatencyRange) -> LatencyRange {
        LatencyRange {
            min_ns: self.min_ns.min(other.min_ns),
            max_ns: self.max_ns.max(other.max_ns),
            catches_up: self.catches_up || other.catches_up,
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
