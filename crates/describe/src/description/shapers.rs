//! The shapers of single classes at ports: credits (802.1Qav) and regulators (802.1Qcr).

use std::collections::BTreeMap;

use super::fault::Findings;
use super::walk::Record;
use crate::network::{Network, PortShaper, ShaperKind};
use crate::ratio::Ratio;

/// Reads the shapers and checks each against the network.
pub(super) fn shapers(
    records: &[Record],
    network: &Network,
    findings: &mut Findings<'_>,
) -> Vec<PortShaper> {
    let mut found: Vec<PortShaper> = Vec::new();
    let mut taken: BTreeMap<(String, String, u8), ()> = BTreeMap::new();
    for record in records {
        let Some(shaper) = shaper(record, network, findings) else {
            continue;
        };
        let class = network.class(&shaper.node, shaper.pcp);
        for to in neighbours(network, &shaper.node) {
            if shaper.to.as_deref().is_some_and(|only| only != to) {
                continue;
            }
            let key = (shaper.node.clone(), to.to_owned(), class);
            if taken.insert(key, ()).is_some() {
                let message = format!(
                    "port {}>{to}: class {class} (priority {}) has a shaper already",
                    shaper.node, shaper.pcp
                );
                findings.at(&record.span, message, None);
                break;
            }
        }
        found.push(shaper);
    }
    if findings.is_clean() {
        check_ports(records, network, &found, findings);
    }
    found
}

fn neighbours<'a>(network: &'a Network, node: &'a str) -> impl Iterator<Item = &'a str> {
    network.links.iter().filter_map(move |link| {
        let [a, b] = &link.ends;
        if a == node {
            Some(b.as_str())
        } else if b == node {
            Some(a.as_str())
        } else {
            None
        }
    })
}

fn shaper(record: &Record, network: &Network, findings: &mut Findings<'_>) -> Option<PortShaper> {
    let node = record.text("node")?;
    let is_switch = network.switch(node).is_some();
    if !is_switch && network.host(node).is_none() {
        let names = network.switches.iter().map(|switch| switch.name.as_str());
        let names = names.chain(network.hosts.iter().map(|host| host.name.as_str()));
        let help = findings
            .nearest(node, names)
            .map(|near| format!("did you mean \"{near}\"?"));
        let message = format!("shaper: there is no host or switch \"{node}\"");
        findings.at(&record.place("node"), message, help);
        return None;
    }
    let to = record.text("to");
    if let Some(to) = to {
        if !neighbours(network, node).any(|name| name == to) {
            let help = findings
                .nearest(to, neighbours(network, node))
                .map(|near| format!("did you mean \"{near}\"?"));
            let message = format!("shaper: there is no link between \"{node}\" and \"{to}\"");
            findings.at(&record.place("to"), message, help);
            return None;
        }
    }
    if network.gates(node).is_some() {
        let message = format!("shaper: \"{node}\" has gates; both at one port have no bound here");
        let help = Some("take `gates` away, or the shaper".to_owned());
        findings.at(&record.place("node"), message, help);
        return None;
    }
    let kind = match record.text("kind")? {
        "credit" => {
            let Some(idle_slope) = record.quantity("idle-slope") else {
                if !record.has("idle-slope") {
                    let help = Some("the rate that the class may take, on the wire".to_owned());
                    findings.at(&record.span, "a credit needs its `idle-slope`", help);
                }
                return None;
            };
            ShaperKind::Credit { idle_slope }
        }
        _ => {
            if record.has("idle-slope") {
                let message = "`idle-slope` goes with kind = \"credit\"";
                findings.at(&record.place("idle-slope"), message, None);
                return None;
            }
            if !is_switch {
                let message = format!(
                    "shaper: \"{node}\" is a host; regulators are for switches, where frames come over links"
                );
                let help =
                    Some("a host's streams keep to their contracts by themselves".to_owned());
                findings.at(&record.place("node"), message, help);
                return None;
            }
            ShaperKind::Asynchronous
        }
    };
    let pcp = record.integer("priority");
    Some(PortShaper {
        node: node.to_owned(),
        to: to.map(str::to_owned),
        pcp: pcp.and_then(|pcp| u8::try_from(pcp).ok())?,
        kind,
    })
}

/// Checks that classes with credit are above all others, and that their rates together are below the link's.
fn check_ports(
    records: &[Record],
    network: &Network,
    found: &[PortShaper],
    findings: &mut Findings<'_>,
) {
    for (record, shaper) in records.iter().zip(found) {
        let ShaperKind::Credit { .. } = shaper.kind else {
            continue;
        };
        let queues = network.queues(&shaper.node);
        let class = network.class(&shaper.node, shaper.pcp);
        for to in neighbours(network, &shaper.node) {
            if shaper.to.as_deref().is_some_and(|only| only != to) {
                continue;
            }
            let here = |class: u8| {
                found.iter().find(|other| {
                    other.node == shaper.node
                        && other.to.as_deref().is_none_or(|only| only == to)
                        && network.class(&shaper.node, other.pcp) == class
                })
            };
            let slope = |class: u8| match here(class).map(|other| other.kind) {
                Some(ShaperKind::Credit { idle_slope }) => Some(idle_slope),
                _ => None,
            };
            if let Some(open) = (class + 1..queues).find(|above| slope(*above).is_none()) {
                let message = format!(
                    "port {}>{to}: class {class} has a credit, but class {open} above it has none",
                    shaper.node
                );
                let credits: Vec<u8> = (0..8)
                    .filter(|pcp| slope(network.class(&shaper.node, *pcp)).is_some())
                    .filter(|pcp| found.iter().any(|other| other.pcp == *pcp))
                    .collect();
                let help = super::priorities::on_top(network, &shaper.node, &credits);
                findings.at(&record.place("priority"), message, Some(help));
                return;
            }
            let total = (0..queues)
                .filter_map(slope)
                .try_fold(Ratio::ZERO, Ratio::plus);
            let rate = network
                .link(&shaper.node, to)
                .map_or(0, |link| link.rate_bps);
            let rate = Ratio::whole(rate.into());
            if total.is_ok_and(|total| total >= rate) || total.is_err() {
                let message = format!(
                    "port {}>{to}: the idle slopes reach the link's rate of {rate} bit/s",
                    shaper.node
                );
                let help = Some("leave something to the classes below".to_owned());
                findings.at(&record.place("idle-slope"), message, help);
                return;
            }
        }
    }
}
