//! Exact percentiles, distributions and thinned time series.
//!
//! Percentiles are of the nearest-rank kind: the p-th percentile of n samples is the ⌈p·n⌉-th smallest one. It is
//! always a measured value; nothing is interpolated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Largest number of buckets of a thinned time series.
pub const MAX_TIME_BUCKETS: usize = 600;

/// Minimum, percentiles and maximum of a set of durations, all in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Smallest value, ns.
    pub min: u64,
    /// Median (nearest rank), ns.
    pub p50: u64,
    /// 99th percentile (nearest rank), ns.
    pub p99: u64,
    /// 99.9th percentile (nearest rank), ns.
    pub p999: u64,
    /// Largest value, ns.
    pub max: u64,
    /// Number of values.
    pub samples: u64,
}

impl Summary {
    /// The summary of no values: all fields are 0.
    pub const EMPTY: Self = Self {
        min: 0,
        p50: 0,
        p99: 0,
        p999: 0,
        max: 0,
        samples: 0,
    };

    /// Returns the summary of `values` (ns, in any order); `None` if there are none.
    #[must_use]
    pub fn of(mut values: Vec<u64>) -> Option<Self> {
        values.sort_unstable();
        Self::of_sorted(&values)
    }

    /// Returns the summary of values that are sorted, smallest first; `None` if there are none.
    #[must_use]
    pub fn of_sorted(sorted: &[u64]) -> Option<Self> {
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        Some(Self {
            min,
            p50: nearest_rank(sorted, 500)?,
            p99: nearest_rank(sorted, 990)?,
            p999: nearest_rank(sorted, 999)?,
            max,
            samples: sorted.len() as u64,
        })
    }

    /// Returns the summary of values (ns) that need not be in memory together: `pass` hands over all of them each time that
    /// it is called, in any order. Takes half a MiB, however many there are; `None` if there are none.
    ///
    /// # Errors
    /// Those of `pass`.
    pub fn of_passes<E>(
        mut pass: impl FnMut(&mut dyn FnMut(u32)) -> Result<(), E>,
    ) -> Result<Option<Self>, E> {
        let (mut min, mut max) = (u32::MAX, 0);
        let mut halves = vec![0_u64; 1 << 16];
        pass(&mut |value| {
            (min, max) = (min.min(value), max.max(value));
            halves[(value >> 16) as usize] += 1;
        })?;
        let samples: u64 = halves.iter().sum();
        if samples == 0 {
            return Ok(None);
        }
        let upper = [500, 990, 999].map(|permille| {
            let rank = (u128::from(samples) * permille).div_ceil(1_000);
            place_of(&halves, u64::try_from(rank).unwrap_or(u64::MAX))
        });
        let mut ranks = [0; 3];
        for (at, (half, within)) in upper.into_iter().enumerate() {
            // Those that have the upper half of the value in common, by their lower half.
            if at == 0 || upper[at - 1].0 != half {
                halves.fill(0);
                pass(&mut |value| {
                    halves[(value & 0xffff) as usize] += u64::from((value >> 16) as usize == half);
                })?;
            }
            ranks[at] = (half as u64) << 16 | place_of(&halves, within).0 as u64;
        }
        Ok(Some(Self {
            min: min.into(),
            p50: ranks[0],
            p99: ranks[1],
            p999: ranks[2],
            max: max.into(),
            samples,
        }))
    }

    /// Returns the 99th percentile in ns, if there are samples enough for one: 100, so that one of them can lie above it.
    #[must_use]
    pub fn known_p99(&self) -> Option<u64> {
        (self.samples >= 100).then_some(self.p99)
    }

    /// Returns the 99.9th percentile in ns, if there are samples enough for one: 1 000.
    #[must_use]
    pub fn known_p999(&self) -> Option<u64> {
        (self.samples >= 1_000).then_some(self.p999)
    }
}

