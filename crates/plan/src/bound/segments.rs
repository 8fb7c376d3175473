//! Several ports in a row as one. Bursts of flows that share all of them are counted once.
//!
//! ```text
//! for each port k of the segment, with the classes above taking b_H + r_H t, L_low in the way,
//! and the others of the class (those that do not share the whole segment) bringing b_X + r_X t:
//!
//!   R_k     = C - r_H                  what the class is served in order of arrival,
//!   T_k     = T + (b_H + L_low) / R_k      after this time
//!   wait_k  = T_k + b_X / R_k          after this time the sharers are served R_k - r_X
//!   + L / C                            but for the last port: the next one waits for whole frames
//!
//! delay = sum of wait_k + sup (A(s) - R s) / R     with R the least of R_k - r_X, A what the sharers bring
//! ```
//!
//! Sources: the residual service of a first-in-first-out server, R. L. Cruz, "SCED+: efficient management of quality
//! of service guarantees" (1998), as in J.-Y. Le Boudec, P. Thiran, "Network Calculus", proposition 6.4.1, with theta
//! = T_k + b_X / R_k; the concatenation of servers and the packetizer: the same, theorems 1.4.6 and 1.7.1.
//! `docs/bounds.md` derives it. The bursts at each port are those that the analysis port by port found.

use std::collections::HashMap;

use super::arrivals::{Bundle, Class};
use super::credit::Credit;
use super::excess::Arrivals;
use super::fixed::{self, Data, Line, Rate, Time, plus, product, quotient_up};
use super::graph::{ClassShaper, Graph, Hop, Method, PortBound};
use super::mutation::{Term, keeps};
use super::tfa::{AddedJitter, Analysis, Entry, run};
use rtwire_describe::ratio::{Overflow, Ratio};

/// Ports bounded one by one. From the results, segments and the hops of single flows can be bounded.
pub struct Segments<'a> {
    analysis: Analysis<'a>,
    ports: Vec<PortBound>,
    /// The delays of segments that are known, by their ports and classes.
    known: HashMap<Vec<(usize, u8)>, Option<Time>>,
    work: u64,
}

