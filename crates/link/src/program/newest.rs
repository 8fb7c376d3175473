//! The newest value of a channel, read where the receive program has written it.

use super::arrivals::NoteMemory;
use super::layout::{BUFFERS, Channel, SLOT_WORDS, Slot, VALUE_WORDS, Value};
use super::wait::{Sleeper, Waiter};
use super::{
    ArrivalNotes, ChannelCounters, CounterReader, OpenChannel, Police, ProgramError,
    ReceiveProgram, Shared,
};
use crate::slices::CHECK;
use crate::{LinkError, WakeUp};
use rtwire_sys::clock::{self, Clock};
use rtwire_wire::MacAddress;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

const _: () = assert!(
    SLOT_WORDS % 2 == 0 && VALUE_WORDS % 2 == 0,
    "data begin at multiples of 16 bytes"
);

/// The newest value of a channel, without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newest {
    /// Length of the user data, in bytes. If it exceeds the given buffer, the rest was not copied.
    pub length: usize,
    /// Its sequence number.
    pub sequence: u32,
    /// The talker's address.
    pub source: MacAddress,
    /// The talker's port.
    pub source_port: u16,
    /// Its priority, 0 to 7.
    pub priority: u8,
    /// Arrival time, in ns of CLOCK_TAI.
    pub arrival_ns: u64,
    /// Time of sending, in ns of the talker's CLOCK_TAI; `None` if the talker does not write it.
    pub sender_time_ns: Option<u64>,
    /// `true` if this value is not the one that this reader's last read returned.
    pub fresh: bool,
    /// Number of values sent between the last read's value and this one, and never read: overwritten, or lost on the
    /// network.
    pub skipped: u64,
}

/// Reads the newest value of one channel without a system call. Clones are cheap: each is a reader of its own, on any
/// thread. The channel closes with the last of them.
#[derive(Clone, Debug)]
pub struct NewestSlot {
    pub(super) channel: Arc<OpenChannel>,
    /// The arrival notes, where the channel keeps them.
    notes: Option<Arc<NoteMemory>>,
    /// Number of the last value read; 0 before the first read.
    seen: u64,
    /// `true` if the first read counts skipped values, too.
    from_the_first: bool,
}

impl NewestSlot {
    fn new(channel: OpenChannel, notes: Option<NoteMemory>) -> Self {
        Self {
            channel: Arc::new(channel),
            notes: notes.map(Arc::new),
            seen: 0,
            from_the_first: false,
        }
    }

    /// Copies the newest value to `out` and returns its properties; `None` before the first value. The copy is never
    /// a mixture of two values, and never older than the last read's value. No system call, no allocation, no lock:
    /// fit for a real-time loop.
    ///
    /// It starts again if the program wrote three values during one copy, which takes a few ten ns.
    #[inline]
    pub fn read(&mut self, out: &mut [u8]) -> Option<Newest> {
        loop {
            let version = self.version(Ordering::Acquire) / 2;
            if version == 0 {
                return None;
            }
            let newest = self.copy(version, out)?;
            // The copy comes before the second read of the version.
            fence(Ordering::Acquire);
            if self.version(Ordering::Relaxed) < 2 * version + 2 * BUFFERS - 1 {
                let (mut newest, offered) = newest;
                newest.fresh = offered != self.seen;
                newest.skipped = offered.saturating_sub(self.seen + 1);
                if self.seen == 0 && !self.from_the_first {
                    // Values before a reader's first read do not count as skipped.
                    newest.skipped = 0;
                }
                self.seen = offered;
                return Some(newest);
            }
            std::hint::spin_loop();
        }
    }

    /// Returns a reader of the arrival notes, from the oldest one that is still there; `None` if the channel keeps
    /// none. Any number of readers is possible.
    #[must_use]
    pub fn arrivals(&self) -> Option<ArrivalNotes> {
        let notes = self.notes.as_ref()?;
        Some(ArrivalNotes::new(self.clone(), Arc::clone(notes)))
    }

    #[inline]
    pub(super) fn word(&self, field: Slot) -> Option<&AtomicU64> {
        let program = &self.channel.program;
        program.slots.word(self.channel.index, field as usize)
    }

    #[inline]
    fn version(&self, order: Ordering) -> u64 {
        self.word(Slot::Version).map_or(0, |word| word.load(order))
    }

