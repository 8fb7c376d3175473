//! The recording thread of one core and its data.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hdrhistogram::Histogram;
use rtwire_sys::clock::{Clock, now_ns, sleep_until};
use rtwire_sys::sched::{self, Policy, Scheduling};

use super::recorder::NoiseOptions;
use super::{CoreNoise, HistogramBucket, Stall, StallSource};
use crate::summary::Summary;

/// Longest overshoot in the histogram, in ns. A longer one counts as this one; the maximum stays exact.
const LONGEST_NS: u64 = 60_000_000_000;

/// A stall without the name of its source.
#[derive(Clone, Copy, Debug)]
struct Interval {
    alive_ns: u64,
    due_ns: u64,
    woke_ns: u64,
}

/// The data of one thread. All memory is allocated and touched before the first wake-up.
#[derive(Debug)]
pub(super) struct CoreRecord {
    pub(super) core: u32,
    scheduling: Scheduling,
    /// Read again when the thread has ended its record.
    scheduling_at_end: Option<Scheduling>,
    fallback: Option<String>,
    histogram: Histogram<u64>,
    min_ns: u64,
    max_ns: u64,
    stalls: Vec<Interval>,
    stall_count: u64,
    stalled_ns: u64,
}

impl CoreRecord {
    pub(super) fn new(
        core: u32,
        scheduling: Scheduling,
        fallback: Option<String>,
        max_stalls: usize,
    ) -> Self {
        // Values other than zero make the kernel map the pages now.
        let mut stalls = vec![
            Interval {
                alive_ns: 1,
                due_ns: 1,
                woke_ns: 1
            };
            max_stalls
        ];
        stalls.clear();
        let mut histogram = histogram();
        histogram.reset();
        Self {
            core,
            scheduling,
            scheduling_at_end: None,
            fallback,
            histogram,
            min_ns: u64::MAX,
            max_ns: 0,
            stalls,
            stall_count: 0,
            stalled_ns: 0,
        }
    }

    /// Wakes and records until `stop` is set, and tells the stalled time so far. No allocation, no lock; one system call for
    /// each wake-up.
    ///
    /// All cores wake at the same instants: `grid_ns` (CLOCK_MONOTONIC) and whole periods after it. A thread that wakes
    /// makes the kernel move the real-time worker of its core to the next core. With instants of their own the threads
    /// passed one runnable worker to and fro for 350 µs, while both cores ran ordinary programs.
    pub(super) fn run(
        &mut self,
        options: &NoiseOptions,
        grid_ns: u64,
        stop: &AtomicBool,
        stalled_ns: &AtomicU64,
    ) {
        let mut alive = now_ns(Clock::Monotonic);
        let period_ns = options.period_ns;
        let next = |after_ns: u64| grid_ns + ((after_ns - grid_ns) / period_ns + 1) * period_ns;
        let mut due = next(alive);
        while !stop.load(Ordering::Acquire) {
            // A signal or an error ends the sleep early. Then the time is not yet due and nothing is recorded.
            let _ = sleep_until(Clock::Monotonic, due);
            let woke = now_ns(Clock::Monotonic);
            if woke < due {
                continue;
            }
            let woke_tai = now_ns(Clock::Tai);
            self.note(
                woke - due,
                woke_tai,
                woke - alive,
                options.stall_threshold_ns,
            );
            stalled_ns.store(self.stalled_ns, Ordering::Relaxed);
            alive = woke;
            // Those that passed are part of the stall and are skipped.
            due = next(woke);
        }
        self.scheduling_at_end = sched::current().ok();
    }

    pub(super) fn note(
        &mut self,
        overshoot_ns: u64,
        woke_tai: u64,
        since_alive_ns: u64,
        threshold_ns: u64,
    ) {
        self.histogram.saturating_record(overshoot_ns.max(1));
        self.min_ns = self.min_ns.min(overshoot_ns);
        self.max_ns = self.max_ns.max(overshoot_ns);
        if overshoot_ns < threshold_ns {
            return;
        }
        self.stall_count += 1;
        self.stalled_ns += overshoot_ns;
        if self.stalls.len() < self.stalls.capacity() {
            self.stalls.push(Interval {
                alive_ns: woke_tai.saturating_sub(since_alive_ns),
                due_ns: woke_tai.saturating_sub(overshoot_ns),
                woke_ns: woke_tai,
            });
        }
    }

    pub(super) fn stalls(&self) -> impl Iterator<Item = Stall> + '_ {
        self.stalls.iter().map(|i| Stall {
            source: StallSource::Core(self.core),
            alive_ns: i.alive_ns,
            due_ns: i.due_ns,
            woke_ns: i.woke_ns,
        })
    }

    pub(super) fn noise(&self, steal_ns: u64) -> CoreNoise {
        let samples = self.histogram.len();
        let at = |quantile| {
            self.histogram
                .value_at_quantile(quantile)
                .clamp(self.min_ns.min(self.max_ns), self.max_ns)
        };
        let overshoot_ns = (samples > 0).then(|| Summary {
            min: self.min_ns,
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: self.max_ns,
            samples,
        });
        let at_end = self.scheduling_at_end.as_ref();
        CoreNoise {
            core: self.core,
            policy: name(self.scheduling.policy),
            priority: self.scheduling.priority.into(),
            policy_at_end: at_end.map_or_else(|| "unknown".to_owned(), |end| name(end.policy)),
            priority_at_end: at_end.map_or(0, |end| end.priority.into()),
            fallback: self.fallback.clone(),
            overshoot_ns,
            histogram: doubling_buckets(&self.histogram),
            steal_ns,
            stalls: self.stall_count,
            stalled_ns: self.stalled_ns,
            dropped_stalls: self.stall_count - self.stalls.len() as u64,
        }
    }
}

fn name(policy: Policy) -> String {
    match policy {
        Policy::Fifo => "SCHED_FIFO".to_owned(),
        Policy::RoundRobin => "SCHED_RR".to_owned(),
        Policy::Other => "SCHED_OTHER".to_owned(),
        Policy::Unknown(number) => format!("policy {number}"),
    }
}

pub(super) fn histogram() -> Histogram<u64> {
    #[expect(clippy::expect_used)]
    let histogram =
        Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("1 < LONGEST_NS and 3 <= 5 digits");
    histogram
}

/// Returns the histogram in doubling steps from 1 µs, from the first filled bucket to the last.
pub(super) fn doubling_buckets(histogram: &Histogram<u64>) -> Vec<HistogramBucket> {
    let mut buckets: Vec<HistogramBucket> = Vec::new();
    let (mut from_ns, mut to_ns) = (0, 1_000);
    for step in histogram.iter_recorded() {
        while step.value_iterated_to() >= to_ns {
            if !buckets.is_empty() && buckets.last().is_none_or(|b| b.to_ns < to_ns) {
                buckets.push(HistogramBucket {
                    from_ns,
                    to_ns,
                    count: 0,
                });
            }
            (from_ns, to_ns) = (to_ns, to_ns * 2);
        }
        match buckets.last_mut() {
            Some(bucket) if bucket.to_ns == to_ns => {
                bucket.count += step.count_since_last_iteration()
            }
            _ => buckets.push(HistogramBucket {
                from_ns,
                to_ns,
                count: step.count_since_last_iteration(),
            }),
        }
    }
    buckets
}
