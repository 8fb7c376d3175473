//! The largest excess of arrivals over service. (Tests only: the reference in exact fractions.)
//!
//! The arrivals over one input link in a window of length `s` are below each of a few straight lines, so below their
//! minimum. The sum over the links, less the service of rate `C` in `s`, is concave. Its largest value is at a corner,
//! which is found by visiting the corners in order.

use rtwire_describe::ratio::{Overflow, Ratio};

/// The grid of bursts with large denominators: a millionth of a bit.
pub(crate) const BITS_GRID: i128 = 1_000_000;
/// The grid of rates with large denominators: a millionth of a bit/s.
pub(crate) const RATE_GRID: i128 = 1_000_000;
/// The grid of delays with large denominators: a picosecond.
pub(crate) const TIME_GRID: i128 = 1_000_000_000_000;
/// The grid of corners' instants, finer than that of delays.
const CORNER_GRID: i128 = 1_000_000_000_000_000;

/// `burst + rate s` bits in a window of `s` seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The burst, bits.
    pub(crate) burst: Ratio,
    /// The rate, bit/s.
    pub(crate) rate: Ratio,
}

impl Line {
    /// Returns a line whose numbers are rounded up if their denominators are large.
    ///
    /// # Errors
    /// [`Overflow`].
    pub(crate) fn new(burst: Ratio, rate: Ratio) -> Result<Line, Overflow> {
        Ok(Line {
            burst: burst.tidied_up(BITS_GRID)?,
            rate: rate.tidied_up(RATE_GRID)?,
        })
    }

    /// Returns the line as seen `shift` seconds later.
    ///
    /// # Errors
    /// [`Overflow`].
    pub(crate) fn shifted(self, shift: Ratio) -> Result<Line, Overflow> {
        Line::new(self.burst.plus(self.rate.times(shift)?)?, self.rate)
    }

    /// Returns the sum of both lines.
    ///
    /// # Errors
    /// [`Overflow`].
    pub(crate) fn plus(self, other: Line) -> Result<Line, Overflow> {
        Line::new(self.burst.plus(other.burst)?, self.rate.plus(other.rate)?)
    }
}

/// One corner of a minimum of lines. From `from` on, the minimum changes by these.
struct Corner {
    from: Ratio,
    burst_change: Ratio,
    rate_change: Ratio,
}

/// Returns the first line of the minimum, and lists the corners where later ones take over.
fn corners(lines: &[Line], list: &mut Vec<Corner>) -> Result<Option<Line>, Overflow> {
    let Some(first) = lines.iter().min_by_key(|line| (line.burst, line.rate)) else {
        return Ok(None);
    };
    let mut current = *first;
    loop {
        let mut next: Option<(Ratio, Line)> = None;
        for line in lines.iter().filter(|line| line.rate < current.rate) {
            // Not below at the current corner, so the crossing lies at or behind it.
            let at = line
                .burst
                .minus(current.burst)?
                .over(current.rate.minus(line.rate)?)?;
            let better = match &next {
                None => true,
                Some((least, best)) => at < *least || (at == *least && line.rate < best.rate),
            };
            if better {
                next = Some((at, *line));
            }
        }
        let Some((from, line)) = next else {
            return Ok(Some(*first));
        };
        list.push(Corner {
            from,
            burst_change: line.burst.minus(current.burst)?,
            rate_change: line.rate.minus(current.rate)?,
        });
        current = line;
    }
}

/// Returns `sup over 0 <= s <= horizon of sum over groups of min(lines)(s) - service s`, in bits, never rounded down.
///
/// `None` if it grows without end. This includes equality of the rates, since any drift of a clock would make it grow.
/// With a horizon it is never `None`.
///
/// # Errors
/// [`Overflow`].
pub(crate) fn excess(
    groups: &[Vec<Line>],
    service: Ratio,
    horizon: Option<Ratio>,
) -> Result<Option<Ratio>, Overflow> {
    let mut list = Vec::new();
    let mut burst = Ratio::ZERO;
    let mut slope = Ratio::ZERO.minus(service)?;
    for lines in groups {
        if let Some(first) = corners(lines, &mut list)? {
            burst = burst.plus(first.burst)?.tidied_up(BITS_GRID)?;
            slope = slope.plus(first.rate)?.tidied_up(RATE_GRID)?;
        }
    }
    list.sort_by_key(|corner| corner.from);
    let mut at = Ratio::ZERO;
    for corner in &list {
        if slope.num() < 0 || horizon.is_some_and(|end| corner.from > end) {
            break;
        }
        at = corner.from;
        burst = burst.plus(corner.burst_change)?.tidied_up(BITS_GRID)?;
        slope = slope.plus(corner.rate_change)?.tidied_up(RATE_GRID)?;
    }
    let at = match (slope.num() < 0, horizon) {
        // Behind the corner the sum falls, so an instant rounded down gives a larger value.
        (true, _) => at.tidied_down(CORNER_GRID)?,
        (false, Some(end)) => end.tidied_up(CORNER_GRID)?,
        (false, None) => return Ok(None),
    };
    burst
        .plus(slope.times(at)?)?
        .tidied_up(BITS_GRID * 1_000)
        .map(Some)
}

