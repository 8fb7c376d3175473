//! The validity of a station's own process data behind a stop of its program.

/// The validity of the data that a node sends. A reset does not change it: outputs from before a stop stay so.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Freshness {
    /// True from the time at which a stop was noticed until the application has had its turn.
    stale: bool,
    /// The first cycle that was read in time again.
    caught_up: Option<u64>,
    /// True once the application has reported a turn. One that never does has had it between two cycles.
    reports: bool,
}

impl Freshness {
    pub(crate) const fn is_valid(self) -> bool {
        !self.stale
    }

    /// Returns true while frames are read that are too old.
    pub(crate) const fn is_behind(self) -> bool {
        self.stale && self.caught_up.is_none()
    }

    /// Notes that the program stood still. Returns true where the data were valid until now.
    pub(crate) const fn lapse(&mut self) -> bool {
        self.caught_up = None;
        !core::mem::replace(&mut self.stale, true)
    }

    /// Takes a cycle that was read in time.
    pub(crate) const fn catch_up(&mut self, cycle: u64) {
        if !self.stale {
            return;
        }
        if self.caught_up.is_none() {
            self.caught_up = Some(cycle);
        } else if !self.reports {
            self.stale = false;
        }
    }

    /// Takes the application's turn, which has begun with the inputs of `cycle`.
    pub(crate) const fn commit(&mut self, cycle: u64) {
        self.reports = true;
        if matches!(self.caught_up, Some(first) if cycle >= first) {
            self.stale = false;
        }
    }
}
