//! From a network to its promises.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bound::loeser_haertig::{ClosedForm, Input, closed_form};
use crate::bound::rational::{Overflow, Ratio, sum};
use crate::bound::tfa::{Method, PortBound, analyse};
use crate::mapping::{Mapped, map};
use crate::network::{Network, Stream};
use crate::refusal::{Reason, Refusal};

/// The version of the plan's form.
pub const PLAN_VERSION: u32 = 1;

/// How to plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Plan what can be planned although limits are exceeded (`--no-admission`): what was ignored becomes warnings.
    pub ignore_limits: bool,
}

/// What a network guarantees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// [`PLAN_VERSION`].
    pub version: u32,
    /// The network's fingerprint.
    pub input_hash: String,
    /// How the bounds were found.
    pub method: String,
    /// By stream, in the order of the description.
    pub streams: Vec<StreamPlan>,
    /// Every port of every node: two for each link.
    pub ports: Vec<PortPlan>,
    /// What was ignored, and what a reader should know.
    pub warnings: Vec<String>,
}

/// One stream's promises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamPlan {
    /// Its name.
    pub name: String,
    /// What its talker must keep to.
    pub shaper: Shaper,
    /// One for each listener.
    pub promises: Vec<Promise>,
}

/// The parameters of a talker's shaper, on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Shaper {
    /// Rate in bit/s, above the line; a decimal number of up to 128 bits as text.
    pub rate_num: String,
    /// Rate in bit/s, below the line.
    pub rate_den: String,
    /// Burst, bits, rounded up.
    pub burst_bits: u64,
    /// T_s, nanoseconds; for a stream with `interval` that interval.
    pub interval_ns: u64,
    /// J, nanoseconds.
    pub tick_error_ns: u64,
}

/// The guaranteed worst case for one listener: from entering the talker's transmit queue to reception of the last bit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
}

/// One part of a promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Term {
    /// What takes the time.
    pub what: TermKind,
    /// Where: `node>neighbour`.
    pub at: String,
    /// How long, nanoseconds.
    pub ns: u64,
}

/// What takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
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
}

/// One class at one port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClassPlan {
    /// Its number, larger is more urgent.
    pub class: u8,
    /// Streams and best-effort allowances in it.
    pub flows: Vec<String>,
    /// Largest delay through the port, nanoseconds; none where unbounded.
    pub delay_ns: Option<u64>,
}

/// What is known of one port once it has been computed.
pub(crate) struct PortResult {
    bound: PortBound,
    closed: Option<ClosedForm>,
}

/// Plan a network.
///
/// # Errors
/// [`Refusal`]: which stream or port, which limit, by how much, and the nearest
/// changes that fit. With [`Options::ignore_limits`] only where numbers overflow.
pub fn plan(network: &Network, options: &Options) -> Result<Plan, Refusal> {
    let (plan, reasons) = match evaluate(network, options) {
        Ok(evaluated) => evaluated,
        Err(overflow) => return Err(Refusal::overflow(network, overflow)),
    };
    if reasons.is_empty() {
        return Ok(plan);
    }
    if options.ignore_limits {
        let mut plan = plan;
        plan.warnings.extend(reasons.iter().map(|reason| format!("ignored: {reason}")));
        return Ok(plan);
    }
    let suggestions = crate::suggest::suggest(network, &reasons);
    Err(Refusal { reasons, suggestions, plan: Some(Box::new(plan)) })
}

/// Compute everything, and all that speaks against it.
pub(crate) fn evaluate(network: &Network, options: &Options) -> Result<(Plan, Vec<Reason>), Overflow> {
    let mapped = map(network)?;
    let bounds = analyse(&mapped.graph, Method::FULL)?;
    let mut results = Vec::new();
    for (index, bound) in bounds.into_iter().enumerate() {
        let closed = closed(network, &mapped, index)?;
        results.push(PortResult { bound, closed });
    }
    let mut ports = Vec::new();
    for (index, result) in results.iter().enumerate() {
        ports.push(port_plan(network, &mapped, index, result)?);
    }
    let mut streams = Vec::new();
    for (index, stream) in network.streams.iter().enumerate() {
        streams.push(stream_plan(network, &mapped, index, stream, &results, &ports)?);
    }
    let mut plan = Plan {
        version: PLAN_VERSION,
        input_hash: network.input_hash.clone(),
        method: "total flow analysis with staircases, line shaping and aggregate departures; closed form of Löser and Härtig where it applies"
            .to_owned(),
        streams,
        ports,
        warnings: Vec::new(),
    };
    let reasons = crate::refusal::reasons(network, &mapped, &plan)?;
    if options.ignore_limits {
        for stream in network.streams.iter().filter(|stream| !stream.shaped) {
            plan.warnings.push(format!(
                "the promises of other streams hold only as long as \"{}\" keeps to its contract by itself: its shaper is off",
                stream.name
            ));
        }
    }
    Ok((plan, reasons))
}

