//! Throughput of 64-byte messages in one direction, and the processor time for each message at both ends.

use super::{PRIORITY, Random, compared, listener};
use rtwire_channel::{
    ListenerConfig, Order, ReceivePath, Talker, TalkerConfig, Transport, TxPath, WakeUp,
};
use rtwire_measure::bench::Row;
use rtwire_sys::clock::{Clock, now_ns};
use rtwire_sys::{memory, sched};
use rtwire_testkit::NetnsPair;
use rtwire_wire::MacAddress;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const OCTETS: usize = 64;
const BATCH: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Queue(ReceivePath, TxPath, usize),
    Udp,
    Tcp,
}

const KINDS: [Kind; 8] = [
    Kind::Queue(ReceivePath::Native, TxPath::Xdp, BATCH),
    Kind::Queue(ReceivePath::Native, TxPath::Direct, BATCH),
    Kind::Queue(ReceivePath::Generic, TxPath::Direct, BATCH),
    Kind::Queue(ReceivePath::Packet, TxPath::Direct, BATCH),
    Kind::Queue(ReceivePath::Native, TxPath::Direct, 1),
    Kind::Queue(ReceivePath::Packet, TxPath::Direct, 1),
    Kind::Udp,
    Kind::Tcp,
];

impl Kind {
    fn name(self) -> String {
        match self {
            Self::Queue(receive, send, batch) => format!(
                "queue, {}, {}, {}",
                match receive {
                    ReceivePath::Packet => "packet sockets",
                    ReceivePath::Generic => "receive program, generic",
                    _ => "receive program, native",
                },
                if send == TxPath::Xdp {
                    "sent by xdp"
                } else {
                    "sent direct"
                },
                if batch == 1 {
                    "one by one".to_owned()
                } else {
                    format!("{batch} at once")
                }
            ),
            Self::Udp => "UDP, one by one".to_owned(),
            Self::Tcp => "TCP, one by one".to_owned(),
        }
    }
}

/// Results of one stretch: messages/s, and processor time in ns for each message at sender and receiver.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    rate: f64,
    sender_ns: f64,
    receiver_ns: f64,
    lost: f64,
}

/// A figure's name, its unit, and its value in one stretch.
type Figure = (&'static str, &'static str, fn(&Flow) -> f64);

/// Sends until the time is up while another thread receives; both count.
fn measure(
    time: Duration,
    mut send: impl FnMut() -> u64,
    mut receive: impl FnMut() -> u64 + Send,
) -> Flow {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            sched::set_cpu(1).unwrap();
            sched::set_fifo(PRIORITY).unwrap();
            memory::touch_stack();
            let start = now_ns(Clock::Thread);
            let mut count = 0;
            while !stopped.load(Ordering::Relaxed) {
                count += receive();
            }
            (count, now_ns(Clock::Thread) - start)
        });
        thread::sleep(Duration::from_millis(2));
        let (start, processor) = (now_ns(Clock::Monotonic), now_ns(Clock::Thread));
        let mut sent = 0;
        let mut end = start;
        while end - start < time.as_nanos() as u64 {
            for _ in 0..8 {
                sent += send();
            }
            end = now_ns(Clock::Monotonic);
        }
        let processor = now_ns(Clock::Thread) - processor;
        thread::sleep(Duration::from_millis(5));
        stop.store(true, Ordering::Relaxed);
        let (count, receiver) = receiver.join().unwrap();
        Flow {
            rate: count as f64 * 1e9 / (end - start) as f64,
            sender_ns: processor as f64 / sent.max(1) as f64,
            receiver_ns: receiver as f64 / count.max(1) as f64,
            lost: 1.0 - count as f64 / sent.max(1) as f64,
        }
    })
}

