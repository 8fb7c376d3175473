//! What the lab tells a host's process, and what that process answers: plain data, JSON on its way.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use rtwire_channel::ReceivePath;
use rtwire_measure::noise::Stall;
use rtwire_measure::summary::Summary;

/// Everything one host has to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Assignment {
    /// The host's name, for messages.
    pub(crate) host: String,
    /// The network namespace to move into.
    pub(crate) namespace: String,
    /// The interface to use there.
    pub(crate) interface: String,
    pub(crate) talkers: Vec<TalkerTask>,
    pub(crate) listeners: Vec<ListenerTask>,
    /// The way frames come to the listeners.
    #[serde(with = "as_text")]
    pub(crate) receive_path: ReceivePath,
    /// Where the samples go; nowhere where they are not kept.
    pub(crate) directory: Option<String>,
    /// How long listeners wait for frames on their way after the talkers' end, in ns.
    pub(crate) drain_ns: u64,
}

/// A receive path as its name.
mod as_text {
    use rtwire_channel::ReceivePath;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(path: &ReceivePath, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(path)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<ReceivePath, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// How a talker sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "kebab-case")]
pub(crate) enum Pattern {
    /// One frame each interval.
    Cyclic { interval_ns: u64 },
    /// As many frames as the shaper lets pass, whenever it lets them.
    Saturating,
    /// As fast as the link takes them: no shaper at all.
    Greedy,
    /// So many frames back to back, each interval: to calibrate the unloaded network.
    Bursts {
        frames: u32,
        interval_ns: u64,
        offset_ns: u64,
    },
}

/// The way out of the host that a talker's frames take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TransmitPath {
    /// Through the queueing discipline of the interface.
    Qdisc,
    /// Past it.
    Direct,
    /// Past it, by memory shared with the kernel (AF_XDP): one sender for each transmit queue.
    Xdp,
    /// Through a queue that keeps each frame until its launch time.
    Launch,
    /// By AF_XDP, with launch times that the card keeps.
    XdpLaunch,
}

impl TransmitPath {
    /// Whether it is for streams that have instants to leave at; all else goes through the queueing discipline then.
    pub(crate) fn has_launch_times(self) -> bool {
        matches!(self, Self::Launch | Self::XdpLaunch)
    }

    /// Whether it goes past the queueing discipline, where the kernel stamps nothing.
    pub(crate) fn goes_past_the_queue(self) -> bool {
        !matches!(self, Self::Qdisc | Self::Launch)
    }

    /// Its name, as commands take it and reports say it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Qdisc => "qdisc",
            Self::Direct => "direct",
            Self::Xdp => "xdp",
            Self::Launch => "launch",
            Self::XdpLaunch => "xdp-launch",
        }
    }
}

/// Where a stream's frames go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "transport", rename_all = "kebab-case")]
pub(crate) enum Address {
    Rtdip { mac: [u8; 6], vlan: Option<u16> },
    Udp { ip: std::net::Ipv4Addr },
}

/// One stream at its talker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TalkerTask {
    /// Index of the stream, best effort behind the streams.
    pub(crate) stream: usize,
    pub(crate) name: String,
    pub(crate) address: Address,
    pub(crate) port: u16,
    pub(crate) pcp: u8,
    pub(crate) newest: bool,
    pub(crate) payload_bytes: usize,
    pub(crate) wire_bits: u64,
    pub(crate) pattern: Pattern,
    /// The contract: rate on the wire in bit/s as a fraction, burst in bits, T_s and J in ns.
    pub(crate) rate: (u64, u64),
    pub(crate) burst_bits: u64,
    pub(crate) shaping_interval_ns: u64,
    pub(crate) tick_error_ns: u64,
    /// Frames there will be at most, to make room for their stamps; 0: none are kept.
    pub(crate) frames_most: usize,
    /// Its thread's priority (SCHED_FIFO).
    pub(crate) realtime: u8,
    pub(crate) path: TransmitPath,
    /// The plan's launch: so many ns after whole periods of CLOCK_TAI, and the period in ns.
    pub(crate) launch: Option<(u64, u64)>,
    /// Whether to take the kernel's transmit stamps.
    pub(crate) stamps: bool,
}

