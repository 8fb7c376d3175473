//! Share of round trips to a reply from the driver that meet the source's deadline, and of misses that stalls of this
//! machine explain.

use super::lanes::{Kind, Lane};
use super::rows::row;
use rtwire_measure::bench::{Compared, Row};
use rtwire_measure::noise::{NoiseOptions, NoiseRecorder, Stalls};
use rtwire_sys::clock::{Clock, now_ns};
use rtwire_sys::sched;
use std::thread;
use std::time::Duration;

/// The source's deadline.
const DEADLINE_NS: u64 = 74_400;
/// Round trips between two pauses.
const STRETCH: u64 = 20_000;

pub(crate) fn rows(count: u64) -> Vec<Row> {
    let mut lane = Lane::open(Kind::Driver);
    let recorder = NoiseRecorder::start(NoiseOptions {
        period_ns: 100_000,
        stall_threshold_ns: 20_000,
        priority: 99,
        max_stalls: 1 << 20,
        ..NoiseOptions::default()
    })
    .unwrap();
    sched::set_cpu(0)
        .and_then(|_| sched::set_fifo(super::PRIORITY))
        .unwrap();
    let (mut asked, mut lost) = (0_u64, 0_u64);
    let mut late: Vec<(u64, u64)> = Vec::with_capacity(1 << 20);
    let mut over = 0_u64;
    while asked < count {
        for _ in 0..STRETCH.min(count - asked) {
            asked += 1;
            let start = now_ns(Clock::Tai);
            let answered = lane.ask();
            let end = now_ns(Clock::Tai);
            lost += u64::from(!answered);
            if end - start > DEADLINE_NS {
                over += 1;
                if late.len() < late.capacity() {
                    late.push((start, end));
                }
            }
        }
        // A pause for other threads: the kernel takes a core that is never given up away for tens of milliseconds.
        thread::sleep(Duration::from_millis(1));
    }
    sched::set_other().unwrap();
    let record = recorder.stop().unwrap();
    let stalls = Stalls::of(&record);
    let explained = late
        .iter()
        .filter(|&&(start, end)| stalls.explain(start, end, DEADLINE_NS))
        .count() as u64;
    let mut share = row(
        "round trips to a driver reply under 74.4 µs (the source's deadline)".to_owned(),
        100.0 * (asked - over) as f64 / asked as f64,
        "%",
        asked as usize,
    );
    share.reach = Some("every miss explained by a recorded stall or not; none lost".to_owned());
    share.held = Some(lost == 0);
    share.why = (lost > 0).then(|| format!("{lost} lost"));
    let mut rows = vec![share];
    for (name, value) in [
        ("explained by a recorded stall", explained),
        ("explained by none", over - explained),
    ] {
        let mut own = row(
            format!("misses of 74.4 µs {name}"),
            value as f64,
            "",
            over as usize,
        );
        own.against.push(Compared {
            name: "stalls recorded".to_owned(),
            value: record.stalls.len() as f64,
        });
        rows.push(own);
    }
    rows
}
