//! The real-time settings of a thread, and its sleep.

use rtwire_sys::clock::{self, Clock};
use rtwire_sys::sched;

use crate::error::SessionError;

/// Returns the time of CLOCK_TAI in ns.
pub(crate) fn now_ns() -> u64 {
    clock::now_ns(Clock::Tai)
}

/// Sleeps until an instant of CLOCK_TAI.
pub(crate) fn sleep_until(instant_ns: u64) -> Result<(), SessionError> {
    while now_ns() < instant_ns {
        clock::sleep_until(Clock::Tai, instant_ns)
            .map_err(|errno| SessionError::Work(format!("cannot sleep: {}", errno.text())))?;
    }
    Ok(())
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
