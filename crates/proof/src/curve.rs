//! Arrivals over input links as functions of a window's length, and the one question that is asked about them.

use core::cmp::Ordering;

use crate::number::Num;

/// `burst + rate s` in a window of `s` (a token bucket).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) burst: Num,
    pub(crate) rate: Num,
}

impl Line {
    pub(crate) const NOTHING: Line = Line { burst: Num::ZERO, rate: Num::ZERO };

    pub(crate) fn plus(self, other: Line) -> Line {
        Line { burst: self.burst + other.burst, rate: self.rate + other.rate }
    }

    /// Returns the line for a window that is longer by `time`.
    pub(crate) fn longer(self, time: Num) -> Line {
        Line { burst: self.burst + self.rate * time, rate: self.rate }
    }

    /// Returns the time at which a flatter line falls below this one. `None` if it is not flatter, or out of range: to
    /// leave out a line makes the least of all larger only.
    fn meets(self, flatter: Line) -> Option<When> {
        let (gap, of) = ((flatter.burst - self.burst).0?, (self.rate - flatter.rate).0?);
        let known = of > 0 && of < 1 << 62;
        known.then(|| When { whole: gap.div_euclid(of), part: gap.rem_euclid(of), of })
    }
}

/// `frame (floor((s + jitter) / period) + 1)` in a closed window of `s`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stair {
    pub(crate) frame: Num,
    pub(crate) period: Num,
    pub(crate) jitter: Num,
}

/// The arrivals over one input: at most each of `lines`, and at most `rest` with the stairs.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Contracts of all its flows, as straight lines.
    pub(crate) contracts: Line,
    pub(crate) lines: Vec<Line>,
    pub(crate) rest: Line,
    pub(crate) stairs: Vec<Stair>,
}

/// The largest number of steps that are looked at. A certificate that needs more is refused.
const MOST_STEPS: i128 = 200_000;

/// A point in time: `whole + part / of` ps, with `0 <= part < of`.
#[derive(Clone, Copy, Debug)]
struct When {
    whole: i128,
    part: i128,
    of: i128,
}

impl When {
    fn at(whole: i128) -> When {
        When { whole, part: 0, of: 1 }
    }

    fn order(&self, other: &When) -> Ordering {
        // Parts and what they are of are below 2^62.
        let parts = || (self.part * other.of).cmp(&(other.part * self.of));
        self.whole.cmp(&other.whole).then_with(parts)
    }

    /// Returns `line` at this time, rounded up to a unit of data.
    fn of_line(&self, line: Line) -> Num {
        let part = (line.rate * self.part.into()).over_up(self.of.into());
        line.burst + line.rate * self.whole.into() + part
    }
}

/// True if for every window `s >= 0` the groups together bring at most `limit + service s`.
///
/// The sum of the contracts has a smaller rate than the service, so it is below behind some instant. Until then every
/// group is a straight line between its instants: steps of stairs, and crossings of lines. So the sum is checked at
/// both sides of every instant. Crossings are exact fractions.
pub(crate) fn fits(groups: &[Group], limit: Num, service: Num) -> bool {
    fits_exactly(groups, limit, service).unwrap_or(false)
}

fn fits_exactly(groups: &[Group], limit: Num, service: Num) -> Option<bool> {
    let total = groups.iter().fold(Line::NOTHING, |sum, group| sum.plus(group.contracts));
    let falls = (service - total.rate).0?;
    if falls <= 0 || limit.0? < 0 {
        return Some(false);
    }
    let end = (total.burst - limit).over_up(falls.into()).0?;
    if end <= 0 {
        return Some(true);
    }
    let mut changes: Vec<(When, Line)> = Vec::new();
    let mut now = Line { burst: Num::ZERO - limit, rate: Num::ZERO - service };
    let mut steps = 0;
    for group in groups {
        now = now.plus(group.instants(end, &mut changes, &mut steps)?);
    }
    changes.sort_by(|a, b| a.0.order(&b.0));
    let fits_at = |when: When, line: Line| when.of_line(line) <= Num::ZERO;
    if !fits_at(When::at(0), now) {
        return Some(false);
    }
    for (when, change) in changes {
        if !fits_at(when, now) {
            return Some(false);
        }
        now = now.plus(change);
        if !fits_at(when, now) {
            return Some(false);
        }
    }
    Some(fits_at(When::at(end), now))
}

impl Group {
    /// Returns the line at instant zero, and lists the changes until `end`.
    fn instants(
        &self,
        end: i128,
        changes: &mut Vec<(When, Line)>,
        steps: &mut i128,
    ) -> Option<Line> {
        let mut jumps: Vec<(i128, Num)> = Vec::new();
        let mut level = self.rest;
        for stair in &self.stairs {
            let (period, jitter) = (stair.period.0.filter(|p| *p > 0)?, stair.jitter.0?);
            let done = jitter.div_euclid(period);
            level.burst = level.burst + stair.frame * Num::from(done + 1);
            *steps = steps.saturating_add(end / period);
            (*steps <= MOST_STEPS).then_some(())?;
            let mut next = period - jitter.rem_euclid(period);
            while next <= end {
                jumps.push((next, stair.frame));
                next = next.checked_add(period)?;
            }
        }
        jumps.sort_unstable_by_key(|jump| jump.0);
        let (mut from, mut at) = (0, 0);
        let mut first = None;
        let mut last = Line::NOTHING;
        loop {
            while let Some((_, frame)) = jumps.get(at).filter(|jump| jump.0 <= from) {
                level.burst = level.burst + *frame;
                at += 1;
            }
            let until = jumps.get(at).map_or(end, |jump| jump.0);
            let mut enter = |when: When, line: Line| {
                if first.is_none() {
                    first = Some(line);
                } else {
                    let change =
                        Line { burst: line.burst - last.burst, rate: line.rate - last.rate };
                    changes.push((when, change));
                }
                last = line;
            };
            self.least(level, from, until, &mut enter)?;
            if at == jumps.len() {
                return first;
            }
            from = until;
        }
    }

    /// Enters the least of all lines from one instant to another, piece by piece.
    fn least(
        &self,
        level: Line,
        from: i128,
        until: i128,
        enter: &mut impl FnMut(When, Line),
    ) -> Option<()> {
        let all = || self.lines.iter().copied().chain([level]);
        // Out of range comes first, and then nothing fits.
        let key = |line: &Line| ((line.burst + line.rate * from.into()).0, line.rate.0);
        let mut current = all().min_by_key(key)?;
        enter(When::at(from), current);
        loop {
            let meets = all().filter_map(|line| Some((current.meets(line)?, line)));
            let next = meets.min_by(|a, b| a.0.order(&b.0).then(a.1.rate.0.cmp(&b.1.rate.0)));
            let Some((when, line)) = next.filter(|next| next.0.order(&When::at(until)).is_lt())
            else {
                return Some(());
            };
            enter(when, line);
            current = line;
        }
    }
}
