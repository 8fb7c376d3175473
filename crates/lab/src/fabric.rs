//! The emulated network: a namespace for each node, a veth pair for each link, a bridge for each switch.
//!
//! Each direction of a link is a *port*. HTB keeps the link's rate and the priority between classes. The program in
//! `crates/bpf/programs/switch.bpf.c` limits the buffer, exact to the byte.
//!
//! Forwarding and neighbours are static. Nothing learns, floods, resolves or announces, so only planned frames are on
//! the wire.

mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use rtwire_host::Namespace;
use rtwire_host::netlink::{BridgePort, Forwarding, Neighbour, Netlink, PortQueue};
use rtwire_plan::Network;
use rtwire_sys::bpf::{BpfObject, Direction};
use rtwire_sys::netns;

use crate::LabError;
use crate::events::{EVENT_WORDS, EventRing};
use crate::ports::{Field, POOL_WORDS, PORT_WORDS, PortRecords};
use wire::{End, connect};

/// Interface index of the first end of the first cable. The kernel program has the same number.
pub(crate) const FIRST_IFINDEX: u32 = 1000;
/// The same for the lab's ends of wires, and for the bridges that couple them to their cables.
const WIRE_IFINDEX: u32 = 1_000_000;
const COUPLING_IFINDEX: u32 = 2_000_000;
const BRIDGE: &str = "bridge";
const BRIDGE_IFINDEX: u32 = 500;
/// A host's only interface.
pub(crate) const HOST_INTERFACE: &str = "eth0";

/// The kind of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeKind {
    Host,
    Switch {
        /// True if all ports share one buffer; false if each port has its own.
        shared: bool,
        /// The buffer's size in bytes.
        buffer_bytes: u64,
        /// Largest number of frames in the buffer, of any size; 0 for no limit.
        buffer_frames: u64,
    },
}

/// One host or switch.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) kind: NodeKind,
    /// Number of priority classes of each of its ports.
    pub(crate) queues: u8,
    /// The class of each priority.
    pub(crate) class_of: [u8; 8],
}

/// One link; its two ends are indices of nodes.
#[derive(Clone, Debug)]
pub(crate) struct Cable {
    pub(crate) ends: [usize; 2],
    pub(crate) rate_bps: u64,
}

/// The parts to build.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blueprint {
    pub(crate) nodes: Vec<Node>,
    pub(crate) cables: Vec<Cable>,
    /// Bytes of a frame on the wire beyond its own.
    pub(crate) overhead_bytes: u64,
    /// Ports through which frames with a VLAN tag leave. After the first receiving interface the kernel keeps the tag
    /// beside the frame, so the queue does not see its 4 bytes.
    pub(crate) tagged: BTreeSet<(usize, usize)>,
    /// For each group address: the switch ports (node, neighbour) through which its frames leave.
    pub(crate) groups: BTreeMap<[u8; 6], Vec<(usize, usize)>>,
    /// The same for groups of datagrams, which a bridge looks up by IP address.
    pub(crate) ip_groups: BTreeMap<Ipv4Addr, Vec<(usize, usize)>>,
    /// For each host (by node): the switch ports (node, neighbour) that lead to it.
    pub(crate) towards: BTreeMap<usize, Vec<(usize, usize)>>,
}

/// A port: one direction of a cable. It is also the index of the port's record and, added to [`FIRST_IFINDEX`], of its
/// interface.
pub(crate) type PortIndex = usize;

/// The running network. Dropping it does not remove it: it ends when its namespaces are removed by name.
pub(crate) struct Fabric {
    pub(crate) blueprint: Blueprint,
    namespaces: Vec<Namespace>,
    /// The namespace in which the cables of hosts end and wires begin.
    wires: Namespace,
    program: BpfObject,
    pub(crate) records: PortRecords,
    /// The records of single frames at all ports.
    pub(crate) events: Arc<EventRing>,
}

/// Largest delay of a release that the rate limiter still makes up for, ns.
///
/// Timers of a shared machine are about 10 µs late, sometimes some 100 µs. Without this credit each delay would be
/// lost service; at 95 % load the losses add up to milliseconds. The price: after a pause a port may be this far ahead
/// of a real link.
pub(crate) const RELEASE_CREDIT_NS: u64 = 250_000;
/// Rate at which the delay is made up for, in percent of the link's rate. It is low, so that the credit of a pause
/// does not leave as one burst that no link could send.
pub(crate) const PEAK_PERCENT: u64 = 120;
/// Credit for a burst at that rate, ns; about half a full frame at 100 Mbit/s.
pub(crate) const PEAK_CREDIT_NS: u64 = 60_000;

