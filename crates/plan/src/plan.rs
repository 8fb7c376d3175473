//! Computes the promises of a network: the plan as data, and the functions that make it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bound::graph::Method;
use crate::bound::loeser_haertig::ClosedForm;
use crate::certificate::Certificate;
use crate::cyclic::CyclicQueueing;
use crate::identity::{BestEffortPlan, Identity};
use crate::meters::FlowMeter;
use crate::network::Network;
use crate::recovery::Recovery;
use crate::schedule::gates::{GateList, Launch};
use rtwire_describe::ratio::Ratio;

/// The version of the plan's form.
pub const PLAN_VERSION: u32 = 3;

/// The options of planning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Plans as much as possible although limits are exceeded (`--no-admission`). Ignored limits become warnings.
    pub ignore_limits: bool,
    /// The method for bounds.
    pub analysis: Analysis,
}

/// The method for bounds. Each one is sound. Except for [`Analysis::Sfa`], each uses more facts than those before it
/// and is never above them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Analysis {
    /// Total flow analysis: contracts as straight lines, each port for itself.
    Tfa,
    /// As [`Analysis::Tfa`]; also, no link carries more than its rate allows.
    #[serde(rename = "tfa++")]
    TfaPlusPlus,
    /// As [`Analysis::TfaPlusPlus`]; also, periodic streams send whole frames, and no frame passes in less than its
    /// own time.
    Staircase,
    /// Separated flow analysis: the whole route of a stream as one, if that can be bounded, with the ports as in
    /// [`Analysis::Full`].
    ///
    /// It is for comparison. It is below the others for large bursts and long routes, and above elsewhere.
    Sfa,
    /// As [`Analysis::Staircase`]; also, the traffic that leaves a port together, and the closed form of Löser and
    /// Härtig if it applies.
    Full,
    /// As [`Analysis::Full`]; also, a stream's own frames as sent, and ports in a row as one wherever that is less.
    Rows,
    /// As [`Analysis::Rows`]; also, the examined frame is the last on its link.
    #[default]
    EndToEnd,
}

impl Analysis {
    /// All methods, in the order of the facts that they use.
    pub const ALL: [Analysis; 7] = [
        Analysis::Tfa,
        Analysis::TfaPlusPlus,
        Analysis::Staircase,
        Analysis::Sfa,
        Analysis::Full,
        Analysis::Rows,
        Analysis::EndToEnd,
    ];

    /// Returns the facts that the method uses.
    #[must_use]
    pub const fn method(self) -> Method {
        let full = Method::FULL;
        match self {
            Analysis::Tfa => Method {
                line_shaping: false,
                aggregates: false,
                staircase: false,
                least_delay: false,
                last_on_link: false,
            },
            Analysis::TfaPlusPlus => Method {
                aggregates: false,
                staircase: false,
                least_delay: false,
                ..full
            },
            Analysis::Staircase => Method {
                aggregates: false,
                ..full
            },
            Analysis::Rows => Method {
                last_on_link: false,
                ..full
            },
            Analysis::Sfa | Analysis::Full | Analysis::EndToEnd => full,
        }
    }

    /// Returns the method in words, as plans name it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Analysis::Tfa => "total flow analysis",
            Analysis::TfaPlusPlus => "total flow analysis with line shaping",
            Analysis::Staircase => "total flow analysis with staircases and line shaping",
            Analysis::Sfa => "separated flow analysis: each way as one",
            Analysis::EndToEnd => {
                "total flow analysis with staircases, line shaping and aggregate departures; each frame as the last on its link; ports in a row as one where that is less; closed form of Löser and Härtig where it applies"
            }
            Analysis::Rows => {
                "total flow analysis with staircases, line shaping and aggregate departures; ports in a row as one where that is less; closed form of Löser and Härtig where it applies"
            }
            Analysis::Full => {
                "total flow analysis with staircases, line shaping and aggregate departures; closed form of Löser and Härtig where it applies"
            }
        }
    }
}

