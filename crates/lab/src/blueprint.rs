//! Turns a checked network into a blueprint: nodes, cables, forwarding.

use std::net::Ipv4Addr;

use rtwire_plan::identity::{Destination, Identity, group_address};
use rtwire_plan::{Network, Plan, Stream, Transport};

use crate::LabError;
use crate::fabric::{Blueprint, Cable, Node, NodeKind};

/// Largest number of nodes of a lab on one machine. Each costs some MB of kernel memory and some ms of start-up time.
const NODES_MAX: usize = 1_000;

/// Fastest link that the rate limiter's interface can express, including its peak rate, bit/s.
const RATE_MOST_BPS: u64 = 28_000_000_000;
/// Largest frame overhead that the interface can express, with a minimum frame and a tag.
const OVERHEAD_MOST_BYTES: u64 = 190;

/// The destination address of a stream's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// One host, by node, over the shortest path.
    Host(usize),
    /// A group address for this stream alone: it has several listeners or a path of its own.
    Group([u8; 6]),
}

/// The blueprint of a network and the destination of each of its streams (best effort after the streams).
pub(crate) struct Layout {
    pub(crate) blueprint: Blueprint,
    pub(crate) destinations: Vec<Reached>,
}

/// Returns the index of a node: hosts first, in the order of the description, then switches.
pub(crate) fn node_index(network: &Network, name: &str) -> Option<usize> {
    let hosts = network.hosts.iter().map(|host| &host.name);
    let switches = network.switches.iter().map(|switch| &switch.name);
    hosts
        .chain(switches)
        .position(|candidate| candidate == name)
}

impl Layout {
    /// Creates the layout of a network.
    ///
    /// # Errors
    /// [`LabError`] if the network is too large for one machine, or a stream needs something that the lab does not
    /// emulate.
    pub(crate) fn of(plan: &Plan) -> Result<Self, LabError> {
        let network = &plan.network;
        let count = network.hosts.len() + network.switches.len();
        if count > NODES_MAX {
            return Err(LabError::TooLarge {
                nodes: count,
                most: NODES_MAX,
            });
        }
        for link in &network.links {
            if link.rate_bps > RATE_MOST_BPS {
                return Err(LabError::TooFast {
                    link: format!("{} – {}", link.ends[0], link.ends[1]),
                    most_bps: RATE_MOST_BPS,
                });
            }
        }
        if network.defaults.frame_overhead_bytes > OVERHEAD_MOST_BYTES {
            return Err(LabError::TooMuchOverhead {
                bytes: network.defaults.frame_overhead_bytes,
                most: OVERHEAD_MOST_BYTES,
            });
        }
        let mut blueprint = Blueprint {
            nodes: nodes(network),
            cables: cables(network),
            overhead_bytes: network.defaults.frame_overhead_bytes,
            ..Blueprint::default()
        };
        for (index, host) in network.hosts.iter().enumerate() {
            let exits = exits_towards(network, &host.name);
            blueprint.towards.insert(index, exits);
        }
        let mut destinations = Vec::new();
        for (index, stream) in network.streams.iter().enumerate() {
            destinations.push(destination(plan, &blueprint, index, stream)?);
        }
        for stream in network.streams.iter().filter(|s| s.vlan.is_some()) {
            if stream.transport == Transport::Udp {
                continue;
            }
            for hop in stream.routes.iter().flat_map(|route| route.windows(2)) {
                let ends = (node_index(network, &hop[0]), node_index(network, &hop[1]));
                if let (Some(from), Some(to)) = ends {
                    blueprint.tagged.insert((from, to));
                }
            }
        }
        for (index, stream) in network.streams.iter().enumerate() {
            let group = match (destinations[index], stream.transport) {
                (Reached::Group(group), _) => Some(group),
                // `rtwire run` on the hosts of a lab that is kept sends to it, unless it is told the listener's address.
                (Reached::Host(_), Transport::Rtdip) => Some(group(plan, index)),
                (Reached::Host(_), Transport::Udp) => None,
            };
            if let Some(group) = group {
                let exits = stream.routes.iter().flat_map(|route| {
                    route.windows(2).skip(1).filter_map(|hop| {
                        Some((node_index(network, &hop[0])?, node_index(network, &hop[1])?))
                    })
                });
                let mut exits: Vec<_> = exits.collect();
                exits.sort_unstable();
                exits.dedup();
                match stream.transport {
                    Transport::Rtdip => blueprint.groups.insert(group, exits).is_some(),
                    Transport::Udp => {
                        let group = ip_group(plan, index);
                        blueprint.ip_groups.insert(group, exits).is_some()
                    }
                };
            }
        }
        Ok(Self {
            blueprint,
            destinations,
        })
    }
}

