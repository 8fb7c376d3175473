//! The computation behind a plan: ports from the bounds, promises from the ports.

use std::collections::BTreeMap;

use crate::bound::graph::{ClassShaper, PortBound};
use crate::bound::loeser_haertig::{ClosedForm, Input, closed_form};
use crate::bound::rational::{Overflow, Ratio, sum};
use crate::bound::tfa::analyse;
use crate::mapping::{CLOSED_GATES, Mapped, Nodes, map};
use crate::network::{ContractKind, Network, Stream};
use crate::plan::{
    Analysis, ClassPlan, NodeKind, Options, PLAN_VERSION, Plan, PortPlan, Promise, Shaper,
    StreamPlan, Term, TermKind,
};
use crate::refusal::Reason;
use crate::schedule::{Scheduling, synthesize};

/// What is known of one port once it has been computed.
struct PortResult {
    bound: PortBound,
    closed: Option<ClosedForm>,
}

/// Compute everything, and all that speaks against it.
pub(crate) fn evaluate(
    network: &Network,
    options: &Options,
    scheduling: &mut Scheduling<'_>,
) -> Result<(Plan, Vec<Reason>), Overflow> {
    let schedule = synthesize(network, scheduling)?;
    let closings = schedule
        .as_ref()
        .map_or(&[][..], |schedule| &schedule.closings);
    let mapped = map(network, closings)?;
    let nodes = Nodes::new(network);
    let bounds = analyse(&mapped.graph, options.analysis.method())?;
    let mut results = Vec::new();
    for (index, bound) in bounds.into_iter().enumerate() {
        // The closed form sums without rounding; where that leaves 128 bits the general bound still holds.
        let closed = if options.analysis == Analysis::Full {
            closed(&nodes, &mapped, index).unwrap_or(None)
        } else {
            None
        };
        results.push(PortResult { bound, closed });
    }
    let mut ports = Vec::new();
    for (index, result) in results.iter().enumerate() {
        ports.push(port_plan(&nodes, &mapped, index, result)?);
    }
    let mut streams = Vec::new();
    for (index, stream) in network.streams.iter().enumerate() {
        streams.push(stream_plan(&mapped, index, stream, &results, &ports)?);
    }
    let mut plan = Plan {
        version: PLAN_VERSION,
        input_hash: network.input_hash.clone(),
        method: options.analysis.words().to_owned(),
        routes: network.has_loops().then(|| crate::route::RULE.to_owned()),
        streams,
        ports,
        warnings: Vec::new(),
    };
    if let Some(schedule) = &schedule {
        schedule.enter(&mut plan)?;
    }
    let mut reasons = schedule.map_or_else(Vec::new, |schedule| schedule.reasons);
    reasons.extend(crate::refusal::reasons(network, &mapped, &plan)?);
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
fn closed(
    nodes: &Nodes<'_>,
    mapped: &Mapped,
    index: usize,
) -> Result<Option<ClosedForm>, Overflow> {
    let port = &mapped.ports[index];
    let graph = &mapped.graph;
    let shaped = |server: usize| graph.servers[server].shapers != [ClassShaper::None; 8];
    if port.kind != NodeKind::Switch || shaped(index) {
        return Ok(None);
    }
    let mut inputs: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut class = None;
    for &(flow_index, hop) in &mapped.passing[index] {
        let flow = &graph.flows[flow_index];
        let hop = flow.hops[hop];
        if *class.get_or_insert(hop.class) != hop.class {
            return Ok(None);
        }
        let Some(before) = hop.before.map(|before| flow.hops[before].server) else {
            return Ok(None);
        };
        // Only hosts: a port with another input is not what the form describes.
        if mapped.ports[before].kind != NodeKind::Host {
            return Ok(None);
        }
        match inputs.get_mut(&before) {
            Some(flows) => flows.push(flow_index),
            None => {
                inputs.insert(before, vec![flow_index]);
            }
        }
    }
    let mut sums = Vec::new();
    let mut sizes: Vec<Ratio> = Vec::new();
    for (server, flows) in &inputs {
        let host = &graph.servers[*server];
        let all = mapped.passing[*server].len();
        let from_host = mapped.ports[*server].kind == NodeKind::Host;
        if !from_host
            || !host.latency.is_zero()
            || host.rate != graph.servers[index].rate
            || all != flows.len()
            || shaped(*server)
        {
            return Ok(None);
        }
        // Frames of different size leave a host a little denser than they came.
        let frames = flows
            .iter()
            .flat_map(|flow| [graph.flows[*flow].frame_min, graph.flows[*flow].frame_max]);
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
    let limit = nodes
        .switch(&port.node)
        .map(|switch| switch.buffer)
        .filter(|buffer| !buffer.shared);
    match closed_form(
        server.rate,
        frame,
        server.latency,
        &sums,
        limit.map(|buffer| buffer.bytes),
    ) {
        Ok(form) => Ok(Some(form)),
        // The general bound, which is rounded on the way, still holds.
        Err(Overflow) => Ok(None),
    }
}

fn class_delay(result: &PortResult, class: u8) -> Result<Option<u64>, Overflow> {
    let general = result
        .bound
        .classes
        .get(usize::from(class))
        .and_then(|bound| bound.delay);
    let general = general.map(Ratio::ceil_ns).transpose()?;
    let closed = result
        .closed
        .as_ref()
        .and_then(|form| form.values.as_ref())
        .map(|values| values.delay_ns);
    Ok(match (general, closed) {
        (Some(general), Some(closed)) => Some(general.min(closed)),
        (general, _) => general,
    })
}

fn port_plan(
    nodes: &Nodes<'_>,
    mapped: &Mapped,
    index: usize,
    result: &PortResult,
) -> Result<PortPlan, Overflow> {
    let port = &mapped.ports[index];
    let passing = &mapped.passing[index];
    let flows: Vec<usize> = passing.iter().map(|(flow, _)| *flow).collect();
    let class_at = |(flow, hop): (usize, usize)| mapped.graph.flows[flow].hops[hop].class;
    let link_rate = Ratio::whole(i128::from(port.rate_bps));
    let rates = flows.iter().try_fold(Ratio::ZERO, |total, flow| {
        // Beyond what exact sums hold, a millionth of a bit/s is given away.
        total
            .plus(mapped.graph.flows[*flow].rate)?
            .tidied_up(1_000_000_000)
    })?;
    let utilization = rates.over(link_rate)?;
    let permille =
        u64::try_from(utilization.times(Ratio::whole(1000))?.ceil()).map_err(|_| Overflow)?;
    let to_bytes = |bits: Ratio| -> Result<u64, Overflow> {
        u64::try_from(bits.over(Ratio::whole(8))?.ceil()).map_err(|_| Overflow)
    };
    let general = result.bound.backlog.map(to_bytes).transpose()?;
    let closed = result.closed.as_ref().and_then(|form| form.values.as_ref());
    let backlog_bytes = match (general, closed) {
        (Some(general), Some(closed)) => Some(general.min(closed.buffer_bytes)),
        (general, _) => general,
    };
    let switch = nodes.switch(&port.node);
    let mut classes = Vec::new();
    for class in 0..mapped.graph.servers[index].classes {
        let names: Vec<String> = passing
            .iter()
            .filter(|passing| class_at(**passing) == class)
            .map(|(flow, _)| mapped.flow_names[*flow].clone())
            .filter(|name| name != CLOSED_GATES)
            .collect();
        if !names.is_empty() {
            classes.push(ClassPlan {
                class,
                flows: names,
                delay_ns: class_delay(result, class)?,
            });
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
        gates: None,
    })
}

/// Most frames that wait at once: as many of the smallest as the backlog holds.
fn backlog_frames(
    mapped: &Mapped,
    flows: &[usize],
    backlog_bytes: Option<u64>,
    result: &PortResult,
) -> Result<Option<u64>, Overflow> {
    let smallest = flows
        .iter()
        .map(|flow| mapped.graph.flows[*flow].frame_min)
        .min();
    let (Some(smallest), Some(bytes)) = (smallest, backlog_bytes) else {
        return Ok(backlog_bytes.map(|_| 0));
    };
    let bits = Ratio::whole(i128::from(bytes) * 8);
    let bits = match (
        result.bound.backlog,
        result.closed.as_ref().and_then(|form| form.values.as_ref()),
    ) {
        (_, Some(values)) => bits.min(values.buffer_bits_paper),
        (Some(general), None) => bits.min(general),
        (None, None) => bits,
    };
    u64::try_from(bits.over(smallest)?.ceil())
        .map(Some)
        .map_err(|_| Overflow)
}

fn stream_plan(
    mapped: &Mapped,
    index: usize,
    stream: &Stream,
    results: &[PortResult],
    ports: &[PortPlan],
) -> Result<StreamPlan, Overflow> {
    let contract = &stream.contract;
    let interval_ns = match contract.kind {
        ContractKind::Interval { interval_ns } => interval_ns,
        _ => contract.shaping_interval_ns,
    };
    let mut promises = Vec::new();
    for (listener, route) in stream.listeners.iter().zip(&stream.routes) {
        let terms = if stream.shaped {
            terms(mapped, index, stream, route, results, ports)?
        } else {
            None
        };
        let delay_ns = match &terms {
            Some(terms) => Some(
                terms
                    .iter()
                    .try_fold(0_u64, |total, term| total.checked_add(term.ns))
                    .ok_or(Overflow)?,
            ),
            None => None,
        };
        promises.push(Promise {
            listener: listener.clone(),
            route: route.clone(),
            delay_ns,
            terms: terms.unwrap_or_default(),
            deadline_ns: stream.deadline_ns,
            jitter_ns: None,
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
        launch: None,
    })
}

/// What a frame meets on its way; none where a port is unbounded.
fn terms(
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
        let Some(server) = mapped.port(from, to) else {
            return Ok(None);
        };
        let Some(hop) = mapped.hop_at(index, server) else {
            return Ok(None);
        };
        let Some(total) = class_delay(&results[server], hop.class)? else {
            return Ok(None);
        };
        let rate = Ratio::whole(i128::from(ports[server].link_rate_bps));
        // The total is whole latency plus at least the frame's own time, so nothing is cut here;
        // `min` makes the sum right even so.
        let mut left = total;
        let mut take = |what: TermKind, wanted: u64| {
            let ns = wanted.min(left);
            left -= ns;
            Term {
                what,
                at: format!("{from}>{to}"),
                ns,
            }
        };
        let latency = take(TermKind::Latency, ports[server].latency_ns);
        let transmission = take(
            TermKind::Transmission,
            stream.wire_bits().over(rate)?.ceil_ns()?,
        );
        let blocked = results[server]
            .bound
            .classes
            .get(usize::from(hop.class))
            .map_or(Ratio::ZERO, |bound| bound.blocking);
        let blocking = take(TermKind::Blocking, blocked.over(rate)?.ceil_ns()?);
        let queueing = take(TermKind::Queueing, u64::MAX);
        let cable_ns = mapped.ports[server].cable_ns;
        let cable = Term {
            what: TermKind::Cable,
            at: format!("{from}>{to}"),
            ns: cable_ns,
        };
        let all = [latency, blocking, queueing, transmission, cable];
        terms.extend(all.into_iter().filter(|term| term.ns > 0));
    }
    Ok(Some(terms))
}
