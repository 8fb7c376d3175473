//! The wait for an instant of CLOCK_TAI: asleep until shortly before it, spinning from there on.
//!
//! Sleeps and bounds are by CLOCK_MONOTONIC, which nobody can set: the kernel prolongs a sleep on CLOCK_TAI by what that is set
//! back by, and a spin would last as long.

use crate::clock::{self, Clock};
use crate::error::Errno;
use std::sync::atomic::{AtomicBool, Ordering};

/// The longest sleep without a look at the stop flag, ns.
const SLICE_NS: u64 = 100_000_000;
/// The time of CLOCK_MONOTONIC in ns that a spin may last too long, before the clock counts as set back.
const OVERDUE_NS: u64 = 1_000_000;
/// The number of readings of CLOCK_TAI between two looks at the stop flag and CLOCK_MONOTONIC.
const SPINS: u32 = 1_024;
/// The change in ns that is never a step: what a reading of two clocks may be wrong by.
const UNSEEN_NS: u64 = 20_000;
/// The divisor of the elapsed time by which steering may change the clock: 1000 ppm, twice what the kernel allows. A clock that
/// is slewed faster is as useless as one that is set.
const STEERED: u64 = 1_000;

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Waited {
    /// The instant has come.
    Reached,
    /// The stop flag was set meanwhile.
    Stopped,
    /// CLOCK_TAI was set back meanwhile: the instant is farther away than it was.
    SetBack,
}

/// One reading of CLOCK_TAI and of CLOCK_MONOTONIC, which nobody can set.
#[derive(Clone, Copy, Debug)]
pub struct ClockReading {
    /// The time of CLOCK_MONOTONIC, ns.
    pub monotonic_ns: u64,
    /// CLOCK_TAI minus CLOCK_MONOTONIC, ns.
    pub difference_ns: i64,
    /// The uncertainty of the difference, ns.
    pub uncertainty_ns: u64,
}

impl ClockReading {
    /// Reads both. Some 100 ns, no system call, no allocation.
    #[must_use]
    pub fn now() -> Self {
        let (difference_ns, uncertainty_ns) = clock::tai_minus_monotonic_ns();
        Self {
            monotonic_ns: monotonic_ns(),
            difference_ns,
            uncertainty_ns,
        }
    }

    /// Returns the time of CLOCK_TAI, ns.
    #[must_use]
    pub fn tai_ns(&self) -> u64 {
        self.monotonic_ns.saturating_add_signed(self.difference_ns)
    }

    /// Returns the time of CLOCK_MONOTONIC at which CLOCK_TAI shows `tai_ns`, if nobody sets or steers it until then.
    #[must_use]
    pub fn monotonic_at(&self, tai_ns: u64) -> u64 {
        tai_ns.saturating_add_signed(self.difference_ns.saturating_neg())
    }

    /// Returns the change of CLOCK_TAI since `before` in ns, if steering cannot have made it: below 0 if it was set back.
    #[must_use]
    pub fn step_since(&self, before: &Self) -> Option<i64> {
        let by_ns = self.difference_ns.saturating_sub(before.difference_ns);
        let elapsed_ns = self.monotonic_ns.saturating_sub(before.monotonic_ns);
        let read_ns = self.uncertainty_ns.saturating_add(before.uncertainty_ns);
        let most_ns = read_ns.saturating_add(UNSEEN_NS + elapsed_ns / STEERED);
        (by_ns.unsigned_abs() > most_ns).then_some(by_ns)
    }
}

/// Returns the time of CLOCK_TAI, ns.
#[must_use]
#[inline]
pub fn now_ns() -> u64 {
    clock::now_ns(Clock::Tai)
}

/// Returns the time of CLOCK_MONOTONIC, ns.
#[must_use]
#[inline]
pub fn monotonic_ns() -> u64 {
    clock::now_ns(Clock::Monotonic)
}

/// Sleeps until an instant of CLOCK_TAI, until the clock is seen to have been set back, or until `stop` is set. The flag is
/// looked at ten times a second; without one a sleep is one system call.
///
/// # Errors
/// The kernel refuses to sleep.
pub fn sleep_until(instant_ns: u64, stop: Option<&AtomicBool>) -> Result<Waited, Errno> {
    sleep_by(ClockReading::now, instant_ns, stop)
}

fn is_set(stop: Option<&AtomicBool>) -> bool {
    stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
}

fn sleep_by(
    reading: impl Fn() -> ClockReading,
    instant_ns: u64,
    stop: Option<&AtomicBool>,
) -> Result<Waited, Errno> {
    let mut before = reading();
    while before.tai_ns() < instant_ns {
        if is_set(stop) {
            return Ok(Waited::Stopped);
        }
        let wake_ns = before.monotonic_at(instant_ns);
        let wake_ns = match stop {
            Some(_) => wake_ns.min(before.monotonic_ns.saturating_add(SLICE_NS)),
            None => wake_ns,
        };
        clock::sleep_until(Clock::Monotonic, wake_ns)?;
        let after = reading();
        if after.step_since(&before).is_some_and(|by_ns| by_ns < 0) {
            return Ok(Waited::SetBack);
        }
        // Steered a little, woken by a signal, or set forward: the rest by a new reading.
        before = after;
    }
    Ok(Waited::Reached)
}

