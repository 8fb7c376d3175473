//! The desk at which programs get their channels: the manager's answer, a socket, a class, and the gate's entry.
//!
//! ```text
//! reserve:  bind socket -> manager -> class -> gate -> socket to the program      (RTDiP: the socket comes behind the manager)
//! free:     gate -> class -> manager
//! ```
//!
//! A channel is freed in the opposite order of its making: what a program may still send is taken away before the
//! manager offers it to others.

mod connections;
mod counts;
mod giving_back;
mod streams;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rtwire_agent::{Reply, Wish, pass, refused};
use rtwire_host::netlink::Netlink;
use rtwire_manager::{Granted, Refused};
use rtwire_managerd::{Asker, ManagerdError, read_key};
use rtwire_sys::interface::Interface;

use crate::AgentError;
use crate::allowance::Allowance;
use crate::gate::Gate;
use crate::service::Told;
use crate::streams::Streams;
use streams::FrameSocket;

/// The time within which the manager answers one question.
const ANSWER: Duration = Duration::from_secs(2);
/// The reason of a refusal where the manager did not answer.
const SILENT: &str = "silent";
/// The time between two questions for programs, at least.
const PACE: Duration = Duration::from_millis(10);
/// The channels and listeners of one user, at most.
const MOST_PER_USER: usize = 256;

/// An answer, with the descriptor that goes with it.
type Answered = Result<(Reply, Option<OwnedFd>), Reply>;

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
    end: HeldEnd,
}

/// One end of a connection.
#[derive(Clone, Debug)]
enum HeldEnd {
    /// A talker: the class and the cookie of its socket.
    Sends { class: u32, cookie: u64 },
    /// A listener of datagrams.
    Hears,
    /// A listener of RTDiP frames.
    HearsFrames(Arc<FrameSocket>),
}

impl Held {
    fn is_talker(&self) -> bool {
        matches!(self.end, HeldEnd::Sends { .. })
    }

    /// Returns the key of the list: the connection, and true for its talker.
    fn key(&self) -> (u64, bool) {
        (self.granted.connection, self.is_talker())
    }
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
            Wish::Reserve(wish) => self.reserve(program, wish),
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

    fn release(&self, program: Program, connection: u64) -> Answered {
        let held = self.owned(program, connection)?;
        self.free(&[held]);
        Ok((Reply::Released { connection }, None))
    }

    fn control(&self, program: Program, came: Option<OwnedFd>) -> Answered {
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
