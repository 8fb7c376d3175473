//! Values of single ports and inputs of switches.

use super::context::ns;
use super::fault::Findings;
use super::walk::{Record, Records};
use crate::network::{CutThrough, LatencyLimits, Network, SwitchPort};

/// Reads `cut-through`.
pub(super) fn cut_through(record: &Record) -> Option<CutThrough> {
    match record.text("cut-through")? {
        "on" => Some(CutThrough::On),
        "possible" => Some(CutThrough::Possible),
        _ => Some(CutThrough::Off),
    }
}

/// Checks that nothing else decides when a frame leaves where frames cut through.
pub(super) fn check(network: &Network, records: &Records, findings: &mut Findings<'_>) {
    for (table, key) in [("switch", "name"), ("port", "switch")] {
        for record in records.get(table).into_iter().flatten() {
            let switch = record.text(key).and_then(|name| network.switch(name));
            let cuts = cut_through(record).is_some_and(|cut| !cut.is_off());
            // A router never cuts through, which is told elsewhere.
            let Some(switch) = switch.filter(|it| cuts && it.routing.is_none()) else {
                continue;
            };
            let shaped = network.shapers.iter().any(|it| it.node == switch.name);
            let what = match (switch.gates.is_some(), shaped) {
                (true, _) => "gates",
                (_, true) => "a shaper",
                _ => continue,
            };
            let message = format!(
                "switch \"{}\" has {what}: together with cut-through there is no bound here",
                switch.name
            );
            let help = Some(format!("take {what} away, or state cut-through = \"off\""));
            findings.at(&record.place("cut-through"), message, help);
        }
    }
}

/// Reads the ports and enters them at their switches.
pub(super) fn ports(records: &[Record], network: &mut Network, findings: &mut Findings<'_>) {
    for record in records {
        let Some(switch) = record.text("switch") else {
            continue;
        };
        let Some(at) = network.switches.iter().position(|one| one.name == switch) else {
            let names = network.switches.iter().map(|switch| switch.name.as_str());
            let help = findings
                .nearest(switch, names)
                .map(|near| format!("did you mean \"{near}\"?"));
            let message = format!("port: there is no switch \"{switch}\"");
            findings.at(&record.place("switch"), message, help);
            continue;
        };
        let Some(port) = port(record, switch, network, findings) else {
            continue;
        };
        let ports = &mut network.switches[at].ports;
        if ports
            .iter()
            .any(|other| other.from == port.from && other.to == port.to)
        {
            let message = format!("port: this one of \"{switch}\" is given already");
            findings.at(&record.span, message, None);
            continue;
        }
        ports.push(port);
    }
}

fn port(
    record: &Record,
    switch: &str,
    network: &Network,
    findings: &mut Findings<'_>,
) -> Option<SwitchPort> {
    for key in ["to", "from"] {
        let Some(name) = record.text(key) else {
            continue;
        };
        if !network.neighbours(switch).any(|one| one == name) {
            let help = findings
                .nearest(name, network.neighbours(switch))
                .map(|near| format!("did you mean \"{near}\"?"));
            let message = format!("port: there is no link between \"{switch}\" and \"{name}\"");
            findings.at(&record.place(key), message, help);
            return None;
        }
    }
    let name = |key: &str| record.text(key).map(str::to_owned);
    let (from, to) = (name("from"), name("to"));
    if from.is_none() && to.is_none() {
        if !record.has("from") && !record.has("to") {
            let help = "to = the neighbour behind the port, from = the neighbour before the input";
            let message = "port: it needs `to`, `from` or both";
            findings.at(&record.span, message, Some(help.to_owned()));
        }
        return None;
    }
    if from == to {
        let message = "port: no frame leaves over the link by which it came";
        findings.at(&record.place("from"), message, None);
        return None;
    }
    let latency = record.latency("latency").map(|(min, max)| LatencyLimits {
        min_ns: ns(min),
        max_ns: ns(max),
    });
    let cut_through = cut_through(record);
    let preemptable = record.priorities("preemptable").map(<[u8]>::to_vec);
    if record.has("preemptable") && (from.is_some() || to.is_none()) {
        let message = "port: `preemptable` is of a port, for the frames of all of its inputs";
        let help = Some("give `to` alone".to_owned());
        findings.at(&record.place("preemptable"), message, help);
        return None;
    }
    if !["latency", "cut-through", "preemptable"]
        .iter()
        .any(|key| record.has(key))
    {
        let message = "port: it states nothing";
        let help = Some("give `latency`, `cut-through` or `preemptable`".to_owned());
        findings.at(&record.span, message, help);
        return None;
    }
    Some(SwitchPort {
        from,
        to,
        latency,
        cut_through,
        preemptable,
    })
}
