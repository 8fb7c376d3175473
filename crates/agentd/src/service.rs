//! The agent's process: its set-up, the socket for programs, and the end.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rtwire_agent::{End, Reply, pass, question, refused};
use rtwire_host::netlink::Netlink;
use rtwire_managerd::{read_key, write_status};
use rtwire_plan::Plan;
use rtwire_sys::interface;
use rtwire_sys::port_lock::NameLock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::Shutdown;

use crate::AgentError;
use crate::allowance::{Allowance, MAJOR};
use crate::desk::{Desk, Place, Program, lock};
use crate::gate::Gate;
use crate::queues;
use crate::shares::{self, ShareCounts};
use crate::status::AgentStatus;
use crate::streams::Streams;

/// The programs that are connected, at most.
const MOST_PROGRAMS: usize = 256;
/// The time between two looks at the manager's list.
const LOOK: Duration = Duration::from_secs(5);
/// The longest wait for a program.
const PATIENCE_MS: i64 = 100;
/// The frames that the kernel may hand to a queue as one, where nobody limits it.
const SEGMENTS: u32 = 65_535;

/// The settings of an agent.
#[derive(Clone, Debug)]
pub struct AgentSettings {
    /// This host, as the plan names it.
    pub host: String,
    /// Its interface.
    pub interface: String,
    /// The addresses of the managers, of which one leads.
    pub managers: Vec<SocketAddr>,
    /// This host's key file.
    pub key: PathBuf,
    /// The addresses of other hosts.
    pub peers: Vec<(String, Ipv4Addr)>,
    /// The path of the socket for programs.
    pub socket: PathBuf,
    /// The group whose members may use it, by number; otherwise only root may.
    pub group: Option<u32>,
    /// The file of its [`AgentStatus`], if there shall be one.
    pub status: Option<PathBuf>,
    /// True if questions for one-shot reservations travel as best effort, behind what waits there. It shows what a channel
    /// of their own is worth.
    pub questions_in_band: bool,
}

/// Something to be told while the agent runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Told {
    /// The agent answers at its socket.
    Ready {
        /// The peers that best effort reaches.
        peers: usize,
        /// The planned streams that this host sends.
        streams: usize,
    },
    /// A program has a connection.
    Granted {
        /// The connection.
        connection: u64,
        /// The program's user.
        uid: u32,
        /// The program's process.
        pid: i32,
    },
    /// A program was refused.
    Refused {
        /// The program's user.
        uid: u32,
        /// The program's process.
        pid: i32,
        /// The reason, in words.
        why: String,
    },
    /// A connection is released.
    Released {
        /// The connection.
        connection: u64,
    },
    /// A program has one end of a planned stream.
    Opened {
        /// The end.
        end: End,
        /// The stream.
        stream: String,
        /// The program's user.
        uid: u32,
        /// The program's process.
        pid: i32,
    },
    /// One end of a planned stream is given back.
    Closed {
        /// The end.
        end: End,
        /// The stream.
        stream: String,
    },
    /// The manager does not have a connection any more: its channel is closed.
    Lost {
        /// The connection.
        connection: u64,
    },
    /// Something failed, and the agent goes on: the message.
    Trouble(String),
}

/// An agent that is set up.
pub struct Agent {
    desk: Arc<Desk>,
    settings: AgentSettings,
    listener: OwnedFd,
    programs: Arc<Mutex<BTreeMap<u64, Arc<OwnedFd>>>>,
    _lock: NameLock,
}

/// Returns the number of a group of users, by its name or number.
///
/// # Errors
/// [`AgentError::NoGroup`].
pub fn group_number(name: &str) -> Result<u32, AgentError> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    let number = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then_some(())?;
        fields.nth(1)?.parse().ok()
    });
    number.ok_or_else(|| AgentError::NoGroup {
        group: name.to_owned(),
    })
}