/// The closed form of a switch's port, where all its inputs are links of its own rate from hosts that add nothing.
fn closed(network: &Network, mapped: &Mapped, index: usize) -> Result<Option<ClosedForm>, Overflow> {
    let port = &mapped.ports[index];
    if port.kind != NodeKind::Switch {
        return Ok(None);
    }
    let graph = &mapped.graph;
    let mut inputs: Vec<(usize, Vec<usize>)> = Vec::new();
    let mut class = None;
    for (flow_index, flow) in graph.flows.iter().enumerate() {
        for hop in flow.hops.iter().filter(|hop| hop.server == index) {
            if *class.get_or_insert(hop.class) != hop.class {
                return Ok(None);
            }
            let Some(before) = hop.before.map(|before| flow.hops[before].server) else { return Ok(None) };
            match inputs.iter_mut().find(|(server, _)| *server == before) {
                Some((_, flows)) => flows.push(flow_index),
                None => inputs.push((before, vec![flow_index])),
            }
        }
    }
    let mut sums = Vec::new();
    let mut sizes: Vec<Ratio> = Vec::new();
    for (server, flows) in &inputs {
        let host = &graph.servers[*server];
        let all = graph.flows.iter().filter(|flow| flow.hops.iter().any(|hop| hop.server == *server)).count();
        let from_host = mapped.ports[*server].kind == NodeKind::Host;
        if !from_host || !host.latency.is_zero() || host.rate != graph.servers[index].rate || all != flows.len() {
            return Ok(None);
        }
        // Frames of different size leave a host a little denser than they came.
        let frames = flows.iter().flat_map(|flow| [graph.flows[*flow].frame_min, graph.flows[*flow].frame_max]);
        let own: Vec<Ratio> = frames.collect();
        if own.iter().any(|size| *size != own[0]) {
            return Ok(None);
        }
        sizes.extend(own);
        sums.push(Input {
            rate: sum(flows.iter().map(|flow| graph.flows[*flow].rate))?,
            burst: sum(flows.iter().map(|flow| graph.flows[*flow].burst))?,
        });
    }
    let frame = sizes.into_iter().fold(Ratio::ZERO, Ratio::max);
    if sums.iter().any(|input| input.burst < frame) {
        // Inputs of small frames beside large ones: the closed form has one M for all.
        return Ok(None);
    }
    let server = &graph.servers[index];
    let limit = network.switch(&port.node).map(|switch| switch.buffer).filter(|buffer| !buffer.shared);
    match closed_form(server.rate, frame, server.latency, &sums, limit.map(|buffer| buffer.bytes)) {
        Ok(form) => Ok(Some(form)),
        // The general bound, which is rounded on the way, still holds.
        Err(Overflow) => Ok(None),
    }
}

fn class_delay(result: &PortResult, class: u8) -> Result<Option<u64>, Overflow> {
    let general = result.bound.classes.get(usize::from(class)).and_then(|bound| bound.delay);
    let general = general.map(Ratio::ceil_ns).transpose()?;
    let closed = result.closed.as_ref().and_then(|form| form.values.as_ref()).map(|values| values.delay_ns);
    Ok(match (general, closed) {
        (Some(general), Some(closed)) => Some(general.min(closed)),
        (general, _) => general,
    })
}

fn port_plan(network: &Network, mapped: &Mapped, index: usize, result: &PortResult) -> Result<PortPlan, Overflow> {
    let port = &mapped.ports[index];
    let flows: Vec<usize> =
        (0..mapped.graph.flows.len()).filter(|flow| mapped.hop_at(*flow, index).is_some()).collect();
    let link_rate = Ratio::whole(i128::from(port.rate_bps));
    let rates = flows.iter().try_fold(Ratio::ZERO, |total, flow| {
        // Beyond what exact sums hold, a millionth of a bit/s is given away.
        total.plus(mapped.graph.flows[*flow].rate)?.tidied_up(1_000_000_000)
    })?;
    let utilization = rates.over(link_rate)?;
    let permille = u64::try_from(utilization.times(Ratio::whole(1000))?.ceil()).map_err(|_| Overflow)?;
    let to_bytes = |bits: Ratio| -> Result<u64, Overflow> {
        u64::try_from(bits.over(Ratio::whole(8))?.ceil()).map_err(|_| Overflow)
    };
    let general = result.bound.backlog.map(to_bytes).transpose()?;
    let closed = result.closed.as_ref().and_then(|form| form.values.as_ref());
    let backlog_bytes = match (general, closed) {
        (Some(general), Some(closed)) => Some(general.min(closed.buffer_bytes)),
        (general, _) => general,
    };
    let switch = network.switch(&port.node);
    let mut classes = Vec::new();
    for class in 0..mapped.graph.servers[index].classes {
        let names: Vec<String> = flows
            .iter()
            .filter(|flow| mapped.hop_at(**flow, index).is_some_and(|hop| hop.class == class))
            .map(|flow| mapped.flow_names[*flow].clone())
            .collect();
        if !names.is_empty() {
            classes.push(ClassPlan { class, flows: names, delay_ns: class_delay(result, class)? });
        }
    }
    Ok(PortPlan {
        node: port.node.clone(),
        port: port.to.clone(),
        node_kind: port.kind,
        link_rate_bps: port.rate_bps,
        latency_ns: port.latency_ns,
        utilization,
        utilization_permille: permille,
        backlog_bytes,
        backlog_frames: backlog_frames(mapped, &flows, backlog_bytes, result)?,
        buffer_bytes: switch.map(|switch| switch.buffer.bytes),
        buffer_frames: switch.and_then(|switch| switch.buffer.frames),
        shared: switch.is_some_and(|switch| switch.buffer.shared),
        classes,
        loeser_haertig: result.closed.clone(),
    })
}