/// The guarantees of a network. It is complete, so that no later step computes anything again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`PLAN_VERSION`].
    pub version: u32,
    /// 1 for a new plan; one more than the kept plan's for one that keeps another.
    pub epoch: u64,
    /// The fingerprint of all that every end must agree on: network, epoch, identities, shapers, launches, gates. It
    /// does not depend on the order of the description.
    pub plan_id: String,
    /// The checksum of the whole plan, computed with this field empty.
    pub checksum: String,
    /// The fingerprint of the description's text.
    pub input_hash: String,
    /// The network, with a port for every stream.
    pub network: Network,
    /// The options of planning.
    pub options: PlanOptions,
    /// The largest stream number that this plan, or one that it keeps, has ever assigned.
    pub numbers_used: u32,
    /// The method for bounds.
    pub method: String,
    /// The rule for routes, if the network leaves a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routes: Option<String>,
    /// The streams, in the order of the description.
    pub streams: Vec<StreamPlan>,
    /// The best-effort allowances by receiver, in the order of the description.
    pub best_effort: Vec<BestEffortPlan>,
    /// Every port of every node: two for each link.
    pub ports: Vec<PortPlan>,
    /// The flow meters of switches: by stream, then by best-effort allowance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meters: Vec<FlowMeter>,
    /// The cycles of cyclic queueing, if a stream is cyclic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cyclic: Option<CyclicQueueing>,
    /// Limits that were ignored, and facts that a reader should know.
    pub warnings: Vec<String>,
    /// The facts on which the promises rest, if they were asked for. No part of the fingerprint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
}

/// One stream's promises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamPlan {
    /// Its name.
    pub name: String,
    /// The fields that distinguish its frames from all others.
    pub identity: Identity,
    /// The limits that its talker must keep.
    pub shaper: Shaper,
    /// The promise for each listener.
    pub promises: Vec<Promise>,
    /// The launch time of a time-triggered stream, and its windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<Launch>,
    /// For a redundant stream: the recovery of its two copies at the listener. Not at the second copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
}

/// The parameters of a talker's shaper, on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shaper {
    /// Rate, bit/s, exact.
    pub rate_bps: Ratio,
    /// Burst, bits, rounded up.
    pub burst_bits: u64,
    /// Shaping interval T_s, nanoseconds; for a stream with `interval`, that interval.
    pub interval_ns: u64,
    /// Tick error J, nanoseconds.
    pub tick_error_ns: u64,
}

/// The guaranteed worst case for one listener: from entering the talker's transmit queue to reception of the last bit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Promise {
    /// The listener.
    pub listener: String,
    /// The nodes from talker to listener.
    pub route: Vec<String>,
    /// The priority of its frames at each port of the route, if a router is on it. Empty else: it is that of the identity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub priorities: Vec<u8>,
    /// The promise, nanoseconds; absent if nothing bounds it.
    pub delay_ns: Option<u64>,
    /// The terms of the promise, which add up to `delay_ns` exactly. Empty without a promise.
    pub terms: Vec<Term>,
    /// The deadline that the promise was compared with, nanoseconds.
    pub deadline_ns: Option<u64>,
    /// For a time-triggered or cyclic stream: the largest difference between the delays of two of its frames, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_ns: Option<u64>,
}

impl Promise {
    /// Returns the priorities of the promise's frames, 0 to 7: at each port of the route where a router is on it, else the
    /// one with which the talker sends, `pcp` of the stream's identity.
    #[must_use]
    pub fn priorities_on_the_way(&self, pcp: u8) -> Vec<u8> {
        if self.priorities.is_empty() {
            vec![pcp]
        } else {
            self.priorities.clone()
        }
    }
}

/// One part of a promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Term {
    /// The cause of the delay.
    pub what: TermKind,
    /// The port as `node>neighbour`. Several ports, separated by blanks, for queueing at a segment of them.
    pub at: String,
    /// The delay, nanoseconds.
    pub ns: u64,
}

