//! What one host has sent and seen: plain data, which also comes from another process as JSON.

use rtwire_measure::noise::Stall;
use rtwire_measure::summary::Summary;
use serde::{Deserialize, Serialize};

/// What one host has to report, besides the samples in their files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostResult {
    /// In the order of the assignment.
    pub talkers: Vec<TalkerResult>,
    /// In the order of the assignment.
    pub listeners: Vec<ListenerResult>,
    /// Frames that no channel took, by reason.
    pub strays: Vec<(String, u64)>,
    /// Scheduling that the threads really have, read back.
    pub scheduling: String,
}

/// One stream at its talker, after the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TalkerResult {
    /// As in its task.
    pub stream: usize,
    /// Values that have got a sequence number.
    pub frames_sent: u64,
    /// Cycles in which nothing was sent: they had passed, or the frame would have broken the contract.
    pub ticks_skipped: u64,
    /// Processor time of the sending thread, shaper and system calls, ns.
    pub cpu_ns: u64,
    /// The lateness of each tick, ns.
    pub overshoots_ns: Vec<u32>,
    /// The same as a summary, for runs of any length.
    pub lateness: Option<Summary>,
    /// Ticks that were late by more than the declared tick error.
    pub stalls: Vec<Stall>,
    /// Send calls that the kernel refused for want of room.
    pub sends_refused: u64,
    /// The reason for an early end.
    pub fault: Option<String>,
}

/// One stream at a listener, after the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ListenerResult {
    /// As in its task.
    pub stream: usize,
    /// The receive path of its frames, and the reason where it is not the first choice.
    pub path: String,
    /// Different frames that the channel accepted.
    pub frames_received: u64,
    /// Values that arrived and were overtaken by newer ones before they were read (newest-value channels).
    pub frames_overtaken: u64,
    /// Frames that came twice.
    pub frames_duplicated: u64,
    /// Frames that came behind a later one.
    pub frames_reordered: u64,
    /// Numbers that did not come.
    pub frames_lost: u64,
    /// Frames at this channel's port with another key: of another plan, or of another version of it.
    pub frames_foreign: u64,
    /// Frames with more data than the contract's.
    pub frames_too_long: u64,
    /// Frames beyond the contract's rate and burst.
    pub frames_too_frequent: u64,
    /// Talkers that began again.
    pub restarts: u64,
    /// From the talker's own time stamp to the kernel's at arrival: two clocks, unless both hosts' are one.
    pub delay: Option<Summary>,
    /// Frames that came before they were sent, by those clocks.
    pub before_sent: u64,
    /// Frames that the socket threw away because nobody read.
    pub socket_drops: u64,
    /// Frames dropped since they were beyond the contract.
    pub frames_policed: u64,
    /// Moments at which the listener was held up.
    pub stalls: Vec<Stall>,
    /// The reason for an early end.
    pub fault: Option<String>,
}
