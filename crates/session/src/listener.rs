//! The receiving end of a planned stream.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rtwire_channel::{
    ArrivalNote, ChannelError, Endpoint, ListenerPath, ListenerStatistics, Newest, ReceivePath,
    Received, StampPlace,
};

use crate::agent::Lease;
use crate::channels::Inbox;
use crate::contract::ContractWatch;
use crate::error::SessionError;
use crate::hold::Hold;
use crate::real_time::now_ns;
use crate::task::ListenerTask;

/// The longest wait without a look at the agent.
const SLICE: Duration = Duration::from_millis(100);

/// A received value.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a> {
    /// The user data.
    pub data: &'a [u8],
    /// Its sequence number.
    pub sequence: u32,
    /// The time at which the talker sent it, ns of the talker's CLOCK_TAI, where the frame carries it.
    pub sender_time_ns: Option<u64>,
    /// Its arrival, ns of CLOCK_TAI.
    pub arrival_ns: u64,
    /// The place where that was taken.
    pub stamp: StampPlace,
    /// False if a newest-value listener has read this same value before.
    pub fresh: bool,
}

impl<'a> Value<'a> {
    /// Returns the arrival if it was stamped on the frame's way, ns of CLOCK_TAI.
    #[must_use]
    pub fn stamp_ns(&self) -> Option<u64> {
        self.stamp.is_on_the_way().then_some(self.arrival_ns)
    }

    fn queued(value: Received<'a>) -> Self {
        Self {
            data: value.data,
            sequence: value.sequence,
            sender_time_ns: value.sender_time_ns,
            arrival_ns: value.arrival_ns,
            stamp: value.stamp,
            fresh: true,
        }
    }

    fn newest(value: Newest<'a>) -> Self {
        Self {
            data: value.data,
            sequence: value.sequence,
            sender_time_ns: value.sender_time_ns,
            arrival_ns: value.arrival_ns,
            stamp: value.stamp,
            fresh: value.fresh,
        }
    }
}

/// The counters of a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamStatistics {
    /// The counters of its channel.
    pub channel: ListenerStatistics,
    /// Frames at this port with another key: of another plan, or of another version of this one. None was taken.
    pub foreign: u64,
    /// Frames with more user data than the contract allows.
    pub too_long: u64,
    /// Frames beyond the contract's rate and burst.
    pub too_frequent: u64,
}

/// The listener of one stream. Opened by [`Session::listener`](crate::Session::listener).
#[derive(Debug)]
pub struct StreamListener {
    pub(crate) task: ListenerTask,
    pub(crate) inbox: Inbox,
    path: ListenerPath,
    watch: Option<ContractWatch>,
    /// The agent's part, if that has opened the socket.
    lease: Option<Lease>,
    _hold: Hold,
}

impl StreamListener {
    pub(crate) fn open(
        endpoint: &Endpoint,
        wanted: ReceivePath,
        task: &ListenerTask,
        hold: Hold,
    ) -> Result<Self, SessionError> {
        let (inbox, path) =
            Inbox::open(endpoint, wanted, task).map_err(|source| failed(task, source))?;
        Ok(Self::of((inbox, path), task, hold, None))
    }

    /// Opens the listener at a socket of the agent.
    pub(crate) fn open_by_agent(
        endpoint: &Endpoint,
        task: &ListenerTask,
        hold: Hold,
        (lease, socket): (Lease, OwnedFd),
    ) -> Result<Self, SessionError> {
        let opened = Inbox::open_by_agent(endpoint, task, socket);
        let opened = opened.map_err(|source| failed(task, source))?;
        Ok(Self::of(opened, task, hold, Some(lease)))
    }

    fn of(
        (inbox, path): (Inbox, ListenerPath),
        task: &ListenerTask,
        hold: Hold,
        lease: Option<Lease>,
    ) -> Self {
        Self {
            inbox,
            path,
            watch: task.contract.map(ContractWatch::new),
            lease,
            task: task.clone(),
            _hold: hold,
        }
    }

    /// Waits in slices, so that the end of the agent is seen. Returns the time for which a value may still be waited for.
    fn wait_by_agent(
        &mut self,
        timeout: Option<Duration>,
    ) -> Result<Option<Duration>, SessionError> {
        let Some(lease) = &self.lease else {
            return Ok(timeout);
        };
        let begun = Instant::now();
        loop {
            lease.check()?;
            let left = timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
            let slice = left.map_or(SLICE, |left| left.min(SLICE));
            let there = self.inbox.wait(Some(slice));
            if there.map_err(|source| failed(&self.task, source))? || left == Some(slice) {
                return Ok(Some(Duration::ZERO));
            }
        }
    }

    fn check(&self) -> Result<(), SessionError> {
        self.lease.as_ref().map_or(Ok(()), Lease::check)
    }

    /// The stream's name.
    #[must_use]
    pub fn stream(&self) -> &str {
        &self.task.name
    }

    /// The receive path of its frames, and the reason where it is not the first choice.
    #[must_use]
    pub fn path_in_use(&self) -> &ListenerPath {
        &self.path
    }

