//! The evidence that the rule judges. Plain data; all times are CLOCK_TAI in ns.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::emulation::{EmulatedPort, EmulatedStream, Emulation};
use crate::noise::StallRecord;

/// A frame's first arrival at its listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Sequence number.
    pub seq: u32,
    /// Kernel transmit stamp; `None` if missing.
    pub tx_ns: Option<u64>,
    /// Kernel receive stamp; `None` if missing.
    pub rx_ns: Option<u64>,
    /// Time at which the talker handed the frame over.
    pub app_tx_ns: u64,
    /// Time at which the listener's program had the frame; 0 if it never had it, because a newer value overtook it.
    pub app_rx_ns: u64,
}

impl Sample {
    /// Returns the delay between the kernel stamps, ns. Returns `None` if a stamp is missing or the receive stamp is
    /// the earlier one; then at least one belongs to something else, or the hosts' clocks differ.
    #[must_use]
    pub fn network_delay_ns(&self) -> Option<u64> {
        self.rx_ns?.checked_sub(self.tx_ns?)
    }

    /// Returns the time in ns by which the receive stamp is before the transmit stamp; 0 if it is not, or if one is
    /// missing.
    #[must_use]
    pub fn before_sent_ns(&self) -> u64 {
        match (self.tx_ns, self.rx_ns) {
            (Some(tx), Some(rx)) => tx.saturating_sub(rx),
            _ => 0,
        }
    }

    /// Returns the delay between the applications, ns; 0 if the receive time is the earlier one. `None` if the
    /// listener's program never had the frame.
    #[must_use]
    pub fn app_delay_ns(&self) -> Option<u64> {
        (self.app_rx_ns != 0).then(|| self.app_rx_ns.saturating_sub(self.app_tx_ns))
    }
}

/// A directed port: the one through which `node` sends to its neighbour `port`.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct PortId {
    /// Name of the sending host or switch.
    pub node: String,
    /// Name of the neighbour.
    pub port: String,
}

impl PortId {
    /// Creates the port of `node` towards `port`.
    #[must_use]
    pub fn new(node: impl Into<String>, port: impl Into<String>) -> Self {
        Self {
            node: node.into(),
            port: port.into(),
        }
    }
}

impl fmt::Display for PortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.node, self.port)
    }
}

/// The evidence on one stream at one of its listeners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEvidence {
    /// The stream's name.
    pub name: String,
    /// The listener's host.
    pub listener: String,
    /// The guaranteed worst-case network delay, ns; `None` if the plan has no bound.
    pub promise_ns: Option<u64>,
    /// The user's deadline, ns. It is judged if there is no promise or if the promise is later. A plan whose promises
    /// exceed their deadlines is refused, but an emulated network adds latency of its own to a promise.
    pub deadline_ns: Option<u64>,
    /// The highest delay published elsewhere for this experiment, ns: shown, not judged.
    pub published_max_ns: Option<u64>,
    /// One sample for each frame at its first arrival, in any order.
    pub samples: Vec<Sample>,
    /// Number of frames that the talker was to send.
    pub frames_planned: u64,
    /// Number of frames that it sent.
    pub frames_sent: u64,
    /// Number of different frames that arrived.
    pub frames_received: u64,
    /// Number of arrived frames whose value in a newest-value channel was replaced by a newer one before it was read.
    /// They are judged like all others, by their arrival stamps.
    pub frames_overtaken: u64,
    /// Number of frames that arrived with an altered payload.
    pub frames_corrupted: u64,
    /// Number of frames that arrived again.
    pub frames_duplicated: u64,
    /// Number of frames that arrived after one that was sent later.
    pub frames_reordered: u64,
    /// Number of frames that the listener's own socket dropped because the listener did not read in time.
    pub listener_drops: u64,
    /// The ports on the route, the talker's own first.
    pub route: Vec<PortId>,
    /// Rate of the slowest link on the route, bit/s.
    pub link_rate_bps: u64,
    /// Rate of all contracts together at the busiest port on the route, in millionths of its link's rate (rounded up).
    pub utilization_ppm: u32,
    /// The longest time for which a contract that shares a port on the route may send at the link's rate, ns. For
    /// burst b, rate r and link rate C it is b / (C - r); see [`super::hold_ns`]. For this long after a stall the
    /// backlog need not shrink. 0 is allowed and is the strictest value.
    pub hold_ns: u64,
    /// The replay and the ports' records of an emulated network. `None` on a real network: there the delivered delays
    /// are the network's own and are judged.
    pub emulated: Option<EmulatedStream>,
    /// The largest difference between the clocks of talker and listener, ns: 0 where both stamps are of one clock, `None`
    /// where nobody knows. A delay is judged only as far as it exceeds it.
    pub clock_uncertainty_ns: Option<u64>,
}

