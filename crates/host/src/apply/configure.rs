//! From a share and what the host has to the settings that keep the share. Pure.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::share::Share;
use super::{isolation, queues, receive};
use crate::change::{Kept, Subject, Value, Wanted};
use crate::netlink::{Offloads, Parameters};

/// Which discipline keeps the classes apart.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// The best that the host has and the plan asks for.
    #[default]
    Auto,
    /// Gates in the interface.
    TaprioHardware,
    /// Gates by launch times, with ETF.
    TaprioAssist,
    /// Gates in the kernel.
    Taprio,
    /// Launch times: mqprio, with ETF at the classes that have some.
    Etf,
    /// A transmit queue for each class.
    Mqprio,
    /// Classes on one queue.
    Htb,
    /// No discipline is set.
    None,
}

/// How other traffic is kept off the interface.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// No addresses, no IPv6, no ARP; IPv4 stays where streams go in UDP.
    #[default]
    Addresses,
    /// The interface goes into a network namespace of its own, where nothing else runs; IPv4 addresses go with it where
    /// streams go in UDP.
    Namespace,
    /// Nothing is done.
    None,
}

/// What a person chooses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// The discipline.
    pub mechanism: Mechanism,
    /// Isolation.
    pub isolation: Isolation,
    /// Whether launch times are kept by hardware.
    pub etf_offload: bool,
    /// How long before its time ETF hands a frame on, ns.
    pub etf_delta_ns: u32,
    /// Go on with less where the host lacks something.
    pub fall_back: bool,
    /// The core that the interface's interrupts, and threads that do its receive work, go to.
    pub irq_cpu: Option<u32>,
    /// The priority under SCHED_FIFO of receive work: of its interrupts' threads, and of threads for its polling.
    pub receive_priority: Option<u8>,
}

/// What the host has, as far as it decides the settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Present {
    /// The interface's name.
    pub interface: String,
    /// Its index.
    pub index: u32,
    /// Its transmit queues.
    pub tx_queues: u32,
    /// Its MTU.
    pub mtu: u32,
    /// Its kind, if virtual.
    pub kind: Option<String>,
    /// Mbit/s, where told.
    pub speed_mbps: Option<u64>,
    /// Its offloads.
    pub offloads: Offloads,
    /// Its numbers.
    pub parameters: BTreeMap<Parameters, BTreeMap<&'static str, u64>>,
    /// Its interrupts.
    pub interrupts: Vec<u32>,
    /// The threads that serve those, where the kernel gives them such: number and name.
    pub interrupt_threads: Vec<(u32, String)>,
    /// How many receive contexts (NAPI) it has.
    pub receive_contexts: usize,
    /// Whether it is in its namespace already.
    pub moved: bool,
    /// What stands in the way of a move: a bridge that it is a port of, links upon it, rules at its entry.
    pub held_by: Vec<String>,
    /// Its IPv4 addresses.
    pub addresses: Kept,
    /// Which disciplines, and `vlan`, the kernel has.
    pub kinds: BTreeMap<&'static str, bool>,
    /// Whether the interface has an IPv6 setting.
    pub ipv6: bool,
}

/// Something that the plan asks for and the host does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lack {
    /// What is missing.
    pub what: String,
    /// Which promises cannot be made without it.
    pub lost: String,
    /// How to get it.
    pub remedy: String,
    /// What is done instead, where falling back was asked for.
    pub instead: String,
}

/// The settings of a share, and what is missing for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configuration {
    /// In the order in which they are made.
    pub wanted: Vec<Wanted>,
    /// What is missing.
    pub lacks: Vec<Lack>,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// The discipline that was chosen.
    pub mechanism: Mechanism,
}

/// What merges, splits or holds frames back; those that depend on others first.
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

/// The name of the VLAN link that rtwire makes upon an interface.
#[must_use]
pub fn vlan_name(index: u32, vlan: u16) -> String {
    format!("rtw{index}v{vlan}")
}

/// The settings that keep `share` on the host described by `present`.
#[must_use]
pub fn configure(share: &Share, present: &Present, choices: &Choices) -> Configuration {
    let mut all = Configuration::default();
    driver(&mut all, present);
    frame_size(&mut all, share, present);
    let links = vlans(&mut all, share, present);
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
    // A link upon it can be up only after it.
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

pub(super) fn want(all: &mut Configuration, subject: Subject, to: Value) {
    all.wanted.push(Wanted { subject, to });
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

/// Frames of the plan's sizes must fit, and best effort must not send larger ones than the plan counted with.
fn frame_size(all: &mut Configuration, share: &Share, present: &Present) {
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
    // The least that Ethernet links take.
    const LEAST: u64 = 68;
    let mtu = mtu.max(LEAST);
    if mtu != now {
        let subject = Subject::Mtu {
            interface: present.interface.clone(),
        };
        want(all, subject, Value::Number(mtu));
    }
}

/// The VLAN links, by name; they are still to be brought up.
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
        // Streams upon Ethernet carry their tag themselves.
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
    // What a socket asks for by SO_PRIORITY is what the frame carries.
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
