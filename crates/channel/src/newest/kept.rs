//! The newest value, kept by its reader, which fetches all received values and discards all but the newest.

use super::notes::NoteRing;
use super::{ArrivalNote, Newest};
use crate::config::ListenerConfig;
use crate::error::ChannelError;
use crate::inbox::{Accepted, Inbox};
use crate::path::ListenerPath;
use crate::sequence::Seen;
use crate::stamp::StampPlace;
use crate::statistics::ListenerStatistics;
use rtwire_sys::clock::{self, Clock};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Keeps the newest value of a packet socket or UDP socket.
///
/// A value never follows a later one of the same talker; sequence numbers are compared modulo 2³². A restarted talker
/// is recognised by its time of sending, which is later although its number is lower (see
/// [`SequenceTracker`](crate::sequence::SequenceTracker)).
#[derive(Debug)]
pub(crate) struct Kept {
    inbox: Inbox,
    places: usize,
    data: Box<[u8]>,
    current: Option<Accepted>,
    /// Time and place of the stamp.
    arrival: (u64, StampPlace),
    fresh: bool,
    skipped: u64,
    overrun: bool,
    dropped: u64,
    notes: NoteRing,
}

impl Kept {
    pub(crate) fn new(inbox: Inbox, config: &ListenerConfig) -> Self {
        Self {
            inbox,
            places: config.queue_frames,
            notes: NoteRing::new(config.arrivals),
            data: vec![0; 1536].into_boxed_slice(),
            current: None,
            arrival: (0, StampPlace::Reader),
            fresh: false,
            skipped: 0,
            overrun: false,
            dropped: 0,
        }
    }

    /// Returns the newest value.
    pub(crate) fn read(&mut self) -> Result<Option<Newest<'_>>, ChannelError> {
        self.fetch()?;
        let Some(current) = &self.current else {
            return Ok(None);
        };
        let newest = Newest {
            data: &self.data[..current.length],
            sequence: current.header.sequence,
            source_port: current.header.source_port,
            source: current.source,
            priority: current.header.priority,
            sender_time_ns: current.header.time_ns,
            arrival_ns: self.arrival.0,
            stamp: self.arrival.1,
            fresh: self.fresh,
            skipped: self.skipped,
            overrun: self.overrun,
        };
        self.fresh = false;
        self.skipped = 0;
        self.overrun = false;
        Ok(Some(newest))
    }

    /// Waits until there is a value that was not read yet.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, ChannelError> {
        let start = clock::now_ns(Clock::Monotonic);
        let mut left = timeout;
        while !self.fresh {
            if !self.inbox.wait(left)? {
                return Ok(false);
            }
            self.fetch()?;
            let passed = clock::now_ns(Clock::Monotonic).saturating_sub(start);
            left = timeout.map(|timeout| timeout.saturating_sub(Duration::from_nanos(passed)));
            if left == Some(Duration::ZERO) {
                break;
            }
        }
        Ok(self.fresh)
    }

    /// Prepares a wait at [`descriptor`](Self::descriptor); `true` if there is a value that was not read yet.
    pub(crate) fn arm(&mut self) -> Result<bool, ChannelError> {
        self.descriptor()?;
        loop {
            self.fetch()?;
            if self.fresh || !self.inbox.arm()? {
                return Ok(self.fresh);
            }
        }
    }

    pub(crate) fn descriptor(&self) -> Result<BorrowedFd<'_>, ChannelError> {
        self.inbox.descriptor()
    }

    fn fetch(&mut self) -> Result<(), ChannelError> {
        let mut taken = 0;
        while self.inbox.look()? {
            taken += 1;
            if self.inbox.examine() {
                self.accept();
            }
            self.inbox.release();
            // A flood must not keep a reader here for ever.
            if taken >= 4 * self.places {
                break;
            }
        }
        // Only a full queue can have lost frames, so the call is spared otherwise. (The number of frames that fill a
        // blocking queue depends on the driver's memory for each.)
        if taken >= self.places.div_ceil(4) {
            let dropped = self.inbox.dropped()?;
            self.overrun |= dropped > self.dropped;
            self.dropped = dropped;
        }
        Ok(())
    }

    fn accept(&mut self) {
        let (accepted, from) = self.inbox.current();
        let (arrival_ns, stamp) = accepted.arrival(self.inbox.stamp_place());
        if accepted.seen != Seen::Duplicate {
            self.notes.push(ArrivalNote {
                sequence: accepted.header.sequence,
                arrival_ns,
                stamp,
                sender_time_ns: accepted.header.time_ns,
                source: accepted.source,
                source_port: accepted.header.source_port,
            });
        }
        let skipped = match accepted.seen {
            Seen::New { skipped } => skipped,
            Seen::Restart => 0,
            Seen::Late | Seen::Duplicate => return,
        };
        self.skipped += u64::from(skipped) + u64::from(self.fresh);
        self.fresh = true;
        self.data[..from.len()].copy_from_slice(from);
        self.arrival = (arrival_ns, stamp);
        self.current = Some(*accepted);
    }

    /// Shows the arrivals of fetched values since the last call.
    pub(crate) fn arrivals(&mut self, show: impl FnMut(ArrivalNote)) -> u64 {
        self.notes.drain(show)
    }

    pub(crate) fn arrivals_missed(&self) -> u64 {
        self.notes.missed()
    }

    pub(crate) fn path(&self) -> &ListenerPath {
        self.inbox.path()
    }

    pub(crate) fn busy_poll(&mut self, budget: Duration) -> Result<(), ChannelError> {
        self.inbox.busy_poll(budget)
    }

    pub(crate) fn statistics(&mut self) -> Result<ListenerStatistics, ChannelError> {
        self.inbox.statistics()
    }
}
