//! The manager as it runs: requests come to its socket at random moments, and others come whether it has answered or not.
//!
//! A time is that from the moment at which a request was due until its answer is here. So a manager that stops for a while
//! makes all requests late that were due meanwhile. So does a machine that stops: in turns with the manager a bare server is
//! asked in the same way. It decides nothing, and answers once it has appended as many records to a file and synced it.

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
use rtwire_measure::bench::{Compared, Row};

use crate::{HOSTS, Random, UNLIMITED, plan_of_the_hall, rows_of};

/// The changes that are asked for in a second: admissions and releases in equal parts.
const CHANGES_PER_SECOND: f64 = 5_000.0;
/// The time for which the manager, and then the bare server, is asked.
const TURN: Duration = Duration::from_secs(1);
/// The turns of each.
const TURNS: usize = 5;
/// The hosts that ask.
const ASKING: usize = 64;
/// The bytes of a question to the bare server, and of its answer: about as many as the manager's have.
const BARE_BYTES: usize = 160;
/// The longest wait for the last answers.
const PATIENCE: Duration = Duration::from_secs(5);

/// A server in a thread of this process.
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

/// Somebody who asks at random moments.
trait Asks {
    fn socket(&self) -> &UdpSocket;

    /// Sends the next question. Returns its number, and whether its time counts.
    fn ask(&mut self) -> (u128, bool);

    /// Takes an answer. Returns the number of its question.
    fn take(&mut self, datagram: &[u8]) -> u128;
}

/// The answers of several turns.
#[derive(Default)]
struct Answers {
    times_us: Vec<f64>,
    asked: u64,
    /// The questions without an answer.
    lost: usize,
}

impl Answers {
    /// Asks for one turn.
    fn turn(&mut self, asks: &mut impl Asks, random: &mut Random) {
        let mut due_of: HashMap<u128, (Instant, bool)> = HashMap::new();
        let mut buffer = [0; LARGEST_MESSAGE + 1];
        let begun = Instant::now();
        let mut due = begun;
        loop {
            let ended = due > begun + TURN;
            if ended && due_of.is_empty() {
                break;
            }
            if !ended && Instant::now() >= due {
                let (number, counts) = asks.ask();
                due_of.insert(number, (due, counts));
                self.asked += 1;
                due += Duration::from_secs_f64(-(1.0 - random.uniform()).ln() / CHANGES_PER_SECOND);
                continue;
            }
            let until = if ended {
                Instant::now() + PATIENCE
            } else {
                due
            };
            if is_readable(asks.socket(), until) {
                let count = asks.socket().recv(&mut buffer).unwrap();
                let number = asks.take(&buffer[..count]);
                let (due, counts) = due_of.remove(&number).unwrap();
                if counts {
                    self.times_us.push(due.elapsed().as_secs_f64() * 1e6);
                }
            } else if ended {
                break;
            }
        }
        // A socket was full: a host would ask again, after 20 ms at least. Here they count as the whole wait.
        self.lost += due_of.len();
        let unanswered = due_of.values().filter(|(_, counts)| *counts).count();
        let patience_us = PATIENCE.as_secs_f64() * 1e6;
        self.times_us
            .extend(std::iter::repeat_n(patience_us, unanswered));
    }
}

fn is_readable(socket: &UdpSocket, until: Instant) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let left = until.saturating_duration_since(Instant::now());
    let timeout = Timespec {
        tv_sec: left.as_secs().try_into().unwrap(),
        tv_nsec: left.subsec_nanos().into(),
    };
    let mut sockets = [PollFd::new(socket, PollFlags::IN)];
    poll(&mut sockets, Some(&timeout)).unwrap() > 0
}

/// The bare server, and the socket that asks it.
struct AsksBare {
    socket: UdpSocket,
    asked: u128,
    _server: Running,
}

impl AsksBare {
    /// Starts the server; its file is in `folder`.
    fn new(folder: &Path) -> AsksBare {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        socket.connect(address).unwrap();
        server.set_nonblocking(true).unwrap();
        let ends = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&ends);
        let mut floor = crate::Floor::beside(folder);
        let thread = thread::spawn(move || {
            let mut buffer = [0; BARE_BYTES];
            let mut answers = Vec::new();
            while !over.load(Ordering::Acquire) {
                is_readable(&server, Instant::now() + Duration::from_millis(200));
                while let Ok((_, source)) = server.recv_from(&mut buffer) {
                    answers.push((source, buffer));
                }
                if !answers.is_empty() {
                    floor.append_us(answers.len());
                }
                for (source, answer) in answers.drain(..) {
                    server.send_to(&answer, source).unwrap();
                }
            }
        });
        AsksBare {
            socket,
            asked: 0,
            _server: Running {
                address,
                ends,
                thread: Some(thread),
            },
        }
    }
}

