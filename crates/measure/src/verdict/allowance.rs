//! The allowance of a frame: how much later than promised it may be because the machine stalled.
//!
//! Let C be the rate of the busiest port on a frame's route. Let u be the share of C that all contracts together may
//! use. While the machine stalls, the port loses service of at most C times the stall's length.
//!
//! Let s be the start of the port's busy period that contains the frame. Arrivals since s are bounded by the
//! contracts. A frame sent at `tx` and received at `rx` then exceeds its bound by at most
//!
//! ```text
//!   stalled(s, rx)  -  (1 - u) * max(0, tx - s - hold)
//! ```
//!
//! Here `stalled(s, rx)` is the stalled time between s and rx. `hold` is the longest time for which one contract may
//! send at the link's own rate; only after it must the backlog shrink.
//!
//! s is unknown, so the allowance is the largest such value over all s up to `tx`. It never exceeds the stalled time
//! since the run began.

const PPM: i128 = 1_000_000;

/// Stalls merged to disjoint intervals: a moment counts once, whatever the number of stalled cores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StallLine {
    starts: Vec<u64>,
    ends: Vec<u64>,
    /// Stalled time before each start, ns.
    before: Vec<u64>,
}

impl StallLine {
    /// Merges intervals `[from, to)` in ns, in any order, overlapping or not. Empty ones are left out.
    #[must_use]
    pub fn new(intervals: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut sorted: Vec<(u64, u64)> = intervals
            .into_iter()
            .filter(|(from, to)| from < to)
            .collect();
        sorted.sort_unstable();
        let mut line = Self::default();
        let mut stalled = 0;
        for (from, to) in sorted {
            match line.ends.last_mut() {
                Some(end) if from <= *end => {
                    stalled += to.saturating_sub(*end);
                    *end = to.max(*end);
                }
                _ => {
                    line.starts.push(from);
                    line.ends.push(to);
                    line.before.push(stalled);
                    stalled += to - from;
                }
            }
        }
        line
    }

    /// Returns the stalled time before `t`, ns.
    #[must_use]
    pub fn stalled_before(&self, t: u64) -> u64 {
        match self
            .starts
            .partition_point(|start| *start < t)
            .checked_sub(1)
        {
            Some(i) => self.before[i] + (t.min(self.ends[i]) - self.starts[i]),
            None => 0,
        }
    }

    /// Returns the stalled time between two moments, ns; 0 if the second is before the first.
    #[must_use]
    pub fn stalled_between(&self, from: u64, to: u64) -> u64 {
        self.stalled_before(to)
            .saturating_sub(self.stalled_before(from))
    }

    /// Returns the beginning of the first stall that contains `t` or ended at most `slack_ns` before it; else `t`.
    #[must_use]
    pub fn began_before(&self, t: u64, slack_ns: u64) -> u64 {
        let first = self
            .ends
            .partition_point(|end| end.saturating_add(slack_ns) < t);
        self.starts.get(first).map_or(t, |start| t.min(*start))
    }

    /// Returns `t`, or the end of the stall that contains it.
    #[must_use]
    pub fn resume(&self, t: u64) -> u64 {
        match self
            .starts
            .partition_point(|start| *start <= t)
            .checked_sub(1)
        {
            Some(i) => t.max(self.ends[i]),
            None => t,
        }
    }

    /// Returns the time at which work of `work_ps` ends that begins at `start_ps` and stands still during stalls.
    /// Both times are in ps since `zero_ns`.
    #[must_use]
    pub fn finish_ps(&self, zero_ns: u64, start_ps: u128, work_ps: u128) -> u128 {
        let mut finish_ps = start_ps + work_ps;
        let ps = |ns: u64| u128::from(ns.saturating_sub(zero_ns)) * 1_000;
        let start_ns = zero_ns.saturating_add(u64::try_from(start_ps / 1_000).unwrap_or(u64::MAX));
        let first = self.ends.partition_point(|end| *end <= start_ns);
        for (start, end) in self.starts[first..].iter().zip(&self.ends[first..]) {
            let from_ps = ps(*start).max(start_ps);
            if from_ps >= finish_ps {
                break;
            }
            finish_ps += ps(*end).saturating_sub(from_ps);
        }
        finish_ps
    }