/// Returns the place of the `rank`-th one, of as many at each place as `counts` says, and its rank at that place.
fn place_of(counts: &[u64], rank: u64) -> (usize, u64) {
    let mut before = 0;
    for (place, count) in counts.iter().enumerate() {
        if before + count >= rank {
            return (place, rank - before);
        }
        before += count;
    }
    (counts.len() - 1, 1)
}

/// The ranks that tables show of a distribution: name, and permille for [`nearest_rank`].
pub const RANKS: [(&str, u32); 5] = [
    ("min", 0),
    ("p50", 500),
    ("p99", 990),
    ("p99.9", 999),
    ("max", 1_000),
];

/// Returns the ⌈n·permille/1000⌉-th smallest value of `sorted`; `None` if empty. 1 000 returns the largest, 0 the
/// smallest.
#[must_use]
pub fn nearest_rank<T: Copy>(sorted: &[T], permille: u32) -> Option<T> {
    let rank = (sorted.len() as u128 * u128::from(permille.min(1_000))).div_ceil(1_000) as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// A point of a complementary cumulative distribution: `share` of all samples lasted `at_ns` or longer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CcdfPoint {
    /// Duration, ns.
    pub at_ns: u64,
    /// Share of the samples that are at least this long, 1 down to 1/n.
    pub share: f64,
}

/// Returns the complementary cumulative distribution of `sorted` (smallest first). It has about 40 points for each
/// decade of shares. The tail is exact, each of the last samples is a point; the body is thinned.
#[must_use]
pub fn ccdf(sorted: &[u64]) -> Vec<CcdfPoint> {
    const STEP: f64 = 1.06; // 40 steps make a factor of ten
    let n = sorted.len();
    let mut points = Vec::new();
    let mut at_least = n; // how many samples are at least as long as the point
    while at_least > 0 {
        points.push(CcdfPoint {
            at_ns: sorted[n - at_least],
            share: at_least as f64 / n as f64,
        });
        let next = (at_least as f64 / STEP).floor() as usize;
        at_least = next.min(at_least - 1);
    }
    points
}

/// Smallest, median and largest sample of one bucket of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimeBucket {
    /// Start of the bucket, ns since the run began.
    pub at_ns: u64,
    /// Smallest value, ns.
    pub min: u64,
    /// Median value, ns.
    pub p50: u64,
    /// Largest value, ns.
    pub max: u64,
}

/// Thins `(moment_ns, value_ns)` pairs, in any order, to at most [`MAX_TIME_BUCKETS`] buckets of equal width.
///
/// The buckets cover `[0, length_ns)`; moments count from the start of the run. Empty buckets are left out. A moment
/// beyond the end counts in the last bucket. No extreme value is lost.
#[must_use]
pub fn over_time(values: &[(u64, u64)], length_ns: u64) -> Vec<TimeBucket> {
    let width_ns = length_ns.div_ceil(MAX_TIME_BUCKETS as u64).max(1);
    let last = length_ns.saturating_sub(1) / width_ns;
    let mut keyed: Vec<(u64, u64)> = values
        .iter()
        .map(|&(t, v)| ((t / width_ns).min(last), v))
        .collect();
    keyed.sort_unstable();
    keyed
        .chunk_by(|a, b| a.0 == b.0)
        .map(|bucket| TimeBucket {
            at_ns: bucket[0].0 * width_ns,
            min: bucket[0].1,
            p50: bucket[(bucket.len() - 1) / 2].1,
            max: bucket[bucket.len() - 1].1,
        })
        .collect()
}

