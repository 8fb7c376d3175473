//! The durations of a run of any length, in memory of fixed size.

use hdrhistogram::Histogram;
use rtwire_measure::summary::Summary;

/// The longest duration that is resolved, ns; longer ones count as this one, except for the maximum.
const LONGEST_NS: u64 = 60_000_000_000;

/// A distribution with at most 0.1 % of error; recording does not allocate.
#[derive(Debug)]
pub(super) struct Tail {
    histogram: Histogram<u64>,
    max_ns: u64,
}

impl Tail {
    pub(super) fn new() -> Self {
        // These bounds are right, so a histogram is always made.
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, 3)
            .unwrap_or_else(|error| unreachable!("fixed bounds: {error}"));
        Self {
            histogram,
            max_ns: 0,
        }
    }

    #[inline]
    pub(super) fn record(&mut self, duration_ns: u64) {
        self.max_ns = self.max_ns.max(duration_ns);
        self.histogram
            .saturating_record(duration_ns.clamp(1, LONGEST_NS));
    }

    /// Returns the summary, or `None` if nothing was recorded.
    pub(super) fn summary(&self) -> Option<Summary> {
        if self.histogram.is_empty() {
            return None;
        }
        // The histogram rounds up within a step; nothing took longer than the exact maximum.
        let at = |quantile| self.histogram.value_at_quantile(quantile).min(self.max_ns);
        Some(Summary {
            min: self.histogram.min().min(self.max_ns),
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: self.max_ns,
            samples: self.histogram.len(),
        })
    }
}