impl Agent {
    /// Sets the host's queues and gate up, and opens the socket for programs.
    ///
    /// # Errors
    /// [`AgentError`]; then nothing is changed, or what was changed limits the host no less than the plan does.
    pub fn open(
        plan: &Plan,
        settings: &AgentSettings,
        tell: Box<dyn Fn(Told) + Send + Sync>,
    ) -> Result<Agent, AgentError> {
        let allowance = Allowance::of(plan, &settings.host, &settings.peers)?;
        let own = interface::by_name(&settings.interface)
            .map_err(|error| AgentError::Interface(error.to_string()))?;
        if own.mtu > allowance.largest_mtu {
            return Err(AgentError::Mtu {
                interface: own.name,
                mtu: own.mtu,
                largest: allowance.largest_mtu,
            });
        }
        // Before anything is changed.
        read_key(&settings.key)?;
        let name = &settings.interface;
        let taken = NameLock::take(&format!("agent:{name}"));
        let taken = taken.map_err(|error| match error.kind() {
            rtwire_sys::ErrorKind::InUse => AgentError::InUse {
                interface: name.clone(),
            },
            _ => AgentError::Interface(error.to_string()),
        })?;
        let mut netlink = Netlink::new();
        let addresses = netlink.addresses(own.index)?;
        let address = addresses.iter().find_map(|one| match one.address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        });
        let address = address.ok_or_else(|| {
            AgentError::Interface(format!(
                "`{name}` has no IPv4 address: `ip address add` one, and name it to the other agents with `--peer`"
            ))
        })?;
        let before = netlink.tree(own.index)?;
        if let Some(root) = before.queues.first().filter(|root| root.handle != MAJOR) {
            return Err(AgentError::Queues {
                interface: name.clone(),
                there: root.discipline.kind().to_owned(),
            });
        }
        let gate = Gate::load(&allowance)?;
        let listener = Self::listen(settings)?;
        // All that may be refused has been asked for. One frame at a time, so that a class's burst is what leaves.
        netlink.set_segments(own.index, 1)?;
        // Those of an earlier agent go: its channels with them.
        netlink.set_tree(own.index, &queues::tree(&allowance))?;
        gate.attach(own.index)?;
        let place = Place {
            streams: Streams::of(plan, &allowance),
            interface: own,
            address,
            addresses: settings.peers.iter().cloned().collect(),
            allowance,
            gate,
            netlink: Mutex::new(netlink),
        };
        let desk = Desk::new(
            place,
            (settings.managers.clone(), settings.key.clone()),
            tell,
        )?;
        Ok(Agent {
            listener,
            desk: Arc::new(desk),
            settings: settings.clone(),
            programs: Arc::default(),
            _lock: taken,
        })
    }

    /// Opens the socket for programs. That of an earlier agent is replaced.
    fn listen(settings: &AgentSettings) -> Result<OwnedFd, AgentError> {
        let path = &settings.socket;
        let failed = |what: &str| {
            let what = format!("{what} `{}`", path.display());
            move |error: io::Error| AgentError::System { what, error }
        };
        match fs::symlink_metadata(path) {
            Ok(facts) if facts.file_type().is_socket() => {
                if pass::connect(path).is_ok() {
                    return Err(failed("open")(io::Error::other(
                        "another agent answers there; state another `--socket`",
                    )));
                }
                fs::remove_file(path).map_err(failed("replace"))?;
            }
            Ok(_) => {
                return Err(failed("open")(io::Error::other(
                    "it is there, and no socket",
                )));
            }
            Err(_) => {}
        }
        // Until its mode is set only its owner may connect, unless the umask is strange.
        let socket = pass::listen(path).map_err(|errno| failed("open")(errno.into()))?;
        let mode = if settings.group.is_some() {
            0o660
        } else {
            0o600
        };
        std::os::unix::fs::chown(path, None, settings.group)
            .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
            .map_err(failed("open"))?;
        Ok(socket)
    }

    /// Serves programs until `stop` is set. Then channels and one-shot reservations end; the limits stay, see
    /// [`remove`].
    ///
    /// # Errors
    /// [`AgentError`] if the kernel refuses what it must not refuse.
    pub fn run(self, stop: &AtomicBool) -> Result<AgentStatus, AgentError> {
        let counts = ShareCounts::default();
        let place = &self.desk.place;
        let reached = (place.allowance.peers.len(), place.allowance.streams.len());
        (self.desk.tell)(Told::Ready {
            peers: reached.0,
            streams: reached.1,
        });
        let ended = thread::scope(|scope| {
            let of_shares = scope.spawn(|| {
                let ended = shares::run(place, &self.settings, &counts, stop);
                // Without it nothing else is of use.
                stop.store(true, Ordering::Relaxed);
                ended
            });
            let looks = scope.spawn(|| self.look(stop));
            let told = scope.spawn(|| self.tell_status(&counts, stop));
            let served = self.serve(scope, stop);
            stop.store(true, Ordering::Relaxed);
            for socket in lock(&self.programs).values() {
                let _ = rustix::net::shutdown(socket, Shutdown::Both);
            }
            let _ = looks.join();
            let _ = told.join();
            let shared = of_shares.join();
            let shared = shared.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            served.and(shared)
        });
        let _ = fs::remove_file(&self.settings.socket);
        let status = self.status(&counts);
        if let Some(path) = &self.settings.status {
            let _ = write_status(&status, path);
        }
        ended.map(|()| status)
    }

    fn status(&self, counts: &ShareCounts) -> AgentStatus {
        AgentStatus {
            format: 1,
            program: "agent".to_owned(),
            host: self.settings.host.clone(),
            channels: self.desk.channels(),
            ends: self.desk.ends(),
            shares_granted: counts.granted.load(Ordering::Relaxed),
            shares_refused: counts.refused.load(Ordering::Relaxed),
            shares_unanswered: counts.unanswered.load(Ordering::Relaxed),
            unsegmented: self.desk.place.gate.unsegmented().unwrap_or(0),
            share_times: counts.times(),
        }
    }

    /// Writes the file of the status once a second.
    fn tell_status(&self, counts: &ShareCounts, stop: &AtomicBool) {
        let Some(path) = &self.settings.status else {
            return;
        };
        let mut next = Instant::now();
        let mut failed = false;
        while !stop.load(Ordering::Relaxed) {
            if Instant::now() < next {
                thread::sleep(Duration::from_millis(50));
                continue;
            }
            next = Instant::now() + Duration::from_secs(1);
            let written = write_status(&self.status(counts), path);
            if let (Err(error), false) = (&written, failed) {
                let path = path.display();
                (self.desk.tell)(Told::Trouble(format!("cannot write `{path}`: {error}")));
            }
            failed = written.is_err();
        }
    }

    /// Compares with the manager's list from time to time.
    fn look(&self, stop: &AtomicBool) {
        let mut silent = false;
        let mut next = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            if Instant::now() < next {
                thread::sleep(Duration::from_millis(50));
                continue;
            }
            next = Instant::now() + LOOK;
            match self.desk.reconcile() {
                Ok(lost) => {
                    silent = false;
                    for id in lost {
                        // The program sees that its rights have ended.
                        if let Some(socket) = lock(&self.programs).get(&id) {
                            let _ = rustix::net::shutdown(socket, Shutdown::Both);
                        }
                    }
                }
                Err(error) => {
                    if !silent {
                        (self.desk.tell)(Told::Trouble(error.to_string()));
                    }
                    silent = true;
                    // Perhaps it has another key for this host by now.
                    if let Err(error) = self.desk.read_key_again() {
                        (self.desk.tell)(Told::Trouble(error.to_string()));
                    }
                }
            }
        }
    }

    fn serve<'scope>(
        &'scope self,
        scope: &'scope thread::Scope<'scope, '_>,
        stop: &'scope AtomicBool,
    ) -> Result<(), AgentError> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: PATIENCE_MS * 1_000_000,
        };
        while !stop.load(Ordering::Relaxed) {
            let listener = self.listener.as_fd();
            let mut waits = [PollFd::from_borrowed_fd(listener, PollFlags::IN)];
            match poll(&mut waits, Some(&timeout)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(errno) => return Err(AgentError::system("wait for programs")(errno)),
            }
            let Ok(socket) = pass::accept(&self.listener) else {
                continue;
            };
            let Ok(peer) = rustix::net::sockopt::socket_peercred(&socket) else {
                continue;
            };
            let program = Program {
                id: NEXT.fetch_add(1, Ordering::Relaxed),
                uid: peer.uid.as_raw(),
                pid: peer.pid.as_raw_nonzero().get(),
            };
            let socket = Arc::new(socket);
            {
                let mut programs = lock(&self.programs);
                if programs.len() >= MOST_PROGRAMS {
                    let no = refused("quota", format!("{MOST_PROGRAMS} programs are connected"));
                    send(&socket, &no, None);
                    continue;
                }
                programs.insert(program.id, Arc::clone(&socket));
            }
            scope.spawn(move || {
                self.talk(program, &socket);
                self.desk.program_ended(program);
                lock(&self.programs).remove(&program.id);
            });
        }
        Ok(())
    }

    /// Answers a program until it ends.
    fn talk(&self, program: Program, socket: &OwnedFd) {
        while let Ok(Some((bytes, came))) = pass::receive(socket) {
            let (reply, descriptor) = match question(&bytes) {
                Ok(wish) => self.desk.answer(program, &wish, came),
                Err(reply) => (reply, None),
            };
            if !send(socket, &reply, descriptor.as_ref()) {
                return;
            }
        }
    }
}

