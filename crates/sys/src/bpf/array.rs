//! Arrays of a BPF object, mapped into memory.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// An array of 64-bit words that a BPF program writes and this process reads, without system calls.
pub struct MappedArray {
    words: NonNull<AtomicU64>,
    words_per_value: usize,
    values: usize,
    length: usize,
    fd: OwnedFd,
}

impl std::fmt::Debug for MappedArray {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "MappedArray({} of {} words)",
            self.values, self.words_per_value
        )
    }
}

// SAFETY: the memory is shared with the kernel and only ever touched through atomics.
unsafe impl Send for MappedArray {}
// SAFETY: as above; &AtomicU64 may be used from any thread.
unsafe impl Sync for MappedArray {}

impl MappedArray {
    pub(super) fn new(fd: OwnedFd, words_per_value: usize, values: usize) -> io::Result<Self> {
        // SAFETY: sysconf has no preconditions.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) })
            .map_err(io::Error::other)?;
        let length = (words_per_value * values * size_of::<u64>()).next_multiple_of(page);
        // SAFETY: a fresh shared mapping of a descriptor we own; the kernel checks the length against the map.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
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
            words_per_value,
            values,
            length,
            fd,
        })
    }

    /// Creates an array that is not part of an object. It may become an entry of a [`MapOfMaps`](super::MapOfMaps) of
    /// any length. Needs CAP_BPF.
    ///
    /// # Errors
    /// CAP_BPF is missing, or there is not enough memory.
    pub fn create(name: &str, words_per_value: usize, values: usize) -> io::Result<Self> {
        use libbpf_rs::libbpf_sys;
        let too_large = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let name = CString::new(name)?;
        let octets = u32::try_from(words_per_value * size_of::<u64>()).map_err(too_large)?;
        let entries = u32::try_from(values).map_err(too_large)?;
        // SAFETY: bpf_map_create_opts is plain data, for which all zeroes is a valid value.
        let mut options: libbpf_sys::bpf_map_create_opts = unsafe { std::mem::zeroed() };
        options.sz = size_of_val(&options) as _;
        options.map_flags = libbpf_sys::BPF_F_MMAPABLE | libbpf_sys::BPF_F_INNER_MAP;
        // SAFETY: the name and `options`, with its size, are valid for the whole call.
        let result = unsafe {
            libbpf_sys::bpf_map_create(
                libbpf_sys::BPF_MAP_TYPE_ARRAY,
                name.as_ptr(),
                size_of::<u32>() as u32,
                octets,
                entries,
                &raw const options,
            )
        };
        if result < 0 {
            return Err(io::Error::from_raw_os_error(-result));
        }
        // SAFETY: a new descriptor, nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(result) };
        Self::new(fd, words_per_value, values)
    }

    /// The map's descriptor, for the kernel.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Returns bytes of one value in place, from its word `word` on; `None` unless they all lie within the value.
    ///
    /// # Safety
    /// No one, including the kernel, writes to them while they are borrowed.
    pub(super) unsafe fn octets(&self, value: usize, word: usize, octets: usize) -> Option<&[u8]> {
        let there = self.words_per_value.checked_sub(word)? * size_of::<u64>();
        if value >= self.values || octets > there {
            return None;
        }
        // SAFETY: within the mapping by the check above, which lives as long as `self`; that nobody writes there
        // meanwhile is the caller's promise.
        Some(unsafe {
            let first = self.words.add(value * self.words_per_value + word);
            std::slice::from_raw_parts(first.as_ptr().cast::<u8>(), octets)
        })
    }

    /// The number of values in the array.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values
    }

    /// True if the array holds no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values == 0
    }

    /// Returns one word of one value; `None` outside the array.
    #[must_use]
    pub fn word(&self, value: usize, word: usize) -> Option<&AtomicU64> {
        if value >= self.values || word >= self.words_per_value {
            return None;
        }
        // SAFETY: within the mapping by the check above; page-aligned start, so every word is aligned;
        // the mapping lives as long as `self`, and the returned borrow does not outlive it.
        Some(unsafe { self.words.add(value * self.words_per_value + word).as_ref() })
    }

    /// Copies bytes of one value to `out`, from the value's word `word` on. No system call; fit for a real-time loop.
    ///
    /// Returns false, and copies nothing, unless all of them lie within the value. The program may write the same
    /// bytes meanwhile: then the copy is a mixture of old and new. Put version numbers around it.
    #[inline]
    #[must_use]
    pub fn copy_octets(&self, value: usize, word: usize, out: &mut [u8]) -> bool {
        let there = self.words_per_value.checked_sub(word);
        if value >= self.values || there.is_none_or(|words| out.len() > words * size_of::<u64>()) {
            return false;
        }
        let first = value * self.words_per_value + word;
        // SAFETY: `first` lies within the mapping, by the check above; so do all words that hold the requested bytes.
        let from = unsafe { self.words.add(first) };
        copy_words(from, out);
        true
    }
}

impl Drop for MappedArray {
    fn drop(&mut self) {
        // SAFETY: the very range that `new` mapped; no reference into it outlives `self`.
        unsafe { libc::munmap(self.words.as_ptr().cast(), self.length) };
    }
}

/// Copies `out.len()` bytes from the words at `from`, all of which must be mapped.
///
/// It copies 16 bytes at a time on processors that can do so at any time: half the time of a copy by words.
#[inline]
fn copy_words(from: NonNull<AtomicU64>, out: &mut [u8]) {
    let mut word = 0;
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_storeu_si128};
        if from.as_ptr().cast::<__m128i>().is_aligned() {
            for chunk in out.chunks_exact_mut(16) {
                // SAFETY: these 16 bytes are mapped (the caller says so) and aligned (an even number of words behind
                // an aligned one). This is a volatile read of memory shared with the kernel. Every bit pattern is a
                // value of this type, whatever the kernel writes meanwhile. The store goes to a chunk of 16 bytes, of
                // any alignment.
                unsafe {
                    let octets = from.add(word).as_ptr().cast::<__m128i>().read_volatile();
                    _mm_storeu_si128(chunk.as_mut_ptr().cast(), octets);
                }
                word += 2;
            }
        }
    }
    for chunk in out[word * 8..].chunks_mut(8) {
        // SAFETY: a word that holds requested bytes is mapped, as the caller says, and aligned.
        let octets = unsafe { from.add(word).as_ref() }
            .load(Ordering::Relaxed)
            .to_ne_bytes();
        chunk.copy_from_slice(&octets[..chunk.len()]);
        word += 1;
    }
}
