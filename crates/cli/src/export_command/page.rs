//! A switch's share as a page that a person types in.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use rtwire_plan::PortPlan;
use rtwire_plan::show::show_ns;

use super::share::{Share, SharePort};
use crate::columns::table;

/// Returns a switch's share as a page.
pub(super) fn page(share: &Share<'_>) -> String {
    let mut text = format!(
        "switch {}\n{}\n\n",
        share.name,
        "=".repeat(7 + share.name.len())
    );
    let _ = writeln!(
        text,
        "Priority (PCP) to traffic class, every port; the higher class goes first:\n"
    );
    let head = |first: &str, cells: &mut dyn Iterator<Item = String>| {
        let mut row = vec![first.to_owned()];
        row.extend(cells);
        row
    };
    let classes = share.classes();
    table(
        &mut text,
        1,
        &[
            head("PCP", &mut (0..8).map(|pcp: u8| pcp.to_string())),
            head("traffic class", &mut classes.iter().map(u8::to_string)),
        ],
    );
    streams(&mut text, share);
    meters(&mut text, share);
    cyclic(&mut text, share);
    for SharePort { name, number, plan } in &share.ports {
        let port = *plan;
        let _ = writeln!(text, "\nport {name} (to {}), number {number}\n", port.port);
        let buffer = port
            .backlog_bytes
            .map_or_else(|| "unbounded".to_owned(), |bytes| format!("{bytes} B"));
        let _ = writeln!(text, "  buffer needed: {buffer}");
        shapers(&mut text, share, port);
        preemption(&mut text, share, port);
        let Some(gates) = &port.gates else {
            let _ = writeln!(text, "  gates: none, all open");
            continue;
        };
        let _ = writeln!(
            text,
            "  gates: cycle {} ns ({}), begins {} ns after a whole number of cycles since the epoch of PTP time",
            gates.cycle_ns,
            show_ns(gates.cycle_ns),
            gates.base_offset_ns
        );
        let _ = writeln!(text, "  one line an entry; o: open, -: closed\n");
        let mut rows = vec![head(
            "entry",
            &mut ["from ns", "for ns", "gates"]
                .into_iter()
                .map(str::to_owned)
                .chain((0..8).rev().map(|class: u8| format!("tc{class}"))),
        )];
        let mut from = 0;
        for (index, entry) in gates.entries.iter().enumerate() {
            let states = (0..8).rev().map(|class| {
                if entry.gates >> class & 1 == 1 {
                    "o".to_owned()
                } else {
                    "-".to_owned()
                }
            });
            let first = [
                from.to_string(),
                entry.duration_ns.to_string(),
                format!("{:#04x}", entry.gates),
            ];
            rows.push(head(
                &index.to_string(),
                &mut first.into_iter().chain(states),
            ));
            from += entry.duration_ns;
        }
        table(&mut text, 1, &rows);
    }
    text
}

/// Writes the streams and where their frames go.
fn streams(text: &mut String, share: &Share<'_>) {
    let _ = writeln!(
        text,
        "\nFrames that pass, none longer than; forward each address to these ports only (VLAN {} is that of frames without a tag):\n",
        share.untagged_vlan
    );
    let mut rows = vec![
        ["stream", "address", "PCP", "VLAN", "frame", "in", "out"]
            .map(str::to_owned)
            .to_vec(),
    ];
    let ports = |neighbours: &BTreeSet<&str>| {
        let names = share
            .ports
            .iter()
            .filter(|port| neighbours.contains(port.plan.port.as_str()))
            .map(|port| port.name.as_str());
        names.collect::<Vec<_>>().join(" ")
    };
    for one in &share.passing {
        rows.push(vec![
            one.name.to_owned(),
            one.address
                .map_or_else(|| "of the host".to_owned(), super::yang::text),
            one.pcp.to_string(),
            one.vlan
                .map_or_else(|| "-".to_owned(), |vlan| vlan.to_string()),
            format!("{} B", one.frame_bytes),
            ports(&one.from),
            ports(&one.to),
        ]);
    }
    table(text, 1, &rows);
    if share.queues > 1
        && share
            .passing
            .iter()
            .any(|one| !one.has_tag() && one.pcp > 0)
    {
        let _ = writeln!(
            text,
            "\nFrames without a VLAN say no priority here: the switch takes the PCP above by their address (802.1Q, the IPV of a stream gate)."
        );
    }
}

