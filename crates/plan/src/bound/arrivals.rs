//! Arrivals at a port over each input link: lines and stairs that bound them.

use super::excess::{Arrivals, Last, Stair};
use super::fixed::{Data, Line, Time, plus, product, quotient_up};
use super::mutation::{Term, keeps};
use super::tfa::FlowNumbers;
use rtwire_describe::ratio::Overflow;

/// All flows of one class that come over one input.
#[derive(Clone, Debug, Default)]
pub(super) struct Class {
    pub(super) used: bool,
    /// The contracts as straight lines, with the jitter that the flows have here.
    pub(super) contracts: Line,
    /// The sum of the contracts of flows without a stair.
    pub(super) rest: Line,
    pub(super) stairs: Vec<Stair>,
    pub(super) largest: Data,
    /// The largest frame that may have been interrupted at the port before, and the largest one of the others.
    pub(super) interrupted: Data,
    pub(super) uninterrupted: Data,
    /// The least and the highest class of the flows at the port before.
    pub(super) before: Option<(u8, u8)>,
    /// True if a port before has no bound.
    pub(super) unbounded: bool,
}

impl Class {
    /// Adds one flow. It had class `before` at the port before, if it came through one, and its frames may have been
    /// interrupted there.
    pub(super) fn joined_by(&mut self, flow: &FlowNumbers, before: Option<u8>, interrupted: bool) {
        self.used = true;
        self.largest = self.largest.max(flow.largest);
        let kind = if interrupted {
            &mut self.interrupted
        } else {
            &mut self.uninterrupted
        };
        *kind = (*kind).max(flow.largest);
        if let Some(before) = before {
            let (least, most) = self.before.unwrap_or((before, before));
            self.before = Some((least.min(before), most.max(before)));
        }
    }

    /// Adds the arrivals of that flow. `line` is its contract here; its frames are late by at most `late` since its source,
    /// or no longer tied to their periods.
    pub(super) fn bring(
        &mut self,
        flow: &FlowNumbers,
        line: Line,
        late: Option<Time>,
    ) -> Result<(), Overflow> {
        self.contracts = self.contracts.plus(line)?;
        match flow.period.zip(late) {
            Some((period, late)) => self.stairs.push(Stair {
                frame: flow.largest,
                period,
                jitter: plus(flow.jitter, late)?,
            }),
            None => self.rest = self.rest.plus(line)?,
        }
        Ok(())
    }
}

/// One input link by class, or the traffic that enters here.
#[derive(Clone, Debug)]
pub(super) struct Input {
    pub(super) from: Option<usize>,
    /// The time by which frames may be closer together in the queue than on the link.
    pub(super) shift: Time,
    pub(super) classes: Vec<Class>,
    /// The cost of its express frames by interrupting others here, and the least of those frames.
    pub(super) interruptions: Class,
    pub(super) least_express: Data,
}

/// The bounds of a link's traffic, as the port at its sending end knows them.
#[derive(Clone, Debug, Default)]
pub(super) struct Departures {
    /// C t, plus the data that a late port catches up. The largest frame of the flows in question is added later.
    pub(super) line: Line,
    /// All flows of a class and above together, by class.
    pub(super) together: Vec<Option<Line>>,
    /// Flows of a class with a credit together, in whole frames, by class. The largest frame of the flows in question is added later.
    pub(super) credit: Vec<Option<Line>>,
}

/// Several classes of one input as one.
#[derive(Clone, Debug, Default)]
pub(super) struct Bundle {
    pub(super) contracts: Line,
    pub(super) largest: Data,
    interrupted: Data,
    uninterrupted: Data,
    before: Option<(u8, u8)>,
}

impl Bundle {
    pub(super) fn add(&mut self, class: &Class) -> Result<(), Overflow> {
        self.contracts = self.contracts.plus(class.contracts)?;
        self.largest = self.largest.max(class.largest);
        self.interrupted = self.interrupted.max(class.interrupted);
        self.uninterrupted = self.uninterrupted.max(class.uninterrupted);
        self.before = match (self.before, class.before) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, other) => one.or(other),
        };
        Ok(())
    }

    /// Returns every line that bounds these flows. The first is the sum of their contracts.
    ///
    /// Frames may be closer together than on the link by `shift`. The contracts contain it already.
    pub(super) fn lines(
        &self,
        link: Option<&Departures>,
        shift: Time,
    ) -> Result<Vec<Line>, Overflow> {
        let mut lines = vec![self.contracts];
        // Flows that enter here come over no link: nothing but their contracts holds them back.
        let Some(link) = link.filter(|_| !self.contracts.is_nothing()) else {
            return Ok(lines);
        };
        if link.line.rate > 0 {
            // A frame that is interrupted ends behind another one: both may have begun before.
            let frame = match (keeps(Term::LineFrame), keeps(Term::Interrupted)) {
                (true, true) => self.uninterrupted + self.interrupted,
                (true, false) => self.largest,
                (false, _) => 0,
            };
            lines.push(Line {
                burst: link.line.burst.checked_add(frame).ok_or(Overflow)?,
                rate: link.line.rate,
            });
        }
        if let Some((least, most)) = self.before {
            let together = link.together.get(usize::from(least)).copied().flatten();
            lines.extend(together);
            if least == most {
                let credit = link.credit.get(usize::from(least)).copied().flatten();
                lines.extend(credit.map(|line| Line {
                    burst: line.burst + self.largest,
                    ..line
                }));
            }
        }
        for line in &mut lines[1..] {
            *line = line.shifted(shift);
        }
        Ok(lines)
    }
}

