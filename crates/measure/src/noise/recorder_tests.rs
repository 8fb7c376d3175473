//! Tests of the recorder. Those that record need CAP_SYS_NICE and fail without it.

use std::time::{Duration, Instant};

use super::super::per_core::{doubling_buckets, histogram};
use super::super::{HistogramBucket, StallSource};
use super::*;

#[test]
fn records_every_core_under_the_stated_priority() {
    let recorder = NoiseRecorder::start(NoiseOptions::default()).expect("CAP_SYS_NICE is needed");
    thread::sleep(Duration::from_millis(300));
    let record = recorder.stop().unwrap();
    assert_eq!(record.cores.len(), sched::affinity().unwrap().len());
    for core in &record.cores {
        assert_eq!(
            (core.policy.as_str(), core.priority, &core.fallback),
            ("SCHED_FIFO", 90, &None)
        );
        let overshoot = core.overshoot_ns.expect("it woke");
        // 300 ms of 250 µs periods; a machine that stalls wakes less often and records the stalls.
        assert!(
            overshoot.samples > 1_000 || core.stalled_ns > 10_000_000,
            "{core:?}"
        );
        assert!(
            overshoot.min <= overshoot.p50
                && overshoot.p50 <= overshoot.p99
                && overshoot.p999 <= overshoot.max
        );
        assert_eq!(
            core.histogram.iter().map(|b| b.count).sum::<u64>(),
            overshoot.samples
        );
        assert!(
            core.histogram
                .windows(2)
                .all(|w| w[0].to_ns == w[1].from_ns),
            "no gap: {:?}",
            core.histogram
        );
    }
    assert!(record.to_ns - record.from_ns >= 300_000_000);
    for stall in &record.stalls {
        assert!(stall.alive_ns <= stall.due_ns && stall.length_ns() >= 200_000);
        assert!(
            stall.due_ns - stall.alive_ns <= 250_000 + 1_000,
            "{stall:?}"
        );
    }
}

/// Threads that wake in turns make the kernel pass a real-time worker from core to core.
#[test]
fn all_cores_wake_at_the_same_instants() {
    const PERIOD_NS: u64 = 2_000_000;
    let recorder = NoiseRecorder::start(NoiseOptions {
        period_ns: PERIOD_NS,
        // Each wake-up is noted.
        stall_threshold_ns: 1,
        ..NoiseOptions::default()
    })
    .expect("CAP_SYS_NICE is needed");
    thread::sleep(Duration::from_millis(400));
    let record = recorder.stop().unwrap();
    // The clock is read twice for a note, and a machine that stalls may stall in between: only the least counts.
    let least_apart = |core: u32, other: u32| {
        let of = |core| {
            let source = StallSource::Core(core);
            let noted = record.stalls.iter().filter(move |s| s.source == source);
            noted.map(|stall| stall.due_ns % PERIOD_NS)
        };
        let apart = |a: u64, b: u64| a.abs_diff(b).min(PERIOD_NS - a.abs_diff(b));
        of(core)
            .flat_map(|a| of(other).map(move |b| apart(a, b)))
            .min()
    };
    for pair in record.cores.windows(2) {
        let apart_ns = least_apart(pair[0].core, pair[1].core).expect("both woke");
        assert!(apart_ns < 1_000, "{apart_ns} ns apart");
    }
}

/// A busy thread of higher priority on a core is a stall of that core, as long as it is busy.
#[test]
fn a_busy_real_time_thread_is_seen_as_a_stall() {
    let cores = sched::affinity().unwrap();
    let core = *cores.last().unwrap();
    let recorder = NoiseRecorder::start(NoiseOptions {
        priority: 60,
        ..NoiseOptions::default()
    })
    .unwrap();
    let (from, to) = thread::spawn(move || {
        sched::set_cpu(core).unwrap();
        sched::set_fifo(70).unwrap();
        thread::sleep(Duration::from_millis(50));
        let (from, start) = (now_ns(Clock::Tai), Instant::now());
        while start.elapsed() < Duration::from_millis(20) {}
        (from, now_ns(Clock::Tai))
    })
    .join()
    .unwrap();
    thread::sleep(Duration::from_millis(20));
    let record = recorder.stop().unwrap();
    let seen = record
        .stalls
        .iter()
        .filter(|s| s.source == StallSource::Core(core as u32))
        .find(|s| s.due_ns < to && s.woke_ns > from + 19_000_000)
        .unwrap_or_else(|| {
            panic!(
                "no stall found between {from} and {to}: {:?}",
                record.stalls
            )
        });
    assert!(
        seen.due_ns >= from.saturating_sub(1_000_000) && seen.due_ns <= from + 300_000,
        "certain part: {seen:?}"
    );
    assert!(
        seen.alive_ns <= from,
        "possible part covers the beginning: {seen:?}"
    );
    let of_core = record.cores.iter().find(|c| c.core == core as u32).unwrap();
    assert!(of_core.overshoot_ns.unwrap().max >= 19_000_000);
}

