//! What a stream asks of its talker and of its listeners, wherever they run.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use rtwire_channel::{ListenerConfig, ListenerTransport, Police, ReceivePath, WakeUp};
use rtwire_plan::{ContractKind, Network, Plan, Ratio, Semantics, Stream, Transport};

use crate::assignment::{Address, Assignment, ListenerTask, Pattern, TalkerTask, TransmitPath};

/// Where to look for a free port for traffic that is no stream: best effort, calibration.
const FIRST_OTHER_PORT: u16 = 50_000;
/// Frames that may wait in the kernel for a listener that is held up: at the highest rates some 100 ms.
const QUEUE_FRAMES: usize = 1_024;
/// Priority of talkers and listeners (SCHED_FIFO): below the noise record, above everything ordinary.
pub(crate) const REALTIME: u8 = 80;

pub(crate) fn small(ratio: Ratio) -> (u64, u64) {
    let part = |value: i128| u64::try_from(value).unwrap_or(u64::MAX);
    (part(ratio.num()), part(ratio.den()))
}

/// The group address of a stream, or of what comes behind the streams: the same on every host of a network.
pub(crate) fn group(index: usize) -> [u8; 6] {
    let [high, low] = u16::try_from(index).unwrap_or(u16::MAX).to_be_bytes();
    // Group bit and local bit set; the rest tells our frames from others' in a capture.
    [0x03, 0x72, 0x74, 0x02, high, low]
}

/// The same for datagrams: in the range that an organisation may use as it likes (RFC 2365).
pub(crate) fn group_ip(index: usize) -> Ipv4Addr {
    let [high, low] = u16::try_from(index).unwrap_or(u16::MAX).to_be_bytes();
    Ipv4Addr::new(239, 192, high, low)
}

/// Ports that no stream has.
pub(crate) fn free_ports(network: &Network) -> impl Iterator<Item = u16> {
    (FIRST_OTHER_PORT..=u16::MAX)
        .chain(1..FIRST_OTHER_PORT)
        .filter(|port| network.streams.iter().all(|stream| stream.port != *port))
}

/// The talker of stream `index`.
pub(crate) fn talker(
    index: usize,
    stream: &Stream,
    address: Address,
    frames_most: usize,
) -> TalkerTask {
    TalkerTask {
        stream: index,
        name: stream.name.clone(),
        address,
        port: stream.port,
        pcp: stream.pcp,
        newest: stream.semantics == Semantics::Newest,
        payload_bytes: usize::try_from(stream.payload_bytes).unwrap_or(usize::MAX),
        wire_bits: stream.wire_bytes * 8,
        pattern: match stream.contract.kind {
            _ if !stream.shaped => Pattern::Greedy,
            ContractKind::Interval { interval_ns } => Pattern::Cyclic { interval_ns },
            ContractKind::Rate | ContractKind::Declared => Pattern::Saturating,
        },
        rate: small(stream.contract.rate),
        burst_bits: stream.contract.burst_bits,
        shaping_interval_ns: stream.contract.shaping_interval_ns,
        tick_error_ns: stream.contract.tick_error_ns,
        frames_most,
        realtime: REALTIME,
        path: TransmitPath::Qdisc,
        launch: None,
        stamps: true,
    }
}

/// A listener of stream `index`.
pub(crate) fn listener(index: usize, stream: &Stream, frames_most: usize) -> ListenerTask {
    ListenerTask {
        stream: index,
        name: stream.name.clone(),
        udp: stream.transport == Transport::Udp,
        port: stream.port,
        newest: stream.semantics == Semantics::Newest,
        frames_most,
        reads_most: None,
        realtime: REALTIME,
        group: (stream.transport == Transport::Udp && stream.listeners.len() > 1)
            .then(|| group_ip(index)),
        polls: false,
        spin_ns: 0,
        police: None,
    }
}

impl ListenerTask {
    /// Has the listener look again and again for so long before it sleeps.
    pub(crate) fn spin(&mut self, time: Duration) {
        self.spin_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    }
}

/// How the listener of a task is opened.
pub(crate) fn listener_config(task: &ListenerTask) -> ListenerConfig {
    ListenerConfig {
        transport: if task.udp {
            let local = task.group.unwrap_or(Ipv4Addr::UNSPECIFIED);
            ListenerTransport::Udp(SocketAddrV4::new(local, task.port))
        } else {
            ListenerTransport::Rtdip
        },
        wake_up: match task.spin_ns {
            0 => WakeUp::Block,
            ns => WakeUp::SpinThenBlock(Duration::from_nanos(ns)),
        },
        queue_frames: QUEUE_FRAMES,
        police: task
            .police
            .map(|(rate_bps, burst_bits, overhead_octets)| Police {
                rate_bps,
                burst_bits,
                overhead_octets,
            }),
        ..ListenerConfig::new(task.port)
    }
}

