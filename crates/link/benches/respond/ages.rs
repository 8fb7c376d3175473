//! The newest value at different periods: the cost of reading it and its age. Beside it are UDP and TCP sockets that
//! are read until they are empty. These are the tables of figures 4 to 6 of the source, with one row for each pair of
//! periods.

use super::lanes::frame;
use super::rows::row;
use rtwire_link::program::{NewestSlot, ReceiveProgram};
use rtwire_link::{Receiver, ReceiverConfig, Sender, SenderConfig, TxPath, WakeUp};
use rtwire_measure::bench::{Compared, Row};
use rtwire_sys::clock::{self, Clock, now_ns};
use rtwire_sys::sched;
use rtwire_testkit::NetnsPair;
use rtwire_wire::rtdip::Semantics;
use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const OCTETS: usize = 64;
const PORT: u16 = 2008;
const MS: u64 = 1_000_000;
const NAMES: [&str; 3] = ["RTDiP newest", "UDP, all that wait", "TCP, all that wait"];
/// The source's published maximum for every pair of periods.
const PUBLISHED_US: f64 = 90.0;

/// One reader's cost and the age of its values, in ns, by transport.
#[derive(Default)]
struct Samples {
    costs: [Vec<u64>; 3],
    ages: [Vec<u64>; 3],
}

/// One of three readers; it returns the time of sending of the newest value.
enum Reader {
    Newest(Box<NewestSlot>),
    Udp(Box<Receiver>),
    Tcp(TcpStream),
}

fn stamp(data: &[u8]) -> Option<u64> {
    data.get(..8)?.try_into().ok().map(u64::from_ne_bytes)
}

impl Reader {
    fn newest(&mut self, last: Option<u64>) -> Option<u64> {
        match self {
            Self::Newest(slot) => {
                let mut data = [0; OCTETS];
                slot.read(&mut data)?;
                stamp(&data)
            }
            Self::Udp(receiver) => {
                let mut newest = last;
                while receiver.look().unwrap() {
                    newest = receiver.peek().and_then(|frame| stamp(frame.data));
                    receiver.release();
                }
                newest
            }
            Self::Tcp(stream) => {
                let mut data = [0; 1024 * OCTETS];
                let mut newest = last;
                // Each message is written with one call and all have one size, so only whole messages are read.
                while let Ok(length) = stream.read(&mut data) {
                    if length < OCTETS {
                        break;
                    }
                    newest = stamp(&data[length - OCTETS..]);
                }
                newest
            }
        }
    }
}

/// Returns all pairs of periods, in ms.
fn periods(quick: bool) -> Vec<(u64, u64)> {
    let each: &[u64] = if quick { &[1, 10] } else { &[1, 10, 100, 1000] };
    let pairs = each
        .iter()
        .map(|&sent| each.iter().map(move |&read| (sent, read)));
    pairs.flatten().collect()
}

pub(crate) fn rows(quick: bool) -> Vec<Row> {
    let pair = NetnsPair::new();
    let (a, b) = (&pair.a, &pair.b);
    let program = b.run(|| ReceiveProgram::attach(&b.interface)).unwrap();
    let slot = b.run(|| program.newest_channel(PORT, 0)).unwrap();
    let local = SocketAddrV4::new(b.address, PORT);
    let config = ReceiverConfig {
        interface: b.interface.clone(),
        wake_up: WakeUp::Block,
        queue_frames: 4096,
        stamps: false,
        one_by_one: false,
    };
    let udp = b.run(|| Receiver::datagrams(&config, local)).unwrap();
    let listener = b.run(|| TcpListener::bind(local).unwrap());
    let mut stream = a.run(|| TcpStream::connect(local).unwrap());
    let (far, _) = listener.accept().unwrap();
    stream.set_nodelay(true).unwrap();
    far.set_nonblocking(true).unwrap();
    let mut readers = [
        Reader::Newest(Box::new(slot)),
        Reader::Udp(Box::new(udp)),
        Reader::Tcp(far),
    ];
    let socket = a.run(|| UdpSocket::bind((a.address, 0)).unwrap());
    socket.connect(local).unwrap();
    let direct = SenderConfig {
        path: TxPath::Direct,
        ..SenderConfig::new(a.interface.as_str())
    };
    let mut sender = a.run(|| Sender::frames(&direct)).unwrap();
    let mut frame = frame(a, b, (PORT, 1), Semantics::Newest, 0, OCTETS);
    let data_at = frame.len() - OCTETS;

    let period_ns = Arc::new(AtomicU64::new(MS));
    let stop = Arc::new(AtomicBool::new(false));
    let sending = thread::spawn({
        let (period_ns, stop) = (Arc::clone(&period_ns), Arc::clone(&stop));
        move || {
            sched::set_cpu(1)
                .and_then(|_| sched::set_fifo(super::PRIORITY))
                .unwrap();
            let mut sequence = 0_u32;
            while !stop.load(Ordering::Relaxed) {
                sequence += 1;
                let mut data = [0x42; OCTETS];
                let now = now_ns(Clock::Monotonic);
                data[..8].copy_from_slice(&now.to_ne_bytes());
                frame[22..26].copy_from_slice(&sequence.to_be_bytes());
                frame[data_at..].copy_from_slice(&data);
                let _ = sender.send(&frame);
                let _ = socket.send(&data);
                let _ = stream.write_all(&data);
                // Sleeps in slices, so that a change of the period soon takes effect.
                let due = now + period_ns.load(Ordering::Relaxed);
                while now_ns(Clock::Monotonic) < due && !stop.load(Ordering::Relaxed) {
                    let slice = now_ns(Clock::Monotonic) + 5 * MS;
                    let next = due.min(slice).min(now + period_ns.load(Ordering::Relaxed));
                    let _ = clock::sleep_until(Clock::Monotonic, next);
                    if next < due && period_ns.load(Ordering::Relaxed) < due - now {
                        break;
                    }
                }
            }
        }
    });
    sched::set_cpu(0)
        .and_then(|_| sched::set_fifo(super::PRIORITY))
        .unwrap();
    let mut rows = Vec::new();
    for (sent_ms, read_ms) in periods(quick) {
        period_ns.store(sent_ms * MS, Ordering::Relaxed);
        let samples = pair_of_periods(&mut readers, sent_ms, read_ms, quick);
        table(&mut rows, sent_ms, read_ms, samples);
    }
    stop.store(true, Ordering::Relaxed);
    sending.join().unwrap();
    rows
}