impl<'a> Segments<'a> {
    /// Bounds every port. Segments and hops may look at `work` flows in all; after that, no more are bounded.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn new(graph: &'a Graph, method: Method, work: u64) -> Result<Segments<'a>, Overflow> {
        let mut analysis = Analysis::new(graph, method)?;
        let ports = run(&mut analysis, &mut |_| true)?;
        Ok(Segments {
            analysis,
            ports,
            known: HashMap::new(),
            work,
        })
    }

    /// Returns the bounds of all ports.
    #[must_use]
    pub fn ports(&self) -> &[PortBound] {
        &self.ports
    }

    /// Returns the largest lateness that the ports before a flow's hop add, picoseconds. `None` if a port before has no
    /// bound.
    pub(crate) fn lateness(&self, flow: usize, hop: usize) -> Option<Time> {
        let place = self.analysis.flows[flow].first + hop;
        self.analysis.added_jitter[place].map(|added| added.line)
    }

    /// Returns the rate, bit/s, and the depth, bytes, of the meter that a flow enters at a hop, as the meter counts. `None`
    /// if it has none there, or if nothing bounds what comes.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn meter(&self, flow: usize, hop: usize) -> Result<Option<(u64, u64)>, Overflow> {
        self.analysis.meter_of(flow, hop)
    }

    /// Returns the time by which a flow's latency at a hop is less than the largest of the port there, seconds.
    ///
    /// # Errors
    /// [`Overflow`].
    pub(crate) fn sooner(&self, flow: usize, hop: usize) -> Ratio {
        fixed::seconds(self.analysis.entry(flow, hop).sooner)
    }

    /// True if the work is used up.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.work == 0
    }

    /// Returns the largest delay of a flow through consecutive hops, in seconds. It is the time from the arrival of a
    /// frame's last bit at the first port to its departure from the last.
    ///
    /// `way` has the hops' places within the flow. `None` behind ports without a bound, at ports with regulators, or once
    /// the work is used up.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn delay(&mut self, flow: usize, way: &[usize]) -> Result<Option<Ratio>, Overflow> {
        let hops = &self.analysis.graph.flows[flow].hops;
        let key: Vec<(usize, u8)> = way
            .iter()
            .map(|at| (hops[*at].server, hops[*at].class))
            .collect();
        // Of inputs whose frames come sooner into the first queue, as for all others but by so much less.
        let sooner = way
            .first()
            .map_or(0, |first| self.analysis.entry(flow, *first).sooner);
        if let Some(known) = self.known.get(&key) {
            return Ok(known.map(|delay| fixed::seconds(delay - sooner)));
        }
        if self.is_exhausted() {
            return Ok(None);
        }
        let cost: usize = key
            .iter()
            .map(|(server, _)| self.analysis.passing[*server].len())
            .sum();
        self.work = self.work.saturating_sub(cost as u64);
        // What leaves the range of numbers is not bounded this way.
        let delay = self.segment(&key).unwrap_or(None);
        self.known.insert(key, delay);
        Ok(delay.map(|delay| fixed::seconds(delay - sooner)))
    }

    /// Returns the largest delay of a flow at one hop, in seconds, for a sum over its route.
    ///
    /// It is the delay of the port's class, but the flow's own frames have no more jitter there than at its source.
    /// `None` in the same cases as with [`Segments::delay`].
    ///
    /// A frame that is early at the port may find more of its own flow before it. But then the sum does not contain
    /// the time by which it is early. `docs/bounds.md` derives it.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn own(&mut self, flow: usize, hop: usize) -> Result<Option<Ratio>, Overflow> {
        let Hop { server, class, .. } = self.analysis.graph.flows[flow].hops[hop];
        let place = self.analysis.flows[flow].first + hop;
        let here = self.analysis.added_jitter[place];
        let Entry { varies, sooner, .. } = self.analysis.entry(flow, hop);
        let has_jitter = here.is_some_and(|here| here != AddedJitter::default()) || varies > 0;
        let smallest = self.analysis.flows[flow].smallest;
        let has_credit = self.shaper(server, class) != ClassShaper::None;
        if self.is_exhausted() || self.is_regulated(flow, hop) || here.is_none() {
            return Ok(None);
        }
        // What leaves the range of numbers is not bounded this way.
        let lane = self.analysis.lane(flow, hop).unwrap_or(None);
        if !has_jitter && !has_credit && lane.is_none() {
            return Ok(None);
        }
        let cost = self.analysis.passing[server].len();
        self.work = self.work.saturating_sub(cost as u64);
        // The latency's variation is in the time until the frame enters the queue, too. So it is taken off again.
        self.analysis.added_jitter[place] = Some(AddedJitter {
            late: -varies,
            line: -varies,
        });
        let delay = self
            .analysis
            .delay_of(server, class, smallest, lane.as_ref());
        self.analysis.added_jitter[place] = here;
        let delay = delay.unwrap_or(None);
        Ok(delay.map(|delay| fixed::seconds(delay - sooner)))
    }

    fn shaper(&self, server: usize, class: u8) -> ClassShaper {
        let shapers = &self.analysis.graph.servers[server].shapers;
        shapers.get(usize::from(class)).copied().unwrap_or_default()
    }

    /// True if a flow passes a regulator at a hop or behind it. There it may wait for others, so that only the delay of
    /// all of them counts.
    fn is_regulated(&self, flow: usize, hop: usize) -> bool {
        let hops = &self.analysis.graph.flows[flow].hops;
        let mut near = hops
            .iter()
            .enumerate()
            .filter(|(at, next)| *at == hop || next.before == Some(hop));
        near.any(|(_, near)| self.shaper(near.server, near.class) == ClassShaper::Regulated)
    }

    /// True if a class or one above it has regulators at a port.
    fn meets_regulators(&self, server: usize, class: u8) -> bool {
        let shapers = &self.analysis.graph.servers[server].shapers;
        shapers[usize::from(class).min(shapers.len())..].contains(&ClassShaper::Regulated)
    }

    fn segment(&mut self, way: &[(usize, u8)]) -> Result<Option<Time>, Overflow> {
        let (Some(&(first, _)), Some(&(last, _))) = (way.first(), way.last()) else {
            return Ok(None);
        };
        let mut regulated = way.iter();
        if regulated.any(|(server, class)| self.meets_regulators(*server, *class)) {
            return Ok(None);
        }
        let sharers = self.sharers(way);
        let frame = sharers
            .iter()
            .map(|(flow, _)| self.analysis.flows[*flow].largest);
        let frame = frame.max().unwrap_or(0);
        let (mut waits, mut rate): (Time, Rate) = (0, Rate::MAX);
        let mut before = None;
        for &(server, class) in way {
            let Some((wait, left)) = self.port(server, class, &sharers)? else {
                return Ok(None);
            };
            // Behind the first port they all come over one link, with the latency of that input.
            let stated = self.analysis.servers[server].entries.iter();
            let mut stated = stated.filter(|(from, _)| before == Some(*from));
            let sooner = stated.next().map_or(0, |(_, entry)| entry.sooner);
            before = Some(server);
            waits = plus(waits, wait - sooner)?;
            rate = rate.min(left);
            if server != last && keeps(Term::SegmentFrame) {
                let here = &self.analysis.servers[server];
                // Interrupted frames are on the link for longer: then they count as what is left serves them.
                let interrupts = here.preemption.is_some_and(|it| it.interrupts(class));
                let rate = if interrupts { left } else { here.rate };
                waits = plus(waits, quotient_up(frame, rate)?)?;
            }
        }
        let Some(groups) = self.brought(first, &sharers)? else {
            return Ok(None);
        };
        let Some(excess) = self.analysis.walk.excess(&groups, rate)? else {
            return Ok(None);
        };
        plus(waits, quotient_up(excess, rate)?).map(Some)
    }

    /// Returns the flows that pass all ports of a segment in a row in the same classes, each with its hop at the first
    /// port.
    fn sharers(&self, way: &[(usize, u8)]) -> Vec<(usize, usize)> {
        let Some((&(first, first_class), rest)) = way.split_first() else {
            return Vec::new();
        };
        let passing = self.analysis.passing[first].iter();
        let mut found = Vec::new();
        for &(flow, hop) in passing {
            let (flow, hop) = (flow as usize, hop as usize);
            let hops = &self.analysis.graph.flows[flow].hops;
            let mut at = hop;
            let shares = hops[hop].class == first_class
                && rest.iter().all(|&(server, class)| {
                    let next = hops.iter().position(|next| {
                        next.before == Some(at) && next.server == server && next.class == class
                    });
                    next.inspect(|next| at = *next).is_some()
                });
            if shares {
                found.push((flow, hop));
            }
        }
        found
    }

    /// Returns the wait of the sharers at a port, and the rate at which it then serves them.
    fn port(
        &mut self,
        server: usize,
        class: u8,
        sharers: &[(usize, usize)],
    ) -> Result<Option<(Time, Rate)>, Overflow> {
        let shaped = self.analysis.shaped_of(server)?;
        let has_credit = |class: u8| matches!(shaped.get(usize::from(class)), Some(Some(_)));
        let analysis = &self.analysis;
        let here = &analysis.servers[server];
        let (mut above, mut others) = (Line::default(), Line::default());
        let mut low = here.foreign;
        for &(flow, hop) in &analysis.passing[server] {
            let (flow, hop) = (flow as usize, hop as usize);
            let own = &analysis.flows[flow];
            let its = analysis.graph.flows[flow].hops[hop].class;
            if its < class {
                low = low.max(match here.preemption {
                    Some(preemption) => preemption.in_the_way(class, its, own.largest),
                    None => own.largest,
                });
                continue;
            }
            if its > class && has_credit(its) {
                // It counts by what it sends.
                continue;
            }
            // In order of their numbers, as they were found.
            if its == class
                && sharers
                    .binary_search_by_key(&flow, |(flow, _)| *flow)
                    .is_ok()
            {
                continue;
            }
            let Some(added_jitter) = analysis.added_jitter[own.first + hop] else {
                return Ok(None);
            };
            let varies = analysis.entry(flow, hop).varies;
            let Some(line) = analysis.line_at(flow, hop, added_jitter, varies)? else {
                return Ok(None);
            };
            if its > class {
                above = above.plus(line)?;
                if let Some(preemption) = here.preemption {
                    if preemption.interrupts(class) && !preemption.interrupts(its) {
                        above = above.plus(preemption.cost(line, own.smallest)?)?;
                    }
                }
            } else {
                others = others.plus(line)?;
            }
        }
        if let Some(Some(one)) = shaped.get(usize::from(class)) {
            return behind_credit(&one.credit, here.latency, others);
        }
        for one in shaped.iter().skip(usize::from(class) + 1).flatten() {
            above = above.plus(one.lines[0])?;
        }
        let served = here.rate - above.rate;
        let left = served - others.rate;
        if served <= 0 || left <= 0 {
            return Ok(None);
        }
        let add = |a: Data, b: Data| a.checked_add(b).ok_or(Overflow);
        let (before, mut first) = if analysis.graph.servers[server].catches_up {
            (0, product(here.rate, here.latency))
        } else {
            (here.latency, 0)
        };
        if keeps(Term::SegmentUrgent) {
            first = add(first, above.burst)?;
        }
        if keeps(Term::SegmentBlocking) {
            first = add(first, low)?;
        }
        if keeps(Term::SegmentOthers) {
            first = add(first, others.burst)?;
        }
        let wait = plus(quotient_up(first, served)?, before)?;
        Ok(Some((wait, left)))
    }

    /// Returns the arrivals of the sharers at the first port, by input. `None` if a port before has no bound.
    fn brought(
        &self,
        first: usize,
        sharers: &[(usize, usize)],
    ) -> Result<Option<Vec<Arrivals>>, Overflow> {
        let analysis = &self.analysis;
        let mut inputs: Vec<(Option<usize>, Time, Class)> = Vec::new();
        for &(flow, hop) in sharers {
            let hops = &analysis.graph.flows[flow].hops;
            let before = hops[hop].before.map(|before| hops[before]);
            let from = before.map(|before| before.server);
            let own = &analysis.flows[flow];
            let Some(added_jitter) = analysis.added_jitter[own.first + hop] else {
                return Ok(None);
            };
            debug_assert_eq!(hops[hop].server, first);
            let varies = analysis.entry(flow, hop).varies;
            let at = match inputs.iter().position(|(other, ..)| *other == from) {
                Some(at) => at,
                None => {
                    inputs.push((from, varies, Class::default()));
                    inputs.len() - 1
                }
            };
            let class = &mut inputs[at].2;
            let interrupted = before.is_some_and(|before| {
                let there = &analysis.servers[before.server].preemption;
                there.is_some_and(|there| there.interrupts(before.class))
            });
            class.joined_by(own, before.map(|before| before.class), interrupted);
            let Some(line) = analysis.line_at(flow, hop, added_jitter, varies)? else {
                return Ok(None);
            };
            let late = plus(added_jitter.late, varies)?;
            let periodic = !analysis.is_metered(flow, hop);
            class.bring(own, line, periodic.then_some(late))?;
        }
        let mut groups = Vec::with_capacity(inputs.len());
        for (from, varies, class) in inputs {
            let mut bundle = Bundle::default();
            bundle.add(&class)?;
            groups.push(Arrivals {
                lines: bundle.lines(from.map(|from| &analysis.departures[from]), varies)?,
                rest: class.rest,
                stairs: class.stairs,
                last: None,
            });
        }
        Ok(Some(groups))
    }
}

