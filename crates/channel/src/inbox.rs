//! The common part of both kinds of listeners: it takes a frame, checks it, counts it, and follows its sender.

use crate::config::ListenerConfig;
use crate::error::ChannelError;
use crate::feed::{Fed, Feed, accepted};
use crate::path::ListenerPath;
use crate::registration::Registration;
use crate::sequence::{Seen, SequenceCounts, SequenceTracker};
use crate::stamp::StampPlace;
use crate::statistics::{ListenerStatistics, Reason, reason};
use rtwire_link::Frame;
use rtwire_link::program::Bucket;
use rtwire_sys::clock::{self, Clock};
use rtwire_wire::rtdip::{Header, Semantics};
use rtwire_wire::{MacAddress, Pcp, ethernet};
use std::net::SocketAddrV4;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Source address of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SourceAddress {
    /// MAC address, for frames.
    Mac(MacAddress),
    /// UDP address, for datagrams.
    Udp(SocketAddrV4),
}

/// A received value.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
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
}

/// Properties of an accepted frame, without its data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accepted {
    pub(crate) header: Header,
    pub(crate) source: SourceAddress,
    pub(crate) stamp_ns: Option<u64>,
    /// Offset of the data in the frame.
    pub(crate) start: usize,
    pub(crate) length: usize,
    pub(crate) seen: Seen,
}

impl Accepted {
    pub(crate) const EMPTY: Self = Self {
        header: Header {
            semantics: Semantics::Queue,
            priority: Pcp::LOWEST,
            destination_port: 0,
            source_port: 0,
            sequence: 0,
            key: 0,
            time_ns: None,
        },
        source: SourceAddress::Mac(MacAddress([0; 6])),
        stamp_ns: None,
        start: 0,
        length: 0,
        seen: Seen::New { skipped: 0 },
    };

    /// Returns the arrival time, and the place where it was taken: `place` if there is a stamp.
    #[inline]
    pub(crate) fn arrival(&self, place: StampPlace) -> (u64, StampPlace) {
        match self.stamp_ns {
            Some(stamp_ns) => (stamp_ns, place),
            None => (clock::now_ns(Clock::Tai), StampPlace::Reader),
        }
    }

    #[inline]
    pub(crate) fn with<'a>(&self, data: &'a [u8], place: StampPlace) -> Received<'a> {
        let (arrival_ns, stamp) = self.arrival(place);
        Received {
            data,
            sequence: self.header.sequence,
            source_port: self.header.source_port,
            source: self.source,
            priority: self.header.priority,
            sender_time_ns: self.header.time_ns,
            arrival_ns,
            stamp,
        }
    }
}

/// Number of senders of one channel that are followed at once.
const SENDERS: usize = 16;

#[derive(Debug)]
struct Sender {
    source: SourceAddress,
    port: u16,
    tracker: SequenceTracker,
}

/// Follows the sequence numbers of several senders in fixed memory.
#[derive(Debug)]
struct Senders {
    known: Vec<Sender>,
    replace: usize,
    /// Counts of senders that are no longer followed.
    past: SequenceCounts,
}

impl Senders {
    fn observe(&mut self, source: SourceAddress, header: &Header) -> Seen {
        let port = header.source_port;
        let found = self
            .known
            .iter()
            .position(|s| s.port == port && s.source == source);
        let at = found.unwrap_or_else(|| self.add(source, port));
        self.known[at]
            .tracker
            .observe(header.sequence, header.time_ns)
    }

    fn add(&mut self, source: SourceAddress, port: u16) -> usize {
        let sender = Sender {
            source,
            port,
            tracker: SequenceTracker::new(),
        };
        if self.known.len() < SENDERS {
            self.known.push(sender);
            return self.known.len() - 1;
        }
        let at = self.replace;
        self.replace = (at + 1) % SENDERS;
        self.past = sum(self.past, self.known[at].tracker.counts());
        self.known[at] = sender;
        at
    }

    fn counts(&self) -> SequenceCounts {
        self.known
            .iter()
            .fold(self.past, |total, s| sum(total, s.tracker.counts()))
    }
}

fn sum(a: SequenceCounts, b: SequenceCounts) -> SequenceCounts {
    SequenceCounts {
        seen: a.seen + b.seen,
        lost: a.lost + b.lost,
        duplicated: a.duplicated + b.duplicated,
        reordered: a.reordered + b.reordered,
        restarted: a.restarted + b.restarted,
    }
}

/// The receiving end of one channel, before any sorting.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// Declared before the feed, so that the receive program's counters are read a last time before its channel
    /// closes.
    registration: Registration,
    feed: Feed,
    config: ListenerConfig,
    semantics: Semantics,
    senders: Senders,
    received: u64,
    unstamped: u64,
    /// The oldest frame, if it was accepted. One place, so that it is written only once.
    current: Accepted,
    /// The contract, where the receive program does not apply it.
    bucket: Option<Bucket>,
}

