//! One host of a real network: its streams of a description, on an interface of this machine.
//!
//! ```text
//!  Network, host ─► duties: talkers and listeners ─► a thread each, SCHED_FIFO by the stream's priority
//!                                                 └► receive work: a NAPI thread as urgent as its most urgent reader
//! ```
//!
//! The same work as one host of a lab, without the lab: nothing is brought up, emulated or calibrated, and since one host
//! sees its own end only, nothing is judged but what that end can know: numbers that did not come, frames without room.

mod report;
mod time;
mod transmit;

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rtwire_channel::ReceivePath;
use rtwire_host::HostError;
use rtwire_host::napi::{NapiDeferral, NapiPriority, NapiThreads};
use rtwire_plan::{Network, Plan, Stream, Transport};
use rtwire_sys::clock::{self, Clock};
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::sched::thread::Want;
use rtwire_sys::{ErrorKind, interface};

use crate::assignment::{
    Address, Assignment, ListenerTask, Order, Pattern, TalkerTask, TransmitPath,
};
use crate::duties;
use crate::worker::{Schedule, Work};

pub use report::{ListenerRow, StationReport, TalkerRow, Verdict, json_schema};
pub use time::NetworkTime;

/// From opening to the first frame: time stamping in the kernel begins some time after it is asked for.
const SETTLE_NS: u64 = 500_000_000;
/// Talkers begin at a whole multiple of this, so that hosts whose clocks agree have one grid.
const GRID_NS: u64 = 100_000_000;
/// How long frames may be on their way after the talkers' end.
const DRAIN_NS: u64 = 300_000_000;
/// Deferred interrupts come back after so many empty polls, and the kernel polls by itself after so long without one.
const EMPTY_POLLS: u32 = 1_000;
const FLUSH_NS: u32 = 5_000_000;

/// Who does the receive work of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveWork {
    /// A thread where the driver has receive contexts, else the soft interrupt.
    Automatic,
    /// The soft interrupt, above every task.
    SoftInterrupt,
    /// A thread of the kernel, as urgent as the most urgent listener here.
    Thread,
    /// The listeners' own calls. UDP streams only.
    Poll,
}

/// How a peer is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerAddress {
    /// By its interface's address, for RTDiP streams with one listener.
    Mac([u8; 6]),
    /// By IPv4, for UDP streams with one listener.
    Ip(Ipv4Addr),
}

/// What to run.
#[derive(Clone, Debug)]
pub struct StationOptions {
    /// The network, checked.
    pub network: Network,
    /// Its plan.
    pub plan: Plan,
    /// Which of its hosts this machine is.
    pub host: String,
    /// The interface that is this host's link.
    pub interface: String,
    /// Addresses of peers, by name; those that none is given for are reached by the group address of each stream.
    pub peers: Vec<(String, PeerAddress)>,
    /// How long; `None`: until it is stopped.
    pub duration: Option<Duration>,
    /// The way out. With [`TransmitPath::Launch`] and [`TransmitPath::XdpLaunch`] streams of an interval have launch times, all
    /// else the queueing discipline.
    pub path: TransmitPath,
    /// The way frames come to this host's listeners.
    pub receive_path: ReceivePath,
    /// How long listeners look again and again before they sleep; zero: they sleep at once.
    pub spin: Duration,
    /// Whether listeners drop what is beyond their streams' contracts; so much is granted for hosts that are late.
    pub police: Option<Duration>,
    /// Who does the receive work.
    pub receive: ReceiveWork,
    /// SCHED_FIFO priority of the thread of a stream of priority 7; a stream of priority p has `realtime - 7 + p`. 8 to 99.
    pub realtime: u8,
    /// Whether best effort is sent and received as well.
    pub best_effort: bool,
    /// Whether it is run even where the plan's promises would not hold.
    pub no_admission: bool,
}