    /// Waits for a value that was not read yet: the next one of a queue, the newest one of a newest-value stream.
    ///
    /// Returns `None` if none arrived within `timeout`. At most one system call for a frame; no allocation.
    ///
    /// # Errors
    /// The interface is missing or down; another program detached the receive program; the agent that has opened the stream
    /// has ended.
    pub fn recv(&mut self, timeout: Option<Duration>) -> Result<Option<Value<'_>>, SessionError> {
        let timeout = self.wait_by_agent(timeout)?;
        let value = match &mut self.inbox {
            Inbox::Queue(listener) => {
                let value = listener.recv(timeout);
                value.map(|value| value.map(Value::queued))
            }
            Inbox::Newest(listener) => {
                let value = listener.wait(timeout).and_then(|_| listener.read());
                value.map(|value| value.filter(|value| value.fresh).map(Value::newest))
            }
        };
        let value = value.map_err(|source| failed(&self.task, source))?;
        Ok(watched(&mut self.watch, value))
    }

    /// Prepares a wait elsewhere (`epoll`, an async runtime). Returns `true` if the next [`Self::recv`] has a value. Otherwise
    /// [`Self::descriptor`] becomes readable when a frame comes, which may still be refused, or when the interface goes down.
    /// So call it before each wait. Some system calls where no value is there; no allocation.
    ///
    /// # Errors
    /// As [`Self::recv`], and as [`Self::descriptor`].
    pub fn arm(&mut self) -> Result<bool, SessionError> {
        self.check()?;
        let there = match &mut self.inbox {
            Inbox::Queue(listener) => listener.arm(),
            Inbox::Newest(listener) => listener.arm(),
        };
        there.map_err(|source| failed(&self.task, source))
    }

    /// Returns the descriptor that `epoll` takes. Only wait for it, never read from it:
    ///
    /// ```no_run
    /// # use rtwire_session::{SessionError, StreamListener};
    /// # fn wait(_: std::os::fd::BorrowedFd<'_>) {}
    /// # fn values(listener: &mut StreamListener) -> Result<(), SessionError> {
    /// loop {
    ///     while !listener.arm()? {
    ///         wait(listener.descriptor()?); // epoll_wait(2), poll(2), …
    ///     }
    ///     if let Some(value) = listener.recv(Some(std::time::Duration::ZERO))? {
    ///         println!("{:?}", value.data);
    ///     }
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// The path is `uman`, whose one ring has several readers.
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>, SessionError> {
        let descriptor = match &self.inbox {
            Inbox::Queue(listener) => listener.descriptor(),
            Inbox::Newest(listener) => listener.descriptor(),
        };
        descriptor.map_err(|source| failed(&self.task, source))
    }

    /// Returns the newest value of a newest-value stream, read before or not. Does not wait.
    ///
    /// On a queue it returns the next value that waits there.
    ///
    /// # Errors
    /// As [`Self::recv`].
    pub fn newest(&mut self) -> Result<Option<Value<'_>>, SessionError> {
        self.check()?;
        match &mut self.inbox {
            Inbox::Newest(listener) => {
                let value = listener.read();
                let value = value.map_err(|source| failed(&self.task, source))?;
                Ok(watched(&mut self.watch, value.map(Value::newest)))
            }
            Inbox::Queue(listener) => {
                let value = listener.recv(Some(Duration::ZERO));
                let value = value.map_err(|source| failed(&self.task, source))?;
                Ok(watched(&mut self.watch, value.map(Value::queued)))
            }
        }
    }

    /// Shows the arrival of every value of a newest-value stream since the last call, oldest first, whether it was read
    /// or not. Returns their number: 0 if [`SessionOptions::arrivals`] is 0. No system call, no wait, no allocation.
    ///
    /// With packet sockets a value is noted when it is fetched: call [`Self::newest`] or [`Self::recv`] before.
    ///
    /// [`SessionOptions::arrivals`]: crate::SessionOptions::arrivals
    pub fn arrivals(&mut self, show: impl FnMut(ArrivalNote)) -> u64 {
        match &mut self.inbox {
            Inbox::Newest(listener) => listener.arrivals(show),
            Inbox::Queue(_) => 0,
        }
    }

    /// Returns the arrivals that later ones have overwritten before [`Self::arrivals`] could show them.
    #[must_use]
    pub fn arrivals_missed(&self) -> u64 {
        match &self.inbox {
            Inbox::Newest(listener) => listener.arrivals_missed(),
            Inbox::Queue(_) => 0,
        }
    }

    /// Returns the counters so far. Up to two system calls: not for a real-time loop.
    ///
    /// # Errors
    /// The kernel does not return its count of dropped frames; the agent that has opened the stream has ended.
    pub fn statistics(&mut self) -> Result<StreamStatistics, SessionError> {
        let channel = self.inbox.statistics();
        let mut channel = channel.map_err(|source| failed(&self.task, source))?;
        if let Some(lease) = &self.lease {
            // The agent's gate drops these before they are anybody's.
            let counts = lease.counts()?;
            channel.refused.wrong_key += counts.foreign;
            channel.refused.policed += counts.too_much;
        }
        let watch = self.watch.as_ref();
        Ok(StreamStatistics {
            foreign: channel.refused.wrong_key,
            too_long: watch.map_or(0, ContractWatch::too_long),
            too_frequent: watch.map_or(0, ContractWatch::too_frequent),
            channel,
        })
    }
}

fn failed(task: &ListenerTask, source: ChannelError) -> SessionError {
    SessionError::Channel {
        stream: task.name.clone(),
        source,
    }
}

/// Passes a new value to the contract's watch, and returns it.
fn watched<'a>(watch: &mut Option<ContractWatch>, value: Option<Value<'a>>) -> Option<Value<'a>> {
    if let (Some(watch), Some(value)) = (watch, &value) {
        if value.fresh {
            let time_ns = value.sender_time_ns.or(value.stamp_ns());
            let time_ns = time_ns.unwrap_or_else(now_ns);
            watch.observe(value.sequence, time_ns, value.data.len());
        }
    }
    value
}
