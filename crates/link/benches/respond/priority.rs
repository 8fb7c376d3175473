//! Process priority: how long a real-time task takes while a process of low priority on its core receives at full speed.
//!
//! The experiment of RTDiP's authors: a SCHED_FIFO task wakes every 20 ms (and every 1 ms) and computes for some 300 µs; the
//! receiver on the same core, and the threads that receive for it, have the lowest priority; messages of 1 KB come one by
//! one from the other core, 100 000 a second. A veth does receive work on the sender's core: where the soft interrupt is to fall upon the
//! task's core, as it does with a network card, the kernel's packet steering (RPS) puts it there.

use super::lanes::frame;
use super::rows::row;
use rtwire_host::napi::{NapiDeferral, NapiPriority, NapiThreads};
use rtwire_link::program::{Attach, NewestSlot, ProgramConfig, ReceiveProgram, XdpMode};
use rtwire_link::responder::port_filter;
use rtwire_link::{Receiver, ReceiverConfig, Sender, SenderConfig, TxPath, WakeUp};
use rtwire_measure::bench::{Compared, Row};
use rtwire_sys::clock::{self, Clock, now_ns};
use rtwire_sys::sched::thread::{self as scheduling, Want};
use rtwire_sys::{memory, netns, sched};
use rtwire_testkit::NetnsPair;
use rtwire_wire::EtherType;
use rtwire_wire::rtdip::Semantics;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const OCTETS: usize = 1024;
const PORT: u16 = 2007;
/// The core of the task and of the receiver.
const CORE: usize = 0;
const TASK_PRIORITY: u8 = 80;
const TASK_NS: u64 = 300_000;
/// From one message to the next: 100 000 a second. Much faster, and the kernel gives the soft interrupt's work to a thread
/// (ksoftirqd) on its own account: then it disturbs no task any more, and loses nearly everything.
const SPACING_NS: u64 = 10_000;
/// All of time sharing that the lowest class of real-time leaves: this machine has other work to do as well.
const LOW: Want = Want::Other(-20);

/// Where the receive work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Context {
    /// In the soft interrupt, on the task's core.
    SoftInterrupt,
    /// In a thread of the kernel on the task's core.
    Thread(Want),
    /// In the receiver's own calls; interrupts deferred for 5 ms.
    Reader,
}

/// What the messages travel in, and how they are received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carrier {
    Tcp,
    Udp,
    Packet,
    /// RTDiP, newest-value semantics, by the receive program.
    Newest,
}

const CARRIERS: [(Carrier, &str); 4] = [
    (Carrier::Tcp, "TCP"),
    (Carrier::Udp, "UDP"),
    (Carrier::Packet, "AF_PACKET"),
    (Carrier::Newest, "RTDiP newest"),
];

/// A flood and its receiver; only between `start` and `stop` is anything sent.
struct Flood {
    name: String,
    context: Context,
    carrier: Carrier,
    orders: mpsc::Sender<()>,
    done: mpsc::Receiver<u64>,
    stop: Arc<AtomicBool>,
    /// Messages received so far, ever.
    received: Arc<AtomicU64>,
    slot: Option<NewestSlot>,
    sent: u64,
    arrived: u64,
    seconds: f64,
    /// Execution times, ns, for each period.
    samples: [Vec<u64>; 2],
    // Fields are dropped in this order: threads first, then the program, then the network.
    _threads: Option<NapiThreads>,
    _deferral: Option<NapiDeferral>,
    _program: Option<ReceiveProgram>,
    _pair: NetnsPair,
}

pub(crate) const PERIODS_NS: [u64; 2] = [1_000_000, 20_000_000];