/// Returns the wait of the sharers at a port where their class has a credit, and the rate at which it then serves them.
fn behind_credit(
    credit: &Credit,
    latency: Time,
    others: Line,
) -> Result<Option<(Time, Rate)>, Overflow> {
    let left = credit.idle_slope - others.rate;
    if left <= 0 {
        return Ok(None);
    }
    let burst = if keeps(Term::SegmentOthers) {
        others.burst
    } else {
        0
    };
    let first = plus(credit.wait, latency)?;
    let wait = plus(first, quotient_up(burst, credit.idle_slope)?)?;
    Ok(Some((wait, left)))
}

/// Cuts a route so that the sum over its pieces is the least. `cost` returns the cost of a piece from its first and
/// last hop.
///
/// Returns the places of the last hops, and the sum. `None` if every cut has a piece without a bound.
pub(crate) fn cut<E>(
    hops: usize,
    mut cost: impl FnMut(usize, usize) -> Result<Option<u64>, E>,
) -> Result<Option<(Vec<usize>, u64)>, E> {
    // By hops done: the sum, and where the last piece begins.
    let mut best: Vec<Option<(u64, usize)>> = vec![None; hops + 1];
    best[0] = Some((0, 0));
    for end in 1..=hops {
        for begin in (0..end).rev() {
            let (Some((before, _)), Some(piece)) = (best[begin], cost(begin, end - 1)?) else {
                continue;
            };
            let Some(sum) = before.checked_add(piece) else {
                continue;
            };
            // Of equal sums the one with short pieces: they say more.
            if best[end].is_none_or(|(known, _)| sum < known) {
                best[end] = Some((sum, begin));
            }
        }
    }
    let Some((sum, _)) = best[hops] else {
        return Ok(None);
    };
    let mut ends = Vec::new();
    let mut at = hops;
    while at > 0 {
        ends.push(at - 1);
        at = best[at].map_or(0, |(_, begin)| begin);
    }
    ends.reverse();
    Ok(Some((ends, sum)))
}

#[cfg(test)]
#[path = "segments_tests.rs"]
mod tests;