/// Holds the listeners of a host to their streams' contracts. What leaves the talker at no more than `b + r t` arrives, after a
/// delay between nothing and `D`, at no more than `b + r D + r t`; `D` is the promise and `margin_ns`, for hosts that are late.
pub(crate) fn police(assignment: &mut Assignment, network: &Network, plan: &Plan, margin_ns: u64) {
    for task in &mut assignment.listeners {
        let stream = network.streams.get(task.stream);
        let planned = plan.streams.iter().find(|one| one.name == task.name);
        let promise = planned.and_then(|one| {
            let mut promises = one.promises.iter();
            promises.find(|promise| promise.listener == assignment.host)
        });
        let delay_ns = promise.and_then(|promise| promise.delay_ns);
        let (Some(stream), Some(delay_ns)) = (stream.filter(|one| one.shaped), delay_ns) else {
            continue;
        };
        let (num, den) = small(stream.contract.rate);
        let den = u128::from(den.max(1));
        let late_ns = u128::from(delay_ns) + u128::from(margin_ns);
        let late_bits = (u128::from(num) * late_ns).div_ceil(den * 1_000_000_000);
        let part = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
        task.police = Some((
            part(u128::from(num).div_ceil(den)).max(1),
            part(u128::from(stream.contract.burst_bits) + late_bits),
            u16::try_from(network.defaults.frame_overhead_bytes).unwrap_or(u16::MAX),
        ));
    }
}

/// Whether the frames of a listener come through the receive program, where it is to be had.
pub(crate) fn in_program(path: ReceivePath, task: &ListenerTask) -> bool {
    let semantics = match task.newest {
        true => rtwire_channel::Semantics::Newest,
        false => rtwire_channel::Semantics::Queue,
    };
    match path {
        ReceivePath::Packet => false,
        ReceivePath::Native | ReceivePath::Generic => !task.udp,
        ReceivePath::Auto => listener_config(task).suits_program(semantics),
    }
}

/// Traffic without a promise from one host to another.
pub(crate) struct Flow {
    pub(crate) host: String,
    pub(crate) to: String,
    pub(crate) talker: TalkerTask,
    pub(crate) listener: ListenerTask,
}

/// All best effort of a network, numbered behind its streams; `address` says where to.
pub(crate) fn best_effort(
    network: &Network,
    address: impl Fn(usize, &str) -> Option<Address>,
) -> Vec<Flow> {
    let mut free = free_ports(network);
    let ways = network.best_effort.iter().flat_map(|allowance| {
        let to = allowance.to.iter();
        to.map(move |to| (allowance, to))
    });
    let mut flows = Vec::new();
    for (index, (allowance, to)) in (network.streams.len()..).zip(ways) {
        let (Some(address), Some(port)) = (address(index, to), free.next()) else {
            continue;
        };
        let headers = Transport::Rtdip.header_bytes(false);
        let share = u64::try_from(allowance.to.len()).unwrap_or(1).max(1);
        let (num, den) = small(allowance.rate);
        flows.push(Flow {
            host: allowance.host.clone(),
            to: to.clone(),
            talker: TalkerTask {
                stream: index,
                name: allowance.name.clone(),
                address,
                port,
                pcp: 0,
                newest: false,
                payload_bytes: usize::try_from(allowance.frame_bytes.saturating_sub(headers))
                    .unwrap_or(0),
                wire_bits: allowance.wire_bytes * 8,
                pattern: Pattern::Saturating,
                // The allowance is for all receivers together.
                rate: (num, den.saturating_mul(share)),
                burst_bits: (u64::try_from(allowance.burst.ceil()).unwrap_or(u64::MAX) / share)
                    .max(allowance.wire_bytes * 8),
                shaping_interval_ns: network.defaults.shaping_interval_ns,
                tick_error_ns: network.defaults.tick_error_ns,
                frames_most: 0,
                realtime: REALTIME,
                path: TransmitPath::Qdisc,
                launch: None,
                stamps: true,
            },
            listener: ListenerTask {
                stream: index,
                name: allowance.name.clone(),
                udp: false,
                port,
                newest: false,
                frames_most: 0,
                reads_most: None,
                realtime: REALTIME,
                group: None,
                polls: false,
                spin_ns: 0,
                police: None,
            },
        });
    }
    flows
}