    /// Returns a reader that can also wait for a newer value, and that counts skipped values from the channel's first
    /// value on.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or the interface is gone.
    pub fn reader(&self, wake_up: WakeUp) -> Result<NewestReader, ProgramError> {
        let channel = &self.channel;
        let waiter = Waiter::new(&channel.program, channel.port, wake_up)?;
        if wake_up != WakeUp::Spin {
            if let Some(wakes) = self.word(Slot::Wakes) {
                wakes.store(1, Ordering::Release);
            }
        }
        Ok(NewestReader {
            slot: Self {
                from_the_first: true,
                ..self.clone()
            },
            waiter,
            next_check_ns: 0,
        })
    }

    /// Returns a reader of this channel's counters, valid as long as the channel is open.
    #[must_use]
    pub fn counter_reader(&self) -> CounterReader {
        self.channel.counter_reader()
    }

    /// Returns the value that the next read would give [`seen`](Self::seen); 0 before the first value.
    #[inline]
    fn newest_number(&self) -> u64 {
        loop {
            let version = self.version(Ordering::Acquire) / 2;
            if version == 0 {
                return 0;
            }
            let at = Slot::Value as usize + (version % BUFFERS) as usize * VALUE_WORDS;
            let slots = &self.channel.program.slots;
            let word = slots.word(self.channel.index, at + Value::Offered as usize);
            let offered = word.map_or(0, |word| word.load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            if self.version(Ordering::Relaxed) < 2 * version + 2 * BUFFERS - 1 {
                return offered;
            }
        }
    }

    /// Copies value `number`; also returns the number of values sent up to it.
    #[inline]
    fn copy(&self, number: u64, out: &mut [u8]) -> Option<(Newest, u64)> {
        let slots = &self.channel.program.slots;
        let index = self.channel.index;
        let at = Slot::Value as usize + (number % BUFFERS) as usize * VALUE_WORDS;
        let word = |field: Value| {
            let word = slots.word(index, at + field as usize);
            word.map_or(0, |word| word.load(Ordering::Relaxed))
        };
        let length = word(Value::Length) as usize;
        // A mixture of two values may have any length. It is discarded, but must not be copied beyond the value.
        let copied = length.min(out.len()).min(super::layout::DATA_OCTETS);
        if !slots.copy_octets(index, at + Value::Data as usize, &mut out[..copied]) {
            return None;
        }
        let source = word(Value::Source);
        let octets = source.to_be_bytes();
        let newest = Newest {
            length,
            sequence: word(Value::Sequence) as u32,
            source: MacAddress([
                octets[0], octets[1], octets[2], octets[3], octets[4], octets[5],
            ]),
            source_port: source as u16,
            priority: word(Value::Priority) as u8,
            arrival_ns: word(Value::ArrivalNs),
            sender_time_ns: Some(word(Value::SenderNs)).filter(|&ns| ns != 0),
            fresh: false,
            skipped: 0,
        };
        Some((newest, word(Value::Offered)))
    }

    /// Sets a contract: frames beyond it are dropped before they are copied. `None` removes the contract.
    ///
    /// # Errors
    /// The contract is not possible.
    pub fn police(&self, police: Option<&Police>) -> Result<(), ProgramError> {
        self.channel.police(police)
    }

    /// Returns the counters so far.
    #[must_use]
    pub fn counters(&self) -> ChannelCounters {
        ChannelCounters {
            accepted: self.version(Ordering::Relaxed) / 2,
            ..self.channel.counters()
        }
    }

    /// Returns the missing sequence numbers, as far as later ones show them.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.channel.get(Channel::Missing)
    }
}

/// Reads the newest value of one channel, waits for newer ones, and checks program and interface.
#[derive(Debug)]
pub struct NewestReader {
    slot: NewestSlot,
    waiter: Waiter,
    /// Time of the next check of program and interface, in ns of CLOCK_MONOTONIC.
    next_check_ns: u64,
}

/// Waits until there is a value with another number than `seen`.
struct Newer<'a> {
    slot: &'a NewestSlot,
    seen: u64,
}

impl Sleeper for Newer<'_> {
    #[inline]
    fn look(&mut self) -> bool {
        self.slot.newest_number() != self.seen
    }

    fn look_or_sleep(&mut self) -> bool {
        if let Some(asleep) = self.slot.word(Slot::Asleep) {
            asleep.store(1, Ordering::SeqCst);
        }
        // A full barrier: the program writes the value and then reads the word; the reader does it in the reverse
        // order. Another reader may sleep at the same slot, so the word stays set. At worst one frame is passed on
        // without a reader.
        fence(Ordering::SeqCst);
        self.look()
    }

    fn awake(&mut self) {}
}

