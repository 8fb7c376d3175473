//! One setting of this host, as data: its subject, its value, and the difference between two values. Pure.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::addresses::Kept;
use crate::napi::ReceiveThread;
use crate::netlink::{Parameters, Tree};

/// What a setting is of.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(tag = "subject", rename_all = "snake_case")]
pub enum Subject {
    /// A file of the kernel's that holds a value, below `/proc/sys`, `/proc/irq` or `/sys`.
    Setting {
        /// Its path.
        path: String,
    },
    /// Whether an interface is up.
    Up {
        /// Its name.
        interface: String,
    },
    /// Whether an interface asks and answers for addresses.
    Arp {
        /// Its name.
        interface: String,
    },
    /// The most octets behind the Ethernet header.
    Mtu {
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
    /// A number (`ethtool -g`, `-l`, `-c`, `-a`, `--show-eee`).
    Parameter {
        /// The interface's name.
        interface: String,
        /// Its group.
        group: Parameters,
        /// Its name within the group.
        name: String,
    },
    /// The addresses of an interface, and the routes that stand and fall with them.
    Addresses {
        /// The interface's name.
        interface: String,
    },
    /// A VLAN link upon an interface.
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
    /// Who does the receive work of an interface.
    Receive {
        /// Its name.
        interface: String,
    },
    /// A network namespace that is made for an interface.
    Namespace {
        /// Its name.
        name: String,
    },
    /// Whether an interface is here, or in a namespace that was made for it.
    Place {
        /// Its name.
        interface: String,
        /// That namespace.
        namespace: String,
    },
    /// A setting within another network namespace.
    Inside {
        /// Its name.
        namespace: String,
        /// Of what.
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
    /// The interface that it is of, if one.
    #[must_use]
    pub fn interface(&self) -> Option<&str> {
        match self {
            Self::Up { interface }
            | Self::Arp { interface }
            | Self::Mtu { interface }
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

/// What a setting is set to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// It is not there.
    Absent,
    /// On or off.
    Flag(bool),
    /// A count.
    Number(u64),
    /// A text, without white space around it.
    Text(String),
    /// Addresses and routes.
    Addresses(Kept),
    /// A VLAN link.
    Vlan {
        /// Its VLAN, 1 to 4094.
        id: u16,
        /// Which PCP a frame of a socket's priority carries.
        egress: BTreeMap<u32, u8>,
    },
    /// Queueing disciplines.
    Queues(Tree),
    /// The threads that do receive work, one for each receive context, or one entry that is for all; none: the soft
    /// interrupt does it.
    Threads(Vec<ReceiveThread>),
    /// The interface is here, with these settings below `/proc/sys/net`.
    Here(BTreeMap<String, String>),
    /// The interface is in this namespace.
    There(String),
    /// SCHED_FIFO of a priority, 1 to 99.
    Fifo(u8),
    /// Time sharing at a nice value.
    Nice(i8),
}

/// A setting as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Wanted {
    /// Of what.
    #[serde(flatten)]
    pub subject: Subject,
    /// What it should be.
    pub to: Value,
}

/// A setting that is to change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Of what.
    #[serde(flatten)]
    pub subject: Subject,
    /// What it was.
    pub from: Value,
    /// What it becomes.
    pub to: Value,
}

impl Change {
    /// The change back.
    #[must_use]
    pub fn reversed(&self) -> Self {
        Self {
            subject: self.subject.clone(),
            from: self.to.clone(),
            to: self.from.clone(),
        }
    }
}

/// What has to change, in the order of `wanted`: those whose present value differs. Pure.
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
    /// Whether two values mean the same. Texts may differ in white space, addresses in their ages.
    #[must_use]
    pub fn is_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => a.split_whitespace().eq(b.split_whitespace()),
            (Self::Addresses(a), Self::Addresses(b)) => a.shown() == b.shown(),
            (Self::Threads(a), Self::Threads(b)) => same_threads(a, b),
            (a, b) => a == b,
        }
    }
}

/// One entry may stand for several threads, and for cores that nobody asked for.
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
