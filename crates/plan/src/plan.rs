//! From a network to its promises: the plan as data, and the way to it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bound::graph::Method;
use crate::bound::loeser_haertig::ClosedForm;
use crate::evaluate::evaluate;
use crate::identity::{self, BestEffortPlan, Identity, Kept};
use crate::network::Network;
use crate::refusal::{Reason, Refusal};
use crate::schedule::Scheduling;
use crate::schedule::gates::{GateList, Launch};
use rtwire_describe::ratio::Ratio;

/// The version of the plan's form.
pub const PLAN_VERSION: u32 = 2;

/// How to plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Plan what can be planned although limits are exceeded (`--no-admission`): what was ignored becomes warnings.
    pub ignore_limits: bool,
    /// How bounds are found.
    pub analysis: Analysis,
}

/// How bounds are found. Each is sound; but for [`Analysis::Sfa`] the later ones know more and are never above those before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Analysis {
    /// Total flow analysis: contracts as straight lines, each port for itself.
    Tfa,
    /// With it, no link brings more than its rate allows.
    #[serde(rename = "tfa++")]
    TfaPlusPlus,
    /// With that, periodic streams send whole frames, and no frame passes in less than its own time.
    Staircase,
    /// Separated flow analysis: the whole way of a stream as one, where that can be bounded, with the ports as in
    /// [`Analysis::Full`]. For comparison: below the others where bursts are large and ways long, above elsewhere.
    Sfa,
    /// With the staircase, what leaves a port together, and the closed form of Löser and Härtig where it applies.
    Full,
    /// With that, ports in a row as one wherever that is less.
    #[default]
    EndToEnd,
}

impl Analysis {
    /// All of them, in the order of what they know.
    pub const ALL: [Analysis; 6] = [
        Analysis::Tfa,
        Analysis::TfaPlusPlus,
        Analysis::Staircase,
        Analysis::Sfa,
        Analysis::Full,
        Analysis::EndToEnd,
    ];

    /// What it may use.
    #[must_use]
    pub const fn method(self) -> Method {
        let full = Method::FULL;
        match self {
            Analysis::Tfa => Method {
                line_shaping: false,
                aggregates: false,
                staircase: false,
                least_delay: false,
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
            Analysis::Sfa | Analysis::Full | Analysis::EndToEnd => full,
        }
    }

    /// In words, as plans name it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Analysis::Tfa => "total flow analysis",
            Analysis::TfaPlusPlus => "total flow analysis with line shaping",
            Analysis::Staircase => "total flow analysis with staircases and line shaping",
            Analysis::Sfa => "separated flow analysis: each way as one",
            Analysis::EndToEnd => {
                "total flow analysis with staircases, line shaping and aggregate departures; ports in a row as one where that is less; closed form of Löser and Härtig where it applies"
            }
            Analysis::Full => {
                "total flow analysis with staircases, line shaping and aggregate departures; closed form of Löser and Härtig where it applies"
            }
        }
    }
}

/// What a network guarantees: whole by itself, so that every later step computes nothing anew.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`PLAN_VERSION`].
    pub version: u32,
    /// 1 for a fresh plan; one more than that of the plan that it keeps.
    pub epoch: u64,
    /// The fingerprint of what every end must agree on: network, epoch, identities, shapers, launches, gates. It does
    /// not depend on the order of the description.
    pub plan_id: String,
    /// The checksum of the whole plan, computed with this field empty.
    pub checksum: String,
    /// The fingerprint of the description's text.
    pub input_hash: String,
    /// The network, with a port for every stream.
    pub network: Network,
    /// How it was planned.
    pub options: PlanOptions,
    /// The largest number of a stream that this plan or one that it keeps has ever given.
    pub numbers_used: u32,
    /// How the bounds were found.
    pub method: String,
    /// How routes were chosen, where the network leaves a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routes: Option<String>,
    /// By stream, in the order of the description.
    pub streams: Vec<StreamPlan>,
    /// By best-effort allowance and receiver, in the order of the description.
    pub best_effort: Vec<BestEffortPlan>,
    /// Every port of every node: two for each link.
    pub ports: Vec<PortPlan>,
    /// What was ignored, and what a reader should know.
    pub warnings: Vec<String>,
}

