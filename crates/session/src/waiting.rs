//! The wait for an instant: asleep until a margin before it, spinning from there on.

use rtwire_sys::wait;

use crate::error::SessionError;
use crate::margin::{Margin, SpinMargin};
use crate::real_time::{Waited, now_ns, sleep_until};

/// The longest sleep of a measurement before the first cycle, ns: longer ones cost time and show the same.
const MEASURED_SLEEP_NS: u64 = 1_000_000;

/// The end of a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slept {
    /// The thread did not have to sleep.
    Awake,
    /// It was woken this late, ns.
    Woken(u64),
    /// The clock was set back: the instant is far away again.
    SetBack,
}

/// One thread's wait for its instants. Allocates nothing, takes no lock.
#[derive(Debug)]
pub(crate) struct Waiting {
    margin: Margin,
    woke_ns: u64,
    spun_ns: u64,
}

impl Waiting {
    pub(crate) fn new(choice: SpinMargin) -> Self {
        Self {
            margin: Margin::new(choice),
            woke_ns: 0,
            spun_ns: 0,
        }
    }

    /// Measures how late this thread is woken, for as long as the time until `until_ns` permits.
    pub(crate) fn measure(&mut self, interval_ns: u64, until_ns: u64) -> Result<(), SessionError> {
        let period_ns = interval_ns.clamp(1, MEASURED_SLEEP_NS);
        let last_ns = until_ns.saturating_sub(2 * MEASURED_SLEEP_NS);
        for _ in 0..self.margin.missing() {
            let due_ns = now_ns() + period_ns;
            if due_ns > last_ns {
                break;
            }
            if sleep_until(due_ns)? == Waited::SetBack {
                break;
            }
            self.margin.woke(now_ns().saturating_sub(due_ns));
        }
        Ok(())
    }

    /// Sleeps until the margin before `due_ns`.
    pub(crate) fn sleep(&mut self, due_ns: u64) -> Result<Slept, SessionError> {
        let wake_ns = due_ns.saturating_sub(self.margin.ns());
        if now_ns() >= wake_ns {
            self.woke_ns = now_ns();
            return Ok(Slept::Awake);
        }
        if sleep_until(wake_ns)? == Waited::SetBack {
            return Ok(Slept::SetBack);
        }
        self.woke_ns = now_ns();
        let late_ns = self.woke_ns.saturating_sub(wake_ns);
        self.margin.woke(late_ns);
        Ok(Slept::Woken(late_ns))
    }

    /// Spins until `due_ns`. Returns the time, ns; `None` if the clock was set back meanwhile.
    pub(crate) fn spin(&mut self, due_ns: u64) -> Option<u64> {
        let left_ns = due_ns.saturating_sub(self.woke_ns);
        self.spun_ns += left_ns;
        wait::spin_until(due_ns, left_ns, None).ok()
    }

    /// The margin now, ns.
    pub(crate) fn margin_ns(&self) -> u64 {
        self.margin.ns()
    }

    /// The time so far from wake-ups to instants, ns: the processor time that the margin costs.
    pub(crate) fn spun_ns(&self) -> u64 {
        self.spun_ns
    }
}
