//! Inexact clocks: they drift, but their error never exceeds a limit.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One node's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Clock {
    /// Its lead over the network's time at the start, ps; negative for a lag.
    pub error_ps: i64,
    /// Its drift at the start, parts per million; positive for a fast clock. It changes sign each time the error
    /// reaches the limit.
    pub drift_ppm: i32,
    /// Largest absolute error against the network's time, ps.
    pub limit_ps: u64,
}

impl Clock {
    /// Returns its lead over the network's time at a true time, ps; negative for a lag.
    #[must_use]
    pub fn ahead_ps(&self, true_ps: u64) -> i64 {
        let limit = i128::from(self.limit_ps);
        let start = i128::from(self.error_ps).clamp(-limit, limit);
        if limit == 0 {
            return 0;
        }
        let moved = i128::from(true_ps) * i128::from(self.drift_ppm.clamp(-100_000, 100_000));
        let at = start + moved.div_euclid(1_000_000);
        // The error moves back and forth between the limits.
        let there_and_back = 4 * limit;
        let along = (at + limit).rem_euclid(there_and_back);
        let folded = if along <= 2 * limit {
            along - limit
        } else {
            3 * limit - along
        };
        // The value is within the limit, which has 64 bits.
        i64::try_from(folded).unwrap_or(0)
    }

    /// Returns the time that it shows at a true time, ps since the network's epoch. A clock that lags shows negative
    /// values at first.
    #[must_use]
    pub fn shows_ps(&self, true_ps: u64) -> i64 {
        let true_ps = i64::try_from(true_ps).unwrap_or(i64::MAX);
        true_ps.saturating_add(self.ahead_ps(true_ps.unsigned_abs()))
    }

    /// Returns the first true time at which it shows `shown_ps`, ps; 0 if that was before the epoch.
    #[must_use]
    pub fn when_ps(&self, shown_ps: i64) -> u64 {
        let from_epoch = |ps: i64| u64::try_from(ps).unwrap_or(0);
        if self.limit_ps == 0 {
            return from_epoch(shown_ps);
        }
        let limit = i64::try_from(self.limit_ps).unwrap_or(i64::MAX);
        let (mut before, mut at) = (
            from_epoch(shown_ps.saturating_sub(limit)),
            from_epoch(shown_ps.saturating_add(limit)),
        );
        if self.shows_ps(before) >= shown_ps {
            return before;
        }
        // The clock never runs backwards.
        while at - before > 1 {
            let middle = before + (at - before) / 2;
            if self.shows_ps(middle) >= shown_ps {
                at = middle;
            } else {
                before = middle;
            }
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::Clock;

    #[test]
    fn it_stays_within_its_limit_and_never_runs_backwards() {
        for drift_ppm in [-100, -7, 0, 1, 100] {
            let clock = Clock {
                error_ps: 700,
                drift_ppm,
                limit_ps: 1_000,
            };
            let mut last = i64::MIN;
            for step in 0..40_000_u64 {
                let at = step * 3_001;
                let shown = clock.shows_ps(at);
                assert!(shown >= last && shown.abs_diff(at as i64) <= 1_000);
                last = shown;
                let when = clock.when_ps(shown);
                assert!(when <= at && clock.shows_ps(when) >= shown);
                assert!(when == 0 || clock.shows_ps(when - 1) < shown);
            }
        }
        assert_eq!(Clock::default().when_ps(5), 5);
    }

    /// Clocks must not stop until the epoch: the first window of a list would then be open or closed for too long.
    #[test]
    fn a_clock_that_is_behind_runs_before_the_epoch_too() {
        let clock = Clock {
            error_ps: -700,
            drift_ppm: 0,
            limit_ps: 1_000,
        };
        assert_eq!((clock.shows_ps(0), clock.shows_ps(100)), (-700, -600));
        assert_eq!((clock.when_ps(-600), clock.when_ps(-900)), (100, 0));
    }
}
