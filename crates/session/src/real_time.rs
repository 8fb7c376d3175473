//! The real-time settings of a thread, and its sleep.

use rtwire_measure::clock_steps::ClockReading;
use rtwire_sys::clock::{self, Clock};
use rtwire_sys::sched;

use crate::error::SessionError;

/// The way in which a wait for an instant of CLOCK_TAI ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Waited {
    /// The instant has come.
    Reached,
    /// The clock was set back meanwhile: the instant is far away again. A thread that went on waiting would hang for as long as
    /// the clock was set back by.
    SetBack,
}

/// Returns the time of CLOCK_TAI in ns.
pub(crate) fn now_ns() -> u64 {
    clock::now_ns(Clock::Tai)
}

/// Sleeps until an instant of CLOCK_TAI, or until the clock is seen to have been set back.
///
/// It sleeps by CLOCK_MONOTONIC, which nobody can set: the kernel prolongs a sleep on CLOCK_TAI by what that is set back by.
pub(crate) fn sleep_until(instant_ns: u64) -> Result<Waited, SessionError> {
    let mut before = ClockReading::now();
    while now_ns() < instant_ns {
        clock::sleep_until(Clock::Monotonic, before.monotonic_at(instant_ns))
            .map_err(|errno| SessionError::Work(format!("cannot sleep: {}", errno.text())))?;
        let after = ClockReading::now();
        if after.step_since(&before).is_some_and(|by_ns| by_ns < 0) {
            return Ok(Waited::SetBack);
        }
        // Steered a little, woken by a signal, or set forward: the rest by a new reading.
        before = after;
    }
    Ok(Waited::Reached)
}

/// Puts the calling thread under SCHED_FIFO at `priority`, and checks that it has it.
pub(crate) fn become_real_time(priority: u8) -> Result<(), SessionError> {
    let got = sched::set_fifo(priority)?;
    if got.policy == sched::Policy::Fifo && got.priority == priority {
        return Ok(());
    }
    Err(SessionError::Work(format!(
        "asked for SCHED_FIFO {priority}, got {got:?}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_ends_at_its_instant() {
        let due_ns = now_ns() + 3_000_000;
        assert_eq!(sleep_until(due_ns).unwrap(), Waited::Reached);
        assert!(now_ns() >= due_ns);
        assert_eq!(sleep_until(due_ns).unwrap(), Waited::Reached, "passed");
    }
}