/// Returns the MAC address of a host, locally administered.
pub(crate) fn host_mac(node: usize) -> [u8; 6] {
    let [high, low] = short(node);
    [0x02, 0x72, 0x74, 0x00, high, low]
}

/// Returns the IPv4 address of a host.
pub(crate) fn host_address(node: usize) -> Ipv4Addr {
    let [high, low] = short(node + 1);
    Ipv4Addr::new(10, 77, high, low)
}

fn port_mac(port: PortIndex) -> [u8; 6] {
    let [high, low] = short(port);
    [0x02, 0x72, 0x74, 0x01, high, low]
}

fn short(value: usize) -> [u8; 2] {
    // A lab of more than 65 535 nodes does not fit one machine; `Blueprint::check` refuses it.
    u16::try_from(value).unwrap_or(u16::MAX).to_be_bytes()
}

impl Blueprint {
    /// Returns the port through which `node` sends to `neighbour`.
    pub(crate) fn port(&self, node: usize, neighbour: usize) -> Option<PortIndex> {
        self.cables
            .iter()
            .enumerate()
            .find_map(|(cable, ends)| match ends.ends {
                [a, b] if a == node && b == neighbour => Some(2 * cable),
                [a, b] if b == node && a == neighbour => Some(2 * cable + 1),
                _ => None,
            })
    }

    /// Returns the sending node of a port and the node that it sends to.
    pub(crate) fn port_ends(&self, port: PortIndex) -> Option<(usize, usize)> {
        let ends = self.cables.get(port / 2)?.ends;
        Some((ends[port % 2], ends[1 - port % 2]))
    }

    fn is_host(&self, node: usize) -> bool {
        self.nodes[node].kind == NodeKind::Host
    }

    fn interface_name(&self, port: PortIndex) -> String {
        let Some((node, neighbour)) = self.port_ends(port) else {
            return format!("port{port}");
        };
        if self.is_host(node) {
            return HOST_INTERFACE.to_owned();
        }
        let name = format!("to-{}", self.nodes[neighbour].name);
        let usable = name.len() < 16 && !name.contains(['/', ' ', ':']) && name.is_ascii();
        if usable { name } else { format!("port{port}") }
    }
}

impl Fabric {
    /// Returns the ports on a route of the network that this fabric was made from.
    pub(crate) fn ports_of(&self, network: &Network, route: &[String]) -> Vec<PortIndex> {
        let index = |name: &String| crate::blueprint::node_index(network, name);
        let hops = route.windows(2);
        hops.filter_map(|hop| self.blueprint.port(index(&hop[0])?, index(&hop[1])?))
            .collect()
    }

    /// Starts the network. After an error the caller removes by name what was made.
    ///
    /// # Errors
    /// [`LabError`] if privileges or kernel features are missing, or no kernel could build the blueprint.
    pub(crate) fn bring_up(prefix: &str, blueprint: Blueprint) -> Result<Self, LabError> {
        let mut namespaces = Vec::new();
        for (index, node) in blueprint.nodes.iter().enumerate() {
            let name = namespace_name(prefix, index, &node.name);
            namespaces.push(Namespace::create(&name)?);
        }
        // No node's name contains this character.
        let wires = Namespace::create(&format!("{prefix}-~wires"))?;
        let program = load(&blueprint)?;
        let records = PortRecords::new(
            program.map_array("ports", PORT_WORDS)?,
            program.map_array("pools", POOL_WORDS)?,
        );
        let events = Arc::new(EventRing::new(
            program.map_array("events", EVENT_WORDS)?,
            program.map_array("events_written", 1)?,
        ));
        let fabric = Self {
            blueprint,
            namespaces,
            wires,
            program,
            records,
            events,
        };
        fabric.set_limits();
        fabric.make_bridges()?;
        fabric.lay_cables()?;
        let ports = 2 * fabric.blueprint.cables.len();
        // All counters are in place before the first interface comes up. A frame counted at only one end would shift
        // all later counts.
        for port in 0..ports {
            fabric.prepare_port(port)?;
        }
        for port in 0..ports {
            fabric.bring_port_up(port)?;
        }
        fabric.fill_tables()?;
        Ok(fabric)
    }

    /// Returns the namespace of a node.
    pub(crate) fn namespace(&self, node: usize) -> &Namespace {
        &self.namespaces[node]
    }

