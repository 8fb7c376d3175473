//! Benchmark of the receive program. It measures round trips of 64 bytes to a reply from the driver, beside a
//! responder over packet sockets, UDP and TCP. All spin, in one run and in random order. It also measures the cost of
//! writing and reading a newest value. Writes `target/bench/receive.json`.
//!
//! Further parts are in files of their own below `respond/`: newest values at many periods, ten million round trips
//! against a deadline, and process priority.
//!
//! `--quick` makes few rounds, for tests; `--out FOLDER` writes to `FOLDER/bench/receive.json`; `--only PART`
//! measures one part: `replies`, `newest`, `ages`, `deadline`, `priority`.
#![allow(clippy::unwrap_used)]

#[path = "respond/ages.rs"]
mod ages;
#[path = "respond/deadline.rs"]
mod deadline;
#[path = "respond/lanes.rs"]
mod lanes;
#[path = "respond/priority.rs"]
mod priority;
#[path = "respond/rows.rs"]
mod rows;

use lanes::{Kind, Lane, Updates};
use rtwire_link::program::ReceiveProgram;
use rtwire_measure::bench::{Asked, BenchTable, Compared, Place, Row};
use rtwire_measure::noise::{NoiseOptions, NoiseRecorder};
use rtwire_sys::clock::{Clock, now_ns};
use rtwire_sys::{memory, sched};
use rtwire_testkit::NetnsPair;
use std::hint::black_box;
use std::thread;
use std::time::Duration;

const PRIORITY: u8 = 50;
const SIZES: [usize; 2] = [64, 1450];

/// Extent of the round-trip measurement.
struct Options {
    rounds: usize,
    stretch: usize,
}

const USUAL: Options = Options {
    rounds: 60,
    stretch: 1000,
};
const QUICK: Options = Options {
    rounds: 5,
    stretch: 100,
};

fn main() {
    let asked = Asked::from_command_line(&[], &[]);
    let options = if asked.quick { QUICK } else { USUAL };
    if let Err(error) = sched::set_fifo(PRIORITY).and_then(|_| memory::lock_all()) {
        eprintln!("respond: {error}");
        std::process::exit(3);
    }
    sched::set_other().unwrap();
    let recorder = NoiseRecorder::start(NoiseOptions::beside_a_benchmark()).unwrap();
    let mut rows = Vec::new();
    // A thread for each part, so that its core and priority end with it.
    let mut measure = |part: &str, work: &(dyn Fn() -> Vec<Row> + Sync)| {
        if asked.wants(part) {
            rows.extend(thread::scope(|scope| scope.spawn(work).join().unwrap()));
        }
    };
    measure("replies", &|| {
        let (rows, mode) = round_trips(&options);
        println!(
            "driver replies: XDP in {mode} mode, in the sender's own context, as veth does it"
        );
        rows
    });
    measure("newest", &|| newest(&options));
    measure("ages", &|| ages::rows(asked.quick));
    measure("deadline", &|| {
        deadline::rows(if asked.quick { 2_000 } else { 10_000_000 })
    });
    measure("priority", &|| {
        let (rounds, stretch_ms) = if asked.quick { (1, 60) } else { (10, 500) };
        priority::rows(rounds, Duration::from_millis(stretch_ms))
    });
    let noise = recorder.stop().unwrap();
    let table = BenchTable::of(asked.command(), Some(noise), rows);
    table.publish(&asked.out(), "receive", Place::Whole);
}

