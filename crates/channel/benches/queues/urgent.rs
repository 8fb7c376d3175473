//! One urgent message behind a hundred others, to a receiver that is busy with each of them for 2 µs.
//!
//! While the receiver works on a message it reads the clock all the time. So it sees each gap in which its processor
//! was taken away (by the hypervisor, by interrupts). Neither such a gap nor a long send call is caused by the
//! receive path. Processor time lost during the receive call itself is not told apart.

use super::{PRIORITY, Random, compared, listener, quantile};
use rtwire_channel::{
    ListenerConfig, Order, QueueListener, ReceivePath, Talker, TalkerConfig, Transport, TxPath,
    WakeUp,
};
use rtwire_measure::bench::Row;
use rtwire_sys::clock::{Clock, now_ns};
use rtwire_sys::{memory, sched};
use rtwire_testkit::NetnsPair;
use rtwire_wire::{MacAddress, Pcp};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

const LOW: usize = 100;
const WORK_NS: u64 = 2000;
const PATIENCE: Duration = Duration::from_secs(1);
/// A step of this length between two clock reads, which take some 20 ns each, is a gap.
const GAP_NS: u64 = 3000;

/// One urgent message: its times of sending and reception, and the end of the receiver's last gap before reception.
#[derive(Clone, Copy)]
struct Taken {
    sent_ns: u64,
    taken_ns: u64,
    gap_end_ns: u64,
}

struct Lane {
    name: &'static str,
    judged: bool,
    low: Talker,
    urgent: Talker,
    orders: mpsc::Sender<()>,
    /// Result of one urgent message; `None` if it was lost.
    took: Receiver<Option<Taken>>,
    samples: Vec<u64>,
    /// Samples of these that fell into no gap.
    undisturbed: Vec<u64>,
    /// Number of samples that fell into a gap of the receiver, and into one of the send call.
    gaps: [u64; 2],
    lost: u64,
    _pair: NetnsPair,
}

fn serve(listener: &mut QueueListener) -> Option<Taken> {
    let mut took = None;
    let mut gap_end_ns = 0;
    for _ in 0..=LOW {
        let received = listener.recv(Some(PATIENCE)).unwrap()?;
        let begin = now_ns(Clock::Tai);
        if received.priority == Pcp::HIGHEST {
            took = Some(Taken {
                sent_ns: received.sender_time_ns?,
                taken_ns: begin,
                gap_end_ns,
            });
            continue;
        }
        // Gaps are sought only here: the time of the receive call counts as its own.
        let mut last = begin;
        while last < begin + WORK_NS {
            let now = now_ns(Clock::Tai);
            if now - last > GAP_NS {
                gap_end_ns = now;
            }
            last = now;
        }
    }
    took
}

fn open(name: &'static str, judged: bool, path: ReceivePath, order: Order) -> Lane {
    let pair = NetnsPair::new();
    let mut config = ListenerConfig::new(1001);
    config.wake_up = WakeUp::Spin;
    config.order = order;
    config.stamps = false;
    config.queue_frames = 256;
    let mut listener = listener(&pair.b, path, &config);
    let talker = |pcp| {
        let transport = Transport::rtdip(MacAddress(pair.b.mac));
        let config = TalkerConfig {
            path: TxPath::Direct,
            pcp,
            ..TalkerConfig::new(pair.a.interface.as_str(), transport, 1001)
        };
        pair.a.run(|| Talker::open(&config)).unwrap()
    };
    let (low, urgent) = (talker(Pcp::LOWEST), talker(Pcp::HIGHEST));
    let (orders, incoming) = mpsc::channel();
    let (result, took) = mpsc::channel();
    thread::spawn(move || {
        sched::set_cpu(1).unwrap();
        sched::set_fifo(PRIORITY).unwrap();
        memory::touch_stack();
        while incoming.recv().is_ok() {
            let _ = result.send(serve(&mut listener));
        }
    });
    Lane {
        name,
        judged,
        low,
        urgent,
        orders,
        took,
        samples: Vec::new(),
        undisturbed: Vec::new(),
        gaps: [0; 2],
        lost: 0,
        _pair: pair,
    }
}

