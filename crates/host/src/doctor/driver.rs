//! The driver: its unrequested work on frames, and its abilities.

use super::{Area, Facts, Finding, InterfaceFacts, Level};
use crate::change::{Subject, Value, Wanted};
use crate::netlink::{Parameters, XdpAbilities};
use rtwire_sys::netdev;

const AREA: Area = Area::Driver;

fn parameter(interface: &InterfaceFacts, group: Parameters, name: &str, to: u64) -> Wanted {
    Wanted {
        subject: Subject::Parameter {
            interface: interface.link.name.clone(),
            group,
            name: name.to_owned(),
        },
        to: Value::Number(to),
    }
}

fn offload(interface: &InterfaceFacts, feature: &str, on: bool) -> Wanted {
    Wanted {
        subject: Subject::Offload {
            interface: interface.link.name.clone(),
            feature: feature.to_owned(),
        },
        to: Value::Flag(on),
    }
}

pub(super) fn coalescing(facts: &Facts) -> Vec<Finding> {
    let Some(interface) = &facts.interface else {
        return Vec::new();
    };
    let id = "driver.coalescing";
    let why = "each received frame waits up to this time for more frames before the interrupt";
    let Some(group) = interface
        .parameters
        .get(&Parameters::Coalescing)
        .filter(|group| !group.is_empty())
    else {
        return Vec::new();
    };
    let mut wanted = Vec::new();
    let mut found = Vec::new();
    if group.get("adaptive-rx").is_some_and(|on| *on != 0) {
        // First, because the driver would change the others again.
        wanted.push(parameter(
            interface,
            Parameters::Coalescing,
            "adaptive-rx",
            0,
        ));
        found.push("adaptive".to_owned());
    }
    for (name, unit) in [("rx-usecs", "µs"), ("tx-usecs", "µs")] {
        if let Some(value) = group.get(name).filter(|value| **value > 0) {
            wanted.push(parameter(interface, Parameters::Coalescing, name, 0));
            found.push(format!("{name} {value} {unit}"));
        }
    }
    // One frame waits for no other. With no time set either, 0 means "never" to some drivers and "at once" to others:
    // leave 0 and 1.
    let frames = group.get("rx-frames").copied().unwrap_or(0);
    if frames > 1 {
        wanted.push(parameter(interface, Parameters::Coalescing, "rx-frames", 1));
        found.push(format!("rx-frames {frames}"));
    }
    if wanted.is_empty() {
        return vec![Finding::good(
            AREA,
            id,
            "each frame raises an interrupt at once",
            why,
        )];
    }
    vec![
        Finding::good(AREA, id, format!("coalescing: {}", found.join(", ")), why)
            .at(Level::Weak)
            .fixed_by(wanted),
    ]
}

pub(super) fn energy_saving(facts: &Facts) -> Vec<Finding> {
    let Some(interface) = &facts.interface else {
        return Vec::new();
    };
    let id = "driver.energy_saving";
    let why = "a link that sleeps between frames takes 16 µs (1 Gbit/s) to 30 µs (100 Mbit/s) to wake for each";
    match interface.parameter(Parameters::EnergySaving, "eee") {
        None => Vec::new(),
        Some(0) => vec![Finding::good(AREA, id, "no Energy-Efficient Ethernet", why)],
        Some(_) => vec![
            Finding::good(AREA, id, "Energy-Efficient Ethernet is on", why)
                .at(Level::Weak)
                .fixed_by(vec![parameter(
                    interface,
                    Parameters::EnergySaving,
                    "eee",
                    0,
                )]),
        ],
    }
}

pub(super) fn pause(facts: &Facts) -> Vec<Finding> {
    let Some(interface) = &facts.interface else {
        return Vec::new();
    };
    let id = "driver.pause";
    let why = "a pause frame from the other end stops all classes, even the most urgent: no bound includes that";
    let get = |name| interface.parameter(Parameters::Pause, name);
    let on: Vec<&str> = ["rx", "tx"]
        .into_iter()
        .filter(|name| get(name) == Some(1))
        .collect();
    if get("rx").is_none() && get("tx").is_none() {
        return Vec::new();
    }
    if on.is_empty() {
        return vec![Finding::good(AREA, id, "no pause frames", why)];
    }
    let mut wanted = Vec::new();
    if get("autoneg") == Some(1) {
        wanted.push(parameter(interface, Parameters::Pause, "autoneg", 0));
    }
    wanted.extend(
        on.iter()
            .map(|name| parameter(interface, Parameters::Pause, name, 0)),
    );
    vec![
        Finding::good(AREA, id, format!("pause frames: {}", on.join(" and ")), why)
            .at(Level::Weak)
            .fixed_by(wanted),
    ]
}

