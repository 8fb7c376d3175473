//! Assigns the identities of a network: numbers by name, then addresses, then ports that are free at every listener.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;

use super::{BestEffortPlan, Destination, Identity, LARGEST_NUMBER, group_address};
use crate::network::{BestEffort, Host, Network, Routers, Stream, Transport, class_by};
use crate::plan::Plan;

/// The first port for streams whose description states none.
const FIRST_PORT: u16 = 1_000;
/// The number of ports from [`FIRST_PORT`] on.
const PORTS: u32 = 65_536 - FIRST_PORT as u32;
/// The first of the addresses that an organisation may use freely (RFC 2365): 239.192.0.0/14.
const MULTICAST_BASE: u32 = 0xefc0_0000;
const MULTICAST_MASK: u32 = 0x0003_ffff;

/// The kept parts of another plan: numbers, addresses and ports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    /// The epoch of the plan that keeps them.
    pub(crate) epoch: u64,
    /// The largest number that was ever assigned.
    numbers_used: u32,
    /// The talker and the identity of each stream.
    streams: HashMap<String, (String, Identity)>,
    /// The host and the identity of each allowance and receiver.
    best_effort: HashMap<(String, String), (String, Identity)>,
}

impl Kept {
    /// Returns the parts of `plan` that a plan of this epoch keeps.
    pub(crate) fn of(plan: &Plan, epoch: u64) -> Kept {
        let talkers: HashMap<&str, &str> = plan
            .network
            .streams
            .iter()
            .map(|stream| (stream.name.as_str(), stream.talker.as_str()))
            .collect();
        let hosts: HashMap<&str, &str> = plan
            .network
            .best_effort
            .iter()
            .map(|allowance| (allowance.name.as_str(), allowance.host.as_str()))
            .collect();
        let streams = plan.streams.iter().filter_map(|stream| {
            let talker = *talkers.get(stream.name.as_str())?;
            let kept = (talker.to_owned(), stream.identity.clone());
            Some((stream.name.clone(), kept))
        });
        let best_effort = plan.best_effort.iter().filter_map(|flow| {
            let host = *hosts.get(flow.name.as_str())?;
            let kept = (host.to_owned(), flow.identity.clone());
            Some(((flow.name.clone(), flow.to.clone()), kept))
        });
        Kept {
            epoch,
            numbers_used: plan.numbers_used,
            streams: streams.collect(),
            best_effort: best_effort.collect(),
        }
    }
}

/// The identities of a network, without keys.
pub(crate) struct Assigned {
    /// The identity of each stream of the network.
    pub(crate) streams: Vec<Identity>,
    /// The identity of each allowance and receiver, in the order of the network.
    pub(crate) best_effort: Vec<BestEffortPlan>,
    /// The largest number that was ever assigned.
    pub(crate) numbers_used: u32,
}

/// Something that needs an identity.
struct Flow<'a> {
    name: &'a str,
    /// The talker's name.
    talker: &'a str,
    udp: bool,
    /// The indices of the hosts that hear it.
    listeners: Vec<usize>,
    /// The port that the description states.
    stated: Option<u16>,
    /// The stream whose frames it repeats.
    copy_of: Option<&'a str>,
    kept: Option<&'a Identity>,
    identity: Identity,
}