    /// Returns the total stalled time, ns.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.stalled_before(u64::MAX)
    }

    /// Returns the merged intervals, sorted by time.
    pub fn intervals(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.starts.iter().copied().zip(self.ends.iter().copied())
    }
}

/// The allowance along one route: a [`StallLine`] with the rate at which the route reduces its backlog after a stall.
#[derive(Clone, Debug)]
pub struct Allowance<'a> {
    line: &'a StallLine,
    idle_ppm: i128,
    hold_ns: u64,
    /// For each stall, the largest value of `idle * start - stalled before start` over it and all earlier ones, in
    /// millionths of ns.
    best_before: Vec<i128>,
}

impl<'a> Allowance<'a> {
    /// Creates the allowance of a route. The contracts may use `utilization_ppm` millionths of its busiest port, with
    /// bursts at link rate no longer than `hold_ns`.
    ///
    /// At a utilization of 1 000 000 or more, a backlog need never shrink. Then only stalls between `tx` and `rx`
    /// count; otherwise the first stall would excuse everything after it.
    #[must_use]
    pub fn new(line: &'a StallLine, utilization_ppm: u32, hold_ns: u64) -> Self {
        let idle_ppm = (PPM - i128::from(utilization_ppm)).max(0);
        let mut best = i128::MIN;
        let keys = line.starts.iter().zip(&line.before);
        let best_before = keys
            .map(|(start, before)| {
                best = best.max(idle_ppm * i128::from(*start) - PPM * i128::from(*before));
                best
            })
            .collect();
        Self {
            line,
            idle_ppm,
            hold_ns: if idle_ppm == 0 { 0 } else { hold_ns },
            best_before,
        }
    }

    /// Returns the most, in ns, by which stalls alone may have delayed a frame beyond its bound. The frame was sent at
    /// `tx` and received at `rx`. Rounded down.
    #[must_use]
    pub fn ns(&self, tx: u64, rx: u64) -> u64 {
        let rx = rx.max(tx);
        let held_from = tx.saturating_sub(self.hold_ns);
        let within_hold = PPM * i128::from(self.line.stalled_between(held_from, rx));
        // Let s move back from `tx`. Between stalls the value falls, within a stall it rises. So beyond the hold only
        // the starts of stalls matter, and `best_before` has the best of each prefix.
        let earlier = self.line.starts.partition_point(|start| *start < held_from);
        let beyond_hold = match earlier.checked_sub(1) {
            Some(i) if self.idle_ppm > 0 => {
                PPM * i128::from(self.line.stalled_before(rx)) + self.best_before[i]
                    - self.idle_ppm * i128::from(held_from)
            }
            _ => 0,
        };
        let best = within_hold.max(beyond_hold).max(0) / PPM;
        u64::try_from(best).unwrap_or(u64::MAX)
    }
}

