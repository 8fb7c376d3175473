//! The promise of one route: the sum over its ports, or over segments of them if that is less.

use super::{PortResult, class_delay};
use crate::bound::segments::{Segments, cut};
use crate::identity::Identity;
use crate::mapping::Mapped;
use crate::network::{ContractKind, Stream};
use crate::plan::{PortPlan, Promise, Shaper, StreamPlan, Term, TermKind};
use rtwire_describe::ratio::{Overflow, Ratio};

/// The values from which the promises of routes are made.
pub(super) struct Ways<'a, 'g> {
    pub(super) mapped: &'a Mapped,
    pub(super) results: &'a [PortResult],
    pub(super) ports: &'a [PortPlan],
    pub(super) segments: &'a mut Segments<'g>,
    /// True if each route is one segment.
    pub(super) whole: bool,
}

pub(super) fn stream_plan(
    ways: &mut Ways<'_, '_>,
    index: usize,
    stream: &Stream,
) -> Result<StreamPlan, Overflow> {
    let contract = &stream.contract;
    let interval_ns = match contract.kind {
        ContractKind::Interval { interval_ns } => interval_ns,
        _ => contract.shaping_interval_ns,
    };
    let mut promises = Vec::new();
    for (listener, route) in stream.listeners.iter().zip(&stream.routes) {
        let terms = if stream.shaped {
            ways.terms(index, stream, route)?
        } else {
            None
        };
        let delay_ns = match &terms {
            Some(terms) => Some(
                terms
                    .iter()
                    .try_fold(0_u64, |total, term| total.checked_add(term.ns))
                    .ok_or(Overflow)?,
            ),
            None => None,
        };
        promises.push(Promise {
            listener: listener.clone(),
            route: route.clone(),
            delay_ns,
            terms: terms.unwrap_or_default(),
            deadline_ns: stream.deadline_ns,
            jitter_ns: None,
        });
    }
    Ok(StreamPlan {
        name: stream.name.clone(),
        identity: Identity::none(),
        shaper: Shaper {
            rate_bps: contract.rate,
            burst_bits: contract.burst_bits,
            interval_ns,
            tick_error_ns: contract.tick_error_ns,
        },
        promises,
        launch: None,
    })
}

/// One port of a route.
#[derive(Clone, Copy)]
struct Passed {
    server: usize,
    /// The place of the hop within the flow.
    hop: usize,
    class: u8,
    delay_ns: u64,
}

impl Ways<'_, '_> {
    /// Returns the ports of a route. `None` if one of them is unbounded.
    fn passed(&self, index: usize, route: &[String]) -> Result<Option<Vec<Passed>>, Overflow> {
        let mut passed = Vec::with_capacity(route.len());
        for pair in route.windows(2) {
            let [from, to] = pair else { continue };
            let Some(server) = self.mapped.port(from, to) else {
                return Ok(None);
            };
            let hops = &self.mapped.graph.flows[index].hops;
            let Some(hop) = hops.iter().position(|hop| hop.server == server) else {
                return Ok(None);
            };
            let class = hops[hop].class;
            let Some(delay_ns) = class_delay(&self.results[server], class)? else {
                return Ok(None);
            };
            passed.push(Passed {
                server,
                hop,
                class,
                delay_ns,
            });
        }
        Ok(Some(passed))
    }

