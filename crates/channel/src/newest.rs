//! The receiving end of a newest-value channel: the newest value, its arrival time, and the number of skipped values; on
//! request the arrival of every value, of skipped ones, too.

mod kept;
mod notes;

use crate::config::ListenerConfig;
use crate::error::ChannelError;
use crate::feed::not_udp;
use crate::inbox::{Inbox, SourceAddress};
use crate::path::ListenerPath;
use crate::registration::Registration;
use crate::stamp::StampPlace;
use crate::statistics::ListenerStatistics;
use kept::Kept;
use rtwire_link::program::{ArrivalNotes, NewestReader};
use rtwire_wire::Pcp;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// The newest value of a channel.
#[derive(Clone, Copy, Debug)]
pub struct Newest<'a> {
    /// The user data.
    pub data: &'a [u8],
    /// Its sequence number.
    pub sequence: u32,
    /// The talker's port.
    pub source_port: u16,
    /// The talker's address.
    pub source: SourceAddress,
    /// Its priority.
    pub priority: Pcp,
    /// Time of sending, in ns of the talker's CLOCK_TAI; `None` if the talker does not write it.
    pub sender_time_ns: Option<u64>,
    /// Arrival time, in ns of CLOCK_TAI.
    pub arrival_ns: u64,
    /// The place where it was taken.
    pub stamp: StampPlace,
    /// `true` if this value is not the one that the last read returned.
    pub fresh: bool,
    /// Number of values sent between the last read's value and this one, and never read.
    pub skipped: u64,
    /// `true` if more values came since the last read than the queue holds, so that newer ones than this were lost.
    /// Read more often, or open with more room.
    pub overrun: bool,
}

/// The arrival of one value, read or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivalNote {
    /// Its sequence number.
    pub sequence: u32,
    /// Arrival time, in ns of CLOCK_TAI.
    pub arrival_ns: u64,
    /// The place where it was taken.
    pub stamp: StampPlace,
    /// Time of sending, in ns of the talker's CLOCK_TAI; `None` if the talker does not write it.
    pub sender_time_ns: Option<u64>,
    /// The talker's address.
    pub source: SourceAddress,
    /// The talker's port.
    pub source_port: u16,
}

/// Bytes of user data that a listener has room for.
const ROOM: usize = 1536;

/// Reads the newest value of one channel. Opened by [`Endpoint::newest_listener`](crate::Endpoint::newest_listener).
///
/// A value never follows a later one of the same talker; sequence numbers are compared modulo 2³². A restarted talker
/// is recognised by its time of sending, which is later although its number is lower (see
/// [`SequenceTracker`](crate::sequence::SequenceTracker)).
#[derive(Debug)]
pub struct NewestListener {
    source: Source,
}

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one for each listener, and reached without an indirection"
)]
enum Source {
    Kept(Kept),
    Slot(Box<Slot>),
}

/// The newest value in the receive program's memory.
#[derive(Debug)]
struct Slot {
    /// Declared before the reader, so that the receive program's counters are read a last time before its channel
    /// closes.
    registration: Registration,
    reader: NewestReader,
    arrivals: Option<ArrivalNotes>,
    data: [u8; ROOM],
}

impl NewestListener {
    pub(crate) fn new(inbox: Inbox, config: &ListenerConfig) -> Self {
        Self {
            source: Source::Kept(Kept::new(inbox, config)),
        }
    }

    pub(crate) fn in_program(reader: NewestReader, registration: Registration) -> Self {
        Self {
            source: Source::Slot(Box::new(Slot {
                registration,
                arrivals: reader.slot().arrivals(),
                reader,
                data: [0; ROOM],
            })),
        }
    }