/// Spins until an instant of CLOCK_TAI, which is `left_ns` away. Returns the time then, ns; `Err` if `stop` was set or the
/// clock was set back meanwhile. No system call.
///
/// # Errors
/// [`Waited::Stopped`] or [`Waited::SetBack`].
#[inline]
pub fn spin_until(instant_ns: u64, left_ns: u64, stop: Option<&AtomicBool>) -> Result<u64, Waited> {
    spin_by(now_ns, instant_ns, left_ns, stop)
}

#[inline]
fn spin_by(
    tai_ns: impl Fn() -> u64,
    instant_ns: u64,
    left_ns: u64,
    stop: Option<&AtomicBool>,
) -> Result<u64, Waited> {
    let overdue_ns = monotonic_ns().saturating_add(left_ns.saturating_add(OVERDUE_NS));
    loop {
        for _ in 0..SPINS {
            let now = tai_ns();
            if now >= instant_ns {
                return Ok(now);
            }
            std::hint::spin_loop();
        }
        if is_set(stop) {
            return Err(Waited::Stopped);
        }
        // At real-time priority an hour of spinning would take the core from all others. CLOCK_TAI is read last: a thread that
        // stood still in between must not see an old time left.
        if monotonic_ns() > overdue_ns && tai_ns() < instant_ns {
            return Err(Waited::SetBack);
        }
    }
}

/// Waits until an instant of CLOCK_TAI, of which the last `spin_ns` are spun.
///
/// # Errors
/// The kernel refuses to sleep.
pub fn until(instant_ns: u64, spin_ns: u64, stop: &AtomicBool) -> Result<Waited, Errno> {
    if is_set(Some(stop)) {
        return Ok(Waited::Stopped);
    }
    match sleep_until(instant_ns.saturating_sub(spin_ns), Some(stop))? {
        Waited::Reached => {}
        other => return Ok(other),
    }
    let left_ns = instant_ns.saturating_sub(now_ns());
    Ok(match spin_until(instant_ns, left_ns, Some(stop)) {
        Ok(_) => Waited::Reached,
        Err(other) => other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const MS: u64 = 1_000_000;
    const HOUR: u64 = 3_600_000 * MS;

    #[test]
    fn a_wait_ends_at_its_instant() {
        let stop = AtomicBool::new(false);
        let instant = now_ns() + 3 * MS;
        assert_eq!(until(instant, 100_000, &stop).unwrap(), Waited::Reached);
        assert!(now_ns() >= instant);
        assert_eq!(until(instant, 0, &stop).unwrap(), Waited::Reached, "passed");
        assert_eq!(sleep_until(instant, None).unwrap(), Waited::Reached);
    }

    #[test]
    fn a_wait_ends_with_the_stop_flag() {
        let stop = AtomicBool::new(true);
        let instant = now_ns() + HOUR;
        assert_eq!(until(instant, 0, &stop).unwrap(), Waited::Stopped);
        // In the sleep and in the spin: the flag is set behind their beginning.
        for spin_ns in [0, 2 * HOUR] {
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                    stop.store(true, Ordering::Relaxed);
                });
                assert_eq!(until(instant, spin_ns, &stop).unwrap(), Waited::Stopped);
            });
        }
    }

    /// An hour back at the second reading of the clocks, in the sleep.
    #[test]
    fn a_clock_that_is_set_back_ends_a_sleep() {
        let begun = monotonic_ns();
        let readings = Cell::new(0);
        let reading = || {
            readings.set(readings.get() + 1);
            let back = if readings.get() > 1 { HOUR } else { 0 };
            ClockReading {
                monotonic_ns: monotonic_ns(),
                difference_ns: i64::try_from(2 * HOUR - back).unwrap(),
                uncertainty_ns: 50,
            }
        };
        let instant = begun + 2 * HOUR + 3 * MS;
        assert_eq!(sleep_by(reading, instant, None).unwrap(), Waited::SetBack);
        assert!(monotonic_ns() - begun < 10_000 * MS);
    }

    /// An hour back at some reading of the clock, in the spin.
    #[test]
    fn a_clock_that_is_set_back_ends_a_spin() {
        let begun = monotonic_ns();
        let readings = Cell::new(0);
        let tai_ns = || {
            readings.set(readings.get() + 1);
            let back = if readings.get() > 10 { HOUR } else { 0 };
            monotonic_ns() + 2 * HOUR - back
        };
        let instant = begun + 2 * HOUR + 3 * MS;
        let spun = spin_by(tai_ns, instant, 3 * MS, None);
        assert_eq!(spun, Err(Waited::SetBack));
        assert!(monotonic_ns() - begun < 10_000 * MS);
    }
}
