//! Benchmark of queue channels, in four parts. It measures round trips over packet sockets and over the receive
//! program, beside UDP and TCP. It measures one urgent message behind a hundred others, and message throughput in one
//! direction. The last part is a soak of every kind of channel. Adds its rows to `target/bench/receive.json`.
//!
//! All compared figures are measured in one run, a little of each in many rounds, in an order drawn anew for each
//! round. `--quick` makes few rounds, for tests. `--out FOLDER` writes to `FOLDER/bench/receive.json`. `--only PART`
//! measures `trips`, `urgent`, `flow` or `soak` alone.
#![allow(clippy::unwrap_used)]

#[path = "queues/floor.rs"]
mod floor;
#[path = "queues/flow.rs"]
mod flow;
#[path = "round_trip/peers.rs"]
#[allow(dead_code, reason = "shared with the benchmark of all protocols")]
mod peers;
#[path = "round_trip/trips.rs"]
mod round_trips;
#[path = "queues/soak.rs"]
mod soak;
#[path = "queues/trips.rs"]
mod trips;
#[path = "queues/urgent.rs"]
mod urgent;

use round_trips::{PRIORITY, Random};
use rtwire_channel::{EndpointConfig, ListenerConfig, QueueListener, ReceivePath};
use rtwire_measure::bench::{Asked, BenchTable, Compared, Place, Row};
use rtwire_measure::noise::{NoiseOptions, NoiseRecorder};
use rtwire_sys::{memory, sched};
use rtwire_testkit::Side;
use std::thread;

/// A part's name and the function that measures it, in few rounds (`true`) or in all.
type Part = (&'static str, fn(bool) -> Vec<Row>);

fn main() {
    let asked = Asked::from_command_line(&[], &[]);
    if let Err(error) = sched::set_fifo(PRIORITY).and_then(|_| memory::lock_all()) {
        eprintln!("queues: {error}");
        std::process::exit(3);
    }
    sched::set_other().unwrap();
    let recorder = NoiseRecorder::start(NoiseOptions::beside_a_benchmark()).unwrap();
    let mut rows = Vec::new();
    let parts: [Part; 4] = [
        ("trips", trips::rows),
        ("urgent", urgent::rows),
        ("flow", flow::rows),
        ("soak", soak::rows),
    ];
    for (name, part) in parts {
        if asked.wants(name) {
            // A thread for each part, so that its core and priority end with it.
            rows.extend(thread::scope(|scope| {
                scope.spawn(|| part(asked.quick)).join().unwrap()
            }));
        }
    }
    let noise = recorder.stop().unwrap();
    let table = BenchTable::of(asked.command(), Some(noise), rows);
    table.publish(&asked.out(), "receive", Place::Part);
}

/// Returns the smallest value in µs that at least this share of the samples does not exceed.
fn quantile(samples: &[u64], permille: usize) -> f64 {
    round_trips::quantiles(samples, [permille])[0]
}

fn compared(name: impl Into<String>, value: f64) -> Compared {
    Compared {
        name: name.into(),
        value,
    }
}

/// Opens a listener on a path.
fn listener(side: &Side, path: ReceivePath, config: &ListenerConfig) -> QueueListener {
    let endpoint = EndpointConfig {
        path,
        ..EndpointConfig::new(side.interface.as_str())
    };
    side.run(|| {
        let endpoint = rtwire_channel::Endpoint::with(&endpoint).unwrap();
        endpoint.queue_listener(config).unwrap()
    })
}