/// Returns the fairness of shares: 1 where all are equal, 1/n where one of n has everything (Jain, Chiu, Hawe 1984).
#[must_use]
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares > 0.0 {
        #[allow(clippy::cast_precision_loss)] // a handful of shares
        let count = shares.len() as f64;
        sum * sum / (count * squares)
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nearest_rank_as_defined() {
        let hundred: Vec<u64> = (1..=100).collect();
        assert_eq!(nearest_rank(&hundred, 500), Some(50));
        assert_eq!(nearest_rank(&hundred, 990), Some(99));
        assert_eq!(nearest_rank(&hundred, 999), Some(100));
        assert_eq!(nearest_rank(&hundred, 0), Some(1));
        assert_eq!(nearest_rank(&[7], 990), Some(7));
        assert_eq!(nearest_rank::<u64>(&[], 500), None);
        assert_eq!(Summary::of(vec![]), None);
    }

    #[test]
    fn a_percentile_is_known_where_a_sample_can_lie_above_it() {
        let of = |count| Summary::of((1..=count).collect()).unwrap();
        assert_eq!((of(99).known_p99(), of(100).known_p99()), (None, Some(99)));
        assert_eq!(
            (of(999).known_p999(), of(1_000).known_p999()),
            (None, Some(999))
        );
    }

    #[test]
    fn ccdf_keeps_both_ends_and_the_whole_tail() {
        let sorted: Vec<u64> = (1..=20_000).collect();
        let points = ccdf(&sorted);
        assert_eq!(
            points[0],
            CcdfPoint {
                at_ns: 1,
                share: 1.0
            }
        );
        assert_eq!(
            points[points.len() - 1],
            CcdfPoint {
                at_ns: 20_000,
                share: 1.0 / 20_000.0
            }
        );
        for k in 1..=16 {
            let in_tail = points[points.len() - k];
            assert_eq!(
                in_tail.at_ns,
                20_001 - k as u64,
                "each of the slowest samples is a point"
            );
        }
        assert!(points.len() < 250, "{}", points.len());
    }

    proptest! {
        #[test]
        fn summary_agrees_with_counting(values in prop::collection::vec(0u64..1_000, 1..400)) {
            let s = Summary::of(values.clone()).unwrap();
            for (value, permille) in [(s.p50, 500u64), (s.p99, 990), (s.p999, 999)] {
                let n = values.len() as u64;
                let at_most = values.iter().filter(|v| **v <= value).count() as u64;
                let below = values.iter().filter(|v| **v < value).count() as u64;
                prop_assert!(at_most * 1_000 >= permille * n);
                prop_assert!(below * 1_000 < permille * n);
            }
            prop_assert_eq!(s.min, *values.iter().min().unwrap());
            prop_assert_eq!(s.max, *values.iter().max().unwrap());
        }

        #[test]
        fn passes_find_what_sorting_finds(
            low in prop::collection::vec(0_u32..300, 0..200), high in prop::collection::vec(any::<u32>(), 0..200),
        ) {
            let values = [low, high].concat();
            let each = |take: &mut dyn FnMut(u32)| -> Result<(), ()> {
                values.iter().for_each(|value| take(*value));
                Ok(())
            };
            let sorted = values.iter().map(|value| u64::from(*value)).collect();
            prop_assert_eq!(Summary::of_passes(each), Ok(Summary::of(sorted)));
        }

        #[test]
        fn ccdf_is_the_distribution(mut values in prop::collection::vec(0u64..500, 1..600)) {
            values.sort_unstable();
            for p in ccdf(&values) {
                let at_least = values.iter().filter(|v| **v >= p.at_ns).count() as f64 / values.len() as f64;
                prop_assert!(p.share <= at_least + 1e-12, "never claims more samples than there are");
            }
        }

        #[test]
        fn time_buckets_lose_no_extreme(values in prop::collection::vec((0u64..10_000_000, 0u64..1_000), 1..2_000)) {
            let buckets = over_time(&values, 9_000_000);
            prop_assert!(buckets.len() <= MAX_TIME_BUCKETS);
            prop_assert_eq!(buckets.iter().map(|b| b.max).max(), values.iter().map(|v| v.1).max());
            prop_assert_eq!(buckets.iter().map(|b| b.min).min(), values.iter().map(|v| v.1).min());
            prop_assert!(buckets.windows(2).all(|w| w[0].at_ns < w[1].at_ns));
        }
    }
}