pub(crate) fn rows(quick: bool) -> Vec<Row> {
    let (rounds, bursts) = if quick { (2, 5) } else { (60, 20) };
    let by_priority = Order::MostUrgentFirst;
    let mut lanes = [
        open(
            "receive program, native",
            true,
            ReceivePath::Native,
            by_priority,
        ),
        open(
            "receive program, generic",
            true,
            ReceivePath::Generic,
            by_priority,
        ),
        open(
            "packet sockets, sorted by the reader",
            true,
            ReceivePath::Packet,
            by_priority,
        ),
        open(
            "one queue in order of arrival",
            false,
            ReceivePath::Packet,
            Order::Arrival,
        ),
    ];
    sched::set_cpu(0).unwrap();
    sched::set_fifo(PRIORITY).unwrap();
    let mut random = Random(now_ns(Clock::Realtime) | 1);
    let data = [0x42; 64];
    for _ in 0..rounds {
        random.shuffle(&mut lanes);
        for lane in &mut lanes {
            for _ in 0..bursts {
                lane.orders.send(()).unwrap();
                // Wait until the receiver is ready.
                thread::sleep(Duration::from_micros(200));
                for _ in 0..LOW {
                    lane.low.send(&data).unwrap();
                }
                lane.urgent.send(&data).unwrap();
                let returned_ns = now_ns(Clock::Tai);
                let Some(took) = lane.took.recv().unwrap() else {
                    lane.lost += 1;
                    continue;
                };
                let time = took.taken_ns.saturating_sub(took.sent_ns);
                lane.samples.push(time);
                let call = returned_ns.saturating_sub(took.sent_ns);
                match (took.gap_end_ns < took.sent_ns, call < GAP_NS) {
                    (true, true) => lane.undisturbed.push(time),
                    (false, _) => lane.gaps[0] += 1,
                    (true, false) => lane.gaps[1] += 1,
                }
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
    let mut rows = Vec::new();
    lanes.sort_by_key(|lane| lane.name);
    for own in &lanes {
        for (permille, name, limit) in [(500, "p50", 4.0), (990, "p99", 10.0)] {
            rows.push(row(&lanes, own, (permille, name, limit)));
        }
        let mut quiet = row(
            &lanes,
            own,
            (990, "p99 of those that fell into no gap", 10.0),
        );
        quiet.value = quantile(&own.undisturbed, 990);
        quiet.samples = own.undisturbed.len() as u64;
        (quiet.reach, quiet.held, quiet.why) = (None, None, None);
        let others = lanes.iter().filter(|other| other.name != own.name);
        quiet.against = others
            .map(|other| compared(other.name, quantile(&other.undisturbed, 990)))
            .collect();
        rows.push(quiet);
    }
    rows
}

fn row(lanes: &[Lane], own: &Lane, (permille, name, limit): (usize, &str, f64)) -> Row {
    let value = quantile(&own.samples, permille);
    Row {
        figure: format!("urgent message behind {LOW}, {}, {name}", own.name),
        value,
        unit: "µs".to_owned(),
        reach: own.judged.then(|| format!("at most {limit} µs")),
        held: own.judged.then_some(value <= limit && own.lost == 0),
        why: match own.lost {
            0 if own.judged && value > limit => Some(format!(
                "{:.1} % of them waited while the receiver's processor was away for more than {} µs, {:.1} % while the sender's was; \
                 without those {:.1} µs",
                100.0 * own.gaps[0] as f64 / own.samples.len().max(1) as f64,
                GAP_NS / 1000,
                100.0 * own.gaps[1] as f64 / own.samples.len().max(1) as f64,
                quantile(&own.undisturbed, permille)
            )),
            0 => None,
            lost => Some(format!("{lost} bursts were not whole")),
        },
        samples: own.samples.len() as u64,
        against: lanes
            .iter()
            .filter(|other| other.name != own.name)
            .map(|other| compared(other.name, quantile(&other.samples, permille)))
            .collect(),
    }
}
