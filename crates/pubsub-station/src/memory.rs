//! The values of one data set in memory that threads or programs share: written whole, read whole, without a system call. Its length is
//! that of the longest values, so that nothing moves.

use rtwire_sys::shared_file::SharedFile;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Words before the values: the lock, the time, the number of updates.
const HEAD: usize = 3;
/// Attempts of one read while values are being written.
const ATTEMPTS: usize = 1_000;

/// The values of a data set in words of 64 bits, behind a sequence lock. A scalar is one word. A text, bytes or an array has a word with the
/// number of its bytes or elements, and the longest value's bytes in whole words ([`Values::image`](rtwire_pubsub::Values::image)).
///
/// Word 0 is odd while the values change; word 1 is the time of the values in ns of CLOCK_TAI; word 2 counts the updates.
#[derive(Clone, Debug)]
pub struct ValueMemory(Arc<Words>);

#[derive(Debug)]
enum Words {
    Own(Box<[AtomicU64]>),
    File(SharedFile),
}

/// The time and the number of a set of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The time of the values, ns of CLOCK_TAI.
    pub time_ns: u64,
    /// The number of updates so far; 0: there are no values yet.
    pub updates: u64,
}

impl ValueMemory {
    /// Returns memory of this process for `words` words of values.
    #[must_use]
    pub fn own(words: usize) -> Self {
        let words = (0..HEAD + words).map(|_| AtomicU64::new(0)).collect();
        Self(Arc::new(Words::Own(words)))
    }

    /// Maps a file for `words` words of values, which is made where there is none.
    ///
    /// # Errors
    /// The file cannot be opened or mapped.
    pub fn file(path: &Path, words: usize) -> io::Result<Self> {
        let mut options = File::options();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        Ok(Self(Arc::new(Words::File(SharedFile::map(
            file,
            HEAD + words,
        )?))))
    }

    fn words(&self) -> &[AtomicU64] {
        match &*self.0 {
            Words::Own(words) => words,
            Words::File(file) => file.words(),
        }
    }

    /// Writes all values. Only one thread may write. No system call.
    pub fn write(&self, time_ns: u64, values: impl Iterator<Item = u64>) {
        let [lock, time, updates, places @ ..] = self.words() else {
            return;
        };
        let even = lock.load(Ordering::Relaxed) & !1;
        lock.store(even + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        time.store(time_ns, Ordering::Relaxed);
        updates.store(updates.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        for (place, value) in places.iter().zip(values) {
            place.store(value, Ordering::Relaxed);
        }
        lock.store(even + 2, Ordering::Release);
    }

    /// Reads all values into `into`. Returns `None` before the first, or where a writer stands still in the middle of a
    /// write. No system call.
    pub fn read(&self, into: &mut [u64]) -> Option<Stamp> {
        let [lock, time, updates, places @ ..] = self.words() else {
            return None;
        };
        for _ in 0..ATTEMPTS {
            let before = lock.load(Ordering::Acquire);
            if before & 1 != 0 {
                std::hint::spin_loop();
                continue;
            }
            for (value, place) in into.iter_mut().zip(places) {
                *value = place.load(Ordering::Relaxed);
            }
            let stamp = Stamp {
                time_ns: time.load(Ordering::Relaxed),
                updates: updates.load(Ordering::Relaxed),
            };
            fence(Ordering::Acquire);
            if lock.load(Ordering::Relaxed) == before {
                return (stamp.updates > 0).then_some(stamp);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_never_torn() {
        let memory = ValueMemory::own(8);
        let mut values = [0; 8];
        assert_eq!(memory.read(&mut values), None);
        std::thread::scope(|scope| {
            let writer = memory.clone();
            scope.spawn(move || {
                for number in 1..=200_000 {
                    writer.write(number, [number; 8].into_iter());
                }
            });
            let mut last = 0;
            while last < 200_000 {
                let Some(stamp) = memory.read(&mut values) else {
                    continue;
                };
                assert!(values.iter().all(|value| *value == stamp.time_ns));
                assert!(stamp.updates >= last);
                last = stamp.updates;
            }
        });
    }

    #[test]
    fn a_file_is_one_memory_for_two_programs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("axis.image");
        let one = ValueMemory::file(&path, 2).unwrap();
        let two = ValueMemory::file(&path, 2).unwrap();
        one.write(7, [1, 2].into_iter());
        let mut values = [0; 2];
        assert_eq!(
            two.read(&mut values),
            Some(Stamp {
                time_ns: 7,
                updates: 1
            })
        );
        assert_eq!(values, [1, 2]);
    }
}
