//! Makes the assignments of all hosts from a planned network.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use rtwire_plan::{BestEffortPlan, Network, Plan, Ratio, Stream, Transport};
use rtwire_session::margin::SpinMargin;
use rtwire_session::streams::{self, REALTIME, frames_in, frames_planned};
use rtwire_session::task::{Address, Assignment, ListenerTask, Pattern, TalkerTask};
use rtwire_session::{PeerAddress, ReceivePath, SessionError, SessionOptions, TxPath};

use crate::LabError;
use crate::blueprint::{Layout, Reached, ip_group, node_index};
use crate::fabric::{Fabric, HOST_INTERFACE, host_address, host_mac};
use crate::passages::Flow;
use crate::phases;
use crate::transmit;

/// The largest number of samples of a run: some 40 bytes each, on both sides, and again while they are joined.
const SAMPLES_MOST: u64 = 60_000_000;
/// The time in ns in which frames may still be on their way after the talkers' end.
const DRAIN_NS: u64 = 300_000_000;
/// Frames of one calibration burst: enough that the rate limiter has to wait for its timer several times.
const BURST_FRAMES: u32 = 8;
const BURST_INTERVAL_LEAST_NS: u64 = 10_000_000;
const NS: u128 = 1_000_000_000;

fn room(frames: u64) -> u64 {
    // The shaper may begin with a burst; a late start of a listener changes nothing.
    frames.saturating_add(frames / 50).saturating_add(4_096)
}

/// Returns the largest number of frames that a stream's talker can send.
fn frames_most(network: &Network, stream: &Stream, duration_ns: u64) -> u64 {
    let frames = if stream.shaped {
        frames_planned(stream, duration_ns)
            + stream.contract.burst_bits / (stream.wire_bytes * 8).max(1)
    } else {
        let link_bps = link_rate(network, &stream.talker);
        frames_in(
            Ratio::whole(link_bps.into()),
            stream.wire_bytes,
            duration_ns,
        )
    };
    room(frames)
}

/// Returns the largest number of frames that a best-effort flow can send.
fn best_effort_most(talker: &TalkerTask, duration_ns: u64) -> usize {
    let (num, den) = talker.rate;
    let bits = u128::from(num) * u128::from(duration_ns) / (u128::from(den.max(1)) * NS)
        + u128::from(talker.burst_bits);
    let frames = u64::try_from(bits / u128::from(talker.wire_bits.max(1))).unwrap_or(u64::MAX);
    usize::try_from(room(frames)).unwrap_or(usize::MAX)
}

/// Refuses a run whose samples do not fit into memory.
///
/// # Errors
/// [`LabError::TooLong`].
pub(crate) fn check_room(network: &Network, duration_ns: u64) -> Result<(), LabError> {
    let samples = network.streams.iter().fold(0_u64, |sum, stream| {
        let ends = 1 + stream.listeners.len() as u64;
        sum.saturating_add(frames_most(network, stream, duration_ns).saturating_mul(ends))
    });
    if samples > SAMPLES_MOST {
        return Err(LabError::TooLong {
            seconds: duration_ns / 1_000_000_000,
            samples,
            most: SAMPLES_MOST,
        });
    }
    Ok(())
}

/// Returns the assignments of all hosts that talk or listen. Identities are those of `plan`.
pub(crate) fn assignments(
    plan: &Plan,
    layout: &Layout,
    fabric: &Fabric,
    directory: &Path,
    (duration_ns, options): (u64, &SessionOptions),
) -> Result<Vec<Assignment>, SessionError> {
    let network = &plan.network;
    let options = &SessionOptions {
        peers: peers(network),
        ..options.clone()
    };
    let mut hosts = Hosts::new(network, fabric, directory, options.receive_path);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let phases = phases::of(plan, cores);
    for (index, stream) in network.streams.iter().enumerate() {
        let frames_most =
            usize::try_from(frames_most(network, stream, duration_ns)).unwrap_or(usize::MAX);
        let address = address(plan, layout, index, stream);
        let task = TalkerTask {
            address,
            frames_most,
            path: transmit::of(stream, options.path),
            stamps: true,
            phase_ns: phases.get(index).copied().unwrap_or(0),
            ..streams::talker(plan, &stream.name, options)?
        };
        hosts.talker(&stream.talker, task);
        for listener in &stream.listeners {
            let mut task = streams::listener(plan, &stream.name, listener, options)?;
            task.frames_most = frames_most;
            task.filler = true;
            if let Address::Udp { ip } = address {
                task.ip_group = Some(ip).filter(Ipv4Addr::is_multicast);
            }
            hosts.listener(listener, task);
        }
    }
    // Where a manager divides what is free, best effort is what unmodified programs send.
    let generated = match network.manager_host {
        None => streams::best_effort(plan, options),
        Some(_) => Vec::new(),
    };
    for flow in generated {
        let frames_most = best_effort_most(&flow.talker, duration_ns);
        let talker = TalkerTask {
            path: TxPath::Qdisc,
            stamps: true,
            frames_most,
            ..flow.talker
        };
        let listener = ListenerTask {
            frames_most,
            ..flow.listener
        };
        hosts.talker(&flow.host, talker);
        hosts.listener(&flow.to, listener);
    }
    Ok(hosts.done())
}