/// Writes the stream gates of cyclic queueing.
fn cyclic(text: &mut String, share: &Share<'_>) {
    let Some((cycle_ns, priority, gate)) = share.cyclic else {
        return;
    };
    let _ = writeln!(
        text,
        "\nStream gates (802.1Q, 8.6.5.4) for cyclic queueing, at each port, for all frames of priority {priority}: always open, cycle {} ns, from the epoch of PTP time on\n",
        cycle_ns.saturating_mul(2)
    );
    let mut rows = vec![["for", "IPV: to traffic class"].map(str::to_owned).to_vec()];
    for queue in [gate.even_queue, gate.odd_queue] {
        rows.push(vec![format!("{cycle_ns} ns"), queue.to_string()]);
    }
    table(text, 1, &rows);
}

/// Writes the flow meters.
fn meters(text: &mut String, share: &Share<'_>) {
    let switch = share.network.switch(share.name);
    if switch.is_none_or(|it| it.flow_meters.is_none()) {
        return;
    }
    if share.meters.is_empty() {
        let _ = writeln!(
            text,
            "\nFlow meters (802.1Q, per-stream filtering and policing): no host at its ports sends anything; discard every frame from one"
        );
        return;
    }
    let _ = writeln!(
        text,
        "\nFlow meters (802.1Q, per-stream filtering and policing): one rate, no excess; discard what exceeds it, longer frames, frames of another priority, and frames without a meter:\n"
    );
    let head = [
        "stream",
        "in",
        "priority",
        "frame",
        "counts beyond",
        "CIR bit/s",
        "CBS B",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for meter in &share.meters {
        let mut ports = share.ports.iter();
        let port = ports.find(|port| port.plan.port == meter.from);
        rows.push(vec![
            meter.flow.clone(),
            port.map_or_else(|| meter.from.clone(), |port| port.name.clone()),
            meter.priority.to_string(),
            format!("{} B", meter.longest_frame_bytes),
            format!("{} B", meter.overhead_bytes),
            meter.committed_rate_bps.to_string(),
            meter.committed_burst_bytes.to_string(),
        ]);
    }
    table(text, 2, &rows);
}

/// Writes the frame preemption of a port.
fn preemption(text: &mut String, share: &Share<'_>, port: &PortPlan) {
    let Some(preemptable) = share.preemptable(port) else {
        return;
    };
    let Some(preemption) = share.preemption(port) else {
        let _ = writeln!(text, "  frame preemption: none, all priorities express");
        return;
    };
    let priorities = (0..8).zip(preemptable).filter(|(_, it)| *it);
    let priorities: Vec<String> = priorities
        .map(|(pcp, _): (u8, _)| pcp.to_string())
        .collect();
    let _ = writeln!(
        text,
        "  frame preemption (802.1Qbu; 802.3, clause 99): priorities {} preemptable, all others express; addFragSize {} at {}",
        priorities.join(", "),
        preemption.additional_fragment_size,
        port.port
    );
}

/// Writes the shapers of a port.
fn shapers(text: &mut String, share: &Share<'_>, port: &PortPlan) {
    for (class, slope_bps) in share.credits(port) {
        let _ = writeln!(
            text,
            "  traffic class {class}: credit-based shaper (802.1Qav), idle slope {slope_bps} bit/s on the wire"
        );
    }
    for class in share.asynchronous(port) {
        let _ = writeln!(
            text,
            "  traffic class {class}: asynchronous traffic shaping (802.1Qcr), one scheduler for each stream of its list, one group for each port that frames come in by"
        );
        for one in share.network.streams.iter().filter(|one| {
            share.network.class(share.name, one.pcp) == class
                && one.routes.iter().any(|route| {
                    route
                        .windows(2)
                        .any(|pair| pair == [share.name.to_owned(), port.port.clone()])
                })
        }) {
            let _ = writeln!(
                text,
                "    {}: committed rate {} bit/s, committed burst {} bit, both on the wire",
                one.name,
                one.contract.rate.ceil(),
                one.contract.burst.ceil()
            );
        }
    }
}
