//! Passes the newest values from one thread to another, whole: three buffers, of which each end holds one and the third
//! changes hands. Neither end waits for the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// The buffer in the middle has not been read yet.
const FRESH: u8 = 4;
const PLACE: u8 = 3;

#[derive(Debug)]
struct Shared {
    /// Words are atomic since two threads reach the memory. Only the end that holds a buffer touches it; `middle` hands it over
    /// with everything written before.
    buffers: [Box<[AtomicU64]>; 3],
    middle: AtomicU8,
}

impl Shared {
    fn words(&self, place: u8) -> &[AtomicU64] {
        self.buffers.get(usize::from(place)).map_or(&[], |b| b)
    }
}

/// The end that writes.
#[derive(Debug)]
pub(crate) struct Writer {
    shared: Arc<Shared>,
    place: u8,
}

/// The end that reads.
#[derive(Debug)]
pub(crate) struct Reader {
    shared: Arc<Shared>,
    place: u8,
}

/// Makes both ends of buffers of `words` words, which are 0 at first.
pub(crate) fn triple(words: usize) -> (Writer, Reader) {
    let buffer = || (0..words).map(|_| AtomicU64::new(0)).collect();
    let shared = Arc::new(Shared {
        buffers: [buffer(), buffer(), buffer()],
        middle: AtomicU8::new(1),
    });
    let writer = Writer {
        shared: Arc::clone(&shared),
        place: 0,
    };
    (writer, Reader { shared, place: 2 })
}

impl Writer {
    /// Lets `fill` write a whole buffer, and hands it over in place of an unread one. The buffer has old values: all of them
    /// must be written.
    pub(crate) fn write(&mut self, fill: impl FnOnce(&[AtomicU64])) {
        fill(self.shared.words(self.place));
        let before = self
            .shared
            .middle
            .swap(self.place | FRESH, Ordering::AcqRel);
        self.place = before & PLACE;
    }
}

impl Reader {
    /// Takes the newest buffer. Returns true where it is newer than the one before.
    pub(crate) fn take(&mut self) -> bool {
        if self.shared.middle.load(Ordering::Relaxed) & FRESH == 0 {
            return false;
        }
        let before = self.shared.middle.swap(self.place, Ordering::AcqRel);
        self.place = before & PLACE;
        true
    }

    /// Returns the buffer that was taken last.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        self.shared.words(self.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    const WORDS: usize = 300;
    const RELAXED: Ordering = Ordering::Relaxed;

    #[test]
    fn the_newest_is_taken_once() {
        let (mut writer, mut reader) = triple(1);
        assert!(!reader.take());
        for value in [1, 2] {
            writer.write(|words| words[0].store(value, RELAXED));
        }
        assert!(reader.take());
        assert_eq!(reader.words()[0].load(RELAXED), 2);
        assert!(!reader.take());
        assert_eq!(reader.words()[0].load(RELAXED), 2);
    }

    #[test]
    fn what_is_read_while_others_are_written_is_whole_and_never_older() {
        let (mut writer, mut reader) = triple(WORDS);
        let over = AtomicBool::new(false);
        let (mut taken, mut last) = (0_u64, 0);
        thread::scope(|scope| {
            scope.spawn(|| {
                for value in 1..=200_000_u64 {
                    writer.write(|words| {
                        for word in words {
                            word.store(value, RELAXED);
                        }
                    });
                }
                over.store(true, Ordering::Release);
            });
            loop {
                let ended = over.load(Ordering::Acquire);
                if reader.take() {
                    taken += 1;
                    let first = reader.words()[0].load(RELAXED);
                    assert!(first > last, "{first} behind {last}");
                    last = first;
                    for word in reader.words() {
                        assert_eq!(word.load(RELAXED), first, "torn");
                    }
                } else if ended {
                    break;
                }
            }
        });
        assert_eq!(last, 200_000);
        assert!(taken > 0);
    }
}
