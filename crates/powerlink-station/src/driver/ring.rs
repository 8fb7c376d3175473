//! Reads the frames that the program has put into its ring.

use super::layout::{FRAME_OCTETS, RING, Record};
use rtwire_sys::bpf::MappedArray;
use std::sync::atomic::{Ordering, fence};

/// One frame from the ring, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) arrival_ns: u64,
    pub(super) length: usize,
    pub(super) did: u64,
    /// The cycle that the program counted when it arrived.
    pub(super) cycle: u64,
}

/// User space's place in the ring.
#[derive(Debug)]
pub(super) struct Reader {
    next: u64,
    overrun: u64,
    octets: Box<[u8; FRAME_OCTETS]>,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self {
            next: 0,
            overrun: 0,
            octets: Box::new([0; FRAME_OCTETS]),
        }
    }

    /// Leaves out the frames before number `next`.
    pub(super) fn begin_at(&mut self, next: u64) {
        self.next = next;
    }

    /// Returns the number of frames that were overwritten before they were read.
    pub(super) fn overrun(&self) -> u64 {
        self.overrun
    }

    pub(super) fn octets(&self) -> &[u8; FRAME_OCTETS] {
        &self.octets
    }

    fn number(&self, ring: &MappedArray, order: Ordering) -> u64 {
        let word = ring.word(self.next as usize % RING, Record::Number as usize);
        word.map_or(0, |word| word.load(order))
    }

    /// Returns true where the next frame is there, or was overwritten. No system call.
    pub(super) fn is_ready(&self, ring: &MappedArray) -> bool {
        self.number(ring, Ordering::Acquire) > self.next
    }

    /// Takes the next frame; its bytes are then in [`Reader::octets`]. `head` is the number of frames that the program has
    /// begun. No system call, no allocation.
    pub(super) fn take(&mut self, ring: &MappedArray, head: u64) -> Option<Taken> {
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
                cycle: word(Record::Cycle),
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