/// The evidence on one talker: its contract and how it kept it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TalkerEvidence {
    /// The stream's name.
    pub stream: String,
    /// The ports that its frames pass, the talker's own first, for all listeners together.
    pub ports: Vec<PortId>,
    /// Contracted rate on the wire, bit/s.
    pub rate_bps: u64,
    /// The declared tick error J, ns.
    pub tick_error_declared_ns: u64,
    /// The largest delay of a tick in the run, ns after its due time.
    pub tick_overshoot_max_ns: u64,
    /// True if the shaper caps its budget at the contract's burst. A late tick then costs the stream throughput and
    /// cannot make it exceed its contract.
    pub shaper_caps_burst: bool,
    /// Number of bits by which the frames' transmit stamps exceed the contract, from [`super::excess_bits`]; `None` if
    /// not checked.
    pub contract_excess_bits: Option<u64>,
    /// Number of these bits that no recorded stall explains, from [`super::unexplained_excess_bits`].
    pub unexplained_excess_bits: u64,
    /// Number of frames that departed at another time than their planned launch time. Where there are any, delays are
    /// not those that were promised.
    pub frames_off_launch: u64,
    /// True for best effort. It has no stream of its own, so its load is judged here.
    pub best_effort: bool,
    /// Number of frames that the talker was to send.
    pub frames_planned: u64,
    /// Number of frames that it sent.
    pub frames_sent: u64,
}

impl TalkerEvidence {
    /// Forgets everything that compares two times: for a host whose clock was set.
    pub fn forget_times(&mut self) {
        self.contract_excess_bits = Some(0);
        self.unexplained_excess_bits = 0;
        self.frames_off_launch = 0;
        self.frames_planned = self.frames_sent;
    }

    /// Returns the number of bits by which the talker may have exceeded its contract. It is the measured value, or
    /// without one what the late ticks permit. A frame that missed its launch time may wait for a gate of a later cycle, and
    /// others may wait for it: no number of bits bounds that.
    #[must_use]
    pub fn excess_bits(&self) -> u64 {
        if self.frames_off_launch > 0 {
            return u64::MAX;
        }
        if let Some(bits) = self.contract_excess_bits {
            return bits;
        }
        if self.shaper_caps_burst {
            return 0;
        }
        let late_ns = self
            .tick_overshoot_max_ns
            .saturating_sub(self.tick_error_declared_ns);
        let bits = (u128::from(late_ns) * u128::from(self.rate_bps)).div_ceil(1_000_000_000);
        u64::try_from(bits).unwrap_or(u64::MAX)
    }
}

/// The highest backlog seen within an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BacklogSample {
    /// Start of the interval.
    pub from_ns: u64,
    /// End of the interval.
    pub to_ns: u64,
    /// Highest backlog, bytes (counted like the promise).
    pub max_bytes: u64,
}

/// An interval within which the port's drop counter rose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropWindow {
    /// Start of the interval.
    pub from_ns: u64,
    /// End of the interval.
    pub to_ns: u64,
    /// Number of dropped frames.
    pub frames: u64,
}

