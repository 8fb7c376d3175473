//! A long wait in slices, so that a waiter finds out in between that its interface has gone.

use std::time::Duration;

use rtwire_sys::clock::{self, Clock};

/// The longest slice: the interval at which an idle reader checks that interface and program still exist.
pub(crate) const CHECK: Duration = Duration::from_millis(100);

/// The slices of one wait.
#[derive(Debug)]
pub(crate) struct Slices {
    timeout: Option<Duration>,
    slice: Duration,
    end_ns: Option<u64>,
}

impl Slices {
    /// Creates the slices of a wait of `timeout`; `None`: for ever. Reads no clock.
    pub(crate) fn new(timeout: Option<Duration>) -> Self {
        Self {
            timeout,
            slice: timeout.map_or(CHECK, |timeout| timeout.min(CHECK)),
            end_ns: None,
        }
    }

    /// The length of the slice to wait now.
    pub(crate) fn slice(&self) -> Duration {
        self.slice
    }

    /// Steps to the next slice. Returns false if the time is up.
    pub(crate) fn step(&mut self) -> bool {
        let Some(timeout) = self.timeout else {
            return true;
        };
        let now = clock::now_ns(Clock::Monotonic);
        let slice = self.slice;
        let end = *self.end_ns.get_or_insert_with(|| {
            let left = timeout.saturating_sub(slice);
            now.saturating_add(nanoseconds(left))
        });
        if now >= end {
            return false;
        }
        self.slice = Duration::from_nanos(end - now).min(CHECK);
        true
    }
}

/// Returns a duration in whole ns.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