fn pair_of_periods(readers: &mut [Reader; 3], sent_ms: u64, read_ms: u64, quick: bool) -> Samples {
    let mut samples = Samples::default();
    let mut last = [None; 3];
    // Messages left from before do not belong to this measurement.
    for (reader, last) in readers.iter_mut().zip(&mut last) {
        *last = reader.newest(None);
    }
    let total_ms = if quick {
        60
    } else {
        (sent_ms.max(read_ms) * 5).clamp(600, 5000)
    };
    let reads = (total_ms / read_ms).max(3);
    // Between two instants of the sender, so that the phase is not by chance the worst.
    let mut due = now_ns(Clock::Monotonic) + read_ms * MS;
    for turn in 0..reads {
        let _ = clock::sleep_until(Clock::Monotonic, due);
        for at in 0..3 {
            // Another reader begins each time, since the first one warms the shared caches.
            let at = (at + turn as usize) % 3;
            let start = now_ns(Clock::Monotonic);
            let sent = readers[at].newest(last[at]);
            let end = now_ns(Clock::Monotonic);
            samples.costs[at].push(end - start);
            if let Some(sent) = sent {
                samples.ages[at].push(end.saturating_sub(sent));
            }
            last[at] = sent;
        }
        due += read_ms * MS;
    }
    samples
}

fn median(samples: &[u64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted
        .get(sorted.len() / 2)
        .map_or(f64::NAN, |&ns| ns as f64)
}

fn table(rows: &mut Vec<Row>, sent_ms: u64, read_ms: u64, samples: Samples) {
    let what = format!("newest value sent every {sent_ms} ms, read every {read_ms} ms");
    let others = |values: [f64; 3]| -> Vec<Compared> {
        NAMES
            .iter()
            .zip(values)
            .skip(1)
            .filter(|(_, value)| value.is_finite())
            .map(|(name, value)| Compared {
                name: (*name).to_owned(),
                value,
            })
            .collect()
    };
    let costs = samples.costs.each_ref().map(|costs| median(costs) / 1000.0);
    let longest = samples.costs.each_ref().map(|costs| {
        costs
            .iter()
            .max()
            .map_or(f64::NAN, |&ns| ns as f64 / 1000.0)
    });
    let ages = samples.ages.each_ref().map(|ages| median(ages) / 1e6);
    let count = samples.costs[0].len();
    let mut cost = row(format!("{what}: cost, p50"), costs[0], "µs", count);
    cost.reach = Some(format!(
        "below {PUBLISHED_US} µs whatever the periods (published)"
    ));
    cost.held = Some(costs[0] < PUBLISHED_US);
    cost.against = others(costs);
    rows.push(cost);
    let mut max = row(format!("{what}: cost, max"), longest[0], "µs", count);
    max.why = Some("the longest is this machine's own noise as well".to_owned());
    max.against = others(longest);
    rows.push(max);
    if ages[0].is_finite() {
        let mut age = row(
            format!("{what}: age, p50"),
            ages[0],
            "ms",
            samples.ages[0].len(),
        );
        age.against = others(ages);
        rows.push(age);
    }
}
