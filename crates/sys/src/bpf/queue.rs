//! The reader's end of a queue channel: rings in one map, one for each urgency, that a BPF program fills.
//!
//! Layout and rules are those of `struct rtw_queue` and `struct rtw_place` in `crates/bpf/programs/receive.h`. They
//! are here, and not with the other layouts, because lending out the kernel's bytes in place is safe only by these
//! rules.

use super::array::MappedArray;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The number of urgencies; each may have a ring of its own.
pub const LEVELS: usize = 8;
/// Bytes of user data that fit a place.
pub const PLACE_OCTETS: usize = 1536;
/// 64-bit words of a place, and of the queue's own entry.
pub const PLACE_WORDS: usize = Place::Data as usize + PLACE_OCTETS / 8;
/// The largest number of places of one ring.
pub const MOST_PLACES: usize = 1 << 14;

/// The first words of the fields of `struct rtw_queue`.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
#[allow(missing_docs, reason = "named as in the header, and described there")]
pub enum Queue {
    Places = 0,
    Levels = 1,
    Stamps = 2,
    Wakes = 3,
    Reserved = 4,
    Head = 8,
    Freed = 16,
    Full = 24,
    Tail = 32,
    Asleep = 40,
}

/// The first words of the fields of `struct rtw_place`.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
#[allow(missing_docs, reason = "named as in the header, and described there")]
pub enum Place {
    Turn = 0,
    ArrivalNs,
    SenderNs,
    Source,
    Sequence,
    Length,
    Priority,
    Reserved,
    Data,
}

/// A frame in a queue, as the program has stored it.
#[derive(Clone, Copy, Debug)]
pub struct QueuedFrame<'a> {
    /// The user data, in place.
    pub data: &'a [u8],
    /// The arrival time, ns of CLOCK_TAI; 0 if not stamped.
    pub arrival_ns: u64,
    /// The sender's time, ns of its CLOCK_TAI; 0 if its frame has none.
    pub sender_ns: u64,
    /// The sender's address, shifted left by 16, and its port.
    pub source: u64,
    /// The sequence number.
    pub sequence: u32,
    /// The urgency, 0 to 7.
    pub priority: u8,
}

/// The memory of one queue, and its one reader.
#[derive(Debug)]
pub struct FrameQueue {
    memory: MappedArray,
    places: u64,
    levels: usize,
    /// Positions read, of each level. The program may see them a moment later.
    tails: [u64; LEVELS],
    /// The level of the frame that [`look`](Self::look) has found.
    held: Option<usize>,
}

impl FrameQueue {
    /// Creates the memory: rings of `places` places, one for each urgency or one for all.
    ///
    /// `places` is rounded up to a power of two, at most 16384. Each place takes about 1600 bytes. Needs CAP_BPF. Not
    /// for a real-time loop.
    ///
    /// # Errors
    /// CAP_BPF is missing, or there is not enough memory.
    pub fn new(places: usize, by_urgency: bool, stamps: bool, wakes: bool) -> io::Result<Self> {
        let places = places.clamp(1, MOST_PLACES).next_power_of_two();
        let levels = if by_urgency { LEVELS } else { 1 };
        let memory = MappedArray::create("rtw_queue", PLACE_WORDS, 1 + levels * places)?;
        let queue = Self {
            memory,
            places: places as u64,
            levels,
            tails: [0; LEVELS],
            held: None,
        };
        for (field, value) in [
            (Queue::Places, places as u64),
            (Queue::Levels, levels as u64 - 1),
            (Queue::Stamps, stamps.into()),
            (Queue::Wakes, wakes.into()),
        ] {
            if let Some(word) = queue.word(field, 0) {
                word.store(value, Ordering::Release);
            }
        }
        Ok(queue)
    }

    /// The map's descriptor, for the program.
    #[must_use]
    pub fn map(&self) -> BorrowedFd<'_> {
        self.memory.descriptor()
    }

    fn word(&self, field: Queue, level: usize) -> Option<&AtomicU64> {
        self.memory.word(0, field as usize + level)
    }

    fn entry(&self, level: usize) -> usize {
        1 + level * self.places as usize + (self.tails[level] & (self.places - 1)) as usize
    }

    #[inline]
    fn is_ready(&self, level: usize) -> bool {
        // Acquire: with the turn, everything that the program wrote before it is visible.
        self.memory
            .word(self.entry(level), Place::Turn as usize)
            .is_some_and(|turn| turn.load(Ordering::Acquire) == self.tails[level] + 1)
    }

    /// True if a frame waits. Then [`peek`](Self::peek) returns the most urgent one, the same until
    /// [`release`](Self::release). No system call; fit for a real-time loop.
    #[inline]
    pub fn look(&mut self) -> bool {
        if self.held.is_none() {
            self.held = (0..self.levels).rev().find(|&level| self.is_ready(level));
        }
        self.held.is_some()
    }

    /// Returns the frame that the last [`look`](Self::look) has found, in place. No system call.
    #[inline]
    #[must_use]
    pub fn peek(&self) -> Option<QueuedFrame<'_>> {
        let entry = self.entry(self.held?);
        let get = |field: Place| {
            self.memory
                .word(entry, field as usize)
                .map_or(0, |word| word.load(Ordering::Relaxed))
        };
        let octets = (get(Place::Length) as usize).min(PLACE_OCTETS);
        // SAFETY: `look` has found this place's turn, so it is the reader's own: the program leaves it alone until
        // `release` returns it. That needs `&mut self`, and so cannot happen while the frame is borrowed.
        let data = unsafe { self.memory.octets(entry, Place::Data as usize, octets) }?;
        Some(QueuedFrame {
            data,
            arrival_ns: get(Place::ArrivalNs),
            sender_ns: get(Place::SenderNs),
            source: get(Place::Source),
            sequence: get(Place::Sequence) as u32,
            priority: get(Place::Priority) as u8,
        })
    }

    /// Returns the place of that frame to the program; does nothing if there is none. No system call.
    #[inline]
    pub fn release(&mut self) {
        let Some(level) = self.held.take() else {
            return;
        };
        self.tails[level] += 1;
        if let Some(tail) = self.word(Queue::Tail, level) {
            // Release: the place was read before it is returned.
            tail.store(self.tails[level], Ordering::Release);
        }
    }

    /// Asks that the next frame wake this reader. If a frame waits already, it only returns true. No system call.
    #[inline]
    pub fn look_or_sleep(&mut self) -> bool {
        if self.look() {
            return true;
        }
        let Some(asleep) = self.word(Queue::Asleep, 0) else {
            return false;
        };
        asleep.store(1, Ordering::SeqCst);
        // A full barrier: the program stores the frame and then reads the word; here it is the other way round.
        fence(Ordering::SeqCst);
        if self.look() {
            self.awake();
            return true;
        }
        false
    }

    /// Withdraws the request of [`look_or_sleep`](Self::look_or_sleep).
    #[inline]
    pub fn awake(&self) {
        if let Some(asleep) = self.word(Queue::Asleep, 0) {
            asleep.store(0, Ordering::Relaxed);
        }
    }

    /// The number of frames that have been stored so far.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.sum(Queue::Head)
    }

    /// The number of frames dropped so far because their ring was full.
    #[must_use]
    pub fn full(&self) -> u64 {
        self.sum(Queue::Full)
    }

    fn sum(&self, field: Queue) -> u64 {
        (0..self.levels)
            .filter_map(|level| self.word(field, level))
            .map(|word| word.load(Ordering::Relaxed))
            .sum()
    }
}