pub(super) fn merging(facts: &Facts) -> Vec<Finding> {
    let Some(interface) = &facts.interface else {
        return Vec::new();
    };
    let id = "driver.merging";
    let why = "received frames wait to be merged with later ones; merged frames do not reach an XDP program whole";
    let on: Vec<&str> = [
        "rx-gro",
        "rx-lro",
        "rx-gro-hw",
        "rx-gro-list",
        "rx-udp-gro-forwarding",
    ]
    .into_iter()
    .filter(|name| interface.offloads.active.contains(*name))
    .collect();
    // On a physical interface, generic merging waits only for the end of one poll and is every kernel's default. A veth
    // keeps frames in order only with it (see `order`).
    let veth = interface.link.kind.as_deref() == Some("veth");
    let harmless = (veth || interface.link.parent_bus.is_some()) && on == ["rx-gro"];
    if on.is_empty() || harmless {
        let found = if harmless {
            "only rx-gro, within one poll"
        } else {
            "received frames are not merged"
        };
        return vec![Finding::good(AREA, id, found, why)];
    }
    vec![
        Finding::good(AREA, id, format!("on: {}", on.join(", ")), why)
            .at(Level::Weak)
            .fixed_by(
                on.iter()
                    .map(|name| offload(interface, name, false))
                    .collect(),
            ),
    ]
}

pub(super) fn splitting(facts: &Facts) -> Vec<Finding> {
    let Some(interface) = &facts.interface else {
        return Vec::new();
    };
    let id = "driver.splitting";
    let why = "best effort is handed down in pieces of up to 64 kB: no urgent frame is sent between their frames (5 ms \
    at 100 Mbit/s)";
    // The kernel switches some off along with others: those that depend on others come first, and are put back last.
    let on: Vec<&str> = [
        "tx-tcp-mangleid-segmentation",
        "tx-tcp-ecn-segmentation",
        "tx-tcp6-segmentation",
        "tx-tcp-segmentation",
        "tx-udp-segmentation",
        "tx-generic-segmentation",
    ]
    .into_iter()
    .filter(|name| interface.offloads.active.contains(*name))
    .collect();
    if on.is_empty() {
        return vec![Finding::good(
            AREA,
            id,
            "frames are handed down one by one",
            why,
        )];
    }
    vec![
        Finding::good(AREA, id, format!("on: {}", on.join(", ")), why)
            .at(Level::Weak)
            .fixed_by(
                on.iter()
                    .map(|name| offload(interface, name, false))
                    .collect(),
            ),
    ]
}

pub(super) fn rings_and_queues(facts: &Facts) -> Vec<Finding> {
    let Some(interface) = &facts.interface else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let ring = |name| interface.parameter(Parameters::Rings, name);
    if let (Some(rx), Some(tx)) = (ring("rx"), ring("tx")) {
        found.push(format!("rings {rx} receive, {tx} transmit"));
    }
    let link = &interface.link;
    found.push(format!(
        "queues {} receive, {} transmit",
        link.rx_queues, link.tx_queues
    ));
    let tx_ring = ring("tx").unwrap_or(0);
    let mut findings = vec![
        Finding::good(
            AREA,
            "driver.rings_and_queues",
            found.join("; "),
            "mqprio and TAPRIO need a transmit queue for each class; no discipline can overtake frames in a long \
             transmit ring",
        )
        .at(Level::Note),
    ];
    const LONG: u64 = 1024;
    if tx_ring > LONG {
        findings.push(
            Finding::good(
                AREA,
                "driver.long_ring",
                format!("transmit ring of {tx_ring} frames"),
                "best effort already in the ring is sent first: 1024 full frames take 126 ms at 100 Mbit/s, unless byte \
                 queue limits keep the ring short",
            )
            .at(Level::Note)
            .by_hand(format!("ethtool -G {} tx 256", link.name)),
        );
    }
    findings
}