    /// Sets the parameters of each port that the program needs.
    fn set_limits(&self) {
        for (index, node) in self.blueprint.nodes.iter().enumerate() {
            if let NodeKind::Switch {
                shared: true,
                buffer_bytes,
                buffer_frames,
            } = node.kind
            {
                self.records.set_pool(index, buffer_bytes, buffer_frames);
            }
        }
        for (cable_index, cable) in self.blueprint.cables.iter().enumerate() {
            for side in 0..2 {
                let port = 2 * cable_index + side;
                let index = cable.ends[side];
                let node = &self.blueprint.nodes[index];
                let (bytes, frames, pool) = match node.kind {
                    NodeKind::Host => (0, 0, 0),
                    NodeKind::Switch { shared: true, .. } => (0, 0, index as u64 + 1),
                    NodeKind::Switch {
                        buffer_bytes,
                        buffer_frames,
                        ..
                    } => (buffer_bytes, buffer_frames, 0),
                };
                self.records.set(
                    port,
                    Field::ForwardsOnly,
                    (node.kind != NodeKind::Host).into(),
                );
                self.records.set(port, Field::LimitBytes, bytes);
                self.records.set(port, Field::LimitFrames, frames);
                self.records.set(port, Field::Pool, pool);
                self.records
                    .set(port, Field::ClassOf, u64::from_le_bytes(node.class_of));
                self.records
                    .set(port, Field::OverheadBytes, self.blueprint.overhead_bytes);
            }
        }
    }

    fn make_bridges(&self) -> Result<(), LabError> {
        for (node, namespace) in self.blueprint.nodes.iter().zip(&self.namespaces) {
            if node.kind == NodeKind::Host {
                continue;
            }
            namespace.run(|| {
                let mut netlink = Netlink::new();
                netlink.create_bridge(BRIDGE, BRIDGE_IFINDEX, Forwarding::ByEntry)?;
                netlink.offloads_off(BRIDGE)?;
                netlink.set_up_without_arp(BRIDGE)?;
                if self.blueprint.ip_groups.is_empty() {
                    return Ok(());
                }
                netlink.keep_ip_multicast(BRIDGE)
            })??;
        }
        Ok(())
    }

    fn lay_cables(&self) -> Result<(), LabError> {
        for (cable_index, cable) in self.blueprint.cables.iter().enumerate() {
            let ports = [2 * cable_index, 2 * cable_index + 1];
            let mut ends = Vec::new();
            for (port, node) in ports.into_iter().zip(cable.ends) {
                let own = End {
                    name: self.blueprint.interface_name(port),
                    ifindex: FIRST_IFINDEX + index32(port),
                    mac: match self.blueprint.is_host(node) {
                        true => host_mac(node),
                        false => port_mac(port),
                    },
                    namespace: self.namespace(node),
                };
                ends.push(match self.wire(port) {
                    None => own,
                    Some(wire) => {
                        connect(&own, &wire.inner)?;
                        wire.cable
                    }
                });
            }
            if let [near, far] = ends.as_slice() {
                connect(near, far)?;
            }
        }
        Ok(())
    }

    fn prepare_port(&self, port: PortIndex) -> Result<(), LabError> {
        let Some((node, neighbour)) = self.blueprint.port_ends(port) else {
            return Ok(());
        };
        let wire = self.wire(port);
        // Untagged frames beside tagged ones are charged 4 bytes too much. This makes the emulated link slower, never
        // faster.
        let tag = match self.blueprint.tagged.contains(&(node, neighbour)) {
            true => 4,
            false => 0,
        };
        let overhead = self.blueprint.overhead_bytes + tag;
        let ifindex = FIRST_IFINDEX + index32(port);
        let rate_bps = self.blueprint.cables[port / 2].rate_bps;
        let queue = PortQueue {
            ifindex,
            rate_bps,
            queues: self.blueprint.nodes[node].queues,
            // `Layout::of` refuses larger values.
            overhead_bytes: u8::try_from(overhead).unwrap_or(u8::MAX),
            credit_ns: RELEASE_CREDIT_NS,
            peak_bps: rate_bps * PEAK_PERCENT / 100,
            peak_credit_ns: PEAK_CREDIT_NS,
        };
        let own = self.blueprint.interface_name(port);
        let (namespace, name) = match &wire {
            None => (self.namespace(node), &own),
            Some(wire) => {
                self.prepare_wire(wire)?;
                self.namespace(node)
                    .run(|| Netlink::new().offloads_off(&own))??;
                (wire.cable.namespace, &wire.cable.name)
            }
        };
        namespace.run(|| -> Result<(), LabError> {
            let mut netlink = Netlink::new();
            netlink.offloads_off(name)?;
            netlink.set_port_queue(&queue)?;
            let program = &self.program;
            program.attach_tc("port_enter", ifindex, Direction::Egress)?;
            program.attach_tc("port_leave", ifindex, Direction::Ingress)?;
            Ok(())
        })?
    }

