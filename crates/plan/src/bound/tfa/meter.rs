//! Flow meters: behind one, a flow keeps to a line whatever its talker does.
//!
//! ```text
//! conforming frames come within   b + r (t + a)                  a: the jitter that the talker's own port adds
//! counted, on a slow clock:       CIR = r c clock^2, CBS = (b + r a) c        c = (F + m) / (F + o)
//! passed, on a fast clock:        (CBS + CIR clock t) w                       w = (60 + o) / (60 + m)
//! ```
//!
//! F is the largest frame, o what a frame takes of the link beyond it, m as much of that as the meter counts. Derivation:
//! docs/bounds.md, "Flow meters".

use super::{AddedJitter, Analysis};
use crate::bound::fixed::{Data, Line, PER_BIT, Rate, Time, data_up, plus, rate_up, share_up};
use crate::bound::graph::{Flow, Meter};
use crate::bound::mutation::{Term, keeps};
use rtwire_describe::ratio::{Overflow, Ratio};

const BITS_PER_BYTE: i128 = 8;

/// A flow's meter.
pub(in crate::bound) struct MeterNumbers {
    /// The largest part of the flow's bits on the wire that a meter counts.
    counted: Ratio,
    /// The bits on the wire for each that a meter counts, at most.
    wire: Ratio,
    /// The rate at which the meter's bucket fills, bit/s as it counts.
    committed_bps: u64,
    /// The rate on the wire that passes then, at most.
    rate: Rate,
    smallest: Data,
}

impl MeterNumbers {
    pub(super) fn new(flow: &Flow, meter: &Meter) -> Result<MeterNumbers, Overflow> {
        let (wire, passes) = if keeps(Term::MeterWire) {
            (meter.wire, meter.passing_bps(flow)?)
        } else {
            (Ratio::whole(1), meter.passing_bps(flow)?.over(meter.wire)?)
        };
        Ok(MeterNumbers {
            counted: meter.counted_share(flow)?,
            wire,
            committed_bps: u64::try_from(meter.committed_bps(flow)?).map_err(|_| Overflow)?,
            rate: rate_up(passes)?,
            smallest: data_up(meter.frame_min)?,
        })
    }

    /// Returns the depth of the meter's bucket, bytes. `arrives` bounds the frames of a talker that keeps its contract.
    fn committed_burst(&self, arrives: Line) -> Result<i128, Overflow> {
        let bits = share_up(arrives.burst, self.counted.num(), self.counted.den())?;
        share_up(bits, 1, PER_BIT * BITS_PER_BYTE)
    }

    /// Returns the line of what passes.
    fn passes(&self, arrives: Line) -> Result<Line, Overflow> {
        let bytes = self.committed_burst(arrives)?;
        let bits = bytes.checked_mul(PER_BIT * BITS_PER_BYTE).ok_or(Overflow)?;
        Ok(Line {
            burst: share_up(bits, self.wire.num(), self.wire.den())?,
            rate: self.rate,
        })
    }
}

impl Analysis<'_> {
    /// Finds the servers whose links end at meters. No more is known of what they send than what a link carries.
    pub(super) fn find_metered(&mut self) {
        for flow in &self.graph.flows {
            let Some(meter) = &flow.meter else {
                continue;
            };
            for (at, hop) in flow.hops.iter().enumerate() {
                let here = meter.entered_at.get(at) == Some(&Some(at));
                if let Some(before) = hop.before.filter(|_| here) {
                    self.servers[flow.hops[before].server].metered = true;
                }
            }
        }
    }

    /// Returns the meter that a flow's frames passed on their way to a hop, and the hop at which they did.
    fn meter(&self, flow: usize, hop: usize) -> Option<(&MeterNumbers, usize)> {
        let passed = self.graph.flows[flow].meter.as_ref()?;
        let at = passed.entered_at.get(hop).copied().flatten()?;
        Some((self.flows[flow].meter.as_ref()?, at))
    }

    /// True if a flow's frames passed a meter on their way to a hop.
    pub(in crate::bound) fn is_metered(&self, flow: usize, hop: usize) -> bool {
        keeps(Term::MeterStairs) && self.meter(flow, hop).is_some()
    }

    /// Returns the smallest frame of a flow at a hop.
    pub(in crate::bound) fn smallest_at(&self, flow: usize, hop: usize) -> Data {
        let own = self.flows[flow].smallest;
        match self.meter(flow, hop) {
            Some((meter, _)) if keeps(Term::MeterSmallest) => meter.smallest.min(own),
            _ => own,
        }
    }

    /// Returns the line of a flow's arrivals at a hop, where its frames have `added` jitter, and may be closer together
    /// by `more` than on the link. `None` if a port before has no bound.
    pub(in crate::bound) fn line_at(
        &self,
        flow: usize,
        hop: usize,
        added: AddedJitter,
        more: Time,
    ) -> Result<Option<Line>, Overflow> {
        let own = &self.flows[flow];
        let Some((meter, at)) = self.meter(flow, hop) else {
            return Ok(Some(own.line.shifted(plus(added.line, more)?)));
        };
        let Some(entered) = self.added_jitter[own.first + at] else {
            return Ok(None);
        };
        let passes = meter.passes(own.line.shifted(entered.line))?;
        let behind = (added.line - entered.line).max(0);
        Ok(Some(passes.shifted(plus(behind, more)?)))
    }

    /// Returns the rate, bit/s, and the depth, bytes, of the meter that a flow enters at a hop, as it counts. `None` if it
    /// has none there, or if nothing bounds what comes.
    ///
    /// # Errors
    /// [`Overflow`].
    pub(in crate::bound) fn meter_of(
        &self,
        flow: usize,
        hop: usize,
    ) -> Result<Option<(u64, u64)>, Overflow> {
        let own = &self.flows[flow];
        let (Some((meter, at)), Some(added)) =
            (self.meter(flow, hop), self.added_jitter[own.first + hop])
        else {
            return Ok(None);
        };
        if at != hop {
            return Ok(None);
        }
        let bytes = meter.committed_burst(own.line.shifted(added.line))?;
        let bytes = u64::try_from(bytes).map_err(|_| Overflow)?;
        Ok(Some((meter.committed_bps, bytes)))
    }
}
