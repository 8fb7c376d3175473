//! Finds all reasons against a plan.

use std::collections::HashMap;

use super::Reason;
use crate::bound::graph::ClassShaper;
use crate::mapping::Mapped;
use crate::network::Network;
use crate::plan::{NodeKind, Plan, PortPlan};
use rtwire_describe::ratio::{Overflow, Ratio};

/// Returns all reasons against a plan.
pub(crate) fn reasons(
    network: &Network,
    mapped: &Mapped,
    plan: &Plan,
) -> Result<Vec<Reason>, Overflow> {
    let mut reasons = Vec::new();
    for stream in network.streams.iter().filter(|stream| !stream.shaped) {
        reasons.push(Reason::Unshaped {
            stream: stream.name.clone(),
        });
    }
    for (index, port) in plan.ports.iter().enumerate() {
        let (node, to) = (port.node.clone(), port.port.clone());
        if port.utilization >= Ratio::ONE {
            let link = Ratio::whole(i128::from(port.link_rate_bps));
            let rate_bps =
                u64::try_from(port.utilization.times(link)?.ceil()).map_err(|_| Overflow)?;
            let flows = mapped.passing[index]
                .iter()
                .map(|(flow, _)| mapped.flow_names[*flow].clone())
                .collect();
            reasons.push(Reason::Rate {
                node,
                port: to,
                rate_bps,
                link_rate_bps: port.link_rate_bps,
                flows,
            });
            continue;
        }
        let Some(needed_bytes) = port.backlog_bytes else {
            let credits = credits(mapped, index, &port.node, &port.port)?;
            let passing = metered(mapped, index)?;
            if passing >= Ratio::whole(i128::from(port.link_rate_bps)) {
                reasons.push(Reason::Meters {
                    node,
                    port: to,
                    rate_bps: u64::try_from(passing.ceil()).map_err(|_| Overflow)?,
                    link_rate_bps: port.link_rate_bps,
                });
            } else if credits.is_empty() {
                reasons.push(Reason::Unbounded { node, port: to });
            }
            reasons.extend(credits);
            continue;
        };
        if port.shared || port.node_kind == NodeKind::Host {
            continue;
        }
        if let Some(buffer_bytes) = port.buffer_bytes.filter(|limit| needed_bytes > *limit) {
            reasons.push(Reason::Buffer {
                node,
                port: to,
                needed_bytes,
                buffer_bytes,
                excess_bytes: needed_bytes - buffer_bytes,
            });
        } else if let (Some(needed_frames), Some(buffer_frames)) =
            (port.backlog_frames, port.buffer_frames)
        {
            if needed_frames > buffer_frames {
                let excess_frames = needed_frames - buffer_frames;
                reasons.push(Reason::BufferFrames {
                    node,
                    port: to,
                    needed_frames,
                    buffer_frames,
                    excess_frames,
                });
            }
        }
    }
    pools(network, plan, &mut reasons);
    for stream in &plan.streams {
        for promise in &stream.promises {
            if let (Some(delay_ns), Some(deadline_ns)) = (promise.delay_ns, promise.deadline_ns) {
                if delay_ns > deadline_ns {
                    reasons.push(Reason::Deadline {
                        stream: stream.name.clone(),
                        listener: promise.listener.clone(),
                        delay_ns,
                        deadline_ns,
                        excess_ns: delay_ns - deadline_ns,
                    });
                }
            }
        }
    }
    Ok(reasons)
}

/// Returns the rates at a port, bit/s, of metered flows as much as their meters let through.
fn metered(mapped: &Mapped, index: usize) -> Result<Ratio, Overflow> {
    let mut total = Ratio::ZERO;
    for (flow, hop) in &mapped.passing[index] {
        let flow = &mapped.graph.flows[*flow];
        let rate = match flow.meter.as_ref().filter(|meter| meter.is_behind(*hop)) {
            Some(meter) => meter.passing_bps(flow)?,
            None => flow.rate,
        };
        total = total.plus(rate)?.tidied_up(1_000_000_000)?;
    }
    Ok(total)
}

/// Returns the classes of a port whose rates reach their credits.
fn credits(mapped: &Mapped, index: usize, node: &str, port: &str) -> Result<Vec<Reason>, Overflow> {
    let mut found = Vec::new();
    for (class, shaper) in (0..).zip(&mapped.graph.servers[index].shapers) {
        let ClassShaper::Credit { idle_slope } = shaper else {
            continue;
        };
        let mut total = Ratio::ZERO;
        for (flow, hop) in &mapped.passing[index] {
            let flow = &mapped.graph.flows[*flow];
            if flow.hops[*hop].class == class {
                total = total.plus(flow.rate)?.tidied_up(1_000_000_000)?;
            }
        }
        if total >= *idle_slope {
            found.push(Reason::Credit {
                node: node.to_owned(),
                port: port.to_owned(),
                class,
                rate_bps: u64::try_from(total.ceil()).map_err(|_| Overflow)?,
                idle_slope_bps: u64::try_from(idle_slope.floor()).map_err(|_| Overflow)?,
            });
        }
    }
    Ok(found)
}

/// Checks each pool, which serves all ports of a switch at once.
fn pools(network: &Network, plan: &Plan, reasons: &mut Vec<Reason>) {
    let mut by_switch: HashMap<&str, Vec<&PortPlan>> = HashMap::new();
    for port in plan.ports.iter().filter(|port| port.shared) {
        by_switch.entry(&port.node).or_default().push(port);
    }
    for switch in network
        .switches
        .iter()
        .filter(|switch| switch.buffer.shared)
    {
        let ports = || by_switch.get(switch.name.as_str()).into_iter().flatten();
        // An unbounded port has been named already.
        let bytes = ports().map(|port| port.backlog_bytes).sum::<Option<u64>>();
        let frames = ports().map(|port| port.backlog_frames).sum::<Option<u64>>();
        if let Some(needed_bytes) = bytes.filter(|needed| *needed > switch.buffer.bytes) {
            reasons.push(Reason::SharedBuffer {
                node: switch.name.clone(),
                needed_bytes,
                buffer_bytes: switch.buffer.bytes,
                excess_bytes: needed_bytes - switch.buffer.bytes,
            });
        } else if let (Some(needed_frames), Some(buffer_frames)) = (frames, switch.buffer.frames) {
            if needed_frames > buffer_frames {
                reasons.push(Reason::SharedBufferFrames {
                    node: switch.name.clone(),
                    needed_frames,
                    buffer_frames,
                    excess_frames: needed_frames - buffer_frames,
                });
            }
        }
    }
}