/// One stream's promises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamPlan {
    /// Its name.
    pub name: String,
    /// How its frames are told from all others.
    pub identity: Identity,
    /// What its talker must keep to.
    pub shaper: Shaper,
    /// One for each listener.
    pub promises: Vec<Promise>,
    /// When a time-triggered stream is sent, and where its windows are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<Launch>,
}

/// The parameters of a talker's shaper, on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shaper {
    /// Rate, bit/s, exact.
    pub rate_bps: Ratio,
    /// Burst, bits, rounded up.
    pub burst_bits: u64,
    /// T_s, nanoseconds; for a stream with `interval` that interval.
    pub interval_ns: u64,
    /// J, nanoseconds.
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
    /// The promise, nanoseconds; none where nothing bounds it.
    pub delay_ns: Option<u64>,
    /// What it is made of; adds up to `delay_ns` exactly. Empty where there is none.
    pub terms: Vec<Term>,
    /// The deadline that it was held against.
    pub deadline_ns: Option<u64>,
    /// Of a time-triggered stream: no two of its frames differ by more in their delay, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_ns: Option<u64>,
}

/// One part of a promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Term {
    /// What takes the time.
    pub what: TermKind,
    /// Where: `node>neighbour`; several with blanks between for queueing at a row of ports together.
    pub at: String,
    /// How long, nanoseconds.
    pub ns: u64,
}

/// What takes time.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum TermKind {
    /// The node's own latency.
    Latency,
    /// A frame of lower priority that is under way already.
    Blocking,
    /// Other frames that go first.
    Queueing,
    /// The frame's own time on the link.
    Transmission,
    /// The cable.
    Cable,
    /// Waiting for the window of a time-triggered stream.
    Window,
    /// What clocks may be apart.
    Clock,
}

impl TermKind {
    /// In a word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            TermKind::Latency => "latency",
            TermKind::Blocking => "blocking",
            TermKind::Queueing => "queueing",
            TermKind::Transmission => "transmission",
            TermKind::Cable => "cable",
            TermKind::Window => "window",
            TermKind::Clock => "clock",
        }
    }
}

/// Whether a port belongs to a host or a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// A host.
    Host,
    /// A switch.
    Switch,
}

/// One directed port: what it must hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortPlan {
    /// The node that sends.
    pub node: String,
    /// The neighbour that it sends to.
    pub port: String,
    /// What the node is.
    pub node_kind: NodeKind,
    /// Rate of the link, bit/s.
    pub link_rate_bps: u64,
    /// Latency that the bounds contain, nanoseconds.
    pub latency_ns: u64,
    /// Sum of the rates on the wire over the link's rate, exact.
    pub utilization: Ratio,
    /// The same in thousandths, rounded up.
    pub utilization_permille: u64,
    /// Largest backlog, bytes, rounded up; none where unbounded.
    pub backlog_bytes: Option<u64>,
    /// The same in frames, for buffers that are counted in frames.
    pub backlog_frames: Option<u64>,
    /// The buffer: of the port, or of the whole switch where `shared`. None for hosts.
    pub buffer_bytes: Option<u64>,
    /// Most frames that the buffer holds, where stated.
    pub buffer_frames: Option<u64>,
    /// Whether the buffer is a pool of the switch.
    pub shared: bool,
    /// By class, least urgent first.
    pub classes: Vec<ClassPlan>,
    /// The closed form, where the port is such as it describes.
    pub loeser_haertig: Option<ClosedForm>,
    /// When its gates open and close, where the schedule needs it to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gates: Option<GateList>,
}

/// One class at one port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClassPlan {
    /// Its number, larger is more urgent.
    pub class: u8,
    /// Streams and best-effort allowances in it.
    pub flows: Vec<String>,
    /// Largest delay through the port, nanoseconds; none where unbounded.
    pub delay_ns: Option<u64>,
}

