//! The interface itself: up, connected, not shared.

use super::{Area, Facts, Finding, Level};
use crate::change::{Subject, Value, Wanted};

const AREA: Area = Area::Interface;

pub(super) fn state(facts: &Facts) -> Vec<Finding> {
    let Some(interface) = &facts.interface else {
        return Vec::new();
    };
    let link = &interface.link;
    let name = &link.name;
    let id = "interface.state";
    let why = "an interface that is down or without a link neither sends nor receives";
    if !link.up() {
        return vec![
            Finding::good(AREA, id, format!("`{name}` is down"), why)
                .at(Level::Fault)
                .fixed_by(vec![Wanted {
                    subject: Subject::Up {
                        interface: name.clone(),
                    },
                    to: Value::Flag(true),
                }]),
        ];
    }
    if !link.carrier {
        return vec![
            Finding::good(
                AREA,
                id,
                format!("`{name}` has no link: no cable, or the other end is down"),
                why,
            )
            .at(Level::Fault)
            .by_hand("plug the cable in, or bring the other end up"),
        ];
    }
    let speed = interface.speed_mbps.map_or_else(
        || "rate not told".to_owned(),
        |mbps| format!("{mbps} Mbit/s"),
    );
    let driver = interface.driver.as_deref().unwrap_or("driver not told");
    vec![Finding::good(
        AREA,
        id,
        format!("`{name}` is up, {speed}, {driver}"),
        why,
    )]
}

pub(super) fn duplex(facts: &Facts) -> Vec<Finding> {
    let Some(interface) = &facts.interface else {
        return Vec::new();
    };
    if interface.full_duplex != Some(false) {
        return Vec::new();
    }
    vec![
        Finding::good(
            AREA,
            "interface.duplex",
            "half duplex",
            "frames collide and are repeated after random times: no bound holds",
        )
        .at(Level::Fault)
        .by_hand(format!(
            "ethtool -s {} duplex full autoneg on",
            interface.link.name
        )),
    ]
}

pub(super) fn master(facts: &Facts) -> Vec<Finding> {
    let Some(index) = facts.interface.as_ref().and_then(|it| it.link.master) else {
        return Vec::new();
    };
    let name = facts.interface.as_ref().map(|it| it.link.name.clone());
    vec![
        Finding::good(
            AREA,
            "interface.master",
            format!("port of the bridge or bond with index {index}"),
            "the bridge forwards other hosts' traffic on this port, and takes received frames before a channel sees \
             them",
        )
        .at(Level::Fault)
        .by_hand(format!("ip link set {} nomaster", name.unwrap_or_default())),
    ]
}

pub(super) fn losses(facts: &Facts) -> Vec<Finding> {
    let Some(link) = facts.interface.as_ref().map(|it| &it.link) else {
        return Vec::new();
    };
    let id = "interface.losses";
    let why = "a frame lost in this interface breaks its promise, whatever the network does";
    let (bad, found) = (
        link.rx_errors + link.rx_missed + link.tx_dropped,
        format!(
            "since the start: {} received with errors, {} lost to a full ring, {} not sent, {} without a receiver",
            link.rx_errors, link.rx_missed, link.tx_dropped, link.rx_dropped
        ),
    );
    if bad == 0 {
        return vec![Finding::good(AREA, id, found, why)];
    }
    vec![
        Finding::good(AREA, id, found, why)
            .at(Level::Note)
            .by_hand(format!(
                "watch whether the counts grow: ip -s -s link show {}",
                link.name
            )),
    ]
}

pub(super) fn foreign_program(facts: &Facts) -> Vec<Finding> {
    let Some(link) = facts.interface.as_ref().map(|it| &it.link) else {
        return Vec::new();
    };
    let mode = match link.xdp_attached {
        0 => return Vec::new(),
        1 => "in the driver",
        2 => "as generic XDP",
        3 => "in hardware",
        _ => "in several places",
    };
    vec![
        Finding::good(
            AREA,
            "interface.program",
            format!("an XDP program is attached {mode}"),
            "it sees every frame first and may drop it; the receive program cannot be attached beside it",
        )
        .at(Level::Weak)
        .by_hand(format!(
            "find its owner: bpftool net show dev {0}; remove it: ip link set {0} xdp off",
            link.name
        )),
    ]
}
