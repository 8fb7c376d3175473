//! Ctrl-C as a flag that loops can look at.

use crate::error::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn set_stop(_signal: libc::c_int) {
    // A store to an atomic is all that is safe to do here, and all that is needed.
    STOP.store(true, Ordering::Relaxed);
}

/// From now on SIGINT and SIGTERM set the flag that is returned, in place of ending the process. Blocking calls of the
/// thread that takes the signal end with `EINTR`.
///
/// # Errors
/// The kernel refuses the handler (never on Linux with these signals).
pub fn install_stop_flag() -> Result<&'static AtomicBool> {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: sigaction is plain data; all zeroes means no flags and an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = set_stop as *const () as libc::sighandler_t;
        // SAFETY: `action` is valid for the whole call, its handler is async-signal-safe and lives for ever.
        if unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } != 0 {
            return Err(Error::last("sigaction", format!("signal {signal}"), None));
        }
    }
    Ok(&STOP)
}

/// The flag itself, whether or not a handler is installed.
#[must_use]
pub fn stop_flag() -> &'static AtomicBool {
    &STOP
}
