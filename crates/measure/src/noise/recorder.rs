//! The threads that record.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use hdrhistogram::Histogram;
use rtwire_sys::clock::{Clock, now_ns, sleep_until};
use rtwire_sys::sched::{self, Policy, Scheduling};

use super::steal::{self, Stolen};
use super::{CoreNoise, HistogramBucket, NoiseRecord, Stall, StallSource};
use crate::summary::Summary;

/// Longest overshoot that the histogram tells apart; longer ones count as this long there (the maximum stays exact).
const LONGEST_NS: u64 = 60_000_000_000;

/// How to record noise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoiseOptions {
    /// Which cores; empty means all that this process may run on.
    pub cores: Vec<u32>,
    /// `SCHED_FIFO` priority, 1 to 99. 90 by default: above the workers at 80.
    pub priority: u8,
    /// Go on with ordinary scheduling, and say so in the record, where `SCHED_FIFO` is not permitted.
    pub allow_fallback: bool,
    /// How often each thread wakes, ns; 20 µs to 1 s. 250 µs by default.
    pub period_ns: u64,
    /// From which overshoot on a wake-up is a stall, ns. 200 µs by default.
    pub stall_threshold_ns: u64,
    /// Most stalls kept for each core; further ones are counted. 16 384 by default.
    pub max_stalls: usize,
}

impl Default for NoiseOptions {
    fn default() -> Self {
        Self {
            cores: Vec::new(),
            priority: 90,
            allow_fallback: false,
            period_ns: 250_000,
            stall_threshold_ns: 200_000,
            max_stalls: 16_384,
        }
    }
}

/// Why no noise could be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoiseError {
    /// An option is out of its range.
    #[error("noise record: {what} is {found}, expected {expected}")]
    Option {
        /// Which option.
        what: &'static str,
        /// What it is.
        found: u64,
        /// What it may be.
        expected: &'static str,
    },
    /// A core's thread could not be set up. Where a capability is missing (`CAP_SYS_NICE`), the source names it.
    #[error("noise record on core {core}: {source}")]
    Core {
        /// Which core.
        core: u32,
        /// Why.
        source: rtwire_sys::Error,
    },
    /// The cores of this process cannot be read.
    #[error("noise record: {0}")]
    Cores(rtwire_sys::Error),
    /// The system gives no further thread.
    #[error("noise record: no thread to be had: {0}; raise the limit of processes (ulimit -u)")]
    Thread(std::io::Error),
    /// A recording thread ended before its time. This is a fault of rtwire.
    #[error("noise record: a recording thread ended early; please report this")]
    Lost,
}

/// Records the host's noise until it is stopped: one thread on each core.
///
/// Needs `CAP_SYS_NICE`. Starting and stopping allocate and wait; the recording itself does neither. If it is dropped
/// without [`NoiseRecorder::stop`], the threads end and the record is lost.
///
/// ```no_run
/// use rtwire_measure::noise::{NoiseOptions, NoiseRecorder};
/// let recorder = NoiseRecorder::start(NoiseOptions::default())?;
/// // … measure …
/// let record = recorder.stop()?;
/// println!("{} stalls", record.stalls.len());
/// # Ok::<(), rtwire_measure::noise::NoiseError>(())
/// ```
#[derive(Debug)]
pub struct NoiseRecorder {
    stop: Arc<AtomicBool>,
    cores: Vec<JoinHandle<CoreRecord>>,
    steal: Option<JoinHandle<Stolen>>,
    options: NoiseOptions,
    from_ns: u64,
}

