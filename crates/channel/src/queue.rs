//! The receiving end of a queue channel: every value, most urgent first, first in first out within one priority.

use crate::config::Order;
use crate::error::ChannelError;
use crate::inbox::{Inbox, Received};
use crate::path::ListenerPath;
use crate::pool::Pool;
use crate::statistics::ListenerStatistics;
use rtwire_sys::clock::{self, Clock};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// The frame that the caller may still be reading.
#[derive(Clone, Copy, Debug)]
enum Held {
    /// The oldest of the inbox: no other frame was there, so it is read where the kernel put it.
    Direct,
    /// A place of the pool.
    Place(u32),
}

/// Receives the values of one channel. Opened by [`Endpoint::queue_listener`](crate::Endpoint::queue_listener).
#[derive(Debug)]
pub struct QueueListener {
    inbox: Inbox,
    pool: Pool,
    order: Order,
    held: Option<Held>,
    /// The frame that [`QueueListener::arm`] has found for the next call.
    next: Option<Held>,
}

impl QueueListener {
    pub(crate) fn new(inbox: Inbox, order: Order, places: usize) -> Self {
        let places = match order {
            Order::MostUrgentFirst => places,
            Order::Arrival => 1,
        };
        Self {
            inbox,
            pool: Pool::new(places),
            order,
            held: None,
            next: None,
        }
    }

    /// Returns the most urgent value, or waits for one in the way chosen at open; `None` when the time is up.
    /// `timeout` `None` waits for ever, zero does not wait. A blocking wait is rounded up to the kernel's tick (1 to
    /// 10 ms).
    ///
    /// Refused frames (see [`statistics`](Self::statistics)) may make the wait up to twice as long.
    ///
    /// It does not allocate and makes at most one system call. It makes none while earlier fetched values wait, or
    /// while it spins on frames. A blocking listener makes one more when the timeout differs from the last one and is
    /// below 0.1 s. The value stays in place until the next call.
    ///
    /// # Errors
    /// The interface is gone (in every later call, too), or down (reported once; call again to wait for its return).
    pub fn recv(
        &mut self,
        timeout: Option<Duration>,
    ) -> Result<Option<Received<'_>>, ChannelError> {
        self.wait(timeout)?;
        self.held = self.next.take();
        let (accepted, data) = match self.held {
            None => return Ok(None),
            Some(Held::Direct) => self.inbox.current(),
            Some(Held::Place(at)) => self.pool.get(at),
        };
        Ok(Some(accepted.with(data, self.inbox.stamp_place())))
    }

    /// Waits as [`recv`](Self::recv) does. Returns `true` if the next [`recv`](Self::recv) has a value.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    #[inline]
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, ChannelError> {
        if self.next.is_none() {
            self.free();
            self.next = self.fetch(timeout)?;
        }
        Ok(self.next.is_some())
    }

    /// Frees the frame that the last call has shown.
    fn free(&mut self) {
        match self.held.take() {
            Some(Held::Direct) => self.inbox.release(),
            Some(Held::Place(at)) => self.pool.free(at),
            None => {}
        }
    }

    /// Prepares a wait elsewhere (`epoll`, an async runtime). Returns `true` if the next [`recv`](Self::recv) has a value.
    /// Otherwise [`descriptor`](Self::descriptor) becomes readable when a frame comes, which may still be refused, or when
    /// the interface goes down. So call it before each wait. Some system calls where no value is there, else as `recv`.
    ///
    /// # Errors
    /// As [`recv`](Self::recv). The listener was opened to spin with the receive program, or its path is `uman`.
    pub fn arm(&mut self) -> Result<bool, ChannelError> {
        self.descriptor()?;
        while self.next.is_none() {
            self.free();
            self.next = self.fetch(Some(Duration::ZERO))?;
            if self.next.is_none() && !self.inbox.arm()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the descriptor that `epoll` takes: see [`arm`](Self::arm). Only wait for it, never read from it.
    ///
    /// # Errors
    /// The listener was opened to spin with the receive program, or its path is `uman`.
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>, ChannelError> {
        self.inbox.descriptor()
    }

    fn fetch(&mut self, timeout: Option<Duration>) -> Result<Option<Held>, ChannelError> {
        let mut left = timeout;
        let mut end_ns = None;
        while self.pool.is_empty() {
            if !self.inbox.wait(left)? {
                return Ok(None);
            }
            if self.inbox.examine() {
                if self.order == Order::Arrival || !self.inbox.available(1) {
                    return Ok(Some(Held::Direct));
                }
                self.store();
                continue;
            }
            self.inbox.release();
            // Refused frames must not keep the reader here for ever. The clock is read only now, so that the wait for
            // the first of them is not counted and the whole time begins again.
            if let Some(timeout) = timeout {
                let now = clock::now_ns(Clock::Monotonic);
                let end = *end_ns.get_or_insert(now.saturating_add(nanoseconds(timeout)));
                if now > end {
                    return Ok(None);
                }
                left = Some(Duration::from_nanos(end - now));
            }
        }
        // Frames received meanwhile may be more urgent than those in the pool.
        if self.pool.has_room() {
            self.inbox.look()?;
        }
        while self.pool.has_room() && self.inbox.available(0) {
            if self.inbox.examine() {
                self.store();
            } else {
                self.inbox.release();
            }
        }
        Ok(self.pool.pop().map(Held::Place))
    }

    /// Moves the just accepted oldest frame of the inbox into the pool, which has room.
    fn store(&mut self) {
        let (accepted, data) = self.inbox.current();
        let stored = self.pool.push(accepted, data);
        debug_assert!(stored, "the caller makes sure that there is room");
        self.inbox.release();
    }

    /// Returns the receive path of this listener.
    #[must_use]
    pub fn path_in_use(&self) -> &ListenerPath {
        self.inbox.path()
    }

    /// Polls the driver in this reader's own receive calls when no value is there. A call that waits polls for
    /// `budget`; one that does not wait polls once. For UDP only; see [`rtwire_link::Receiver::busy_poll`] for the
    /// requirements.
    ///
    /// # Errors
    /// The channel is not over UDP; CAP_NET_ADMIN is missing.
    pub fn busy_poll(&mut self, budget: Duration) -> Result<(), ChannelError> {
        self.inbox.busy_poll(budget)
    }

    /// Returns the counters so far. It makes two system calls, so it is not for a real-time loop.
    ///
    /// # Errors
    /// The kernel does not report its dropped frames.
    pub fn statistics(&mut self) -> Result<ListenerStatistics, ChannelError> {
        self.inbox.statistics()
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