/// One frame in each period, each at most `jitter` late.
///
/// That is `frame (floor((s + jitter) / period) + 1)` bits in a closed window of `s` seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stair {
    /// The frame, bits.
    pub(crate) frame: Ratio,
    /// The period in seconds, above zero.
    pub(crate) period: Ratio,
    /// The jitter, seconds.
    pub(crate) jitter: Ratio,
}

impl Stair {
    fn steps(&self, s: Ratio) -> Result<i128, Overflow> {
        Ok(s.plus(self.jitter)?.over(self.period)?.floor())
    }

    /// Returns the bits until the next step behind `s`.
    fn at(&self, s: Ratio) -> Result<Ratio, Overflow> {
        self.frame.times(Ratio::whole(self.steps(s)? + 1))
    }

    /// Returns the next step behind `s`.
    fn next(&self, s: Ratio) -> Result<Ratio, Overflow> {
        self.period
            .times(Ratio::whole(self.steps(s)? + 1))?
            .minus(self.jitter)
    }
}

/// The arrivals over one input: below each line, and below the sum of `rest` and the stairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arrivals {
    /// Upper bounds; the first is the sum of all contracts as straight lines.
    pub(crate) lines: Vec<Line>,
    /// The sum of the flows without a stair.
    pub(crate) rest: Line,
    /// The flows with a stair.
    pub(crate) stairs: Vec<Stair>,
}

/// The largest number of steps to visit. Beyond it only the straight lines are used, which hold as well.
const MOST_STEPS: usize = 2_000;

/// As [`excess`], with stairs. The sum is computed from step to step; within a step it is straight.
///
/// # Errors
/// [`Overflow`].
pub(crate) fn excess_with_stairs(
    groups: &[Arrivals],
    service: Ratio,
) -> Result<Option<Ratio>, Overflow> {
    let lines: Vec<Vec<Line>> = groups.iter().map(|group| group.lines.clone()).collect();
    let straight = excess(&lines, service, None)?;
    let (Some(straight), true) = (
        straight,
        groups.iter().any(|group| !group.stairs.is_empty()),
    ) else {
        return Ok(straight);
    };
    // The sum of all contracts falls when less the service: where it is below the best found, nothing better follows.
    let mut total = Line {
        burst: Ratio::ZERO,
        rate: Ratio::ZERO,
    };
    for group in groups {
        if let Some(first) = group.lines.first() {
            total = total.plus(*first)?;
        }
    }
    let mut best: Option<Ratio> = None;
    let mut from = Ratio::ZERO;
    for _ in 0..MOST_STEPS {
        if let Some(best) = best {
            let limit = total.burst.plus(total.rate.minus(service)?.times(from)?)?;
            if total.rate < service && limit <= best {
                return Ok(Some(best.min(straight)));
            }
        }
        let mut until: Option<Ratio> = None;
        let mut here = Vec::new();
        for group in groups {
            let mut level = group.rest.burst.plus(group.rest.rate.times(from)?)?;
            for stair in &group.stairs {
                level = level.plus(stair.at(from)?)?;
                let next = stair.next(from)?;
                until = Some(until.map_or(next, |least| least.min(next)));
            }
            let mut lines = vec![Line::new(level, group.rest.rate)?];
            for line in &group.lines {
                lines.push(line.shifted(from)?);
            }
            here.push(lines);
        }
        let Some(until) = until else {
            return Ok(Some(straight));
        };
        let Some(value) = excess(&here, service, Some(until.minus(from)?))? else {
            return Ok(Some(straight));
        };
        let value = value
            .minus(service.times(from)?)?
            .tidied_up(BITS_GRID * 1_000)?;
        best = Some(best.map_or(value, |largest| largest.max(value)));
        from = until;
    }
    Ok(Some(straight))
}
