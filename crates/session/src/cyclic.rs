//! The sending end of a planned stream that sends one value in each interval.

use std::sync::atomic::{AtomicBool, Ordering};

use rtwire_channel::TalkerStatistics;
use rtwire_sys::clock::{self, Clock};

use crate::channels;
use crate::error::SessionError;
use crate::pace::{Grid, Pace, Turn};
use crate::talker::{FINEST_TICK_NS, Sent, StreamTalker, fits, sent, sleep_until};
use crate::task::{Pattern, TalkerTask};

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
    /// The time in ns that the thread wakes earlier than that, and spins.
    spin_ns: u64,
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
        // Whole multiples: the same phase on every host.
        _ => 0,
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

impl CyclicTalker {
    pub(crate) fn new(stream: StreamTalker) -> Result<Self, SessionError> {
        let Pattern::Cyclic { .. } = stream.task.pattern else {
            return Err(SessionError::NotCyclic(stream.task.name.clone()));
        };
        let delta_ns = stream.talker.launch_queue().map(|queue| queue.delta_ns);
        let start_ns = clock::now_ns(Clock::Tai) + SETTLE_NS;
        let (pace, lead_ns) = pace(&stream.task, delta_ns, start_ns);
        Ok(Self {
            value: vec![0; stream.maximum_data()],
            stream,
            pace,
            lead_ns,
            spin_ns: 0,
            launch_tai_ns: 0,
        })
    }

    /// Wakes `spin_ns` before each instant and spins until then: less lateness, at the cost of that processor time.
    #[must_use]
    pub fn spinning(mut self, spin_ns: u64) -> Self {
        self.spin_ns = spin_ns;
        self
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

    /// Waits for the next cycle to send in. One system call; fit for a real-time loop.
    ///
    /// # Errors
    /// The kernel refuses to sleep.
    pub fn wait(&mut self) -> Result<TalkerCycle, SessionError> {
        loop {
            let due_ns = self.pace.due_ns();
            sleep_until(due_ns.saturating_sub(self.spin_ns))?;
            let mut now_ns = clock::now_ns(Clock::Tai);
            while now_ns < due_ns {
                std::hint::spin_loop();
                now_ns = clock::now_ns(Clock::Tai);
            }
            if let Turn::Send { due_ns, late_ns } = self.pace.turn(now_ns) {
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
    /// The value is longer than the contract's; the interface is gone or down.
    pub fn send(&mut self, value: &[u8]) -> Result<Sent, SessionError> {
        let StreamTalker { task, talker, .. } = &mut self.stream;
        fits(task, task.payload_bytes.min(talker.maximum_data()), value)?;
        let result = match self.lead_ns {
            0 => talker.send(value),
            _ => talker.send_at(value, self.launch_tai_ns),
        };
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
