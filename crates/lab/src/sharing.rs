//! The use of each link by best effort and by real time, for the report.

use std::collections::BTreeSet;

use rtwire_agentd::AgentStatus;
use rtwire_measure::report::{LinkShare, ReservationReport, SharingReport, TransferReport};
use rtwire_measure::summary::jain;
use rtwire_plan::Transfer;

use crate::evidence::Collected;
use crate::fabric::PortIndex;
use crate::managed::Brought;
use crate::tasks;

/// A transfer is counted from this time after the first frame on: its rate has settled by then, ns.
const SETTLED_NS: u64 = 1_000_000_000;

/// Returns the report. `from_ns` is the time of the first frame, ns of CLOCK_TAI.
pub(crate) fn report(
    collected: &Collected<'_>,
    brought: &[Brought],
    agents: Vec<AgentStatus>,
    from_ns: u64,
) -> Option<SharingReport> {
    let network = collected.network;
    let manager = network.manager_host.clone()?;
    let to_ns = from_ns + collected.duration_ns;
    let from_ns = match collected.duration_ns > 2 * SETTLED_NS {
        true => from_ns + SETTLED_NS,
        false => from_ns,
    };
    let seconds = seconds(to_ns.saturating_sub(from_ns));
    let transfers = network.transfers.iter().zip(brought);
    let transfers: Vec<TransferReport> = transfers
        .map(|(transfer, brought)| TransferReport {
            from: transfer.from.clone(),
            to: transfer.to.clone(),
            goodput_bps: as_f64(brought.bytes_between(from_ns, to_ns)) * 8.0 / seconds,
        })
        .collect();
    let ways: Vec<Vec<PortIndex>> = network
        .transfers
        .iter()
        .map(|transfer| way(collected, transfer))
        .collect();
    let ports: BTreeSet<PortIndex> = ways.iter().flatten().copied().collect();
    let links = ports.into_iter().filter_map(|port| {
        let own = ways.iter().zip(&transfers);
        let own = own.filter(|(way, _)| way.contains(&port));
        let rates: Vec<f64> = own.map(|(_, transfer)| transfer.goodput_bps).collect();
        link(collected, port, (from_ns, to_ns), &rates)
    });
    let links = links.collect();
    let reservations = agents.into_iter().map(|agent| ReservationReport {
        host: agent.host,
        granted: agent.shares_granted,
        refused: agent.shares_refused,
        unanswered: agent.shares_unanswered,
        samples: agent.share_times.map_or(0, |times| times.samples),
        p50_ns: agent.share_times.map(|times| times.p50_ns),
        p99_ns: agent.share_times.map(|times| times.p99_ns),
        max_ns: agent.share_times.map(|times| times.max_ns),
    });
    Some(SharingReport {
        manager,
        seconds,
        transfers,
        links,
        reservations: reservations.collect(),
    })
}

/// Returns the ports of a transfer, which goes the way of the best effort that carries it.
fn way(collected: &Collected<'_>, transfer: &Transfer) -> Vec<PortIndex> {
    let plan = collected.plan;
    let network = collected.network;
    let flow = plan.best_effort.iter().find(|flow| {
        let mut allowances = network.best_effort.iter();
        let allowance = allowances.find(|one| one.name == flow.name);
        flow.to == transfer.to && allowance.is_some_and(|one| one.host == transfer.from)
    });
    let route = flow.and_then(|flow| tasks::best_effort_route(network, flow));
    route.map_or_else(Vec::new, |route| collected.fabric.ports_of(network, route))
}

fn link(
    collected: &Collected<'_>,
    port: PortIndex,
    (from_ns, to_ns): (u64, u64),
    rates: &[f64],
) -> Option<LinkShare> {
    let blueprint = &collected.fabric.blueprint;
    let (node, neighbour) = blueprint.port_ends(port)?;
    let rate_bps = blueprint.cables.get(port / 2)?.rate_bps;
    let streams = collected.network.streams.len();
    let (mut real_time, mut best_effort) = (0_u64, 0_u64);
    for frame in collected.exact.served(port) {
        if !(from_ns..to_ns).contains(&frame.left_ns.unwrap_or(0)) {
            continue;
        }
        let is_stream = frame.frame.is_some_and(|id| (id.flow as usize) < streams);
        let sum = if is_stream {
            &mut real_time
        } else {
            &mut best_effort
        };
        *sum += u64::from(frame.wire_bits);
    }
    let room = as_f64(rate_bps) * seconds(to_ns.saturating_sub(from_ns));
    let free = room - as_f64(real_time);
    let name = |node: usize| blueprint.nodes[node].name.clone();
    Some(LinkShare {
        node: name(node),
        port: name(neighbour),
        link_rate_bps: rate_bps,
        real_time_percent: as_f64(real_time) * 100.0 / room,
        best_effort_percent: as_f64(best_effort) * 100.0 / room,
        of_free_percent: if free > 0.0 {
            as_f64(best_effort) * 100.0 / free
        } else {
            0.0
        },
        transfers: rates.len() as u64,
        fairness: (rates.len() > 1).then(|| jain(rates)),
    })
}

fn seconds(ns: u64) -> f64 {
    (as_f64(ns) / 1e9).max(1e-9)
}

#[allow(clippy::cast_precision_loss)] // shown to four digits
fn as_f64(value: u64) -> f64 {
    value as f64
}
