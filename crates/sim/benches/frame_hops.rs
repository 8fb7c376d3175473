//! Measures the number of frame transmissions simulated per second of processor time.
//!
//! Run with `cargo bench -p rtwire-sim --bench frame_hops`.
//!
//! The network is a tree of 16 switches and 64 hosts with 400 streams, FIFO and strict priority, with each pattern.
//! The target is 2 million frame-hops per second on one core.

#![allow(
    clippy::unwrap_used,
    clippy::missing_docs_in_private_items,
    reason = "a benchmark that cannot run should stop"
)]

use std::fmt::Write as _;
use std::time::Instant;

use rtwire_sim::random::Random;
use rtwire_sim::replay::{self, Departure, Replay};
use rtwire_sim::{Model, PatternChoice, Scenario, Simulator};

fn description(switches: u64, hosts: u64, streams: u64, queues: u64) -> String {
    let mut random = Random::new(5, 0);
    let mut text =
        String::from("[network]\nname = \"bench\"\n[defaults]\nlink-rate = \"1 Gbit/s\"\n");
    for switch in 0..switches {
        writeln!(
            text,
            "[[switch]]\nname = \"s{switch}\"\nlatency = \"2 us\"\nqueues = {queues}\nshared-buffer = \"8 MB\""
        )
        .unwrap();
        if switch > 0 {
            let other = (switch - 1) / 3;
            writeln!(
                text,
                "[[link]]\nends = [\"s{switch}\", \"s{other}\"]\nrate = \"10 Gbit/s\""
            )
            .unwrap();
        }
    }
    for host in 0..hosts {
        let at = host % switches;
        writeln!(
            text,
            "[[host]]\nname = \"h{host}\"\n[[link]]\nends = [\"h{host}\", \"s{at}\"]"
        )
        .unwrap();
    }
    for stream in 0..streams {
        let talker = random.below(hosts);
        let listener = (talker + 1 + random.below(hosts - 1)) % hosts;
        let frame = [64, 128, 400, 1514][random.below(4) as usize];
        let contract = if random.once_in(2) {
            format!("interval = \"{} us\"", 250 * (1 + random.below(8)))
        } else {
            format!("rate = \"{} Mbit/s\"", 1 + random.below(10))
        };
        writeln!(
            text,
            "[[stream]]\nname = \"f{stream}\"\ntalker = \"h{talker}\"\nlisteners = [\"h{listener}\"]\n\
             frame = \"{frame} B\"\npriority = {}\n{contract}",
            random.below(8)
        )
        .unwrap();
    }
    text
}

/// Returns this thread's processor time, ns; the wall-clock time if the kernel does not report it.
fn processor_ns(start: Instant) -> u64 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|text| text.split(' ').next()?.parse().ok())
        .unwrap_or_else(|| u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// Replays a million departures over 30 s, and sends a million frames through one port.
fn replays(start: Instant) {
    let text = description(16, 64, 400, 8);
    let network = rtwire_plan::read(&text, "bench.toml", &[]).unwrap();
    let plan = rtwire_plan::plan(&network, &rtwire_plan::Options::default()).unwrap();
    let replay = Replay::new(&network, &plan).unwrap();
    let mut random = Random::new(6, 0);
    let departures: Vec<Departure> = (0..1_000_000)
        .map(|frame| Departure {
            flow: random.below(400) as usize,
            frame,
            at_ns: 1_795_000_000_000_000_000 + random.below(30_000_000_000),
            wire_bytes: None,
        })
        .collect();
    let before = processor_ns(start);
    let replayed = replay.run(&departures).unwrap();
    let took = (processor_ns(start) - before) as f64 / 1e9;
    let frames: usize = replayed.listeners.iter().map(|it| it.frames.len()).sum();
    println!("replay of {frames} departures over 30 s, three plays: {took:.2} s");
    let entries: Vec<replay::Entry> = departures
        .iter()
        .map(|it| replay::Entry {
            at_ns: it.at_ns,
            class: (it.flow % 8) as u8,
            wire_bytes: 84 + (it.frame % 1455) as u32,
        })
        .collect();
    let before = processor_ns(start);
    let exits = replay::port(250_000_000, 8, &entries).unwrap();
    let took = (processor_ns(start) - before) as f64 / 1e9;
    println!("replay of one port, {} frames: {took:.2} s", exits.len());
}

fn main() {
    let start = Instant::now();
    replays(start);
    println!("network            pattern    frame-hops   processor s   million frame-hops/s");
    for (name, queues) in [("400 streams FIFO", 1), ("400 streams SP", 8)] {
        let text = description(16, 64, 400, queues);
        let network = rtwire_plan::read(&text, "bench.toml", &[]).unwrap();
        let model = Model::new(&network).unwrap();
        let mut simulator = Simulator::new(&model);
        for choice in [
            PatternChoice::Greedy,
            PatternChoice::Periodic,
            PatternChoice::Random,
            PatternChoice::Shaped,
        ] {
            let scenario = Scenario::new(&model, choice, 1, 2_000_000_000_000, 0);
            // The first run allocates the memory.
            simulator.run(&Scenario {
                duration_ps: 100_000_000_000,
                ..scenario.clone()
            });
            let before = processor_ns(start);
            simulator.run(&scenario);
            let took = (processor_ns(start) - before) as f64 / 1e9;
            let hops = simulator.frame_hops();
            println!(
                "{name:<18} {:<9} {hops:>11} {took:>13.3} {:>23.2}",
                choice.word(),
                hops as f64 / took / 1e6
            );
        }
    }
}
