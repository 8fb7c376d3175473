//! The wait for an instant of CLOCK_TAI: asleep until shortly before it, spinning from there on.
//!
//! Sleeps and bounds are by CLOCK_MONOTONIC, which nobody can set: the kernel prolongs a sleep on CLOCK_TAI by what that is set
//! back by, and a spin would last as long.

use rtwire_link::LinkError;
use rtwire_sys::clock::{self, Clock};
use std::sync::atomic::{AtomicBool, Ordering};

/// The longest sleep without a look at the stop flag, ns.
const SLICE_NS: u64 = 100_000_000;
/// The time of CLOCK_MONOTONIC in ns that a wait may last too long, before the clock counts as set back.
const OVERDUE_NS: u64 = 1_000_000;
/// The number of readings of CLOCK_TAI between two looks at the stop flag and CLOCK_MONOTONIC.
const SPINS: u32 = 1_024;

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Waited {
    /// The instant has come.
    Reached,
    /// The stop flag was set meanwhile.
    Stopped,
    /// CLOCK_TAI was set back meanwhile: the instant is farther away than it was.
    SetBack,
}

/// Returns the time of CLOCK_TAI, ns.
pub(crate) fn now_ns() -> u64 {
    clock::now_ns(Clock::Tai)
}

/// Returns the time of CLOCK_MONOTONIC, ns.
pub(crate) fn monotonic_ns() -> u64 {
    clock::now_ns(Clock::Monotonic)
}

/// Waits until `instant_ns`, of which the last `spin_ns` are spun.
pub(crate) fn until(instant_ns: u64, spin_ns: u64, stop: &AtomicBool) -> Result<Waited, LinkError> {
    until_by(now_ns, instant_ns, spin_ns, stop)
}

fn until_by(
    tai_ns: impl Fn() -> u64,
    instant_ns: u64,
    spin_ns: u64,
    stop: &AtomicBool,
) -> Result<Waited, LinkError> {
    let left_ns = || instant_ns.saturating_sub(tai_ns());
    let whole = left_ns();
    // A clock that is steered runs at most a thousandth slower.
    let overdue = monotonic_ns()
        .saturating_add(whole)
        .saturating_add(whole / 1_000 + OVERDUE_NS);
    loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(Waited::Stopped);
        }
        // CLOCK_TAI is read last: a thread that stood still in between must not see an old time left.
        let now = monotonic_ns();
        let left = left_ns();
        if left > 0 && now > overdue {
            return Ok(Waited::SetBack);
        }
        if left <= spin_ns {
            break;
        }
        let most = (overdue.saturating_sub(now) + 1).min(SLICE_NS);
        let wake = now.saturating_add((left - spin_ns).min(most));
        clock::sleep_until(Clock::Monotonic, wake).map_err(LinkError::Clock)?;
    }
    loop {
        for _ in 0..SPINS {
            if tai_ns() >= instant_ns {
                return Ok(Waited::Reached);
            }
            std::hint::spin_loop();
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(Waited::Stopped);
        }
        if monotonic_ns() > overdue && left_ns() > 0 {
            return Ok(Waited::SetBack);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

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
    }

    #[test]
    fn a_wait_ends_with_the_stop_flag() {
        let stop = AtomicBool::new(true);
        let instant = now_ns() + HOUR;
        assert_eq!(until(instant, 0, &stop).unwrap(), Waited::Stopped);
        // In the spin, too: the flag is set after the sleep.
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(5));
                stop.store(true, Ordering::Relaxed);
            });
            assert_eq!(until(instant, 2 * HOUR, &stop).unwrap(), Waited::Stopped);
        });
    }

    /// An hour back at the given reading of the clock: in the sleep, and in the spin.
    #[test]
    fn a_clock_that_is_set_back_ends_a_wait() {
        let stop = AtomicBool::new(false);
        for (spin_ns, reading) in [(0, 2), (10 * MS, 10)] {
            let begun = monotonic_ns();
            let readings = Cell::new(0);
            let tai_ns = || {
                readings.set(readings.get() + 1);
                let back = if readings.get() > reading { HOUR } else { 0 };
                monotonic_ns() + 2 * HOUR - back
            };
            let instant = begun + 2 * HOUR + 3 * MS;
            let waited = until_by(tai_ns, instant, spin_ns, &stop).unwrap();
            assert_eq!(waited, Waited::SetBack, "reading {reading}");
            assert!(monotonic_ns() - begun < 10_000 * MS);
        }
    }
}
