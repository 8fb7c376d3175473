//! Judges a delay: do stalls of the machine explain it?

use super::{NoiseRecord, Stall, StallRecord, StallSource};

/// The stalls of a record that can have delayed what this machine sends, receives or answers. They are sorted and
/// joined, once as the certain intervals and once as long as they count: at most ([`Stalls::of`]) or likely ([`Stalls::likely_on`]).
/// CLOCK_TAI, ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    certain: Vec<(u64, u64)>,
    /// As long as they count.
    counted: Vec<(u64, u64)>,
    whole: bool,
}

/// A call into the kernel with which something began. The record's thread may have to wait for its end, as it does behind a
/// stall: on a kernel without preemption, or where the call does the work of soft interrupts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnCall {
    /// Its duration, ns.
    pub took_ns: u64,
    /// The duration that nine of ten calls of its kind do not exceed at that time, ns.
    pub usual_ns: u64,
}

/// The error of the ends of a stall against other times of the same core, ns.
const EDGE_NS: u64 = 10_000;

impl Stalls {
    /// Creates the stalls of a record.
    #[must_use]
    pub fn of(record: &NoiseRecord) -> Self {
        let stalls = record.stall_record();
        Self {
            certain: joined(stalls.certain().collect()),
            counted: joined(stalls.possible().collect()),
            whole: false,
        }
    }

    /// Creates the stalls of a record on these cores only, each at its likely length. It began in the middle between the
    /// thread's last look and the due one. What a wake-up of the thread usually takes there (the median) is no stall.
    ///
    /// The longest possible length goes back to the last look. It would explain a delay as long as the time between two looks
    /// by almost any wake-up that is later than usual.
    #[must_use]
    pub fn likely_on(record: &NoiseRecord, cores: &[u32]) -> Self {
        let usual_ns = |core: u32| {
            let of_core = record.cores.iter().find(|noise| noise.core == core);
            of_core.and_then(|noise| Some(noise.overshoot_ns.as_ref()?.p50))
        };
        let likely = |stall: &Stall| {
            let StallSource::Core(core) = stall.source else {
                return None;
            };
            let woke_ns = (stall.woke_ns).saturating_sub(usual_ns(core).unwrap_or(0));
            let counts = cores.contains(&core) && woke_ns > stall.due_ns;
            counts.then(|| Stall {
                alive_ns: stall.alive_ns.min(stall.due_ns).midpoint(stall.due_ns),
                woke_ns,
                ..stall.clone()
            })
        };
        let stalls = StallRecord {
            stalls: record.stalls.iter().filter_map(likely).collect(),
        };
        Self {
            certain: joined(stalls.certain().collect()),
            counted: joined(stalls.possible().collect()),
            whole: false,
        }
    }

    /// Returns the same stalls for what begins and ends on their own core, at a lower priority than the record's threads.
    /// It neither begins nor ends while the core is stalled: only a stall that lies whole within it explains it.
    #[must_use]
    pub fn of_its_own_core(self) -> Self {
        Self {
            whole: true,
            ..self
        }
    }

    /// Returns true if the certain part of a stall meets this time, or lies whole within it.
    fn meet(&self, from_ns: u64, to_ns: u64) -> bool {
        if !self.whole {
            return within(&self.certain, from_ns, to_ns) > 0;
        }
        let first =
            (self.certain).partition_point(|&(begin, _)| begin.saturating_add(EDGE_NS) < from_ns);
        let next = self.certain.get(first);
        next.is_some_and(|&(_, end)| end <= to_ns.saturating_add(EDGE_NS))
    }

    /// Returns the part of a call that began at `from_ns` in which the record says *stalled*, although the call just did its
    /// work, ns. A call that stalls lasts that much longer than usual; no more of it can have been a stall.
    #[must_use]
    pub fn within_call_ns(&self, from_ns: u64, call: OwnCall) -> u64 {
        let stalled_ns = within(&self.counted, from_ns, from_ns.saturating_add(call.took_ns));
        stalled_ns.saturating_sub(call.took_ns.saturating_sub(call.usual_ns))
    }