impl NewestReader {
    /// Reads as [`NewestSlot::read`]. A fresh value costs no system call. Otherwise it checks every 0.1 s that
    /// interface and program still exist (three system calls).
    ///
    /// # Errors
    /// The interface is gone, or down (reported once); the program was detached by another process.
    #[inline]
    pub fn read(&mut self, out: &mut [u8]) -> Result<Option<Newest>, LinkError> {
        let newest = self.slot.read(out);
        if newest.is_none_or(|newest| !newest.fresh) {
            self.check()?;
        }
        Ok(newest)
    }

    fn check(&mut self) -> Result<(), LinkError> {
        let now = clock::now_ns(Clock::Monotonic);
        if now < self.next_check_ns {
            return Ok(());
        }
        self.next_check_ns = now + CHECK.as_nanos() as u64;
        self.waiter.check(&self.slot.channel.program)
    }

    /// Waits, in the way chosen at open, for a newer value than the last read returned; returns `true` if there is
    /// one. `None` waits for ever. At most one system call, none while spinning.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, LinkError> {
        let mut newer = Newer {
            seen: self.slot.seen,
            slot: &self.slot,
        };
        self.waiter
            .wait(&self.slot.channel.program, &mut newer, timeout)
    }

    /// Prepares a wait elsewhere (`epoll`, an async runtime). Returns `true` if there is a newer value than the last read returned. Otherwise
    /// [`descriptor`](Self::descriptor) becomes readable when one comes, or when the interface goes down. Two system calls,
    /// one more for each frame that woke the last wait, and the four that check interface and program.
    ///
    /// # Errors
    /// As [`wait`](Self::wait). [`LinkError::Unsupported`]: it was opened to spin.
    pub fn arm(&mut self) -> Result<bool, LinkError> {
        let mut newer = Newer {
            seen: self.slot.seen,
            slot: &self.slot,
        };
        self.waiter.arm(&self.slot.channel.program, &mut newer)
    }

    /// Returns the descriptor that `epoll` takes: see [`arm`](Self::arm). Only wait for it, never read from it.
    ///
    /// # Errors
    /// [`LinkError::Unsupported`]: it was opened to spin.
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>, LinkError> {
        self.waiter.descriptor()
    }

    /// Returns the slot that it reads.
    #[must_use]
    pub fn slot(&self) -> &NewestSlot {
        &self.slot
    }
}

impl ReceiveProgram {
    /// Opens a newest-value channel at a port. Frames with another key or other semantics are dropped and counted.
    ///
    /// # Errors
    /// The port is in use, or all channels are in use.
    pub fn newest_channel(&self, port: u16, key: u32) -> Result<NewestSlot, ProgramError> {
        self.newest_channel_with_notes(port, key, 0)
    }

    /// Opens a newest-value channel that also notes the arrival of every value that it accepts, for
    /// [`NewestSlot::arrivals`]. It keeps the newest `notes`, rounded up to a power of two, at most [`MOST_NOTES`]; 0 for
    /// none. Each takes 32 bytes of kernel memory.
    ///
    /// # Errors
    /// As [`newest_channel`](Self::newest_channel); or the memory is missing.
    ///
    /// [`MOST_NOTES`]: super::MOST_NOTES
    pub fn newest_channel_with_notes(
        &self,
        port: u16,
        key: u32,
        notes: usize,
    ) -> Result<NewestSlot, ProgramError> {
        let no_memory = |source| ProgramError::NoteMemory { notes, source };
        let memory = match notes {
            0 => None,
            _ => Some(NoteMemory::new(notes).map_err(no_memory)?),
        };
        let prepare = |program: &Shared, index: usize| {
            for word in 0..SLOT_WORDS {
                if let Some(word) = program.slots.word(index, word) {
                    word.store(0, Ordering::Relaxed);
                }
            }
            let Some(memory) = &memory else { return Ok(()) };
            let put = program.notes.put(index as u32, memory.map());
            put.map_err(|errno| no_memory(std::io::Error::from_raw_os_error(errno.0)))?;
            if let Some(word) = program.slots.word(index, Slot::Notes as usize) {
                word.store(memory.places(), Ordering::Release);
            }
            Ok(())
        };
        let channel = self.open(port, key, super::layout::Action::Newest, prepare)?;
        Ok(NewestSlot::new(channel, memory))
    }
}
