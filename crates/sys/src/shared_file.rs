//! A file in memory that several programs share, as 64-bit words.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// The first words of a file, mapped and shared with every program that maps the same file.
///
/// Touch it before a real-time loop: the first access to a page costs a fault.
pub struct SharedFile {
    words: NonNull<AtomicU64>,
    count: usize,
    /// Held so that the file cannot be replaced by another with the same descriptor.
    _file: File,
}

impl std::fmt::Debug for SharedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedFile({} words)", self.count)
    }
}

// SAFETY: the memory is only ever touched through atomics.
unsafe impl Send for SharedFile {}
// SAFETY: as above; `&AtomicU64` may be used from any thread.
unsafe impl Sync for SharedFile {}

impl SharedFile {
    /// Maps the first `count` words of a file, which is made as long where it is shorter.
    ///
    /// Another program that cuts the file short makes the next access end this process (SIGBUS): map only files of
    /// programs that you trust.
    ///
    /// # Errors
    /// The file cannot be made long enough or mapped; `count` is 0.
    pub fn map(file: File, count: usize) -> io::Result<Self> {
        let length = count
            .checked_mul(size_of::<u64>())
            .filter(|length| *length > 0)
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        if file.metadata()?.len() < length as u64 {
            file.set_len(length as u64)?;
        }
        // SAFETY: a fresh shared mapping of a descriptor we own, of a length that the file has.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let words = NonNull::new(address.cast::<AtomicU64>())
            .ok_or_else(|| io::Error::other("mmap returned a null address"))?;
        Ok(Self {
            words,
            count,
            _file: file,
        })
    }

    /// The words. No system call; fit for a real-time loop.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: `count` words from `words` on were mapped by `map`, page-aligned, and stay so as long as `self`;
        // atomics may be shared with other writers.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.count) }
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        // SAFETY: the very range that `map` mapped; no reference into it outlives `self`.
        unsafe { libc::munmap(self.words.as_ptr().cast(), self.count * size_of::<u64>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn two_mappings_of_one_file_are_one_memory() {
        let path = std::env::temp_dir().join(format!("rtwire-shared-{}", std::process::id()));
        let open = || {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(false);
            options.open(&path).unwrap()
        };
        let (one, two) = (
            SharedFile::map(open(), 16).unwrap(),
            SharedFile::map(open(), 16).unwrap(),
        );
        one.words()[15].store(7, Ordering::Release);
        assert_eq!(two.words()[15].load(Ordering::Acquire), 7);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 128);
        assert!(SharedFile::map(open(), 0).is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
