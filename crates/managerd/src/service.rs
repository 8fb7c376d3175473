//! The manager on a UDP socket: datagrams are taken in groups, their changes stored as one, then they are answered.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rtwire_manager::{
    Change, Counts, Distrust, LARGEST_MESSAGE, Manager, Quotas, Settings, ShareRules, budgets_of,
};
use rtwire_plan::Plan;
use rustix::net::sockopt;

use crate::epochs::Epochs;
use crate::keys::{KeyFolder, KeyWatch, random};
use crate::status::{LinkStatus, ManagerStatus, write_status};
use crate::times::NewestTimes;
use crate::{EtcdAddress, FileStore, ManagerdError, Store};

/// The room for datagrams that wait, bytes: thousands of requests, while the machine or its disk stands still for a second.
const WAITING_BYTES: usize = 4 << 20;
/// The datagrams that are answered after one write to the store, at most.
const MOST_IN_A_GROUP: usize = 256;
/// The time between two looks at the key files, and at what other threads tell; and the longest wait for a datagram.
const LOOK: Duration = Duration::from_millis(200);
/// The time between two status files.
const STATUS: Duration = Duration::from_secs(1);

/// The settings of a manager's daemon.
#[derive(Clone, Debug)]
pub struct ServiceSettings {
    /// The folder of the newest plan file, and of the store if `etcd` is none.
    pub state: PathBuf,
    /// The store in etcd, if it is there: then this manager stands by until it leads.
    pub etcd: Option<EtcdAddress>,
    /// The time for which a leader that died keeps the others waiting, seconds.
    pub lease_s: u32,
    /// The folder of the key files.
    pub keys: PathBuf,
    /// The address to listen at.
    pub listen: SocketAddr,
    /// The widest budgets by priority, ns.
    pub widest_ns: [u64; 8],
    /// True if the user stated a budget: then those of an old store must be the same.
    pub budgets_stated: bool,
    /// The limits of each host.
    pub quotas: Quotas,
    /// The rules of one-shot reservations.
    pub shares: ShareRules,
    /// The file of its [`ManagerStatus`], if there shall be one.
    pub status: Option<PathBuf>,
}

/// Something to be told while the manager runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Told {
    /// The manager answers at this address, with the connections of its store.
    Ready {
        /// The address.
        address: SocketAddr,
        /// The connections of the store.
        connections: usize,
        /// The epoch.
        epoch: u64,
    },
    /// Messages were not believed. It is told for the first, the tenth, the hundredth and so on.
    Distrusted {
        /// The address that the last one came from.
        source: SocketAddr,
        /// The reason.
        why: Distrust,
        /// The number for this reason so far.
        count: u64,
    },
    /// Another manager leads; this one waits for its end.
    StandsBy {
        /// The address of the leader, as it told it.
        leader: String,
    },
    /// The key files were read again.
    Rekeyed,
    /// Something failed, and the manager goes on: the message.
    Trouble(String),
}

/// The manager's daemon.
#[derive(Debug)]
pub struct Service {
    manager: Manager,
    store: Box<dyn Store>,
    socket: UdpSocket,
    keys: KeyWatch,
    epochs: Epochs,
    start: Instant,
    times: NewestTimes,
    /// Each link in each direction, with its rate in bit/s.
    links: Vec<(String, String, u64)>,
    status: Option<PathBuf>,
    /// The moment of the newest status.
    told: Option<Instant>,
}