impl NoiseRecorder {
    /// Starts one thread on each core and waits until all of them run as asked.
    ///
    /// # Errors
    /// [`NoiseError`]: an option out of range; a core that is not ours; `SCHED_FIFO` not permitted (`CAP_SYS_NICE`)
    /// and no fallback allowed; no thread to be had.
    pub fn start(mut options: NoiseOptions) -> Result<Self, NoiseError> {
        check(&options)?;
        if options.cores.is_empty() {
            let cores = sched::affinity().map_err(NoiseError::Cores)?;
            options.cores = cores
                .into_iter()
                .filter_map(|core| u32::try_from(core).ok())
                .collect();
        }
        let stop = Arc::new(AtomicBool::new(false));
        // From here on an early return drops the recorder, which ends the threads that run already.
        let mut recorder = Self {
            stop,
            cores: Vec::new(),
            steal: None,
            options,
            from_ns: now_ns(Clock::Tai),
        };
        let (ready, set_up) = mpsc::channel();
        for &core in &recorder.options.cores {
            let (stop, ready, options) = (
                Arc::clone(&recorder.stop),
                ready.clone(),
                recorder.options.clone(),
            );
            let thread = thread::Builder::new()
                .name(format!("rtw-noise/{core}"))
                .spawn(move || record_core(core, &options, &stop, &ready))
                .map_err(NoiseError::Thread)?;
            recorder.cores.push(thread);
        }
        drop(ready);
        for _ in 0..recorder.cores.len() {
            set_up.recv().map_err(|_| NoiseError::Lost)??;
        }
        recorder.steal =
            Some(steal::watch(Arc::clone(&recorder.stop)).map_err(NoiseError::Thread)?);
        Ok(recorder)
    }

    /// Stops the threads and hands out what they saw. Takes up to one period.
    ///
    /// # Errors
    /// [`NoiseError::Lost`] if a thread did not live to tell.
    pub fn stop(mut self) -> Result<NoiseRecord, NoiseError> {
        self.stop.store(true, Ordering::Release);
        let mut record = NoiseRecord {
            from_ns: self.from_ns,
            to_ns: 0,
            period_ns: self.options.period_ns,
            stall_threshold_ns: self.options.stall_threshold_ns,
            ..NoiseRecord::default()
        };
        let mut stolen = Stolen::default();
        if let Some(steal) = self.steal.take() {
            steal.thread().unpark();
            stolen = steal.join().map_err(|_| NoiseError::Lost)?;
        }
        for thread in self.cores.drain(..) {
            let core = thread.join().map_err(|_| NoiseError::Lost)?;
            let steal_ns = stolen
                .totals
                .iter()
                .find(|(c, _)| *c == core.core)
                .map_or(0, |(_, ns)| *ns);
            record.cores.push(core.noise(steal_ns));
            record.add(core.stalls());
        }
        record.steal = stolen.intervals;
        record.to_ns = now_ns(Clock::Tai);
        Ok(record)
    }
}

impl Drop for NoiseRecorder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        for thread in self.cores.drain(..) {
            // A thread that panicked has said so; there is nothing to add while dropping.
            let _ = thread.join();
        }
        if let Some(steal) = self.steal.take() {
            steal.thread().unpark();
            let _ = steal.join();
        }
    }
}

fn check(options: &NoiseOptions) -> Result<(), NoiseError> {
    let option = |what, found, expected| {
        Err(NoiseError::Option {
            what,
            found,
            expected,
        })
    };
    if !(20_000..=1_000_000_000).contains(&options.period_ns) {
        return option("period_ns", options.period_ns, "20000 to 1000000000");
    }
    if !(1..=99).contains(&options.priority) {
        return option("priority", options.priority.into(), "1 to 99");
    }
    if options.stall_threshold_ns == 0 {
        return option("stall_threshold_ns", 0, "at least 1");
    }
    Ok(())
}

/// A stall before it has a label.
#[derive(Clone, Copy, Debug)]
struct Interval {
    alive_ns: u64,
    due_ns: u64,
    woke_ns: u64,
}

/// What one thread saw. All memory is there, and touched, before the first wake-up.
#[derive(Debug)]
struct CoreRecord {
    core: u32,
    scheduling: Scheduling,
    fallback: Option<String>,
    histogram: Histogram<u64>,
    min_ns: u64,
    max_ns: u64,
    stalls: Vec<Interval>,
    stall_count: u64,
    stalled_ns: u64,
}

