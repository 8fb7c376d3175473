//! The manager as it runs: requests come to its socket at random moments, and others come whether it has answered or not.
//!
//! A time is that from the moment at which a request was due until its answer is here. So a manager that stops for a while
//! makes all requests late that were due meanwhile.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rtwire_manager::{Answer, Granted, Header, Key, LARGEST_MESSAGE, Question};
use rtwire_managerd::{Service, ServiceSettings, Told, key_path, make_key, read_key};
use rtwire_measure::bench::Row;

use crate::{HOSTS, UNLIMITED, plan_of_the_hall, rows_of};

/// The changes that are asked for in a second: admissions and releases in equal parts.
const CHANGES_PER_SECOND: f64 = 5_000.0;
const LASTS: Duration = Duration::from_secs(5);
/// The hosts that ask.
const ASKING: usize = 64;
/// The writes whose time is that of the disk alone.
const WRITES: usize = 256;
/// The longest wait for the last answers.
const PATIENCE: Duration = Duration::from_secs(5);

/// A manager in a thread of this process.
struct Running {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Starts the manager of a store. Its plan files are of no interest at the end: it is left without one of its last epoch.
fn started(state: &Path, keys: &Path) -> Running {
    let settings = ServiceSettings {
        state: state.to_owned(),
        etcd: None,
        lease_s: 5,
        keys: keys.to_owned(),
        listen: "127.0.0.1:0".parse().unwrap(),
        widest_ns: [crate::WIDEST_NS; 8],
        budgets_stated: false,
        quotas: UNLIMITED,
        shares: rtwire_manager::ShareRules::default(),
        status: None,
    };
    let ends = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&ends);
    let (ready, told) = channel();
    let thread = thread::spawn(move || {
        let mut tell = |what: Told| match what {
            Told::Ready { address, .. } => ready.send(address).unwrap(),
            Told::Trouble(why) => eprintln!("the manager says: {why}"),
            _ => {}
        };
        let opened = Service::open(plan_of_the_hall(), &settings, &mut || true, &mut tell);
        let mut service = opened.unwrap().unwrap();
        service
            .run(&mut || !over.load(Ordering::Acquire), &mut tell)
            .unwrap();
    });
    Running {
        address: told.recv().unwrap(),
        ends,
        thread: Some(thread),
    }
}

/// Hosts with open sessions, at one socket.
struct Hosts {
    socket: UdpSocket,
    hosts: Vec<(Key, Header)>,
    requests: u128,
    random: u64,
}

impl Hosts {
    fn new(to: SocketAddr, keys: &Path) -> Hosts {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(to).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut hosts = Vec::new();
        let mut buffer = [0; LARGEST_MESSAGE + 1];
        for host in 0..ASKING {
            let name = format!("h{}", host * HOSTS / ASKING);
            let key = read_key(&key_path(keys, &name)).unwrap();
            let header = Header {
                host: name,
                epoch: 0,
                session: 0,
                sequence: 0,
            };
            let hello = Question::Hello { nonce: 1 };
            socket.send(&key.seal(hello.to_bytes(&header))).unwrap();
            let count = socket.recv(&mut buffer).unwrap();
            let (header, _, _) = Answer::from_bytes(key.open(&buffer[..count]).unwrap()).unwrap();
            let header = Header {
                sequence: 0,
                ..header
            };
            hosts.push((key, header));
        }
        Hosts {
            socket,
            hosts,
            requests: 0,
            random: 7,
        }
    }

    /// Returns a number from 0 to 1.
    fn uniform(&mut self) -> f64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as f64 / f64::from(1_u32 << 31)
    }

    /// Sends a host's question with a request of its own.
    fn send(&mut self, host: usize, question: impl FnOnce(u128) -> Question) -> u128 {
        self.requests += 1;
        let (key, header) = &mut self.hosts[host];
        header.sequence += 1;
        let sealed = key.seal(question(self.requests).to_bytes(header));
        self.socket.send(&sealed).unwrap();
        self.requests
    }

    fn reserve(&mut self) -> (usize, u128) {
        let host = (self.uniform() * ASKING as f64) as usize;
        let own = host * HOSTS / ASKING;
        let to = (own + 1 + (self.uniform() * (HOSTS - 1) as f64) as usize) % HOSTS;
        let ask = crate::small_connection(to);
        let request = self.send(host, |request| Question::Reserve {
            request,
            only_ask: false,
            ask,
        });
        (host, request)
    }

    /// Waits for an answer until a moment.
    fn answer(&mut self, until: Instant) -> Option<(u128, Answer)> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: left.as_secs().try_into().unwrap(),
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut sockets = [PollFd::new(&self.socket, PollFlags::IN)];
        if poll(&mut sockets, Some(&timeout)).unwrap() == 0 {
            return None;
        }
        let mut buffer = [0; LARGEST_MESSAGE + 1];
        let count = self.socket.recv(&mut buffer).unwrap();
        let name = rtwire_manager::host_of(&buffer[..count]).unwrap();
        let number: usize = name[1..].parse().unwrap();
        let (key, _) = &self.hosts[number * ASKING / HOSTS];
        let opened = key.open(&buffer[..count]).unwrap();
        let (_, request, answer) = Answer::from_bytes(opened).unwrap();
        Some((request, answer))
    }
}

