//! What gates can do, and what the description asks of a schedule.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The limits of one family of gates (IEEE 802.1Q, 8.6.8.4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GateProfile {
    /// Its name.
    pub name: String,
    /// Most entries of a port's list.
    pub entries: Option<u32>,
    /// Shortest entry, nanoseconds, at least 1.
    pub minimum_window_ns: u64,
    /// Longest cycle, nanoseconds.
    pub longest_cycle_ns: u64,
    /// How often a queue may open in one cycle.
    pub openings: Option<u32>,
    /// Whether a frame that would not end before its gate closes is held back.
    pub holds_back: bool,
}

impl GateProfile {
    /// Gates without limits, but for a cycle of 1 s, that hold nothing back.
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

    /// The profiles that need no description: `unlimited`; `i225` (Intel I225 and I226: each queue opens once in a
    /// cycle); `vsc9959` (switch of the NXP LS1028A: 63 entries of at least 35 ns, frames held back).
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

/// What keeps the frames of two streams in one queue apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// They come in the order of their windows: enough as long as every frame is sent and none is lost.
    Frames,
    /// None is in the queue while the window of another is open.
    #[default]
    Streams,
}

/// The table `[schedule]`, and the clock error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleRules {
    /// How far any clock may be from the network's time, nanoseconds.
    pub clock_error_ns: u64,
    /// Hundredths of each gated port's time that stay open for unscheduled traffic, at least.
    pub best_effort_percent: u8,
    /// Largest unscheduled frame on the wire, bytes.
    pub guard_wire_bytes: u64,
    /// Whether frames may wait in switches for their windows on purpose.
    pub queueing: bool,
    /// What keeps streams apart that share a queue.
    pub isolation: Isolation,
}

impl Default for ScheduleRules {
    /// Exact clocks, no share for others, guard bands of 1542 B.
    fn default() -> ScheduleRules {
        ScheduleRules {
            clock_error_ns: 0,
            best_effort_percent: 0,
            guard_wire_bytes: 1542,
            queueing: true,
            isolation: Isolation::Streams,
        }
    }
}
