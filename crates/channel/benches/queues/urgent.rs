//! One urgent message behind a hundred others, to a receiver that is busy with each of them for 2 µs.

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

struct Lane {
    name: &'static str,
    judged: bool,
    low: Talker,
    urgent: Talker,
    orders: mpsc::Sender<()>,
    /// How long an urgent message took, if it came.
    took: Receiver<Option<u64>>,
    samples: Vec<u64>,
    lost: u64,
    _pair: NetnsPair,
}

fn serve(listener: &mut QueueListener) -> Option<u64> {
    let mut took = None;
    for _ in 0..=LOW {
        let received = listener.recv(Some(PATIENCE)).unwrap()?;
        if received.priority == Pcp::HIGHEST {
            let sent = received.sender_time_ns?;
            took = Some(now_ns(Clock::Tai).saturating_sub(sent));
        } else {
            let end = now_ns(Clock::Monotonic) + WORK_NS;
            while now_ns(Clock::Monotonic) < end {
                std::hint::spin_loop();
            }
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
                // The receiver has to be there.
                thread::sleep(Duration::from_micros(200));
                for _ in 0..LOW {
                    lane.low.send(&data).unwrap();
                }
                lane.urgent.send(&data).unwrap();
                match lane.took.recv().unwrap() {
                    Some(took) => lane.samples.push(took),
                    None => lane.lost += 1,
                }
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
    let mut rows = Vec::new();
    lanes.sort_by_key(|lane| lane.name);
    for own in &lanes {
        for (permille, name, limit) in [(500, "p50", 4.0), (990, "p99", 10.0)] {
            let value = quantile(&own.samples, permille);
            rows.push(Row {
                figure: format!("urgent message behind {LOW}, {}, {name}", own.name),
                value,
                unit: "µs".to_owned(),
                reach: own.judged.then(|| format!("at most {limit} µs")),
                held: own.judged.then_some(value <= limit && own.lost == 0),
                why: match own.lost {
                    0 if own.judged && value > limit => {
                        Some("not reached in this run; for p99 see `noise`".to_owned())
                    }
                    0 => None,
                    lost => Some(format!("{lost} bursts were not whole")),
                },
                samples: own.samples.len() as u64,
                against: lanes
                    .iter()
                    .filter(|other| other.name != own.name)
                    .map(|other| compared(other.name, quantile(&other.samples, permille)))
                    .collect(),
            });
        }
    }
    rows
}
