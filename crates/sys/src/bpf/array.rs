//! Arrays of a BPF object, mapped into memory.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::words::MappedWords;

/// An array of 64-bit words that a BPF program writes and this process reads, without system calls.
pub struct MappedArray {
    memory: MappedWords,
    words_per_value: usize,
    values: usize,
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

impl MappedArray {
    pub(super) fn new(fd: OwnedFd, words_per_value: usize, values: usize) -> io::Result<Self> {
        Ok(Self {
            memory: MappedWords::map(fd, words_per_value * values)?,
            words_per_value,
            values,
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
        self.memory.descriptor().as_fd()
    }

    /// Returns bytes of one value in place, from its word `word` on; `None` unless they all lie within the value.
    ///
    /// # Safety
    /// No one, including the kernel, writes to them while they are borrowed.
    pub(super) unsafe fn octets(&self, value: usize, word: usize, octets: usize) -> Option<&[u8]> {
        let words = self.rest(value, word)?;
        if octets > size_of_val(words) {
            return None;
        }
        // SAFETY: within these words by the check above; that nobody writes there meanwhile is the caller's promise.
        Some(unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), octets) })
    }

    /// Returns the words of one value from its word `word` on; `None` outside the array.
    #[inline]
    fn rest(&self, value: usize, word: usize) -> Option<&[AtomicU64]> {
        if value >= self.values || word > self.words_per_value {
            return None;
        }
        let first = value * self.words_per_value;
        self.memory
            .words()
            .get(first + word..first + self.words_per_value)
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
        self.rest(value, word)?.first()
    }

    /// Copies bytes of one value to `out`, from the value's word `word` on. No system call; fit for a real-time loop.
    ///
    /// Returns false, and copies nothing, unless all of them lie within the value. The program may write the same
    /// bytes meanwhile: then the copy is a mixture of old and new. Put version numbers around it.
    #[inline]
    #[must_use]
    pub fn copy_octets(&self, value: usize, word: usize, out: &mut [u8]) -> bool {
        match self.rest(value, word) {
            Some(words) if out.len() <= size_of_val(words) => copy_words(words, out),
            _ => return false,
        }
        true
    }
}

/// Copies `out.len()` bytes from `words`, which must hold as many.
///
/// It copies 16 bytes at a time on processors that can do so at any time: half the time of a copy by words.
#[inline]
fn copy_words(words: &[AtomicU64], out: &mut [u8]) {
    let mut word = 0;
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_storeu_si128};
        let from = words.as_ptr().cast::<__m128i>();
        if from.is_aligned() {
            for (at, chunk) in out.chunks_exact_mut(16).enumerate() {
                debug_assert!(2 * at + 1 < words.len());
                // SAFETY: these 16 bytes are two of `words`, since `out` is no longer, and aligned. This is a volatile
                // read of memory shared with the kernel. Every bit pattern is a value of this type, whatever the
                // kernel writes meanwhile. The store goes to a chunk of 16 bytes, of any alignment.
                unsafe {
                    let octets = from.add(at).read_volatile();
                    _mm_storeu_si128(chunk.as_mut_ptr().cast(), octets);
                }
                word += 2;
            }
        }
    }
    for (chunk, word) in out[word * 8..].chunks_mut(8).zip(&words[word..]) {
        let octets = word.load(Ordering::Relaxed).to_ne_bytes();
        chunk.copy_from_slice(&octets[..chunk.len()]);
    }
}
