//! Makes the tasks of a stream's talker and listeners from the plan, wherever they run.

use std::time::Duration;

use rtwire_channel::TxPath;
use rtwire_plan::identity::{BestEffortPlan, Destination};
use rtwire_plan::{
    BestEffort, ContractKind, Plan, Ratio, Semantics, Stream, StreamPlan, Transport,
};

use crate::error::SessionError;
use crate::margin::SpinMargin;
use crate::options::{PeerAddress, SessionOptions};
use crate::task::{Address, ContractTerms, ListenerTask, Pattern, TalkerTask};

/// The default SCHED_FIFO priority of a stream's threads: below the noise record, above everything ordinary.
pub const REALTIME: u8 = 80;
/// The least time between two turns of best effort, where its burst permits more than one frame, ns.
const TURN_LEAST_NS: u128 = 250_000;
/// The tolerance in ns, beside contract and promise, before a stream's frames count as too frequent. Talkers' clocks and
/// their scheduling are not exact.
const CONTRACT_MARGIN_NS: u64 = 10_000_000;

/// Returns a ratio as two 64-bit numbers.
fn small(ratio: Ratio) -> (u64, u64) {
    let part = |value: i128| u64::try_from(value).unwrap_or(u64::MAX);
    (part(ratio.num()), part(ratio.den()))
}

/// Returns the stream `name` of a plan: its index in the network, its description, its plan.
pub(crate) fn of<'a>(plan: &'a Plan, name: &str) -> Option<(usize, &'a Stream, &'a StreamPlan)> {
    let planned = plan.streams.iter().find(|one| one.name == name)?;
    let streams = &plan.network.streams;
    let index = streams.iter().position(|one| one.name == name)?;
    Some((index, &streams[index], planned))
}

/// Returns the address that the options name for a host, if any.
fn peer(options: &SessionOptions, host: &str, udp: bool) -> Option<PeerAddress> {
    let given = options.peers.iter().rev();
    let mut given = given.filter(|(name, _)| name == host);
    given
        .find(|(_, address)| matches!(address, PeerAddress::Ip(_)) == udp)
        .map(|(_, address)| *address)
}

/// Returns the destination of a stream's frames: its own group, or the address in the options for its only listener.
fn address(
    options: &SessionOptions,
    stream: &Stream,
    planned: &StreamPlan,
) -> Result<Address, SessionError> {
    let single = match stream.listeners.as_slice() {
        [listener] => Some(listener),
        _ => None,
    };
    let udp = stream.transport == Transport::Udp;
    let given = single.and_then(|listener| peer(options, listener, udp));
    let vlan = planned.identity.vlan;
    match (given, &planned.identity.destination) {
        (Some(PeerAddress::Mac(mac)), _) => Ok(Address::Rtdip { mac, vlan }),
        (Some(PeerAddress::Ip(ip)), _) => Ok(Address::Udp { ip }),
        (None, Destination::Group { mac }) => Ok(Address::Rtdip { mac: *mac, vlan }),
        (None, Destination::Multicast { ip }) => Ok(Address::Udp { ip: *ip }),
        (None, Destination::Peer { host }) => Err(SessionError::NoAddress {
            stream: stream.name.clone(),
            listener: host.clone(),
        }),
    }
}

/// Returns the task of a stream's talker. It keeps no timestamps.
///
/// # Errors
/// There is no such stream; the address for its datagrams is missing.
pub fn talker(
    plan: &Plan,
    name: &str,
    options: &SessionOptions,
) -> Result<TalkerTask, SessionError> {
    let (index, stream, planned) =
        of(plan, name).ok_or_else(|| SessionError::no_such_stream(plan, name))?;
    if stream.contract.kind.frames() > 1 {
        return Err(SessionError::SeveralFrames {
            stream: stream.name.clone(),
        });
    }
    let identity = &planned.identity;
    Ok(TalkerTask {
        stream: index,
        name: stream.name.clone(),
        address: address(options, stream, planned)?,
        port: identity.port,
        key: identity.key,
        pcp: identity.pcp,
        newest: stream.semantics == Semantics::Newest,
        payload_bytes: usize::try_from(stream.payload_bytes).unwrap_or(usize::MAX),
        wire_bits: stream.wire_bytes * 8,
        pattern: match stream.contract.kind {
            _ if !stream.shaped => Pattern::Greedy,
            ContractKind::Interval { interval_ns, .. } => Pattern::Cyclic { interval_ns },
            ContractKind::Rate | ContractKind::Declared => Pattern::Saturating,
        },
        rate: small(stream.contract.rate),
        burst_bits: stream.contract.burst_bits,
        shaping_interval_ns: stream.contract.shaping_interval_ns,
        tick_error_ns: stream.contract.tick_error_ns,
        frames_most: 0,
        realtime: options.realtime_of(identity.pcp),
        path: path(options.path, stream),
        launch: planned
            .launch
            .as_ref()
            .map(|launch| (launch.offset_ns, launch.period_ns)),
        phase_ns: 0,
        stamps: false,
        spin_margin: spin_margin(plan, stream, options),
    })
}