    /// Returns the number of stalls. Those that overlap count once.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.certain.len() as u64
    }

    /// Returns the number of stalls whose certain part meets this time.
    #[must_use]
    pub fn met(&self, from_ns: u64, to_ns: u64) -> u64 {
        let first = self.certain.partition_point(|&(_, end)| end <= from_ns);
        let next = self.certain.partition_point(|&(begin, _)| begin < to_ns);
        next.saturating_sub(first) as u64
    }

    /// Returns the time between `from_ns` and `to_ns` that the stalls take as they count, ns.
    #[must_use]
    pub fn covered_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        within(&self.counted, from_ns, to_ns)
    }

    /// Returns the chance, 0 to 1, that [`explain`](Self::explain) holds by accident: for something that lasted
    /// `took_ns` and began at a random moment from `from_ns` to `to_ns`, whatever the machine did.
    #[must_use]
    pub fn chance(&self, from_ns: u64, to_ns: u64, took_ns: u64, deadline_ns: u64) -> f64 {
        let excess = took_ns.saturating_sub(deadline_ns);
        // Between two of these moments the overlap with the stalls changes evenly.
        let mut moments = vec![from_ns, to_ns];
        for intervals in [&self.certain, &self.counted] {
            let first = intervals.partition_point(|&(_, end)| end <= from_ns);
            let last = to_ns.saturating_add(took_ns);
            for &(begin, end) in intervals[first..].iter().take_while(|one| one.0 < last) {
                for edge in [
                    begin,
                    begin.saturating_add(EDGE_NS),
                    end,
                    end.saturating_sub(EDGE_NS),
                ] {
                    moments.extend([edge, edge.saturating_sub(took_ns)]);
                }
            }
        }
        moments.retain(|moment| (from_ns..=to_ns).contains(moment));
        moments.sort_unstable();
        moments.dedup();
        let overlap = |intervals: &[_], at: u64| within(intervals, at, at.saturating_add(took_ns));
        let explained: f64 = moments
            .windows(2)
            .filter(|pair| {
                let middle = pair[0].midpoint(pair[1]);
                self.meet(middle, middle.saturating_add(took_ns))
            })
            .map(|pair| {
                let ends = [pair[0], pair[1]].map(|at| overlap(&self.counted, at));
                (pair[1] - pair[0]) as f64 * part_at_least(ends, excess)
            })
            .sum();
        explained / (to_ns.saturating_sub(from_ns)).max(1) as f64
    }

    /// Returns the union of both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let both = |a: &[_], b: &[_]| joined(a.iter().chain(b).copied().collect());
        Self {
            certain: both(&self.certain, &other.certain),
            counted: both(&self.counted, &other.counted),
            whole: self.whole && other.whole,
        }
    }

    /// Returns true if stalls explain that something lasted from `from_ns` to `to_ns` instead of at most
    /// `deadline_ns`. It must overlap the certain part of a stall. Its excess must not exceed the length of the
    /// stalls within it, as they count.
    #[must_use]
    pub fn explain(&self, from_ns: u64, to_ns: u64, deadline_ns: u64) -> bool {
        let took = to_ns.saturating_sub(from_ns);
        self.meet(from_ns, to_ns)
            && took <= deadline_ns.saturating_add(within(&self.counted, from_ns, to_ns))
    }
}

/// Returns the time between `from_ns` and `to_ns` that lies within the intervals, in ns. They must be sorted and
/// disjoint.
fn within(intervals: &[(u64, u64)], from_ns: u64, to_ns: u64) -> u64 {
    let first = intervals.partition_point(|&(_, end)| end <= from_ns);
    intervals[first..]
        .iter()
        .take_while(|&&(begin, _)| begin < to_ns)
        .map(|&(begin, end)| end.min(to_ns).saturating_sub(begin.max(from_ns)))
        .sum()
}

/// Returns the part, 0 to 1, of a straight line between two values that is at least `limit`.
fn part_at_least([a, b]: [u64; 2], limit: u64) -> f64 {
    let (low, high) = (a.min(b), a.max(b));
    if low >= limit {
        1.0
    } else if high < limit {
        0.0
    } else {
        (high - limit) as f64 / (high - low) as f64
    }
}

