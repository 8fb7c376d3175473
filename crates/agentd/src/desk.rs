//! The desk at which programs get their channels: the manager's answer, a socket, a class, and the gate's entry.
//!
//! ```text
//! reserve:  bind socket -> manager -> class -> gate -> socket to the program
//! free:     gate -> class -> manager
//! ```
//!
//! A channel is freed in the opposite order of its making: what a program may still send is taken away before the
//! manager offers it to others.

mod giving_back;
mod streams;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rtwire_agent::{Reply, Wish, pass, refused};
use rtwire_host::netlink::Netlink;
use rtwire_manager::{Answer, Ask, Carrier, Granted, Question, Reason, Refused};
use rtwire_managerd::{Asker, ManagerdError, read_key};
use rtwire_sys::interface::Interface;

use crate::AgentError;
use crate::allowance::{Allowance, Bucket, FIRST_CHANNEL, MOST_CHANNELS};
use crate::gate::{Gate, Rights};
use crate::granted::channel;
use crate::queues;
use crate::service::Told;
use crate::streams::Streams;

/// The time within which the manager answers one question.
const ANSWER: Duration = Duration::from_secs(2);
/// The time for which a reservation is asked for again while the manager says that it is busy.
const BUSY: Duration = Duration::from_secs(3);
/// The reason of a refusal where the manager did not answer.
const SILENT: &str = "silent";
/// The time between two questions for programs, at least.
const PACE: Duration = Duration::from_millis(10);
/// The channels and listeners of one user, at most.
const MOST_PER_USER: usize = 256;

/// The reason why nothing was granted, and the time after which to ask again.
type Undecided = (Reply, Option<Duration>);

/// A program that is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its number, never used again.
    pub(crate) id: u64,
    pub(crate) uid: u32,
    pub(crate) pid: i32,
}

/// A channel or a listener in use.
#[derive(Clone, Debug)]
struct Held {
    of: Program,
    granted: Granted,
    /// The class and the cookie of a talker; `None` for a listener.
    sends: Option<(u32, u64)>,
}

/// An interface as the agent uses it.
pub(crate) struct Place {
    pub(crate) interface: Interface,
    pub(crate) address: Ipv4Addr,
    pub(crate) allowance: Allowance,
    pub(crate) streams: Streams,
    pub(crate) gate: Gate,
    pub(crate) netlink: Mutex<Netlink>,
    /// Addresses of hosts, also of those that the best effort does not reach.
    pub(crate) addresses: BTreeMap<String, Ipv4Addr>,
}

/// The desk.
pub(crate) struct Desk {
    pub(crate) place: Place,
    /// Held while the manager is asked: what it knows and what is held here change together.
    asker: Mutex<Asker>,
    /// The moment of the newest question for a program.
    asked: Mutex<Instant>,
    /// True since the manager did not answer.
    is_silent: AtomicBool,
    key: PathBuf,
    managers: Vec<SocketAddr>,
    held: Mutex<BTreeMap<(u64, bool), Held>>,
    /// Held while an end is opened or closed: gate, class and this list change together.
    open: Mutex<streams::OpenEnds>,
    pub(crate) tell: Box<dyn Fn(Told) + Send + Sync>,
}

/// The lock of state that is whole between any two of its changes.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Refuses a port that only root may bind: the agent must not bind it for others.
fn may_use(program: Program, port: u16) -> Result<(), Reply> {
    const FIRST_FREE: u16 = 1_024;
    if program.uid == 0 || port == 0 || port >= FIRST_FREE {
        return Ok(());
    }
    Err(refused(
        "denied",
        format!("port {port} is one that only root may use; choose one from {FIRST_FREE} on"),
    ))
}

fn of_manager(no: &Refused) -> Reply {
    refused(no.reason.word(), no.text.clone())
}

fn local(error: impl std::fmt::Display) -> Reply {
    refused("local", error.to_string())
}

fn silent(error: &ManagerdError) -> Reply {
    refused(SILENT, error.to_string())
}

impl Desk {
    pub(crate) fn new(
        place: Place,
        (managers, key): (Vec<SocketAddr>, PathBuf),
        tell: Box<dyn Fn(Told) + Send + Sync>,
    ) -> Result<Desk, AgentError> {
        let asker = Asker::new(&managers, &place.allowance.host, read_key(&key)?)?;
        let cookie = pass::cookie(asker.as_fd());
        let cookie = cookie.map_err(AgentError::system("know the socket to the manager"))?;
        place.gate.control(cookie)?;
        Ok(Desk {
            place,
            asker: Mutex::new(asker),
            asked: Mutex::new(Instant::now()),
            is_silent: AtomicBool::new(false),
            key,
            managers,
            held: Mutex::new(BTreeMap::new()),
            open: Mutex::default(),
            tell,
        })
    }

