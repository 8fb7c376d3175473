//! The report's data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::report::Machine;
use crate::stamp_origin::StampOrigin;
use crate::summary::{CcdfPoint, Summary, TimeBucket};

/// The results of `rtwire jitter`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "rtwire jitter report")]
pub struct JitterReport {
    /// The file or interface.
    pub source: String,
    /// The format of the capture, for example `pcap, nanoseconds`; `live` for an interface.
    pub format: String,
    /// Place and clock of the timestamps; null for a capture, which does not say it.
    #[serde(default)]
    pub stamps: Option<StampOrigin>,
    /// Time of the first packet, RFC 3339; null if no packet has a time.
    pub first_packet_at: Option<String>,
    /// Time from the first packet to the last, ns.
    pub duration_ns: u64,
    /// The frames in the capture, by kind.
    pub frames: FrameCounts,
    /// The cycle from which deviations are counted; null if there were no two SoC in a row.
    pub cycle: Option<CycleReport>,
    /// SoC–SoC jitter; null if there were no two SoC in a row.
    pub soc: Option<SocReport>,
    /// Each polled node, by number.
    pub nodes: Vec<NodeReport>,
    /// PReq–PRes times of all nodes together; null if there were none.
    pub latency_ns: Option<Summary>,
    /// Use of the cycle; null if there were no two SoC in a row.
    pub utilization: Option<UtilizationReport>,
    /// Each node that was invited in the asynchronous phase, by number.
    pub asynchronous: Vec<AsynchronousReport>,
    /// The worst cases of each kind, worst first.
    pub worst: Vec<WorstCase>,
    /// The limits to keep, and those that were broken.
    pub limits: Limits,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// The exact command.
    pub command: String,
    /// The machine that made this report (not always the one that captured).
    pub machine: Machine,
}

/// Number of frames of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FrameCounts {
    /// Packets in all.
    pub packets: u64,
    /// Start of cycle.
    pub soc: u64,
    /// Poll requests.
    pub preq: u64,
    /// Poll responses.
    pub pres: u64,
    /// Start of asynchronous phase.
    pub soa: u64,
    /// Asynchronous sends.
    pub asnd: u64,
    /// Other POWERLINK frames.
    pub other_powerlink: u64,
    /// POWERLINK frames too short for their kind.
    pub malformed: u64,
    /// Packets of other protocols.
    pub not_powerlink: u64,
    /// Packets without a time; they were not measured.
    pub without_time: u64,
    /// Packets whose time is before that of the previous packet.
    pub backwards: u64,
}

/// The cycle from which deviations are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CycleReport {
    /// Its length, ns.
    pub cycle_ns: u64,
    /// True if the user stated the cycle; else it is the round number closest to the median.
    pub stated: bool,
    /// The median of the intervals, ns.
    pub median_ns: u64,
}

/// SoC–SoC jitter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SocReport {
    /// Times between two SoC, ns.
    pub interval_ns: Summary,
    /// Absolute deviations of the intervals from the cycle, ns.
    pub deviation_ns: Summary,
    /// Signed deviations, ns; negative if a SoC was early.
    pub histogram: Vec<HistogramBin>,
    /// Complementary distribution of the absolute deviations.
    pub ccdf: Vec<CcdfPoint>,
    /// Absolute deviations over time.
    pub over_time: Vec<TimeBucket>,
    /// Number of missing SoC, by the length of the intervals.
    pub missing: u64,
    /// Number of times that the cycle restarted after a reduced cycle (pre-operational 1).
    pub restarts: u64,
}

/// One bin of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistogramBin {
    /// Lower edge, inclusive, ns.
    pub from_ns: i64,
    /// Upper edge, exclusive, ns.
    pub to_ns: i64,
    /// Number of samples.
    pub count: u64,
}