/// The lines of one input for one class: of the class itself, of those above it, and of both together.
#[derive(Clone, Debug, Default)]
pub(super) struct Part<'a> {
    pub(super) equal: Vec<Line>,
    pub(super) above: Vec<Line>,
    pub(super) both: Vec<Line>,
    pub(super) own: Option<&'a Class>,
    pub(super) urgent: Vec<&'a Class>,
    /// The arrivals of the class by their kind, if the examined frame comes over this input.
    pub(super) last: Option<&'a Last>,
}

impl Part<'_> {
    /// Fills in the arrivals of the class until `s` and of those above until `s + d`, as lines and stairs in `s`.
    pub(super) fn fill(&self, d: Time, into: &mut Arrivals) -> Result<(), Overflow> {
        let d = if keeps(Term::Overtaking) { d } else { 0 };
        into.lines.clear();
        into.stairs.clear();
        into.rest = Line::default();
        if into.last.is_none() {
            into.last = self.last.cloned().map(Box::new);
        }
        if let Some(own) = self.own.filter(|_| self.last.is_none()) {
            into.rest = own.rest;
            into.stairs.extend_from_slice(&own.stairs);
        }
        if self.above.first().is_none_or(|line| line.is_nothing()) {
            into.lines.extend_from_slice(&self.equal);
            return Ok(());
        }
        for urgent in &self.urgent {
            into.rest = into.rest.plus(urgent.rest.shifted(d))?;
            let sooner = urgent.stairs.iter().map(|stair| Stair {
                jitter: stair.jitter.saturating_add(d),
                ..*stair
            });
            into.stairs.extend(sooner);
        }
        if let Some(last) = &mut into.last {
            // By themselves: lines of both together do not know what comes last.
            last.above.rest = into.rest;
            core::mem::swap(&mut last.above.stairs, &mut into.stairs);
            last.above.lines.clear();
            let above = self.above.iter().map(|line| line.shifted(d));
            last.above.lines.extend(above);
        }
        // What overtakes in a window of `d` alone.
        let within = self.above.iter().map(|line| line.at(d)).min().unwrap_or(0);
        // The first is that of the contracts.
        for equal in &self.equal {
            for above in &self.above {
                into.lines.push(equal.plus(above.shifted(d))?);
            }
        }
        for line in &self.both {
            // Both until s and the urgent ones on to s + d; or both until s + d.
            into.lines.push(Line {
                burst: line.burst.checked_add(within).ok_or(Overflow)?,
                rate: line.rate,
            });
            into.lines.push(line.shifted(d));
        }
        Ok(())
    }
}

/// Returns a line that bounds all flows of a class and above together when they leave a port of `rate`.
///
/// `arrived` is the sum of their contracts there. `largest` and `smallest` are their frames; `low` is the blocking
/// frame.
pub(super) fn together(
    arrived: Line,
    rate: i64,
    latency: Time,
    low: Data,
    largest: Data,
    smallest: Data,
) -> Result<Option<Line>, Overflow> {
    if arrived.rate > rate {
        return Ok(None);
    }
    let low = if keeps(Term::AggregateBlocking) {
        low
    } else {
        0
    };
    let largest = if keeps(Term::AggregateFrame) {
        largest
    } else {
        smallest
    };
    let latency = if keeps(Term::AggregateLatency) {
        latency
    } else {
        0
    };
    let shift = quotient_up(low + largest - smallest, rate)?;
    let shift = shift.checked_add(latency).ok_or(Overflow)?;
    Ok(Some(Line {
        burst: arrived
            .burst
            .checked_add(product(arrived.rate, shift))
            .ok_or(Overflow)?,
        rate: arrived.rate,
    }))
}
