//! The report's data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::report::Machine;
use crate::summary::{CcdfPoint, Summary, TimeBucket};

/// What `rtwire jitter` found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "rtwire jitter report")]
pub struct JitterReport {
    /// The file or interface.
    pub source: String,
    /// How the capture was written, for example `pcap, nanoseconds`; `live` from an interface.
    pub format: String,
    /// When the first packet was captured, RFC 3339; null where nothing has a time.
    pub first_packet_at: Option<String>,
    /// From the first packet to the last, ns.
    pub duration_ns: u64,
    /// What was in the capture.
    pub frames: FrameCounts,
    /// The cycle that deviations are from; null where there were no two SoC in a row.
    pub cycle: Option<CycleReport>,
    /// SoC–SoC jitter; null where there were no two SoC in a row.
    pub soc: Option<SocReport>,
    /// Each polled node, by number.
    pub nodes: Vec<NodeReport>,
    /// PReq–PRes times of all nodes together; null if there were none.
    pub latency_ns: Option<Summary>,
    /// How full the cycles were; null where there were no two SoC in a row.
    pub utilization: Option<UtilizationReport>,
    /// Each node that was invited in the asynchronous phase, by number.
    pub asynchronous: Vec<AsynchronousReport>,
    /// The worst cases of each kind, worst first.
    pub worst: Vec<WorstCase>,
    /// What was to be kept, and whether it was.
    pub limits: Limits,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// The exact command.
    pub command: String,
    /// The machine that made this report (not always the one that captured).
    pub machine: Machine,
}

/// How many frames of which kind.
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
    /// POWERLINK frames too short for what they say they are.
    pub malformed: u64,
    /// Packets of other protocols.
    pub not_powerlink: u64,
    /// Packets without a time: not measured.
    pub without_time: u64,
    /// Packets whose time is before that of the packet before them.
    pub backwards: u64,
}

/// The cycle that deviations are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CycleReport {
    /// Its length, ns.
    pub cycle_ns: u64,
    /// Whether the user has stated it; else it is the round number next to the median.
    pub stated: bool,
    /// The median of the intervals, ns.
    pub median_ns: u64,
}

/// SoC–SoC jitter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SocReport {
    /// Times between two SoC, ns.
    pub interval_ns: Summary,
    /// How far they are from the cycle, in either direction, ns.
    pub deviation_ns: Summary,
    /// Signed deviations, ns: negative where a SoC came early.
    pub histogram: Vec<HistogramBin>,
    /// Deviations' complementary distribution.
    pub ccdf: Vec<CcdfPoint>,
    /// Deviations over time.
    pub over_time: Vec<TimeBucket>,
    /// SoC that should have been there by the length of the intervals.
    pub missing: u64,
    /// How often the cycle began anew, after a reduced cycle (pre-operational 1).
    pub restarts: u64,
}

/// Samples of one stretch of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistogramBin {
    /// From here on, ns.
    pub from_ns: i64,
    /// To below this, ns.
    pub to_ns: i64,
    /// How many.
    pub count: u64,
}

/// One controlled node in the isochronous phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeReport {
    /// Its number.
    pub node: u8,
    /// PReq to it.
    pub polled: u64,
    /// PRes to those, late ones included.
    pub answered: u64,
    /// PRes that came after the managing node had gone on.
    pub late: u64,
    /// PReq without PRes.
    pub lost: u64,
    /// PRes without PReq (PollResponse chaining).
    pub unasked: u64,
    /// From PReq to PRes, ns; null if there were none.
    pub latency_ns: Option<Summary>,
    /// The same as a histogram.
    pub histogram: Vec<HistogramBin>,
    /// Its complementary distribution.
    pub ccdf: Vec<CcdfPoint>,
    /// The same over time.
    pub over_time: Vec<TimeBucket>,
    /// The NMT state in its last PRes; null if there was none.
    pub last_state: Option<String>,
}

/// How full the cycles were.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UtilizationReport {
    /// From SoC to SoA, ns; null if no SoA followed any.
    pub isochronous_ns: Option<Summary>,
    /// The median of that in percent of the cycle.
    pub isochronous_percent_p50: Option<f64>,
    /// The longest in percent of the cycle.
    pub isochronous_percent_max: Option<f64>,
    /// The link's rate that wire times are for, bit/s.
    pub link_rate_bps: u64,
    /// Time that a cycle's frames take on the wire (preamble, FCS and gap included), ns.
    pub wire_ns: Summary,
    /// The median of that in percent of the cycle.
    pub wire_percent_p50: f64,
    /// The fullest cycle in percent.
    pub wire_percent_max: f64,
}

/// One node in the asynchronous phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AsynchronousReport {
    /// Its number.
    pub node: u8,
    /// SoA that asked it for something.
    pub asked: u64,
    /// ASnd that it answered with before the next SoA or SoC.
    pub answered: u64,
    /// From SoA to ASnd, ns; null if there were none.
    pub latency_ns: Option<Summary>,
}

/// What kind of worst case.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum WorstKind {
    /// A SoC far from its cycle.
    Soc,
    /// A SoC that came early (only on the way to [`WorstKind::Soc`]).
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
    /// What kind.
    pub kind: WorstKind,
    /// The node, for PRes.
    pub node: Option<u8>,
    /// Deviation from the cycle, or PReq–PRes time, ns; 0 where there was no PRes.
    pub value_ns: u64,
    /// The packet at which it was seen, by its number in the capture.
    pub number: u64,
    /// When, ns since the first packet.
    pub at_ns: u64,
    /// In words.
    pub words: String,
}

/// What the user wanted kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// The greatest deviation of a SoC from its cycle, ns.
    pub soc_ns: Option<u64>,
    /// The longest PReq–PRes time, ns.
    pub pres_ns: Option<u64>,
    /// Which were not kept, in words; empty where all were.
    pub broken: Vec<String>,
}

impl JitterReport {
    /// Sets what is to be kept, and says whether it was. A lost PRes breaks a limit of PRes; where nothing was measured, a
    /// limit is broken, too.
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
