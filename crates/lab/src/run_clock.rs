//! The time of a run by a clock that nobody can set, and the watch over the clock that the run's times are of.

use std::thread;
use std::time::{Duration, Instant};

use rtwire_measure::clock_steps::{ClockStep, StepWatch};

/// The time between two looks at the clocks.
const LOOK: Duration = Duration::from_millis(5);

/// The time since its creation. It sees when CLOCK_TAI is set meanwhile; from then on every wait ends at once.
pub(crate) struct RunClock {
    begin: Instant,
    watch: StepWatch,
    step: Option<ClockStep>,
}

impl RunClock {
    pub(crate) fn begin() -> Self {
        Self {
            begin: Instant::now(),
            watch: StepWatch::new(),
            step: None,
        }
    }

    /// Returns the time since its creation, ns.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Waits until `elapsed_ns` after its creation; not as long if `stopped` says so, or if the clock was set.
    pub(crate) fn wait(&mut self, elapsed_ns: u64, stopped: &dyn Fn() -> bool) {
        while self.elapsed_ns() < elapsed_ns && !stopped() && self.step.is_none() {
            thread::sleep(LOOK);
            self.step = self.watch.look();
        }
    }

    /// Returns the step of the clock, if it was set.
    pub(crate) fn step(&self) -> Option<ClockStep> {
        self.step
    }
}