fn run(kind: Kind, time: Duration) -> Flow {
    let pair = NetnsPair::new();
    let data = [0x42; OCTETS];
    match kind {
        Kind::Queue(path, send, batch) => {
            let mut config = ListenerConfig::new(1001);
            config.wake_up = WakeUp::Spin;
            config.order = Order::Arrival;
            config.stamps = false;
            config.queue_frames = 4096;
            let mut listener = listener(&pair.b, path, &config);
            let config = TalkerConfig {
                path: send,
                batch,
                sender_time: false,
                ..TalkerConfig::new(
                    pair.a.interface.as_str(),
                    Transport::rtdip(MacAddress(pair.b.mac)),
                    1001,
                )
            };
            let mut talker = pair.a.run(|| Talker::open(&config)).unwrap();
            let values = [&data[..]; BATCH];
            measure(
                time,
                || {
                    if batch == 1 {
                        talker.send(&data).unwrap();
                        1
                    } else {
                        talker.send_batch(&values).unwrap();
                        BATCH as u64
                    }
                },
                || {
                    u64::from(
                        listener
                            .recv(Some(Duration::from_millis(1)))
                            .unwrap()
                            .is_some(),
                    )
                },
            )
        }
        Kind::Udp => {
            let end = |side: &rtwire_testkit::Side| {
                side.run(|| UdpSocket::bind((side.address, 2000)).unwrap())
            };
            let (a, b) = (end(&pair.a), end(&pair.b));
            a.connect((pair.b.address, 2000)).unwrap();
            b.set_nonblocking(true).unwrap();
            let mut buffer = [0; 2048];
            measure(
                time,
                || u64::from(a.send(&data).is_ok()),
                move || u64::from(b.recv(&mut buffer).is_ok()),
            )
        }
        Kind::Tcp => {
            let address = (pair.b.address, 2000);
            let listener = pair.b.run(|| TcpListener::bind(address).unwrap());
            let mut a = pair.a.run(|| TcpStream::connect(address).unwrap());
            let (mut b, _) = listener.accept().unwrap();
            a.set_nodelay(true).unwrap();
            b.set_nonblocking(true).unwrap();
            let (mut buffer, mut octets) = ([0; OCTETS], 0);
            measure(
                time,
                || u64::from(a.write_all(&data).is_ok()),
                // One message for each call, as with the others.
                move || {
                    let before = octets / OCTETS;
                    octets += b.read(&mut buffer).unwrap_or(0);
                    (octets / OCTETS - before) as u64
                },
            )
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

pub(crate) fn rows(quick: bool) -> Vec<Row> {
    let (rounds, time) = if quick { (1, 20) } else { (9, 200) };
    sched::set_cpu(0).unwrap();
    sched::set_fifo(PRIORITY).unwrap();
    let mut random = Random(now_ns(Clock::Realtime) | 1);
    let mut flows: [Vec<Flow>; KINDS.len()] = Default::default();
    for _ in 0..rounds {
        let mut order: Vec<usize> = (0..KINDS.len()).collect();
        random.shuffle(&mut order);
        for kind in order {
            flows[kind].push(run(KINDS[kind], Duration::from_millis(time)));
            thread::sleep(Duration::from_millis(10));
        }
    }
    let of = |kind: usize, what: fn(&Flow) -> f64| median(flows[kind].iter().map(what).collect());
    let mut rows = Vec::new();
    for (at, kind) in KINDS.into_iter().enumerate() {
        let figures: [Figure; 3] = [
            ("throughput", "messages/s", |flow| flow.rate),
            ("sender's processor time", "ns", |flow| flow.sender_ns),
            ("receiver's processor time", "ns", |flow| flow.receiver_ns),
        ];
        for (name, unit, what) in figures {
            let value = of(at, what);
            let limit = match kind {
                Kind::Queue(.., 1) => Some(0.8e6),
                Kind::Queue(..) => Some(1.3e6),
                _ => None,
            }
            .filter(|_| name == "throughput");
            let lost = of(at, |flow| flow.lost);
            rows.push(Row {
                figure: format!("{name}, {OCTETS} B one way, {}", kind.name()),
                value,
                unit: unit.to_owned(),
                reach: limit.map(|limit| format!("at least {limit} messages/s")),
                held: limit.map(|limit| value >= limit),
                why: match limit {
                    Some(limit) if value < limit => Some(format!(
                        "not reached in this run; {:.1} % of the messages sent were lost",
                        100.0 * lost
                    )),
                    _ => None,
                },
                samples: rounds as u64,
                against: KINDS
                    .into_iter()
                    .enumerate()
                    .filter(|(_, other)| matches!(other, Kind::Udp | Kind::Tcp) && *other != kind)
                    .map(|(other, kind)| compared(kind.name(), of(other, what)))
                    .collect(),
            });
        }
    }
    rows
}
