//! Memory shared with the kernel or with other programs, as 64-bit words.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// The first words of a descriptor, mapped and shared with everyone who maps the same. Unmapped when dropped.
pub(crate) struct MappedWords {
    first: NonNull<AtomicU64>,
    count: usize,
    /// Held so that the memory stays what it is: a file, or a map of the kernel.
    descriptor: OwnedFd,
}

// SAFETY: the memory is only ever touched through atomics, or where the caller of an unsafe function promises that no
// one writes.
unsafe impl Send for MappedWords {}
// SAFETY: as above; `&AtomicU64` may be used from any thread.
unsafe impl Sync for MappedWords {}

impl MappedWords {
    /// Maps the first `count` words of a descriptor that has at least as many.
    pub(crate) fn map(descriptor: OwnedFd, count: usize) -> io::Result<Self> {
        let length = count
            .checked_mul(size_of::<u64>())
            .filter(|length| *length > 0)
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: a fresh shared mapping of a descriptor that we own; the kernel checks its kind and length.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                descriptor.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let first = NonNull::new(address.cast::<AtomicU64>())
            .ok_or_else(|| io::Error::other("mmap returned a null address"))?;
        Ok(Self {
            first,
            count,
            descriptor,
        })
    }

    /// The descriptor.
    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.descriptor
    }

    /// The words. No system call.
    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: `count` words from `first` on were mapped by `map`, page-aligned, and stay so as long as `self`;
        // atomics may be shared with other writers.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }
}

impl Drop for MappedWords {
    fn drop(&mut self) {
        // SAFETY: the very range that `map` mapped; no reference into it outlives `self`.
        unsafe { libc::munmap(self.first.as_ptr().cast(), self.count * size_of::<u64>()) };
    }
}
