//! The closed form for one port of a switch, in exact fractions.
//!
//! The rules of `rules.rs` yield the same up to their rounding. Where a delay is a whole number of nanoseconds, that
//! rounding would cost one.

use crate::model::Model;
use crate::number::{BIT, BPS, Fraction, NS, Num};

/// Seconds are counted in picoseconds.
const SECOND: i128 = 1_000_000_000_000;

/// The bounds of one port, exactly.
pub(crate) struct Closed {
    /// The largest delay, picoseconds.
    pub(crate) delay: Fraction,
    /// The largest memory, bits, without the frame that is being sent.
    pub(crate) memory: Fraction,
}

impl Closed {
    /// True if the delay is at most `ps`.
    pub(crate) fn within(&self, ps: Num) -> bool {
        ps.0.is_some_and(|ps| self.delay.at_most(Fraction::whole(ps)) == Some(true))
    }

    /// True if the memory is at most `data`.
    pub(crate) fn holds(&self, data: Num) -> bool {
        let data = data.0.and_then(|data| Fraction::of(data, BIT));
        data.is_some_and(|data| self.memory.at_most(data) == Some(true))
    }
}

impl Model {
    /// **Theorem (closed form).** Let each input `k` be a link of the port's rate `C` and bring at most
    /// `min(M + C t, b_k + r_k t)`, and let the port serve in order of arrival, a latency of at most `T` and at least
    /// `T - V` before it. With `g` the largest `(b_k - M) / (C - r_k)` no delay exceeds
    /// `T + sum (b_k + r_k V) / C - max(g - V, 0) (1 - sum r_k / C)`, and no backlog `sum b_k - g (C - sum r_k) + C T`
    /// (J. Löser, H. Härtig, ECRTS 2004, and docs/bounds.md, "One port of one switch").
    ///
    /// `None` if the port is not of this kind: inputs are hosts without latency that send nowhere else, in frames of one
    /// size each; one class is in use.
    pub(crate) fn closed(&self, port: usize) -> Option<Closed> {
        let here = &self.ports[port];
        if here.catches_up {
            return None;
        }
        let mut class = None;
        // The host's port, and the sums of its flows: rate and burst.
        let mut inputs: Vec<(usize, Fraction, Fraction)> = Vec::new();
        let mut frame = Fraction::whole(0);
        for &(flow, hop) in &here.passing {
            let flow = &self.flows[flow];
            let hop = &flow.hops[hop];
            let before = &flow.hops[hop.before?];
            let host = &self.ports[before.port];
            let alone = host.passing.len()
                == here
                    .passing
                    .iter()
                    .filter(|(other, at)| {
                        let hops = &self.flows[*other].hops;
                        hops[*at].before.is_some_and(|at| hops[at].port == before.port)
                    })
                    .count();
            let sizes = host.passing.iter().map(|(other, _)| &self.flows[*other]);
            let mut sizes = sizes.flat_map(|other| [other.largest, other.smallest]);
            let plain = before.before.is_none() && host.latency == Num::ZERO;
            if *class.get_or_insert(hop.class) != hop.class
                || !plain
                || !alone
                || host.rate != here.rate
                || !sizes.all(|size| size == flow.largest)
            {
                return None;
            }
            let (rate, burst) = flow.exact?;
            frame = frame.max(Fraction::whole(flow.largest.0? / BIT))?;
            match inputs.iter_mut().find(|input| input.0 == before.port) {
                Some(input) => {
                    input.1 = input.1.plus(rate)?;
                    input.2 = input.2.plus(burst)?;
                }
                None => inputs.push((before.port, rate, burst)),
            }
        }
        let c = Fraction::whole(here.rate.0? / BPS);
        let (mut rates, mut bursts, mut g) =
            (Fraction::whole(0), Fraction::whole(0), Fraction::whole(0));
        for (_, rate, burst) in inputs {
            // Fails if b_k < M, or r_k >= C.
            g = g.max(burst.minus(frame)?.over(c.minus(rate)?)?)?;
            rates = rates.plus(rate)?;
            bursts = bursts.plus(burst)?;
        }
        let left = c.minus(rates)?;
        left.over(left)?;
        let seconds = |ps: crate::number::Num| Fraction::of(ps.0? / NS, SECOND / NS);
        let (latency, varies) = (seconds(here.latency)?, seconds(here.variation())?);
        let later = g.minus(varies).unwrap_or(Fraction::whole(0));
        let queue = bursts.plus(rates.times(varies)?)?.minus(later.times(left)?)?.over(c)?;
        let memory = bursts.minus(g.times(left)?)?.plus(c.times(latency)?)?;
        Some(Closed { delay: queue.plus(latency)?.times(Fraction::whole(SECOND))?, memory })
    }
}
