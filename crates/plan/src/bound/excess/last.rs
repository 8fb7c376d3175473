//! The input of the examined frame, which is the last that counts there.
//!
//! ```text
//! least of the lines(u), and own(u) + others(u - ahead) + above(u)        others: nothing before `ahead`
//! ```
//!
//! `ahead` is the frame's own time on its link. Derivation: docs/bounds.md, "The last on its link".

use super::{Arrivals, Memory, Stair, at_zero, envelope, least};
use crate::bound::fixed::{Data, Line, Time, product};
use rtwire_describe::ratio::Overflow;

/// The arrivals over the input of the examined frame, by their kind.
#[derive(Clone, Debug, Default)]
pub(in crate::bound) struct Last {
    /// The time of the examined frame on its link.
    pub(in crate::bound) ahead: Time,
    /// The frames of its own stream.
    pub(in crate::bound) own: Arrivals,
    /// The other frames of its class, in a window that is shorter by `ahead`.
    pub(in crate::bound) others: Arrivals,
    /// The frames of the classes above.
    pub(in crate::bound) above: Arrivals,
}

impl Last {
    /// Returns all stairs.
    pub(super) fn stairs(&self) -> impl Iterator<Item = &Stair> {
        let kinds = [&self.own, &self.others, &self.above];
        kinds.into_iter().flat_map(|kind| &kind.stairs)
    }

    /// Returns the data at instant zero.
    pub(super) fn at_zero(&self) -> Result<Data, Overflow> {
        let mut all = at_zero(&self.own)?;
        all = all.checked_add(at_zero(&self.above)?).ok_or(Overflow)?;
        if self.ahead == 0 {
            all = all.checked_add(at_zero(&self.others)?).ok_or(Overflow)?;
        }
        Ok(all)
    }
}

/// Memory for the straight pieces of each kind. Each lasts until the next one begins.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    kinds: [Vec<(Time, Line)>; 4],
}

impl Pieces {
    /// Calls `emit` with each straight piece of an input, until `end`.
    pub(super) fn of(
        &mut self,
        last: &Last,
        lines: &[Line],
        end: Time,
        memory: &mut Memory,
        emit: &mut impl FnMut(Time, Line) -> Result<(), Overflow>,
    ) -> Result<(), Overflow> {
        for kind in &mut self.kinds {
            kind.clear();
            kind.push((0, Line::default()));
        }
        let [own, others, above, all] = &mut self.kinds;
        let mut push = |into: &mut Vec<(Time, Line)>, from: &Arrivals, late: Time| {
            if late > end {
                return Ok(());
            }
            memory.pieces(from, end - late, &mut |at, line| {
                let burst = line.burst.checked_sub(product(line.rate, late));
                let burst = burst.ok_or(Overflow)?;
                into.push((at.saturating_add(late), Line { burst, ..line }));
                Ok(())
            })
        };
        push(own, &last.own, 0)?;
        push(others, &last.others, last.ahead)?;
        push(above, &last.above, 0)?;
        all.clear();
        // The first line is that of the contracts: above the sum of all kinds.
        envelope(if lines.len() > 1 { &lines[1..] } else { lines }, all)?;
        let mut at = [0_usize; 4];
        let mut now = 0;
        loop {
            let mut until = Time::MAX;
            for (kind, at) in self.kinds.iter().zip(&mut at) {
                while kind.get(*at + 1).is_some_and(|next| next.0 <= now) {
                    *at += 1;
                }
                if let Some(next) = kind.get(*at + 1) {
                    until = until.min(next.0);
                }
            }
            let line = |kind: usize| self.kinds[kind].get(at[kind]).map(|piece| piece.1);
            let mut sum = Line::default();
            for kind in 0..3 {
                sum = sum.plus(line(kind).unwrap_or_default())?;
            }
            match line(3) {
                Some(all) => least(sum, all, now, until, emit)?,
                None => emit(now, sum)?,
            }
            if until > end {
                return Ok(());
            }
            now = until;
        }
    }
}