impl Asks for AsksBare {
    fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    fn ask(&mut self) -> (u128, bool) {
        self.asked += 1;
        let mut question = [0x5a; BARE_BYTES];
        question[..16].copy_from_slice(&self.asked.to_be_bytes());
        self.socket.send(&question).unwrap();
        (self.asked, true)
    }

    fn take(&mut self, datagram: &[u8]) -> u128 {
        u128::from_be_bytes(datagram[..16].try_into().unwrap())
    }
}

/// Hosts with open sessions, at one socket.
struct Hosts {
    socket: UdpSocket,
    hosts: Vec<(Key, Header)>,
    requests: u128,
    random: Random,
    /// The hosts of open questions.
    asked_by: HashMap<u128, usize>,
    /// Connections, each with its host.
    held: Vec<(usize, Granted)>,
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
            random: Random(7),
            asked_by: HashMap::new(),
            held: Vec::new(),
        }
    }

    /// Sends a host's question with a request of its own.
    fn send(&mut self, host: usize, question: impl FnOnce(u128) -> Question) -> u128 {
        self.requests += 1;
        let (key, header) = &mut self.hosts[host];
        header.sequence += 1;
        let sealed = key.seal(question(self.requests).to_bytes(header));
        self.socket.send(&sealed).unwrap();
        self.asked_by.insert(self.requests, host);
        self.requests
    }

    fn reserve(&mut self) -> u128 {
        let host = (self.random.uniform() * ASKING as f64) as usize;
        let own = host * HOSTS / ASKING;
        let to = (own + 1 + (self.random.uniform() * (HOSTS - 1) as f64) as usize) % HOSTS;
        let ask = crate::small_connection(to);
        self.send(host, |request| Question::Reserve {
            request,
            only_ask: false,
            ask,
        })
    }

    fn opened(&self, datagram: &[u8]) -> (u128, Answer) {
        let name = rtwire_manager::host_of(datagram).unwrap();
        let number: usize = name[1..].parse().unwrap();
        let (key, _) = &self.hosts[number * ASKING / HOSTS];
        let (_, request, answer) = Answer::from_bytes(key.open(datagram).unwrap()).unwrap();
        (request, answer)
    }

    /// It grants nothing while reservations of an earlier start may be in use.
    fn wait_until_granted(&mut self) {
        let mut buffer = [0; LARGEST_MESSAGE + 1];
        loop {
            self.reserve();
            let count = self.socket.recv(&mut buffer).unwrap();
            match self.opened(&buffer[..count]).1 {
                Answer::Granted(_) => return,
                Answer::Refused(no) => {
                    thread::sleep(Duration::from_micros(no.retry_after_us.into()));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

impl Asks for Hosts {
    fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// As many releases as admissions, so that the size stays. The time of an admission counts.
    fn ask(&mut self) -> (u128, bool) {
        if self.held.len() <= ASKING {
            return (self.reserve(), true);
        }
        let at = (self.random.uniform() * self.held.len() as f64) as usize;
        let (host, granted) = self.held.swap_remove(at);
        let connection = granted.connection;
        let request = self.send(host, |request| Question::Release {
            request,
            connection,
        });
        (request, false)
    }

    fn take(&mut self, datagram: &[u8]) -> u128 {
        let (request, answer) = self.opened(datagram);
        let host = self.asked_by.remove(&request).unwrap();
        match answer {
            Answer::Granted(granted) => self.held.push((host, granted)),
            Answer::Released { .. } => {}
            other => panic!("{other:?}"),
        }
        request
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
    let mut asks_bare = AsksBare::new(state);
    hosts.wait_until_granted();
    let (mut manager, mut bare) = (Answers::default(), Answers::default());
    let mut random = Random(9);
    for _ in 0..TURNS {
        manager.turn(&mut hosts, &mut random);
        bare.turn(&mut asks_bare, &mut random);
    }
    let what = format!(
        "request to durable answer, running, {CHANGES_PER_SECOND} changes per second, {place}"
    );
    let floor = crate::beside_the_floor(
        "asked as often, a server that decides nothing and answers once records are synced",
        bare.times_us,
        &[],
    );
    let mut rows = rows_of(&what, count, manager.times_us, Some(1_000.0), &floor);
    let lost = manager.lost;
    rows.push(Row {
        figure: format!("{what}, {count} connections, without an answer"),
        value: lost as f64,
        unit: "".to_owned(),
        reach: Some("0".to_owned()),
        // Where the bare server's socket was full, too, the machine stood still for that long.
        held: (lost == 0 || bare.lost == 0).then_some(lost == 0),
        why: (lost > 0).then(|| "the manager's socket was full".to_owned()),
        samples: manager.asked,
        against: vec![Compared {
            name: format!("the same server, of {} questions", bare.asked),
            value: bare.lost as f64,
        }],
    });
    rows
}
