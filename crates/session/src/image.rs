//! A value in memory that programs share: one writes, others read the newest, and nobody waits.
//!
//! Layout, 64-bit words in the machine's byte order (docs/session.md):
//!
//! | word | content |
//! |---|---|
//! | 0 | the bytes `RTWIMG01` |
//! | 1 | version: 0 before the first value, odd while one is being written, else even |
//! | 2 | length of the value, bytes |
//! | 3 | sequence number of the value |
//! | 4 | time at which the talker sent it, ns of CLOCK_TAI; 0: none |
//! | 5 | time of its arrival, ns of CLOCK_TAI; 0: none |
//! | 6, 7 | 0 |
//! | from 8 | the value |
//!
//! A reader reads the version, copies the value, and reads the version again. The value is whole if both versions are
//! equal, even and not 0.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use rtwire_sys::shared_file::SharedFile;

const MAGIC: u64 = u64::from_ne_bytes(*b"RTWIMG01");
/// Words before the value.
const HEADER_WORDS: usize = 8;
/// Attempts of a reader: a writer that dies inside a write must not hold up a real-time reader for ever.
const TRIES: usize = 64;

/// The number and times that accompany a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValueStamp {
    /// The sequence number.
    pub sequence: u64,
    /// The time at which the talker sent the value, ns of CLOCK_TAI, where it is known.
    pub sender_time_ns: Option<u64>,
    /// The time of arrival, ns of CLOCK_TAI, where it is known.
    pub arrival_ns: Option<u64>,
}

#[derive(Debug)]
enum Memory {
    Own(Box<[AtomicU64]>),
    File(SharedFile),
}

/// A versioned value of limited length.
#[derive(Debug)]
pub struct Image {
    memory: Memory,
    bytes: usize,
}

impl Image {
    /// Returns an image in this process's own memory, for values of at most `bytes`.
    #[must_use]
    pub fn in_memory(bytes: usize) -> Self {
        let words = HEADER_WORDS + bytes.div_ceil(8);
        let image = Self {
            memory: Memory::Own((0..words).map(|_| AtomicU64::new(0)).collect()),
            bytes,
        };
        image.words()[0].store(MAGIC, Ordering::Relaxed);
        image
    }

