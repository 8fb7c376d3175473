//! Locked memory: a page fault in a real-time loop costs more than the loop.

use crate::error::{Error, Result};

/// Locks all memory of this process, present and future, so that it is never paged out.
///
/// # Errors
/// CAP_IPC_LOCK is missing, and `RLIMIT_MEMLOCK` is too small.
pub fn lock_all() -> Result<()> {
    // SAFETY: the argument is a number.
    if unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } != 0 {
        return Err(Error::last(
            "mlockall",
            "this process",
            Some("CAP_IPC_LOCK"),
        ));
    }
    Ok(())
}

/// Locks the memory that this process uses: each page from its first touch on.
///
/// Pages that are never used, such as most of a large program, take no memory. The first touch of a page costs a
/// fault, so use all that a loop needs before it begins.
///
/// # Errors
/// As for [`lock_all`].
pub fn lock_used() -> Result<()> {
    let flags = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
    // SAFETY: the argument is a number.
    if unsafe { libc::mlockall(flags) } != 0 {
        return Err(Error::last(
            "mlockall",
            "this process",
            Some("CAP_IPC_LOCK"),
        ));
    }
    Ok(())
}

/// Touches 64 KiB of the calling thread's stack, so that later calls of ordinary depth find it mapped.
pub fn touch_stack() {
    let mut room = [0_u8; 64 * 1024];
    for page in room.iter_mut().step_by(4096) {
        *page = 1;
    }
    std::hint::black_box(&mut room);
}
