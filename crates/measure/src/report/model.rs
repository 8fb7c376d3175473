//! The report's data. Units are in the names. Times in plots are ns since the run began.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::noise::NoiseRecord;
use crate::summary::{CcdfPoint, Summary, TimeBucket};
use crate::verdict::{Rule, Verdict};

/// The report on one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "rtwire report")]
pub struct Report {
    /// Version of this format: 2.
    pub format: u32,
    /// The title, usually the network's name.
    pub title: String,
    /// The verdict on the whole run.
    pub verdict: Verdict,
    /// The reasons, in plain sentences.
    pub reasons: Vec<String>,
    /// Each stream at each of its listeners.
    pub streams: Vec<StreamReport>,
    /// Each port in use.
    pub ports: Vec<PortReport>,
    /// Each talker, streams and best effort.
    #[serde(default)]
    pub talkers: Vec<TalkerReport>,
    /// Each host.
    pub hosts: Vec<HostReport>,
    /// The use of the part that real time leaves; null without a manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharing: Option<SharingReport>,
    /// The latencies of the emulated ports, measured on the unloaded network before the run.
    pub calibration: Vec<Calibration>,
    /// The host's own noise during the run; absent if not recorded. Without it nothing is excused.
    pub noise: Option<NoiseRecord>,
    /// The machine it ran on.
    pub machine: Machine,
    /// The exact command.
    pub command: String,
    /// The start of the run, RFC 3339, UTC.
    pub started_at: String,
    /// The same time as CLOCK_TAI ns: the zero of all plots and the base of `noise`.
    pub started_tai_ns: u64,
    /// Duration of the run, seconds.
    pub duration_s: f64,
    /// Hash of the description that the plan was made from.
    pub plan_hash: String,
    /// The thresholds of the verdict.
    pub rule: Rule,
    /// Notes for the reader, for example the plan's warnings.
    pub notes: Vec<String>,
    /// The network for the drawing.
    pub network: Network,
}

/// One stream at one listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamReport {
    /// The stream's name.
    pub name: String,
    /// The talker's host.
    pub talker: String,
    /// The listener's host.
    pub listener: String,
    /// Its traffic in a few words: rate or interval, shaping interval. May be empty.
    pub description: String,
    /// The receive path to the listener: `native` or `generic` (the receive program), `packet` or `datagrams`
    /// (sockets). The reason why no other path was used follows it. Null if not known.
    #[serde(default)]
    pub receive_path: Option<String>,
    /// The transmit path past the queueing discipline, `direct` or `xdp`; null for the path through it.
    #[serde(default)]
    pub transmit_path: Option<String>,
    /// Guaranteed worst-case network delay, ns; null if the plan has no bound.
    pub promised_delay_ns: Option<u64>,
    /// The user's deadline, ns.
    pub deadline_ns: Option<u64>,
    /// Highest delay published for this experiment by others, ns.
    pub published_max_ns: Option<u64>,
    /// Delay in the described network, ns: all frames as they were really sent, replayed. Null on a real network.
    #[serde(default)]
    pub exact_delay_ns: Option<Summary>,
    /// Delay as it was delivered, from the kernel transmit stamp to the kernel receive stamp, ns; null if nothing was
    /// measured.
    pub network_delay_ns: Option<Summary>,
    /// Delay from application to application, ns; null if nothing was measured.
    pub app_delay_ns: Option<Summary>,
    /// Frames that the talker was to send.
    pub frames_planned: u64,
    /// Frames that it sent.
    pub frames_sent: u64,
    /// Different frames that arrived.
    pub frames_received: u64,
    /// Frames sent that never arrived.
    pub frames_lost: u64,
    /// Frames that arrived again.
    pub frames_duplicated: u64,
    /// Frames that arrived after one sent later.
    pub frames_reordered: u64,
    /// Frames that the listener's own socket dropped.
    pub listener_drops: u64,
    /// Frames that were delivered late, and a recorded stall of the machine explains it.
    pub frames_explained: u64,
    /// Frames later than promised, and frames delivered late by an emulated port, that nothing explains.
    pub frames_unexplained: u64,
    /// The share of the frames that arrived whose delivery needed no explanation, percent.
    pub coverage_percent: f64,
    /// Samples without a usable pair of kernel stamps.
    pub stamps_missing: u64,
    /// The verdict.
    pub verdict: Verdict,
    /// The reasons, in plain sentences.
    pub reasons: Vec<String>,
    /// Distribution of the delay in the described network: the share of the frames that took at least as long.
    #[serde(default)]
    pub exact_ccdf: Vec<CcdfPoint>,
    /// Distribution of the delivered delay.
    pub network_ccdf: Vec<CcdfPoint>,
    /// Distribution of the delay from application to application.
    pub app_ccdf: Vec<CcdfPoint>,
    /// The network delay over time.
    pub over_time: Vec<TimeBucket>,
}

