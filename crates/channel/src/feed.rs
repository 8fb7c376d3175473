//! Source of a queue's frames behind one interface: a receiver of the link crate, or a queue channel of the receive
//! program.

use crate::error::ChannelError;
use crate::inbox::{Accepted, SourceAddress};
use crate::sequence::Seen;
use crate::stamp::StampPlace;
use rtwire_link::program::{QueueChannel, QueueFrame};
use rtwire_link::{Frame, LinkError, Receiver};
use rtwire_wire::Pcp;
use rtwire_wire::rtdip::{Header, Semantics};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Returns the error for polling a channel of the receive program, which cannot poll.
pub(crate) fn not_udp() -> ChannelError {
    LinkError::Unsupported {
        what: "the receive program cannot poll a driver: poll with a receiver of datagrams on the same interface",
    }
    .into()
}

/// Frames, oldest first. The receive program returns the most urgent first.
#[derive(Debug)]
pub(crate) enum Feed {
    Link(Box<Receiver>),
    Program(Box<QueueChannel>),
}

/// A frame that is still to be checked, or one that the receive program has checked.
pub(crate) enum Fed<'a> {
    Frame(Frame<'a>),
    Judged(QueueFrame<'a>),
}

impl Feed {
    #[inline]
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, ChannelError> {
        Ok(match self {
            Self::Link(receiver) => receiver.wait(timeout)?,
            Self::Program(queue) => queue.wait(timeout)?,
        })
    }

    /// Prepares a wait at [`descriptor`](Self::descriptor); `true` if there is a frame already.
    pub(crate) fn arm(&mut self) -> Result<bool, ChannelError> {
        Ok(match self {
            Self::Link(receiver) => receiver.arm()?,
            Self::Program(queue) => queue.arm()?,
        })
    }

    pub(crate) fn descriptor(&self) -> Result<BorrowedFd<'_>, ChannelError> {
        Ok(match self {
            Self::Link(receiver) => receiver.descriptor()?,
            Self::Program(queue) => queue.descriptor()?,
        })
    }

    /// Returns who stamps the frames.
    pub(crate) fn stamp_place(&self) -> StampPlace {
        match self {
            Self::Link(receiver) if receiver.is_stamped_by_card() => StampPlace::Card,
            Self::Link(_) => StampPlace::Kernel,
            Self::Program(_) => StampPlace::Program,
        }
    }

    pub(crate) fn busy_poll(&mut self, budget: Duration) -> Result<(), ChannelError> {
        match self {
            Self::Link(receiver) => Ok(receiver.busy_poll(budget)?),
            Self::Program(_) => Err(not_udp()),
        }
    }

    #[inline]
    pub(crate) fn look(&mut self) -> Result<bool, ChannelError> {
        Ok(match self {
            Self::Link(receiver) => receiver.look()?,
            Self::Program(queue) => queue.look(),
        })
    }

    /// Returns `true` if there is a frame `ahead` places behind the next that may be more urgent. In the receive program
    /// the next frame is already the most urgent, so only `ahead` 0 can return `true`.
    #[inline]
    pub(crate) fn available(&mut self, ahead: usize) -> bool {
        match self {
            Self::Link(receiver) => receiver.available(ahead),
            Self::Program(queue) => ahead == 0 && queue.look(),
        }
    }

    #[inline]
    pub(crate) fn release(&mut self) {
        match self {
            Self::Link(receiver) => receiver.release(),
            Self::Program(queue) => queue.release(),
        }
    }

    #[inline]
    pub(crate) fn peek(&self) -> Option<Fed<'_>> {
        match self {
            Self::Link(receiver) => receiver.peek().map(Fed::Frame),
            Self::Program(queue) => queue.peek().map(Fed::Judged),
        }
    }

    /// Returns the frames lost for lack of room.
    pub(crate) fn dropped(&mut self) -> Result<u64, ChannelError> {
        Ok(match self {
            Self::Link(receiver) => receiver.dropped()?,
            Self::Program(queue) => queue.full(),
        })
    }
}

/// Describes a frame that the receive program has checked.
#[inline]
pub(crate) fn accepted(frame: &QueueFrame<'_>, (port, key): (u16, u32)) -> Accepted {
    Accepted {
        header: Header {
            semantics: Semantics::Queue,
            // The receive program accepts no priority above 7.
            priority: Pcp::new(frame.priority).unwrap_or(Pcp::HIGHEST),
            destination_port: port,
            source_port: frame.source_port,
            sequence: frame.sequence,
            key,
            time_ns: frame.sender_time_ns,
        },
        source: SourceAddress::Mac(frame.source),
        stamp_ns: frame.arrival_ns,
        start: 0,
        length: frame.data.len(),
        seen: Seen::New { skipped: 0 },
    }
}
