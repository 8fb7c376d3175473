//! The limits of gates, and the rules that a description sets for a schedule.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The limits of one family of gates (IEEE 802.1Q, 8.6.8.4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GateProfile {
    /// Its name.
    pub name: String,
    /// The largest number of entries in a port's list.
    pub entries: Option<u32>,
    /// Shortest entry, nanoseconds, at least 1.
    pub minimum_window_ns: u64,
    /// Longest cycle, nanoseconds.
    pub longest_cycle_ns: u64,
    /// The largest number of openings of a queue in one cycle.
    pub openings: Option<u32>,
    /// True if a frame that would not end before its gate closes is held back.
    pub holds_back: bool,
}

impl GateProfile {
    /// Returns gates without limits, except for a cycle of 1 s, that hold nothing back.
    #[must_use]
    pub fn unlimited() -> GateProfile {
        GateProfile {
            name: "unlimited".to_owned(),
            entries: None,
            minimum_window_ns: 1,
            longest_cycle_ns: 1_000_000_000,
            openings: None,
            holds_back: false,
        }
    }

    /// Returns the built-in profiles, which need no description.
    ///
    /// - `unlimited`: no limits.
    /// - `i225`: Intel I225 and I226; each queue opens once in a cycle.
    /// - `vsc9959`: the switch of the NXP LS1028A; 63 entries of at least 35 ns, frames held back.
    #[must_use]
    pub fn built_in() -> Vec<GateProfile> {
        let i225 = GateProfile {
            name: "i225".to_owned(),
            openings: Some(1),
            holds_back: true,
            ..GateProfile::unlimited()
        };
        let vsc9959 = GateProfile {
            name: "vsc9959".to_owned(),
            entries: Some(63),
            minimum_window_ns: 35,
            holds_back: true,
            ..GateProfile::unlimited()
        };
        vec![GateProfile::unlimited(), i225, vsc9959]
    }
}

/// The rule that keeps the frames of two streams in one queue apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Frames come in the order of their windows. This suffices as long as every frame is sent and none is lost.
    Frames,
    /// No frame of a stream is in the queue while the window of another stream is open.
    #[default]
    Streams,
}

/// The values of `[schedule]`, and the clock error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleRules {
    /// The largest difference between any clock and the network's time, nanoseconds.
    pub clock_error_ns: u64,
    /// Least share of each gated port's time that stays open for unscheduled traffic, percent.
    pub best_effort_percent: u8,
    /// Largest unscheduled frame on the wire, bytes.
    pub guard_wire_bytes: u64,
    /// True if frames may wait in switches for their windows on purpose.
    pub queueing: bool,
    /// The rule that keeps streams apart that share a queue.
    pub isolation: Isolation,
    /// The cycle of cyclic queueing and forwarding, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycle_ns: Option<u64>,
}

impl Default for ScheduleRules {
    /// Returns exact clocks, no share for other traffic, and guard bands of 1542 B.
    fn default() -> ScheduleRules {
        ScheduleRules {
            clock_error_ns: 0,
            best_effort_percent: 0,
            guard_wire_bytes: 1542,
            queueing: true,
            isolation: Isolation::Streams,
            cycle_ns: None,
        }
    }
}