/// The evidence on one port.
#[derive(Clone, Debug, PartialEq)]
pub struct PortEvidence {
    /// The port.
    pub id: PortId,
    /// Link rate, bit/s.
    pub link_rate_bps: u64,
    /// The plan's bound on the backlog, bytes; `None` if the plan has none.
    pub promised_backlog_bytes: Option<u64>,
    /// The buffer's size, bytes; `None` if unknown or shared.
    pub buffer_bytes: Option<u64>,
    /// The highest backlog seen, bytes; `None` if not measured.
    pub max_backlog_bytes: Option<u64>,
    /// Number of frames dropped because the buffer was full.
    pub frames_dropped: u64,
    /// The times of the drops, as far as known. Drops outside these windows are not excused.
    pub drop_windows: Vec<DropWindow>,
    /// The backlog over time, as far as known. A maximum outside these samples is not excused.
    pub backlog: Vec<BacklogSample>,
    /// Rate of all contracts together at the port, in millionths of the link's rate (rounded up).
    pub utilization_ppm: u32,
    /// As [`StreamEvidence::hold_ns`], for this port.
    pub hold_ns: u64,
    /// Measured utilization, percent of the link's rate: shown, not judged.
    pub utilization_percent: f64,
    /// The records of an emulated port; `None` for a real one.
    pub emulated: Option<EmulatedPort>,
}

/// The thresholds of the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rule {
    /// Smallest number of samples for the verdict "kept".
    pub min_samples: u64,
    /// Largest share of late samples that stalls may excuse, in millionths.
    pub max_excluded_ppm: u32,
    /// Largest share of samples without network stamps, in millionths.
    pub max_missing_ppm: u32,
    /// Largest share of samples that stalls could have excused, in millionths. It applies once a sample was excused.
    pub max_exposed_ppm: u32,
    /// Smallest share of the planned frames that must be sent, in millionths.
    pub min_offered_ppm: u32,
    /// Smallest share of an emulated network's frames whose delivery needs no explanation, in millionths.
    pub min_coverage_ppm: u32,
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            min_samples: 1_000,
            max_excluded_ppm: 10_000,
            max_missing_ppm: 10_000,
            max_exposed_ppm: 50_000,
            min_offered_ppm: 990_000,
            min_coverage_ppm: 500_000,
        }
    }
}

/// All evidence of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Each stream at each of its listeners.
    pub streams: Vec<StreamEvidence>,
    /// Each port in use.
    pub ports: Vec<PortEvidence>,
    /// Each talker.
    pub talkers: Vec<TalkerEvidence>,
    /// The machine's stalls.
    pub stalls: StallRecord,
    /// The reasons why the stalls excuse nothing, for example that the noise threads lost their priority; empty if
    /// they do.
    pub stalls_doubted: Vec<String>,
    /// True if the run was interrupted. It is then never kept.
    pub interrupted: bool,
    /// A sentence for each clock that was set while the run lasted; empty if none was. No time of such a run is judged, only what is
    /// counted.
    pub clock_set: Vec<String>,
    /// The emulation; `None` on a real network.
    pub emulation: Option<Emulation>,
    /// The thresholds.
    pub rule: Rule,
}

impl Evidence {
    /// Returns the evidence without everything that compares two times: for a run during which the clock was set. What is
    /// counted by sequence numbers stays.
    pub(super) fn without_times(&self) -> Self {
        let mut evidence = self.clone();
        for stream in &mut evidence.streams {
            stream.samples.clear();
            stream.frames_planned = stream.frames_sent;
            if let Some(emulated) = &mut stream.emulated {
                emulated.frames.clear();
            }
        }
        // A buffer that overflowed shows in the streams, as a loss.
        evidence.ports.clear();
        for talker in &mut evidence.talkers {
            talker.forget_times();
        }
        evidence
    }
}
