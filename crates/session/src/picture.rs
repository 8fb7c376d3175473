//! The parts that the reports of a lab and of a judgement have in common: the drawn network, and the date.

use rtwire_measure::report::{DrawnLink, DrawnNode, Network, NodeKind};
use rtwire_plan::Network as Described;
use rtwire_sys::clock;

/// Returns the picture of a described network.
///
/// `utilization` tells how much of the port of a node towards a neighbour was used, in percent; `None` where nobody knows.
#[must_use]
pub fn drawn(network: &Described, utilization: impl Fn(&str, &str) -> Option<f64>) -> Network {
    let node = |name: &str, kind| DrawnNode {
        name: name.to_owned(),
        kind,
    };
    let hosts = network.hosts.iter();
    let hosts = hosts.map(|one| node(&one.name, NodeKind::Host));
    let switches = network.switches.iter();
    let switches = switches.map(|one| node(&one.name, NodeKind::Switch));
    let links = network.links.iter().flat_map(|link| {
        let [a, b] = &link.ends;
        [(a, b), (b, a)].map(|(from, to)| DrawnLink {
            from: from.clone(),
            to: to.clone(),
            rate_bps: link.rate_bps,
            utilization_percent: utilization(from, to),
        })
    });
    Network {
        name: network.name.clone(),
        nodes: hosts.chain(switches).collect(),
        links: links.collect(),
    }
}

/// Returns the moment of CLOCK_TAI as a date and time of UTC, by the offset that holds now.
#[must_use]
pub fn utc(tai_ns: u64) -> String {
    let offset = clock::tai_offset_ns().unwrap_or(0);
    let unix_seconds = tai_ns.saturating_add_signed(-offset) / 1_000_000_000;
    rtwire_measure::units::rfc3339_utc(unix_seconds)
}