/// Returns the flows of a run: the plan's streams, and behind them its best-effort flows.
pub(crate) fn flows(plan: &Plan, fabric: &Fabric) -> Vec<Flow> {
    let network = &plan.network;
    let ports = |route: &Vec<String>| fabric.ports_of(network, route);
    let streams = network.streams.iter().map(|stream| {
        let planned = plan.streams.iter().find(|one| one.name == stream.name);
        Flow {
            key: planned.map_or(0, |one| one.identity.key),
            routes: stream.routes.iter().map(ports).collect(),
            to_node: None,
        }
    });
    let others = plan.best_effort.iter().map(|flow| Flow {
        key: flow.identity.key,
        routes: best_effort_route(network, flow)
            .map(ports)
            .into_iter()
            .collect(),
        to_node: network.manager_host.as_ref().and_then(|_| {
            let node = node_index(network, &flow.to)?;
            u16::try_from(node).ok()
        }),
    });
    streams.chain(others).collect()
}

/// Returns the route of a best-effort flow.
pub(crate) fn best_effort_route<'a>(
    network: &'a Network,
    flow: &BestEffortPlan,
) -> Option<&'a Vec<String>> {
    let mut allowances = network.best_effort.iter();
    let allowance = allowances.find(|one| one.name == flow.name)?;
    let way = allowance.to.iter().position(|to| *to == flow.to)?;
    allowance.routes.get(way)
}

/// Returns the addresses of all hosts of a lab.
fn peers(network: &Network) -> Vec<(String, PeerAddress)> {
    let hosts = network.hosts.iter().enumerate();
    let both = hosts.flat_map(|(node, host)| {
        [
            (host.name.clone(), PeerAddress::Mac(host_mac(node))),
            (host.name.clone(), PeerAddress::Ip(host_address(node))),
        ]
    });
    both.collect()
}

fn address(plan: &Plan, layout: &Layout, index: usize, stream: &Stream) -> Address {
    match (stream.transport, layout.destinations[index]) {
        (Transport::Udp, Reached::Host(node)) => Address::Udp {
            ip: host_address(node),
        },
        (_, Reached::Host(node)) => Address::Rtdip {
            mac: host_mac(node),
            vlan: stream.vlan,
        },
        (Transport::Udp, Reached::Group(_)) => Address::Udp {
            ip: ip_group(plan, index),
        },
        (_, Reached::Group(mac)) => Address::Rtdip {
            mac,
            vlan: stream.vlan,
        },
    }
}

/// Returns the ports that no stream and no allowance of a plan has.
fn free_ports(plan: &Plan) -> impl Iterator<Item = u16> {
    /// The first port to try.
    const FIRST: u16 = 50_000;
    let streams = plan.streams.iter().map(|one| one.identity.port);
    let others = plan.best_effort.iter().map(|one| one.identity.port);
    let taken: BTreeSet<u16> = streams.chain(others).collect();
    let all = (FIRST..=u16::MAX).chain(1..FIRST);
    all.filter(move |port| !taken.contains(port))
}

fn link_rate(network: &Network, node: &str) -> u64 {
    network
        .links
        .iter()
        .find(|link| link.ends.iter().any(|end| end == node))
        .map_or(0, |link| link.rate_bps)
}

/// The bursts on the unloaded network.
pub(crate) struct Bursts {
    pub(crate) assignments: Vec<Assignment>,
    pub(crate) flows: Vec<Flow>,
    /// The directory of their samples.
    pub(crate) directory: PathBuf,
}