/// The hosts by name, with their numbers.
type Hosts<'a> = HashMap<&'a str, (usize, &'a Host)>;

/// Assigns an identity to each stream and allowance. `Err` is the kind of number, address or port that ran out, in
/// words.
pub(crate) fn assign(network: &Network, kept: Option<&Kept>) -> Result<Assigned, String> {
    let hosts: Hosts<'_> = network
        .hosts
        .iter()
        .enumerate()
        .map(|(index, host)| (host.name.as_str(), (index, host)))
        .collect();
    let routers = network.routers();
    let mut flows: Vec<Flow<'_>> = Vec::with_capacity(network.streams.len());
    for stream in &network.streams {
        flows.push(stream_flow(stream, &hosts, &routers, kept));
    }
    for allowance in &network.best_effort {
        let ways = allowance.to.iter();
        flows.extend(ways.map(|to| allowance_flow(allowance, to, &hosts, kept)));
    }
    let streams = network.streams.len();
    // By name, not by place in the file.
    let mut order: Vec<usize> = (0..flows.len()).collect();
    order.sort_by(|a, b| {
        let key = |at: usize| (at >= streams, flows[at].name, &flows[at].listeners);
        let names = |at: usize| {
            let all = flows[at].listeners.iter();
            all.map(|host| network.hosts.get(*host).map(|host| host.name.as_str()))
                .collect::<Vec<_>>()
        };
        let (first, second) = (key(*a), key(*b));
        (first.0, first.1)
            .cmp(&(second.0, second.1))
            .then_with(|| names(*a).cmp(&names(*b)))
    });
    let numbers_used = number(&mut flows, &order, kept.map_or(0, |kept| kept.numbers_used))?;
    address(&mut flows, network)?;
    ports(&mut flows, &order, network)?;
    let mut all = flows.into_iter().map(|flow| flow.identity);
    let identities = all.by_ref().take(streams).collect();
    let ways = network.best_effort.iter().flat_map(|allowance| {
        let to = allowance.to.iter();
        to.map(|to| (allowance.name.clone(), to.clone()))
    });
    let best_effort = ways
        .zip(all)
        .map(|((name, to), identity)| BestEffortPlan { name, to, identity })
        .collect();
    Ok(Assigned {
        streams: identities,
        best_effort,
        numbers_used,
    })
}

fn stream_flow<'a>(
    stream: &'a Stream,
    hosts: &Hosts<'_>,
    routers: &Routers<'_>,
    kept: Option<&'a Kept>,
) -> Flow<'a> {
    let mut routes = stream.routes.iter();
    let routed = routes.any(|route| routers.first(route).is_some());
    let queue = hosts.get(stream.talker.as_str()).map_or(0, |(_, host)| {
        class_by(host.priority_map.as_ref(), stream.pcp, host.queues)
    });
    let kept = kept
        .and_then(|kept| kept.streams.get(&stream.name))
        .filter(|(talker, _)| *talker == stream.talker)
        .map(|(_, identity)| identity);
    Flow {
        name: &stream.name,
        talker: &stream.talker,
        udp: stream.transport == Transport::Udp,
        listeners: stream.listener_indices.clone(),
        stated: (stream.port != 0).then_some(stream.port),
        copy_of: stream.copy_of.as_deref(),
        kept,
        identity: Identity {
            vlan: stream.vlan,
            pcp: stream.pcp,
            dscp: routed.then_some(stream.marks().dscp),
            queue,
            ..Identity::none()
        },
    }
}

fn allowance_flow<'a>(
    allowance: &'a BestEffort,
    to: &str,
    hosts: &Hosts<'_>,
    kept: Option<&'a Kept>,
) -> Flow<'a> {
    let key = (allowance.name.clone(), to.to_owned());
    let kept = kept
        .and_then(|kept| kept.best_effort.get(&key))
        .filter(|(host, _)| *host == allowance.host)
        .map(|(_, identity)| identity);
    Flow {
        name: &allowance.name,
        talker: &allowance.host,
        udp: false,
        listeners: hosts.get(to).map(|host| host.0).into_iter().collect(),
        stated: None,
        copy_of: None,
        kept,
        identity: Identity::none(),
    }
}

