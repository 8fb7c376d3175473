//! Turns a share and the host's abilities into the settings that keep the share. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::choices::{Choices, Isolation};
use super::configuration::{Configuration, Lack, want};
use super::present::Present;
use super::share::Share;
use super::{isolation, queues, receive};
use crate::change::{Subject, Value};
use crate::netlink::Parameters;

/// The offloads that merge, split or delay frames. Those that depend on others come first.
const OFF: [&str; 10] = [
    "tx-tcp-mangleid-segmentation",
    "tx-tcp-ecn-segmentation",
    "tx-tcp6-segmentation",
    "tx-tcp-segmentation",
    "tx-udp-segmentation",
    "tx-generic-segmentation",
    "rx-lro",
    "rx-gro-hw",
    "rx-gro-list",
    "rx-udp-gro-forwarding",
];

/// The smallest MTU with which the kernel lets an interface have IPv6, bytes (RFC 8200, section 5).
const LEAST_IPV6_MTU: u64 = 1280;

/// Returns the name of the VLAN link that rtwire makes on an interface.
#[must_use]
pub fn vlan_name(index: u32, vlan: u16) -> String {
    format!("rtw{index}v{vlan}")
}

/// Returns the settings that keep `share` on the host described by `present`.
#[must_use]
pub fn configure(share: &Share, present: &Present, choices: &Choices) -> Configuration {
    let mut all = Configuration::default();
    driver(&mut all, present);
    let mtu = frame_size(&mut all, share, present);
    // With the MTU IPv6 goes and comes.
    let now = u64::from(present.mtu);
    let ipv6 = match mtu >= LEAST_IPV6_MTU {
        true => present.ipv6 || (now < LEAST_IPV6_MTU && present.ipv6_known),
        false => false,
    };
    if ipv6 && !present.ipv6 && choices.isolation != Isolation::None {
        // Before the addresses are recorded: those that the kernel makes with IPv6 were not there before.
        let path = format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", present.interface);
        want(
            &mut all,
            Subject::Setting { path },
            Value::Text("1".to_owned()),
        );
    }
    let present = &Present {
        ipv6,
        ..present.clone()
    };
    let links = vlans(&mut all, share, present);
    let own = std::iter::once(&present.interface).chain(&links);
    for interface in own.chain(present.children.iter().map(|(name, _)| name)) {
        segments(&mut all, interface);
    }
    let moved = isolation::isolate(&mut all, share, present, choices);
    rate(&mut all, share, present);
    queues::queues(&mut all, share, present, choices);
    want(
        &mut all,
        Subject::Up {
            interface: present.interface.clone(),
        },
        Value::Flag(true),
    );
    // A VLAN link can be up only after its interface.
    for interface in links {
        want(&mut all, Subject::Up { interface }, Value::Flag(true));
    }
    // Contexts that threads can serve are made when the interface comes up.
    receive::receive(&mut all, present, choices);
    if moved {
        isolation::into_namespace(&mut all, present);
    }
    all
}

fn driver(all: &mut Configuration, present: &Present) {
    let interface = || present.interface.clone();
    for feature in OFF {
        if present.offloads.active.contains(feature) {
            let subject = Subject::Offload {
                interface: interface(),
                feature: feature.to_owned(),
            };
            want(all, subject, Value::Flag(false));
        }
    }
    // A veth receives in order only through NAPI, which it uses with generic merging.
    if present.kind.as_deref() == Some("veth") {
        let subject = Subject::Offload {
            interface: interface(),
            feature: "rx-gro".to_owned(),
        };
        want(all, subject, Value::Flag(true));
    }
    let numbers = [
        (Parameters::Coalescing, "adaptive-rx", 0),
        (Parameters::Coalescing, "adaptive-tx", 0),
        (Parameters::Coalescing, "rx-usecs", 0),
        (Parameters::Coalescing, "tx-usecs", 0),
        (Parameters::EnergySaving, "eee", 0),
        (Parameters::Pause, "autoneg", 0),
        (Parameters::Pause, "rx", 0),
        (Parameters::Pause, "tx", 0),
    ];
    for (group, name, to) in numbers {
        let now = present
            .parameters
            .get(&group)
            .and_then(|group| group.get(name));
        if now.is_some_and(|now| *now != to) {
            let subject = Subject::Parameter {
                interface: interface(),
                group,
                name: name.to_owned(),
            };
            want(all, subject, Value::Number(to));
        }
    }
}

/// Sets that each frame is handed to the queue by itself. TCP hands over up to 64 KiB as one, with all offloads off, too:
/// classes of HTB and credits would send that at once, far beyond any planned burst.
fn segments(all: &mut Configuration, interface: &str) {
    let interface = interface.to_owned();
    want(all, Subject::Segments { interface }, Value::Number(1));
}

