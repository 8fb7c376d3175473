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

pub(super) fn mtu(facts: &Facts) -> Vec<Finding> {
    /// The smallest MTU of IPv6 (RFC 8200, 5). Below it the kernel takes IPv6 from the interface.
    const LEAST: u32 = 1280;
    let Some(link) = facts.interface.as_ref().map(|it| &it.link) else {
        return Vec::new();
    };
    // Where best effort is planned with small frames, `rtwire apply` lowers the MTU.
    if link.mtu >= LEAST || facts.applied {
        return Vec::new();
    }
    vec![
        Finding::good(
            AREA,
            "interface.mtu",
            format!("MTU {}: longer frames are refused", link.mtu),
            "programs that send more get an error (EMSGSIZE) or are cut into fragments; below 1280 there is no IPv6",
        )
        .at(Level::Weak)
        .by_hand(format!("ip link set {} mtu 1500", link.name)),
    ]
}

pub(super) fn promiscuous(facts: &Facts) -> Vec<Finding> {
    const IFF_PROMISC: u32 = 0x100;
    const IFF_ALLMULTI: u32 = 0x200;
    let Some(link) = facts.interface.as_ref().map(|it| &it.link) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    if link.promiscuity > 0 || link.flags & IFF_PROMISC != 0 {
        findings.push(
            Finding::good(
                AREA,
                "interface.promiscuous",
                "takes frames for every address (promiscuous)",
                "frames for other hosts raise interrupts and cost time here; a switch that does not know an address yet sends \
                 them all",
            )
            .at(Level::Weak)
            .by_hand(format!(
                "ip link set {} promisc off; if it stays, a program asks for it: ss -0 -p",
                link.name
            )),
        );
    }
    if link.flags & IFF_ALLMULTI != 0 {
        findings.push(
            Finding::good(
                AREA,
                "interface.all_groups",
                "takes frames for every group (allmulticast)",
                "groups of other hosts' streams raise interrupts and cost time here",
            )
            .at(Level::Weak)
            .by_hand(format!("ip link set {} allmulticast off", link.name)),
        );
    }
    findings
}

pub(super) fn queue_length(facts: &Facts) -> Vec<Finding> {
    const LEAST: u32 = 64;
    let Some(link) = facts.interface.as_ref().map(|it| &it.link) else {
        return Vec::new();
    };
    // Without any the kernel uses its own default.
    if link.queue_length == 0 || link.queue_length >= LEAST {
        return Vec::new();
    }
    vec![
        Finding::good(
            AREA,
            "interface.queue_length",
            format!("a queue of {} frame(s)", link.queue_length),
            "a burst that is longer is dropped before the card has it, and the sender is not always told",
        )
        .at(Level::Weak)
        .by_hand(format!("ip link set {} txqueuelen 1000", link.name)),
    ]
}

pub(super) fn vlan_priorities(facts: &Facts) -> Vec<Finding> {
    let Some(interface) = &facts.interface else {
        return Vec::new();
    };
    let without = interface.vlans.iter().filter(|(_, (_, map))| {
        // The kernel's default maps each priority to 0.
        map.iter().all(|(from, to)| *from == 0 || *to == 0)
    });
    let findings = without.map(|(name, (id, _))| {
        Finding::good(
            AREA,
            "interface.vlan_priorities",
            format!("VLAN link `{name}` (VLAN {id}) has no egress map"),
            "every frame that it sends carries priority 0: switches put it into the class of best effort",
        )
        .at(Level::Weak)
        .by_hand(format!(
            "ip link set {name} type vlan egress-qos-map 1:1 2:2 3:3 4:4 5:5 6:6 7:7"
        ))
    });
    findings.collect()
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
