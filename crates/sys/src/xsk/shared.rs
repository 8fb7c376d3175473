//! Memory that an AF_XDP socket shares with the kernel: the frames' places, and rings of numbers.

use crate::error::Errno;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// A ring of the kernel's interface, of which this process is one side.
#[derive(Debug)]
pub(super) struct Ring {
    pub(super) memory: *mut u8,
    pub(super) octets: usize,
    pub(super) producer: *const AtomicU32,
    pub(super) consumer: *const AtomicU32,
    pub(super) flags: *const AtomicU32,
    pub(super) entries: *mut u8,
}

impl Ring {
    pub(super) const NONE: Self = Self {
        memory: std::ptr::null_mut(),
        octets: 0,
        producer: std::ptr::null(),
        consumer: std::ptr::null(),
        flags: std::ptr::null(),
        entries: std::ptr::null_mut(),
    };

    pub(super) fn producer(&self) -> &AtomicU32 {
        // SAFETY: within the mapping, aligned, shared with the kernel and only ever accessed atomically. The ring was
        // mapped, as are all whose socket was opened.
        unsafe { &*self.producer }
    }

    pub(super) fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { &*self.consumer }
    }

    /// Returns true if the kernel asks for a system call to go on with this ring.
    ///
    /// Whoever has moved a position needs a full barrier before this.
    pub(super) fn needs_wakeup(&self) -> bool {
        // SAFETY: as above.
        let flags = unsafe { &*self.flags };
        flags.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if !self.memory.is_null() {
            // SAFETY: the very range that was mapped; nothing borrows from it any more.
            unsafe { libc::munmap(self.memory.cast(), self.octets) };
        }
    }
}

/// Maps memory of the socket, or of this process's own.
pub(super) fn map(
    socket: Option<&OwnedFd>,
    octets: usize,
    offset: u64,
) -> std::result::Result<*mut u8, Errno> {
    let (flags, fd) = match socket {
        Some(socket) => (libc::MAP_SHARED, socket.as_raw_fd()),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
    };
    // SAFETY: a new mapping at an address of the kernel's choice.
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            octets,
            libc::PROT_READ | libc::PROT_WRITE,
            flags | libc::MAP_POPULATE,
            fd,
            offset as libc::off_t,
        )
    };
    if memory == libc::MAP_FAILED {
        Err(Errno::last())
    } else {
        Ok(memory.cast())
    }
}
