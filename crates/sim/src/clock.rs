//! Clocks that are not exact: never further from the network's time than a limit, but drifting within it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One node's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Clock {
    /// How far ahead it is at first, picoseconds.
    pub error_ps: i64,
    /// How much faster it runs, parts per million; at the limit it turns and runs as much slower.
    pub drift_ppm: i32,
    /// It is never further from the network's time than this, picoseconds.
    pub limit_ps: u64,
}

impl Clock {
    /// How far ahead it is at an instant, picoseconds.
    #[must_use]
    pub fn ahead_ps(&self, true_ps: u64) -> i64 {
        let limit = i128::from(self.limit_ps);
        let start = i128::from(self.error_ps).clamp(-limit, limit);
        if limit == 0 {
            return 0;
        }
        let moved = i128::from(true_ps) * i128::from(self.drift_ppm.clamp(-100_000, 100_000));
        let at = start + moved.div_euclid(1_000_000);
        // Back and forth between the limits.
        let there_and_back = 4 * limit;
        let along = (at + limit).rem_euclid(there_and_back);
        let folded = if along <= 2 * limit {
            along - limit
        } else {
            3 * limit - along
        };
        // Within the limit, which has 64 bits.
        i64::try_from(folded).unwrap_or(0)
    }

    /// What it shows at an instant, picoseconds after the network's epoch; a clock that is behind shows less than 0 at first.
    #[must_use]
    pub fn shows_ps(&self, true_ps: u64) -> i64 {
        let true_ps = i64::try_from(true_ps).unwrap_or(i64::MAX);
        true_ps.saturating_add(self.ahead_ps(true_ps.unsigned_abs()))
    }

    /// The first instant at which it shows so much; 0 where that was before the epoch.
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
        // It never runs backwards.
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

    /// A clock that stood still until the epoch would keep the first window of a list open, or shut, for longer.
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