/// One stream at one of its listeners.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ListenerTask {
    pub(crate) stream: usize,
    pub(crate) name: String,
    pub(crate) udp: bool,
    pub(crate) port: u16,
    pub(crate) newest: bool,
    /// Frames there will be at most, to make room for their samples.
    pub(crate) frames_most: usize,
    /// The listener stops reading after so many frames: a fault for tests.
    pub(crate) reads_most: Option<usize>,
    /// Its thread's priority (SCHED_FIFO).
    pub(crate) realtime: u8,
    /// The group that it joins, for datagrams to several listeners.
    pub(crate) group: Option<std::net::Ipv4Addr>,
    /// Whether it polls the driver in its own calls.
    pub(crate) polls: bool,
    /// How long it looks again and again before it sleeps, ns.
    pub(crate) spin_ns: u64,
    /// What it is held to: bits per second, bits at once, octets of a frame beyond its own.
    pub(crate) police: Option<(u64, u64, u16)>,
}

/// What the lab says after the assignment: one line each on the process's standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    /// Begin to send at this moment, end at that one (CLOCK_TAI ns).
    Run { start_ns: u64, end_ns: u64 },
    /// End now and answer.
    Stop,
}

/// What a host's process says: one line each on its standard output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// Everything is open and waits.
    Ready,
    /// It is over.
    Done(HostResult),
    /// It failed; in words for the user.
    Failed { message: String },
}

/// What one host's process has to report, besides the samples in their files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct HostResult {
    pub(crate) talkers: Vec<TalkerResult>,
    pub(crate) listeners: Vec<ListenerResult>,
    /// Frames that no channel took, by reason.
    pub(crate) strays: Vec<(String, u64)>,
    /// Scheduling that the workers really have, read back.
    pub(crate) scheduling: String,
}

/// One stream at its talker, after the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TalkerResult {
    pub(crate) stream: usize,
    pub(crate) frames_sent: u64,
    /// Ticks missed altogether and skipped.
    pub(crate) ticks_skipped: u64,
    /// Processor time of the sending thread, shaper and system calls.
    pub(crate) cpu_ns: u64,
    /// How late its ticks were, in ns.
    pub(crate) overshoots_ns: Vec<u32>,
    /// The same as a summary, however long the run was.
    pub(crate) lateness: Option<Summary>,
    /// Ticks that were late by more than the declared tick error.
    pub(crate) stalls: Vec<Stall>,
    /// Send calls that the kernel refused for want of room.
    pub(crate) sends_refused: u64,
    /// What ended it early, if anything did.
    pub(crate) fault: Option<String>,
}

/// One stream at a listener, after the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ListenerResult {
    pub(crate) stream: usize,
    /// The way its frames came, and why not another.
    pub(crate) path: String,
    /// Different frames that the channel accepted.
    pub(crate) frames_received: u64,
    /// Values that arrived and were overtaken by newer ones before they were read (newest-value channels).
    pub(crate) frames_overtaken: u64,
    pub(crate) frames_duplicated: u64,
    pub(crate) frames_reordered: u64,
    /// Numbers that did not come.
    pub(crate) frames_lost: u64,
    /// Talkers that began again.
    pub(crate) restarts: u64,
    /// From the talker's own time stamp to the kernel's at arrival: two clocks, unless both hosts' are one.
    pub(crate) delay: Option<Summary>,
    /// Frames that came before they were sent, by those clocks.
    pub(crate) before_sent: u64,
    /// Frames that the socket threw away because nobody read.
    pub(crate) socket_drops: u64,
    /// Frames dropped since they were beyond the contract.
    pub(crate) frames_policed: u64,
    pub(crate) stalls: Vec<Stall>,
    pub(crate) fault: Option<String>,
}