    /// Returns the number of channels that programs have.
    pub(crate) fn channels(&self) -> u64 {
        lock(&self.held).len() as u64
    }

    /// Answers a program's question. A descriptor goes with the answer.
    pub(crate) fn answer(
        &self,
        program: Program,
        wish: &Wish,
        came: Option<OwnedFd>,
    ) -> (Reply, Option<OwnedFd>) {
        let done = match wish {
            Wish::Reserve { .. } => self.reserve(program, wish),
            Wish::Listen { connection } => self.listen(program, *connection),
            Wish::Release { connection } => self.release(program, *connection),
            Wish::Counts { connection } => self.counts(program, *connection),
            Wish::Control => self.control(program, came),
            Wish::Host => Ok((Reply::Host(self.host_facts()), None)),
            Wish::Open(wish) => self.open_stream(program, wish),
            Wish::Close { end, stream } => self.close_stream(program, *end, stream),
            Wish::StreamCounts { end, stream } => self.stream_counts(program, *end, stream),
        };
        match done {
            Ok((reply, socket)) => (reply, socket),
            Err(reply) => {
                if let Reply::Refused { reason, text } = &reply {
                    if reason == SILENT {
                        // Perhaps the manager has another key for this host by now: for the next try.
                        let _ = self.read_key_again();
                    }
                    (self.tell)(Told::Refused {
                        uid: program.uid,
                        pid: program.pid,
                        why: format!("{reason}: {text}"),
                    });
                }
                (reply, None)
            }
        }
    }

    /// Waits until the next question for a program may be asked. So programs leave most of the host's allowance of questions to
    /// best effort, however often they ask.
    fn pace(&self) {
        let mut asked = lock(&self.asked);
        std::thread::sleep(PACE.saturating_sub(asked.elapsed()));
        *asked = Instant::now();
    }

    /// Reads the key file again: the manager may have been told of another key.
    pub(crate) fn read_key_again(&self) -> Result<(), AgentError> {
        let host = &self.place.allowance.host;
        let asker = Asker::new(&self.managers, host, read_key(&self.key)?)?;
        let cookie = pass::cookie(asker.as_fd());
        let cookie = cookie.map_err(AgentError::system("know the socket to the manager"))?;
        self.place.gate.control(cookie)?;
        *lock(&self.asker) = asker;
        Ok(())
    }

    fn within_quota(&self, program: Program) -> Result<(), Reply> {
        let held = lock(&self.held);
        let own = held
            .values()
            .filter(|one| one.of.uid == program.uid)
            .count();
        if own >= MOST_PER_USER {
            let uid = program.uid;
            return Err(refused(
                "quota",
                format!("user {uid} has {own} channels already, as many as a user may have"),
            ));
        }
        Ok(())
    }

    fn peer(&self, name: &str) -> Result<Ipv4Addr, Reply> {
        let address = self.place.addresses.get(name).copied();
        address.ok_or_else(|| {
            local(format!(
                "the agent has no address of \"{name}\": start it with `--peer {name}=ADDRESS`"
            ))
        })
    }

    /// Asks the manager once. `Err` with a pause: the same again after it.
    fn decided(asker: &mut Asker, ask: &Ask) -> Result<Granted, Box<Undecided>> {
        let request = Asker::request().map_err(|error| Box::new((local(error), None)))?;
        let question = Question::Reserve {
            request,
            only_ask: false,
            ask: ask.clone(),
        };
        match asker.ask(&question, ANSWER) {
            Ok(Answer::Granted(granted)) => Ok(granted),
            Ok(Answer::Refused(no)) => {
                let pause = Duration::from_micros(no.retry_after_us.into());
                let again = no.reason == Reason::Busy;
                Err(Box::new((of_manager(&no), again.then_some(pause))))
            }
            Ok(other) => Err(Box::new((
                local(format!("the manager answers {other:?}")),
                None,
            ))),
            // It may have decided: the next look at its list releases what nobody holds.
            Err(error) => Err(Box::new((silent(&error), None))),
        }
    }