/// Returns the assignments for the unloaded network: bursts on each route in use, one route after the other.
pub(crate) fn calibration(
    plan: &Plan,
    fabric: &Fabric,
    directory: &Path,
    duration_ns: u64,
) -> Bursts {
    let network = &plan.network;
    let mut hosts = Hosts::new(network, fabric, directory, ReceivePath::Packet);
    let mut ways: BTreeMap<(&str, &str), (&Stream, &[String])> = BTreeMap::new();
    for stream in &network.streams {
        for (listener, route) in stream.listeners.iter().zip(&stream.routes) {
            ways.entry((&stream.talker, listener))
                .or_insert((stream, route));
        }
    }
    let wire_bytes = 1514 + network.defaults.frame_overhead_bytes;
    let burst_ns = |route: &[String]| {
        let slowest = route
            .windows(2)
            .filter_map(|hop| network.link(&hop[0], &hop[1]))
            .map(|link| link.rate_bps)
            .min()
            .unwrap_or(1);
        let ns =
            u128::from(wire_bytes) * 8 * u128::from(BURST_FRAMES) * NS / u128::from(slowest.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    };
    let busy: u64 = ways.values().map(|(_, route)| burst_ns(route)).sum();
    // Twice the time the bursts take, so that each finds the network idle.
    let interval_ns = busy.saturating_mul(2).max(BURST_INTERVAL_LEAST_NS);
    let mut offset_ns = 0;
    let mut free = free_ports(plan);
    let headers = Transport::Rtdip.header_bytes(false);
    let mut flows = Vec::new();
    for (index, ((talker, listener), (stream, route))) in ways.iter().enumerate() {
        let key = u32::try_from(index + 1).unwrap_or(u32::MAX);
        flows.push(Flow {
            key,
            routes: vec![fabric.ports_of(network, route)],
            to_node: None,
        });
        let (Some(node), Some(port)) = (node_index(network, listener), free.next()) else {
            continue;
        };
        let most = room(duration_ns / interval_ns * u64::from(BURST_FRAMES));
        hosts.talker(
            talker,
            TalkerTask {
                stream: index,
                name: format!("calibration of {talker} to {listener}"),
                address: Address::Rtdip {
                    mac: host_mac(node),
                    vlan: None,
                },
                port,
                key,
                pcp: stream.pcp,
                newest: false,
                payload_bytes: usize::try_from(1514 - headers).unwrap_or(0),
                wire_bits: wire_bytes * 8,
                pattern: Pattern::Bursts {
                    frames: BURST_FRAMES,
                    interval_ns,
                    offset_ns,
                },
                rate: (0, 1),
                burst_bits: 0,
                shaping_interval_ns: 0,
                tick_error_ns: u64::MAX,
                frames_most: usize::try_from(most).unwrap_or(usize::MAX),
                realtime: REALTIME,
                path: TxPath::Qdisc,
                launch: None,
                phase_ns: 0,
                stamps: true,
                spin_margin: SpinMargin::Fixed { ns: 0 },
            },
        );
        hosts.listener(
            listener,
            ListenerTask {
                stream: index,
                name: String::new(),
                udp: false,
                port,
                key,
                newest: false,
                frames_most: usize::try_from(most).unwrap_or(usize::MAX),
                arrivals: 0,
                filler: true,
                reads_most: None,
                realtime: REALTIME,
                group: None,
                ip_group: None,
                polls: false,
                spin_ns: 0,
                police: None,
                contract: None,
            },
        );
        offset_ns += burst_ns(route)
            .saturating_mul(2)
            .max(BURST_INTERVAL_LEAST_NS / u64::try_from(ways.len()).unwrap_or(1).max(1));
    }
    Bursts {
        assignments: hosts.done(),
        flows,
        directory: directory.to_owned(),
    }
}

/// Assignments by host, as they grow.
struct Hosts<'a> {
    network: &'a Network,
    fabric: &'a Fabric,
    directory: String,
    receive_path: ReceivePath,
    all: BTreeMap<usize, Assignment>,
}

impl<'a> Hosts<'a> {
    fn new(
        network: &'a Network,
        fabric: &'a Fabric,
        directory: &Path,
        receive_path: ReceivePath,
    ) -> Self {
        Self {
            network,
            fabric,
            directory: directory.display().to_string(),
            receive_path,
            all: BTreeMap::new(),
        }
    }

    fn of(&mut self, host: &str) -> Option<&mut Assignment> {
        let node = node_index(self.network, host)?;
        Some(self.all.entry(node).or_insert_with(|| Assignment {
            host: host.to_owned(),
            namespace: self.fabric.namespace(node).name().to_owned(),
            interface: HOST_INTERFACE.to_owned(),
            talkers: Vec::new(),
            listeners: Vec::new(),
            receive_path: self.receive_path,
            directory: Some(self.directory.clone()),
            drain_ns: DRAIN_NS,
        }))
    }

    fn talker(&mut self, host: &str, task: TalkerTask) {
        if let Some(assignment) = self.of(host) {
            assignment.talkers.push(task);
        }
    }

    fn listener(&mut self, host: &str, task: ListenerTask) {
        if let Some(assignment) = self.of(host) {
            assignment.listeners.push(task);
        }
    }

    fn done(self) -> Vec<Assignment> {
        self.all.into_values().collect()
    }
}
