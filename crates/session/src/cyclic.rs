//! The sending end of a planned stream that sends one value in each interval.

use std::sync::atomic::{AtomicBool, Ordering};

use rtwire_channel::TalkerStatistics;

use crate::channels;
use crate::error::SessionError;
use crate::margin::SpinMargin;
use crate::pace::{Grid, Pace, Turn};
use crate::real_time::now_ns;
use crate::talker::{FINEST_TICK_NS, Sent, StreamTalker, fits, sent};
use crate::task::{Pattern, TalkerTask};
use crate::waiting::{Slept, Waiting};

/// The time for handing a frame over to a launch queue, beyond the queue's delta and the declared tick error.
const HAND_OVER_NS: u64 = 200_000;
/// The least time in ns from opening to the first instant: kernel timestamping starts some time after it is requested.
const SETTLE_NS: u64 = 1_000_000;

/// One cycle to send in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TalkerCycle {
    /// The instant that its value is due at, ns of CLOCK_TAI.
    pub due_tai_ns: u64,
    /// The lateness of the thread, ns.
    pub late_ns: u64,
    /// Cycles since opening in which nothing was sent: they had passed, or a frame would have broken the contract.
    pub skipped: u64,
}

/// The talker of a cyclic stream, from [`StreamTalker::cyclic`].
///
/// Each value is due at `base + n·T`. A late one never moves the next ([`crate::pace`]).
#[derive(Debug)]
pub struct CyclicTalker {
    stream: StreamTalker,
    pace: Pace,
    /// The time in ns from waking to the launch time. A queue that keeps launch times needs it; 0 without one.
    lead_ns: u64,
    waiting: Waiting,
    launch_tai_ns: u64,
    /// The buffer for the value in the closure form.
    value: Vec<u8>,
}

/// Returns the instants of a talker from `start_ns` on, and the lead in ns with which its thread wakes before each.
pub(crate) fn pace(task: &TalkerTask, launch_delta_ns: Option<u64>, start_ns: u64) -> (Pace, u64) {
    let interval_ns = match task.pattern {
        Pattern::Cyclic { interval_ns } => interval_ns.max(1),
        _ => 1,
    };
    let lead_ns = launch_delta_ns.map_or(0, |delta| delta + task.tick_error_ns + HAND_OVER_NS);
    let base_ns = match task.launch {
        Some((offset_ns, period_ns @ 1..)) => offset_ns % period_ns,
        // Whole multiples: the same phase on every host, unless the task has its own.
        _ => task.phase_ns % interval_ns,
    };
    let grid = Grid {
        // One period earlier where the offset is smaller than the lead.
        base_ns: base_ns + interval_ns * lead_ns.div_ceil(interval_ns) - lead_ns,
        interval_ns,
    };
    // The queue keeps launch times, and the gates keep windows: no contract between two frames is at risk.
    let shaper = (task.launch.is_none() && lead_ns == 0)
        .then(|| channels::shaper(task, grid.base_ns, FINEST_TICK_NS));
    let pace = Pace::new(grid, start_ns, task.tick_error_ns, shaper, task.wire_bits);
    (pace, lead_ns)
}

/// Returns true where the kernel's timestamps at the transmit queue show when a talker's frames leave: it sends in cycles,
/// and no queue holds frames until their launch times.
pub(crate) fn on_the_grid(task: &TalkerTask) -> bool {
    let cyclic = matches!(task.pattern, Pattern::Cyclic { .. });
    cyclic && !task.path.goes_past_the_queue() && !task.path.has_launch_times()
}

impl CyclicTalker {
    pub(crate) fn new(stream: StreamTalker) -> Result<Self, SessionError> {
        let Pattern::Cyclic { .. } = stream.task.pattern else {
            return Err(SessionError::NotCyclic(stream.task.name.clone()));
        };
        let delta_ns = stream.talker.launch_queue().map(|queue| queue.delta_ns);
        let start_ns = now_ns() + SETTLE_NS;
        let (pace, lead_ns) = pace(&stream.task, delta_ns, start_ns);
        let waiting = Waiting::new(stream.task.spin_margin);
        Ok(Self {
            value: vec![0; stream.maximum_data()],
            stream,
            pace,
            lead_ns,
            waiting,
            launch_tai_ns: 0,
        })
    }

