//! Frame preemption at a port: what express frames cost the frames that they interrupt.
//!
//! An interruption needs an express frame that comes while a preemptable one is being sent. So there are at most as many of
//! them as express frames. Each is a small frame of its own kind: it comes with its express frame, and it is in the way of
//! the preemptable classes only. `docs/bounds.md` derives it.

use super::{Analysis, FlowNumbers};
use crate::bound::arrivals::{Bundle, Class, Departures, Input};
use crate::bound::excess::{Arrivals, Stair};
use crate::bound::fixed::{self, Data, Line, Time};
use crate::bound::graph::Preempting;
use crate::bound::mutation::{Term, keeps};
use rtwire_describe::ratio::Overflow;

/// One bit.
const BIT: Data = 1_000_000_000_000_000_000;

/// The numbers of a port with preemption.
#[derive(Clone, Copy, Debug)]
pub(in crate::bound) struct Preemption {
    first_express: u8,
    piece: Data,
    interruption: Data,
}

impl Preemption {
    pub(super) fn new(stated: Preempting) -> Result<Preemption, Overflow> {
        Ok(Preemption {
            first_express: stated.first_express,
            piece: fixed::data_up(stated.piece)?,
            interruption: fixed::data_up(stated.interruption)?,
        })
    }

    /// True if frames of this class may be interrupted.
    pub(in crate::bound) fn interrupts(self, class: u8) -> bool {
        class < self.first_express
    }

    /// Returns the part of a lower frame for which a frame of `class` may have to wait.
    pub(in crate::bound) fn in_the_way(self, class: u8, lower: u8, frame: Data) -> Data {
        if self.interrupts(class) || !self.interrupts(lower) {
            frame
        } else if keeps(Term::Piece) {
            frame.min(self.piece)
        } else {
            0
        }
    }

    /// Returns what the frames of at least `smallest` within `line` cost by interruptions.
    pub(in crate::bound) fn cost(self, line: Line, smallest: Data) -> Result<Line, Overflow> {
        if !keeps(Term::Interruptions) {
            return Ok(Line::default());
        }
        // Whole bits keep the products small.
        let parts = self.interruption.div_euclid(BIT) + 1;
        let parts = if self.interruption % BIT == 0 {
            parts - 1
        } else {
            parts
        };
        line.share_up(parts, (smallest / BIT).max(1))
    }
}

impl Input {
    /// Adds what the frames of an express flow cost. `line` is its contract here; its frames are late by at most `late`.
    pub(super) fn interrupt(
        &mut self,
        preemption: Preemption,
        flow: &FlowNumbers,
        line: Line,
        late: Time,
    ) -> Result<(), Overflow> {
        let cost = preemption.cost(line, flow.smallest)?;
        let all = &mut self.interruptions;
        all.used = true;
        all.contracts = all.contracts.plus(cost)?;
        match flow.period.filter(|_| keeps(Term::Interruptions)) {
            Some(period) => all.stairs.push(Stair {
                frame: preemption.interruption,
                period,
                jitter: fixed::plus(flow.jitter, late)?,
            }),
            None => all.rest = all.rest.plus(cost)?,
        }
        self.least_express = self.least_express.min(flow.smallest);
        Ok(())
    }
}

impl Analysis<'_> {
    /// Returns the lines that bound what the express frames of an input cost a preemptable class here; nothing if they cost
    /// nothing. The first is that of their contracts.
    pub(super) fn interruptions(
        &self,
        server: usize,
        input: &Input,
        link: Option<&Departures>,
    ) -> Result<Vec<Line>, Overflow> {
        let Some(preemption) = self.servers[server].preemption else {
            return Ok(Vec::new());
        };
        if !input.interruptions.used {
            return Ok(Vec::new());
        }
        let mut express = Bundle::default();
        for class in
            &input.classes[usize::from(preemption.first_express).min(input.classes.len())..]
        {
            express.add(class)?;
        }
        let mut lines = vec![input.interruptions.contracts];
        for line in express.lines(link, input.shift)?.into_iter().skip(1) {
            lines.push(preemption.cost(line, input.least_express)?);
        }
        Ok(lines)
    }

    /// Returns what the express frames of an input cost, as arrivals of a port's memory.
    pub(super) fn interruptions_held(
        &self,
        server: usize,
        input: &Input,
        link: Option<&Departures>,
    ) -> Result<Option<Arrivals>, Overflow> {
        let lines = self.interruptions(server, input, link)?;
        let Class { rest, stairs, .. } = &input.interruptions;
        Ok((!lines.is_empty()).then(|| Arrivals {
            lines,
            rest: *rest,
            stairs: stairs.clone(),
            last: None,
        }))
    }
}
