//! The budgets under which a plan's network is managed: as wide as its own streams' deadlines allow.

use std::collections::HashMap;

use rtwire_plan::admission::{Admission, AdmissionError, Budgets};
use rtwire_plan::{NodeKind, Plan};

use crate::codec::{CodecError, Reader, Writer};

/// The smallest frame: header and payload without FCS, bytes.
const SMALLEST_FRAME_BYTES: u64 = 60;
/// The shares of the way from the plan's own bound to the widest budget that are tried, thousandths.
const TRIED_PERMILLE: [u64; 5] = [1000, 750, 500, 250, 0];

/// Returns budgets for a plan. `widest_ns` is the widest budget for priority 0 to 7, nanoseconds. At hosts a quarter of
/// it is used.
///
/// A budget is never below the plan's own bound at that port. The time that a stream's deadline leaves is divided evenly
/// among the ports of its route. If the plan's streams do not fit these budgets, narrower ones are tried.
///
/// # Errors
/// [`AdmissionError`] if the plan's streams fit none, or the network has ports that admission does not cover.
pub fn budgets_of(plan: &Plan, widest_ns: &[u64; 8]) -> Result<Budgets, AdmissionError> {
    let mut first = None;
    let slack = slack(plan);
    for permille in TRIED_PERMILLE {
        let budgets = at(plan, widest_ns, &slack, permille);
        match Admission::with_streams(&plan.network, &budgets) {
            Ok(_) => return Ok(budgets),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or(AdmissionError::Range {
        what: "the budgets".to_owned(),
    }))
}

/// A class of a port: node, neighbour, class.
type ClassAt<'a> = (&'a str, &'a str, u8);

/// Returns the time that each class may take at each port beyond its bound, as far as deadlines limit it, ns.
fn slack(plan: &Plan) -> HashMap<ClassAt<'_>, u64> {
    let network = &plan.network;
    let mut bounds: HashMap<ClassAt<'_>, u64> = HashMap::new();
    for port in &plan.ports {
        for class in &port.classes {
            let key = (port.node.as_str(), port.port.as_str(), class.class);
            bounds.insert(key, class.delay_ns.unwrap_or(0));
        }
    }
    let mut cables: HashMap<(&str, &str), u64> = HashMap::new();
    for link in &network.links {
        let [a, b] = &link.ends;
        cables.insert((a, b), link.cable_delay_ns);
        cables.insert((b, a), link.cable_delay_ns);
    }
    let mut slack: HashMap<ClassAt<'_>, u64> = HashMap::new();
    for stream in &network.streams {
        let Some(deadline_ns) = stream.deadline_ns else {
            continue;
        };
        for route in &stream.routes {
            let hops = route.windows(2).map(|pair| {
                (
                    pair[0].as_str(),
                    pair[1].as_str(),
                    network.class(&pair[0], stream.pcp),
                )
            });
            let hops: Vec<ClassAt<'_>> = hops.collect();
            let own = |hop: &ClassAt<'_>| {
                let cable = cables.get(&(hop.0, hop.1)).copied().unwrap_or(0);
                bounds.get(hop).copied().unwrap_or(0).saturating_add(cable)
            };
            let sum = hops.iter().map(own).fold(0_u64, u64::saturating_add);
            let each = deadline_ns.saturating_sub(sum) / (hops.len().max(1) as u64);
            for hop in hops {
                let least = slack.entry(hop).or_insert(u64::MAX);
                *least = each.min(*least);
            }
        }
    }
    slack
}

fn at(
    plan: &Plan,
    widest_ns: &[u64; 8],
    slack: &HashMap<ClassAt<'_>, u64>,
    permille: u64,
) -> Budgets {
    let streams = plan.network.streams.iter().map(|one| one.wire_bytes);
    let allowances = plan.network.best_effort.iter().map(|one| one.wire_bytes);
    let mut budgets = Budgets::default();
    budgets.largest_wire_bytes = streams
        .chain(allowances)
        .fold(budgets.largest_wire_bytes, u64::max);
    // A description may count less than Ethernet's own 24 bytes beside a frame.
    let smallest = SMALLEST_FRAME_BYTES + plan.network.defaults.frame_overhead_bytes;
    budgets.smallest_wire_bytes = budgets.smallest_wire_bytes.min(smallest);
    for port in &plan.ports {
        let classes = plan.network.queues(&port.node).clamp(1, 8);
        for class in 0..classes {
            let own = port.classes.iter().find(|one| one.class == class);
            let bound = own.and_then(|one| one.delay_ns).unwrap_or(0);
            let priorities = (0..8_u8).filter(|pcp| plan.network.class(&port.node, *pcp) == class);
            let widest = priorities.map(|pcp| widest_ns[usize::from(pcp)]).max();
            let mut widest = widest.unwrap_or(0);
            if port.node_kind == NodeKind::Host {
                // A host's delay makes its bursts larger at each switch behind, and only its own traffic waits there.
                widest /= 4;
            }
            let more = widest.max(bound.saturating_add(bound / 4)) - bound;
            let key = (port.node.as_str(), port.port.as_str(), class);
            // Where no deadline limits it, all of the width is used.
            let more = match slack.get(&key) {
                Some(slack) => more.min(*slack) / 1000 * permille,
                None => more,
            };
            let key = (port.node.clone(), port.port.clone(), class);
            budgets.at_ports.insert(key, bound.saturating_add(more));
        }
    }
    budgets
}

/// Returns budgets as bytes, for a store.
#[must_use]
pub fn budgets_to_bytes(budgets: &Budgets) -> Vec<u8> {
    let mut to = Writer::new();
    to.u8(1);
    for ns in budgets.delay_ns {
        to.u64(ns);
    }
    to.u64(budgets.largest_wire_bytes);
    to.u64(budgets.foreign_wire_bytes);
    to.u64(budgets.smallest_wire_bytes);
    let mut ports: Vec<_> = budgets.at_ports.iter().collect();
    ports.sort();
    to.u32(u32::try_from(ports.len()).unwrap_or(u32::MAX));
    for ((node, port, class), ns) in ports {
        to.text(node);
        to.text(port);
        to.u8(*class);
        to.u64(*ns);
    }
    to.done()
}

/// Reads budgets from a store.
///
/// # Errors
/// [`CodecError`] if the bytes are none.
pub fn budgets_from_bytes(bytes: &[u8]) -> Result<Budgets, CodecError> {
    let mut from = Reader::new(bytes);
    match from.u8("version")? {
        1 => {}
        other => return Err(CodecError::Version(other)),
    }
    let mut budgets = Budgets::default();
    for ns in &mut budgets.delay_ns {
        *ns = from.u64("delay_ns")?;
    }
    budgets.largest_wire_bytes = from.u64("largest_wire_bytes")?;
    budgets.foreign_wire_bytes = from.u64("foreign_wire_bytes")?;
    budgets.smallest_wire_bytes = from.u64("smallest_wire_bytes")?;
    for _ in 0..from.u32("ports")? {
        let node = from.name("node")?.to_owned();
        let port = from.name("port")?.to_owned();
        let class = from.u8("class")?;
        budgets
            .at_ports
            .insert((node, port, class), from.u64("budget_ns")?);
    }
    from.end()?;
    Ok(budgets)
}