#[test]
fn a_full_record_counts_what_found_no_room() {
    let scheduling = Scheduling {
        policy: Policy::Fifo,
        priority: 90,
        cpus: vec![0],
    };
    let mut record = CoreRecord::new(3, scheduling, None, 2);
    let capacity = 2;
    for i in 0..capacity + 5 {
        record.note(300_000, 1_000_000 * (i + 1), 500_000, 200_000);
    }
    record.note(10, 9_000_000_000, 250_000, 200_000);
    let noise = record.noise(7);
    assert_eq!(
        (noise.stalls, noise.dropped_stalls, noise.steal_ns),
        (capacity + 5, 5, 7)
    );
    assert_eq!(noise.stalled_ns, (capacity + 5) * 300_000);
    let first = record.stalls().next().unwrap();
    assert_eq!(
        (first.source, first.alive_ns, first.due_ns, first.woke_ns),
        (StallSource::Core(3), 500_000, 700_000, 1_000_000)
    );
    assert_eq!(noise.overshoot_ns.unwrap().min, 10);
    assert_eq!(noise.overshoot_ns.unwrap().max, 300_000);
}

#[test]
fn bad_options_are_refused_with_what_is_right() {
    for (options, message) in [
        (
            NoiseOptions {
                period_ns: 0,
                ..NoiseOptions::default()
            },
            "noise record: period_ns is 0, expected 20000 to 1000000000",
        ),
        (
            NoiseOptions {
                priority: 0,
                ..NoiseOptions::default()
            },
            "noise record: priority is 0, expected 1 to 99",
        ),
        (
            NoiseOptions {
                stall_threshold_ns: 0,
                ..NoiseOptions::default()
            },
            "noise record: stall_threshold_ns is 0, expected at least 1",
        ),
    ] {
        assert_eq!(
            NoiseRecorder::start(options).unwrap_err().to_string(),
            message
        );
    }
    let nowhere = NoiseOptions {
        cores: vec![900],
        ..NoiseOptions::default()
    };
    let message = NoiseRecorder::start(nowhere).unwrap_err().to_string();
    assert!(
        message.starts_with("noise record on core 900: sched_setaffinity for core 900"),
        "{message}"
    );
}

#[test]
fn what_is_dropped_ends_its_threads() {
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        tasks
            .filter(|t| {
                let comm = t.as_ref().unwrap().path().join("comm");
                std::fs::read_to_string(comm).unwrap_or_default().trim() == "rtw-noise/0"
            })
            .count()
    };
    // Other tests of this process record too, so only threads of a recorder on core 0 alone count.
    let recorder = NoiseRecorder::start(NoiseOptions {
        cores: vec![0],
        ..NoiseOptions::default()
    })
    .unwrap();
    assert!(threads() >= 1);
    let stop = Arc::clone(&recorder.stop);
    drop(recorder);
    assert_eq!(Arc::strong_count(&stop), 1, "no thread holds it any more");
}

#[test]
fn histogram_in_doubling_steps() {
    let mut h = histogram();
    for v in [1, 999, 1_500, 9_000, 9_000, 70_000_000_000] {
        h.saturating_record(v);
    }
    let buckets = doubling_buckets(&h);
    assert_eq!(
        buckets[0],
        HistogramBucket {
            from_ns: 0,
            to_ns: 1_000,
            count: 2
        }
    );
    assert_eq!(
        buckets[1],
        HistogramBucket {
            from_ns: 1_000,
            to_ns: 2_000,
            count: 1
        }
    );
    assert_eq!(
        buckets[4],
        HistogramBucket {
            from_ns: 8_000,
            to_ns: 16_000,
            count: 2
        }
    );
    assert_eq!(buckets.iter().map(|b| b.count).sum::<u64>(), 6);
    assert!(buckets.windows(2).all(|w| w[0].to_ns == w[1].from_ns));
}