/// Returns the intervals sorted, and joined where they touch or overlap.
fn joined(mut intervals: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    // One that ends before it begins is none, whoever wrote it down.
    intervals.retain(|&(begin, end)| begin <= end);
    intervals.sort_unstable();
    let mut all: Vec<(u64, u64)> = Vec::with_capacity(intervals.len());
    for (begin, end) in intervals {
        match all.last_mut() {
            Some(last) if begin <= last.1 => last.1 = last.1.max(end),
            _ => all.push((begin, end)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::CoreNoise;
    use super::*;
    use crate::summary::Summary;

    /// Random numbers from a seed (xorshift).
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % limit
        }
    }

    /// Random stalls of a core, looked for every 100 µs, in a second.
    fn random_stalls(dice: &mut Dice, count: u64, longest_ns: u64) -> Vec<Stall> {
        let stall = |_| {
            let due_ns = (1 + dice.below(9_999)) * 100_000;
            let woke_ns = due_ns + 20_000 + dice.below(longest_ns);
            Stall {
                source: StallSource::Core(0),
                alive_ns: due_ns - 90_000,
                due_ns,
                woke_ns,
            }
        };
        (0..count).map(stall).collect()
    }

    /// Core 0, with this median of its wake-ups, ns.
    fn core_that_wakes_after(p50: u64) -> CoreNoise {
        CoreNoise {
            core: 0,
            policy: "SCHED_FIFO".to_owned(),
            priority: 99,
            policy_at_end: "SCHED_FIFO".to_owned(),
            priority_at_end: 99,
            fallback: None,
            overshoot_ns: Some(Summary {
                min: 0,
                p50,
                p99: 10_000,
                p999: 10_000,
                max: 10_000,
                samples: 1000,
            }),
            histogram: Vec::new(),
            steal_ns: 0,
            stalls: 1,
            stalled_ns: 0,
            dropped_stalls: 0,
        }
    }

    #[test]
    fn the_chance_is_what_random_misses_against_random_stalls_find() {
        const SECOND: u64 = 1_000_000_000;
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
        let mut seen = 0.0_f64;
        for (count, longest_ns) in [(40, 50_000), (400, 200_000), (300, 3_000_000), (5, 900_000)] {
            for took_ns in [80_000, 175_000, 400_000, 2_500_000] {
                let record = NoiseRecord {
                    stalls: random_stalls(&mut dice, count, longest_ns),
                    ..NoiseRecord::default()
                };
                let (mut stalls, deadline) = (Stalls::of(&record), 75_000);
                if dice.below(2) == 1 {
                    stalls = stalls.of_its_own_core();
                }
                let chance = stalls.chance(0, SECOND, took_ns, deadline);
                let tries = 20_000_u64;
                let explained = (0..tries)
                    .map(|_| dice.below(SECOND))
                    .filter(|&at| stalls.explain(at, at + took_ns, deadline))
                    .count() as f64;
                let mean = chance * tries as f64;
                let sigma = (mean * (1.0 - chance)).sqrt();
                assert!(
                    (explained - mean).abs() <= 4.5 * sigma + 1.0,
                    "{count} stalls up to {longest_ns}, misses of {took_ns}: {explained}, expected {mean} ± {sigma}"
                );
                seen = seen.max(chance);
            }
        }
        assert!(seen > 0.3, "none of these was likely: {seen}");
    }

    #[test]
    fn what_its_own_core_did_is_explained_by_whole_stalls_only() {
        let us = 1000;
        let record = NoiseRecord {
            stalls: vec![Stall {
                source: StallSource::Core(0),
                alive_ns: 950 * us,
                due_ns: 1000 * us,
                woke_ns: 1300 * us,
            }],
            ..NoiseRecord::default()
        };
        let any = Stalls::of(&record);
        let own = any.clone().of_its_own_core();
        for (from, to, whole) in [(960, 1310, true), (1100, 1400, false), (900, 1200, false)] {
            assert!(any.explain(from * us, to * us, 200 * us), "{from} to {to}");
            assert_eq!(
                own.explain(from * us, to * us, 200 * us),
                whole,
                "{from} to {to}"
            );
        }
    }

    #[test]
    fn a_call_of_its_own_is_a_stall_only_where_it_took_longer_than_usual() {
        let us = 1000;
        let record = NoiseRecord {
            stalls: vec![Stall {
                source: StallSource::Core(0),
                alive_ns: 950 * us,
                due_ns: 1010 * us,
                woke_ns: 1070 * us,
            }],
            ..NoiseRecord::default()
        };
        let stalls = Stalls::of(&record);
        // The duration of the call, what is usual, and what of the record is the call's own work.
        for (took, usual, own) in [
            (65, 60, 60),
            (65, 65, 65),
            (100, 60, 30),
            (300, 60, 0),
            (0, 60, 0),
        ] {
            let call = OwnCall {
                took_ns: took * us,
                usual_ns: usual * us,
            };
            assert_eq!(stalls.within_call_ns(1000 * us, call), own * us, "{call:?}");
        }
    }

    /// Times as nobody could have measured them, from a file.
    #[test]
    fn times_out_of_order_explain_nothing() {
        let stall = |alive_ns, due_ns, woke_ns| Stall {
            source: StallSource::Core(0),
            alive_ns,
            due_ns,
            woke_ns,
        };
        let record = NoiseRecord {
            stalls: vec![stall(500, 500, 400), stall(0, u64::MAX - 5, u64::MAX)],
            ..NoiseRecord::default()
        };
        let stalls = Stalls::of(&record);
        assert_eq!(stalls.count(), 1);
        // It ends before it begins: no time of it lies within a stall.
        assert_eq!(stalls.covered_ns(450, 300), 0);
        assert!(!stalls.explain(300, 600, 100));
        assert!(stalls.chance(0, u64::MAX, 10, 1).is_finite());
    }

    #[test]
    fn only_the_stalls_of_these_cores_count() {
        let stall = |core, at| Stall {
            source: StallSource::Core(core),
            alive_ns: at,
            due_ns: at + 10,
            woke_ns: at + 100,
        };
        let record = NoiseRecord {
            stalls: vec![stall(0, 1000), stall(1, 5000)],
            ..NoiseRecord::default()
        };
        let stalls = Stalls::likely_on(&record, &[1]);
        assert!(!stalls.explain(900, 1150, 200) && stalls.explain(4900, 5150, 200));
        assert_eq!((stalls.count(), stalls.covered_ns(0, 10_000)), (1, 95));
        let met = [(0, 5010), (0, 5011), (5099, 6000), (5100, 6000)];
        assert_eq!(met.map(|(from, to)| stalls.met(from, to)), [0, 1, 1, 0]);
        let chance = Stalls::default().chance(0, 1000, 300, 100);
        assert!(chance.abs() < f64::EPSILON);
    }

    #[test]
    fn a_stall_of_named_cores_has_its_likely_length() {
        // Looked at 950 and 1050, woke at 1150; a wake-up usually takes 20: stalled from 1000 to 1130.
        let stall = Stall {
            source: StallSource::Core(0),
            alive_ns: 950,
            due_ns: 1050,
            woke_ns: 1150,
        };
        let record = |p50| NoiseRecord {
            cores: vec![core_that_wakes_after(p50)],
            stalls: vec![stall.clone()],
            ..NoiseRecord::default()
        };
        let stalls = Stalls::likely_on(&record(20), &[0]);
        assert_eq!(stalls.covered_ns(0, 10_000), 130);
        assert!(stalls.explain(900, 1230, 200) && !stalls.explain(900, 1231, 200));
        assert_eq!(Stalls::of(&record(20)).covered_ns(0, 10_000), 200);
        // Later than due by what is usual there: no stall.
        assert_eq!(Stalls::likely_on(&record(100), &[0]).count(), 0);
    }

    #[test]
    fn a_stall_explains_what_would_have_been_in_time_without_it() {
        let stall = |source, alive_ns, due_ns, woke_ns| Stall {
            source,
            alive_ns,
            due_ns,
            woke_ns,
        };
        let record = NoiseRecord {
            stalls: vec![
                stall(StallSource::Core(0), 1000, 1200, 1400),
                stall(StallSource::Core(1), 1300, 1350, 1500),
                stall(StallSource::Core(1), 3000, 3050, 3100),
                // A talker that is late itself delays no other.
                stall(StallSource::Talker("a".to_owned()), 5000, 5000, 6000),
            ],
            ..NoiseRecord::default()
        };
        let stalls = Stalls::of(&record);
        assert_eq!(stalls.counted, [(1000, 1500), (3000, 3100)]);
        assert!(stalls.explain(950, 1550, 100), "500 of 600 were a stall");
        assert!(!stalls.explain(940, 1550, 100), "110 were none");
        assert!(stalls.explain(1450, 1590, 100), "50 of 140");
        assert!(!stalls.explain(1450, 3100, 100), "150 of 1650, in two");
        assert!(!stalls.explain(1500, 1700, 100), "the stall was over");
        assert!(!stalls.explain(100, 1000, 100), "the stall came later");
        assert!(!stalls.explain(1000, 1150, 100), "before it is certain");
        assert!(!stalls.explain(5100, 5300, 100));
        assert!(!Stalls::default().explain(100, 300, 100));
        let two = stalls.and(&stalls);
        assert_eq!(two, stalls);
    }
}
