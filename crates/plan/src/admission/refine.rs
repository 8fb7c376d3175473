//! Bounds below the budgets, computed from the admitted streams.
//!
//! Every budget is a bound on a delay. The bursts and the condition can be computed from the bounds that are known,
//! which leads to smaller bounds. The next round uses those. Each round is sound, so the work may stop after any of
//! them.

use super::check::{Given, Sum, bits_up};
use super::offer::least;
use super::types::{NONE, TIME_BITS, Ticket};
use super::{Admission, Route};

/// Bounds of each class of each port, and of each stream from them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refined {
    /// The delay of each class of each port, 2^-40 s.
    delays: Vec<u64>,
    rounds: u32,
}

impl Refined {
    /// Returns the number of rounds until no bound fell by a thousandth, or until the limit was reached.
    #[must_use]
    pub const fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Returns the bound of an admitted stream at the listener of this number, nanoseconds, rounded up. `None` if
    /// either is unknown.
    ///
    /// It holds while the same streams, or fewer of them, are admitted.
    #[must_use]
    pub fn delay_ns(&self, admission: &Admission, ticket: Ticket, listener: usize) -> Option<u64> {
        let record = admission.record(ticket)?;
        admission.along(
            record.offer.pcp,
            &record.route,
            listener,
            |number, class| {
                let first = admission.ports[number].first_class as usize;
                ns_up(self.delays[first + usize::from(class)])
            },
        )
    }

    /// Returns the bound of a class at the port of `from` towards `to`, nanoseconds, rounded up.
    #[must_use]
    pub fn port_delay_ns(
        &self,
        admission: &Admission,
        from: &str,
        to: &str,
        class: u8,
    ) -> Option<u64> {
        let port = &admission.ports[admission.port_number(from, to)? as usize];
        (class < port.classes)
            .then(|| ns_up(self.delays[port.first_class as usize + usize::from(class)]))
    }
}

fn ns_up(time: u64) -> u64 {
    let ns = (u128::from(time) * 1_000_000_000).div_ceil(1 << TIME_BITS);
    u64::try_from(ns).unwrap_or(u64::MAX)
}

impl Admission {
    /// Returns bounds for the streams that are admitted now, after at most `most_rounds` rounds over all of them.
    #[must_use]
    pub fn refine(&self, most_rounds: u32) -> Refined {
        let mut delays: Vec<u64> = self.classes.iter().map(|class| class.budget).collect();
        let mut cells = vec![Sum::default(); self.cells.len()];
        let mut jitters = Vec::new();
        let mut crossings = Vec::new();
        let mut rounds = 0;
        while rounds < most_rounds {
            rounds += 1;
            cells.fill(Sum::default());
            for record in self.streams.iter().flatten() {
                self.spread(
                    &record.offer,
                    &record.route,
                    &delays,
                    &mut cells,
                    &mut jitters,
                );
            }
            let mut smaller = false;
            for (number, port) in self.ports.iter().enumerate() {
                let mut above_rate = 0;
                for class in (0..port.classes).rev() {
                    let at = port.first_class as usize + usize::from(class);
                    let before = delays[at];
                    // A few times over with what it gave: the classes above count for so long.
                    for _ in 0..4 {
                        let within = delays[at];
                        let given = Given {
                            cells: &cells,
                            above_rate,
                            within,
                        };
                        delays[at] = self.needed(number, class, &given, &mut crossings);
                        if above_rate == 0 || delays[at] == within {
                            break;
                        }
                    }
                    smaller |= before - delays[at] > before / 1024;
                    above_rate += self.classes[at].total.rate;
                }
            }
            if !smaller {
                break;
            }
        }
        Refined { delays, rounds }
    }

    fn spread(
        &self,
        offer: &super::Offer,
        route: &Route,
        delays: &[u64],
        cells: &mut [Sum],
        jitters: &mut Vec<u64>,
    ) {
        jitters.clear();
        let rate = self.drifted(offer.rate_1024);
        for (at, hop) in route.hops.iter().enumerate() {
            let jitter = if hop.before == NONE {
                0_u64
            } else {
                let before = &self.ports[route.hops[usize::from(hop.before)].port as usize];
                let class = before.first_class as usize + usize::from(before.class(offer.pcp));
                jitters[usize::from(hop.before)]
                    .saturating_add(delays[class])
                    .saturating_sub(least(before, offer.smallest_bits))
            };
            jitters.push(jitter);
            let port = &self.ports[hop.port as usize];
            let class = port.class(offer.pcp);
            let cell = &mut cells[route.hops[at].cell as usize + usize::from(class)];
            // No more than what was checked when it was admitted.
            cell.burst += offer.burst_bits + bits_up(rate, jitter.saturating_add(port.variation));
            cell.rate += rate;
        }
    }
}