    /// Wakes always `spin_ns` before each instant and spins until then, instead of the margin that the talker measures.
    /// With 0 it does not spin.
    #[must_use]
    pub fn spinning(mut self, spin_ns: u64) -> Self {
        self.waiting = Waiting::new(SpinMargin::Fixed { ns: spin_ns });
        self
    }

    /// The time in ns before its instant at which the thread now wakes, to spin from there on.
    #[must_use]
    pub fn margin_ns(&self) -> u64 {
        self.waiting.margin_ns()
    }

    /// The time in ns that the thread has spun so far.
    #[must_use]
    pub fn spun_ns(&self) -> u64 {
        self.waiting.spun_ns()
    }

    /// The stream's name.
    #[must_use]
    pub fn stream(&self) -> &str {
        self.stream.stream()
    }

    /// The largest value, in bytes of user data.
    #[must_use]
    pub fn maximum_data(&self) -> usize {
        self.stream.maximum_data()
    }

    /// Waits for the next cycle to send in: asleep until the margin before its instant, spinning from there on. One system
    /// call; fit for a real-time loop.
    ///
    /// Compute little between this call and [`Self::send`]: it delays the frame. A value that may be older is better computed
    /// at the end of the previous cycle.
    ///
    /// If the clock is set back meanwhile, the next cycle is the first of the grid by its new time.
    ///
    /// Let the calling thread run on one core only (`taskset`, `sched_setaffinity`). Else more urgent threads can make the
    /// kernel move it to a core that is asleep, and the frame waits until that core is awake.
    ///
    /// # Errors
    /// The kernel refuses to sleep.
    pub fn wait(&mut self) -> Result<TalkerCycle, SessionError> {
        loop {
            let due_ns = self.pace.due_ns();
            let slept = self.waiting.sleep(due_ns)?;
            let reached = (slept != Slept::SetBack).then(|| self.waiting.spin(due_ns));
            let Some(now) = reached.flatten() else {
                self.pace.clock_was_set_back(now_ns());
                continue;
            };
            if let Turn::Send { due_ns, late_ns } = self.pace.turn(now) {
                self.launch_tai_ns = due_ns + self.lead_ns;
                return Ok(TalkerCycle {
                    due_tai_ns: self.launch_tai_ns,
                    late_ns,
                    skipped: self.pace.skipped(),
                });
            }
        }
    }

    /// Sends the value of the cycle that [`Self::wait`] returned. One system call, no allocation.
    ///
    /// # Errors
    /// The value is longer than the contract's; the interface is gone or down; the agent that has opened the stream has ended.
    pub fn send(&mut self, value: &[u8]) -> Result<Sent, SessionError> {
        self.stream.check()?;
        let StreamTalker { task, talker, .. } = &mut self.stream;
        fits(task, task.payload_bytes.min(talker.maximum_data()), value)?;
        let result = match self.lead_ns {
            0 => talker.send(value),
            _ => talker.send_at(value, self.launch_tai_ns),
        };
        self.pace.sent(now_ns());
        sent(task, result)
    }

    /// Sends in every cycle the value that `fill` writes, until `stop` is set.
    ///
    /// `fill` receives the cycle and a buffer for a whole value. It returns the length that it wrote, in bytes; with
    /// `None` nothing is sent in this cycle.
    ///
    /// # Errors
    /// As [`Self::wait`] and [`Self::send`].
    pub fn run(
        &mut self,
        stop: &AtomicBool,
        mut fill: impl FnMut(TalkerCycle, &mut [u8]) -> Option<usize>,
    ) -> Result<(), SessionError> {
        let mut value = std::mem::take(&mut self.value);
        let mut outcome = Ok(());
        while !stop.load(Ordering::Relaxed) && outcome.is_ok() {
            outcome = self.wait().and_then(|cycle| match fill(cycle, &mut value) {
                Some(length) => self.send(&value[..length.min(value.len())]).map(|_| ()),
                None => Ok(()),
            });
        }
        self.value = value;
        outcome
    }

    /// Returns the channel's counters so far. No system call.
    #[must_use]
    pub fn statistics(&self) -> TalkerStatistics {
        self.stream.statistics()
    }

    /// The cycles so far in which nothing was sent: they had passed, or a frame would have broken the contract.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.pace.skipped()
    }
}