fn record_core(
    core: u32,
    options: &NoiseOptions,
    stop: &AtomicBool,
    ready: &mpsc::Sender<Result<(), NoiseError>>,
) -> CoreRecord {
    let set_up = set_up(core, options);
    let (scheduling, fallback, outcome) = match set_up {
        Ok((scheduling, fallback)) => (scheduling, fallback, Ok(())),
        Err(source) => {
            let nothing = Scheduling {
                policy: Policy::Other,
                priority: 0,
                cpus: Vec::new(),
            };
            (nothing, None, Err(NoiseError::Core { core, source }))
        }
    };
    let runs = outcome.is_ok();
    let mut record = CoreRecord::new(core, scheduling, fallback, options.max_stalls);
    // The receiver is gone only if another core failed; then `stop` is about to be set.
    let _ = ready.send(outcome);
    if runs {
        record.run(options, stop);
    }
    record
}

/// Pins the calling thread and makes it a real-time one; reads back what is in force.
fn set_up(core: u32, options: &NoiseOptions) -> rtwire_sys::Result<(Scheduling, Option<String>)> {
    sched::set_cpu(core as usize)?;
    match sched::set_fifo(options.priority) {
        Ok(scheduling) => Ok((scheduling, None)),
        Err(error) if options.allow_fallback => Ok((sched::current()?, Some(error.to_string()))),
        Err(error) => Err(error),
    }
}

impl CoreRecord {
    fn new(core: u32, scheduling: Scheduling, fallback: Option<String>, max_stalls: usize) -> Self {
        // Written once with something that is not zero, so that the pages are there when they are needed.
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
            fallback,
            histogram,
            min_ns: u64::MAX,
            max_ns: 0,
            stalls,
            stall_count: 0,
            stalled_ns: 0,
        }
    }

    /// Wakes and notes until told to stop. No allocation, no lock; one system call for each wake-up.
    fn run(&mut self, options: &NoiseOptions, stop: &AtomicBool) {
        let mut alive = now_ns(Clock::Monotonic);
        let mut due = alive + options.period_ns;
        while !stop.load(Ordering::Acquire) {
            // A signal or a refusal ends the sleep early: then it is not yet due and nothing is noted.
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
            alive = woke;
            // The next instant of the same grid; those that passed meanwhile are the stall and are not made up for.
            due += ((woke - due) / options.period_ns + 1) * options.period_ns;
        }
    }

    fn note(&mut self, overshoot_ns: u64, woke_tai: u64, since_alive_ns: u64, threshold_ns: u64) {
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

    fn stalls(&self) -> impl Iterator<Item = Stall> + '_ {
        self.stalls.iter().map(|i| Stall {
            source: StallSource::Core(self.core),
            alive_ns: i.alive_ns,
            due_ns: i.due_ns,
            woke_ns: i.woke_ns,
        })
    }

    fn noise(&self, steal_ns: u64) -> CoreNoise {
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
        CoreNoise {
            core: self.core,
            policy: match self.scheduling.policy {
                Policy::Fifo => "SCHED_FIFO".to_owned(),
                Policy::RoundRobin => "SCHED_RR".to_owned(),
                Policy::Other => "SCHED_OTHER".to_owned(),
                Policy::Unknown(number) => format!("policy {number}"),
            },
            priority: self.scheduling.priority.into(),
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

fn histogram() -> Histogram<u64> {
    #[expect(clippy::expect_used)]
    let histogram =
        Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("1 < LONGEST_NS and 3 <= 5 digits");
    histogram
}

/// The histogram in doubling steps from 1 µs up, from the first filled bucket to the last.
fn doubling_buckets(histogram: &Histogram<u64>) -> Vec<HistogramBucket> {
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

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;