    /// Returns the ends of a route's segments, and the time of each.
    fn rows(&mut self, index: usize, passed: &[Passed]) -> Result<Vec<(usize, u64)>, Overflow> {
        let mut alone: Vec<(usize, u64)> = passed
            .iter()
            .enumerate()
            .map(|(at, port)| (at, port.delay_ns))
            .collect();
        if self.segments.is_exhausted() || passed.len() < 2 {
            return Ok(alone);
        }
        let hops: Vec<usize> = passed.iter().map(|port| port.hop).collect();
        let (last, whole) = (passed.len() - 1, self.whole);
        let segments = &mut *self.segments;
        if !whole {
            // In a sum over its way a stream meets its own frames with no more jitter than it sent them.
            for ((_, delay_ns), hop) in alone.iter_mut().zip(&hops) {
                let own = segments.own(index, *hop)?;
                let own = own.map(Ratio::ceil_ns).transpose()?;
                *delay_ns = own.map_or(*delay_ns, |own| own.min(*delay_ns));
            }
        }
        let mut cost = |first: usize, end: usize| -> Result<Option<u64>, Overflow> {
            if first == end {
                return Ok((!whole).then_some(alone[first].1));
            }
            if whole && (first, end) != (0, last) {
                return Ok(None);
            }
            let delay = segments.delay(index, &hops[first..=end])?;
            delay.map(Ratio::ceil_ns).transpose()
        };
        let Some((ends, _)) = cut(passed.len(), &mut cost)? else {
            return Ok(alone);
        };
        let mut rows = Vec::with_capacity(ends.len());
        let mut first = 0;
        for end in ends {
            rows.push((end, cost(first, end)?.unwrap_or(u64::MAX)));
            first = end + 1;
        }
        Ok(rows)
    }

    /// Returns the terms of a frame's delay on its route. `None` if a port is unbounded.
    fn terms(
        &mut self,
        index: usize,
        stream: &Stream,
        route: &[String],
    ) -> Result<Option<Vec<Term>>, Overflow> {
        let Some(passed) = self.passed(index, route)? else {
            return Ok(None);
        };
        let mut terms = Vec::new();
        let mut first = 0;
        for (end, total) in self.rows(index, &passed)? {
            self.row(&mut terms, stream, &passed[first..=end], total)?;
            first = end + 1;
        }
        terms.retain(|term| term.ns > 0);
        Ok(Some(terms))
    }

    /// Returns the terms of a segment that takes `total`. Each port has the terms that it certainly takes. The rest is
    /// queueing at all of the ports together.
    fn row(
        &self,
        terms: &mut Vec<Term>,
        stream: &Stream,
        row: &[Passed],
        total: u64,
    ) -> Result<(), Overflow> {
        // The total is whole latencies plus at least the frame's own times, so nothing is cut here;
        // `min` makes the sum right even so.
        let mut left = total;
        let name = |port: &Passed| {
            let port = &self.mapped.ports[port.server];
            format!("{}>{}", port.node, port.to)
        };
        let mut take = |what: TermKind, at: String, wanted: u64| {
            let ns = wanted.min(left);
            left -= ns;
            Term { what, at, ns }
        };
        let mut certain = Vec::with_capacity(row.len());
        for port in row {
            let rate = Ratio::whole(i128::from(self.ports[port.server].link_rate_bps));
            let sending = stream.wire_bits().over(rate)?.ceil_ns()?;
            let latency = self.ports[port.server].latency_ns;
            certain.push((
                take(TermKind::Latency, name(port), latency),
                take(TermKind::Transmission, name(port), sending),
            ));
        }
        let mut blocking = Vec::with_capacity(row.len());
        for port in row {
            let rate = Ratio::whole(i128::from(self.ports[port.server].link_rate_bps));
            let bounds = &self.results[port.server].bound.classes;
            let blocked = bounds.get(usize::from(port.class));
            let blocked = blocked.map_or(Ratio::ZERO, |bound| bound.blocking);
            blocking.push(take(
                TermKind::Blocking,
                name(port),
                blocked.over(rate)?.ceil_ns()?,
            ));
        }
        let all: Vec<String> = row.iter().map(name).collect();
        let mut queueing = Some(take(TermKind::Queueing, all.join(" "), u64::MAX));
        for ((port, (latency, transmission)), blocking) in row.iter().zip(certain).zip(blocking) {
            terms.extend([latency, blocking]);
            terms.extend(queueing.take());
            terms.push(transmission);
            terms.push(Term {
                what: TermKind::Cable,
                at: name(port),
                ns: self.mapped.ports[port.server].cable_ns,
            });
        }
        Ok(())
    }
}
