//! The timer of a cyclic sender or reader: it sleeps until shortly before the instant and spins for the rest.

use crate::error::LinkError;
use rtwire_sys::clock::{self, Clock};

/// Configuration of a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CycleConfig {
    /// Clock of the instants.
    pub clock: Clock,
    /// Time between two instants, in ns; at least 1.
    pub period_ns: u64,
    /// Instant of cycle 0, in ns, past or future; all others are whole periods from it.
    pub epoch_ns: u64,
    /// Time before the instant at which to wake and spin, in ns. With 0 it sleeps up to the instant and returns as
    /// late as the wake-up is.
    pub spin_ns: u64,
}

/// One cycle's instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// Number of the cycle: whole periods since the epoch.
    pub cycle: u64,
    /// Instant at which it was due, in ns.
    pub instant_ns: u64,
    /// Delay with which [`Cycle::wait`] returned after the instant, in ns.
    pub late_ns: u64,
    /// Number of cycles skipped before this one because their time had passed.
    pub skipped: u64,
}

/// Keeps a cycle. A cycle whose time has passed is never caught up: the newest one is taken, and the skipped ones are
/// counted.
#[derive(Clone, Debug)]
pub struct Cycle {
    config: CycleConfig,
    next: u64,
    skipped: u64,
    worst_late_ns: u64,
    worst_wake_ns: u64,
}

impl Cycle {
    /// Creates a cycle that begins with the first instant still to come.
    #[must_use]
    pub fn new(config: CycleConfig) -> Self {
        let mut this = Self {
            config: CycleConfig {
                period_ns: config.period_ns.max(1),
                ..config
            },
            next: 0,
            skipped: 0,
            worst_late_ns: 0,
            worst_wake_ns: 0,
        };
        this.next = this.first_from(clock::now_ns(config.clock));
        this
    }

    /// Returns the number of the first cycle at or after `now_ns`.
    fn first_from(&self, now_ns: u64) -> u64 {
        now_ns
            .saturating_sub(self.config.epoch_ns)
            .div_ceil(self.config.period_ns)
    }

    fn instant(&self, cycle: u64) -> u64 {
        self.config
            .epoch_ns
            .saturating_add(cycle.saturating_mul(self.config.period_ns))
    }

    /// Returns the next cycle's instant, in ns.
    #[must_use]
    pub fn next_instant_ns(&self) -> u64 {
        self.instant(self.next)
    }

    /// Returns the cycle to take at `now_ns` if the next one has passed: the newest whose instant has come. Pure.
    fn due(&self, now_ns: u64) -> u64 {
        let newest = now_ns.saturating_sub(self.config.epoch_ns) / self.config.period_ns;
        newest.max(self.next)
    }

    /// Waits for the next cycle, or takes the newest that has passed. One system call, none if it has passed.
    ///
    /// # Errors
    /// The kernel refuses to sleep.
    pub fn wait(&mut self) -> Result<Tick, LinkError> {
        let now = clock::now_ns(self.config.clock);
        let cycle = self.due(now);
        let instant_ns = self.instant(cycle);
        let wake = instant_ns.saturating_sub(self.config.spin_ns);
        if now < wake {
            // A signal may end the sleep early: the clock check repeats it.
            while clock::now_ns(self.config.clock) < wake {
                clock::sleep_until(self.config.clock, wake).map_err(LinkError::Clock)?;
            }
            let over = clock::now_ns(self.config.clock).saturating_sub(wake);
            self.worst_wake_ns = self.worst_wake_ns.max(over);
        }
        let mut now = clock::now_ns(self.config.clock);
        while now < instant_ns {
            std::hint::spin_loop();
            now = clock::now_ns(self.config.clock);
        }
        let tick = Tick {
            cycle,
            instant_ns,
            late_ns: now - instant_ns,
            skipped: cycle - self.next,
        };
        self.skipped += tick.skipped;
        self.worst_late_ns = self.worst_late_ns.max(tick.late_ns);
        self.next = cycle + 1;
        Ok(tick)
    }

    /// Returns the total number of cycles skipped.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Returns the largest delay of a cycle, in ns.
    #[must_use]
    pub fn worst_late_ns(&self) -> u64 {
        self.worst_late_ns
    }

    /// Returns the largest wake-up delay of the kernel, in ns after the requested time (which is `spin_ns` before the
    /// instant).
    #[must_use]
    pub fn worst_wake_ns(&self) -> u64 {
        self.worst_wake_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycle(spin_ns: u64) -> Cycle {
        Cycle::new(CycleConfig {
            clock: Clock::Monotonic,
            period_ns: 2_000_000,
            epoch_ns: 0,
            spin_ns,
        })
    }

    #[test]
    fn beats_are_on_the_grid_and_never_early() {
        for spin_ns in [0, 200_000] {
            let mut cycle = cycle(spin_ns);
            let mut last = None;
            for _ in 0..20 {
                let tick = cycle.wait().unwrap();
                let now = clock::now_ns(Clock::Monotonic);
                assert_eq!(tick.instant_ns, tick.cycle * 2_000_000);
                assert!(now >= tick.instant_ns + tick.late_ns);
                if let Some(last) = last {
                    assert_eq!(tick.cycle, last + 1 + tick.skipped);
                }
                last = Some(tick.cycle);
            }
        }
    }

    #[test]
    fn an_overrun_skips_to_the_newest_beat() {
        let mut cycle = cycle(0);
        let first = cycle.wait().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(11));
        let second = cycle.wait().unwrap();
        assert!(second.skipped >= 4, "{second:?}");
        assert_eq!(second.cycle, first.cycle + 1 + second.skipped);
        assert_eq!(cycle.skipped(), second.skipped + first.skipped);
        let third = cycle.wait().unwrap();
        assert!(third.cycle > second.cycle);
    }
}
