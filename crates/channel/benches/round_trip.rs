//! Round trips of an RTDiP queue channel beside UDP and TCP, in one run, in random order: `make bench-main`.
//!
//! Two namespaces for each protocol and way to wait (so that no channel pays for another), the client on core 0, the
//! server on core 0 or 1, both SCHED_FIFO 50. Every cell (protocol, way to wait, size) is measured a little in each of many rounds, and the order of the cells is drawn anew for each round: so what
//! disturbs the machine disturbs all alike. Prints a table and writes `target/bench/main.json`.
//!
//! `--quick` makes few rounds, for tests; `--out FOLDER` writes to `FOLDER/bench/main.json`.
#![allow(clippy::unwrap_used)]

#[path = "round_trip/peers.rs"]
mod peers;

use peers::{Mode, Peer, Protocol};
use rtwire_measure::bench::{Asked, BenchTable, Compared, Row, commit};
use rtwire_measure::noise::{NoiseOptions, NoiseRecorder};
use rtwire_measure::report::Machine;
use rtwire_sys::clock::{Clock, now_ns};
use rtwire_sys::{memory, sched};
use rtwire_testkit::NetnsPair;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

const SIZES: [usize; 5] = [1, 64, 256, 1024, 1450];
const PRIORITY: u8 = 50;
/// Round trips before each measured stretch, for caches and predictors.
const WARM_UP: usize = 20;

/// How much is measured.
struct Options {
    rounds: usize,
    /// Measured round trips of each cell in each round.
    stretch: usize,
}

const USUAL: Options = Options {
    rounds: 80,
    stretch: 250,
};
const QUICK: Options = Options {
    rounds: 4,
    stretch: 50,
};

/// One protocol in one way to wait: a client here, a server on a thread of its own.
struct Lane {
    protocol: Protocol,
    mode: Mode,
    client: Box<dyn Peer>,
    /// Tells the server how many values of which size to send back.
    orders: Sender<(usize, usize)>,
    done: Receiver<()>,
    /// ns, for each size.
    samples: [Vec<u64>; SIZES.len()],
    lost: u64,
    _pair: NetnsPair,
}

fn main() {
    let asked = Asked::from_command_line(&[]);
    let options = if asked.quick { QUICK } else { USUAL };
    if let Err(error) = sched::set_fifo(PRIORITY).and_then(|_| memory::lock_all()) {
        eprintln!("round_trip: {error}");
        std::process::exit(3);
    }
    sched::set_other().unwrap();
    let recorder = NoiseRecorder::start(NoiseOptions::beside_a_benchmark()).unwrap();
    // A thread of its own for the client: the main thread stays out of the way, at ordinary priority.
    let lanes = thread::scope(|scope| scope.spawn(|| measure(&options)).join().unwrap());
    let noise = recorder.stop().unwrap();
    let table = BenchTable {
        machine: Machine::this(env!("CARGO_PKG_VERSION")),
        commit: commit(),
        command: asked.command(),
        noise: Some(noise),
        rows: rows(&lanes),
    };
    print(&lanes);
    let path = table.write(&asked.out(), "main").unwrap();
    println!("\nwritten to {}", path.display());
}

fn measure(options: &Options) -> Vec<Lane> {
    let mut lanes = Vec::new();
    for (protocol, mode) in Protocol::ALL
        .into_iter()
        .flat_map(|protocol| Mode::ALL.map(|mode| (protocol, mode)))
    {
        let pair = NetnsPair::new();
        let (client, server) = peers::open(&pair, protocol, mode);
        let (orders, incoming) = mpsc::channel();
        let (finished, done) = mpsc::channel();
        thread::spawn(move || serve(server, mode, &incoming, &finished));
        let samples = SIZES.map(|_| Vec::with_capacity(options.rounds * options.stretch));
        lanes.push(Lane {
            protocol,
            mode,
            client,
            orders,
            done,
            samples,
            lost: 0,
            _pair: pair,
        });
    }
    prepare(0);
    let mut random = now_ns(Clock::Realtime) | 1;
    for _ in 0..options.rounds {
        let mut cells: Vec<(usize, usize)> = (0..lanes.len())
            .flat_map(|lane| (0..SIZES.len()).map(move |size| (lane, size)))
            .collect();
        // Fisher and Yates, with a small generator of our own.
        for last in (1..cells.len()).rev() {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            cells.swap(last, (random % (last as u64 + 1)) as usize);
        }
        for (lane, size) in cells {
            stretch(&mut lanes[lane], size, options.stretch);
            // A pause for everybody else: a core that is never given up is taken away for tens of milliseconds.
            thread::sleep(Duration::from_millis(1));
        }
    }
    lanes
}

/// Both ends alike: real-time priority, one core, no page faults.
fn prepare(cpu: usize) {
    sched::set_cpu(cpu).unwrap();
    sched::set_fifo(PRIORITY).unwrap();
    memory::touch_stack();
}

