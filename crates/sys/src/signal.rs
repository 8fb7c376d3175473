//! Ctrl-C, and the wish for a report, as flags that loops can look at.

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
        install(signal, set_stop)?;
    }
    Ok(&STOP)
}

static REPORT: AtomicBool = AtomicBool::new(false);

extern "C" fn set_report(_signal: libc::c_int) {
    // As above.
    REPORT.store(true, Ordering::Relaxed);
}

/// From now on SIGUSR1 sets the flag that is returned: the wish for a report while the work goes on. Whoever reports
/// clears it. Blocking calls of the thread that takes the signal end with `EINTR`.
///
/// # Errors
/// The kernel refuses the handler (never on Linux with this signal).
pub fn install_report_flag() -> Result<&'static AtomicBool> {
    install(libc::SIGUSR1, set_report)?;
    Ok(&REPORT)
}

fn install(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) -> Result<()> {
    // SAFETY: sigaction is plain data; all zeroes means no flags and an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as libc::sighandler_t;
    // SAFETY: `action` is valid for the whole call. Its handler is one of this file's: async-signal-safe, and living for
    // ever.
    if unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } != 0 {
        return Err(Error::last("sigaction", format!("signal {signal}"), None));
    }
    Ok(())
}

/// The flag itself, whether or not a handler is installed.
#[must_use]
pub fn stop_flag() -> &'static AtomicBool {
    &STOP
}