/// How a plan was made: what is needed to make it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanOptions {
    /// How bounds were found.
    pub analysis: Analysis,
    /// Whether limits were ignored (`--no-admission`).
    pub ignore_limits: bool,
    /// How many placements the search for a schedule could try.
    pub search_work: u32,
    /// What its chance was drawn from.
    pub search_seed: u64,
    /// Whether kept streams could move (`--replan`).
    pub replan: bool,
}

impl Default for PlanOptions {
    fn default() -> PlanOptions {
        PlanOptions::of(&Options::default(), &Scheduling::new(&mut || true))
    }
}

impl PlanOptions {
    pub(crate) fn of(options: &Options, scheduling: &Scheduling<'_>) -> PlanOptions {
        PlanOptions {
            analysis: options.analysis,
            ignore_limits: options.ignore_limits,
            search_work: scheduling.work,
            search_seed: scheduling.seed,
            replan: scheduling.moves,
        }
    }
}

impl Plan {
    /// Returns the stream whose frames carry this key.
    #[must_use]
    pub fn stream_of_key(&self, key: u32) -> Option<&StreamPlan> {
        let mut streams = self.streams.iter();
        streams.find(|stream| stream.identity.key == key)
    }

    /// Makes the plan whole: the network, identities, fingerprint, keys, checksum.
    pub(crate) fn complete(
        &mut self,
        network: &Network,
        options: PlanOptions,
        kept: Option<&Kept>,
    ) -> Result<(), String> {
        let assigned = identity::assign(network, kept)?;
        self.epoch = kept.map_or(1, |kept| kept.epoch);
        self.options = options;
        self.numbers_used = assigned.numbers_used;
        self.network = network.clone();
        self.best_effort = assigned.best_effort;
        let described = self.network.streams.iter_mut();
        let planned = self.streams.iter_mut();
        for ((stream, planned), identity) in described.zip(planned).zip(assigned.streams) {
            stream.port = identity.port;
            planned.identity = identity;
        }
        self.seal();
        Ok(())
    }
}

/// Plan a network.
///
/// # Errors
/// [`Refusal`]: which stream or port, which limit, by how much, and the nearest
/// changes that fit. With [`Options::ignore_limits`] only where numbers overflow.
pub fn plan(network: &Network, options: &Options) -> Result<Plan, Refusal> {
    plan_with(network, options, &mut Scheduling::new(&mut || true))
}

/// Plan a network whose time-triggered streams are scheduled in a way of their own: launches that stay, how long to search.
///
/// Where [`Scheduling::keep_going`] ends the work, the refusal has the best so far, and only those suggestions that were
/// found by then.
///
/// # Errors
/// As [`plan`].
pub fn plan_with(
    network: &Network,
    options: &Options,
    scheduling: &mut Scheduling<'_>,
) -> Result<Plan, Refusal> {
    let (mut plan, mut reasons) = match evaluate(network, options, scheduling) {
        Ok(evaluated) => evaluated,
        Err(overflow) => return Err(Refusal::overflow(network, overflow)),
    };
    if options.ignore_limits {
        let ignored = reasons.iter().map(|reason| format!("ignored: {reason}"));
        plan.warnings.extend(ignored);
        reasons.clear();
    }
    let used = PlanOptions::of(options, scheduling);
    // Without identities there is no plan, whatever is ignored.
    if let Err(what) = plan.complete(network, used, scheduling.identities.as_ref()) {
        return Err(Refusal {
            reasons: vec![Reason::Identities { what }],
            suggestions: Vec::new(),
            plan: None,
        });
    }
    if reasons.is_empty() {
        return Ok(plan);
    }
    let suggestions = crate::suggest::suggest(network, &reasons, scheduling.keep_going);
    Err(Refusal {
        reasons,
        suggestions,
        plan: Some(Box::new(plan)),
    })
}
