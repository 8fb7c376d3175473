//! The receiving end of a queue channel: every value, most urgent first, first in first out within one priority.

use crate::error::ChannelError;
use crate::inbox::{Accepted, Inbox, Received};
use crate::pool::Pool;
use crate::statistics::ListenerStatistics;
use rtwire_sys::clock::{self, Clock};
use std::time::Duration;

/// The frame that the caller may still be looking at.
#[derive(Clone, Copy, Debug)]
enum Held {
    /// The oldest of the inbox: it was alone, and is read where the kernel put it.
    Direct(Accepted),
    /// A place of the pool.
    Place(u32),
}

/// Receives the values of one channel. Opened by [`Endpoint::queue_listener`](crate::Endpoint::queue_listener).
#[derive(Debug)]
pub struct QueueListener {
    inbox: Inbox,
    pool: Pool,
    held: Option<Held>,
}

impl QueueListener {
    pub(crate) fn new(inbox: Inbox, places: usize) -> Self {
        Self {
            inbox,
            pool: Pool::new(places),
            held: None,
        }
    }

    /// Gives the most urgent value that is there, or waits for one as chosen at open; `None` when the time is up. `timeout`
    /// `None` waits for ever, zero does not wait. A blocking wait is rounded up to the kernel's tick (1 to 10 ms).
    ///
    /// At most one system call, none where values wait that were fetched before, or while spinning on frames; no
    /// allocation. The value stays where it is until the next call.
    ///
    /// # Errors
    /// The interface is gone (then for ever), or down (told once; call again to wait for its return).
    pub fn recv(
        &mut self,
        timeout: Option<Duration>,
    ) -> Result<Option<Received<'_>>, ChannelError> {
        match self.held.take() {
            Some(Held::Direct(_)) => self.inbox.release(),
            Some(Held::Place(at)) => self.pool.free(at),
            None => {}
        }
        self.held = self.fetch(timeout)?;
        Ok(match self.held {
            None => None,
            Some(Held::Direct(accepted)) => Some(accepted.with(self.inbox.data(&accepted))),
            Some(Held::Place(at)) => {
                let (accepted, data) = self.pool.get(at);
                Some(accepted.with(data))
            }
        })
    }

    fn fetch(&mut self, timeout: Option<Duration>) -> Result<Option<Held>, ChannelError> {
        let mut left = timeout;
        let mut end_ns = None;
        while self.pool.is_empty() {
            if end_ns.is_none() {
                end_ns = timeout.map(end_of);
            }
            if !self.inbox.wait(left)? {
                return Ok(None);
            }
            match self.inbox.examine() {
                Some(accepted) if !self.inbox.available(1) => {
                    return Ok(Some(Held::Direct(accepted)));
                }
                Some(accepted) => {
                    self.store(&accepted);
                }
                None => {
                    self.inbox.release();
                    // What is refused must not keep us beyond the time.
                    if let Some(end_ns) = end_ns {
                        let now = clock::now_ns(Clock::Monotonic);
                        if now > end_ns {
                            return Ok(None);
                        }
                        left = Some(Duration::from_nanos(end_ns - now));
                    }
                }
            }
        }
        // What has come meanwhile may be more urgent than what waits here.
        if self.pool.has_room() {
            self.inbox.look()?;
        }
        while self.pool.has_room() && self.inbox.available(0) {
            match self.inbox.examine() {
                Some(accepted) => self.store(&accepted),
                None => self.inbox.release(),
            }
        }
        Ok(self.pool.pop().map(Held::Place))
    }

    /// Moves the oldest frame of the inbox into the pool, which has room.
    fn store(&mut self, accepted: &Accepted) {
        let data = self.inbox.data(accepted);
        let stored = self.pool.push(*accepted, data);
        debug_assert!(stored, "the caller makes sure that there is room");
        self.inbox.release();
    }

    /// What was counted so far. Two system calls: not for a real-time loop.
    ///
    /// # Errors
    /// The kernel refuses to tell what it has dropped.
    pub fn statistics(&mut self) -> Result<ListenerStatistics, ChannelError> {
        self.inbox.statistics()
    }
}

fn end_of(timeout: Duration) -> u64 {
    let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
    clock::now_ns(Clock::Monotonic).saturating_add(timeout)
}