fn nodes(network: &Network) -> Vec<Node> {
    let class_of = |node: &str| [0, 1, 2, 3, 4, 5, 6, 7].map(|pcp| network.class(node, pcp));
    let hosts = network.hosts.iter().map(|host| Node {
        name: host.name.clone(),
        kind: NodeKind::Host,
        queues: host.queues,
        class_of: class_of(&host.name),
    });
    let switches = network.switches.iter().map(|switch| Node {
        name: switch.name.clone(),
        kind: NodeKind::Switch {
            shared: switch.buffer.shared,
            buffer_bytes: switch.buffer.bytes,
            buffer_frames: switch.buffer.frames.unwrap_or(0),
        },
        queues: switch.queues,
        class_of: class_of(&switch.name),
    });
    hosts.chain(switches).collect()
}

fn cables(network: &Network) -> Vec<Cable> {
    let ends = |link: &rtwire_plan::Link| {
        Some([
            node_index(network, &link.ends[0])?,
            node_index(network, &link.ends[1])?,
        ])
    };
    network
        .links
        .iter()
        .filter_map(|link| {
            Some(Cable {
                ends: ends(link)?,
                rate_bps: link.rate_bps,
            })
        })
        .collect()
}

/// Returns, for each switch that can reach `host`, the next node on the plan's path to it.
fn exits_towards(network: &Network, host: &str) -> Vec<(usize, usize)> {
    let exits = network.towards(host).into_iter();
    exits
        .filter_map(|(switch, next)| {
            Some((node_index(network, switch)?, node_index(network, next)?))
        })
        .collect()
}

/// The group address of a stream: its identity's, or where that is a host the one that its number stands for.
fn group(plan: &Plan, index: usize) -> [u8; 6] {
    match identity(plan, index).map(|identity| (&identity.destination, identity.number)) {
        Some((Destination::Group { mac }, _)) => *mac,
        Some((_, number)) => group_address(number),
        None => group_address(0),
    }
}

/// The same for datagrams.
pub(crate) fn ip_group(plan: &Plan, index: usize) -> Ipv4Addr {
    /// 239.192.0.0/14, which an organisation may use as it likes (RFC 2365).
    const BASE: u32 = 0xefc0_0000;
    const MASK: u32 = 0x0003_ffff;
    match identity(plan, index).map(|identity| (&identity.destination, identity.number)) {
        Some((Destination::Multicast { ip }, _)) => *ip,
        Some((_, number)) => Ipv4Addr::from(BASE | number & MASK),
        None => Ipv4Addr::from(BASE),
    }
}

fn identity(plan: &Plan, index: usize) -> Option<&Identity> {
    let name = &plan.network.streams.get(index)?.name;
    let mut streams = plan.streams.iter();
    streams
        .find(|one| one.name == *name)
        .map(|one| &one.identity)
}

fn destination(
    plan: &Plan,
    blueprint: &Blueprint,
    index: usize,
    stream: &Stream,
) -> Result<Reached, LabError> {
    let network = &plan.network;
    let single = match (stream.listeners.as_slice(), stream.routes.as_slice()) {
        ([listener], [route]) => node_index(network, listener).filter(|&host| {
            let exits = &blueprint.towards[&host];
            route.windows(2).skip(1).all(|hop| {
                let hop = (node_index(network, &hop[0]), node_index(network, &hop[1]));
                matches!(hop, (Some(from), Some(to)) if exits.contains(&(from, to)))
            })
        }),
        _ => None,
    };
    if let Some(host) = single {
        return Ok(Reached::Host(host));
    }
    Ok(Reached::Group(group(plan, index)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    /// The ports of each node have the map of that node, not one for the whole lab.
    #[test]
    fn each_node_has_its_own_map_of_priorities() {
        let text = "[network]\nname = \"t\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\n\
             [[switch]]\nname = \"s\"\nbuffer = \"1 MB\"\nqueues = 8\npriority-map = \"802.1q-avb\"\n\
             [[switch]]\nname = \"t\"\nbuffer = \"1 MB\"\nqueues = 4\n\
             [[host]]\nname = \"A\"\nqueues = 2\npriority-map = [0, 0, 0, 1, 0, 0, 0, 0]\n[[host]]\nname = \"B\"\n\
             [[link]]\nends = [\"A\", \"s\"]\n[[link]]\nends = [\"s\", \"t\"]\n[[link]]\nends = [\"t\", \"B\"]\n\
             [[stream]]\nname = \"a\"\ntalker = \"A\"\nlisteners = [\"B\"]\npayload = \"64 B\"\ninterval = \"1 ms\"\npriority = 3\n";
        let network = rtwire_plan::read(text, "t.toml", &[]).unwrap();
        let plan = rtwire_plan::plan(&network, &rtwire_plan::Options::default()).unwrap();
        let layout = Layout::of(&plan).unwrap();
        let class_of = |name: &str| {
            let node = layout.blueprint.nodes.iter().find(|one| one.name == name);
            node.unwrap().class_of
        };
        assert_eq!(class_of("A"), [0, 0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(class_of("s"), [1, 0, 6, 7, 2, 3, 4, 5]);
        assert_eq!(class_of("t"), [0, 0, 1, 1, 2, 2, 3, 3]);
    }
}