/// Why a host's part could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StationError {
    /// The network has no such host.
    #[error("the network has no host `{host}`; its hosts are {}", others.join(", "))]
    NoSuchHost {
        /// What was asked for.
        host: String,
        /// Those there are.
        others: Vec<String>,
    },
    /// The host neither talks nor listens.
    #[error("host `{0}` has nothing to do: it is neither talker nor listener of any stream")]
    Idle(String),
    /// Nothing tells where a UDP stream goes to.
    #[error(
        "stream `{stream}` goes over UDP to `{listener}`: say where that is with --peer {listener}=ADDRESS"
    )]
    NoAddress {
        /// The stream.
        stream: String,
        /// Its listener.
        listener: String,
    },
    /// An address for a host that there is not.
    #[error("--peer {0}: the network has no such host")]
    NoSuchPeer(String),
    /// Listeners of frames cannot poll.
    #[error(
        "stream `{0}` is no UDP stream: packet sockets cannot poll the driver; choose another way to receive"
    )]
    CannotPoll(String),
    /// A way out by which the plan's promises would not hold.
    #[error(
        "--path {path}: frames would go past {why} at interface `{interface}`, which the plan's promises count on; send by \
         `qdisc` (--no-admission runs it all the same)"
    )]
    PastTheQueue {
        /// The way out.
        path: &'static str,
        /// The interface.
        interface: String,
        /// What it goes past.
        why: String,
    },
    /// Two streams of this host for one transmit queue.
    #[error(
        "--path {path}: streams `{}` and `{}` both have transmit queue {queue} of interface `{interface}`, which takes one sender; \
         send by `{instead}`",
        streams[0], streams[1]
    )]
    OneSender {
        /// The way out.
        path: &'static str,
        /// What to take in its place.
        instead: &'static str,
        /// The streams.
        streams: [String; 2],
        /// The queue.
        queue: u32,
        /// The interface.
        interface: String,
    },
    /// The host's own settings were refused.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A request to the system was refused.
    #[error(transparent)]
    System(#[from] rtwire_sys::Error),
    /// A channel could not be opened, in words for the user.
    #[error("{0}")]
    Channel(String),
}

impl StationError {
    /// Whether the host lacks something (exit code 3) rather than the input being wrong (2).
    #[must_use]
    pub fn is_host_lacking(&self) -> bool {
        match self {
            Self::Host(_) | Self::Channel(_) => true,
            Self::System(error) => error.kind() != ErrorKind::InterfaceMissing,
            _ => false,
        }
    }
}

/// Runs one host's streams until the time is up or `stop` is set; then gives what there is.
///
/// Needs CAP_NET_RAW, CAP_SYS_NICE and CAP_IPC_LOCK; CAP_NET_ADMIN for threads and polling, and for priorities above 6.
/// `started` is called when everything is open, with how receive work is done.
///
/// # Errors
/// See [`StationError`]; nothing was sent then, and everything set is undone.
pub fn run_station(
    options: &StationOptions,
    stop: &AtomicBool,
    started: impl FnOnce(&str),
) -> Result<StationReport, StationError> {
    let interface = interface::by_name(&options.interface)?;
    let mut assignment = assignment(options)?;
    let listeners = assignment.listeners.iter_mut();
    listeners.for_each(|task| task.spin(options.spin));
    if let Some(margin) = options.police {
        let margin_ns = u64::try_from(margin.as_nanos()).unwrap_or(u64::MAX);
        duties::police(&mut assignment, &options.network, &options.plan, margin_ns);
    }
    transmit::check(options, &assignment, &interface)?;
    let _groups = join_groups(options, &interface)?;
    let (receive, _guards) = receive_work(options, &assignment)?;
    let work = Work::open(&assignment).map_err(StationError::Channel)?;
    let schedule = Schedule::default();
    let start_ns = (clock::now_ns(Clock::Tai) + SETTLE_NS).next_multiple_of(GRID_NS);
    let planned_ns = options
        .duration
        .map(|duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    let end_ns = planned_ns.map_or(u64::MAX, |duration| start_ns.saturating_add(duration));
    started(&receive);
    let over = AtomicBool::new(false);
    let result = thread::scope(|scope| {
        let (schedule, over) = (&schedule, &over);
        let watch = scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                if stop.load(Ordering::Relaxed) {
                    schedule.set(Order::Stop);
                    return Some(clock::now_ns(Clock::Tai));
                }
                thread::sleep(Duration::from_millis(10));
            }
            None
        });
        let result = work.run(&assignment, schedule, || {
            schedule.set(Order::Run { start_ns, end_ns });
            Ok(())
        });
        over.store(true, Ordering::Relaxed);
        let stopped_ns = watch.join().ok().flatten();
        result.map(|result| (result, stopped_ns))
    });
    let (result, stopped_ns) = result.map_err(StationError::Channel)?;
    let now_ns = clock::now_ns(Clock::Tai);
    let until_ns = stopped_ns.unwrap_or(now_ns).min(end_ns);
    let duration_ns = until_ns.saturating_sub(start_ns);
    Ok(report::assemble(
        options,
        &assignment,
        result,
        receive,
        (start_ns, duration_ns),
    ))
}

