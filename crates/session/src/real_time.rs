//! The real-time settings of a thread, and its sleep.

use rtwire_sys::sched;
use rtwire_sys::wait;
pub(crate) use rtwire_sys::wait::{Waited, now_ns};

use crate::error::SessionError;

/// Sleeps until an instant of CLOCK_TAI, or until the clock is seen to have been set back.
pub(crate) fn sleep_until(instant_ns: u64) -> Result<Waited, SessionError> {
    wait::sleep_until(instant_ns, None)
        .map_err(|errno| SessionError::Work(format!("cannot sleep: {}", errno.text())))
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