/// The cause of a delay.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum TermKind {
    /// The node's own latency.
    Latency,
    /// A frame of lower priority that is already being sent.
    Blocking,
    /// Other frames that are sent first.
    Queueing,
    /// The frame's own time on the link.
    Transmission,
    /// The cable's propagation delay.
    Cable,
    /// The wait for the window of a time-triggered stream.
    Window,
    /// The cycle of cyclic queueing after which a switch sends what it received.
    Cycle,
    /// The difference between clocks.
    Clock,
}

impl TermKind {
    /// Returns the kind in a word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            TermKind::Latency => "latency",
            TermKind::Blocking => "blocking",
            TermKind::Queueing => "queueing",
            TermKind::Transmission => "transmission",
            TermKind::Cable => "cable",
            TermKind::Window => "window",
            TermKind::Cycle => "cycle",
            TermKind::Clock => "clock",
        }
    }
}

/// The kind of node that a port belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// A host.
    Host,
    /// A switch.
    Switch,
    /// A router.
    Router,
}

/// One directed port and the memory that it needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortPlan {
    /// The node that sends.
    pub node: String,
    /// The neighbour that it sends to.
    pub port: String,
    /// The kind of the node.
    pub node_kind: NodeKind,
    /// Rate of the link, bit/s.
    pub link_rate_bps: u64,
    /// Latency in the bounds, nanoseconds.
    pub latency_ns: u64,
    /// Sum of the rates on the wire over the link's rate, exact.
    pub utilization: Ratio,
    /// The sum of the rates over the link's rate, in thousandths, rounded up.
    pub utilization_permille: u64,
    /// Largest backlog, bytes, rounded up; absent if unbounded.
    pub backlog_bytes: Option<u64>,
    /// Largest backlog in frames, for buffers that are counted in frames.
    pub backlog_frames: Option<u64>,
    /// The buffer in bytes: of the port, or of the whole switch if `shared`. Absent for hosts.
    pub buffer_bytes: Option<u64>,
    /// The largest number of frames that the buffer holds, if stated.
    pub buffer_frames: Option<u64>,
    /// True if the buffer is a pool of the switch.
    pub shared: bool,
    /// The classes, least urgent first.
    pub classes: Vec<ClassPlan>,
    /// The closed form, if the port is of the kind that it covers.
    pub loeser_haertig: Option<ClosedForm>,
    /// The times at which its gates open and close, if the schedule needs them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gates: Option<GateList>,
    /// Its frame preemption, if it has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemption: Option<PreemptionPlan>,
}

/// The frame preemption of one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreemptionPlan {
    /// The lowest express class. Frames of the classes below may be interrupted.
    pub first_express_class: u8,
    /// The longest piece of a frame that cannot be interrupted, bytes on the wire.
    pub longest_piece_bytes: u64,
}

/// One class at one port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClassPlan {
    /// Its number; larger is more urgent.
    pub class: u8,
    /// The streams and best-effort allowances in it.
    pub flows: Vec<String>,
    /// Largest delay through the port, nanoseconds; absent if unbounded.
    pub delay_ns: Option<u64>,
}

/// The options of a plan: all that is needed to make it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanOptions {
    /// The method for bounds.
    pub analysis: Analysis,
    /// True if limits were ignored (`--no-admission`).
    pub ignore_limits: bool,
    /// The largest number of placements that the search for a schedule could try.
    pub search_work: u32,
    /// The seed of the search's random numbers.
    pub search_seed: u64,
    /// True if kept streams could move (`--replan`).
    pub replan: bool,
}

impl Plan {
    /// Returns the key of frames with this number under this plan.
    #[must_use]
    pub fn key_of(&self, number: u32) -> u32 {
        crate::fingerprint::key_base(&self.plan_id).wrapping_add(number)
    }

    /// Returns the stream whose frames carry this key.
    #[must_use]
    pub fn stream_of_key(&self, key: u32) -> Option<&StreamPlan> {
        let mut streams = self.streams.iter();
        streams.find(|stream| stream.identity.key == key)
    }
}