fn serve(
    mut server: Box<dyn Peer>,
    mode: Mode,
    orders: &Receiver<(usize, usize)>,
    done: &Sender<()>,
) {
    prepare(mode.server_cpu());
    let mut buffer = [0; 2048];
    while let Ok((count, octets)) = orders.recv() {
        for _ in 0..count {
            if !server.receive(&mut buffer[..octets]) {
                break;
            }
            server.send(&buffer[..octets]);
        }
        let _ = done.send(());
    }
}

fn stretch(lane: &mut Lane, size: usize, count: usize) {
    let octets = SIZES[size];
    lane.orders.send((WARM_UP + count, octets)).unwrap();
    let data = [0x42; 2048];
    let mut buffer = [0; 2048];
    for turn in 0..WARM_UP + count {
        let start = now_ns(Clock::Monotonic);
        lane.client.send(&data[..octets]);
        if !lane.client.receive(&mut buffer[..octets]) {
            lane.lost += 1;
            break;
        }
        let end = now_ns(Clock::Monotonic);
        if turn >= WARM_UP {
            lane.samples[size].push(end - start);
        }
    }
    lane.done.recv().unwrap();
}

/// p50, p99, p99.9, max of sorted samples, in µs.
fn figures(samples: &[u64]) -> [f64; 4] {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let at = |permille: usize| match sorted.len() {
        0 => f64::NAN,
        // The smallest value that at least this share does not exceed.
        n => sorted[(n * permille).div_ceil(1000).clamp(1, n) - 1] as f64 / 1000.0,
    };
    [at(500), at(990), at(999), at(1000)]
}

const NAMES: [&str; 4] = ["p50", "p99", "p99.9", "max"];

fn lane(lanes: &[Lane], protocol: Protocol, mode: Mode) -> &Lane {
    lanes
        .iter()
        .find(|lane| lane.protocol == protocol && lane.mode == mode)
        .unwrap()
}

fn rows(lanes: &[Lane]) -> Vec<Row> {
    let mut rows = Vec::new();
    for mode in Mode::ALL {
        for size in 0..SIZES.len() {
            for protocol in [Protocol::Rtdip, Protocol::RtdipSorted] {
                rows.extend((0..NAMES.len()).map(|at| row(lanes, protocol, mode, size, at)));
            }
        }
    }
    rows
}

fn row(lanes: &[Lane], protocol: Protocol, mode: Mode, size: usize, at: usize) -> Row {
    let own = lane(lanes, protocol, mode);
    let value = |protocol| figures(&lane(lanes, protocol, mode).samples[size])[at];
    let (own_value, udp, tcp) = (value(protocol), value(Protocol::Udp), value(Protocol::Tcp));
    // Only the median describes the mechanism.
    let judged = at == 0;
    let ahead = own_value < udp && own_value < tcp;
    let why = if !judged {
        Some(
            "the tail is this machine's own noise, which falls on all alike: see `noise`"
                .to_owned(),
        )
    } else if own.lost > 0 {
        Some(format!("{} values were lost", own.lost))
    } else if ahead {
        None
    } else if mode == Mode::BlockTwoCores {
        Some(
            "waking the other core is nearly all of it, and costs every protocol the same"
                .to_owned(),
        )
    } else if protocol == Protocol::RtdipSorted {
        Some(
            "one call takes all that has come, so as to sort it: dearer than a call for one"
                .to_owned(),
        )
    } else {
        Some("not reached in this run".to_owned())
    };
    Row {
        figure: format!(
            "round trip, {}, {}, {} B, {}",
            protocol.name(),
            mode.name(),
            SIZES[size],
            NAMES[at]
        ),
        value: own_value,
        unit: "µs".to_owned(),
        reach: judged.then(|| "below UDP and TCP".to_owned()),
        held: judged.then_some(ahead),
        why,
        samples: own.samples[size].len() as u64,
        against: [(Protocol::Udp, udp), (Protocol::Tcp, tcp)]
            .map(|(protocol, value)| Compared {
                name: format!("{}, {}", protocol.name(), mode.name()),
                value,
            })
            .to_vec(),
    }
}

fn print(lanes: &[Lane]) {
    let samples = lanes.first().map_or(0, |lane| lane.samples[0].len());
    println!("round trip, µs: p50 / p99 / p99.9 / max of {samples} in each cell");
    for mode in Mode::ALL {
        println!(
            "\n{}, SCHED_FIFO {PRIORITY}, client on core 0, server on core {}",
            mode.name(),
            mode.server_cpu()
        );
        print!("{:>6}  ", "octets");
        for protocol in Protocol::ALL {
            print!("{:<34} ", protocol.name());
        }
        println!();
        for (size, octets) in SIZES.iter().enumerate() {
            print!("{octets:>6}  ");
            for protocol in Protocol::ALL {
                let samples = &lane(lanes, protocol, mode).samples[size];
                let [p50, p99, p999, max] = figures(samples);
                let cell = format!("{p50:.2} / {p99:.1} / {p999:.1} / {max:.0}");
                print!("{cell:<34} ");
            }
            println!();
        }
    }
    for lane in lanes.iter().filter(|lane| lane.lost > 0) {
        println!(
            "{}, {}: {} values lost",
            lane.protocol.name(),
            lane.mode.name(),
            lane.lost
        );
    }
}
