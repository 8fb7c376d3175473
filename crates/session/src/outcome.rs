//! The result of one host's run: plain data, which also travels from another process as JSON.

use rtwire_measure::noise::Stall;
use rtwire_measure::summary::Summary;
use serde::{Deserialize, Serialize};

/// The result of one host, besides the samples in their files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostResult {
    /// In the order of the assignment.
    pub talkers: Vec<TalkerResult>,
    /// In the order of the assignment.
    pub listeners: Vec<ListenerResult>,
    /// Frames that no channel took, by reason and count.
    pub strays: Vec<(String, u64)>,
    /// The scheduling that the threads really have, read back.
    pub scheduling: String,
}

impl HostResult {
    /// Returns the instant up to which every listener took what came: the least of their last reads. `open_ns` if one never
    /// read, `now_ns` if there are none.
    pub(crate) fn heard_to_ns(&self, open_ns: u64, now_ns: u64) -> u64 {
        let ends = self.listeners.iter();
        let ends = ends.map(|listener| listener.heard_to_ns.unwrap_or(open_ns));
        ends.min().unwrap_or(now_ns)
    }
}

/// One stream at its talker, after the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TalkerResult {
    /// The stream's index, as in its task.
    pub stream: usize,
    /// Values that were given a sequence number.
    pub frames_sent: u64,
    /// Cycles in which nothing was sent: they had passed, or a frame would have broken the contract.
    pub ticks_skipped: u64,
    /// Processor time of the sending thread, shaper and system calls, ns.
    pub cpu_ns: u64,
    /// The lateness of each tick, ns.
    pub overshoots_ns: Vec<u32>,
    /// The lateness of all ticks as a summary, for runs of any length.
    pub lateness: Option<Summary>,
    /// The lateness of the thread's wake-ups, each against the time that it slept until.
    pub wake_late: Option<Summary>,
    /// The kernel's transmit timestamps minus the instants of their frames. `None` where the transmit path has none.
    pub off_grid: Option<Summary>,
    /// The card's transmit timestamps minus the instants of their frames. `None` without those.
    #[serde(default)]
    pub on_wire: Option<Summary>,
    /// Frames that the card stamped; `None` if it was not asked.
    #[serde(default)]
    pub card_stamps: Option<u64>,
    /// The margin before an instant at which the thread woke at last, ns; 0: it did not spin.
    pub margin_ns: u64,
    /// The time from wake-ups to instants, ns: the processor time that the margin cost.
    pub spun_ns: u64,
    /// Ticks that were late by more than the declared tick error, or by an interval.
    pub stalls: Vec<Stall>,
    /// Send calls that the kernel refused because a queue was full.
    pub sends_refused: u64,
    /// The reason for an early end.
    pub fault: Option<String>,
}

/// One stream at a listener, after the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ListenerResult {
    /// The stream's index, as in its task.
    pub stream: usize,
    /// The receive path of its frames, and the reason where it is not the first choice.
    pub path: String,
    /// Different frames that the channel accepted.
    pub frames_received: u64,
    /// Values that arrived and were overtaken by newer ones before they were read (newest-value channels).
    pub frames_overtaken: u64,
    /// Arrivals of newest values that are unknown, because their notes were overwritten before they were collected.
    #[serde(default)]
    pub arrivals_missed: u64,
    /// Frames whose payload was altered: their checksum is wrong.
    #[serde(default)]
    pub frames_corrupted: u64,
    /// Frames whose payload carries no checksum: a program's values.
    #[serde(default)]
    pub frames_unchecked: u64,
    /// Frames that arrived twice.
    pub frames_duplicated: u64,
    /// Frames that arrived behind a later one.
    pub frames_reordered: u64,
    /// Sequence numbers that did not arrive.
    pub frames_lost: u64,
    /// Frames at this channel's port with another key: of another plan, or of another version of it.
    pub frames_foreign: u64,
    /// Frames with more user data than the contract allows.
    pub frames_too_long: u64,
    /// Frames beyond the contract's rate and burst.
    pub frames_too_frequent: u64,
    /// Talkers that began again.
    pub restarts: u64,
    /// Time from the talker's own timestamp to the kernel's at arrival: two clocks, unless the hosts share one.
    pub delay: Option<Summary>,
    /// Frames that arrived before they were sent, by those clocks.
    pub before_sent: u64,
    /// Frames that the socket dropped because nobody read.
    pub socket_drops: u64,
    /// Frames dropped because they were beyond the contract.
    pub frames_policed: u64,
    /// Moments at which the listener was held up.
    pub stalls: Vec<Stall>,
    /// The instant at which its last read returned, ns of CLOCK_TAI: what came later nobody took. `None` if it never read.
    #[serde(default)]
    pub heard_to_ns: Option<u64>,
    /// The reason for an early end.
    pub fault: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_heard_up_to_the_first_last_read_of_its_listeners() {
        let of = |reads: &[Option<u64>]| HostResult {
            listeners: reads
                .iter()
                .map(|heard_to_ns| ListenerResult {
                    heard_to_ns: *heard_to_ns,
                    ..ListenerResult::default()
                })
                .collect(),
            ..HostResult::default()
        };
        // What the threads did behind their last reads took until 90.
        assert_eq!(of(&[Some(70), Some(60)]).heard_to_ns(10, 90), 60);
        assert_eq!(of(&[Some(70), None]).heard_to_ns(10, 90), 10);
        assert_eq!(of(&[]).heard_to_ns(10, 90), 90);
    }
}
