//! The host's abilities, as far as they decide the settings: data, and its reading from the facts.

use std::collections::BTreeMap;

use crate::HostError;
use crate::change::Kept;
use crate::doctor::{Facts, InterfaceFacts};
use crate::netlink::{Offloads, Parameters};

const INGRESS: u32 = 0xffff_fff1;

/// The state and abilities of a host, as far as they decide the settings.
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
    /// Its speed in Mbit/s, where the driver reports one.
    pub speed_mbps: Option<u64>,
    /// Its offloads.
    pub offloads: Offloads,
    /// Its driver settings, by group and name.
    pub parameters: BTreeMap<Parameters, BTreeMap<&'static str, u64>>,
    /// Its interrupts.
    pub interrupts: Vec<u32>,
    /// The threads that serve its interrupts, where the kernel makes such threads: number and name.
    pub interrupt_threads: Vec<(u32, String)>,
    /// The number of its receive contexts (NAPI).
    pub receive_contexts: usize,
    /// True if it is in its namespace already.
    pub moved: bool,
    /// The obstacles to a move: the bridge it is a port of, links on it, ingress rules.
    pub held_by: Vec<String>,
    /// Its IPv4 addresses.
    pub addresses: Kept,
    /// Its IPv4 addresses, routes and static neighbours.
    pub four: Kept,
    /// The kernel's queueing disciplines, and `vlan`: whether it has each.
    pub kinds: BTreeMap<&'static str, bool>,
    /// True if the interface has an IPv6 setting.
    pub ipv6: bool,
    /// True if an interface gets IPv6 as soon as its MTU allows it.
    pub ipv6_known: bool,
    /// The links that depend on it, each with its MTU, bytes.
    pub children: Vec<(String, u32)>,
    /// True if the default route of its network namespace uses it.
    pub default_route: bool,
}

impl Present {
    /// Takes the state of an interface from its facts.
    ///
    /// # Errors
    /// The facts are not of an interface.
    pub fn from_facts(facts: &Facts) -> Result<Self, HostError> {
        let Some(interface) = &facts.interface else {
            return Err(HostError::InterfaceName(String::new()));
        };
        let InterfaceFacts { link, .. } = interface;
        let ipv6 = format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", link.name);
        let mut interrupts: Vec<u32> = interface.napis.iter().filter_map(|napi| napi.irq).collect();
        interrupts.sort_unstable();
        interrupts.dedup();
        let mut held_by = Vec::new();
        if let Some(master) = link.master {
            held_by.push(format!("its place as a port of interface {master}"));
        }
        held_by.extend(
            interface
                .upper
                .iter()
                .map(|name| format!("link `{name}` on it")),
        );
        if interface.qdiscs.iter().any(|one| one.parent == INGRESS) {
            held_by.push("its ingress rules".to_owned());
        }
        let interrupt_threads = facts
            .processes
            .iter()
            .flat_map(|process| &process.real_time);
        let interrupt_threads = interrupt_threads
            .filter(|task| {
                let number = task.name.strip_prefix("irq/");
                let number = number.and_then(|rest| rest.split('-').next()?.parse().ok());
                number.is_some_and(|number| interrupts.contains(&number))
            })
            .map(|task| (task.tid, task.name.clone()))
            .collect();
        let four = interface
            .addresses
            .iter()
            .filter(|one| one.address.is_ipv4());
        Ok(Self {
            interrupt_threads,
            receive_contexts: interface.napis.len(),
            moved: false,
            four: Kept::default(),
            held_by,
            addresses: Kept::of(four),
            interface: link.name.clone(),
            index: link.index,
            tx_queues: link.tx_queues,
            mtu: link.mtu,
            kind: link.kind.clone(),
            speed_mbps: interface.speed_mbps,
            offloads: interface.offloads.clone(),
            parameters: interface.parameters.clone(),
            interrupts,
            kinds: facts.kinds.clone(),
            ipv6: facts.files.has(&ipv6),
            ipv6_known: facts
                .files
                .has("/proc/sys/net/ipv6/conf/default/disable_ipv6"),
            children: interface.children.clone(),
            default_route: interface.routes.iter().any(|route| route.default),
        })
    }
}