fn peer(options: &StationOptions, name: &str) -> (Option<[u8; 6]>, Option<Ipv4Addr>) {
    let mut found = (None, None);
    for (_, address) in options.peers.iter().filter(|(peer, _)| peer == name) {
        match address {
            PeerAddress::Mac(mac) => found.0 = Some(*mac),
            PeerAddress::Ip(ip) => found.1 = Some(*ip),
        }
    }
    found
}

/// Where the frames of a stream go.
fn address(
    options: &StationOptions,
    index: usize,
    stream: &Stream,
) -> Result<Address, StationError> {
    let single = match stream.listeners.as_slice() {
        [listener] => Some(listener),
        _ => None,
    };
    let known = single.map_or((None, None), |listener| peer(options, listener));
    match (stream.transport, single) {
        (Transport::Udp, None) => Ok(Address::Udp {
            ip: duties::group_ip(index),
        }),
        (Transport::Udp, Some(listener)) => match known.1 {
            Some(ip) => Ok(Address::Udp { ip }),
            None => Err(StationError::NoAddress {
                stream: stream.name.clone(),
                listener: listener.clone(),
            }),
        },
        (Transport::Rtdip, _) => Ok(Address::Rtdip {
            mac: known.0.unwrap_or(duties::group(index)),
            vlan: stream.vlan,
        }),
    }
}

/// What this host has to do.
fn assignment(options: &StationOptions) -> Result<Assignment, StationError> {
    let network = &options.network;
    let host = &options.host;
    let hosts = || network.hosts.iter().map(|host| &host.name);
    if !hosts().any(|name| name == host) {
        return Err(StationError::NoSuchHost {
            host: host.clone(),
            others: hosts().cloned().collect(),
        });
    }
    if let Some((name, _)) = options
        .peers
        .iter()
        .find(|(peer, _)| !hosts().any(|name| name == peer))
    {
        return Err(StationError::NoSuchPeer(name.clone()));
    }
    let mut talkers: Vec<TalkerTask> = Vec::new();
    let mut listeners: Vec<ListenerTask> = Vec::new();
    let realtime = |pcp: u8| options.realtime.saturating_sub(7 - pcp.min(7)).max(1);
    for (index, stream) in network.streams.iter().enumerate() {
        if stream.talker == *host {
            let task = duties::talker(index, stream, address(options, index, stream)?, 0);
            let cyclic = matches!(task.pattern, Pattern::Cyclic { .. });
            let planned = options
                .plan
                .streams
                .iter()
                .find(|one| one.name == stream.name);
            talkers.push(TalkerTask {
                realtime: realtime(stream.pcp),
                path: match (options.path, stream.transport) {
                    // A stream without instants has no launch times.
                    (path, _) if path.has_launch_times() && !cyclic => TransmitPath::Qdisc,
                    (TransmitPath::Launch, _) => TransmitPath::Launch,
                    // Datagrams have no other way.
                    (_, Transport::Udp) => TransmitPath::Qdisc,
                    (path, Transport::Rtdip) => path,
                },
                launch: planned
                    .and_then(|one| one.launch.as_ref())
                    .map(|launch| (launch.offset_ns, launch.period_ns)),
                stamps: false,
                ..task
            });
        }
        if stream.listeners.contains(host) {
            let polls = options.receive == ReceiveWork::Poll;
            if polls && stream.transport != Transport::Udp {
                return Err(StationError::CannotPoll(stream.name.clone()));
            }
            listeners.push(ListenerTask {
                realtime: realtime(stream.pcp),
                polls,
                ..duties::listener(index, stream, 0)
            });
        }
    }
    if options.best_effort {
        let address = |index, to: &str| {
            Some(Address::Rtdip {
                mac: peer(options, to).0.unwrap_or(duties::group(index)),
                vlan: None,
            })
        };
        for flow in duties::best_effort(network, address) {
            if flow.host == *host {
                talkers.push(TalkerTask {
                    realtime: realtime(0),
                    path: if options.path.has_launch_times() {
                        TransmitPath::Qdisc
                    } else {
                        options.path
                    },
                    stamps: false,
                    ..flow.talker
                });
            }
            if flow.to == *host {
                listeners.push(ListenerTask {
                    realtime: realtime(0),
                    ..flow.listener
                });
            }
        }
    }
    if talkers.is_empty() && listeners.is_empty() {
        return Err(StationError::Idle(host.clone()));
    }
    Ok(Assignment {
        host: host.clone(),
        namespace: String::new(),
        interface: options.interface.clone(),
        talkers,
        listeners,
        receive_path: options.receive_path,
        directory: None,
        drain_ns: DRAIN_NS,
    })
}

