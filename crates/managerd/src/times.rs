//! Times of the newest operations, and their distribution.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The times that are kept, the newest ones.
const MOST: usize = 65_536;

/// The distribution of the newest 65 536 times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Times {
    /// Their number.
    pub samples: u64,
    /// The median, ns.
    pub p50_ns: u64,
    /// Exceeded by one in a hundred, ns.
    pub p99_ns: u64,
    /// Exceeded by one in a thousand, ns.
    pub p999_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
}

/// The newest times, as they come. One takes no allocation once 65 536 were seen.
#[derive(Debug, Default)]
pub struct NewestTimes {
    all: VecDeque<u64>,
}

impl NewestTimes {
    /// Adds a time, ns.
    pub fn add(&mut self, ns: u64) {
        if self.all.len() == MOST {
            self.all.pop_front();
        }
        self.all.push_back(ns);
    }

    /// Returns their distribution; `None` without any.
    #[must_use]
    pub fn distribution(&self) -> Option<Times> {
        let mut times: Vec<u64> = self.all.iter().copied().collect();
        times.sort_unstable();
        let last = times.len().checked_sub(1)?;
        let at = |permille: usize| times.get((last * permille).div_ceil(1_000)).copied();
        Some(Times {
            samples: times.len() as u64,
            p50_ns: at(500)?,
            p99_ns: at(990)?,
            p999_ns: at(999)?,
            max_ns: times[last],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_exceeded_by_no_more_than_it_says() {
        let mut newest = NewestTimes::default();
        assert_eq!(newest.distribution(), None);
        (1..=1_000).rev().for_each(|ns| newest.add(ns));
        let times = newest.distribution().unwrap_or_default();
        let all = (
            times.samples,
            times.p50_ns,
            times.p99_ns,
            times.p999_ns,
            times.max_ns,
        );
        assert_eq!(all, (1_000, 501, 991, 1_000, 1_000));
        (0..MOST as u64).for_each(|_| newest.add(5));
        let times = newest.distribution().unwrap_or_default();
        assert_eq!((times.samples, times.max_ns), (MOST as u64, 5));
    }
}
