//! A host's streams, opened by their names.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use rtwire_agent::End;
use rtwire_channel::{CardTime, Endpoint, EndpointStatistics};
use rtwire_plan::Plan;
use rtwire_sys::interface::{self, Interface};
use rtwire_sys::memory;
use rtwire_sys::packet::PacketSocket;

use crate::agent::{self, Agent, Found, OpenedBy};
use crate::channels;
use crate::error::SessionError;
use crate::hold::{Hold, Taken};
use crate::listener::StreamListener;
use crate::missing::{self, Missing};
use crate::options::{PeerAddress, SessionOptions};
use crate::real_time;
use crate::streams::{self, REALTIME};
use crate::talker::StreamTalker;
use crate::task::{Assignment, ListenerTask, TalkerTask};
use crate::transmit;

/// The time in ns in which frames may still be on their way after the talkers' end. `rtwire judge` waits for 300 ms of it: the rest
/// is for the difference of the hosts' clocks, and for a host that sees the end a little earlier.
const DRAIN_NS: u64 = 350_000_000;
/// Bytes of a VLAN tag, which an interface takes beyond its MTU.
const TAG_BYTES: u64 = 4;
const ETHERNET_BYTES: u64 = 14;

/// One host's streams on one interface, by the plan.
///
/// Open it in the network namespace of the interface. Channels open on request, with [`Self::talker`] and
/// [`Self::listener`]. Needs CAP_NET_RAW; CAP_NET_ADMIN for priority 7 and for XDP. It needs none of them where the host's
/// agent opens its streams ([`Self::opened_by`]).
#[derive(Debug)]
pub struct Session {
    pub(crate) assignment: Assignment,
    interface: Interface,
    endpoint: Endpoint,
    /// Talker and listeners of every stream of the plan, for messages.
    ends: BTreeMap<String, (String, Vec<String>)>,
    missing: Vec<Missing>,
    taken: Arc<Mutex<BTreeSet<Taken>>>,
    /// The card whose stamps are taken.
    card: Option<Arc<CardTime>>,
    /// The host's agent, if that opens the streams.
    agent: Option<Arc<Agent>>,
    opened_by: OpenedBy,
    /// Makes the network card let the streams' groups through.
    _groups: Option<PacketSocket>,
}

impl Session {
    /// Opens the streams of `host` on `interface`, as the plan says.
    ///
    /// # Errors
    /// - The plan has no such host, or the host is neither talker nor listener.
    /// - The interface is missing, down or no Ethernet interface, or its MTU is less than the plan needs.
    /// - A receive program is needed and cannot be attached.
    /// - A UDP stream with one listener needs that host's address: see [`Self::with`].
    pub fn open(plan: &Plan, host: &str, interface: &str) -> Result<Self, SessionError> {
        Self::with(plan, host, interface, &SessionOptions::default())
    }

    /// Opens the streams of `host` on `interface`, with options where the plan leaves a choice.
    ///
    /// # Errors
    /// As [`Self::open`]; the plan's promises would not hold on the transmit path; a peer is no host of the plan; the agent
    /// refuses, or does not have what the options ask for.
    pub fn with(
        plan: &Plan,
        host: &str,
        interface: &str,
        options: &SessionOptions,
    ) -> Result<Self, SessionError> {
        let found = agent::find(options, host, &interface::by_name(interface)?)?;
        let assigned = |options: &SessionOptions| {
            let assignment = assign(plan, host, interface, options)?;
            match assignment.talkers.is_empty() && assignment.listeners.is_empty() {
                true => Err(SessionError::Idle(host.to_owned())),
                false => Ok(assignment),
            }
        };
        match found {
            Found::Agent(agent) => {
                let known = addressed_by_agent(plan, options);
                Self::checked(plan, assigned(&known)?, &known, Some(agent))
            }
            Found::None(why) => {
                let session = Self::planned(plan, assigned(options)?, options);
                let mut session = session.map_err(|error| neither(why.as_deref(), error))?;
                session.opened_by = OpenedBy::Program { why };
                Ok(session)
            }
        }
    }