/// Measures everything; `stretch` is how long each is watched at a time.
pub(crate) fn rows(rounds: usize, stretch: Duration) -> Vec<Row> {
    let mut floods = vec![None];
    for (carrier, name) in CARRIERS {
        for context in [Context::SoftInterrupt, Context::Thread(LOW)] {
            floods.push(Some(Flood::open(carrier, context, name)));
        }
    }
    floods.push(Some(Flood::open(
        Carrier::Udp,
        Context::Thread(Want::Fifo(TASK_PRIORITY + 10)),
        "UDP",
    )));
    floods.push(Some(Flood::open(Carrier::Udp, Context::Reader, "UDP")));
    floods.push(Some(Flood::open(
        Carrier::Newest,
        Context::Reader,
        "RTDiP newest",
    )));
    sched::set_cpu(CORE).unwrap();
    memory::touch_stack();
    let turns = calibrate();
    let mut quiet: [Vec<u64>; 2] = Default::default();
    for round in 0..rounds {
        for (which, period_ns) in PERIODS_NS.into_iter().enumerate() {
            for at in 0..floods.len() {
                // Another begins each time.
                let at = (at + round * 5) % floods.len();
                if let Some(flood) = &mut floods[at] {
                    flood.start();
                    task(period_ns, stretch, turns, &mut flood.samples[which]);
                    flood.stop();
                } else {
                    task(period_ns, stretch, turns, &mut quiet[which]);
                }
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
    let floods: Vec<Flood> = floods.into_iter().flatten().collect();
    table(&quiet, &floods)
}

/// How often the task's loop turns in its time: the fastest of many tries, so that a stall is none of it.
fn calibrate() -> u64 {
    sched::set_fifo(TASK_PRIORITY).unwrap();
    let turns = 100_000;
    let fastest = (0..200)
        .map(|_| compute(turns))
        .min()
        .unwrap_or(TASK_NS)
        .max(1);
    sched::set_other().unwrap();
    turns * TASK_NS / fastest
}

/// Computes, and gives how long that took, in ns.
fn compute(turns: u64) -> u64 {
    let start = now_ns(Clock::Monotonic);
    let mut x = 1_u64;
    for turn in 0..turns {
        x = black_box(x.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ turn);
    }
    black_box(x);
    now_ns(Clock::Monotonic) - start
}

fn task(period_ns: u64, stretch: Duration, turns: u64, samples: &mut Vec<u64>) {
    let count = (stretch.as_nanos() as u64 / period_ns).max(4);
    samples.reserve(count as usize);
    sched::set_fifo(TASK_PRIORITY).unwrap();
    let mut due = now_ns(Clock::Monotonic) + period_ns;
    for _ in 0..count {
        let _ = clock::sleep_until(Clock::Monotonic, due);
        samples.push(compute(turns));
        due = (due + period_ns).max(now_ns(Clock::Monotonic));
    }
    sched::set_other().unwrap();
}

impl Flood {
    fn open(carrier: Carrier, context: Context, name: &str) -> Self {
        let pair = NetnsPair::new();
        let b = pair.b.clone();
        let native = context != Context::SoftInterrupt;
        let program = (native || carrier == Carrier::Newest).then(|| {
            let attach = Attach::Only(if native {
                XdpMode::Native
            } else {
                XdpMode::Generic
            });
            let config = ProgramConfig {
                attach,
                ..ProgramConfig::new(b.interface.as_str())
            };
            b.run(|| ReceiveProgram::with(&config)).unwrap()
        });
        let slot = (carrier == Carrier::Newest).then(|| {
            let program = program.as_ref().unwrap();
            b.run(|| program.newest_channel(PORT, 0)).unwrap()
        });
        let (mut threads, mut deferral) = (None, None);
        match context {
            Context::SoftInterrupt => {
                let mask = format!("{:x}", 1 << CORE);
                let set =
                    |setting: &str| netns::write_interface_setting(&b.interface, setting, &mask);
                b.run(|| set("queues/rx-0/rps_cpus")).unwrap();
            }
            Context::Thread(want) => {
                let priority = NapiPriority {
                    want,
                    cpus: vec![CORE],
                };
                threads = Some(
                    b.run(|| NapiThreads::start(&b.interface, &priority))
                        .unwrap(),
                );
            }
            Context::Reader => {
                deferral = Some(
                    b.run(|| NapiDeferral::hold(&b.interface, 1000, 5_000_000))
                        .unwrap(),
                );
            }
        }
        let received = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(true));
        let sender = open_receiver(&pair, carrier, context, slot.clone(), &received, &stop);
        let (orders, inbox) = mpsc::channel();
        let (outbox, done) = mpsc::channel();
        send_when_told(sender, inbox, outbox, Arc::clone(&stop));
        let context_name = match context {
            Context::SoftInterrupt => "soft interrupt".to_owned(),
            Context::Thread(Want::Fifo(priority)) => format!("NAPI thread FIFO {priority}"),
            Context::Thread(Want::Other(_)) => "NAPI thread, low".to_owned(),
            Context::Reader => "polled by its reader".to_owned(),
        };
        Self {
            name: format!("{name}, {context_name}"),
            context,
            carrier,
            orders,
            done,
            stop,
            received,
            slot,
            sent: 0,
            arrived: 0,
            seconds: 0.0,
            samples: Default::default(),
            _threads: threads,
            _deferral: deferral,
            _program: program,
            _pair: pair,
        }
    }

    /// Messages that have come so far, by what counts them.
    fn count(&self) -> u64 {
        match &self.slot {
            Some(slot) => slot.counters().accepted,
            None => self.received.load(Ordering::Relaxed),
        }
    }

    fn start(&mut self) {
        self.arrived = self.arrived.wrapping_sub(self.count());
        self.seconds -= seconds();
        self.stop.store(false, Ordering::Relaxed);
        self.orders.send(()).unwrap();
        // The flood is there before the task is.
        thread::sleep(Duration::from_millis(10));
    }

    fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.sent += self.done.recv().unwrap();
        self.seconds += seconds();
        // What still waits comes yet.
        let patience = match self.carrier {
            Carrier::Tcp => 500,
            _ => 10,
        };
        for _ in 0..patience {
            thread::sleep(Duration::from_millis(1));
            if self.arrived.wrapping_add(self.count()) >= self.sent {
                break;
            }
        }
        self.arrived = self.arrived.wrapping_add(self.count());
    }
}

fn seconds() -> f64 {
    now_ns(Clock::Monotonic) as f64 / 1e9
}

/// The sending end of a flood: one message with each call, gives how many messages it took.
type SendOne = Box<dyn FnMut() -> u64 + Send>;

fn send_when_told(
    mut one: SendOne,
    inbox: mpsc::Receiver<()>,
    outbox: mpsc::Sender<u64>,
    stop: Arc<AtomicBool>,
) {
    thread::spawn(move || {
        sched::set_cpu(1)
            .and_then(|_| sched::set_fifo(super::PRIORITY))
            .unwrap();
        while inbox.recv().is_ok() {
            let mut sent = 0;
            let mut due = now_ns(Clock::Monotonic);
            while !stop.load(Ordering::Relaxed) {
                sent += one();
                // Never a burst to catch up: each message is one interrupt's worth.
                due = (due + SPACING_NS).max(now_ns(Clock::Monotonic));
                while now_ns(Clock::Monotonic) < due {
                    std::hint::spin_loop();
                }
            }
            let _ = outbox.send(sent);
        }
    });
}

/// Runs `one` (gives how many it has received) again and again, at low priority on the task's core, until the flood's
/// owner is gone.
fn receive_always(received: &Arc<AtomicU64>, mut one: impl FnMut() -> u64 + Send + 'static) {
    let received = Arc::downgrade(received);
    thread::spawn(move || {
        sched::set_cpu(CORE).unwrap();
        scheduling::set(0, LOW).unwrap();
        while let Some(received) = received.upgrade() {
            received.fetch_add(one(), Ordering::Relaxed);
        }
    });
}

const PATIENCE: Duration = Duration::from_millis(100);

fn open_receiver(
    pair: &NetnsPair,
    carrier: Carrier,
    context: Context,
    slot: Option<NewestSlot>,
    received: &Arc<AtomicU64>,
    stop: &Arc<AtomicBool>,
) -> SendOne {
    let (a, b) = (&pair.a, &pair.b);
    let config = ReceiverConfig {
        interface: b.interface.clone(),
        wake_up: WakeUp::Block,
        queue_frames: 256,
        stamps: false,
        one_by_one: true,
    };
    let direct = || {
        let config = SenderConfig {
            path: TxPath::Direct,
            ..SenderConfig::new(a.interface.as_str())
        };
        Several::open(|| a.run(|| Sender::frames(&config)).unwrap())
    };
    let local = SocketAddrV4::new(b.address, PORT);
    let datagrams = || {
        let socket = a.run(|| UdpSocket::bind((a.address, 0)).unwrap());
        socket.connect(local).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    };
    match carrier {
        Carrier::Tcp => {
            let listener = b.run(|| TcpListener::bind(local).unwrap());
            let mut near = a.run(|| TcpStream::connect(local).unwrap());
            let (mut far, _) = listener.accept().unwrap();
            near.set_nodelay(true).unwrap();
            near.set_write_timeout(Some(PATIENCE)).unwrap();
            far.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut data = [0; OCTETS];
            let mut octets = 0;
            receive_always(received, move || {
                octets += far.read(&mut data).unwrap_or(0) as u64;
                let whole = octets / OCTETS as u64;
                octets %= OCTETS as u64;
                whole
            });
            let data = [0x42; OCTETS];
            let mut octets = 0;
            Box::new(move || {
                octets += near.write(&data).unwrap_or(0) as u64;
                let whole = octets / OCTETS as u64;
                octets %= OCTETS as u64;
                whole
            })
        }
        Carrier::Udp => {
            let mut receiver = b.run(|| Receiver::datagrams(&config, local)).unwrap();
            if context == Context::Reader {
                receiver.busy_poll(Duration::from_micros(50)).unwrap();
            }
            receive_always(received, move || take(&mut receiver));
            let mut sockets = Several::open(datagrams);
            let data = [0x42; OCTETS];
            Box::new(move || {
                let _ = sockets.next().send(&data);
                1
            })
        }
        Carrier::Packet => {
            let filter = port_filter(PORT).unwrap();
            let open = || Receiver::frames(&config, EtherType::RTDIP.0, &filter);
            let mut receiver = b.run(open).unwrap();
            receive_always(received, move || take(&mut receiver));
            let frame = frame(a, b, (PORT, 1), Semantics::Queue, 0, OCTETS);
            let mut senders = direct();
            Box::new(move || {
                let _ = senders.next().send(&frame);
                1
            })
        }
        Carrier::Newest => {
            let mut slot = slot.unwrap();
            let mut data = [0; OCTETS];
            let mut read = move || {
                black_box(slot.read(&mut data));
            };
            if context == Context::Reader {
                // Datagrams of its own tell the socket which receive context to poll.
                let mut poller = b.run(|| Receiver::datagrams(&config, local)).unwrap();
                poller.busy_poll(Duration::from_micros(50)).unwrap();
                datagrams().send(&[0]).unwrap();
                assert!(poller.wait(Some(Duration::from_secs(1))).unwrap());
                poller.release();
                assert!(poller.napi_id().unwrap().is_some());
                let stop = Arc::clone(stop);
                receive_always(received, move || {
                    let _ = poller.look();
                    poller.release();
                    read();
                    if stop.load(Ordering::Relaxed) {
                        thread::sleep(Duration::from_millis(1));
                    }
                    0
                });
            } else {
                receive_always(received, move || {
                    read();
                    thread::sleep(Duration::from_millis(1));
                    0
                });
            }
            let mut frame = frame(a, b, (PORT, 1), Semantics::Newest, 0, OCTETS);
            let mut senders = direct();
            let mut sequence = 0_u32;
            Box::new(move || {
                sequence = sequence.wrapping_add(1);
                frame[22..26].copy_from_slice(&sequence.to_be_bytes());
                let _ = senders.next().send(&frame);
                1
            })
        }
    }
}

/// Several sockets, used in turn. What waits in a veth still fills its sender's send buffer: one socket alone would be made
/// to wait for the receiver, as no network card makes its peer wait.
struct Several<T> {
    all: Vec<T>,
    turn: usize,
}

impl<T> Several<T> {
    fn open(one: impl Fn() -> T) -> Self {
        Self {
            all: (0..8).map(|_| one()).collect(),
            turn: 0,
        }
    }

    fn next(&mut self) -> &mut T {
        self.turn = (self.turn + 1) % self.all.len();
        &mut self.all[self.turn]
    }
}

fn take(receiver: &mut Receiver) -> u64 {
    let there = receiver.wait(Some(PATIENCE)).unwrap_or(false);
    if there {
        black_box(receiver.peek().map(|frame| frame.data.len()));
        receiver.release();
    }
    u64::from(there)
}

/// p50, p99 and the longest.
fn figures(samples: &[u64]) -> [f64; 3] {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let at = |permille: usize| sorted[(sorted.len() * permille).div_ceil(1000).max(1) - 1] as f64;
    [at(500), at(990), at(1000)]
}

fn table(quiet: &[Vec<u64>; 2], floods: &[Flood]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (which, period_ns) in PERIODS_NS.into_iter().enumerate() {
        let period = period_ns / 1_000_000;
        let least = quiet[which].iter().min().copied().unwrap_or(1) as f64;
        let without = figures(&quiet[which]);
        for (at, name) in ["p50", "p99", "max"].into_iter().enumerate() {
            let mut own = row(
                format!("task of 300 µs every {period} ms, no flood, {name} over its least"),
                without[at] / least,
                "×",
                quiet[which].len(),
            );
            own.against.push(Compared {
                name: "least, µs".to_owned(),
                value: least / 1000.0,
            });
            rows.push(own);
        }
        for flood in floods {
            let times = figures(&flood.samples[which]);
            for (at, name) in ["p50", "p99", "max"].into_iter().enumerate() {
                let mut own = row(
                    format!("task every {period} ms, flood over {}, {name}", flood.name),
                    times[at] / without[at],
                    "×",
                    flood.samples[which].len(),
                );
                own.against.push(Compared {
                    name: "no flood, µs".to_owned(),
                    value: without[at] / 1000.0,
                });
                let promised =
                    flood.carrier == Carrier::Newest || flood.context == Context::Thread(LOW);
                if promised && at < 2 && flood.context != Context::SoftInterrupt {
                    let most = [1.03, 1.15][at];
                    own.reach = Some(format!("at most {most} of the same run without flood"));
                    own.held = Some(own.value <= most);
                    own.why = (own.value > most).then(|| "not reached in this run".to_owned());
                } else if at == 2 {
                    own.why = Some("the longest is this machine's own noise as well".to_owned());
                }
                rows.push(own);
            }
        }
    }
    for flood in floods {
        let lost = flood.sent.saturating_sub(flood.arrived);
        let mut own = row(
            format!("lost of a flood over {}", flood.name),
            100.0 * lost as f64 / flood.sent.max(1) as f64,
            "%",
            flood.sent as usize,
        );
        for (name, count) in [("sent", flood.sent), ("received", flood.arrived)] {
            own.against.push(Compared {
                name: format!("{name}, thousands a second"),
                value: count as f64 / flood.seconds.max(1e-9) / 1000.0,
            });
        }
        rows.push(own);
    }
    rows
}