impl AsFd for Service {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Service {
    /// Opens the store, reads the keys, binds the socket. With etcd it first waits until this manager leads; it is `None` if
    /// `keep_going` returned false before.
    ///
    /// # Errors
    /// [`ManagerdError`] if one of them cannot be used, or the stored connections do not fit the plan.
    pub fn open(
        plan: Arc<Plan>,
        settings: &ServiceSettings,
        keep_going: &mut dyn FnMut() -> bool,
        tell: &mut dyn FnMut(Told),
    ) -> Result<Option<Service>, ManagerdError> {
        let budgets = || {
            let budgets = budgets_of(&plan, &settings.widest_ns);
            budgets.map_err(|error| ManagerdError::Manager(error.into()))
        };
        let mut store: Box<dyn Store> = match &settings.etcd {
            None => Box::new(FileStore::open(&settings.state)?),
            Some(etcd) => {
                // What is wrong here is said now, and not when this manager is needed.
                KeyFolder::new(&settings.keys).changed()?;
                budgets()?;
                drop(bound(settings.listen)?);
                let state = &settings.state;
                std::fs::create_dir_all(state).map_err(ManagerdError::file("make", state))?;
                let who = settings.listen.to_string();
                match etcd.lead(&who, settings.lease_s, keep_going, tell)? {
                    Some(store) => Box::new(store),
                    None => return Ok(None),
                }
            }
        };
        let mut keys = KeyFolder::new(&settings.keys);
        let known = keys.changed()?.unwrap_or_default();
        let budgets = store.of_plan(&plan.plan_id, settings.budgets_stated, &budgets)?;
        let mut restored = store.restored()?;
        // Before anything is granted: the next start must wait as long.
        restored.longest_lifetime_us = store.longest_lifetime_us(settings.shares.lifetime_us)?;
        let of_manager = Settings {
            quotas: settings.quotas,
            shares: settings.shares,
            epoch: u64::from_be_bytes(random()?) | 1,
            now_ns: 0,
        };
        let both = |link: &rtwire_plan::Link| {
            let [a, b] = link.ends.clone();
            [(a.clone(), b.clone(), link.rate_bps), (b, a, link.rate_bps)]
        };
        let links = plan.network.links.iter().flat_map(both).collect();
        let manager = Manager::new(plan, &budgets, restored, known, of_manager)?;
        let socket = bound(settings.listen)?;
        let epochs = Epochs::new(&settings.state, &manager);
        Ok(Some(Service {
            manager,
            store,
            socket,
            keys: keys.watch(LOOK),
            epochs,
            start: Instant::now(),
            times: NewestTimes::default(),
            links,
            status: settings.status.clone(),
            told: None,
        }))
    }

    /// Returns the address at which the manager answers.
    ///
    /// # Errors
    /// [`ManagerdError::Socket`].
    pub fn address(&self) -> Result<SocketAddr, ManagerdError> {
        let address = self.socket.local_addr();
        address.map_err(|error| ManagerdError::Socket {
            what: "name the socket of",
            address: SocketAddr::from(([0, 0, 0, 0], 0)),
            error,
        })
    }

    /// Returns the counts since the start.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        self.manager.counts()
    }

    /// Answers until `keep_going` returns false. Returns with an error only if the store or the socket fails, or another
    /// manager may lead by now.
    ///
    /// # Errors
    /// [`ManagerdError`]: nothing was answered that is not stored.
    pub fn run(
        &mut self,
        keep_going: &mut dyn FnMut() -> bool,
        tell: &mut dyn FnMut(Told),
    ) -> Result<(), ManagerdError> {
        let address = self.address()?;
        tell(Told::Ready {
            address,
            connections: self.manager.connections(),
            epoch: self.manager.epoch(),
        });
        let failed = |what| {
            move |error: std::io::Error| ManagerdError::Socket {
                what,
                address,
                error,
            }
        };
        let mut buffer = [0_u8; LARGEST_MESSAGE + 1];
        let mut changes: Vec<Change> = Vec::new();
        let mut answers: Vec<(SocketAddr, Vec<u8>, u64)> = Vec::new();
        let mut looked = Instant::now();
        while keep_going() {
            self.wait().map_err(failed("wait at"))?;
            for _ in 0..MOST_IN_A_GROUP {
                let (count, source) = match self.socket.recv_from(&mut buffer) {
                    Ok(received) => received,
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                    // An answer that a host could not take: nothing is wrong with this socket.
                    Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => continue,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(failed("receive at")(error)),
                };
                let now_ns = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
                // By address without port: a source has no endless number of names.
                let name = source.ip().to_string();
                let outcome = self.manager.datagram(now_ns, &name, &buffer[..count]);
                if let Some(why) = outcome.distrust {
                    let count = self.manager.counts().distrusted_for(why);
                    if is_power_of_ten(count) {
                        tell(Told::Distrusted { source, why, count });
                    }
                }
                changes.extend(outcome.change);
                answers.extend(outcome.answer.map(|answer| (source, answer, now_ns)));
            }
            if !changes.is_empty() {
                self.store.write(&changes)?;
                for change in changes.drain(..) {
                    self.epochs.follow(change);
                }
            }
            // After all decisions: what is answered was decided by a manager that led.
            self.store.leads()?;
            for (to, answer, came_ns) in answers.drain(..) {
                // A lost answer is asked for again.
                let _ = self.socket.send_to(&answer, to);
                let now_ns = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
                self.times.add(now_ns.saturating_sub(came_ns));
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                self.look(tell);
            }
        }
        self.epochs.finish(tell);
        self.tell_status(tell);
        Ok(())
    }