/// One talker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TalkerReport {
    /// The name of the stream or best-effort flow.
    pub name: String,
    /// True for best effort.
    pub best_effort: bool,
    /// Frames that it was to send.
    pub frames_planned: u64,
    /// Frames that it sent.
    pub frames_sent: u64,
    /// Bits beyond its contract; null if not checked.
    pub contract_excess_bits: Option<u64>,
    /// Number of these bits that no recorded stall explains.
    pub unexplained_excess_bits: u64,
    /// The verdict.
    pub verdict: Verdict,
    /// The reasons, in plain sentences.
    pub reasons: Vec<String>,
}

/// One port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PortReport {
    /// The switch (or host) that sends.
    pub switch: String,
    /// The neighbour that it sends to.
    pub port: String,
    /// The plan's bound on the backlog, bytes; null if the plan has none.
    pub promised_backlog_bytes: Option<u64>,
    /// The highest backlog seen, bytes; null if not measured.
    pub max_backlog_bytes: Option<u64>,
    /// Highest backlog of the port in the described network, bytes; null on a real network.
    #[serde(default)]
    pub exact_backlog_bytes: Option<u64>,
    /// Frames of an emulated port that left late, and a recorded stall explains it.
    #[serde(default)]
    pub frames_explained: u64,
    /// Frames of an emulated port that left late, and nothing explains it.
    #[serde(default)]
    pub frames_unexplained: u64,
    /// Highest lateness of an emulated port that no stall explains, ns; null on a real network.
    #[serde(default)]
    pub worst_error_ns: Option<u64>,
    /// The buffer, bytes; null if unknown or shared.
    pub buffer_bytes: Option<u64>,
    /// Frames dropped because the buffer was full.
    pub frames_dropped: u64,
    /// Measured utilization, percent of the link's rate.
    pub utilization_percent: f64,
    /// The link's rate, bit/s.
    pub link_rate_bps: u64,
    /// The verdict.
    pub verdict: Verdict,
    /// The reasons, in plain sentences.
    pub reasons: Vec<String>,
    /// The backlog over time.
    pub backlog_over_time: Vec<BacklogBucket>,
}

/// Highest backlog within one bucket of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BacklogBucket {
    /// Start of the bucket, ns since the run began.
    pub at_ns: u64,
    /// Highest backlog in it, bytes.
    pub max_bytes: u64,
}

/// One host: the processor time of its shapers and the delays of its timer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostReport {
    /// The host's name.
    pub name: String,
    /// Processor time of its shapers, ns; null if it sends nothing.
    pub shaper_cpu_ns: Option<u64>,
    /// The same in percent of the run on one core.
    pub shaper_cpu_percent: Option<f64>,
    /// Largest declared delay of its ticks, ns.
    pub tick_error_declared_ns: Option<u64>,
    /// Measured delays of its ticks, ns.
    pub tick_overshoot_ns: Option<Summary>,
    /// Number of times that its shapers woke.
    pub wakeups: u64,
    /// Number of ticks so late that later ones were skipped.
    pub ticks_skipped: u64,
}

