//! The receiving end of a queue channel: every value, most urgent first, first in first out within one priority.

use crate::config::Order;
use crate::error::ChannelError;
use crate::inbox::{Inbox, Received};
use crate::path::ListenerPath;
use crate::pool::Pool;
use crate::statistics::ListenerStatistics;
use rtwire_sys::clock::{self, Clock};
use std::time::Duration;

/// The frame that the caller may still be looking at.
#[derive(Clone, Copy, Debug)]
enum Held {
    /// The oldest of the inbox: it was alone, and is read where the kernel put it.
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
        }
    }

    /// Gives the most urgent value that is there, or waits for one as chosen at open; `None` when the time is up. `timeout`
    /// `None` waits for ever, zero does not wait. A blocking wait is rounded up to the kernel's tick (1 to 10 ms).
    ///
    /// Frames that are refused (see [`statistics`](Self::statistics)) may make the wait up to twice as long.
    ///
    /// At most one system call, none where values wait that were fetched before, or while spinning on frames; one more if a
    /// listener that blocks is given another timeout than the last time, if that is below 0.1 s; no allocation. The value stays where it is until the next call.
    ///
    /// # Errors
    /// The interface is gone (then for ever), or down (told once; call again to wait for its return).
    pub fn recv(
        &mut self,
        timeout: Option<Duration>,
    ) -> Result<Option<Received<'_>>, ChannelError> {
        match self.held.take() {
            Some(Held::Direct) => self.inbox.release(),
            Some(Held::Place(at)) => self.pool.free(at),
            None => {}
        }
        self.held = self.fetch(timeout)?;
        let (accepted, data) = match self.held {
            None => return Ok(None),
            Some(Held::Direct) => self.inbox.current(),
            Some(Held::Place(at)) => self.pool.get(at),
        };
        Ok(Some(accepted.with(data)))
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
            // What is refused must not keep us for ever. The clock is asked only now, so the first of them may have been
            // waited for and the whole time begins again.
            if let Some(timeout) = timeout {
                let now = clock::now_ns(Clock::Monotonic);
                let end = *end_ns.get_or_insert(now.saturating_add(nanoseconds(timeout)));
                if now > end {
                    return Ok(None);
                }
                left = Some(Duration::from_nanos(end - now));
            }
        }
        // What has come meanwhile may be more urgent than what waits here.
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

    /// Moves the oldest frame of the inbox, just accepted, into the pool, which has room.
    fn store(&mut self) {
        let (accepted, data) = self.inbox.current();
        let stored = self.pool.push(accepted, data);
        debug_assert!(stored, "the caller makes sure that there is room");
        self.inbox.release();
    }

    /// The way its frames come.
    #[must_use]
    pub fn path(&self) -> &ListenerPath {
        self.inbox.path()
    }

    /// Receives in this reader's own calls: one that finds nothing polls the driver, for `budget` where it waits and once
    /// where it does not. See [`rtwire_link::Receiver::busy_poll`] for what it needs. UDP only.
    ///
    /// # Errors
    /// The channel is not over UDP; CAP_NET_ADMIN is missing.
    pub fn busy_poll(&mut self, budget: Duration) -> Result<(), ChannelError> {
        self.inbox.busy_poll(budget)
    }

    /// What was counted so far. Two system calls: not for a real-time loop.
    ///
    /// # Errors
    /// The kernel refuses to tell what it has dropped.
    pub fn statistics(&mut self) -> Result<ListenerStatistics, ChannelError> {
        self.inbox.statistics()
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