    /// Opens an assignment that was made from a plan, with this program's own privileges.
    pub(crate) fn planned(
        plan: &Plan,
        assignment: Assignment,
        options: &SessionOptions,
    ) -> Result<Self, SessionError> {
        Self::checked(plan, assignment, options, None)
    }
    fn checked(
        plan: &Plan,
        assignment: Assignment,
        options: &SessionOptions,
        agent: Option<Arc<Agent>>,
    ) -> Result<Self, SessionError> {
        let mut session = Self::stamped(assignment, options.card.clone(), agent)?;
        let ends = plan.network.streams.iter();
        let ends = ends.map(|one| {
            (
                one.name.clone(),
                (one.talker.clone(), one.listeners.clone()),
            )
        });
        session.ends = ends.collect();
        session.check_frames(plan)?;
        transmit::check(plan, options, &session.assignment, &session.interface)?;
        session.missing = missing::of(plan, &session.assignment, &session.interface)?;
        Ok(session)
    }

    /// Opens an assignment without a plan: for the lab's processes.
    pub(crate) fn of(assignment: Assignment) -> Result<Self, SessionError> {
        Self::stamped(assignment, None, None)
    }

    fn stamped(
        assignment: Assignment,
        card: Option<Arc<CardTime>>,
        agent: Option<Arc<Agent>>,
    ) -> Result<Self, SessionError> {
        let interface = interface::by_name(&assignment.interface)?;
        if interface.mac == [0; 6] {
            return Err(SessionError::NotEthernet {
                interface: interface.name,
                host: assignment.host,
            });
        }
        if !interface.up {
            return Err(SessionError::Down(interface.name));
        }
        Ok(Self {
            // The agent has the groups of its listeners, and needs no receive program.
            _groups: match agent {
                None => join_groups(&assignment, &interface)?,
                Some(_) => None,
            },
            endpoint: match agent {
                None => channels::endpoint(&assignment, card.as_ref())?,
                Some(_) => channels::plain_endpoint(&assignment)?,
            },
            card,
            opened_by: match &agent {
                None => OpenedBy::Program { why: None },
                Some(agent) => OpenedBy::Agent {
                    socket: agent.path().to_owned(),
                },
            },
            agent,
            interface,
            assignment,
            ends: BTreeMap::new(),
            missing: Vec::new(),
            taken: Arc::default(),
        })
    }

    /// Returns who opens the sockets of this session's streams.
    #[must_use]
    pub fn opened_by(&self) -> &OpenedBy {
        &self.opened_by
    }

