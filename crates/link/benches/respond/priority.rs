//! Process priority: execution time of a real-time task while a process of low priority on its core receives at full
//! speed.
//!
//! It repeats the experiment of RTDiP's authors. A SCHED_FIFO task wakes every 20 ms (and every 1 ms) and computes
//! for some 300 µs. The receiver on the same core and the threads that receive for it have the lowest priority.
//! Messages of 1 KB come one by one from the other core, 100 000 a second. A veth does its receive work on the
//! sender's core. Where the soft interrupt has to run on the task's core, as with a network card, the kernel's packet
//! steering (RPS) moves it there.

#[path = "priority/carriers.rs"]
mod carriers;
#[path = "priority/flood.rs"]
mod flood;

use super::rows::row;
use flood::{CARRIERS, Carrier, Context, Flood, LOW};
use rtwire_measure::bench::{Compared, Row};
use rtwire_sys::clock::{self, Clock, now_ns};
use rtwire_sys::sched::thread::Want;
use rtwire_sys::{memory, sched};
use std::hint::black_box;
use std::thread;
use std::time::Duration;

/// Core of the task and of the receiver.
const CORE: usize = 0;
const TASK_PRIORITY: u8 = 80;
const TASK_NS: u64 = 300_000;
pub(crate) const PERIODS_NS: [u64; 2] = [1_000_000, 20_000_000];

/// Measures everything; each measurement takes `stretch` at a time.
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
                // Another one begins each time.
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

/// Returns the number of turns of the task's loop for its time, from the fastest of many tries, so that stalls do not
/// count.
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

/// Computes, and returns the time that took, in ns.
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

/// Returns p50, p99 and max.
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