    /// Maps a file, and creates it if it is missing. A value that it holds already stays.
    ///
    /// # Errors
    /// The file cannot be opened, extended or mapped; its content is no image.
    pub fn at(path: &Path, bytes: usize) -> io::Result<Self> {
        let mut options = File::options();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        let words = HEADER_WORDS + bytes.div_ceil(8);
        let image = Self {
            memory: Memory::File(SharedFile::map(file, words)?),
            bytes,
        };
        match image.words()[0].compare_exchange(0, MAGIC, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) | Err(MAGIC) => {}
            Err(_) => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "it is no image: its first 8 bytes are not RTWIMG01; name another file, or remove this one",
                ));
            }
        }
        // A program that died inside a write left an odd version: the value is not whole.
        let version = image.words()[1].load(Ordering::Acquire);
        if version % 2 == 1 {
            image.words()[1].store(0, Ordering::Release);
        }
        Ok(image)
    }

    fn words(&self) -> &[AtomicU64] {
        match &self.memory {
            Memory::Own(words) => words,
            Memory::File(file) => file.words(),
        }
    }

    /// The longest value, bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes
    }

    /// Writes a value, cut to [`Self::capacity`] if it is longer. One writer at a time. No system call, no allocation.
    pub fn write(&self, value: &[u8], stamp: ValueStamp) {
        let value = &value[..value.len().min(self.bytes)];
        let words = self.words();
        let version = words[1].load(Ordering::Relaxed) & !1;
        words[1].store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        words[2].store(value.len() as u64, Ordering::Relaxed);
        words[3].store(stamp.sequence, Ordering::Relaxed);
        words[4].store(stamp.sender_time_ns.unwrap_or(0), Ordering::Relaxed);
        words[5].store(stamp.arrival_ns.unwrap_or(0), Ordering::Relaxed);
        for (word, part) in words[HEADER_WORDS..].iter().zip(value.chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..part.len()].copy_from_slice(part);
            word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        }
        // 0 stands for "never": a version that wraps (in 500 years at 1 µs) passes over it.
        words[1].store(version.wrapping_add(2).max(2), Ordering::Release);
    }

    /// Copies the newest whole value to `out`, and returns its length in bytes and its stamp. No system call, no
    /// allocation.
    ///
    /// Returns `None` before the first value, and where a writer stopped inside a write.
    pub fn read(&self, out: &mut [u8]) -> Option<(usize, ValueStamp)> {
        let words = self.words();
        for _ in 0..TRIES {
            let before = words[1].load(Ordering::Acquire);
            if before == 0 {
                return None;
            }
            if before % 2 == 1 {
                std::hint::spin_loop();
                continue;
            }
            let length = words[2].load(Ordering::Relaxed);
            let length = usize::try_from(length)
                .unwrap_or(usize::MAX)
                .min(self.bytes)
                .min(out.len());
            let stamp = ValueStamp {
                sequence: words[3].load(Ordering::Relaxed),
                sender_time_ns: Some(words[4].load(Ordering::Relaxed)).filter(|ns| *ns > 0),
                arrival_ns: Some(words[5].load(Ordering::Relaxed)).filter(|ns| *ns > 0),
            };
            for (word, part) in words[HEADER_WORDS..]
                .iter()
                .zip(out[..length].chunks_mut(8))
            {
                let bytes = word.load(Ordering::Relaxed).to_ne_bytes();
                part.copy_from_slice(&bytes[..part.len()]);
            }
            fence(Ordering::Acquire);
            if words[1].load(Ordering::Relaxed) == before {
                return Some((length, stamp));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn what_is_written_is_read_by_another_mapping() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let (writer, reader) = (Image::at(&path, 13).unwrap(), Image::at(&path, 13).unwrap());
        let mut out = [0; 64];
        assert_eq!(reader.read(&mut out), None);
        let stamp = ValueStamp {
            sequence: 7,
            sender_time_ns: Some(8),
            arrival_ns: None,
        };
        writer.write(b"hello, world!", stamp);
        assert_eq!(reader.read(&mut out), Some((13, stamp)));
        assert_eq!(&out[..13], b"hello, world!");
        writer.write(b"short", stamp);
        assert_eq!(reader.read(&mut out), Some((5, stamp)));
        writer.write(b"far too long a value", stamp);
        assert_eq!(reader.read(&mut out).unwrap().0, 13);
        // A third one finds what is there.
        assert_eq!(Image::at(&path, 13).unwrap().read(&mut out).unwrap().0, 13);
    }

    #[test]
    fn a_file_of_something_else_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("letter");
        std::fs::write(
            &path,
            "Dear Sir or Madam, this is no image at all, but a letter of some length, and so on",
        )
        .unwrap();
        let error = Image::at(&path, 8).unwrap_err();
        assert!(error.to_string().contains("no image"), "{error}");
        assert!(
            std::fs::read_to_string(&path)
                .unwrap()
                .starts_with("Dear Sir")
        );
    }

    #[test]
    fn a_writer_that_died_amid_a_value_leaves_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let image = Image::at(&path, 8).unwrap();
        image.write(b"12345678", ValueStamp::default());
        image.words()[1].store(5, Ordering::Release);
        assert_eq!(image.read(&mut [0; 8]), None);
        assert_eq!(Image::at(&path, 8).unwrap().read(&mut [0; 8]), None);
    }

    #[test]
    fn readers_never_see_half_a_value() {
        let image = Image::in_memory(64);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..200_000_u64 {
                    let stamp = ValueStamp {
                        sequence: round,
                        ..ValueStamp::default()
                    };
                    image.write(&[(round % 251) as u8; 64], stamp);
                }
                over.store(true, Ordering::Release);
            });
            let mut out = [0; 64];
            while !over.load(Ordering::Acquire) {
                if let Some((length, stamp)) = image.read(&mut out) {
                    let expected = (stamp.sequence % 251) as u8;
                    assert_eq!((length, out), (64, [expected; 64]));
                }
            }
        });
    }
}
