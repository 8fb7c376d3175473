//! Round trips of an RTDiP queue channel beside UDP and TCP, in one run, in random order: `make bench-main`.
//!
//! Each protocol and way to wait has two namespaces of its own, so that no channel pays for another. The client runs
//! on core 0, the server on core 0 or 1, both SCHED_FIFO 50. Every cell (protocol, way to wait, size) is measured a
//! little in each of many rounds. The order of the cells is drawn anew for each round, so that disturbances of the
//! machine affect all alike. Prints a table and writes `target/bench/main.json`.
//!
//! `--quick` makes few rounds, for tests; `--out FOLDER` writes to `FOLDER/bench/main.json`.
#![allow(clippy::unwrap_used)]

#[path = "round_trip/peers.rs"]
mod peers;
#[path = "round_trip/trips.rs"]
mod trips;

use peers::{Mode, Protocol};
use rtwire_measure::bench::{Asked, BenchTable, Compared, Place, Row};
use rtwire_measure::noise::{NoiseOptions, NoiseRecorder};
use rtwire_sys::{memory, sched};
use rtwire_testkit::NetnsPair;
use std::thread;
use trips::{PRIORITY, SIZES, Threads, Trips, quantiles};

/// Extent of the measurement.
struct Options {
    rounds: usize,
    /// Measured round trips for each cell and round.
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

/// One protocol with one way to wait.
struct Lane {
    protocol: Protocol,
    mode: Mode,
    trips: Trips,
}

fn main() {
    let asked = Asked::from_command_line(&[], &[]);
    let options = if asked.quick { QUICK } else { USUAL };
    if let Err(error) = sched::set_fifo(PRIORITY).and_then(|_| memory::lock_all()) {
        eprintln!("round_trip: {error}");
        std::process::exit(3);
    }
    sched::set_other().unwrap();
    let recorder = NoiseRecorder::start(NoiseOptions::beside_a_benchmark()).unwrap();
    // The client has a thread of its own: the main thread stays idle, at ordinary priority.
    let lanes = thread::scope(|scope| scope.spawn(|| measure(&options)).join().unwrap());
    let noise = recorder.stop().unwrap();
    print(&lanes);
    println!();
    let table = BenchTable::of(asked.command(), Some(noise), rows(&lanes));
    table.publish(&asked.out(), "main", Place::Whole);
}

fn measure(options: &Options) -> Vec<Lane> {
    let mut lanes = Vec::new();
    for (protocol, mode) in Protocol::ALL
        .into_iter()
        .flat_map(|protocol| Mode::ALL.map(|mode| (protocol, mode)))
    {
        let pair = NetnsPair::new();
        let ends = peers::open(&pair, protocol, mode);
        lanes.push(Lane {
            protocol,
            mode,
            trips: Trips::new(pair, Threads::start(ends, mode)),
        });
    }
    let amount = (options.rounds, options.stretch);
    trips::measure(&mut lanes, |lane| &mut lane.trips, amount);
    lanes
}

/// Returns p50, p99, p99.9 and max, in µs.
fn figures(samples: &[u64]) -> [f64; 4] {
    quantiles(samples, [500, 990, 999, 1000])
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
    let value = |protocol| figures(&lane(lanes, protocol, mode).trips.samples[size])[at];
    let (own_value, udp, tcp) = (value(protocol), value(Protocol::Udp), value(Protocol::Tcp));
    // Only the median describes the mechanism.
    let judged = at == 0;
    let ahead = own_value < udp && own_value < tcp;
    let why = if !judged {
        Some(
            "the tail is this machine's own noise, which affects all alike: see `noise`".to_owned(),
        )
    } else if own.trips.lost > 0 {
        Some(format!("{} values were lost", own.trips.lost))
    } else if ahead {
        None
    } else if mode == Mode::BlockTwoCores {
        Some(
            "waking the other core is nearly all of it, and costs every protocol the same"
                .to_owned(),
        )
    } else if protocol == Protocol::RtdipSorted {
        Some(
            "one call fetches all waiting frames to sort them, which costs more than a call for one"
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
        samples: own.trips.samples[size].len() as u64,
        against: [(Protocol::Udp, udp), (Protocol::Tcp, tcp)]
            .map(|(protocol, value)| Compared {
                name: format!("{}, {}", protocol.name(), mode.name()),
                value,
            })
            .to_vec(),
    }
}

fn print(lanes: &[Lane]) {
    let samples = lanes.first().map_or(0, |lane| lane.trips.samples[0].len());
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
                let samples = &lane(lanes, protocol, mode).trips.samples[size];
                let [p50, p99, p999, max] = figures(samples);
                let cell = format!("{p50:.2} / {p99:.1} / {p999:.1} / {max:.0}");
                print!("{cell:<34} ");
            }
            println!();
        }
    }
    for lane in lanes.iter().filter(|lane| lane.trips.lost > 0) {
        println!(
            "{}, {}: {} values lost",
            lane.protocol.name(),
            lane.mode.name(),
            lane.trips.lost
        );
    }
}
