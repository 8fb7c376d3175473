//! Reads the frames that a kernel program has put into its ring. All programs that have one use the same records (`crates/bpf/programs`).
//!
//! Any number of readers may look at one ring, each at its own place. The program never waits for them: a reader counts what was
//! overwritten before it came to it.

use rtwire_sys::bpf::MappedArray;
use std::sync::atomic::{Ordering, fence};

/// Room for one frame, bytes.
pub const FRAME_OCTETS: usize = 1520;
/// The most frames that wait for user space.
pub const RING: usize = 256;

/// The fields of a record, by 64-bit words.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub enum Record {
    /// The frame's number, from 1 on; 0 while it is being written.
    Number,
    /// The time of its arrival; the program says of which clock.
    ArrivalNs,
    /// Its bytes.
    Length,
    /// The program's action on it.
    Did,
    /// A number that the program notes beside it.
    Note,
    /// The frame.
    Data,
}
/// The words of a record.
pub const RECORD_WORDS: usize = Record::Data as usize + FRAME_OCTETS / 8;

/// One frame from the ring, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The time of its arrival, ns of the program's clock.
    pub arrival_ns: u64,
    /// Its bytes.
    pub length: usize,
    /// The program's action on it.
    pub did: u64,
    /// The number that the program has noted beside it.
    pub note: u64,
}

/// User space's place in the ring.
#[derive(Debug)]
pub struct FrameRing {
    next: u64,
    overrun: u64,
    octets: Box<[u8; FRAME_OCTETS]>,
}

impl Default for FrameRing {
    fn default() -> Self {
        Self::new()
    }
}

impl FrameRing {
    /// Begins at the first frame.
    #[must_use]
    pub fn new() -> Self {
        Self {
            next: 0,
            overrun: 0,
            octets: Box::new([0; FRAME_OCTETS]),
        }
    }

    /// Leaves out the frames before number `next`.
    pub const fn begin_at(&mut self, next: u64) {
        self.next = next;
    }

    /// Returns the number of frames that were overwritten before they were read.
    #[must_use]
    pub const fn overrun(&self) -> u64 {
        self.overrun
    }

    /// Returns the bytes of the last frame that was taken, and room behind them.
    #[must_use]
    pub const fn octets(&self) -> &[u8; FRAME_OCTETS] {
        &self.octets
    }

    fn number(&self, ring: &MappedArray, order: Ordering) -> u64 {
        let word = ring.word(self.next as usize % RING, Record::Number as usize);
        word.map_or(0, |word| word.load(order))
    }

    /// Returns true where the next frame is there, or was overwritten. No system call.
    #[must_use]
    pub fn is_ready(&self, ring: &MappedArray) -> bool {
        self.number(ring, Ordering::Acquire) > self.next
    }

    /// Takes the next frame; its bytes are then in [`octets`](Self::octets). `head` is the number of frames that the program has
    /// begun. No system call, no allocation.
    pub fn take(&mut self, ring: &MappedArray, head: u64) -> Option<Taken> {
        loop {
            // What may be overwritten while it is read is left out at once.
            let oldest = head.saturating_sub(RING as u64 - 1);
            if self.next < oldest {
                self.overrun += oldest - self.next;
                self.next = oldest;
            }
            let number = self.number(ring, Ordering::Acquire);
            if number <= self.next {
                return None;
            }
            let value = self.next as usize % RING;
            let word = |field: Record| {
                let word = ring.word(value, field as usize);
                word.map_or(0, |word| word.load(Ordering::Relaxed))
            };
            let taken = Taken {
                arrival_ns: word(Record::ArrivalNs),
                length: (word(Record::Length) as usize).min(FRAME_OCTETS),
                did: word(Record::Did),
                note: word(Record::Note),
            };
            let copied = ring.copy_octets(
                value,
                Record::Data as usize,
                &mut self.octets[..taken.length],
            );
            // The copy comes before the second look at the number.
            fence(Ordering::Acquire);
            let whole =
                number == self.next + 1 && self.number(ring, Ordering::Relaxed) == number && copied;
            self.next += 1;
            if whole {
                return Some(taken);
            }
            self.overrun += 1;
        }
    }
}
