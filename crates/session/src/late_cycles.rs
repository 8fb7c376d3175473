//! The cycles of a talker that were later than declared, beside the stalls of its machine. Pure.

use rtwire_measure::noise::Stalls;
use rtwire_measure::units::{duration, grouped};

/// The largest number of late cycles that a run keeps with their times.
const KEPT_MOST: u64 = 4_096;

/// The longest delay in ns that the record of stalls may not show: its period and its threshold.
const BLIND_NS: u64 = 350_000;
/// The divisor of the share of cycles that may be late without a cause on record, if each is late by less than [`BLIND_NS`]. More of
/// them are no accident, unless the machine stalled more often still: then it also has stalls a little too short for the record.
const SHARE: u64 = 50;

/// The account of a talker's cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LateCycles {
    /// Times at which one or more cycles were later than declared, or by an interval, or skipped.
    pub(crate) late: u64,
    /// Those of them that no stall explains.
    pub(crate) unexplained: u64,
    /// Those of these that a delay may have caused that is too short for the record.
    pub(crate) unrecordable: u64,
    /// Number of stalls on record.
    pub(crate) stalls: u64,
    /// True if there were more of them than were kept.
    pub(crate) untold: bool,
}

impl LateCycles {
    /// Looks at the late cycles of a stream, each with its due time and the time at which the thread woke, and the number of
    /// cycles that were skipped. A stream without an interval (`None`) has no cycles.
    pub(crate) fn of(
        (interval_ns, tick_error_ns): (Option<u64>, u64),
        late: impl Iterator<Item = (u64, u64)>,
        skipped: u64,
        stalls: &Stalls,
    ) -> Self {
        let Some(interval_ns) = interval_ns else {
            return Self::default();
        };
        let limit_ns = limit_ns(interval_ns, tick_error_ns);
        let (mut count, mut unexplained, mut unrecordable, mut accounted) =
            (0_u64, 0_u64, 0_u64, 0_u64);
        for (due_ns, woke_ns) in late {
            count += 1;
            if !stalls.explain(due_ns, woke_ns, limit_ns) {
                unexplained += 1;
                // A long delay is often some recorded stalls, each with one beside it that is too short for the record.
                let excess_ns = woke_ns.saturating_sub(due_ns).saturating_sub(limit_ns);
                let rest_ns = excess_ns.saturating_sub(stalls.covered_ns(due_ns, woke_ns));
                let blind_ns = BLIND_NS.saturating_mul(1 + stalls.met(due_ns, woke_ns));
                unrecordable += u64::from(rest_ns < blind_ns);
            }
            // A late cycle skips itself, at most, and those that passed meanwhile.
            let passed = woke_ns.saturating_sub(due_ns) / interval_ns.max(1);
            accounted = accounted.saturating_add(passed).saturating_add(1);
        }
        let untold = count >= KEPT_MOST;
        let beside = if untold {
            0
        } else {
            skipped.saturating_sub(accounted)
        };
        Self {
            late: count.saturating_add(beside),
            unexplained: unexplained.saturating_add(beside),
            // Their threads woke in time: it was the send call before that was held up.
            unrecordable: unrecordable.saturating_add(beside),
            stalls: stalls.count(),
            untold,
        }
    }

    /// Returns true if late cycles show a fault of the talker among `cycles` cycles: one was later than any delay that the
    /// record does not show, or too many were.
    pub(crate) fn is_proof(&self, cycles: u64) -> bool {
        let many = (cycles / SHARE).max(self.stalls);
        self.unexplained > self.unrecordable || self.unexplained > many
    }
}

/// The record of stalls that late cycles are held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// Stalls were not recorded.
    None,
    /// Some stalls found no room in the record.
    Full,
    /// The clock that the cycles follow was set.
    ClockSet,
    /// All stalls that it can show are in it.
    Whole,
}

/// The meaning of late cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The machine held them up: stalls on record, or delays that are too short for the record.
    Machine,
    /// Nothing: the records are not whole.
    Nothing,
    /// A fault of the talker.
    Fault,
}

/// The late cycles of a stream, as a report counts them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account<'a> {
    /// The stream's name, as the text shall show it.
    pub(crate) stream: &'a str,
    /// The declared tick error; 0 for none.
    pub(crate) tick_error_ns: u64,
    /// The highest lateness of a cycle.
    pub(crate) worst_ns: u64,
    /// As in [`LateCycles`].
    pub(crate) late: u64,
    /// As in [`LateCycles`].
    pub(crate) unexplained: u64,
    /// As in [`LateCycles`].
    pub(crate) untold: bool,
    /// As [`LateCycles::is_proof`] says.
    pub(crate) is_proof: bool,
}