fn send(socket: &OwnedFd, reply: &Reply, descriptor: Option<&OwnedFd>) -> bool {
    let Ok(bytes) = serde_json::to_vec(reply) else {
        return false;
    };
    pass::send(socket, &bytes, descriptor.map(|one| one.as_fd())).is_ok()
}

/// Takes an ended agent's queues and gate away: the interface is as the kernel makes it.
///
/// # Errors
/// An agent runs on the interface, or the kernel refuses.
pub fn remove(name: &str) -> Result<bool, AgentError> {
    let own = interface::by_name(name);
    let own = own.map_err(|error| AgentError::Interface(error.to_string()))?;
    let taken = NameLock::take(&format!("agent:{name}"));
    let _taken = taken.map_err(|error| match error.kind() {
        rtwire_sys::ErrorKind::InUse => AgentError::InUse {
            interface: name.to_owned(),
        },
        _ => AgentError::Interface(error.to_string()),
    })?;
    let mut netlink = Netlink::new();
    let tree = netlink.tree(own.index)?;
    if tree.queues.first().is_none_or(|root| root.handle != MAJOR) {
        return Ok(false);
    }
    netlink.set_tree(own.index, &rtwire_host::netlink::Tree::default())?;
    Gate::remove(own.index)?;
    netlink.set_segments(own.index, SEGMENTS)?;
    Ok(true)
}
