//! Steps of the clock: CLOCK_TAI was set while a measurement ran.
//!
//! All times of a measurement are CLOCK_TAI, and so are the kernel's timestamps. Steering (`adjtimex`) changes the clock's
//! rate by at most 500 ppm, which hurts nobody. A clock that is *set* makes every time before it and every time behind it
//! unequal: delays, orders in time and lateness across the step mean nothing.
//!
//! ```
//! use rtwire_measure::clock_steps::StepWatch;
//! let mut watch = StepWatch::new();
//! // … now and then …
//! if let Some(step) = watch.look() {
//!     println!("{step}");
//! }
//! ```

use std::fmt;

pub use rtwire_sys::wait::ClockReading;

use crate::units::duration;

/// A moment at which the clock was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockStep {
    /// The first time seen after it, ns of CLOCK_TAI.
    pub at_ns: u64,
    /// The change: above 0 if it was set forward, ns.
    pub by_ns: i64,
}

impl ClockStep {
    /// Returns the step as a sentence of a report.
    #[must_use]
    pub fn sentence(&self) -> String {
        let text = self.to_string();
        format!("T{} during the run.", &text[1..])
    }
}

impl fmt::Display for ClockStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.by_ns < 0 { "back" } else { "forward" };
        write!(
            f,
            "the clock was set {way} by {}",
            duration(self.by_ns.unsigned_abs())
        )
    }
}

/// Compares the two clocks again and again.
///
/// The more often it looks, the smaller the steps that it sees: 20 µs, and a thousandth of the time since the last look. A
/// look takes some 100 ns, no system call, and allocates nothing.
#[derive(Debug)]
pub struct StepWatch {
    before: ClockReading,
}

impl StepWatch {
    /// Begins to watch.
    #[must_use]
    pub fn new() -> Self {
        Self {
            before: ClockReading::now(),
        }
    }

    /// Returns the change of the clock since the last look, if it was set.
    pub fn look(&mut self) -> Option<ClockStep> {
        let now = ClockReading::now();
        let by_ns = now.step_since(&self.before);
        self.before = now;
        by_ns.map(|by_ns| ClockStep {
            at_ns: now.tai_ns(),
            by_ns,
        })
    }
}

impl Default for StepWatch {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reading(monotonic_ns: u64, difference_ns: i64, uncertainty_ns: u64) -> ClockReading {
        ClockReading {
            monotonic_ns,
            difference_ns,
            uncertainty_ns,
        }
    }

    #[test]
    fn a_clock_that_nobody_sets_has_no_steps() {
        let mut watch = StepWatch::new();
        for _ in 0..2_000 {
            assert_eq!(watch.look(), None);
        }
    }

    #[test]
    fn a_step_is_told_with_its_direction() {
        let before = reading(1_000_000, 37_000_000_000, 50);
        let after = reading(11_000_000, 36_500_000_000, 50);
        assert_eq!(after.step_since(&before), Some(-500_000_000));
        let step = ClockStep {
            at_ns: 1,
            by_ns: -500_000_000,
        };
        assert_eq!(step.to_string(), "the clock was set back by 500.0 ms");
        let step = ClockStep {
            at_ns: 1,
            by_ns: 37_000_000_000,
        };
        assert_eq!(step.to_string(), "the clock was set forward by 37.00 s");
    }

    proptest! {
        /// The kernel steers by at most 500 ppm, and a reading is wrong by at most its uncertainty.
        #[test]
        fn steering_is_no_step(
            elapsed in 0_u64..3_600_000_000_000,
            ppm in -500_i64..=500,
            wrong in (0_u64..5_000_000, 0_u64..5_000_000),
            sides: (bool, bool),
        ) {
            let steered = i64::try_from(elapsed / 1_000_000).unwrap() * ppm;
            let by = |ns: u64, side: bool| i64::try_from(ns).unwrap() * if side { 1 } else { -1 };
            let before = reading(5, by(wrong.0, sides.0), wrong.0);
            let after = reading(5 + elapsed, steered + by(wrong.1, sides.1), wrong.1);
            prop_assert_eq!(after.step_since(&before), None);
        }

        #[test]
        fn what_steering_cannot_do_is_a_step(elapsed in 0_u64..20_000_000, by in 41_000_i64..1_000_000_000_000, back: bool) {
            let by = if back { -by } else { by };
            let before = reading(5, 1_000, 200);
            let after = reading(5 + elapsed, 1_000 + by, 200);
            prop_assert_eq!(after.step_since(&before), Some(by));
        }
    }
}