impl Account<'_> {
    /// Returns what the late cycles show, and the words for it. `None` if there are none.
    pub(crate) fn finding(&self, record: Record) -> Option<(Shown, String)> {
        if self.late == 0 && self.unexplained == 0 {
            return None;
        }
        let unexplained = times(self.unexplained);
        let (shown, why) = if record == Record::ClockSet {
            let why = "and the clock that they follow was set meanwhile";
            (Shown::Nothing, why.to_owned())
        } else if self.unexplained == 0 {
            let why = format!("{}, while the machine stalled", times(self.late));
            (Shown::Machine, why)
        } else if record == Record::Full || self.untold {
            let why = "and there were more stalls and late cycles than were recorded";
            (Shown::Nothing, why.to_owned())
        } else if record == Record::None {
            let why = "and stalls of the machine were not recorded (--no-noise)";
            (Shown::Fault, format!("{unexplained}, {why}"))
        } else if self.is_proof {
            let why = "and no recorded stall of the machine explains it";
            (Shown::Fault, format!("{unexplained}, {why}"))
        } else {
            let why = "by delays that may be too short for the record of stalls";
            (Shown::Machine, format!("{unexplained}, {why}"))
        };
        let declared = match self.tick_error_ns {
            0 => String::new(),
            declared => format!("later than the declared {} or ", duration(declared)),
        };
        let text = format!(
            "cycles of {} were {declared}not sent at all, the worst one late by {}, {why}",
            self.stream,
            duration(self.worst_ns)
        );
        Some((shown, text))
    }
}

/// Returns the lateness from which a cycle counts as late, ns.
///
/// It is what is declared. Where more than an interval is declared, a cycle is skipped before it is that late. Where nothing
/// is declared, as for a stream with launch times, which has windows instead, only cycles that were skipped count.
pub(crate) fn limit_ns(interval_ns: u64, tick_error_ns: u64) -> u64 {
    match tick_error_ns {
        0 => interval_ns,
        declared => declared.min(interval_ns),
    }
}

/// Returns a number of times in words.
fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{} times", grouped(count)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtwire_measure::noise::{NoiseRecord, Stall, StallSource};

    #[test]
    fn late_cycles_are_explained_by_stalls_and_skips_by_late_cycles() {
        let noise = NoiseRecord {
            stalls: vec![Stall {
                source: StallSource::Core(0),
                alive_ns: 10_100,
                due_ns: 10_100,
                woke_ns: 12_500,
            }],
            ..NoiseRecord::default()
        };
        let stalls = Stalls::of(&noise);
        let late = [(10_000, 12_500), (50_000, 50_200)];
        let of = |skipped, stalls: &Stalls| {
            let cycles = LateCycles::of((Some(1_000), 100), late.into_iter(), skipped, stalls);
            (cycles.late, cycles.unexplained, cycles.untold)
        };
        assert_eq!(of(4, &stalls), (2, 1, false));
        assert_eq!(of(4, &Stalls::default()), (2, 2, false));
        // One cycle more is missing than the late ones account for.
        assert_eq!(of(5, &stalls), (3, 2, false));
        let proof = |late: &[(u64, u64)], cycles| {
            let late = late.iter().copied();
            LateCycles::of((Some(1_000_000), 100), late, 0, &stalls).is_proof(cycles)
        };
        let short = [(0, 350_099), (2_000_000, 2_000_200)];
        assert!(!proof(&short, 100), "two in a hundred, both short");
        assert!(proof(&short, 99), "too many");
        assert!(proof(&[(20_000, 370_100)], 10_000), "too long");
        // On a machine that stalled three times there may be as many stalls that the record does not show.
        let at = |ns| Stall {
            source: StallSource::Core(0),
            alive_ns: ns,
            due_ns: ns,
            woke_ns: ns + 1,
        };
        let often = NoiseRecord {
            stalls: [1, 3, 5].map(|ms| at(ms * 1_000_000)).to_vec(),
            ..NoiseRecord::default()
        };
        let of_many = |late: u64| {
            let late = (0..late).map(|k| (k * 2_000_000, k * 2_000_000 + 200));
            LateCycles::of((Some(1_000_000), 100), late, 0, &Stalls::of(&often)).is_proof(99)
        };
        assert!(!of_many(3), "no more than stalls");
        assert!(of_many(4), "more than stalls");
        // A stall of 2 400 ns, and a delay on each side of it that the record need not show.
        assert!(!proof(&[(10_000, 712_499)], 10_000), "three causes");
        assert!(proof(&[(10_000, 712_500)], 10_000), "too long beside it");
        let many = std::iter::repeat_n((1, 200), 4_096);
        assert!(LateCycles::of((Some(1_000), 100), many, 0, &stalls).untold);
        assert_eq!((limit_ns(9, 3), limit_ns(9, 0), limit_ns(9, 20)), (3, 9, 9));
        let free = LateCycles::of((None, 100), late.into_iter(), 9, &stalls);
        assert_eq!(free, LateCycles::default());
    }
}
