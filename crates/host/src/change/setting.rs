//! One setting of this host, as data: its subject, its value, and the difference between two values. Pure.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::addresses::Kept;
use crate::napi::ReceiveThread;
use crate::netlink::{Parameters, Tree};

/// The subject of a setting.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(tag = "subject", rename_all = "snake_case")]
pub enum Subject {
    /// A file of the kernel that holds a value, below `/proc/sys`, `/proc/irq` or `/sys`.
    Setting {
        /// Its path.
        path: String,
    },
    /// The state of an interface: up or down.
    Up {
        /// Its name.
        interface: String,
    },
    /// Address resolution (ARP) of an interface: on or off.
    Arp {
        /// Its name.
        interface: String,
    },
    /// The largest payload behind the Ethernet header, bytes.
    Mtu {
        /// The interface's name.
        interface: String,
    },
    /// The largest payload where it falls below 1280 bytes, by which the kernel takes IPv6 from the interface: settings,
    /// addresses, routes, neighbours.
    MtuAndIpv6 {
        /// The interface's name.
        interface: String,
    },
    /// The largest number of frames that the kernel hands to an interface's queue as one.
    Segments {
        /// The interface's name.
        interface: String,
    },
    /// An offload (`ethtool -k`).
    Offload {
        /// The interface's name.
        interface: String,
        /// The kernel's name of the offload.
        feature: String,
    },
    /// A driver setting that is a number (`ethtool -g`, `-l`, `-c`, `-a`, `--show-eee`).
    Parameter {
        /// The interface's name.
        interface: String,
        /// Its group.
        group: Parameters,
        /// Its name within the group.
        name: String,
    },
    /// The addresses of an interface, and the routes that depend on them.
    Addresses {
        /// The interface's name.
        interface: String,
    },
    /// A VLAN link on an interface.
    Vlan {
        /// The interface that carries it.
        interface: String,
        /// The link's own name.
        name: String,
    },
    /// All queueing disciplines of an interface.
    Queues {
        /// The interface's name.
        interface: String,
    },
    /// The threads that do the receive work of an interface.
    Receive {
        /// Its name.
        interface: String,
    },
    /// A network namespace made for an interface.
    Namespace {
        /// Its name.
        name: String,
    },
    /// The place of an interface: here, or in a namespace made for it.
    Place {
        /// Its name.
        interface: String,
        /// That namespace.
        namespace: String,
    },
    /// A setting within another network namespace.
    Inside {
        /// The namespace.
        namespace: String,
        /// The setting's subject.
        inside: Box<Subject>,
    },
    /// The policy and priority of a thread.
    Thread {
        /// Its number.
        tid: u32,
        /// Its name.
        name: String,
    },
}

impl Subject {
    /// Returns the same subject after the interface `old` was renamed.
    #[must_use]
    pub fn renamed(&self, old: &str, new: &str) -> Self {
        let mut subject = self.clone();
        match &mut subject {
            Self::Up { interface }
            | Self::Arp { interface }
            | Self::Mtu { interface }
            | Self::Segments { interface }
            | Self::MtuAndIpv6 { interface }
            | Self::Offload { interface, .. }
            | Self::Parameter { interface, .. }
            | Self::Addresses { interface }
            | Self::Vlan { interface, .. }
            | Self::Queues { interface }
            | Self::Receive { interface } => {
                if interface == old {
                    new.clone_into(interface);
                }
            }
            Self::Setting { path } => {
                let parts = path.split('/');
                let parts = parts.map(|part| if part == old { new } else { part });
                *path = parts.collect::<Vec<_>>().join("/");
            }
            // In a namespace of its own an interface keeps the name by which it is found there.
            Self::Place { .. }
            | Self::Inside { .. }
            | Self::Namespace { .. }
            | Self::Thread { .. } => {}
        }
        subject
    }

