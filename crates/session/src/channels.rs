//! Opens the channels of tasks. One mapping from a task to its channel, for programs, `rtwire run` and the lab alike.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rtwire_channel::{
    CardTime, ChannelError, Endpoint, EndpointConfig, ListenerConfig, ListenerPath,
    ListenerStatistics, ListenerTransport, NewestListener, PathInUse, Police, QueueListener,
    ReceivePath, Semantics, Shaper, ShaperConfig, Talker, TalkerConfig, Transport, TxStamping,
    WakeUp,
};
use rtwire_wire::{MacAddress, Pcp, VlanTag};

use crate::error::SessionError;
use crate::task::{Address, Assignment, ListenerTask, TalkerTask};

/// Frames that may wait in the kernel for a listener that is held up: at the highest rates some 100 ms.
const QUEUE_FRAMES: usize = 1_024;
/// The time for which a listener that polls does so before it sleeps.
const POLL: Duration = Duration::from_micros(100);

/// Opens the interface of an assignment for its listeners.
pub(crate) fn endpoint(
    assignment: &Assignment,
    card: Option<&Arc<CardTime>>,
) -> Result<Endpoint, ChannelError> {
    let wanted = assignment.receive_path;
    let in_program = |task: &ListenerTask| in_program(wanted, task);
    let config = EndpointConfig {
        // A program that nobody would use is not attached.
        path: match assignment.listeners.iter().any(in_program) {
            true => wanted,
            false => ReceivePath::Packet,
        },
        ..EndpointConfig::new(assignment.interface.as_str())
    };
    match card {
        None => Endpoint::with(&config),
        Some(card) => Endpoint::with_card(&config, Arc::clone(card)),
    }
}

/// Opens the interface of an assignment for listeners whose sockets come from the agent: needs no privilege.
pub(crate) fn plain_endpoint(assignment: &Assignment) -> Result<Endpoint, ChannelError> {
    Endpoint::with(&EndpointConfig {
        path: ReceivePath::Packet,
        ..EndpointConfig::new(assignment.interface.as_str())
    })
}

/// Returns true where the frames of a listener come through the receive program, if it is to be had, or the module `uman`.
fn in_program(path: ReceivePath, task: &ListenerTask) -> bool {
    let semantics = match task.newest {
        true => Semantics::Newest,
        false => Semantics::Queue,
    };
    match path {
        ReceivePath::Packet => false,
        ReceivePath::Native | ReceivePath::Generic | ReceivePath::Uman => !task.udp,
        ReceivePath::Auto => listener_config(task).suits_program(semantics),
    }
}

