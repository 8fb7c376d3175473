//! The time that closed gates take from unscheduled traffic: the least burst and rate that bound all closed time.

use crate::bound::mutation::{Term, keeps};
use rtwire_describe::ratio::{Overflow, Ratio};

use super::circle::Circle;
use super::gates::GateList;

/// The largest rate error of a clock, fast or slow: 200 ppm.
const CLOCK_RATE: (i128, i128) = (5_001, 5_000);

/// A bound on closed time: at most `burst + rate t` in any interval of `t` seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed {
    /// The closed time at once, seconds.
    pub(crate) burst: Ratio,
    /// The closed seconds of each second.
    pub(crate) rate: Ratio,
}

/// Returns the closed time of a list for its unscheduled queues. Its clock is up to `clock_error_ns` from the
/// network's.
///
/// `frame_ns` is the time of the longest unscheduled frame on the link. A frame may be unable to start in this time
/// ahead of a closing, if the guard band is too short to finish it.
pub(crate) fn closed(
    list: &GateList,
    frame_ns: u64,
    clock_error_ns: u64,
) -> Result<Closed, Overflow> {
    let ahead = if keeps(Term::ClosedAhead) {
        frame_ns.saturating_sub(list.guard_band_ns)
    } else {
        0
    };
    let around = list.cycle_ns.max(1);
    let mut closings = Circle::default();
    let mut at = 0_u64;
    for entry in &list.entries {
        if entry.gates & !list.scheduled_queues == 0 {
            let start = (at + around - ahead.min(around)) % around;
            let length = (entry.duration_ns + ahead).min(around);
            closings.take(start, length, around);
        }
        at = at.saturating_add(entry.duration_ns).min(around);
    }
    let cycle = i128::from(around);
    let taken = closings.taken();
    let total: i128 = taken
        .iter()
        .map(|(start, end)| i128::from(end - start))
        .sum();
    // Closed time less `total / cycle` of all time, times the cycle: it repeats, lowest at starts, highest at ends.
    let (mut sum, mut highest, mut lowest) = (0_i128, 0_i128, 0_i128);
    for (start, end) in taken {
        lowest = lowest.min(sum * cycle - i128::from(*start) * total);
        sum += i128::from(end - start);
        highest = highest.max(sum * cycle - i128::from(*end) * total);
    }
    let excess = if keeps(Term::ClosedBurst) {
        highest - lowest
    } else {
        0
    };
    let rate = Ratio::new(total, cycle)?;
    let speed = if keeps(Term::ClosedSpeed) {
        Ratio::new(CLOCK_RATE.0, CLOCK_RATE.1)?
    } else {
        Ratio::ONE
    };
    let apart_ns = clock_error_ns.checked_mul(2).ok_or(Overflow)?;
    let wander = if keeps(Term::ClosedWander) {
        rate.times(Ratio::from_ns(apart_ns))?
    } else {
        Ratio::ZERO
    };
    let burst = Ratio::new(excess, cycle)?.over(Ratio::whole(1_000_000_000))?;
    Ok(Closed {
        burst: burst.plus(wander)?.times(speed)?,
        rate: if total == cycle {
            Ratio::ONE
        } else {
            rate.times(speed)?
        },
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::closed;
    use crate::schedule::gates::{GateEntry, GateList};
    use rtwire_describe::ratio::Ratio;

    fn list(entries: &[(u8, u64)]) -> GateList {
        GateList {
            cycle_ns: entries.iter().map(|entry| entry.1).sum(),
            base_offset_ns: 0,
            entries: entries
                .iter()
                .map(|&(gates, duration_ns)| GateEntry { gates, duration_ns })
                .collect(),
            scheduled_queues: 0x80,
            unscheduled_open_ns: 0,
            guard_band_ns: 0,
        }
    }

    /// Returns the largest closed time in any window, walked nanosecond by nanosecond.
    fn most(list: &GateList, ahead: u64, length: u64) -> u64 {
        let cycle = list.cycle_ns;
        let shut = |at: u64| {
            (0..=ahead).any(|more| {
                let (gates, _) = list.at(at + more + list.base_offset_ns).unwrap();
                gates & 0x7f == 0
            })
        };
        let map: Vec<bool> = (0..cycle).map(shut).collect();
        (0..cycle)
            .map(|from| {
                (from..from + length)
                    .filter(|at| map[(at % cycle) as usize])
                    .count() as u64
            })
            .max()
            .unwrap()
    }

    #[test]
    fn no_window_is_closed_for_longer() {
        for entries in [
            &[(0x80, 10), (0x7f, 90)][..],
            &[(0x80, 10), (0x7f, 20), (0, 5), (0x80, 15), (0x7f, 50)],
            &[(0x7f, 3), (0x80, 40), (0x7f, 9), (0x80, 30), (0x7f, 18)],
            &[(0x80, 20), (0x7f, 60), (0x80, 20)],
        ] {
            let list = list(entries);
            for ahead in [0, 4, 12] {
                let bound = closed(&list, ahead, 0).unwrap();
                let mut tight = false;
                for length in 1..3 * list.cycle_ns {
                    let seen = most(&list, ahead, length);
                    let allowed = bound
                        .burst
                        .plus(bound.rate.times(Ratio::from_ns(length)).unwrap())
                        .unwrap();
                    assert!(
                        Ratio::from_ns(seen) <= allowed,
                        "{entries:?} {ahead} {length}: {seen} > {allowed}"
                    );
                    // 200 ppm and less than a nanosecond of rounding apart.
                    tight |= Ratio::from_ns(seen + 1) >= allowed;
                }
                assert!(tight, "{entries:?} {ahead}");
            }
        }
    }
}