    /// Returns the newest value, or `None` before the first. Does not wait and does not allocate.
    ///
    /// With the receive program it makes no system call, except one every 0.1 s while nothing fresh arrives. That one
    /// checks that the interface and the program still exist. With packet sockets it makes two system calls if opened
    /// to block or for UDP, else none.
    ///
    /// # Errors
    /// The interface is gone or down; the receive program was detached by another process.
    #[inline]
    pub fn read(&mut self) -> Result<Option<Newest<'_>>, ChannelError> {
        match &mut self.source {
            Source::Kept(kept) => kept.read(),
            Source::Slot(slot) => slot.read(),
        }
    }

    /// Waits, in the way chosen at open, for a newer value than the last read returned. Returns `true` if there is
    /// one.
    ///
    /// # Errors
    /// The interface is gone or down; the receive program was detached by another process.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, ChannelError> {
        match &mut self.source {
            Source::Kept(kept) => kept.wait(timeout),
            Source::Slot(slot) => Ok(slot.reader.wait(timeout)?),
        }
    }

    /// Prepares a wait elsewhere (`epoll`, an async runtime). Returns `true` if there is a newer value than the last read
    /// returned. Otherwise [`descriptor`](Self::descriptor) becomes readable when a frame comes, which may still be refused,
    /// or when the interface goes down. So call it before each wait. Some system calls where no value is there.
    ///
    /// # Errors
    /// As [`wait`](Self::wait). The listener was opened to spin with the receive program, or its path is `uman`.
    pub fn arm(&mut self) -> Result<bool, ChannelError> {
        match &mut self.source {
            Source::Kept(kept) => kept.arm(),
            Source::Slot(slot) => Ok(slot.reader.arm()?),
        }
    }

    /// Returns the descriptor that `epoll` takes: see [`arm`](Self::arm). Only wait for it, never read from it.
    ///
    /// # Errors
    /// The listener was opened to spin with the receive program, or its path is `uman`.
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>, ChannelError> {
        match &self.source {
            Source::Kept(kept) => kept.descriptor(),
            Source::Slot(slot) => Ok(slot.reader.descriptor()?),
        }
    }

    /// Shows the arrival of every accepted value since the last call, oldest first, whether it was read or not.
    /// Returns their number: 0 if [`ListenerConfig::arrivals`] is 0. No system call, no wait, no allocation.
    ///
    /// Notes that later ones have overwritten since the last call are not shown, but counted by
    /// [`arrivals_missed`](Self::arrivals_missed). With packet sockets a value is noted when [`read`](Self::read) or
    /// [`wait`](Self::wait) fetches it, so read first. Its arrival is then the kernel's timestamp all the same; values
    /// beyond the queue's room are lost and counted ([`ListenerStatistics::dropped`]).
    pub fn arrivals(&mut self, mut show: impl FnMut(ArrivalNote)) -> u64 {
        match &mut self.source {
            Source::Kept(kept) => kept.arrivals(show),
            Source::Slot(slot) => {
                let notes = slot.arrivals.as_mut();
                notes.map_or(0, |notes| notes.drain(|note| show(note.into())))
            }
        }
    }

    /// Returns the notes of arrivals that were overwritten before [`arrivals`](Self::arrivals) could show them.
    #[must_use]
    pub fn arrivals_missed(&self) -> u64 {
        match &self.source {
            Source::Kept(kept) => kept.arrivals_missed(),
            Source::Slot(slot) => slot.arrivals.as_ref().map_or(0, ArrivalNotes::missed),
        }
    }

    /// Returns the receive path of this listener.
    #[must_use]
    pub fn path_in_use(&self) -> &ListenerPath {
        match &self.source {
            Source::Kept(kept) => kept.path(),
            Source::Slot(slot) => slot.registration.path(),
        }
    }

    /// Polls the driver in this reader's own receive calls when no value is there. A call that waits polls for
    /// `budget`; one that does not wait polls once. For UDP only; see [`rtwire_link::Receiver::busy_poll`] for the
    /// requirements.
    ///
    /// # Errors
    /// The channel is not over UDP; CAP_NET_ADMIN is missing.
    pub fn busy_poll(&mut self, budget: Duration) -> Result<(), ChannelError> {
        match &mut self.source {
            Source::Kept(kept) => kept.busy_poll(budget),
            Source::Slot(_) => Err(not_udp()),
        }
    }

    /// Returns the counters so far. With packet sockets it makes two system calls, so it is not for a real-time loop.
    /// The receive program does not tell late values from duplicates: `reordered` counts both.
    ///
    /// # Errors
    /// The kernel does not report its dropped frames.
    pub fn statistics(&mut self) -> Result<ListenerStatistics, ChannelError> {
        match &mut self.source {
            Source::Kept(kept) => kept.statistics(),
            Source::Slot(slot) => Ok(slot.statistics()),
        }
    }
}

impl From<rtwire_link::program::ArrivalNote> for ArrivalNote {
    fn from(note: rtwire_link::program::ArrivalNote) -> Self {
        Self {
            sequence: note.sequence,
            arrival_ns: note.arrival_ns,
            stamp: StampPlace::Program,
            sender_time_ns: note.sender_time_ns,
            source: SourceAddress::Mac(note.source),
            source_port: note.source_port,
        }
    }
}

impl Slot {
    #[inline]
    fn read(&mut self) -> Result<Option<Newest<'_>>, ChannelError> {
        let Some(newest) = self.reader.read(&mut self.data)? else {
            return Ok(None);
        };
        Ok(Some(Newest {
            data: &self.data[..newest.length.min(ROOM)],
            sequence: newest.sequence,
            source_port: newest.source_port,
            source: SourceAddress::Mac(newest.source),
            // The receive program accepts no priority above 7.
            priority: Pcp::new(newest.priority).unwrap_or(Pcp::HIGHEST),
            sender_time_ns: newest.sender_time_ns,
            arrival_ns: newest.arrival_ns,
            stamp: StampPlace::Program,
            fresh: newest.fresh,
            skipped: newest.skipped,
            overrun: false,
        }))
    }

    fn statistics(&self) -> ListenerStatistics {
        let slot = self.reader.slot();
        let counters = slot.counters();
        ListenerStatistics {
            received: counters.accepted,
            lost: slot.missing(),
            reordered: counters.stale,
            dropped: counters.busy,
            refused: self.registration.refused(),
            ..ListenerStatistics::default()
        }
    }
}