fn listener_config(task: &ListenerTask) -> ListenerConfig {
    ListenerConfig {
        key: task.key,
        transport: if task.udp {
            let local = task.ip_group.unwrap_or(Ipv4Addr::UNSPECIFIED);
            ListenerTransport::Udp(SocketAddrV4::new(local, task.port))
        } else {
            ListenerTransport::Rtdip
        },
        wake_up: match task.spin_ns {
            0 => WakeUp::Block,
            ns => WakeUp::SpinThenBlock(Duration::from_nanos(ns)),
        },
        queue_frames: QUEUE_FRAMES,
        arrivals: task.arrivals,
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

/// A listener of either kind.
#[derive(Debug)]
pub(crate) enum Inbox {
    Queue(QueueListener),
    Newest(NewestListener),
}

impl Inbox {
    /// Opens the listener of a task; `wanted` is the receive path that was asked for.
    pub(crate) fn open(
        endpoint: &Endpoint,
        wanted: ReceivePath,
        task: &ListenerTask,
    ) -> Result<(Self, ListenerPath), ChannelError> {
        let config = listener_config(task);
        let mut inbox = if task.newest {
            Self::Newest(endpoint.newest_listener(&config)?)
        } else {
            Self::Queue(endpoint.queue_listener(&config)?)
        };
        if task.polls {
            match &mut inbox {
                Self::Queue(listener) => listener.busy_poll(POLL),
                Self::Newest(listener) => listener.busy_poll(POLL),
            }?;
        }
        let path = match &inbox {
            Self::Queue(listener) => listener.path_in_use(),
            Self::Newest(listener) => listener.path_in_use(),
        };
        // Where nobody on this host wants the program, none is attached, and only this one knows why.
        let chosen = wanted == ReceivePath::Auto && path.path == PathInUse::Packet;
        let path = match &path.why {
            None if chosen => ListenerPath::packet_by_choice(),
            _ => path.clone(),
        };
        Ok((inbox, path))
    }

    /// Opens the listener of a task at a socket of the agent.
    pub(crate) fn open_by_agent(
        endpoint: &Endpoint,
        task: &ListenerTask,
        socket: OwnedFd,
    ) -> Result<(Self, ListenerPath), ChannelError> {
        let config = listener_config(task);
        Ok(if task.newest {
            let listener = endpoint.newest_listener_of_agent(&config, socket)?;
            let path = listener.path_in_use().clone();
            (Self::Newest(listener), path)
        } else {
            let listener = endpoint.queue_listener_of_agent(&config, socket)?;
            let path = listener.path_in_use().clone();
            (Self::Queue(listener), path)
        })
    }

    /// Waits for a value that was not read yet.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, ChannelError> {
        match self {
            Self::Queue(listener) => listener.wait(timeout),
            Self::Newest(listener) => listener.wait(timeout),
        }
    }

    pub(crate) fn statistics(&mut self) -> Result<ListenerStatistics, ChannelError> {
        match self {
            Self::Queue(listener) => listener.statistics(),
            Self::Newest(listener) => listener.statistics(),
        }
    }
}

/// Opens the channel of a talker's task. The kernel stamps what it sends where that is asked for and the path allows it.
/// The card does, too, if there is one.
pub(crate) fn talker(
    interface: &str,
    task: &TalkerTask,
    card: Option<&Arc<CardTime>>,
) -> Result<Talker, SessionError> {
    let config = talker_config(interface, task, card)?;
    Talker::open(&config).map_err(|source| failed(task, source))
}

/// Opens the channel of a talker's task at a socket of the agent.
pub(crate) fn talker_by_agent(
    interface: &str,
    task: &TalkerTask,
    socket: OwnedFd,
) -> Result<Talker, SessionError> {
    let config = talker_config(interface, task, None)?;
    Talker::of_agent(&config, socket).map_err(|source| failed(task, source))
}

fn failed(task: &TalkerTask, source: ChannelError) -> SessionError {
    SessionError::Channel {
        stream: task.name.clone(),
        source,
    }
}

fn talker_config(
    interface: &str,
    task: &TalkerTask,
    card: Option<&Arc<CardTime>>,
) -> Result<TalkerConfig, SessionError> {
    let wrong = |what: &str| SessionError::Values {
        stream: task.name.clone(),
        what: what.to_owned(),
    };
    let pcp = Pcp::new(task.pcp).ok_or_else(|| wrong("its priority is above 7"))?;
    let transport = match task.address {
        Address::Rtdip { mac, vlan } => Transport::Rtdip {
            destination: MacAddress(mac),
            vlan: match vlan {
                Some(id) => {
                    let tag = VlanTag::new(pcp, id);
                    Some(tag.ok_or_else(|| wrong("its VLAN id is above 4094"))?)
                }
                None => None,
            },
        },
        Address::Udp { ip } => Transport::udp(ip, task.port),
    };
    Ok(TalkerConfig {
        pcp,
        key: task.key,
        semantics: if task.newest {
            Semantics::Newest
        } else {
            Semantics::Queue
        },
        source_port: task.port,
        path: task.path,
        stamping: (stamped_by_kernel(task) || card.is_some()).then_some(TxStamping {
            queue: stamped_by_kernel(task),
            driver: false,
            card: card.is_some(),
        }),
        card: card.cloned(),
        ..TalkerConfig::new(interface, transport, task.port)
    })
}

/// Returns true where the kernel stamps the frames of a talker.
pub(crate) fn stamped_by_kernel(task: &TalkerTask) -> bool {
    task.stamps && !task.path.goes_past_the_queue()
}

/// The token bucket of a talker's contract, with ticks of `interval_ns` from `epoch_ns` on.
pub(crate) fn shaper(task: &TalkerTask, epoch_ns: u64, interval_ns: u64) -> Shaper {
    Shaper::new(ShaperConfig {
        epoch_ns,
        ..ShaperConfig::with_burst(task.rate, task.burst_bits, interval_ns, task.tick_error_ns)
    })
}