    fn reserve(&self, program: Program, wish: &Wish) -> Result<(Reply, Option<OwnedFd>), Reply> {
        let Wish::Reserve {
            to,
            priority,
            frame_bytes,
            rate_bytes_per_ms,
            burst_bytes,
            deadline_ns,
            port,
            source_port,
        } = wish
        else {
            return Err(local("not a reservation"));
        };
        self.within_quota(program)?;
        if *priority > 7 {
            return Err(refused("faulty", "a priority is 0 to 7"));
        }
        let peer = self.peer(to)?;
        may_use(program, *source_port)?;
        // The port of the socket is the connection's: so it is bound first.
        let socket = UdpSocket::bind((self.place.address, *source_port))
            .map_err(|error| local(format!("source port {source_port} cannot be used: {error}")))?;
        let bound = socket.local_addr().map_err(local)?;
        let ask = Ask {
            listener: to.clone(),
            carrier: Carrier::Udp,
            pcp: *priority,
            vlan: None,
            frame_bytes: *frame_bytes,
            rate_bytes_per_ms: *rate_bytes_per_ms,
            burst_bytes: *burst_bytes,
            deadline_ns: *deadline_ns,
            source_port: bound.port(),
            port: *port,
        };
        let begun = Instant::now();
        let (mut asker, granted) = loop {
            self.pace();
            let mut asker = lock(&self.asker);
            match Self::decided(&mut asker, &ask) {
                Ok(granted) => break (asker, granted),
                Err(no) => {
                    let (reply, pause) = *no;
                    let pause = pause.filter(|pause| begun.elapsed() + *pause < BUSY);
                    // Others may ask meanwhile.
                    drop(asker);
                    std::thread::sleep(pause.ok_or(reply)?);
                }
            }
        };
        let made = self.open(program, &granted, &socket, peer);
        if let Err(error) = made {
            // Nobody has used it.
            self.take_away(granted.connection);
            let _ = Self::return_to(&mut asker, granted.connection);
            return Err(local(error));
        }
        drop(asker);
        (self.tell)(Told::Granted {
            connection: granted.connection,
            uid: program.uid,
            pid: program.pid,
        });
        Ok((Reply::Granted(channel(&granted)), Some(socket.into())))
    }

    /// Makes the class and the gate's entry of a connection.
    fn open(
        &self,
        program: Program,
        granted: &Granted,
        socket: &UdpSocket,
        peer: Ipv4Addr,
    ) -> Result<(), AgentError> {
        let what = |what: &str| {
            let what = what.to_owned();
            move |error| AgentError::System { what, error }
        };
        socket
            .connect((peer, granted.ask.port))
            .map_err(what("connect the channel"))?;
        let cookie = pass::cookie(socket).map_err(AgentError::system("know the channel"))?;
        let mut held = lock(&self.held);
        let used: Vec<u32> = held
            .values()
            .filter_map(|one| one.sends.map(|(class, _)| class))
            .collect();
        let class = (FIRST_CHANNEL..FIRST_CHANNEL + MOST_CHANNELS)
            .find(|class| !used.contains(class))
            .ok_or_else(|| what("find a class")(std::io::Error::other("all are in use")))?;
        // From now on it is freed with its program, whatever happens.
        held.insert(
            (granted.connection, true),
            Held {
                of: program,
                granted: granted.clone(),
                sends: Some((class, cookie)),
            },
        );
        drop(held);
        let ask = &granted.ask;
        let overhead = self.place.allowance.overhead_bytes;
        let limit = Bucket {
            rate_bytes: ask.rate_bytes_per_ms.saturating_mul(1_000),
            burst_bytes: ask.burst_bytes,
            frame_bytes: u32::from(ask.frame_bytes).max(60) + u32::from(overhead),
        };
        let priority = self.place.allowance.priorities[usize::from(ask.pcp.min(7))];
        let index = self.place.interface.index;
        let mut netlink = lock(&self.place.netlink);
        netlink.put_class(index, &queues::class(class, priority, limit, overhead))?;
        netlink.put_queue(index, &queues::leaf(class, queues::frames_of(limit)))?;
        let rights = Rights {
            class,
            ends: [
                SocketAddrV4::new(self.place.address, ask.source_port),
                SocketAddrV4::new(peer, ask.port),
            ],
            longest_bytes: ask.frame_bytes.into(),
            pcp: ask.pcp,
            frames: None,
        };
        self.place.gate.channel(cookie, &rights)?;
        Ok(())
    }