impl Inbox {
    pub(crate) fn new(
        feed: Feed,
        config: ListenerConfig,
        semantics: Semantics,
        registration: Registration,
    ) -> Result<Self, ChannelError> {
        let bucket = match (&feed, &config.police) {
            (Feed::Link(_), Some(police)) => Some(Bucket::new(police)?),
            _ => None,
        };
        Ok(Self {
            registration,
            feed,
            config,
            semantics,
            senders: Senders {
                known: Vec::with_capacity(SENDERS),
                replace: 0,
                past: SequenceCounts::default(),
            },
            received: 0,
            unstamped: 0,
            current: Accepted::EMPTY,
            bucket,
        })
    }

    pub(crate) fn path(&self) -> &ListenerPath {
        self.registration.path()
    }

    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, ChannelError> {
        self.feed.wait(timeout)
    }

    pub(crate) fn arm(&mut self) -> Result<bool, ChannelError> {
        self.feed.arm()
    }

    pub(crate) fn descriptor(&self) -> Result<BorrowedFd<'_>, ChannelError> {
        self.feed.descriptor()
    }

    pub(crate) fn stamp_place(&self) -> StampPlace {
        self.feed.stamp_place()
    }

    pub(crate) fn busy_poll(&mut self, budget: Duration) -> Result<(), ChannelError> {
        self.feed.busy_poll(budget)
    }

    pub(crate) fn look(&mut self) -> Result<bool, ChannelError> {
        self.feed.look()
    }

    pub(crate) fn available(&mut self, ahead: usize) -> bool {
        self.feed.available(ahead)
    }

    pub(crate) fn release(&mut self) {
        self.feed.release();
    }

    /// Returns the oldest frame, which [`examine`](Self::examine) has accepted, and its data.
    pub(crate) fn current(&self) -> (&Accepted, &[u8]) {
        let data = match self.feed.peek() {
            Some(Fed::Frame(frame)) => {
                let end = self.current.start + self.current.length;
                frame.data.get(self.current.start..end)
            }
            Some(Fed::Judged(frame)) => Some(frame.data),
            None => None,
        };
        (&self.current, data.unwrap_or(&[]))
    }

    /// Checks the oldest frame. An accepted frame becomes [`current`](Self::current); a refused one is counted by its
    /// fault. Call it once for each frame; it does not release the frame.
    pub(crate) fn examine(&mut self) -> bool {
        match self.feed.peek() {
            None => return false,
            Some(Fed::Judged(frame)) => {
                self.current = accepted(&frame, (self.config.port, self.config.key));
            }
            Some(Fed::Frame(frame)) => {
                let judged = judge(&frame, &self.config, self.semantics, &mut self.current);
                if let Err(reason) = judged.and_then(|()| police(&frame, self.bucket.as_mut())) {
                    self.registration.refusals().count(reason);
                    return false;
                }
            }
        }
        self.received += 1;
        let current = &mut self.current;
        self.unstamped += u64::from(self.config.stamps && current.stamp_ns.is_none());
        current.seen = self.senders.observe(current.source, &current.header);
        true
    }

    pub(crate) fn dropped(&mut self) -> Result<u64, ChannelError> {
        self.feed.dropped()
    }

    pub(crate) fn statistics(&mut self) -> Result<ListenerStatistics, ChannelError> {
        let counts = self.senders.counts();
        Ok(ListenerStatistics {
            received: self.received,
            lost: counts.lost,
            duplicated: counts.duplicated,
            reordered: counts.reordered,
            restarted: counts.restarted,
            unstamped: self.unstamped,
            dropped: self.feed.dropped()?,
            refused: self.registration.refused(),
        })
    }
}

/// Checks a frame; writes the properties of an acceptable one to `accepted`.
#[inline]
fn judge(
    frame: &Frame<'_>,
    config: &ListenerConfig,
    semantics: Semantics,
    accepted: &mut Accepted,
) -> Result<(), Reason> {
    let (packet, source) = match frame.source {
        Some(address) => (frame.data, SourceAddress::Udp(address)),
        None => {
            let ethernet = ethernet::Frame::new(frame.data).map_err(|_| Reason::Truncated)?;
            (ethernet.payload(), SourceAddress::Mac(ethernet.source()))
        }
    };
    if frame.truncated {
        return Err(Reason::WrongLength);
    }
    let (header, data) = Header::parse(packet).map_err(reason)?;
    if header.destination_port != config.port {
        return Err(Reason::UnknownPort);
    }
    if header.key != config.key {
        return Err(Reason::WrongKey);
    }
    if header.semantics != semantics {
        return Err(Reason::WrongSemantics);
    }
    accepted.start = frame.data.len() - packet.len() + header.octets();
    accepted.length = data.len();
    accepted.header = header;
    accepted.source = source;
    accepted.stamp_ns = frame.stamp_tai_ns;
    Ok(())
}

/// Applies the channel's contract to a frame when it is fetched.
#[inline]
fn police(frame: &Frame<'_>, bucket: Option<&mut Bucket>) -> Result<(), Reason> {
    /// Bytes of the Ethernet, IPv4 and UDP headers, which a datagram does not show.
    const OUTSIDE: usize = 42;
    let Some(bucket) = bucket else { return Ok(()) };
    let outside = frame.source.map_or(0, |_| OUTSIDE);
    let now_ns = clock::now_ns(Clock::Monotonic);
    let conforms = bucket.conforms(frame.data.len() + outside, now_ns);
    if conforms {
        Ok(())
    } else {
        Err(Reason::Policed)
    }
}