/// Measures the manager of a store with `count` connections.
pub(crate) fn rows(state: &Path, count: usize, place: &str) -> Vec<Row> {
    let keys = tempfile::tempdir().unwrap();
    for host in 0..HOSTS {
        make_key(keys.path(), &format!("h{host}"), false).unwrap();
    }
    let running = started(state, keys.path());
    let mut hosts = Hosts::new(running.address, keys.path());
    let far = || Instant::now() + PATIENCE;
    // It grants nothing while reservations of an earlier start may be in use.
    loop {
        hosts.reserve();
        match hosts.answer(far()).unwrap().1 {
            Answer::Granted(_) => break,
            Answer::Refused(no) => {
                thread::sleep(Duration::from_micros(no.retry_after_us.into()));
            }
            other => panic!("{other:?}"),
        }
    }
    let mut due_of: HashMap<u128, (Instant, bool, usize)> = HashMap::new();
    let mut held: Vec<(usize, Granted)> = Vec::new();
    let (mut times, mut released) = (Vec::new(), 0_u64);
    let begun = Instant::now();
    let mut due = begun;
    loop {
        let ended = due > begun + LASTS;
        if ended && due_of.is_empty() {
            break;
        }
        if !ended && Instant::now() >= due {
            // As many releases as admissions, so that the size stays.
            let releases = held.len() > ASKING;
            let (host, request) = if releases {
                let at = (hosts.uniform() * held.len() as f64) as usize;
                let (host, granted) = held.swap_remove(at);
                let connection = granted.connection;
                let request = hosts.send(host, |request| Question::Release {
                    request,
                    connection,
                });
                (host, request)
            } else {
                hosts.reserve()
            };
            due_of.insert(request, (due, !releases, host));
            due += Duration::from_secs_f64(-(1.0 - hosts.uniform()).ln() / CHANGES_PER_SECOND);
            continue;
        }
        let until = if ended { far() } else { due };
        match hosts.answer(until) {
            Some((request, answer)) => {
                let (due, reserves, host) = due_of.remove(&request).unwrap();
                match answer {
                    Answer::Granted(granted) if reserves => {
                        times.push(due.elapsed().as_secs_f64() * 1e6);
                        held.push((host, granted));
                    }
                    Answer::Released { .. } => released += 1,
                    other => panic!("{other:?}"),
                }
            }
            None if ended => break,
            None => {}
        }
    }
    // Its socket was full: a host would ask again, after 20 ms at least. Here they count as the whole wait.
    let lost = due_of.len();
    let unanswered = due_of.values().filter(|(_, reserves, _)| *reserves).count();
    times.extend(std::iter::repeat_n(
        PATIENCE.as_secs_f64() * 1e6,
        unanswered,
    ));
    let what = format!(
        "request to durable answer, running, {CHANGES_PER_SECOND} changes per second, {place}"
    );
    let asked = times.len() as u64 + released;
    let mut floor = crate::Floor::beside(state);
    let floor = (0..WRITES).map(|_| floor.append_us(1)).collect();
    let disk = crate::beside_the_disk(1, floor, &[]);
    let mut rows = rows_of(&what, count, times, Some(1_000.0), &disk);
    rows.push(Row {
        figure: format!("{what}, {count} connections, without an answer"),
        value: lost as f64,
        unit: "".to_owned(),
        reach: Some("0".to_owned()),
        held: Some(lost == 0),
        why: (lost > 0).then(|| "the manager's socket was full".to_owned()),
        samples: asked,
        against: Vec::new(),
    });
    rows
}