/// Sets the MTU: frames of the plan's sizes must fit, and best effort must not send larger frames than planned. Returns the
/// MTU, bytes.
fn frame_size(all: &mut Configuration, share: &Share, present: &Present) -> u64 {
    const ETHERNET: u64 = 14;
    let streams = share.sends.iter().chain(&share.receives);
    let needed = streams
        .map(|stream| stream.frame_bytes.saturating_sub(ETHERNET))
        .max();
    let needed = needed.unwrap_or(0);
    let allowed = share.best_effort.map_or(u64::from(present.mtu), |limit| {
        limit.frame_bytes.saturating_sub(ETHERNET)
    });
    let now = u64::from(present.mtu);
    let mtu = if now < needed {
        needed
    } else {
        now.min(allowed.max(needed))
    };
    // The smallest MTU of Ethernet links.
    const LEAST: u64 = 68;
    let mtu = mtu.max(LEAST);
    // The kernel takes the links on the interface down to its MTU, and never up again.
    for (child, child_mtu) in present.children.iter().rev() {
        lower(all, child, u64::from(*child_mtu), mtu);
    }
    if mtu > now {
        let interface = present.interface.clone();
        want(all, Subject::Mtu { interface }, Value::Number(mtu));
    }
    lower(all, &present.interface, now, mtu);
    if present.ipv6 && now >= LEAST_IPV6_MTU && mtu < LEAST_IPV6_MTU {
        all.notes.push(format!(
            "best effort sends frames of at most {} B: the MTU falls below {LEAST_IPV6_MTU}, and the kernel takes IPv6 from the interface until `rtwire revert`",
            mtu + ETHERNET
        ));
    }
    mtu
}

/// Lowers the MTU of an interface, bytes.
fn lower(all: &mut Configuration, interface: &str, now: u64, mtu: u64) {
    if mtu >= now {
        return;
    }
    let interface = interface.to_owned();
    let subject = if now >= LEAST_IPV6_MTU && mtu < LEAST_IPV6_MTU {
        Subject::MtuAndIpv6 { interface }
    } else {
        Subject::Mtu { interface }
    };
    want(all, subject, Value::Number(mtu));
}

/// Adds the VLAN links and returns their names. The caller brings them up.
fn vlans(all: &mut Configuration, share: &Share, present: &Present) -> Vec<String> {
    let streams = share.sends.iter().chain(&share.receives);
    let vlans: BTreeSet<u16> = streams.filter_map(|stream| stream.vlan).collect();
    let mut links = Vec::new();
    if vlans.is_empty() {
        return links;
    }
    if present.kinds.get("vlan") == Some(&false) {
        let streams = share.sends.iter().chain(&share.receives);
        let names: BTreeSet<&str> = streams
            .filter(|stream| stream.vlan.is_some() && stream.udp)
            .map(|stream| stream.name.as_str())
            .collect();
        // Raw Ethernet streams carry their tag themselves.
        if names.is_empty() {
            all.notes.push(
                "this kernel has no VLAN links; the plan's tagged streams carry their tags themselves"
                    .to_owned(),
            );
        } else {
            let names: Vec<&str> = names.into_iter().collect();
            all.lacks.push(Lack {
                what: "VLAN links (8021q)".to_owned(),
                lost: format!("the priority of {} on the wire", names.join(", ")),
                remedy: "a kernel with CONFIG_VLAN_8021Q; Debian's have it".to_owned(),
                instead: "these streams are sent untagged".to_owned(),
            });
        }
        return links;
    }
    // A frame carries the priority that its socket sets by SO_PRIORITY.
    let egress: BTreeMap<u32, u8> = (1..8_u8).map(|pcp| (u32::from(pcp), pcp)).collect();
    for vlan in vlans {
        let name = vlan_name(present.index, vlan);
        let subject = Subject::Vlan {
            interface: present.interface.clone(),
            name: name.clone(),
        };
        let egress = egress.clone();
        want(all, subject, Value::Vlan { id: vlan, egress });
        if present.ipv6 {
            let path = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
            want(all, Subject::Setting { path }, Value::Text("1".to_owned()));
        }
        links.push(name);
    }
    links
}

fn rate(all: &mut Configuration, share: &Share, present: &Present) {
    let Some(mbps) = present.speed_mbps else {
        return;
    };
    let planned = share.link_rate_bps / 1_000_000;
    if mbps < planned {
        all.lacks.push(Lack {
            what: format!("a link of {planned} Mbit/s: this one runs at {mbps}"),
            lost: "every promise of this host's streams".to_owned(),
            remedy: "look at the cable and at the other end, or plan with the rate that is there"
                .to_owned(),
            instead: "the settings are made as planned".to_owned(),
        });
    }
}
