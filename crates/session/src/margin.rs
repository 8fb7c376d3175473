//! The time by which a cyclic talker wakes before its instant, from the latenesses of its own wake-ups. Pure.
//!
//! The kernel wakes a thread late: by some µs on an idle core, by more out of a sleep state, by milliseconds where the
//! machine stalls. A thread that sleeps until a margin before its instant and spins the rest is on time whenever it was
//! woken within the margin. The margin is the lateness that few wake-ups exceed. It is bounded, so that a stall of the
//! machine never makes a thread spin for long.

use serde::{Deserialize, Serialize};

/// The number of wake-ups that the margin is measured from.
const KEPT: usize = 256;
/// The wake-up that sets the margin, counted from the latest one of those kept: 0.8 % are later.
const RANK: usize = 2;
/// The number of wake-ups after which the margin is computed anew.
const EACH: usize = 16;
/// The time in ns from the wake-up until the loop spins: to take the value.
const RESERVE_NS: u64 = 2_000;
/// The longest measured margin, ns.
const MOST_NS: u64 = 200_000;

/// The way in which a cyclic talker chooses the time that it spins before each instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpinMargin {
    /// By the latenesses of its wake-ups.
    Measured {
        /// The longest margin, ns.
        most_ns: u64,
    },
    /// Always the same.
    Fixed {
        /// The margin, ns; 0: it does not spin.
        ns: u64,
    },
}

impl SpinMargin {
    /// Returns a measured margin for a talker with a cycle of `interval_ns`, one of `talkers` on `cores` cores.
    ///
    /// Together they spin for at most half of each core's time: other threads of lower priority need the rest.
    #[must_use]
    pub fn measured(interval_ns: u64, talkers: usize, cores: usize) -> Self {
        let sharing = u64::try_from(talkers.div_ceil(cores.max(1))).unwrap_or(u64::MAX);
        Self::Measured {
            most_ns: MOST_NS.min(interval_ns / 2 / sharing.max(1)),
        }
    }
}

/// The margin of one thread. Allocates nothing.
#[derive(Clone, Debug)]
pub(crate) struct Margin {
    choice: SpinMargin,
    late_ns: [u32; KEPT],
    woken: usize,
    ns: u64,
}

impl Margin {
    /// Begins with the longest margin: a thread that knows nothing yet is rather early.
    pub(crate) fn new(choice: SpinMargin) -> Self {
        Self {
            choice,
            late_ns: [0; KEPT],
            woken: 0,
            ns: match choice {
                SpinMargin::Measured { most_ns } => most_ns,
                SpinMargin::Fixed { ns } => ns,
            },
        }
    }

    /// The margin, ns.
    pub(crate) fn ns(&self) -> u64 {
        self.ns
    }

    /// The number of wake-ups that are still to be measured before the margin rests on enough of them.
    pub(crate) fn missing(&self) -> usize {
        match self.choice {
            SpinMargin::Measured { .. } => KEPT.saturating_sub(self.woken),
            SpinMargin::Fixed { .. } => 0,
        }
    }

    /// Notes that a wake-up was late by `late_ns`.
    pub(crate) fn woke(&mut self, late_ns: u64) {
        let SpinMargin::Measured { most_ns } = self.choice else {
            return;
        };
        self.late_ns[self.woken % KEPT] = u32::try_from(late_ns).unwrap_or(u32::MAX);
        self.woken = self.woken.wrapping_add(1).max(1);
        if self.woken % EACH == 0 {
            let kept = &self.late_ns[..self.woken.min(KEPT)];
            self.ns = u64::from(latest(kept)).saturating_add(RESERVE_NS);
            self.ns = self.ns.min(most_ns);
        }
    }
}

/// Returns the value with `RANK` greater ones.
fn latest(values: &[u32]) -> u32 {
    let mut top = [0; RANK + 1];
    for &value in values {
        let mut value = value;
        for place in &mut top {
            if value > *place {
                std::mem::swap(place, &mut value);
            }
        }
    }
    top[RANK]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MOST: SpinMargin = SpinMargin::Measured { most_ns: 200_000 };

    fn after(choice: SpinMargin, latenesses: impl IntoIterator<Item = u64>) -> Margin {
        let mut margin = Margin::new(choice);
        latenesses.into_iter().for_each(|late| margin.woke(late));
        margin
    }

    #[test]
    fn a_margin_covers_what_nearly_all_wake_ups_need() {
        let quiet = after(MOST, (0..1_008).map(|nth| 20_000 + nth % 100 * 100));
        assert_eq!(quiet.ns(), 29_900 + RESERVE_NS);
        // Two stalls in 256 wake-ups change nothing, three are the rule.
        let stalls =
            |each: u64| (1..=256).map(move |nth| if nth % each == 0 { 150_000 } else { 20_000 });
        assert_eq!(after(MOST, stalls(128)).ns(), 20_000 + RESERVE_NS);
        assert_eq!(after(MOST, stalls(85)).ns(), 150_000 + RESERVE_NS);
    }

    #[test]
    fn a_margin_follows_the_machine_within_256_wake_ups() {
        let mut margin = after(MOST, [90_000; 256]);
        assert_eq!(margin.ns(), 90_000 + RESERVE_NS);
        for _ in 0..EACH {
            margin.woke(120_000);
        }
        assert_eq!(margin.ns(), 120_000 + RESERVE_NS, "more at once");
        for _ in 0..KEPT {
            margin.woke(10_000);
        }
        assert_eq!(
            margin.ns(),
            10_000 + RESERVE_NS,
            "less when all are forgotten"
        );
    }

    #[test]
    fn a_thread_that_knows_nothing_is_rather_early_and_one_that_is_told_measures_nothing() {
        assert_eq!(
            (after(MOST, []).ns(), after(MOST, []).missing()),
            (200_000, 256)
        );
        assert_eq!(after(MOST, [5; 300]).missing(), 0);
        for ns in [0, 30_000] {
            let told = after(SpinMargin::Fixed { ns }, [500_000; 300]);
            assert_eq!((told.ns(), told.missing()), (ns, 0));
        }
    }

    #[test]
    fn talkers_together_spin_for_half_of_each_core_at_most() {
        let most = |interval, talkers, cores| match SpinMargin::measured(interval, talkers, cores) {
            SpinMargin::Measured { most_ns } => most_ns,
            SpinMargin::Fixed { .. } => unreachable!("it is measured"),
        };
        assert_eq!(most(100_000, 1, 2), 50_000);
        assert_eq!(most(100_000, 2, 2), 50_000);
        assert_eq!(most(100_000, 3, 2), 25_000);
        assert_eq!(most(10_000_000, 1, 2), MOST_NS);
        assert_eq!(most(10_000_000, 200, 2), 50_000);
    }

    proptest! {
        /// The margin is bounded for every machine, and at most 2 of the last 256 wake-ups are later than it.
        #[test]
        fn few_wake_ups_are_later(
            latenesses in prop::collection::vec(0_u64..400_000, KEPT / EACH * EACH..2_000),
            most_ns in 0_u64..300_000,
        ) {
            let whole = latenesses.len() / EACH * EACH;
            let margin = after(SpinMargin::Measured { most_ns }, latenesses[..whole].iter().copied());
            prop_assert!(margin.ns() <= most_ns);
            let last = &latenesses[whole - KEPT..whole];
            let later = last.iter().filter(|late| **late > margin.ns()).count();
            prop_assert!(later <= RANK || margin.ns() == most_ns, "{later} of {}", last.len());
        }
    }
}
