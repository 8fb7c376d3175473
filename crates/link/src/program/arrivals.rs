//! Arrival notes: when each value of a newest-value channel came, of those, too, that nobody read.
//!
//! The receive program writes a note for every value that the slot accepts, into a ring beside the slot, over the oldest
//! one. Readers map the ring: no system call, and the program never waits for them. A reader that is too slow misses
//! notes, and counts them.

use super::NewestSlot;
use super::layout::{NOTE_WORDS, Note, Slot};
use rtwire_sys::bpf::MappedArray;
use rtwire_wire::MacAddress;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// Largest number of arrival notes of one channel: 4 MB of kernel memory.
pub const MOST_NOTES: usize = 1 << 17;

/// The arrival of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivalNote {
    /// Its sequence number.
    pub sequence: u32,
    /// Arrival time, in ns of CLOCK_TAI.
    pub arrival_ns: u64,
    /// Time of sending, in ns of the talker's CLOCK_TAI; `None` if the talker does not write it.
    pub sender_time_ns: Option<u64>,
    /// The talker's address.
    pub source: MacAddress,
    /// The talker's port.
    pub source_port: u16,
}

/// The ring of one channel, in memory that the program fills.
#[derive(Debug)]
pub(super) struct NoteMemory {
    memory: MappedArray,
}

impl NoteMemory {
    pub(super) fn new(notes: usize) -> io::Result<Self> {
        let places = notes.clamp(2, MOST_NOTES).next_power_of_two();
        let memory = MappedArray::create("rtw_notes", NOTE_WORDS, places)?;
        Ok(Self { memory })
    }

    pub(super) fn map(&self) -> BorrowedFd<'_> {
        self.memory.descriptor()
    }

    /// Returns the number of places, a power of two.
    pub(super) fn places(&self) -> u64 {
        self.memory.len() as u64
    }

    /// Copies note `number`, or a mixture with a later one if the program is just overwriting it.
    fn copy(&self, number: u64) -> ArrivalNote {
        let place = (number % self.places()) as usize;
        let word = |field: Note| {
            let word = self.memory.word(place, field as usize);
            word.map_or(0, |word| word.load(Ordering::Relaxed))
        };
        let source = word(Note::Source);
        let octets = source.to_be_bytes();
        ArrivalNote {
            sequence: word(Note::Sequence) as u32,
            arrival_ns: word(Note::ArrivalNs),
            sender_time_ns: Some(word(Note::SenderNs)).filter(|&ns| ns != 0),
            source: MacAddress([
                octets[0], octets[1], octets[2], octets[3], octets[4], octets[5],
            ]),
            source_port: source as u16,
        }
    }
}

/// Reads the arrival notes of one channel, oldest first, without a system call. Keeps the channel open.
#[derive(Debug)]
pub struct ArrivalNotes {
    slot: NewestSlot,
    memory: Arc<NoteMemory>,
    /// Number of the next note to read.
    next: u64,
    missed: u64,
}

impl ArrivalNotes {
    pub(super) fn new(slot: NewestSlot, memory: Arc<NoteMemory>) -> Self {
        Self {
            slot,
            memory,
            next: 0,
            missed: 0,
        }
    }

    /// Shows every note since the last call, oldest first; returns their number. Notes that were overwritten before
    /// they could be read are added to [`missed`](Self::missed). No system call, no allocation, no lock: fit for a
    /// real-time loop.
    ///
    /// Notes that come meanwhile are left for the next call, so it ends however fast values come.
    #[inline]
    pub fn drain(&mut self, mut show: impl FnMut(ArrivalNote)) -> u64 {
        let places = self.memory.places();
        // Acquire: with the count, every note that it counts is visible.
        let until = self.noted(Ordering::Acquire);
        let mut noted = until;
        let mut shown = 0;
        while self.next < until {
            // The program may be writing note `noted`, over note `noted - places`.
            let oldest = (noted + 1).saturating_sub(places);
            if self.next < oldest {
                self.missed += oldest - self.next;
                self.next = oldest;
                continue;
            }
            let note = self.memory.copy(self.next);
            // The copy comes before the second read of the count.
            fence(Ordering::Acquire);
            noted = self.noted(Ordering::Relaxed);
            if noted < self.next + places {
                self.next += 1;
                shown += 1;
                show(note);
            }
        }
        shown
    }

    /// Returns the notes that were overwritten before this reader read them.
    #[must_use]
    pub const fn missed(&self) -> u64 {
        self.missed
    }

    fn noted(&self, order: Ordering) -> u64 {
        let word = self.slot.word(Slot::Noted);
        word.map_or(0, |word| word.load(order))
    }
}