fn round_trips(options: &Options) -> (Vec<Row>, String) {
    sched::set_cpu(0).unwrap();
    let mut lanes: Vec<Lane> = Kind::ALL.into_iter().map(Lane::open).collect();
    sched::set_fifo(PRIORITY).unwrap();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..options.rounds {
        let mut order: Vec<usize> = (0..lanes.len()).collect();
        for last in (1..order.len()).rev() {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            order.swap(last, (random % (last as u64 + 1)) as usize);
        }
        for lane in order {
            lanes[lane].stretch(options.stretch);
            // A pause for other threads: the kernel takes a core that is never given up away for tens of
            // milliseconds.
            thread::sleep(Duration::from_millis(1));
        }
    }
    let mode = lanes[0].mode();
    let figures: Vec<[f64; 4]> = lanes.iter().map(|lane| quantiles(&lane.samples)).collect();
    let mut rows = Vec::new();
    for (lane, own) in lanes.iter().zip(&figures) {
        if let Some(reason) = &lane.refused {
            rows.push(Row {
                why: Some(format!("not measured: {reason}")),
                ..rows::row(
                    format!("round trip, {}, 64 B, p50", lane.kind.name()),
                    0.0,
                    "µs",
                    0,
                )
            });
            continue;
        }
        for (at, name) in ["p50", "p99", "p99.9", "max"].into_iter().enumerate() {
            let of = |kind: Kind| {
                let place = lanes.iter().position(|lane| lane.kind == kind);
                place.map_or(f64::NAN, |place| figures[place][at])
            };
            let (reach, reached) = match lane.kind {
                Kind::DriverThread => (
                    "below a blocking responder",
                    own[at] < of(Kind::PacketBlocking).min(of(Kind::UdpBlocking)),
                ),
                Kind::DriverPolling => (
                    "below a thread that has to be woken",
                    own[at] < of(Kind::DriverThread),
                ),
                _ => ("at most 0.25 of TCP", own[at] <= 0.25 * of(Kind::Tcp)),
            };
            let judged = at == 0
                && matches!(
                    lane.kind,
                    Kind::Driver | Kind::DriverThread | Kind::DriverPolling
                );
            let held = reached && lane.lost == 0;
            rows.push(Row {
                figure: format!("round trip, {}, 64 B, {name}", lane.kind.name()),
                value: own[at],
                unit: "µs".to_owned(),
                reach: judged.then(|| reach.to_owned()),
                held: judged.then_some(held),
                why: match (at, lane.lost) {
                    (_, 1..) => Some(format!("{} lost", lane.lost)),
                    (1.., 0) => {
                        Some("the tail is this machine's own noise: see `noise`".to_owned())
                    }
                    (0, 0) => (judged && !held).then(|| "not reached in this run".to_owned()),
                },
                samples: lane.samples.len() as u64,
                against: lanes
                    .iter()
                    .zip(&figures)
                    .filter(|(other, _)| other.kind != lane.kind && other.refused.is_none())
                    .filter(|(other, _)| other.kind.is_woken() == lane.kind.is_woken())
                    .map(|(other, figures)| Compared {
                        name: other.kind.name().to_owned(),
                        value: figures[at],
                    })
                    .collect(),
            });
        }
    }
    (rows, mode)
}

/// Returns p50, p99, p99.9 and max, in µs.
fn quantiles(samples: &[u64]) -> [f64; 4] {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    [500, 990, 999, 1000].map(|permille: usize| match sorted.len() {
        0 => f64::NAN,
        n => sorted[(n * permille).div_ceil(1000).clamp(1, n) - 1] as f64 / 1000.0,
    })
}

/// Measures the cost of writing and reading a value: medians of many short stretches, so that a stall spoils only
/// one.
fn newest(options: &Options) -> Vec<Row> {
    let pair = NetnsPair::new();
    let program = pair
        .b
        .run(|| ReceiveProgram::attach(&pair.b.interface))
        .unwrap();
    let mut slot = pair.b.run(|| program.newest_channel(1001, 0)).unwrap();
    sched::set_cpu(0).unwrap();
    sched::set_fifo(PRIORITY).unwrap();
    let (mut program_alone, mut noting) = (Updates::new(false), Updates::new(true));
    let mut rows = Vec::new();
    let mut sequence = 0;
    for size in SIZES {
        let (mut updates, mut passes, mut reads) = (Vec::new(), Vec::new(), Vec::new());
        let (mut noted, mut noted_passes) = (Vec::new(), Vec::new());
        for _ in 0..options.rounds {
            let (update, pass) = program_alone.measure(size, 500);
            updates.push(update - pass);
            passes.push(pass);
            let (update, pass) = noting.measure(size, 500);
            noted.push(update - pass);
            noted_passes.push(pass);
            sequence += 1;
            lanes::send_newest(&pair, 1001, size, sequence);
            let mut out = [0; 1476];
            let turns = 1000;
            let start = now_ns(Clock::Monotonic);
            for _ in 0..turns {
                black_box(slot.read(black_box(&mut out[..size])));
            }
            reads.push((now_ns(Clock::Monotonic) - start) as f64 / f64::from(turns));
            assert!(
                slot.read(&mut out)
                    .is_some_and(|newest| newest.length == size)
            );
            thread::sleep(Duration::from_millis(1));
        }
        let limit = if size == 64 { 25.0 } else { 40.0 };
        let plain = median(updates.clone());
        for (name, values, reach, against) in [
            (
                "update, beyond passing on",
                updates,
                70.0,
                vec![("a frame passed on, with the clock", median(passes))],
            ),
            (
                "update with a note of its arrival, beyond passing on",
                noted,
                90.0,
                vec![
                    ("the same without a note", plain),
                    ("a frame passed on, with the clock", median(noted_passes)),
                ],
            ),
            ("read, warm", reads, limit, Vec::new()),
        ] {
            let value = median(values);
            rows.push(Row {
                figure: format!("newest value, {name}, {size} B"),
                value,
                unit: "ns".to_owned(),
                reach: Some(format!("at most {reach} ns")),
                held: Some(value <= reach),
                why: (value > reach).then(|| "not reached in this run".to_owned()),
                samples: options.rounds as u64,
                against: against
                    .into_iter()
                    .map(|(name, value)| Compared {
                        name: name.to_owned(),
                        value,
                    })
                    .collect(),
            });
        }
    }
    rows
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