    /// The host's name in the plan.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.assignment.host
    }

    /// Returns what the interface lacked for the plan's promises when the session was opened. Streams run all the same, but
    /// their promises may not hold.
    #[must_use]
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// Returns the names of the streams that this host sends.
    pub fn talkers(&self) -> impl Iterator<Item = &str> {
        self.assignment
            .talkers
            .iter()
            .map(|task| task.name.as_str())
    }

    /// Returns the names of the streams that this host receives.
    pub fn listeners(&self) -> impl Iterator<Item = &str> {
        let all = self.assignment.listeners.iter();
        all.map(|task| task.name.as_str())
    }

    /// Opens the talker of a stream. Destination, key, priority and contract come from the plan.
    ///
    /// # Errors
    /// This host is not the stream's talker; the talker is already open; the channel cannot be opened.
    pub fn talker(&self, stream: &str) -> Result<StreamTalker, SessionError> {
        let tasks = &self.assignment.talkers;
        match tasks.iter().position(|task| task.name == stream) {
            Some(index) => self.talker_at(index),
            None => Err(match self.ends.get(stream) {
                None => self.no_such_stream(stream),
                Some((talker, _)) => SessionError::NotTalker {
                    stream: stream.to_owned(),
                    host: self.assignment.host.clone(),
                    talker: talker.clone(),
                    own: self.talkers().map(str::to_owned).collect(),
                },
            }),
        }
    }

    /// Opens the listener of a stream. Port, key and semantics come from the plan.
    ///
    /// # Errors
    /// This host is no listener of the stream; the listener is already open; the channel cannot be opened.
    pub fn listener(&self, stream: &str) -> Result<StreamListener, SessionError> {
        let tasks = &self.assignment.listeners;
        match tasks.iter().position(|task| task.name == stream) {
            Some(index) => self.listener_at(index),
            None => Err(match self.ends.get(stream) {
                None => self.no_such_stream(stream),
                Some((_, listeners)) => SessionError::NotListener {
                    stream: stream.to_owned(),
                    host: self.assignment.host.clone(),
                    listeners: listeners.clone(),
                    own: self.listeners().map(str::to_owned).collect(),
                },
            }),
        }
    }

    fn no_such_stream(&self, stream: &str) -> SessionError {
        SessionError::NoSuchStream {
            stream: stream.to_owned(),
            others: self.ends.keys().cloned().collect(),
        }
    }

    pub(crate) fn talker_at(&self, index: usize) -> Result<StreamTalker, SessionError> {
        let task: &TalkerTask = &self.assignment.talkers[index];
        let hold = self.hold("talker", index, &task.name)?;
        let interface = &self.assignment.interface;
        if let Some(agent) = &self.agent {
            let by_agent = agent.open(End::Talker, &task.name, (task.port, task.key))?;
            return StreamTalker::open_by_agent(interface, task, hold, by_agent);
        }
        let opened = StreamTalker::open(interface, task, hold, self.card.as_ref());
        opened.map_err(|error| self.neither(error))
    }

    pub(crate) fn listener_at(&self, index: usize) -> Result<StreamListener, SessionError> {
        let task: &ListenerTask = &self.assignment.listeners[index];
        let hold = self.hold("listener", index, &task.name)?;
        if let Some(agent) = &self.agent {
            let by_agent = agent.open(End::Listener, &task.name, (task.port, task.key))?;
            return StreamListener::open_by_agent(&self.endpoint, task, hold, by_agent);
        }
        let wanted = self.assignment.receive_path;
        let opened = StreamListener::open(&self.endpoint, wanted, task, hold);
        opened.map_err(|error| self.neither(error))
    }

    fn neither(&self, error: SessionError) -> SessionError {
        match &self.opened_by {
            OpenedBy::Program { why } => neither(why.as_deref(), error),
            OpenedBy::Agent { .. } => error,
        }
    }

    fn hold(&self, end: &'static str, index: usize, stream: &str) -> Result<Hold, SessionError> {
        let taken = Taken { end, index };
        let mut all = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.insert(taken.clone()) {
            return Err(SessionError::OpenAlready {
                end,
                stream: stream.to_owned(),
            });
        }
        Ok(Hold {
            taken,
            all: Arc::clone(&self.taken),
        })
    }

    /// Puts the calling thread under SCHED_FIFO, priority 80, and locks this process's memory. Call it after the channels are
    /// open, before the loop.
    ///
    /// # Errors
    /// CAP_SYS_NICE or CAP_IPC_LOCK is missing.
    pub fn become_real_time(&self) -> Result<(), SessionError> {
        memory::lock_all()?;
        real_time::become_real_time(REALTIME)
    }

    /// Returns the counts of frames that reached this interface and belonged to none of its listeners. Not for a real-time
    /// loop.
    ///
    /// # Errors
    /// The kernel does not return its counts.
    pub fn statistics(&self) -> Result<EndpointStatistics, SessionError> {
        Ok(self.endpoint.statistics()?)
    }

    /// Refuses an interface whose MTU is less than the plan needs.
    fn check_frames(&self, plan: &Plan) -> Result<(), SessionError> {
        let own = self.assignment.talkers.iter().map(|task| &task.name);
        let own = own.chain(self.assignment.listeners.iter().map(|task| &task.name));
        for (_, stream, planned) in own.filter_map(|name| streams::of(plan, name)) {
            let tag = planned.identity.vlan.map_or(0, |_| TAG_BYTES);
            let needs = stream.frame_bytes.saturating_sub(ETHERNET_BYTES + tag);
            if needs > u64::from(self.interface.mtu) {
                return Err(SessionError::FrameTooLong {
                    stream: stream.name.clone(),
                    interface: self.interface.name.clone(),
                    needs,
                    mtu: self.interface.mtu,
                });
            }
        }
        Ok(())
    }
}