/// Checks the order of received frames. A veth receives in order only with one queue and through NAPI, which needs
/// generic merging or an XDP program. Without NAPI each processor has a backlog of its own.
pub(super) fn order(facts: &Facts) -> Vec<Finding> {
    let Some(interface) = &facts.interface else {
        return Vec::new();
    };
    let link = &interface.link;
    if link.kind.as_deref() != Some("veth") {
        return Vec::new();
    }
    let id = "driver.order";
    let why = "frames received in two contexts overtake one another";
    let queues = interface
        .parameter(Parameters::Channels, "rx")
        .unwrap_or_else(|| link.rx_queues.into());
    if !interface.offloads.active.contains("rx-gro") && link.xdp_attached == 0 {
        return vec![
            Finding::good(
                AREA,
                id,
                "a veth without rx-gro: each processor has a backlog of its own",
                why,
            )
            .at(Level::Weak)
            .fixed_by(vec![offload(interface, "rx-gro", true)]),
        ];
    }
    if queues > 1 {
        return vec![
            Finding::good(
                AREA,
                id,
                format!("a veth with {queues} receive queues"),
                why,
            )
            .at(Level::Weak)
            .by_hand(format!(
                "ethtool -L {} rx 1 tx 1, at the other end too",
                link.name
            )),
        ];
    }
    vec![Finding::good(AREA, id, "received in one context", why)]
}

pub(super) fn vlan_filter(facts: &Facts) -> Vec<Finding> {
    let Some(interface) = &facts.interface else {
        return Vec::new();
    };
    if !interface.offloads.active.contains("rx-vlan-filter") {
        return Vec::new();
    }
    vec![
        Finding::good(
            AREA,
            "driver.vlan_filter",
            "the interface drops frames of VLANs without a VLAN link",
            "tagged streams do not reach a raw socket, and nothing counts the lost frames",
        )
        .at(Level::Note)
        .by_hand(format!(
            "make the VLAN's link (rtwire apply does), or: ethtool -K {} rx-vlan-filter off",
            interface.link.name
        )),
    ]
}

pub(super) fn xdp(facts: &Facts) -> Vec<Finding> {
    let Some(interface) = &facts.interface else {
        return Vec::new();
    };
    let id = "driver.xdp";
    let why = "in the driver the receive program answers before a socket buffer is made; generic XDP answers after that";
    let Some(abilities) = interface.xdp else {
        return vec![
            Finding::good(
                AREA,
                id,
                "the kernel does not report the driver's XDP abilities",
                why,
            )
            .at(Level::Unknown),
        ];
    };
    let mut can = Vec::new();
    for (bit, word) in [
        (1, "native"),
        (2, "redirect"),
        (4, "transmit"),
        (8, "zero-copy AF_XDP"),
    ] {
        if abilities.features & bit != 0 {
            can.push(word);
        }
    }
    if abilities.rx_metadata & 1 != 0 {
        can.push("receive time stamps");
    }
    if abilities.rx_metadata & netdev::RECEIVE_TAGS != 0 {
        can.push("VLAN tags");
    }
    if abilities.socket & 1 != 0 {
        can.push("AF_XDP transmit time stamps");
    }
    let driver = interface.driver.as_deref().unwrap_or("unknown driver");
    let found = if can.is_empty() {
        format!("{driver}: generic XDP only")
    } else {
        format!("{driver}: XDP {}", can.join(", "))
    };
    vec![
        Finding::good(AREA, id, found, why).at(if abilities.features & 1 == 0 {
            Level::Note
        } else {
            Level::Good
        }),
    ]
}

/// Checks launch times of frames that bypass the queue. ETF's launch times are among the facts of queues.
pub(super) fn launch_time(facts: &Facts) -> Vec<Finding> {
    let Some(interface) = &facts.interface else {
        return Vec::new();
    };
    let why = "`--path xdp-launch` needs a NIC that keeps AF_XDP launch times (Linux 6.15: igc, stmmac); `--path \
    launch` needs ETF instead";
    let (found, level) = launch_time_of(interface.xdp);
    vec![Finding::good(AREA, "driver.launch_time", found, why).at(level)]
}

pub(super) fn launch_time_of(abilities: Option<XdpAbilities>) -> (&'static str, Level) {
    match abilities {
        None => (
            "the kernel does not report whether the driver keeps AF_XDP launch times",
            Level::Unknown,
        ),
        Some(abilities) if abilities.socket & netdev::LAUNCH_TIME == 0 => (
            "the driver does not keep launch times of frames that bypass the queue (AF_XDP)",
            Level::Note,
        ),
        Some(_) => (
            "the driver keeps AF_XDP launch times, on transmit queues whose ETF has `offload`",
            Level::Good,
        ),
    }
}
