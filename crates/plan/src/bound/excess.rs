//! The largest excess of arrivals over service, by visiting every instant at which a slope changes or a value jumps.
//!
//! The arrivals over one input in a window of `s` are below the least of a few lines. They are also below the sum of
//! the contracts, of which periodic ones are stairs. Each input becomes a list of instants, each with a jump and a
//! change of slope. The instants of all inputs are sorted and visited once. Between two of them the sum is straight,
//! so its largest value is at one of them.

use super::fixed::{Data, Line, Rate, Time, product, quotient_down};
use super::mutation::{Term, keeps};
use rtwire_describe::ratio::Overflow;

mod last;

pub(super) use last::Last;
use last::Pieces;

/// One frame in each period: `frame (floor((s + jitter) / period) + 1)` in a closed window of `s`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stair {
    pub(super) frame: Data,
    pub(super) period: Time,
    pub(super) jitter: Time,
}

impl Stair {
    /// Returns the data after a number of steps. A window is closed: frames at its first and at its last instant
    /// count.
    fn level(self, steps: Time) -> Result<Data, Overflow> {
        let frames = i128::from(steps) + i128::from(keeps(Term::ClosedWindow));
        self.frame.checked_mul(frames).ok_or(Overflow)
    }
}

/// The arrivals over one input: below each line, and below the sum of `rest` and the stairs.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrivals {
    /// Upper bounds; the first is the sum of all contracts as straight lines.
    pub(super) lines: Vec<Line>,
    /// The sum of the flows without a stair.
    pub(super) rest: Line,
    pub(super) stairs: Vec<Stair>,
    /// The input of the examined frame, if it is this one. It takes the place of `rest` and the stairs.
    pub(super) last: Option<Box<Last>>,
}

/// A jump and a change of slope at instant `at`.
#[derive(Clone, Copy, Debug)]
struct Change {
    at: Time,
    jump: Data,
    steeper: Rate,
}

/// Memory that is kept between searches.
#[derive(Debug, Default)]
pub(super) struct Walk {
    changes: Vec<Change>,
    memory: Memory,
    pieces: Pieces,
}

/// Memory for the pieces of one group.
#[derive(Debug, Default)]
struct Memory {
    steps: Vec<(Time, Data)>,
    envelope: Vec<(Time, Line)>,
}

/// The largest number of steps to visit. From there on the straight lines bound the rest.
const MOST_STEPS: usize = 20_000;

impl Walk {
    /// Returns `sup over s >= 0 of sum over groups - service s`, never too small.
    ///
    /// `None` if it grows without end. This includes equality of the rates, since any drift of a clock would make it
    /// grow.
    pub(super) fn excess(
        &mut self,
        groups: &[Arrivals],
        service: Rate,
    ) -> Result<Option<Data>, Overflow> {
        let mut total = Line::default();
        let mut at_once: Data = 0;
        let mut stairs = 0;
        for group in groups {
            total = total.plus(group.lines.first().copied().unwrap_or_default())?;
            at_once = at_once.checked_add(at_zero(group)?).ok_or(Overflow)?;
            stairs += all_stairs(group).count();
        }
        if total.rate >= service {
            return Ok(None);
        }
        // Behind `end` even the straight sum of all contracts is below what there is at once.
        let falls = service - total.rate;
        let mut end = quotient_down((total.burst - at_once).max(0), falls)?.saturating_add(1);
        let mut beyond = Data::MIN;
        if stairs > 0 {
            let mut count = 0_i128;
            for stair in groups.iter().flat_map(all_stairs) {
                count += i128::from(end / stair.period) + 1;
            }
            if count > MOST_STEPS as i128 + stairs as i128 {
                let share = (MOST_STEPS as i128 + stairs as i128) * i128::from(end) / count;
                end = Time::try_from(share).map_err(|_| Overflow)?.max(1);
                beyond = total.burst - product(falls, end);
            }
        }
        self.changes.clear();
        for group in groups {
            self.add(group, end)?;
        }
        self.changes.sort_unstable_by_key(|change| change.at);
        let (mut value, mut slope) = (0_i128, -service);
        let (mut best, mut now) = (beyond, 0);
        for change in &self.changes {
            if change.at > now {
                value = value
                    .checked_add(product(slope, change.at - now))
                    .ok_or(Overflow)?;
                now = change.at;
                // The left limit.
                best = best.max(value);
            }
            value = value.checked_add(change.jump).ok_or(Overflow)?;
            slope = slope.checked_add(change.steeper).ok_or(Overflow)?;
            best = best.max(value);
        }
        if slope > 0 {
            // Still rising at the end of what was walked.
            best = best.max(value + product(slope, (end - now).max(0)));
        }
        Ok(Some(best.max(0)))
    }

    /// Adds the instants of one group until `end`.
    fn add(&mut self, group: &Arrivals, end: Time) -> Result<(), Overflow> {
        let mut into = Into {
            changes: &mut self.changes,
            line: Line::default(),
            from: 0,
        };
        let emit = &mut |at, line| into.becomes(at, line);
        match &group.last {
            Some(last) => self
                .pieces
                .of(last, &group.lines, end, &mut self.memory, emit),
            None => self.memory.pieces(group, end, emit),
        }
    }
}