/// One controlled node in the isochronous phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeReport {
    /// Its node number.
    pub node: u8,
    /// Number of PReq to it.
    pub polled: u64,
    /// Number of PRes to those PReq, late ones included.
    pub answered: u64,
    /// Number of PRes after the managing node's next PReq, SoA or SoC.
    pub late: u64,
    /// Number of PReq without PRes.
    pub lost: u64,
    /// Number of PRes without PReq (PollResponse chaining).
    pub unasked: u64,
    /// Time from PReq to PRes, ns; null if there were none.
    pub latency_ns: Option<Summary>,
    /// The same times as a histogram.
    pub histogram: Vec<HistogramBin>,
    /// Their complementary distribution.
    pub ccdf: Vec<CcdfPoint>,
    /// The same times over time.
    pub over_time: Vec<TimeBucket>,
    /// The NMT state in its last PRes; null if there was none.
    pub last_state: Option<String>,
}

/// Use of the cycle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UtilizationReport {
    /// Time from SoC to SoA, ns; null if no SoA followed a SoC.
    pub isochronous_ns: Option<Summary>,
    /// Its median in percent of the cycle.
    pub isochronous_percent_p50: Option<f64>,
    /// Its maximum in percent of the cycle.
    pub isochronous_percent_max: Option<f64>,
    /// The link rate that wire times are computed for, bit/s.
    pub link_rate_bps: u64,
    /// Time that a cycle's frames take on the wire (preamble, FCS and gap included), ns.
    pub wire_ns: Summary,
    /// Its median in percent of the cycle.
    pub wire_percent_p50: f64,
    /// Its maximum in percent of the cycle.
    pub wire_percent_max: f64,
}

/// One node in the asynchronous phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AsynchronousReport {
    /// Its node number.
    pub node: u8,
    /// Number of SoA that invited it.
    pub asked: u64,
    /// Number of its ASnd before the next SoA or SoC.
    pub answered: u64,
    /// Time from SoA to ASnd, ns; null if there were none.
    pub latency_ns: Option<Summary>,
}

/// The kind of a worst case.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum WorstKind {
    /// A SoC far from its cycle.
    Soc,
    /// A SoC that was early (used only internally; becomes [`WorstKind::Soc`]).
    #[serde(skip)]
    SocEarly,
    /// A slow PRes.
    Pres,
    /// A PReq without PRes before the next SoC.
    NoPres,
}

/// One worst case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorstCase {
    /// Its kind.
    pub kind: WorstKind,
    /// The node, if a PRes is concerned.
    pub node: Option<u8>,
    /// Deviation from the cycle or PReq–PRes time, ns; 0 if the PRes is missing.
    pub value_ns: u64,
    /// The number in the capture of the packet that showed it.
    pub number: u64,
    /// Its time, ns since the first packet.
    pub at_ns: u64,
    /// A description in words.
    pub words: String,
}

/// The limits that the user set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// The largest permitted deviation of a SoC from its cycle, ns.
    pub soc_ns: Option<u64>,
    /// The longest permitted PReq–PRes time, ns.
    pub pres_ns: Option<u64>,
    /// The broken limits in words; empty if all were kept.
    pub broken: Vec<String>,
}

impl JitterReport {
    /// Sets the limits and returns true if all were kept. A lost PRes breaks a limit of PRes. A limit is also broken
    /// if nothing was measured for it.
    pub fn judge(&mut self, soc_ns: Option<u64>, pres_ns: Option<u64>) -> bool {
        use crate::units::duration;
        let mut broken = Vec::new();
        if let Some(limit) = soc_ns {
            match &self.soc {
                None => broken.push("no SoC was measured".to_owned()),
                Some(soc) if soc.deviation_ns.max > limit => broken.push(format!(
                    "a SoC was {} from its cycle, more than {}",
                    duration(soc.deviation_ns.max),
                    duration(limit)
                )),
                Some(_) => {}
            }
        }
        if let Some(limit) = pres_ns {
            if self.latency_ns.is_none() {
                broken.push("no PRes was measured".to_owned());
            }
            for node in &self.nodes {
                if let Some(slowest) = node.latency_ns.map(|s| s.max).filter(|max| *max > limit) {
                    broken.push(format!(
                        "node {} took {}, more than {}",
                        node.node,
                        duration(slowest),
                        duration(limit)
                    ));
                }
                if node.lost > 0 {
                    broken.push(format!(
                        "node {} did not answer {} PReq",
                        node.node, node.lost
                    ));
                }
            }
        }
        let kept = broken.is_empty();
        self.limits = Limits {
            soc_ns,
            pres_ns,
            broken,
        };
        kept
    }
}