/// Has the network card let through the groups that this host listens to. Left when dropped.
fn join_groups(
    options: &StationOptions,
    interface: &interface::Interface,
) -> Result<PacketSocket, StationError> {
    let socket = PacketSocket::sender(interface)?;
    let streams = options.network.streams.iter().enumerate();
    for (index, stream) in streams {
        if stream.transport == Transport::Rtdip && stream.listeners.contains(&options.host) {
            socket.join_group(duties::group(index))?;
        }
    }
    if options.best_effort {
        for flow in duties::best_effort(&options.network, |index, _| {
            Some(Address::Rtdip {
                mac: duties::group(index),
                vlan: None,
            })
        }) {
            if flow.to == options.host {
                socket.join_group(duties::group(flow.listener.stream))?;
            }
        }
    }
    Ok(socket)
}

/// What undoes the settings of receive work.
type Guards = (Option<NapiThreads>, Option<NapiDeferral>);

/// Sets who does the receive work; gives it in words.
fn receive_work(
    options: &StationOptions,
    assignment: &Assignment,
) -> Result<(String, Guards), StationError> {
    let most_urgent = assignment.listeners.iter().map(|task| task.realtime).max();
    let soft = |why: &str| (format!("soft interrupt{why}"), (None, None));
    let Some(priority) = most_urgent else {
        return Ok(soft(": nothing is listened to"));
    };
    match options.receive {
        ReceiveWork::SoftInterrupt => Ok(soft("")),
        ReceiveWork::Automatic | ReceiveWork::Thread => {
            let wanted = NapiPriority {
                want: Want::Fifo(priority),
                cpus: Vec::new(),
            };
            match NapiThreads::start(&options.interface, &wanted) {
                Ok(threads) => {
                    let count = threads.threads().len();
                    let words = format!(
                        "{count} NAPI thread{} of SCHED_FIFO {priority}",
                        if count == 1 { "" } else { "s" }
                    );
                    Ok((words, (Some(threads), None)))
                }
                Err(error) if options.receive == ReceiveWork::Automatic => {
                    Ok(soft(&format!(" ({error})")))
                }
                Err(error) => Err(error.into()),
            }
        }
        ReceiveWork::Poll => {
            let deferral = NapiDeferral::hold(&options.interface, EMPTY_POLLS, FLUSH_NS)?;
            Ok(("polled by its readers".to_owned(), (None, Some(deferral))))
        }
    }
}
