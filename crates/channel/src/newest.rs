//! The receiving end of a newest-value channel: the newest value, when it came, and how many were skipped.

mod kept;

use crate::endpoint::Registration;
use crate::error::ChannelError;
use crate::feed::not_udp;
use crate::inbox::{Inbox, SourceAddress};
use crate::path::ListenerPath;
use crate::statistics::ListenerStatistics;
use kept::Kept;
use rtwire_link::program::NewestReader;
use rtwire_wire::Pcp;
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
    /// Its urgency.
    pub priority: Pcp,
    /// When the talker sent it, ns of its CLOCK_TAI, if it said so.
    pub sender_time_ns: Option<u64>,
    /// When it came, ns of CLOCK_TAI: the kernel's stamp, or when it was fetched if the kernel has not stamped it.
    pub arrival_ns: u64,
    /// Whether `arrival_ns` is the kernel's stamp.
    pub stamped: bool,
    /// Whether this value is another than the last read gave.
    pub fresh: bool,
    /// Values that were sent between the last read's and this one's, and never read.
    pub skipped: u64,
    /// Since the last read more values came than the queue holds: newer ones than this were lost. Read more often, or
    /// open with more room.
    pub overrun: bool,
}

/// Octets of user data that a listener has room for.
const ROOM: usize = 1536;

/// Reads the newest value of one channel. Opened by [`Endpoint::newest_listener`](crate::Endpoint::newest_listener).
///
/// A value never follows a later one of the same talker; numbers are compared modulo 2³². A talker that begins again is
/// known by its time, which is later though its number is not (see [`SequenceTracker`](crate::sequence::SequenceTracker)).
#[derive(Debug)]
pub struct NewestListener {
    source: Source,
}

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one for each listener, and reached without a detour"
)]
enum Source {
    Kept(Kept),
    Slot(Box<Slot>),
}

/// The newest value in the receive program's memory.
#[derive(Debug)]
struct Slot {
    /// Before the reader: what the program has counted is read a last time before its channel closes.
    registration: Registration,
    reader: NewestReader,
    data: [u8; ROOM],
}

impl NewestListener {
    pub(crate) fn new(inbox: Inbox, places: usize) -> Self {
        Self {
            source: Source::Kept(Kept::new(inbox, places)),
        }
    }

    pub(crate) fn in_program(reader: NewestReader, registration: Registration) -> Self {
        Self {
            source: Source::Slot(Box::new(Slot {
                registration,
                reader,
                data: [0; ROOM],
            })),
        }
    }

    /// Gives the newest value; `None` before the first. Does not wait. With the receive program no system call but one look
    /// in 0.1 s whether interface and program are still there, while nothing fresh comes; with packet sockets two system
    /// calls if opened to block or for UDP, else none. No allocation.
    ///
    /// # Errors
    /// The interface is gone or down; the receive program was detached by somebody else.
    #[inline]
    pub fn read(&mut self) -> Result<Option<Newest<'_>>, ChannelError> {
        match &mut self.source {
            Source::Kept(kept) => kept.read(),
            Source::Slot(slot) => slot.read(),
        }
    }

    /// Waits until there is a newer value than the last read gave; gives whether there is. Waits as chosen at open.
    ///
    /// # Errors
    /// The interface is gone or down; the receive program was detached by somebody else.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, ChannelError> {
        match &mut self.source {
            Source::Kept(kept) => kept.wait(timeout),
            Source::Slot(slot) => Ok(slot.reader.wait(timeout)?),
        }
    }

    /// The way its frames come.
    #[must_use]
    pub fn path(&self) -> &ListenerPath {
        match &self.source {
            Source::Kept(kept) => kept.path(),
            Source::Slot(slot) => slot.registration.path(),
        }
    }

    /// Receives in this reader's own calls: one that finds nothing polls the driver, for `budget` where it waits and once
    /// where it does not. See [`rtwire_link::Receiver::busy_poll`] for what it needs. UDP only.
    ///
    /// # Errors
    /// The channel is not over UDP; CAP_NET_ADMIN is missing.
    pub fn busy_poll(&mut self, budget: Duration) -> Result<(), ChannelError> {
        match &mut self.source {
            Source::Kept(kept) => kept.busy_poll(budget),
            Source::Slot(_) => Err(not_udp()),
        }
    }

    /// What was counted so far. Two system calls with packet sockets: not for a real-time loop. With the receive program
    /// values that came behind a later one and those that came twice are not told apart: `reordered` counts both.
    ///
    /// # Errors
    /// The kernel refuses to tell what it has dropped.
    pub fn statistics(&mut self) -> Result<ListenerStatistics, ChannelError> {
        match &mut self.source {
            Source::Kept(kept) => kept.statistics(),
            Source::Slot(slot) => Ok(slot.statistics()),
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
            // The program takes none above 7.
            priority: Pcp::new(newest.priority).unwrap_or(Pcp::HIGHEST),
            sender_time_ns: newest.sender_time_ns,
            arrival_ns: newest.arrival_ns,
            stamped: true,
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