/// Returns the spinning of a stream's talker. Talkers of one machine share its cores.
fn spin_margin(plan: &Plan, stream: &Stream, options: &SessionOptions) -> SpinMargin {
    let interval_of = |stream: &Stream| match stream.contract.kind {
        ContractKind::Interval { interval_ns, .. } if stream.shaped => Some(interval_ns),
        _ => None,
    };
    match (options.spin_margin, interval_of(stream)) {
        (Some(fixed), Some(_)) => SpinMargin::Fixed { ns: ns(fixed) },
        (None, Some(interval_ns)) => {
            let streams = plan.network.streams.iter();
            let beside = |one: &&Stream| options.one_machine || one.talker == stream.talker;
            let cyclic = streams.filter(|one| beside(one) && interval_of(one).is_some());
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            SpinMargin::measured(interval_ns, cyclic.count(), cores)
        }
        (_, None) => SpinMargin::Fixed { ns: 0 },
    }
}

/// Returns the transmit path of a stream where the options ask for `wanted`.
///
/// Launch times are for cyclic streams. Datagrams take the queueing discipline, with or without launch times.
fn path(wanted: TxPath, stream: &Stream) -> TxPath {
    let cyclic = stream.shaped && matches!(stream.contract.kind, ContractKind::Interval { .. });
    match (wanted, stream.transport) {
        (path, _) if path.has_launch_times() && !cyclic => TxPath::Qdisc,
        (TxPath::Launch(mode), _) => TxPath::Launch(mode),
        (_, Transport::Udp) => TxPath::Qdisc,
        (path, Transport::Rtdip) => path,
    }
}

/// Returns the task of the listener of a stream at `host`.
///
/// # Errors
/// There is no such stream.
pub fn listener(
    plan: &Plan,
    name: &str,
    host: &str,
    options: &SessionOptions,
) -> Result<ListenerTask, SessionError> {
    let (index, stream, planned) =
        of(plan, name).ok_or_else(|| SessionError::no_such_stream(plan, name))?;
    let identity = &planned.identity;
    let promises = planned.promises.iter();
    let promise_ns = promises
        .filter(|promise| promise.listener == host)
        .find_map(|promise| promise.delay_ns);
    Ok(ListenerTask {
        stream: index,
        name: stream.name.clone(),
        udp: stream.transport == Transport::Udp,
        port: identity.port,
        key: identity.key,
        newest: stream.semantics == Semantics::Newest,
        frames_most: 0,
        arrivals: match stream.semantics {
            Semantics::Newest => options.arrivals,
            Semantics::Queue => 0,
        },
        filler: false,
        reads_most: None,
        realtime: options.realtime_of(identity.pcp),
        group: match identity.destination {
            Destination::Group { mac } => Some(mac),
            _ => None,
        },
        ip_group: match identity.destination {
            Destination::Multicast { ip } => Some(ip),
            _ => None,
        },
        polls: options.polls,
        spin_ns: ns(options.spin),
        police: options.police.and_then(|margin| {
            let overhead = plan.network.defaults.frame_overhead_bytes;
            police(stream, promise_ns?, ns(margin), overhead)
        }),
        contract: stream.shaped.then(|| ContractTerms {
            rate: small(stream.contract.rate),
            burst_bits: stream.contract.burst_bits,
            margin_ns: promise_ns.unwrap_or(0).saturating_add(CONTRACT_MARGIN_NS),
            frame_bits: stream.wire_bytes * 8,
            payload_bytes: usize::try_from(stream.payload_bytes).unwrap_or(usize::MAX),
        }),
    })
}

/// Returns a duration in whole ns.
pub(crate) fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the limits beyond which a listener drops frames: bit/s, bits at once, bytes of overhead for a frame.
///
/// Traffic that leaves the talker at no more than `b + r t`, with a delay between 0 and `D`, arrives at no more than
/// `b + r D + r t`. Here `D` is the promise plus `margin_ns`, for hosts that are late.
fn police(
    stream: &Stream,
    delay_ns: u64,
    margin_ns: u64,
    overhead_bytes: u64,
) -> Option<(u64, u64, u16)> {
    if !stream.shaped {
        return None;
    }
    let (num, den) = small(stream.contract.rate);
    let den = u128::from(den.max(1));
    let late_ns = u128::from(delay_ns) + u128::from(margin_ns);
    let late_bits = (u128::from(num) * late_ns).div_ceil(den * 1_000_000_000);
    let part = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
    Some((
        part(u128::from(num).div_ceil(den)).max(1),
        part(u128::from(stream.contract.burst_bits) + late_bits),
        u16::try_from(overhead_bytes).unwrap_or(u16::MAX),
    ))
}

/// Traffic without a promise from one host to another.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The host that sends.
    pub host: String,
    /// The host that receives.
    pub to: String,
    /// The talker's task.
    pub talker: TalkerTask,
    /// The listener's task.
    pub listener: ListenerTask,
}