    fn bring_port_up(&self, port: PortIndex) -> Result<(), LabError> {
        let Some((node, _)) = self.blueprint.port_ends(port) else {
            return Ok(());
        };
        if let Some(wire) = self.wire(port) {
            self.bring_wire_up(&wire)?;
        }
        let name = self.blueprint.interface_name(port);
        let ifindex = FIRST_IFINDEX + index32(port);
        let is_host = self.blueprint.is_host(node);
        self.namespace(node).run(|| -> Result<(), LabError> {
            let mut netlink = Netlink::new();
            if is_host {
                netlink.set_up("lo")?;
                netlink.set_up_without_arp(&name)?;
                netlink.add_address(ifindex, host_address(node), 16)?;
            } else {
                netlink.add_bridge_port(BridgePort {
                    ifindex,
                    bridge: BRIDGE_IFINDEX,
                    forwarding: Forwarding::ByEntry,
                })?;
                netlink.set_up_without_arp(&name)?;
            }
            Ok(())
        })?
    }

    fn fill_tables(&self) -> Result<(), LabError> {
        let hosts: Vec<usize> = (0..self.blueprint.nodes.len())
            .filter(|&node| self.blueprint.is_host(node))
            .collect();
        for &host in &hosts {
            let Some(port) = (0..2 * self.blueprint.cables.len()).find(|&port| {
                self.blueprint
                    .port_ends(port)
                    .is_some_and(|ends| ends.0 == host)
            }) else {
                continue;
            };
            self.namespace(host).run(|| {
                let mut netlink = Netlink::new();
                hosts
                    .iter()
                    .filter(|&&other| other != host)
                    .try_for_each(|&other| {
                        netlink.add_neighbour(Neighbour {
                            ifindex: FIRST_IFINDEX + index32(port),
                            address: host_address(other),
                            mac: host_mac(other),
                        })
                    })
            })??;
        }
        for (&host, exits) in &self.blueprint.towards {
            for &(switch, neighbour) in exits {
                self.with_exit(switch, neighbour, |netlink, ifindex| {
                    netlink.add_forwarding(ifindex, host_mac(host))
                })?;
            }
        }
        for (&group, exits) in &self.blueprint.ip_groups {
            for &(switch, neighbour) in exits {
                self.with_exit(switch, neighbour, |netlink, ifindex| {
                    netlink.add_ip_multicast(BRIDGE_IFINDEX, ifindex, group)
                })?;
            }
        }
        for (&group, exits) in &self.blueprint.groups {
            for &(switch, neighbour) in exits {
                self.with_exit(switch, neighbour, |netlink, ifindex| {
                    netlink.add_multicast(BRIDGE_IFINDEX, ifindex, group)
                })?;
            }
        }
        Ok(())
    }

    fn with_exit(
        &self,
        switch: usize,
        neighbour: usize,
        work: impl FnOnce(&mut Netlink, u32) -> Result<(), rtwire_host::HostError> + Send,
    ) -> Result<(), LabError> {
        let Some(port) = self.blueprint.port(switch, neighbour) else {
            return Ok(());
        };
        self.namespace(switch)
            .run(|| work(&mut Netlink::new(), FIRST_IFINDEX + index32(port)))??;
        Ok(())
    }
}

/// Returns the name of a node's namespace. It is unique in the lab even if two node names differ only in special
/// characters.
pub(crate) fn namespace_name(prefix: &str, index: usize, node: &str) -> String {
    let plain: String = node
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' || c == '_' {
                c
            } else {
                '-'
            }
        })
        .collect();
    if plain == node {
        format!("{prefix}-{node}")
    } else {
        format!("{prefix}-{index}-{plain}")
    }
}

fn index32(port: PortIndex) -> u32 {
    // The number of cables is limited by `load`.
    u32::try_from(port).unwrap_or(u32::MAX - FIRST_IFINDEX)
}

fn open(namespace: &Namespace) -> Result<std::fs::File, LabError> {
    netns::open(namespace.name()).map_err(LabError::Io)
}

fn load(blueprint: &Blueprint) -> Result<BpfObject, LabError> {
    let ports = index32(2 * blueprint.cables.len()).max(1);
    let pools = index32(blueprint.nodes.len()).max(1);
    Ok(BpfObject::load(
        "switch",
        rtwire_bpf::SWITCH.bytes,
        &[("ports", ports), ("pools", pools)],
    )?)
}
