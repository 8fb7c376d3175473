//! What the rule looks at. Plain data; all moments are nanoseconds of CLOCK_TAI.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::noise::StallRecord;

/// One frame that arrived, for the first time, at its listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Sequence number.
    pub seq: u32,
    /// Kernel stamp of the sending; `None` if the kernel gave none.
    pub tx_ns: Option<u64>,
    /// Kernel stamp of the reception; `None` if the kernel gave none.
    pub rx_ns: Option<u64>,
    /// When the talker handed the frame over.
    pub app_tx_ns: u64,
    /// When the listener had the frame in its hands.
    pub app_rx_ns: u64,
}

impl Sample {
    /// From kernel stamp to kernel stamp, ns. `None` if a stamp is missing or they run backwards, which says that at
    /// least one of them is of something else.
    #[must_use]
    pub fn network_delay_ns(&self) -> Option<u64> {
        self.rx_ns?.checked_sub(self.tx_ns?)
    }

    /// From application to application, ns (0 if the stamps run backwards).
    #[must_use]
    pub fn app_delay_ns(&self) -> u64 {
        self.app_rx_ns.saturating_sub(self.app_tx_ns)
    }
}

/// A directed port: what `node` sends towards its neighbour `port`.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct PortId {
    /// Name of the host or switch that sends.
    pub node: String,
    /// Name of the neighbour it sends to.
    pub port: String,
}

impl PortId {
    /// The port of `node` towards `port`.
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

/// What is known of one stream at one of its listeners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEvidence {
    /// The stream's name.
    pub name: String,
    /// The listener's host.
    pub listener: String,
    /// The guaranteed worst-case network delay, ns; `None` if the plan could give none.
    pub promise_ns: Option<u64>,
    /// What the user asked for, ns. Judged where there is no promise, and where the promise is later (a plan whose promises
    /// exceed their deadlines is refused, but what emulates a network adds latency of its own).
    pub deadline_ns: Option<u64>,
    /// The highest delay that somebody published for this experiment, ns: shown, not judged.
    pub published_max_ns: Option<u64>,
    /// One for each frame received for the first time; any order.
    pub samples: Vec<Sample>,
    /// How many frames the talker was to send.
    pub frames_planned: u64,
    /// How many it sent.
    pub frames_sent: u64,
    /// How many different frames arrived.
    pub frames_received: u64,
    /// Of these: values of a newest-value channel that newer ones overtook before they were read. They arrived and are
    /// not among the samples.
    pub frames_overtaken: u64,
    /// How many arrived again.
    pub frames_duplicated: u64,
    /// How many arrived after one that was sent later.
    pub frames_reordered: u64,
    /// How many frames the listener's own socket threw away because nobody read.
    pub listener_drops: u64,
    /// The ports on the way, the talker's own first.
    pub route: Vec<PortId>,
    /// Rate of the slowest link on the way, bit/s.
    pub link_rate_bps: u64,
    /// What all contracts together may ask of the busiest port on the way, in millionths of its link's rate (rounded up).
    pub utilization_ppm: u32,
    /// The longest time that a contract sharing a port on the way may send at its link's rate, ns: for each of burst b
    /// and rate r on a link of rate C, b / (C - r); see [`super::hold_ns`]. For this long after a stall its backlog need not shrink at all.
    /// 0 is allowed and the strictest.
    pub hold_ns: u64,
    /// By how much a real network could have been later than what was measured, ns, because of what the measured one only
    /// emulates. 0 on a real network. A promise that would not hold with it is not called kept.
    pub unseen_ns: u64,
}

/// What is known of one talker: whether it kept its own side of the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TalkerEvidence {
    /// The stream's name.
    pub stream: String,
    /// The ports that its frames pass, the talker's own first; all listeners' routes together.
    pub ports: Vec<PortId>,
    /// Contracted rate on the wire, bit/s.
    pub rate_bps: u64,
    /// The declared tick error J, ns.
    pub tick_error_declared_ns: u64,
    /// The latest tick of the run, ns after its due time.
    pub tick_overshoot_max_ns: u64,
    /// Whether the shaper caps its budget at the contract's burst. Then a late tick costs the stream throughput and
    /// cannot make it exceed its contract.
    pub shaper_caps_burst: bool,
    /// By how much the frames' transmit stamps exceed the contract, bit, as [`super::excess_bits`] finds it; `None` if not checked.
    pub contract_excess_bits: Option<u64>,
}

impl TalkerEvidence {
    /// By how many bits the talker may have exceeded its contract: as measured, else as the late ticks allow.
    #[must_use]
    pub fn excess_bits(&self) -> u64 {
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

/// The highest backlog that was seen between two moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BacklogSample {
    /// From when.
    pub from_ns: u64,
    /// Until when.
    pub to_ns: u64,
    /// Highest backlog between, bytes (counted like the promise).
    pub max_bytes: u64,
}

/// Between these moments the port's drop counter rose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropWindow {
    /// From when.
    pub from_ns: u64,
    /// Until when.
    pub to_ns: u64,
    /// By how many frames.
    pub frames: u64,
}

/// What is known of one port.
#[derive(Clone, Debug, PartialEq)]
pub struct PortEvidence {
    /// Which.
    pub id: PortId,
    /// Link rate, bit/s.
    pub link_rate_bps: u64,
    /// The backlog that the plan bounds, bytes; `None` if it could not.
    pub promised_backlog_bytes: Option<u64>,
    /// The buffer there is, bytes; `None` if unknown or shared.
    pub buffer_bytes: Option<u64>,
    /// The highest backlog seen, bytes; `None` if nobody looked.
    pub max_backlog_bytes: Option<u64>,
    /// Frames thrown away for want of room.
    pub frames_dropped: u64,
    /// When the drops happened, as far as known. Drops outside of these windows excuse nothing.
    pub drop_windows: Vec<DropWindow>,
    /// The backlog over time, as far as known. A maximum not among these excuses nothing.
    pub backlog: Vec<BacklogSample>,
    /// What the contracts may ask of the port, in millionths of the link's rate (rounded up).
    pub utilization_ppm: u32,
    /// As [`StreamEvidence::hold_ns`], for this port.
    pub hold_ns: u64,
    /// What was really sent, percent of the link's rate: shown, not judged.
    pub utilization_percent: f64,
}

/// The thresholds of the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rule {
    /// With fewer samples than this nothing is called kept.
    pub min_samples: u64,
    /// Largest share of late samples that stalls may excuse, in millionths.
    pub max_excluded_ppm: u32,
    /// Largest share of samples without network stamps, in millionths.
    pub max_missing_ppm: u32,
    /// Largest share of samples for which an excuse lay ready, in millionths, once one was needed.
    pub max_exposed_ppm: u32,
    /// Smallest share of the planned frames that must have been sent, in millionths.
    pub min_offered_ppm: u32,
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            min_samples: 1_000,
            max_excluded_ppm: 10_000,
            max_missing_ppm: 10_000,
            max_exposed_ppm: 50_000,
            min_offered_ppm: 990_000,
        }
    }
}

/// All there is to judge.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Each stream at each of its listeners.
    pub streams: Vec<StreamEvidence>,
    /// Each port in use.
    pub ports: Vec<PortEvidence>,
    /// Each talker.
    pub talkers: Vec<TalkerEvidence>,
    /// When the machine stalled.
    pub stalls: StallRecord,
    /// The thresholds.
    pub rule: Rule,
}