/// Returns the longest time for which one of these contracts may send at the rate of a link, ns.
///
/// Contracts are `(burst in bits, rate in bit/s)`. The time is burst / (link - rate), rounded up. It is [`u64::MAX`] if a
/// contract's rate is the link's or more.
#[must_use]
pub fn hold_ns(link_rate_bps: u64, contracts: impl IntoIterator<Item = (u64, u64)>) -> u64 {
    let longest = |(burst_bits, rate_bps): (u64, u64)| match link_rate_bps.checked_sub(rate_bps) {
        None | Some(0) => u64::MAX,
        Some(gained) => {
            let ns = (u128::from(burst_bits) * 1_000_000_000).div_ceil(u128::from(gained));
            u64::try_from(ns).unwrap_or(u64::MAX)
        }
    };
    contracts.into_iter().map(longest).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn overlapping_stalls_count_once() {
        let line = StallLine::new([(10, 20), (15, 30), (30, 40), (50, 50), (60, 70)]);
        assert_eq!(line.intervals().collect::<Vec<_>>(), [(10, 40), (60, 70)]);
        assert_eq!(line.total_ns(), 40);
        assert_eq!(line.stalled_before(10), 0);
        assert_eq!(line.stalled_before(25), 15);
        assert_eq!(line.stalled_before(50), 30);
        assert_eq!(line.stalled_between(35, 65), 10);
    }

    #[test]
    fn a_stall_in_flight_counts_whole_and_an_older_one_as_far_as_it_is_not_worked_off() {
        let line = StallLine::new([(100 * MS, 105 * MS)]);
        let at_90 = Allowance::new(&line, 900_000, 0);
        assert_eq!(at_90.ns(99 * MS, 106 * MS), 5 * MS, "in flight");
        assert_eq!(
            at_90.ns(99 * MS, 102 * MS),
            2 * MS,
            "only what had passed when the frame arrived"
        );
        // Sent after the stall: the 5 ms grew at u = 0.9 during the stall, then shrink at 0.1.
        assert_eq!(at_90.ns(105 * MS, 106 * MS), 4_500_000);
        assert_eq!(at_90.ns(125 * MS, 126 * MS), 2_500_000);
        assert_eq!(at_90.ns(150 * MS, 151 * MS), 0);
        assert_eq!(at_90.ns(90 * MS, 99 * MS), 0, "before");
        let held = Allowance::new(&line, 900_000, 20 * MS);
        assert_eq!(held.ns(120 * MS, 121 * MS), 5 * MS);
        assert_eq!(held.ns(130 * MS, 131 * MS), 4 * MS);
    }

    #[test]
    fn a_full_link_gives_no_blank_cheque() {
        let line = StallLine::new([(100, 200)]);
        let full = Allowance::new(&line, 1_000_000, 1_000_000);
        assert_eq!(full.ns(150, 300), 50);
        assert_eq!(full.ns(200, 300), 0);
    }

    /// The definition, evaluated for every s.
    fn by_definition(intervals: &[(u64, u64)], idle_ppm: u64, hold: u64, tx: u64, rx: u64) -> u64 {
        let stalled = |from: u64, to: u64| {
            (from..to)
                .filter(|t| intervals.iter().any(|(a, b)| (a..b).contains(&t)))
                .count() as i128
        };
        let value = |s: u64| {
            PPM * stalled(s, rx)
                - i128::from(idle_ppm) * i128::from(tx.saturating_sub(s).saturating_sub(hold))
        };
        (0..=tx).map(value).max().unwrap_or(0).max(0) as u64 / PPM as u64
    }

    proptest! {
        #[test]
        fn fast_equals_definition(
            spans in prop::collection::vec((0u64..120, 0u64..15), 0..6),
            idle_ppm in 1u64..1_000_000, hold in 0u64..40, tx in 0u64..140, flight in 0u64..30,
        ) {
            let intervals: Vec<_> = spans.iter().map(|(a, l)| (*a, a + l)).collect();
            let line = StallLine::new(intervals.clone());
            let allowance = Allowance::new(&line, 1_000_000 - idle_ppm as u32, hold);
            prop_assert_eq!(allowance.ns(tx, tx + flight), by_definition(&intervals, idle_ppm, hold, tx, tx + flight));
        }

        #[test]
        fn more_stalls_never_allow_less(
            spans in prop::collection::vec((0u64..1_000, 0u64..50), 0..12), more in (0u64..1_000, 0u64..50),
            u in 0u32..1_100_000, hold in 0u64..100, tx in 0u64..1_100, flight in 0u64..100,
        ) {
            let mut intervals: Vec<_> = spans.iter().map(|(a, l)| (*a, a + l)).collect();
            let before = Allowance::new(&StallLine::new(intervals.clone()), u, hold).ns(tx, tx + flight);
            intervals.push((more.0, more.0 + more.1));
            let line = StallLine::new(intervals);
            let after = Allowance::new(&line, u, hold);
            prop_assert!(after.ns(tx, tx + flight) >= before);
            // A frame that is slower by one ns may be excused by at most one ns more.
            prop_assert!(after.ns(tx, tx + flight + 1) <= after.ns(tx, tx + flight) + 1);
            prop_assert!(after.ns(tx, tx + flight) <= line.total_ns());
        }
    }
}
