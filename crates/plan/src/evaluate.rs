//! The computation behind a plan: ports from the bounds, promises from the ports.

mod ways;

use std::collections::BTreeMap;

use crate::bound::graph::{ClassShaper, PortBound};
use crate::bound::loeser_haertig::{ClosedForm, Input, closed_form};
use crate::bound::segments::Segments;
use crate::certificate::{self, CERTIFICATE_VERSION, Certificate};
use crate::mapping::{Mapped, Nodes, is_schedule, map};
use crate::network::{Network, Release, Switch};
use crate::plan::{
    Analysis, ClassPlan, NodeKind, Options, PLAN_VERSION, Plan, PlanOptions, PortPlan,
};
use crate::refusal::Reason;
use crate::schedule::{LEAST_WORK, Scheduling, synthesize};
use rtwire_describe::ratio::{Overflow, Ratio, sum};

use ways::{Ways, stream_plan};

/// The computed values of one port.
struct PortResult {
    bound: PortBound,
    closed: Option<ClosedForm>,
    /// The delay by the closed form, with the variation of the latency, nanoseconds.
    closed_delay_ns: Option<u64>,
}

/// The largest number of flows at ports that are looked at for segments. They take a fraction of a second.
const SEGMENT_WORK: u64 = 4_000_000;

/// Returns the work for segments. One trial of many gets less.
fn segment_work(search: u32) -> u64 {
    if search <= LEAST_WORK {
        SEGMENT_WORK / 40
    } else {
        SEGMENT_WORK
    }
}

/// Computes the plan, and the reasons against it.
pub(crate) fn evaluate(
    network: &Network,
    options: &Options,
    scheduling: &mut Scheduling<'_>,
) -> Result<(Plan, Vec<Reason>), Overflow> {
    evaluate_and_certify(network, options, scheduling, false)
}