    /// Returns the interface of the setting, if it has one.
    #[must_use]
    pub fn interface(&self) -> Option<&str> {
        match self {
            Self::Up { interface }
            | Self::Arp { interface }
            | Self::Mtu { interface }
            | Self::Segments { interface }
            | Self::MtuAndIpv6 { interface }
            | Self::Offload { interface, .. }
            | Self::Parameter { interface, .. }
            | Self::Addresses { interface }
            | Self::Vlan { interface, .. }
            | Self::Queues { interface }
            | Self::Receive { interface }
            | Self::Place { interface, .. } => Some(interface),
            Self::Inside { inside, .. } => inside.interface(),
            Self::Setting { .. } | Self::Namespace { .. } | Self::Thread { .. } => None,
        }
    }
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// The setting does not exist.
    Absent,
    /// On or off.
    Flag(bool),
    /// A count.
    Number(u64),
    /// A text, without white space around it.
    Text(String),
    /// The largest payload, and what the kernel forgets when it falls below 1280 bytes.
    Frames {
        /// Bytes.
        mtu: u64,
        /// All that makes IPv6; none where the interface has no IPv6.
        ipv6: Option<Ipv6>,
    },
    /// Addresses and routes.
    Addresses(Kept),
    /// A VLAN link.
    Vlan {
        /// Its VLAN, 1 to 4094.
        id: u16,
        /// The PCP of a frame, by its socket's priority.
        egress: BTreeMap<u32, u8>,
    },
    /// Queueing disciplines.
    Queues(Tree),
    /// The threads that do receive work: one entry for each receive context, or one for all. Without entries, the soft
    /// interrupt does it.
    Threads(Vec<ReceiveThread>),
    /// The interface is here, with these settings below `/proc/sys/net`.
    Here(BTreeMap<String, String>),
    /// The interface is in this namespace.
    There(String),
    /// SCHED_FIFO with a priority, 1 to 99.
    Fifo(u8),
    /// Time sharing with a nice value.
    Nice(i8),
}

/// All that makes IPv6 of an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ipv6 {
    /// Its settings, by path without the interface's name: `conf/hop_limit`, `neigh/…`.
    pub settings: BTreeMap<String, String>,
    /// Its addresses, routes and neighbours.
    pub kept: Kept,
}

/// A setting and its wanted value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Wanted {
    /// The subject.
    #[serde(flatten)]
    pub subject: Subject,
    /// The wanted value.
    pub to: Value,
}

/// A setting to be changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// The subject.
    #[serde(flatten)]
    pub subject: Subject,
    /// The value before.
    pub from: Value,
    /// The value after.
    pub to: Value,
}

impl Change {
    /// Returns the change back.
    #[must_use]
    pub fn reversed(&self) -> Self {
        Self {
            subject: self.subject.clone(),
            from: self.to.clone(),
            to: self.from.clone(),
        }
    }
}

/// Returns the changes to be made, in the order of `wanted`: the settings whose present value differs. Pure.
#[must_use]
pub fn difference(wanted: &[Wanted], present: &dyn Fn(&Subject) -> Value) -> Vec<Change> {
    wanted
        .iter()
        .filter_map(|one| {
            let from = present(&one.subject);
            (!from.is_as(&one.to)).then(|| Change {
                subject: one.subject.clone(),
                from,
                to: one.to.clone(),
            })
        })
        .collect()
}

impl Value {
    /// Returns whether two values mean the same. White space in texts and the ages of addresses do not count.
    #[must_use]
    pub fn is_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => a.split_whitespace().eq(b.split_whitespace()),
            (Self::Addresses(a), Self::Addresses(b)) => a.shown() == b.shown(),
            (Self::Threads(a), Self::Threads(b)) => same_threads(a, b),
            (Self::Frames { mtu, .. }, Self::Number(number))
            | (Self::Number(number), Self::Frames { mtu, .. }) => mtu == number,
            (a, b) => a == b,
        }
    }

    /// Returns whether `before` is back where this value is in force. Addresses, routes and neighbours that came in
    /// addition do not count.
    #[must_use]
    pub fn is_back(&self, before: &Self) -> bool {
        match (self, before) {
            (Self::Addresses(now), Self::Addresses(before)) => now.covers(before),
            (
                Self::Frames { mtu, ipv6 },
                Self::Frames {
                    mtu: mtu_before,
                    ipv6: ipv6_before,
                },
            ) => {
                let back = match (ipv6, ipv6_before) {
                    (_, None) => true,
                    (None, Some(_)) => false,
                    (Some(now), Some(before)) => {
                        now.settings == before.settings && now.kept.covers(&before.kept)
                    }
                };
                mtu == mtu_before && back
            }
            (now, before) => now.is_as(before),
        }
    }
}

/// Compares threads. One entry may stand for several threads; cores count only if both sides name some.
fn same_threads(a: &[ReceiveThread], b: &[ReceiveThread]) -> bool {
    let same = |a: &ReceiveThread, b: &ReceiveThread| {
        let cores = a.cpus == b.cpus || a.cpus.is_empty() || b.cpus.is_empty();
        a.fifo == b.fifo && (a.fifo > 0 || a.nice == b.nice) && cores
    };
    match (a, b) {
        ([one], all) | (all, [one]) if !all.is_empty() => all.iter().all(|each| same(one, each)),
        _ => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
    }
}
