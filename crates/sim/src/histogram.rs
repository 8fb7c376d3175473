//! A histogram of delays, exact to 1.6 %.

/// Each power of two has 64 steps; values below 64 are exact.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

const STEPS: u64 = 64;

fn place(value: u64) -> usize {
    if value < STEPS {
        return value as usize;
    }
    let shift = 63 - value.leading_zeros() - STEPS.trailing_zeros();
    let octave = u64::from(shift) + 1;
    (octave * STEPS + ((value >> shift) - STEPS)) as usize
}

/// Returns the largest value of a place.
fn upper(place: usize) -> u64 {
    let place = place as u64;
    if place < STEPS {
        return place;
    }
    let shift = place / STEPS - 1;
    let low = (STEPS + place % STEPS) << shift;
    low + ((1 << shift) - 1)
}

impl Histogram {
    pub(crate) fn clear(&mut self) {
        self.counts.fill(0);
        self.total = 0;
    }

    pub(crate) fn record(&mut self, value: u64) {
        let place = place(value);
        if place >= self.counts.len() {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += 1;
        self.total += 1;
    }

    /// Returns a value that `permille` thousandths of all values do not exceed, rounded up by at most 1.6 %; `None`
    /// without values.
    pub(crate) fn quantile(&self, permille: u64) -> Option<u64> {
        let wanted = (u128::from(self.total) * u128::from(permille))
            .div_ceil(1000)
            .max(1);
        let mut seen = 0_u128;
        for (place, count) in self.counts.iter().enumerate() {
            seen += u128::from(*count);
            if seen >= wanted {
                return Some(upper(place));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{Histogram, place, upper};

    #[test]
    fn places_hold_their_values() {
        let mut last = None;
        for value in
            (0..5000).chain((13..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]))
        {
            let at = place(value);
            assert!(
                upper(at) >= value && upper(at) - value <= value / 64,
                "{value}"
            );
            assert!(last.is_none_or(|last| last <= at));
            last = Some(at);
        }
        assert_eq!(upper(place(u64::MAX)), u64::MAX);
    }

    #[test]
    fn quantiles_are_the_values_below_which_so_many_lie() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(500), None);
        for value in 1..=50 {
            histogram.record(value);
        }
        assert_eq!(histogram.quantile(500), Some(25));
        assert_eq!(histogram.quantile(990), Some(50));
        assert_eq!(histogram.quantile(1000), Some(50));
    }
}