/// Returns all best effort of a plan, numbered behind its streams.
#[must_use]
pub fn best_effort(plan: &Plan, options: &SessionOptions) -> Vec<Flow> {
    let flow = |(index, planned): (usize, &BestEffortPlan)| {
        let allowances = plan.network.best_effort.iter();
        let allowance = allowances
            .into_iter()
            .find(|allowance| allowance.name == planned.name)?;
        let identity = &planned.identity;
        let group = match identity.destination {
            Destination::Group { mac } => Some(mac),
            _ => None,
        };
        let mac = match peer(options, &planned.to, false) {
            Some(PeerAddress::Mac(mac)) => mac,
            _ => group?,
        };
        let headers = Transport::Rtdip.header_bytes(false);
        let share = u64::try_from(allowance.to.len()).unwrap_or(1).max(1);
        let (num, den) = small(allowance.rate);
        let name = allowance.name.clone();
        let receiver = allowance.to.iter().position(|to| *to == planned.to);
        Some(Flow {
            host: allowance.host.clone(),
            to: planned.to.clone(),
            talker: TalkerTask {
                stream: index,
                name: name.clone(),
                address: Address::Rtdip { mac, vlan: None },
                port: identity.port,
                key: identity.key,
                pcp: 0,
                newest: false,
                payload_bytes: usize::try_from(allowance.frame_bytes.saturating_sub(headers))
                    .unwrap_or(0),
                wire_bits: allowance.wire_bytes * 8,
                pattern: best_effort_pattern(allowance, receiver.unwrap_or(0)),
                // The allowance is for all receivers together.
                rate: (num, den.saturating_mul(share)),
                burst_bits: (u64::try_from(allowance.burst.ceil()).unwrap_or(u64::MAX) / share)
                    .max(allowance.wire_bytes * 8),
                shaping_interval_ns: plan.network.defaults.shaping_interval_ns,
                tick_error_ns: plan.network.defaults.tick_error_ns,
                frames_most: 0,
                realtime: options.realtime_of(0),
                path: if options.path.has_launch_times() {
                    TxPath::Qdisc
                } else {
                    options.path
                },
                launch: None,
                phase_ns: 0,
                stamps: false,
                spin_margin: SpinMargin::Fixed { ns: 0 },
            },
            listener: ListenerTask {
                stream: index,
                name,
                udp: false,
                port: identity.port,
                key: identity.key,
                newest: false,
                frames_most: 0,
                arrivals: 0,
                filler: false,
                reads_most: None,
                realtime: options.realtime_of(0),
                group,
                ip_group: None,
                polls: false,
                spin_ns: ns(options.spin),
                police: None,
                contract: None,
            },
        })
    };
    let behind = plan.network.streams.len()..;
    behind.zip(&plan.best_effort).filter_map(flow).collect()
}

/// Returns the times at which an allowance's talker sends to its `receiver`-th receiver.
///
/// The receivers take turns, so that all of them together keep one burst and one rate. A receiver's turn is one frame, or
/// as many as the burst permits where frames would be closer than [`TURN_LEAST_NS`].
fn best_effort_pattern(allowance: &BestEffort, receiver: usize) -> Pattern {
    const NS: u128 = 1_000_000_000;
    let bits = u128::from(allowance.wire_bytes.max(1)) * 8;
    let (num, den) = small(allowance.rate);
    let (num, den) = (u128::from(num.max(1)), u128::from(den.max(1)));
    let permitted = u128::try_from(allowance.burst.ceil()).unwrap_or(0) / bits;
    let wanted = (TURN_LEAST_NS * num).div_ceil(bits * den * NS);
    let frames = wanted.clamp(1, permitted.clamp(1, 1_000));
    let turn_ns = u64::try_from((frames * bits * den * NS).div_ceil(num)).unwrap_or(u64::MAX);
    let receivers = allowance.to.len().max(1) as u64;
    Pattern::Bursts {
        frames: u32::try_from(frames).unwrap_or(1),
        interval_ns: turn_ns.saturating_mul(receivers).max(1),
        offset_ns: turn_ns.saturating_mul(receiver as u64),
    }
}

/// Returns the number of frames of `wire_bytes` at a rate in bit/s on the wire in a time, rounded down.
#[must_use]
pub fn frames_in(rate: Ratio, wire_bytes: u64, duration_ns: u64) -> u64 {
    let num = u128::try_from(rate.num()).unwrap_or(0);
    let den = u128::try_from(rate.den()).unwrap_or(1).max(1);
    let bits = num.saturating_mul(duration_ns.into()) / den / 1_000_000_000;
    u64::try_from(bits / (u128::from(wire_bytes.max(1)) * 8)).unwrap_or(u64::MAX)
}

/// Returns the number of frames that a stream's talker is to send in a time.
#[must_use]
pub fn frames_planned(stream: &Stream, duration_ns: u64) -> u64 {
    match stream.contract.kind {
        _ if !stream.shaped => 0,
        ContractKind::Interval { interval_ns, .. } => duration_ns.div_ceil(interval_ns.max(1)),
        ContractKind::Rate | ContractKind::Declared => {
            frames_in(stream.contract.rate, stream.wire_bytes, duration_ns)
        }
    }
}