    fn listen(&self, program: Program, connection: u64) -> Result<(Reply, Option<OwnedFd>), Reply> {
        self.within_quota(program)?;
        let question = Question::Explain {
            request: Asker::request().map_err(local)?,
            connection,
        };
        self.pace();
        let mut asker = lock(&self.asker);
        let granted = match asker.ask(&question, ANSWER) {
            Ok(Answer::Explained { granted, .. }) => granted,
            Ok(Answer::Refused(no)) => return Err(of_manager(&no)),
            Ok(other) => return Err(local(format!("the manager answers {other:?}"))),
            Err(error) => return Err(silent(&error)),
        };
        let host = &self.place.allowance.host;
        if granted.ask.listener != *host {
            let listener = &granted.ask.listener;
            return Err(refused(
                "foreign",
                format!("connection {connection} goes to \"{listener}\", not to \"{host}\""),
            ));
        }
        if granted.ask.carrier != Carrier::Udp {
            return Err(local(
                "the agent opens UDP channels; one of RTDiP is heard with `rtwire run` or a session",
            ));
        }
        let peer = self.peer(&granted.talker)?;
        let port = granted.ask.port;
        may_use(program, port)?;
        let mut held = lock(&self.held);
        if held.contains_key(&(connection, false)) {
            return Err(refused(
                "denied",
                format!("another program of this host hears connection {connection}"),
            ));
        }
        let socket = UdpSocket::bind((self.place.address, port))
            .map_err(|error| local(format!("port {port} cannot be used: {error}")))?;
        let ends = [self.place.address, peer];
        let overhead = self.place.allowance.overhead_bytes;
        self.place
            .gate
            .listener(&granted, ends, overhead)
            .map_err(local)?;
        let channel = channel(&granted);
        held.insert(
            (connection, false),
            Held {
                of: program,
                granted,
                sends: None,
            },
        );
        Ok((Reply::Listening(channel), Some(socket.into())))
    }

    fn owned(&self, program: Program, connection: u64) -> Result<Held, Reply> {
        let held = lock(&self.held);
        let both = [(connection, true), (connection, false)];
        let mut own = both.iter().filter_map(|key| held.get(key));
        let own = own.find(|one| one.of.id == program.id).cloned();
        own.ok_or_else(|| {
            refused(
                "foreign",
                format!("this program has no connection {connection}"),
            )
        })
    }

    fn release(
        &self,
        program: Program,
        connection: u64,
    ) -> Result<(Reply, Option<OwnedFd>), Reply> {
        let held = self.owned(program, connection)?;
        self.free(&[held]);
        Ok((Reply::Released { connection }, None))
    }

    fn counts(&self, program: Program, connection: u64) -> Result<(Reply, Option<OwnedFd>), Reply> {
        let held = self.owned(program, connection)?;
        let gate = &self.place.gate;
        let reply = match held.sends {
            Some((_, cookie)) => {
                let counts = gate.channel_counts(cookie).map_err(local)?;
                Reply::Counts {
                    connection,
                    frames: counts.frames,
                    foreign: counts.refused,
                    too_much: 0,
                }
            }
            None => {
                let counts = gate.listener_counts(held.granted.ask.port);
                let counts = counts.map_err(local)?;
                Reply::Counts {
                    connection,
                    frames: counts.passed,
                    foreign: counts.foreign,
                    too_much: counts.too_much,
                }
            }
        };
        Ok((reply, None))
    }

    fn control(
        &self,
        program: Program,
        came: Option<OwnedFd>,
    ) -> Result<(Reply, Option<OwnedFd>), Reply> {
        if program.uid != 0 {
            return Err(refused("denied", "only root may use the control class"));
        }
        let socket = came.ok_or_else(|| refused("faulty", "no socket came with the question"))?;
        let cookie = pass::cookie(&socket).map_err(local)?;
        self.place.gate.control(cookie).map_err(local)?;
        Ok((Reply::Controlled, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_root_are_bound_for_root_only() {
        let of = |uid| Program { id: 1, uid, pid: 1 };
        assert!(may_use(of(1_000), 123).is_err());
        assert!(may_use(of(1_000), 1_023).is_err());
        assert!(may_use(of(0), 123).is_ok());
        assert!(may_use(of(1_000), 1_024).is_ok() && may_use(of(1_000), 0).is_ok());
    }
}
