//! The result of scheduling: lists of gate states, launch offsets and windows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The gates of one port over one cycle (802.1Qbv), on the clock of its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GateList {
    /// The time after which it repeats, nanoseconds. The durations of the entries add up to it exactly.
    pub cycle_ns: u64,
    /// The start of the first entry, nanoseconds after a whole number of cycles since the clock's epoch.
    pub base_offset_ns: u64,
    /// The states, in order of time.
    pub entries: Vec<GateEntry>,
    /// The queues that only scheduled traffic uses: bit n for queue n.
    pub scheduled_queues: u8,
    /// The time in each cycle for which all other queues are open, nanoseconds.
    pub unscheduled_open_ns: u64,
    /// The time for which all gates are closed ahead of a window, nanoseconds; 0 if the hardware holds frames back.
    pub guard_band_ns: u64,
}

/// One state of a port's gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GateEntry {
    /// The queues that may send: bit n for queue n (traffic class n; 7 most urgent).
    pub gates: u8,
    /// The duration of the state, nanoseconds.
    pub duration_ns: u64,
}

/// The launch time of a time-triggered stream, and its windows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// The time at which its first bit leaves the talker, nanoseconds. It is counted from a whole number of periods
    /// since the epoch of the talker's clock (CLOCK_TAI).
    pub offset_ns: u64,
    /// Nanoseconds between launches.
    pub period_ns: u64,
    /// One window for each port on the route, the talker's first.
    pub windows: Vec<Window>,
}

/// The time of a frame at one port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// The node that sends.
    pub node: String,
    /// The neighbour that it sends to.
    pub port: String,
    /// The queue that the frame waits in.
    pub queue: u8,
    /// The start of sending, nanoseconds of the node's clock after the start of the launch's period. If it is beyond
    /// the period, it falls into a later one.
    pub start_ns: u64,
    /// The longest time of sending, nanoseconds, rounded up, plus the time that a clock may gain meanwhile.
    pub duration_ns: u64,
}

impl GateList {
    /// Returns the open gates at an instant of the node's clock, nanoseconds since its epoch, and the instant of the
    /// next change.
    ///
    /// `None` if the list is empty or its cycle zero. It walks the list, so it is not for a real-time loop.
    #[must_use]
    pub fn at(&self, clock_ns: u64) -> Option<(u8, u64)> {
        if self.cycle_ns == 0 {
            return None;
        }
        let offset = self.base_offset_ns % self.cycle_ns;
        let into = (clock_ns % self.cycle_ns + self.cycle_ns - offset) % self.cycle_ns;
        let mut end = 0_u64;
        for entry in &self.entries {
            end = end.checked_add(entry.duration_ns)?;
            if into < end {
                return Some((entry.gates, clock_ns.checked_add(end - into)?));
            }
        }
        None
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::{GateEntry, GateList};

    #[test]
    fn a_list_repeats_from_its_base() {
        let list = GateList {
            cycle_ns: 100,
            base_offset_ns: 30,
            entries: vec![
                GateEntry {
                    gates: 0x80,
                    duration_ns: 10,
                },
                GateEntry {
                    gates: 0x7f,
                    duration_ns: 90,
                },
            ],
            scheduled_queues: 0x80,
            unscheduled_open_ns: 90,
            guard_band_ns: 0,
        };
        assert_eq!(list.at(30), Some((0x80, 40)));
        assert_eq!(list.at(39), Some((0x80, 40)));
        assert_eq!(list.at(40), Some((0x7f, 130)));
        assert_eq!(list.at(0), Some((0x7f, 30)));
        assert_eq!(list.at(1_000_029), Some((0x7f, 1_000_030)));
        assert_eq!(
            GateList {
                cycle_ns: 0,
                ..list
            }
            .at(5),
            None
        );
    }
}
