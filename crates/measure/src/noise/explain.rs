//! Judges a delay: do stalls of the machine explain it?

use super::NoiseRecord;

/// The stalls of a record that can have delayed what this machine sends, receives or answers. They are sorted and
/// joined, once as the certain intervals and once as the longest possible ones. CLOCK_TAI, ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    certain: Vec<(u64, u64)>,
    possible: Vec<(u64, u64)>,
}

impl Stalls {
    /// Creates the stalls of a record.
    #[must_use]
    pub fn of(record: &NoiseRecord) -> Self {
        let stalls = record.stall_record();
        Self {
            certain: joined(stalls.certain().collect()),
            possible: joined(stalls.possible().collect()),
        }
    }

    /// Returns the union of both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let both = |a: &[_], b: &[_]| joined(a.iter().chain(b).copied().collect());
        Self {
            certain: both(&self.certain, &other.certain),
            possible: both(&self.possible, &other.possible),
        }
    }

    /// Returns true if stalls explain that something lasted from `from_ns` to `to_ns` instead of at most
    /// `deadline_ns`. It must overlap the certain part of a stall. Its excess must not exceed the possible length of
    /// the stalls within it.
    #[must_use]
    pub fn explain(&self, from_ns: u64, to_ns: u64, deadline_ns: u64) -> bool {
        let took = to_ns.saturating_sub(from_ns);
        within(&self.certain, from_ns, to_ns) > 0
            && took <= deadline_ns.saturating_add(within(&self.possible, from_ns, to_ns))
    }
}

/// Returns the time between `from_ns` and `to_ns` that lies within the intervals, in ns. They must be sorted and
/// disjoint.
fn within(intervals: &[(u64, u64)], from_ns: u64, to_ns: u64) -> u64 {
    let first = intervals.partition_point(|&(_, end)| end <= from_ns);
    intervals[first..]
        .iter()
        .take_while(|&&(begin, _)| begin < to_ns)
        .map(|&(begin, end)| end.min(to_ns) - begin.max(from_ns))
        .sum()
}

/// Returns the intervals sorted, and joined where they touch or overlap.
fn joined(mut intervals: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
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
    use super::super::{Stall, StallSource};
    use super::*;

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
        assert_eq!(stalls.possible, [(1000, 1500), (3000, 3100)]);
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
