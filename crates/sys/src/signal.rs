//! Ctrl-C and the request for a report, as flags that loops can read.

use crate::error::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn set_stop(_signal: libc::c_int) {
    // A store to an atomic is safe in a signal handler, and is all that is needed.
    STOP.store(true, Ordering::Relaxed);
}

/// Makes SIGINT and SIGTERM set the returned flag from now on, instead of ending the process.
///
/// Blocking calls of the thread that takes the signal end with `EINTR`.
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

/// Makes SIGUSR1 set the returned flag from now on: the request for a report while the work continues.
///
/// The reporter clears the flag. Blocking calls of the thread that takes the signal end with `EINTR`.
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

/// Returns the flag, with or without an installed handler.
#[must_use]
pub fn stop_flag() -> &'static AtomicBool {
    &STOP
}
