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

/// Unmaps the pages of this program's code and constants that were used so far.
///
/// A program that has read its command line and its files does not need the code that did so again. Linux maps 64 KiB around each place of first
/// use, so of a long program megabytes stay. Pages that are used again come back from the page cache, each with a fault of a few µs:
/// call it before a real-time loop begins, and before others run. Shared libraries keep theirs. Breakpoints that a debugger has put into the program
/// before are lost.
pub fn unmap_used_code() {
    // SAFETY: `program_pages` has the signature that is asked for, keeps no reference, and needs no data.
    unsafe { libc::dl_iterate_phdr(Some(program_pages), std::ptr::null_mut()) };
}

/// Unmaps the pages of the first object, which is the program itself, and ends the iteration.
extern "C" fn program_pages(
    object: *mut libc::dl_phdr_info,
    _size: usize,
    _data: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: the loader hands over an object that is valid during this call.
    let object = unsafe { &*object };
    // SAFETY: `dlpi_phdr` points to `dlpi_phnum` headers, which stay mapped with the object.
    let headers =
        unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
    for header in headers {
        // A written segment has pages of its own, which could not come back.
        if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_W != 0 {
            continue;
        }
        let begin = object.dlpi_addr as usize + header.p_vaddr as usize;
        let first = begin & !PAGE_MASK;
        // The last page may be shared with the next segment.
        let end = (begin + header.p_memsz as usize) & !PAGE_MASK;
        let length = end.saturating_sub(first);
        // SAFETY: the pages are mapped from the program's file and were never written, so they come back unchanged. Where the kernel refuses, for instance
        // because they are locked, nothing is changed.
        unsafe { libc::madvise(first as *mut libc::c_void, length, libc::MADV_DONTNEED) };
    }
    1
}

/// The bits of an address within the smallest page.
const PAGE_MASK: usize = 4095;

/// Touches 64 KiB of the calling thread's stack, so that later calls of ordinary depth find it mapped.
pub fn touch_stack() {
    let mut room = [0_u8; 64 * 1024];
    for page in room.iter_mut().step_by(4096) {
        *page = 1;
    }
    std::hint::black_box(&mut room);
}

#[cfg(test)]
mod tests {
    use super::unmap_used_code;

    /// Returns the kB of this process's files that are mapped.
    fn file_kb() -> u64 {
        let text = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = text.lines().find(|line| line.starts_with("RssFile:"));
        let word = line.and_then(|line| line.split_whitespace().nth(1));
        word.unwrap().parse().unwrap()
    }

    /// Code that has run is mapped, is unmapped, and runs again with its constants and variables as before.
    #[test]
    fn code_is_unmapped_and_comes_again() {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(7);
        COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let before = file_kb();
        unmap_used_code();
        let after = file_kb();
        assert!(after < before, "{before} kB, then {after}");
        assert_eq!(
            format!("{:?}", std::hint::black_box([1.5, 2.5])),
            "[1.5, 2.5]"
        );
        assert_eq!(COUNT.load(std::sync::atomic::Ordering::Relaxed), 8);
    }
}