    /// Returns the account of the manager so far.
    pub fn status(&mut self) -> ManagerStatus {
        let counts = self.manager.counts();
        let mut distrusted: BTreeMap<String, u64> = BTreeMap::new();
        for ((_, why), count) in &counts.distrusted {
            *distrusted.entry(why.word().to_owned()).or_default() += count;
        }
        let refused = counts.refused.iter();
        let mut status = ManagerStatus {
            format: 1,
            program: "manager".to_owned(),
            epoch: self.manager.epoch(),
            connections: self.manager.connections() as u64,
            granted: counts.granted,
            released: counts.released,
            shares_granted: counts.shared,
            refused: refused
                .map(|(reason, count)| (reason.word().to_owned(), *count))
                .collect(),
            distrusted,
            links: Vec::new(),
            answer_times: self.times.distribution(),
        };
        for (from, to, rate_bps) in &self.links {
            let Some((left_bps, shared)) = self.manager.link(from, to) else {
                continue;
            };
            let shared_bps = shared.saturating_mul(8_000);
            status.links.push(LinkStatus {
                from: from.clone(),
                to: to.clone(),
                rate_bps: *rate_bps,
                promised_bps: rate_bps.saturating_sub(left_bps).saturating_sub(shared_bps),
                shared_bps,
            });
        }
        status
    }

    fn tell_status(&mut self, tell: &mut dyn FnMut(Told)) {
        let Some(path) = self.status.clone() else {
            return;
        };
        self.told = Some(Instant::now());
        if let Err(error) = write_status(&self.status(), &path) {
            let path = path.display();
            tell(Told::Trouble(format!("cannot write `{path}`: {error}")));
        }
    }

    /// Takes changed keys, tells what went wrong, writes the status.
    fn look(&mut self, tell: &mut dyn FnMut(Told)) {
        let read = self.keys.changed().and_then(|keys| match keys {
            Some(keys) => Ok(self.manager.rekey(keys).map(|()| true)?),
            None => Ok(false),
        });
        match read {
            Ok(true) => tell(Told::Rekeyed),
            Ok(false) => {}
            Err(error) => tell(Told::Trouble(format!("{error}; the keys of before stay"))),
        }
        self.epochs.look(tell);
        if self.told.is_none_or(|told| told.elapsed() >= STATUS) {
            self.tell_status(tell);
        }
    }

    fn wait(&self) -> Result<(), std::io::Error> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut sockets = [PollFd::new(&self.socket, PollFlags::IN)];
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(LOOK.subsec_nanos()),
        };
        match poll(&mut sockets, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn bound(listen: SocketAddr) -> Result<UdpSocket, ManagerdError> {
    let socket = UdpSocket::bind(listen);
    let made = socket.and_then(|socket| {
        // Without CAP_NET_ADMIN up to what `net.core.rmem_max` allows; what does not fit is asked for again.
        if sockopt::set_socket_recv_buffer_size_force(&socket, WAITING_BYTES).is_err() {
            sockopt::set_socket_recv_buffer_size(&socket, WAITING_BYTES)?;
        }
        socket.set_nonblocking(true).map(|()| socket)
    });
    made.map_err(|error| ManagerdError::Socket {
        what: "listen at",
        address: listen,
        error,
    })
}

fn is_power_of_ten(count: u64) -> bool {
    let mut rest = count;
    while rest >= 10 && rest % 10 == 0 {
        rest /= 10;
    }
    rest == 1
}

/// Returns the path of the newest plan file in a state's folder.
#[must_use]
pub fn plan_path(state: &Path) -> PathBuf {
    state.join("plan.json")
}

#[cfg(test)]
mod tests {
    use super::{UdpSocket, bound};

    /// As many as come in a second to a manager that is asked 4000 times in each.
    const REQUESTS: usize = 4_000;

    #[test]
    fn requests_of_a_second_wait_for_a_manager_that_stands_still() {
        let manager = bound("127.0.0.1:0".parse().unwrap()).unwrap();
        let host = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = manager.local_addr().unwrap();
        for _ in 0..REQUESTS {
            host.send_to(&[0x5a; 200], address).unwrap();
        }
        let mut buffer = [0; 256];
        let mut waited = 0;
        while manager.recv_from(&mut buffer).is_ok() {
            waited += 1;
        }
        assert_eq!(
            waited, REQUESTS,
            "as root, or with CAP_NET_ADMIN, all of them fit"
        );
    }
}