/// Numbers the flows. Returns the largest number that was ever assigned.
fn number(flows: &mut [Flow<'_>], order: &[usize], used_before: u32) -> Result<u32, String> {
    let mut taken: HashSet<u32> = HashSet::new();
    for &at in order {
        let old = flows[at].kept.map(|kept| kept.number);
        let old = old.filter(|old| (1..=LARGEST_NUMBER).contains(old));
        match old.filter(|old| taken.insert(*old)) {
            Some(old) => flows[at].identity.number = old,
            None => flows[at].kept = None,
        }
    }
    let largest = taken.iter().max().copied().unwrap_or(0);
    let mut used = used_before.min(LARGEST_NUMBER).max(largest);
    // What removed streams had is taken again only where nothing else is left.
    let mut again = 1..=LARGEST_NUMBER;
    for &at in order {
        if flows[at].kept.is_some() {
            continue;
        }
        let number = if used < LARGEST_NUMBER {
            used += 1;
            used
        } else {
            again
                .find(|number| !taken.contains(number))
                .ok_or_else(|| {
                    format!(
                        "there are more than {LARGEST_NUMBER} streams and best-effort receivers: no number is left for \"{}\" of host \"{}\"",
                        flows[at].name, flows[at].talker
                    )
                })?
        };
        taken.insert(number);
        flows[at].identity.number = number;
    }
    Ok(used)
}

/// Assigns each flow its destination, made from its number. A multicast address that another plan gave is kept.
fn address(flows: &mut [Flow<'_>], network: &Network) -> Result<(), String> {
    let mut taken: HashSet<u32> = HashSet::new();
    let mut new: Vec<usize> = Vec::new();
    for (at, flow) in flows.iter_mut().enumerate() {
        let kept = flow.kept.map(|kept| &kept.destination);
        flow.identity.destination = match (flow.listeners.as_slice(), kept) {
            _ if !flow.udp => Destination::Group {
                mac: group_address(flow.identity.number),
            },
            ([host], _) => {
                let host = network.hosts.get(*host).map(|host| host.name.clone());
                Destination::Peer {
                    host: host.unwrap_or_default(),
                }
            }
            (_, Some(Destination::Multicast { ip }))
                if u32::from(*ip) & !MULTICAST_MASK == MULTICAST_BASE
                    && taken.insert(u32::from(*ip) & MULTICAST_MASK) =>
            {
                Destination::Multicast { ip: *ip }
            }
            _ => {
                new.push(at);
                continue;
            }
        };
    }
    // There are fewer addresses than numbers: numbers without an address of their own take what the others leave.
    let (own, mut crowded): (Vec<usize>, Vec<usize>) = new.into_iter().partition(|at| {
        let number = flows[*at].identity.number;
        number <= MULTICAST_MASK && taken.insert(number)
    });
    let mut left = (1..=MULTICAST_MASK)
        .rev()
        .filter(|low| !taken.contains(low));
    let multicast = |low: u32| Destination::Multicast {
        ip: Ipv4Addr::from(MULTICAST_BASE | low),
    };
    for at in own {
        flows[at].identity.destination = multicast(flows[at].identity.number);
    }
    crowded.sort_by_key(|at| flows[*at].identity.number);
    for at in crowded {
        let low = left.next().ok_or_else(|| {
            format!(
                "there are more than {MULTICAST_MASK} streams with several listeners by UDP: no address is left for \"{}\"",
                flows[at].name
            )
        })?;
        flows[at].identity.destination = multicast(low);
    }
    Ok(())
}

/// The ports that are in use, by transport and listener.
#[derive(Default)]
struct Ports {
    taken: HashSet<(bool, usize, u16)>,
    /// The first port that may be free, counted from [`FIRST_PORT`], by transport and listener. Every port before it
    /// is in use.
    from: HashMap<(bool, usize), u32>,
}

impl Ports {
    fn is_free(&self, flow: &Flow<'_>, port: u16) -> bool {
        let mut hosts = flow.listeners.iter();
        hosts.all(|host| !self.taken.contains(&(flow.udp, *host, port)))
    }

    fn take(&mut self, flow: &mut Flow<'_>, port: u16) {
        let hosts = flow.listeners.iter();
        self.taken.extend(hosts.map(|host| (flow.udp, *host, port)));
        flow.identity.port = port;
    }

    /// Returns a port that is free at every listener: the one that belongs to the number, else the lowest.
    fn find(&mut self, flow: &Flow<'_>) -> Option<u16> {
        let own = nth_port(flow.identity.number.wrapping_sub(1) % PORTS)?;
        if self.is_free(flow, own) {
            return Some(own);
        }
        // Ports are never given back, so that a search goes on where the last one at this host ended.
        let first = flow.listeners.first().copied().unwrap_or_default();
        let from = self.from.entry((flow.udp, first)).or_default();
        while *from < 65_535
            && nth_port(*from).is_some_and(|port| self.taken.contains(&(flow.udp, first, port)))
        {
            *from += 1;
        }
        let from = *from;
        (from..65_535)
            .filter_map(nth_port)
            .find(|port| self.is_free(flow, *port))
    }
}

/// Returns port number `n`: all ports from [`FIRST_PORT`] on come first, then those below it.
fn nth_port(n: u32) -> Option<u16> {
    let port = if n < PORTS {
        u32::from(FIRST_PORT) + n
    } else {
        n - PORTS + 1
    };
    u16::try_from(port).ok()
}

fn ports(flows: &mut [Flow<'_>], order: &[usize], network: &Network) -> Result<(), String> {
    let mut ports = Ports::default();
    let originals = |flow: &Flow<'_>| flow.copy_of.is_none();
    for flow in flows.iter_mut().filter(|flow| originals(flow)) {
        if let Some(port) = flow.stated {
            ports.take(flow, port);
        }
    }
    for &at in order {
        let flow = &mut flows[at];
        if flow.stated.is_some() || !originals(flow) {
            continue;
        }
        if let Some(port) = flow.kept.map(|kept| kept.port).filter(|port| *port != 0) {
            if ports.is_free(flow, port) {
                ports.take(flow, port);
            }
        }
    }
    for &at in order {
        let flow = &mut flows[at];
        if flow.identity.port != 0 || !originals(flow) {
            continue;
        }
        let port = ports.find(flow).ok_or_else(|| {
            let host = flow.listeners.first().and_then(|host| network.hosts.get(*host));
            format!(
                "no port is left for \"{}\" at its listener \"{}\", which hears too many streams: use more hosts, or fewer streams",
                flow.name,
                host.map_or("", |host| host.name.as_str())
            )
        })?;
        ports.take(flow, port);
    }
    // A listener hears both copies of a redundant stream as one.
    let copies: HashMap<&str, u16> = flows
        .iter()
        .filter(|flow| originals(flow))
        .map(|flow| (flow.name, flow.identity.port))
        .collect();
    for flow in flows.iter_mut() {
        if let Some(name) = flow.copy_of {
            flow.identity.port = copies.get(name).copied().unwrap_or_default();
        }
    }
    Ok(())
}
