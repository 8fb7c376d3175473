//! The sending end of a planned stream, for values at any time: under the token bucket of its contract.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rtwire_channel::{CardTime, ChannelError, LinkError, Shaper, Talker, TalkerStatistics};

use crate::agent::Lease;
use crate::channels;
use crate::cyclic::CyclicTalker;
use crate::error::SessionError;
use crate::hold::Hold;
use crate::real_time::{Waited, now_ns, sleep_until};
use crate::task::{Pattern, TalkerTask};

/// The tick in ns of a bucket that is checked for each value: fine enough to count as continuous.
pub(crate) const FINEST_TICK_NS: u64 = 1_000;

/// The outcome of a send call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The kernel has taken it, under this sequence number.
    Sequence(u32),
    /// The contract does not allow it yet. Nothing was sent.
    NotYet {
        /// The earliest time that the contract allows, ns of CLOCK_TAI.
        earliest_tai_ns: u64,
    },
    /// The interface's own queue was full and dropped it. Its sequence number is used up, so listeners count a loss. Or the socket's
    /// send buffer is full, since a shaper or a shut gate holds too many frames: then the kernel did not take it, and it has no number.
    QueueFull,
}

/// The talker of one stream. Opened by [`Session::talker`](crate::Session::talker).
#[derive(Debug)]
pub struct StreamTalker {
    pub(crate) task: TalkerTask,
    pub(crate) talker: Talker,
    pub(crate) shaper: Shaper,
    /// The time of the newest try, ns of CLOCK_TAI: an earlier one shows that the clock was set back.
    newest_ns: u64,
    /// The agent's part, if that has opened the socket.
    pub(crate) lease: Option<Lease>,
    pub(crate) hold: Hold,
}

/// Returns the outcome of a channel's send call.
pub(crate) fn sent(
    task: &TalkerTask,
    result: Result<u32, ChannelError>,
) -> Result<Sent, SessionError> {
    match result {
        Ok(sequence) => Ok(Sent::Sequence(sequence)),
        Err(ChannelError::Link(LinkError::QueueFull | LinkError::LaunchRefused { .. })) => {
            Ok(Sent::QueueFull)
        }
        Err(source) => Err(SessionError::Channel {
            stream: task.name.clone(),
            source,
        }),
    }
}

impl StreamTalker {
    pub(crate) fn open(
        interface: &str,
        task: &TalkerTask,
        hold: Hold,
        card: Option<&Arc<CardTime>>,
    ) -> Result<Self, SessionError> {
        let talker = channels::talker(interface, task, card)?;
        Ok(Self::of(talker, task, hold, None))
    }

    /// Opens the talker at a socket of the agent.
    pub(crate) fn open_by_agent(
        interface: &str,
        task: &TalkerTask,
        hold: Hold,
        (lease, socket): (Lease, OwnedFd),
    ) -> Result<Self, SessionError> {
        let talker = channels::talker_by_agent(interface, task, socket)?;
        Ok(Self::of(talker, task, hold, Some(lease)))
    }

    fn of(talker: Talker, task: &TalkerTask, hold: Hold, lease: Option<Lease>) -> Self {
        Self {
            talker,
            shaper: match task.pattern {
                Pattern::Greedy => Shaper::unshaped(),
                Pattern::Saturating => channels::shaper(task, 0, task.shaping_interval_ns),
                _ => channels::shaper(task, 0, FINEST_TICK_NS),
            },
            task: task.clone(),
            newest_ns: 0,
            lease,
            hold,
        }
    }

    /// Refuses where the agent that has opened the socket has ended. No system call.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), SessionError> {
        self.lease.as_ref().map_or(Ok(()), Lease::check)
    }

    /// The stream's name.
    #[must_use]
    pub fn stream(&self) -> &str {
        &self.task.name
    }

    /// The largest value that the contract has room for, in bytes of user data.
    #[must_use]
    pub fn maximum_data(&self) -> usize {
        self.task.payload_bytes.min(self.talker.maximum_data())
    }

    /// Sends a value if the contract allows it now, else returns the earliest time. Does not wait or allocate; at most one
    /// system call.
    ///
    /// # Errors
    /// The value is longer than the contract's; the contract's burst does not hold one frame; the interface is missing or
    /// down; the agent that has opened the stream has ended.
    pub fn try_send(&mut self, value: &[u8]) -> Result<Sent, SessionError> {
        self.check()?;
        fits(&self.task, self.maximum_data(), value)?;
        let now_ns = now_ns();
        if now_ns < self.newest_ns {
            self.shaper.clock_was_set_back(now_ns);
        }
        self.newest_ns = now_ns;
        // On the ticks of its shaping interval, and after each no later than the plan assumes.
        let earliest = self.shaper.earliest(now_ns, self.task.wire_bits);
        let earliest_tai_ns =
            earliest.ok_or_else(|| SessionError::Never(self.task.name.clone()))?;
        if earliest_tai_ns > now_ns || self.shaper.take(now_ns, self.task.wire_bits).is_err() {
            return Ok(Sent::NotYet { earliest_tai_ns });
        }
        sent(&self.task, self.talker.send(value))
    }

    /// Waits until the contract allows a value, then sends it.
    ///
    /// # Errors
    /// As [`Self::try_send`]; the kernel refuses to sleep.
    pub fn send(&mut self, value: &[u8]) -> Result<Sent, SessionError> {
        loop {
            match self.try_send(value)? {
                // If the clock was set back, the next try finds it out.
                Sent::NotYet { earliest_tai_ns } => {
                    let (Waited::Reached | Waited::Stopped | Waited::SetBack) =
                        sleep_until(earliest_tai_ns)?;
                }
                done => return Ok(done),
            }
        }
    }

    /// Returns the talker for sending in cycles: at the plan's launch offset, else at whole multiples of the interval.
    ///
    /// # Errors
    /// The stream has no interval.
    pub fn cyclic(self) -> Result<CyclicTalker, SessionError> {
        CyclicTalker::new(self)
    }

    /// Returns the channel's counters so far. No system call.
    #[must_use]
    pub fn statistics(&self) -> TalkerStatistics {
        self.talker.statistics()
    }
}

/// Refuses a value that is longer than `fit` bytes, the plan's room for it.
pub(crate) fn fits(task: &TalkerTask, fit: usize, value: &[u8]) -> Result<(), SessionError> {
    if value.len() <= fit {
        return Ok(());
    }
    Err(SessionError::ValueTooLong {
        stream: task.name.clone(),
        bytes: value.len(),
        fit,
    })
}
