//! Delays, stored in prepared memory while measuring and summed up afterwards.

use rtwire_host::doctor::{Measurement, Noise, Stalled};
use rtwire_measure::noise::{NoiseRecord, Stalls};
use rtwire_measure::summary::Summary;

/// The delay from which a stall is likely, ns: a whole period of the measurement.
pub(super) const LATE_NS: u64 = 1_000_000;
/// The number of late samples that are compared with the machine's stalls; further ones count as not explained.
const LATE_KEPT: usize = 16_384;

/// Delays, each from one moment of CLOCK_TAI to another.
pub(super) struct Samples {
    values_ns: Vec<i64>,
    late: Vec<(u64, u64)>,
    late_count: u64,
}

impl Samples {
    /// Makes room for this number of samples; further ones are left out.
    pub(super) fn new(room: usize) -> Self {
        Self {
            values_ns: Vec::with_capacity(room),
            late: Vec::with_capacity(LATE_KEPT),
            late_count: 0,
        }
    }

    /// Adds a delay. May be called in a real-time loop.
    pub(super) fn add(&mut self, from_ns: u64, to_ns: u64) {
        if self.values_ns.len() == self.values_ns.capacity() {
            return;
        }
        // Both are of this century, so their difference fits.
        self.values_ns.push(to_ns.wrapping_sub(from_ns) as i64);
        if to_ns.saturating_sub(from_ns) > LATE_NS {
            self.late_count += 1;
            if self.late.len() < LATE_KEPT {
                self.late.push((from_ns, to_ns));
            }
        }
    }

    /// Returns the figures; `None` if there are no samples and no losses.
    pub(super) fn measurement(
        self,
        (what, at, load): (&str, &str, &str),
        lost: Option<u64>,
        noise: Option<&NoiseRecord>,
    ) -> Option<Measurement> {
        // Early samples are negative: percentiles are taken above the smallest.
        let base = self.values_ns.iter().min().copied().unwrap_or(0);
        let above = self.values_ns.iter().map(|ns| ns.abs_diff(base)).collect();
        let all_lost = lost.is_some_and(|lost| lost > 0);
        let summary = Summary::of(above).or(all_lost.then_some(Summary::EMPTY))?;
        let back = |ns: u64| base.saturating_add_unsigned(ns);
        let stalls = noise.map(Stalls::of).unwrap_or_default();
        let explained = |(from, to): &&(u64, u64)| stalls.explain(*from, *to, LATE_NS);
        Some(Measurement {
            what: what.to_owned(),
            at: at.to_owned(),
            load: load.to_owned(),
            samples: summary.samples,
            min_ns: back(summary.min),
            p50_ns: back(summary.p50),
            p99_ns: back(summary.p99),
            p999_ns: back(summary.p999),
            max_ns: back(summary.max),
            stalled: Stalled {
                limit_ns: LATE_NS,
                count: self.late_count,
                explained: self.late.iter().filter(explained).count() as u64,
            },
            lost,
            noise: noise.and_then(worst),
        })
    }
}

/// Returns the noise of the worst core.
fn worst(record: &NoiseRecord) -> Option<Noise> {
    let cores = record.cores.iter();
    let summaries = || record.cores.iter().filter_map(|core| core.overshoot_ns);
    Some(Noise {
        p99_ns: summaries().map(|one| one.p99).max()?,
        p999_ns: summaries().map(|one| one.p999).max()?,
        max_ns: summaries().map(|one| one.max).max()?,
        priority: cores.map(|core| core.priority).min()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_all_was_lost_that_is_told() {
        let lost = Samples::new(1).measurement(("", "", ""), Some(3), None);
        let lost = lost.unwrap();
        assert_eq!((lost.samples, lost.lost), (0, Some(3)));
    }

    use rtwire_measure::noise::{Stall, StallSource};

    #[test]
    fn early_ones_are_below_zero_and_late_ones_are_held_against_the_stalls() {
        let mut samples = Samples::new(4);
        let ms = 1_000_000;
        samples.add(10 * ms, 10 * ms - 500);
        samples.add(20 * ms, 20 * ms + 700);
        samples.add(30 * ms, 33 * ms);
        samples.add(40 * ms, 42 * ms);
        samples.add(50 * ms, 59 * ms);
        let record = NoiseRecord {
            stalls: vec![Stall {
                source: StallSource::Core(0),
                alive_ns: 30 * ms,
                due_ns: 30 * ms,
                woke_ns: 33 * ms,
            }],
            ..NoiseRecord::default()
        };
        let one = samples
            .measurement(("wake-up", "own cable", "idle"), None, Some(&record))
            .unwrap();
        assert_eq!(
            (one.samples, one.min_ns, one.p50_ns, one.max_ns),
            (4, -500, 700, 3_000_000)
        );
        assert_eq!((one.stalled.count, one.stalled.explained), (2, 1));
        assert!(
            Samples::new(1)
                .measurement(("", "", ""), None, None)
                .is_none()
        );
    }
}