/// Says of a missing privilege why the agent was not asked, if one is there.
fn neither(why: Option<&str>, error: SessionError) -> SessionError {
    match why {
        Some(why) if error.is_privilege() => SessionError::NeitherWay {
            why: why.to_owned(),
            source: Box::new(error),
        },
        _ => error,
    }
}

/// Returns options in which every peer has an address: the agent has the addresses in force.
fn addressed_by_agent(plan: &Plan, options: &SessionOptions) -> SessionOptions {
    let unknown = |host: &str| (host.to_owned(), PeerAddress::Ip(Ipv4Addr::UNSPECIFIED));
    let all = plan.network.hosts.iter().map(|host| unknown(&host.name));
    SessionOptions {
        peers: all.chain(options.peers.iter().cloned()).collect(),
        ..options.clone()
    }
}

/// Returns a host's assignment by its plan.
pub(crate) fn assign(
    plan: &Plan,
    host: &str,
    interface: &str,
    options: &SessionOptions,
) -> Result<Assignment, SessionError> {
    let hosts = || plan.network.hosts.iter().map(|host| &host.name);
    if !hosts().any(|name| name == host) {
        return Err(SessionError::NoSuchHost {
            host: host.to_owned(),
            others: hosts().cloned().collect(),
        });
    }
    plan.network
        .without_routers("a session knows one layer-2 network")
        .map_err(SessionError::Routers)?;
    plan.network
        .without_several_links(Some(host), "a session knows one interface of its host")
        .map_err(SessionError::SeveralLinks)?;
    let unknown = |(peer, _): &&(String, _)| !hosts().any(|name| name == peer);
    if let Some((name, _)) = options.peers.iter().find(unknown) {
        return Err(SessionError::NoSuchPeer(name.clone()));
    }
    let mut talkers = Vec::new();
    let mut listeners = Vec::new();
    for stream in &plan.network.streams {
        if stream.talker == *host {
            talkers.push(streams::talker(plan, &stream.name, options)?);
        }
        if stream.listeners.iter().any(|listener| listener == host) {
            let task = streams::listener(plan, &stream.name, host, options)?;
            if task.polls && !task.udp {
                return Err(SessionError::CannotPoll(stream.name.clone()));
            }
            listeners.push(task);
        }
    }
    Ok(Assignment {
        host: host.to_owned(),
        namespace: String::new(),
        interface: interface.to_owned(),
        talkers,
        listeners,
        receive_path: options.receive_path,
        directory: None,
        drain_ns: DRAIN_NS,
    })
}

/// Makes the network card let through the groups that this host listens to. Dropping the socket leaves them.
fn join_groups(
    assignment: &Assignment,
    interface: &Interface,
) -> Result<Option<PacketSocket>, SessionError> {
    let groups = assignment.listeners.iter().filter_map(|task| task.group);
    let groups: BTreeSet<[u8; 6]> = groups.collect();
    if groups.is_empty() {
        return Ok(None);
    }
    let socket = PacketSocket::sender(interface)?;
    for group in groups {
        socket.join_group(group)?;
    }
    Ok(Some(socket))
}