/// Best effort in a network whose manager divides what real time leaves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SharingReport {
    /// The manager's host.
    pub manager: String,
    /// The time over which was counted, seconds.
    pub seconds: f64,
    /// Each transfer.
    pub transfers: Vec<TransferReport>,
    /// Each port that a transfer passes.
    pub links: Vec<LinkShare>,
    /// The one-shot reservations of each host.
    pub reservations: Vec<ReservationReport>,
}

/// One transfer by TCP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TransferReport {
    /// The host that sends.
    pub from: String,
    /// The host that receives.
    pub to: String,
    /// The bits of user data that its receiver read in a second.
    pub goodput_bps: f64,
}

/// The use of one link, by the bits on the wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkShare {
    /// The node that sends.
    pub node: String,
    /// The neighbour that it sends to.
    pub port: String,
    /// The link's rate, bit/s.
    pub link_rate_bps: u64,
    /// The share of the planned streams, percent of the link's rate.
    pub real_time_percent: f64,
    /// The share of everything else, percent of the link's rate.
    pub best_effort_percent: f64,
    /// The same in percent of what the planned streams leave.
    pub of_free_percent: f64,
    /// The transfers that pass it.
    pub transfers: u64,
    /// Their fairness after Jain: 1 where all are equal; null for fewer than two.
    pub fairness: Option<f64>,
}

/// The one-shot reservations of one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReservationReport {
    /// The host.
    pub host: String,
    /// Those that the manager granted.
    pub granted: u64,
    /// Those that it refused.
    pub refused: u64,
    /// Questions without an answer in time.
    pub unanswered: u64,
    /// The number of times from a need to a usable reservation.
    pub samples: u64,
    /// Their median, ns.
    pub p50_ns: Option<u64>,
    /// Exceeded by one in a hundred, ns.
    pub p99_ns: Option<u64>,
    /// The longest, ns.
    pub max_ns: Option<u64>,
}

/// The latency of one emulated port, measured before the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Calibration {
    /// The switch or host.
    pub node: String,
    /// The neighbour that it sends to.
    pub port: String,
    /// The lateness up to which the port counts as an exact one, ns.
    pub latency_ns: u64,
    /// Number of frames it was measured with.
    pub samples: u64,
    /// Their median, ns.
    pub p50_ns: u64,
    /// Their maximum, ns.
    pub max_ns: u64,
}

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// Kernel name, release and version.
    pub kernel: String,
    /// Architecture, for example `x86_64`.
    pub architecture: String,
    /// The processor's name.
    pub model: String,
    /// Cores that this process may use.
    pub cpus: u32,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// The kernel's preemption model: `none`, `voluntary`, `full`, `lazy` or `rt`; `unknown` if the kernel does not
    /// report it.
    pub preemption: String,
    /// The clock source in use.
    pub clocksource: String,
    /// True if the processor reports a hypervisor.
    pub virtualized: bool,
    /// Settings of kernel timers and scheduling, for example `sched_rt_runtime_us=950000`.
    pub settings: Vec<String>,
    /// Version of rtwire.
    pub rtwire_version: String,
}

/// A network for the drawing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Network {
    /// Its name.
    pub name: String,
    /// Hosts and switches.
    pub nodes: Vec<DrawnNode>,
    /// Links, one for each direction with traffic.
    pub links: Vec<DrawnLink>,
}

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodeKind {
    /// A host.
    Host,
    /// A switch.
    Switch,
}

/// A host or switch in the drawing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DrawnNode {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: NodeKind,
}

/// One direction of a link in the drawing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DrawnLink {
    /// Name of the node that sends.
    pub from: String,
    /// Name of the node that receives.
    pub to: String,
    /// Rate, bit/s.
    pub rate_bps: u64,
    /// Measured utilization, percent of the rate; null if not measured.
    pub utilization_percent: Option<f64>,
}
