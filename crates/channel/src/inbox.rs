//! What both kinds of listeners share: take a frame, judge it, count it, follow its sender.

use crate::config::ListenerConfig;
use crate::endpoint::Registration;
use crate::error::ChannelError;
use crate::sequence::{Seen, SequenceCounts, SequenceTracker};
use crate::statistics::{ListenerStatistics, Reason};
use rtwire_link::{Frame, Receiver};
use rtwire_wire::rtdip::{Header, RtdipError, Semantics};
use rtwire_wire::{MacAddress, Pcp, ethernet};
use std::net::SocketAddrV4;
use std::time::Duration;

/// Where a value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SourceAddress {
    /// An interface, for frames.
    Mac(MacAddress),
    /// A UDP address, for datagrams.
    Udp(SocketAddrV4),
}

/// One value received.
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
    /// Its urgency.
    pub priority: Pcp,
    /// When the talker sent it, ns of its CLOCK_TAI, if it said so.
    pub sender_time_ns: Option<u64>,
    /// When the kernel received it, ns of CLOCK_TAI; `None` if it was not stamped.
    pub rx_stamp_ns: Option<u64>,
}

/// What is known of an accepted frame beside its data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accepted {
    pub(crate) header: Header,
    pub(crate) source: SourceAddress,
    pub(crate) stamp_ns: Option<u64>,
    /// Where the data lie in the frame.
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

    pub(crate) const fn with<'a>(&self, data: &'a [u8]) -> Received<'a> {
        Received {
            data,
            sequence: self.header.sequence,
            source_port: self.header.source_port,
            source: self.source,
            priority: self.header.priority,
            sender_time_ns: self.header.time_ns,
            rx_stamp_ns: self.stamp_ns,
        }
    }
}

/// The senders of a channel that are followed at once.
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
    /// What was counted of senders that are followed no longer.
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

/// The receiving end of one channel, before any order.
#[derive(Debug)]
pub(crate) struct Inbox {
    receiver: Receiver,
    config: ListenerConfig,
    semantics: Semantics,
    senders: Senders,
    received: u64,
    unstamped: u64,
    /// The oldest frame, if it was accepted. One place, so that it is written only once.
    current: Accepted,
    registration: Registration,
}

impl Inbox {
    pub(crate) fn new(
        receiver: Receiver,
        config: ListenerConfig,
        semantics: Semantics,
        registration: Registration,
    ) -> Self {
        Self {
            receiver,
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
            registration,
        }
    }

    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, ChannelError> {
        Ok(self.receiver.wait(timeout)?)
    }

    pub(crate) fn busy_poll(&mut self, budget: Duration) -> Result<(), ChannelError> {
        Ok(self.receiver.busy_poll(budget)?)
    }

    pub(crate) fn look(&mut self) -> Result<bool, ChannelError> {
        Ok(self.receiver.look()?)
    }

    pub(crate) fn available(&self, ahead: usize) -> bool {
        self.receiver.available(ahead)
    }

    pub(crate) fn release(&mut self) {
        self.receiver.release();
    }

    /// The oldest frame, which [`examine`](Self::examine) has accepted, and its data.
    pub(crate) fn current(&self) -> (&Accepted, &[u8]) {
        let frame = self.receiver.peek().map_or(&[][..], |frame| frame.data);
        let end = self.current.start + self.current.length;
        (
            &self.current,
            frame.get(self.current.start..end).unwrap_or(&[]),
        )
    }

    /// Judges the oldest frame: accepted, then it is [`current`](Self::current), or counted by its fault. To be asked once
    /// for each frame; does not release it.
    pub(crate) fn examine(&mut self) -> bool {
        let Some(frame) = self.receiver.peek() else {
            return false;
        };
        if let Err(reason) = judge(&frame, &self.config, self.semantics, &mut self.current) {
            self.registration.refusals().count(reason);
            return false;
        }
        self.received += 1;
        let current = &mut self.current;
        self.unstamped += u64::from(self.config.stamps && current.stamp_ns.is_none());
        current.seen = self.senders.observe(current.source, &current.header);
        true
    }

    pub(crate) fn dropped(&mut self) -> Result<u64, ChannelError> {
        Ok(self.receiver.dropped()?)
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
            dropped: self.receiver.dropped()?,
            refused: self.registration.refusals().read(),
        })
    }
}

/// Writes what there is to know of an acceptable frame to `accepted`.
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

pub(crate) fn reason(error: RtdipError) -> Reason {
    match error {
        RtdipError::Truncated { .. } => Reason::Truncated,
        RtdipError::Version { .. } => Reason::WrongVersion,
        RtdipError::Length { .. } | RtdipError::TooLong { .. } => Reason::WrongLength,
        RtdipError::Flags { .. } | RtdipError::Priority { .. } => Reason::Malformed,
    }
}