/// Most frames that wait at once: as many of the smallest as the backlog holds.
fn backlog_frames(
    mapped: &Mapped,
    flows: &[usize],
    backlog_bytes: Option<u64>,
    result: &PortResult,
) -> Result<Option<u64>, Overflow> {
    let smallest = flows.iter().map(|flow| mapped.graph.flows[*flow].frame_min).min();
    let (Some(smallest), Some(bytes)) = (smallest, backlog_bytes) else {
        return Ok(backlog_bytes.map(|_| 0));
    };
    let bits = Ratio::whole(i128::from(bytes) * 8);
    let bits = match (result.bound.backlog, result.closed.as_ref().and_then(|form| form.values.as_ref())) {
        (_, Some(values)) => bits.min(values.buffer_bits_paper),
        (Some(general), None) => bits.min(general),
        (None, None) => bits,
    };
    u64::try_from(bits.over(smallest)?.ceil()).map(Some).map_err(|_| Overflow)
}

fn stream_plan(
    network: &Network,
    mapped: &Mapped,
    index: usize,
    stream: &Stream,
    results: &[PortResult],
    ports: &[PortPlan],
) -> Result<StreamPlan, Overflow> {
    let contract = &stream.contract;
    let interval_ns = match contract.kind {
        crate::network::ContractKind::Interval { interval_ns } => interval_ns,
        _ => contract.shaping_interval_ns,
    };
    let mut promises = Vec::new();
    for (listener, route) in stream.listeners.iter().zip(&stream.routes) {
        let terms = if stream.shaped { terms(network, mapped, index, stream, route, results, ports)? } else { None };
        let delay_ns = match &terms {
            Some(terms) => {
                Some(terms.iter().try_fold(0_u64, |total, term| total.checked_add(term.ns)).ok_or(Overflow)?)
            }
            None => None,
        };
        promises.push(Promise {
            listener: listener.clone(),
            route: route.clone(),
            delay_ns,
            terms: terms.unwrap_or_default(),
            deadline_ns: stream.deadline_ns,
        });
    }
    Ok(StreamPlan {
        name: stream.name.clone(),
        shaper: Shaper {
            rate_num: contract.rate.num().to_string(),
            rate_den: contract.rate.den().to_string(),
            burst_bits: contract.burst_bits,
            interval_ns,
            tick_error_ns: contract.tick_error_ns,
        },
        promises,
    })
}

/// What a frame meets on its way; none where a port is unbounded.
fn terms(
    network: &Network,
    mapped: &Mapped,
    index: usize,
    stream: &Stream,
    route: &[String],
    results: &[PortResult],
    ports: &[PortPlan],
) -> Result<Option<Vec<Term>>, Overflow> {
    let mut terms = Vec::new();
    for pair in route.windows(2) {
        let [from, to] = pair else { continue };
        let Some(server) = mapped.port(from, to) else { return Ok(None) };
        let Some(hop) = mapped.hop_at(index, server) else { return Ok(None) };
        let Some(total) = class_delay(&results[server], hop.class)? else { return Ok(None) };
        let rate = Ratio::whole(i128::from(ports[server].link_rate_bps));
        // The total is whole latency plus at least the frame's own time, so nothing is cut here;
        // `min` makes the sum right even so.
        let mut left = total;
        let mut take = |what: TermKind, wanted: u64| {
            let ns = wanted.min(left);
            left -= ns;
            Term { what, at: format!("{from}>{to}"), ns }
        };
        let latency = take(TermKind::Latency, ports[server].latency_ns);
        let transmission = take(TermKind::Transmission, stream.wire_bits().over(rate)?.ceil_ns()?);
        let blocked = results[server].bound.classes.get(usize::from(hop.class)).map_or(Ratio::ZERO, |bound| bound.blocking);
        let blocking = take(TermKind::Blocking, blocked.over(rate)?.ceil_ns()?);
        let queueing = take(TermKind::Queueing, u64::MAX);
        let cable_ns = network.link(from, to).map_or(0, |link| link.cable_delay_ns);
        let cable = Term { what: TermKind::Cable, at: format!("{from}>{to}"), ns: cable_ns };
        let all = [latency, blocking, queueing, transmission, cable];
        terms.extend(all.into_iter().filter(|term| term.ns > 0));
    }
    Ok(Some(terms))
}