impl Memory {
    /// Calls `emit` with each straight piece of a group, and with the instant at which it begins, until `end`.
    fn pieces(
        &mut self,
        group: &Arrivals,
        end: Time,
        emit: &mut impl FnMut(Time, Line) -> Result<(), Overflow>,
    ) -> Result<(), Overflow> {
        self.steps.clear();
        let mut level = group.rest;
        for stair in &group.stairs {
            let before = stair.jitter / stair.period;
            level.burst = level
                .burst
                .checked_add(stair.level(before)?)
                .ok_or(Overflow)?;
            // An instant of a day and a period of a nanosecond: counted above.
            let mut next = stair.period - (stair.jitter - before * stair.period);
            while next <= end {
                self.steps.push((next, stair.frame));
                next = next.saturating_add(stair.period);
            }
        }
        self.steps.sort_unstable_by_key(|step| step.0);
        // The first line is above the stairs wherever all contracts are in them.
        let lines = if group.stairs.is_empty() || group.lines.len() == 1 {
            &group.lines[..]
        } else {
            &group.lines[1..]
        };
        self.envelope.clear();
        envelope(lines, &mut self.envelope)?;
        if group.stairs.is_empty() {
            for (at, line) in &self.envelope {
                emit(*at, *line)?;
            }
            return Ok(());
        }
        let (mut step, mut piece) = (0, 0);
        let mut now = 0;
        loop {
            while step < self.steps.len() && self.steps[step].0 <= now {
                level.burst += self.steps[step].1;
                step += 1;
            }
            while piece + 1 < self.envelope.len() && self.envelope[piece + 1].0 <= now {
                piece += 1;
            }
            let until = match (self.steps.get(step), self.envelope.get(piece + 1)) {
                (Some(step), Some(piece)) => step.0.min(piece.0),
                (Some(step), None) => step.0,
                (None, Some(piece)) => piece.0,
                (None, None) => Time::MAX,
            };
            match self.envelope.get(piece) {
                Some((_, line)) => least(level, *line, now, until, emit)?,
                None => emit(now, level)?,
            }
            if until > end {
                return Ok(());
            }
            now = until;
        }
    }
}

/// Calls `emit` with the least of two lines between two instants.
fn least(
    one: Line,
    other: Line,
    now: Time,
    until: Time,
    emit: &mut impl FnMut(Time, Line) -> Result<(), Overflow>,
) -> Result<(), Overflow> {
    let (a, b) = (one.at(now), other.at(now));
    let (low, high) = if a < b || (a == b && one.rate <= other.rate) {
        (one, other)
    } else {
        (other, one)
    };
    emit(now, low)?;
    if high.rate < low.rate {
        let gap = high.at(now) - low.at(now);
        let at = quotient_down(gap, low.rate - high.rate)
            .ok()
            .and_then(|wait| now.checked_add(wait));
        // Changing to the other a little early: it is above until then.
        if let Some(at) = at.filter(|at| *at < until) {
            emit(at, high)?;
        }
    }
    Ok(())
}

/// Returns all stairs of a group.
fn all_stairs(group: &Arrivals) -> impl Iterator<Item = &Stair> {
    let last = group.last.iter().flat_map(|last| last.stairs());
    let own = if group.last.is_some() {
        &[][..]
    } else {
        &group.stairs[..]
    };
    own.iter().chain(last)
}

/// The lists to which the changes of one group are added.
struct Into<'a> {
    changes: &'a mut Vec<Change>,
    line: Line,
    from: Time,
}

impl Into<'_> {
    fn becomes(&mut self, at: Time, line: Line) -> Result<(), Overflow> {
        let steeper = line.rate.checked_sub(self.line.rate).ok_or(Overflow)?;
        let jump = line.at(at).checked_sub(self.line.at(at)).ok_or(Overflow)?;
        debug_assert!(at >= self.from);
        self.from = at;
        self.line = line;
        if jump != 0 || steeper != 0 {
            self.changes.push(Change { at, jump, steeper });
        }
        Ok(())
    }
}

/// Returns the data that a group has at instant zero.
fn at_zero(group: &Arrivals) -> Result<Data, Overflow> {
    let lines = group.lines.iter().map(|line| line.burst).min();
    if let Some(last) = &group.last {
        let known = last.at_zero()?;
        return Ok(lines.map_or(known, |lines| lines.min(known)));
    }
    if group.stairs.is_empty() {
        return Ok(lines.unwrap_or(0));
    }
    let mut stairs = group.rest.burst;
    for stair in &group.stairs {
        let level = stair.level(stair.jitter / stair.period)?;
        stairs = stairs.checked_add(level).ok_or(Overflow)?;
    }
    Ok(lines.map_or(stairs, |lines| lines.min(stairs)))
}

/// Finds the least of some lines: the instants at which another line becomes the least.
fn envelope(lines: &[Line], into: &mut Vec<(Time, Line)>) -> Result<(), Overflow> {
    let Some(first) = lines.iter().min_by_key(|line| (line.burst, line.rate)) else {
        return Ok(());
    };
    let mut current = *first;
    into.push((0, current));
    loop {
        let mut next: Option<(Time, Line)> = None;
        for line in lines.iter().filter(|line| line.rate < current.rate) {
            // Not below at the current corner, so the crossing lies at or behind it; a little early is above.
            let at = quotient_down(
                (line.burst - current.burst).max(0),
                current.rate - line.rate,
            );
            let Ok(at) = at else { continue };
            let better = match &next {
                None => true,
                Some((least, best)) => at < *least || (at == *least && line.rate < best.rate),
            };
            if better {
                next = Some((at, *line));
            }
        }
        let Some((at, line)) = next else {
            return Ok(());
        };
        let at = at.max(into.last().map_or(0, |last| last.0));
        into.push((at, line));
        current = line;
    }
}