/// As [`evaluate`]. If `certifies`, the plan carries the facts on which its promises rest.
pub(crate) fn evaluate_and_certify(
    network: &Network,
    options: &Options,
    scheduling: &mut Scheduling<'_>,
    certifies: bool,
) -> Result<(Plan, Vec<Reason>), Overflow> {
    let schedule = synthesize(network, scheduling)?;
    let cyclic = crate::cyclic::queue(network, options.analysis.method())?;
    // A network has one of the two.
    let closings = match (&schedule, &cyclic) {
        (Some(schedule), _) => &schedule.closings[..],
        (None, Some(cyclic)) => &cyclic.closings[..],
        (None, None) => &[],
    };
    let mapped = map(network, closings)?;
    let nodes = Nodes::new(network);
    let work = match options.analysis {
        Analysis::Sfa | Analysis::Rows | Analysis::EndToEnd => segment_work(scheduling.work),
        _ => 0,
    };
    let mut segments = Segments::new(&mapped.graph, options.analysis.method(), work)?;
    let mut results = Vec::new();
    for (index, bound) in segments.ports().iter().cloned().enumerate() {
        // The closed form sums without rounding; where that leaves 128 bits the general bound still holds.
        let closed = if matches!(
            options.analysis,
            Analysis::Full | Analysis::Rows | Analysis::EndToEnd
        ) {
            closed(&nodes, &mapped, index).unwrap_or(None)
        } else {
            None
        };
        let (closed, closed_delay_ns) = closed.unzip();
        results.push(PortResult {
            bound,
            closed,
            closed_delay_ns: closed_delay_ns.flatten(),
        });
    }
    let mut ports = Vec::new();
    for (index, result) in results.iter().enumerate() {
        ports.push(port_plan(&nodes, &mapped, index, result)?);
    }
    let routers = network.routers();
    let mut streams = Vec::new();
    let mut facts = Vec::new();
    for (index, stream) in network.streams.iter().enumerate() {
        let mut ways = Ways {
            mapped: &mapped,
            routers: &routers,
            results: &results,
            ports: &ports,
            segments: &mut segments,
            whole: options.analysis == Analysis::Sfa,
            facts: certifies.then_some(&mut facts),
        };
        streams.push(stream_plan(&mut ways, index, stream)?);
    }
    let certificate = if certifies {
        Some(Certificate {
            version: CERTIFICATE_VERSION,
            ports: certificate::ports(network, &mapped, &segments)?,
            promises: facts,
        })
    } else {
        None
    };
    let mut method = options.analysis.words().to_owned();
    if work > 0 && segments.is_exhausted() {
        method += "; not all rows of ports were looked at: there are too many";
    }
    let mut plan = Plan {
        version: PLAN_VERSION,
        epoch: 1,
        plan_id: String::new(),
        checksum: String::new(),
        input_hash: network.input_hash.clone(),
        network: Network::default(),
        options: PlanOptions::default(),
        numbers_used: 0,
        method,
        routes: network
            .has_loops()
            .then(|| rtwire_describe::route::rule(network)),
        streams,
        best_effort: Vec::new(),
        ports,
        meters: crate::meters::meters(network, &mapped, &segments)?,
        cyclic: None,
        warnings: Vec::new(),
        certificate,
    };
    if let Some(schedule) = &schedule {
        schedule.enter(&mut plan)?;
    }
    let mut reasons = schedule.map_or_else(Vec::new, |schedule| schedule.reasons);
    if let Some(cyclic) = &cyclic {
        reasons.extend(cyclic.enter(network, &mut plan)?);
    }
    reasons.extend(crate::recovery::enter(network, &mapped, &mut plan)?);
    reasons.extend(crate::refusal::reasons(network, &mapped, &plan)?);
    if let Some(cyclic) = cyclic {
        cyclic.judge_all(&mut plan, &mut reasons);
    }
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

/// Returns the closed form of a switch's port, and the delay by it with the variation of the latency.
///
/// The form applies if all inputs are links of the port's own rate from hosts that add nothing.
fn closed(
    nodes: &Nodes<'_>,
    mapped: &Mapped,
    index: usize,
) -> Result<Option<(ClosedForm, Option<u64>)>, Overflow> {
    let port = &mapped.ports[index];
    let graph = &mapped.graph;
    let shaped = |server: usize| graph.servers[server].shapers != [ClassShaper::None; 8];
    let preempts = |server: usize| graph.servers[server].preemption.is_some();
    if port.kind == NodeKind::Host
        || shaped(index)
        || preempts(index)
        || !graph.servers[index].inputs.is_empty()
    {
        return Ok(None);
    }
    let mut inputs: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut class = None;
    for &(flow_index, hop) in &mapped.passing[index] {
        let flow = &graph.flows[flow_index];
        if flow.meter.is_some() {
            return Ok(None);
        }
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
            || preempts(*server)
        {
            return Ok(None);
        }
        // Frames of different size leave a host a little closer together than they came.
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
    let load = sum(sums.iter().map(|input| input.rate))?.over(server.rate)?;
    let variation = server.latency.minus(server.latency_min)?;
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
        Ok(form) => {
            let delay = form.values.as_ref();
            let delay = delay.map(|values| values.varying_delay_ns(variation, load));
            Ok(Some((form, delay.transpose()?)))
        }
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
    Ok(match (general, result.closed_delay_ns) {
        (Some(general), Some(closed)) => Some(general.min(closed)),
        (general, _) => general,
    })
}

/// Returns the delay of a class as [`class_delay`] does, before it is rounded up to nanoseconds.
fn exact_delay(result: &PortResult, class: u8) -> Result<Option<Ratio>, Overflow> {
    let general = result.bound.classes.get(usize::from(class));
    let general = general.and_then(|bound| bound.delay);
    let rounded = class_delay(result, class)?;
    Ok(match (general, rounded) {
        (Some(general), Some(rounded)) => Some(general.min(Ratio::from_ns(rounded))),
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
    let switch = nodes.switch(&port.node);
    let whole_frame = whole_frame_bytes(mapped, index, switch)?;
    let general = result.bound.backlog.map(to_bytes).transpose()?;
    let closed = result.closed.as_ref().and_then(|form| form.values.as_ref());
    let backlog_bytes = match (general, closed) {
        (Some(general), Some(closed)) => Some(general.min(closed.buffer_bytes)),
        (general, _) => general,
    };
    let mut classes = Vec::new();
    for class in 0..mapped.graph.servers[index].classes {
        let names: Vec<String> = passing
            .iter()
            .filter(|passing| class_at(**passing) == class)
            .map(|(flow, _)| mapped.flow_names[*flow].clone())
            .filter(|name| !is_schedule(name))
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
        backlog_bytes: backlog_bytes.map(|bytes| bytes.saturating_add(whole_frame)),
        backlog_frames: backlog_frames(mapped, index, backlog_bytes, result)?,
        buffer_bytes: switch.map(|switch| switch.buffer.bytes),
        buffer_frames: switch.and_then(|switch| switch.buffer.frames),
        shared: switch.is_some_and(|switch| switch.buffer.shared),
        classes,
        loeser_haertig: result.closed.clone(),
        gates: None,
        preemption: mapped.preemption(index),
    })
}

/// Returns the memory of the frame that is being sent, bytes: the largest one. With preemption there may be two: one that is
/// being sent, and one that it has interrupted. It is zero if each bit is freed as it leaves, and if nothing passes.
fn whole_frame_bytes(
    mapped: &Mapped,
    index: usize,
    switch: Option<&Switch>,
) -> Result<u64, Overflow> {
    if switch.is_some_and(|switch| switch.buffer.release == Release::Bit) {
        return Ok(0);
    }
    let first_express = mapped.graph.servers[index].preemption;
    let first_express = first_express.map_or(0, |preemption| preemption.first_express);
    let largest = |interrupted: bool| {
        let frames = mapped.passing[index]
            .iter()
            .filter(|(flow, _)| !is_schedule(&mapped.flow_names[*flow]))
            .map(|(flow, hop)| (&mapped.graph.flows[*flow], *hop))
            .filter(|(flow, hop)| (flow.hops[*hop].class < first_express) == interrupted)
            .map(|(flow, _)| flow.frame_max);
        frames.fold(Ratio::ZERO, Ratio::max)
    };
    let both = largest(true).plus(largest(false))?;
    u64::try_from(both.over(Ratio::whole(8))?.ceil()).map_err(|_| Overflow)
}

/// Returns the largest number of frames that wait at once: as many of the smallest ones as the backlog holds.
fn backlog_frames(
    mapped: &Mapped,
    index: usize,
    backlog_bytes: Option<u64>,
    result: &PortResult,
) -> Result<Option<u64>, Overflow> {
    // One frame that is being sent counts by what is left of it. With preemption there may be a second one.
    let begun = u64::from(mapped.graph.servers[index].preemption.is_some());
    let smallest = mapped.passing[index]
        .iter()
        .map(|(flow, hop)| {
            let flow = &mapped.graph.flows[*flow];
            let meter = flow.meter.as_ref().filter(|meter| meter.is_behind(*hop));
            meter.map_or(flow.frame_min, |meter| meter.frame_min)
        })
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
        .map(|frames| Some(frames.saturating_add(begun)))
        .map_err(|_| Overflow)
}
