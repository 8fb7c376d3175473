//! The recording threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use rtwire_sys::clock::{Clock, now_ns};
use rtwire_sys::sched::{self, Policy, Scheduling};

use super::NoiseRecord;
use super::per_core::CoreRecord;
use super::steal::{self, Stolen};

/// The options of a noise record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoiseOptions {
    /// The cores to record on; empty for all that this process may run on.
    pub cores: Vec<u32>,
    /// `SCHED_FIFO` priority, 1 to 99. Default 90: above the workers at 80.
    pub priority: u8,
    /// Continues with ordinary scheduling if `SCHED_FIFO` is not permitted, and says so in the record.
    pub allow_fallback: bool,
    /// Wake-up period of each thread, ns; 20 µs to 1 s. Default 250 µs.
    pub period_ns: u64,
    /// Overshoot from which a wake-up counts as a stall, ns. Default 200 µs.
    pub stall_threshold_ns: u64,
    /// Largest number of stalls kept for each core; further ones are only counted. Default 16 384.
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

impl NoiseOptions {
    /// Returns the options for an emulated network. Its ports need the processor too, so shorter stalls must be seen.
    #[must_use]
    pub fn beside_a_lab() -> Self {
        Self {
            period_ns: 125_000,
            stall_threshold_ns: 100_000,
            max_stalls: 1 << 17,
            ..Self::default()
        }
    }

    /// Returns the options for a host that sends and listens. On some machines short stalls follow one another, so that several
    /// of 200 µs delay one cycle. The period is not shorter than the default's: each wake-up takes time from the senders.
    #[must_use]
    pub fn beside_a_run() -> Self {
        Self {
            stall_threshold_ns: 100_000,
            max_stalls: 1 << 16,
            ..Self::default()
        }
    }

    /// Returns the options for use during a benchmark. The period is long enough not to disturb the measured values.
    /// It is short enough to see every stall of a scheduler tick or more.
    #[must_use]
    pub fn beside_a_benchmark() -> Self {
        Self {
            period_ns: 2_000_000,
            stall_threshold_ns: 500_000,
            ..Self::default()
        }
    }
}

/// An error of the noise recorder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoiseError {
    /// An option is out of its range.
    #[error("noise record: {what} is {found}, expected {expected}")]
    Option {
        /// The option's name.
        what: &'static str,
        /// Its value.
        found: u64,
        /// Its permitted values.
        expected: &'static str,
    },
    /// A core's thread could not be set up. If a capability is missing (`CAP_SYS_NICE`), the source names it.
    #[error("noise record on core {core}: {source}")]
    Core {
        /// The core.
        core: u32,
        /// The failed system call.
        source: rtwire_sys::Error,
    },
    /// The list of this process's cores cannot be read.
    #[error("noise record: {0}")]
    Cores(rtwire_sys::Error),
    /// The system refuses another thread.
    #[error("noise record: cannot start a thread: {0}; raise the limit of processes (ulimit -u)")]
    Thread(std::io::Error),
    /// A recording thread ended early. This is a bug in rtwire.
    #[error("noise record: a recording thread ended early; please report this")]
    Lost,
}

/// Records the host's noise until it is stopped, with one thread on each core.
///
/// Needs `CAP_SYS_NICE`. Starting and stopping allocate and wait; the recording does neither. If the recorder is
/// dropped without [`NoiseRecorder::stop`], the threads end and the record is lost.
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
    /// The stalled time of each core so far, ns.
    stalled_ns: Vec<Arc<AtomicU64>>,
    options: NoiseOptions,
    from_ns: u64,
}

impl NoiseRecorder {
    /// Starts one thread on each core and waits until all of them run with the requested priority.
    ///
    /// # Errors
    /// [`NoiseError`] if an option is out of range, this process may not use a core, or a thread cannot be started.
    /// Also if `SCHED_FIFO` is not permitted (`CAP_SYS_NICE`) and no fallback is allowed.
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
        // From here on an early return drops the recorder, which ends the running threads.
        let mut recorder = Self {
            stop,
            cores: Vec::new(),
            steal: None,
            stalled_ns: Vec::new(),
            options,
            from_ns: now_ns(Clock::Tai),
        };
        let (ready, set_up) = mpsc::channel();
        let grid_ns = now_ns(Clock::Monotonic);
        for &core in &recorder.options.cores {
            let (stop, ready, options) = (
                Arc::clone(&recorder.stop),
                ready.clone(),
                recorder.options.clone(),
            );
            let stalled_ns = Arc::new(AtomicU64::new(0));
            recorder.stalled_ns.push(Arc::clone(&stalled_ns));
            let thread = thread::Builder::new()
                .name(format!("rtw-noise/{core}"))
                .spawn(move || record_core((core, &stalled_ns), &options, grid_ns, &stop, &ready))
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

    /// Returns the stalled time so far of the core that stalled for the longest, ns.
    #[must_use]
    pub fn stalled_ns(&self) -> u64 {
        let cores = self.stalled_ns.iter();
        cores
            .map(|ns| ns.load(Ordering::Relaxed))
            .max()
            .unwrap_or(0)
    }

    /// Stops the threads and returns the record. Takes up to one period.
    ///
    /// # Errors
    /// [`NoiseError::Lost`] if a thread ended early.
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
            // A panicked thread has printed its message already.
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

fn record_core(
    (core, stalled_ns): (u32, &AtomicU64),
    options: &NoiseOptions,
    grid_ns: u64,
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
    // The receiver is gone only if another core failed; then `stop` will be set.
    let _ = ready.send(outcome);
    if runs {
        record.run(options, grid_ns, stop, stalled_ns);
    }
    record
}

/// Pins the calling thread and makes it a real-time one. Returns the scheduling in force, read back.
fn set_up(core: u32, options: &NoiseOptions) -> rtwire_sys::Result<(Scheduling, Option<String>)> {
    sched::set_cpu(core as usize)?;
    match sched::set_fifo(options.priority) {
        Ok(scheduling) => Ok((scheduling, None)),
        Err(error) if options.allow_fallback => Ok((sched::current()?, Some(error.to_string()))),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;
