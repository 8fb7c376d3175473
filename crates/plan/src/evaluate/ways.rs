//! The promise of one route: the sum over its ports, or over segments of them if that is less.

use super::{PortResult, class_delay, exact_delay};
use crate::bound::segments::{Segments, cut};
use crate::certificate::{Piece, PromiseFacts, picoseconds};
use crate::identity::Identity;
use crate::mapping::Mapped;
use crate::network::{ContractKind, Routers, Stream};
use crate::plan::{PortPlan, Promise, Shaper, StreamPlan, Term, TermKind};
use rtwire_describe::ratio::{Overflow, Ratio};

/// The values from which the promises of routes are made.
pub(super) struct Ways<'a, 'g> {
    pub(super) mapped: &'a Mapped,
    pub(super) routers: &'a Routers<'a>,
    pub(super) results: &'a [PortResult],
    pub(super) ports: &'a [PortPlan],
    pub(super) segments: &'a mut Segments<'g>,
    /// True if each route is one segment.
    pub(super) whole: bool,
    /// The pieces of the promises, if they are wanted for a certificate.
    pub(super) facts: Option<&'a mut Vec<PromiseFacts>>,
}

pub(super) fn stream_plan(
    ways: &mut Ways<'_, '_>,
    index: usize,
    stream: &Stream,
) -> Result<StreamPlan, Overflow> {
    let contract = &stream.contract;
    let interval_ns = match contract.kind {
        ContractKind::Interval { interval_ns, .. } => interval_ns,
        _ => contract.shaping_interval_ns,
    };
    let mut promises = Vec::new();
    for (listener, route) in stream.listeners.iter().zip(&stream.routes) {
        // What a cyclic stream takes at switches is entered later.
        let route_of_terms = match route.get(..2) {
            Some(first) if stream.cyclic && ways.mapped.has_cycles => first,
            _ => route,
        };
        let terms = if stream.shaped {
            ways.terms(index, stream, listener, route_of_terms)?
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
            priorities: ways.routers.priorities(route, stream.marks()),
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
        recovery: None,
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
    /// The time by which the latency of its input is less than the port's, nanoseconds. It is not in the delay.
    sooner_ns: u64,
}

/// One port of a route, or several in a row as one.
struct SegmentOfRoute {
    /// The place of its last port.
    end: usize,
    delay_ns: u64,
    /// The delay before it is rounded up to nanoseconds, seconds.
    exact: Option<Ratio>,
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
            // Whole nanoseconds, as latencies are.
            let sooner_ns = self.segments.sooner(index, hop).ceil_ns()?;
            passed.push(Passed {
                server,
                hop,
                class,
                delay_ns: delay_ns.saturating_sub(sooner_ns),
                sooner_ns,
            });
        }
        Ok(Some(passed))
    }

    /// Returns a route's segments.
    fn rows(&mut self, index: usize, passed: &[Passed]) -> Result<Vec<SegmentOfRoute>, Overflow> {
        let mut alone = Vec::with_capacity(passed.len());
        for (end, port) in passed.iter().enumerate() {
            let exact = exact_delay(&self.results[port.server], port.class)?;
            let sooner = Ratio::from_ns(port.sooner_ns);
            alone.push(SegmentOfRoute {
                end,
                delay_ns: port.delay_ns,
                exact: exact.map(|exact| exact.minus(sooner)).transpose()?,
            });
        }
        if self.segments.is_exhausted() || passed.len() < 2 {
            return Ok(alone);
        }
        let hops: Vec<usize> = passed.iter().map(|port| port.hop).collect();
        let (last, whole) = (passed.len() - 1, self.whole);
        let segments = &mut *self.segments;
        if !whole {
            // In a sum over its way a stream meets its own frames with no more jitter than it sent them.
            for (one, hop) in alone.iter_mut().zip(&hops) {
                let Some(own) = segments.own(index, *hop)? else {
                    continue;
                };
                let own_ns = own.ceil_ns()?;
                if own_ns <= one.delay_ns {
                    (one.delay_ns, one.exact) = (own_ns, Some(own));
                }
            }
        }
        let mut cost = |first: usize, end: usize| -> Result<Option<u64>, Overflow> {
            if first == end {
                return Ok((!whole).then_some(alone[first].delay_ns));
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
            let delay_ns = cost(first, end)?.unwrap_or(u64::MAX);
            rows.push((first, end, delay_ns));
            first = end + 1;
        }
        let rows = rows.into_iter().map(|(first, end, delay_ns)| {
            let exact = if first == end {
                alone[first].exact
            } else {
                self.segments.delay(index, &hops[first..=end])?
            };
            Ok(SegmentOfRoute {
                end,
                delay_ns,
                exact,
            })
        });
        rows.collect()
    }

    /// Returns the terms of a frame's delay on its route. `None` if a port is unbounded.
    fn terms(
        &mut self,
        index: usize,
        stream: &Stream,
        listener: &str,
        route: &[String],
    ) -> Result<Option<Vec<Term>>, Overflow> {
        let Some(passed) = self.passed(index, route)? else {
            return Ok(None);
        };
        let mut terms = Vec::new();
        let mut first = 0;
        let mut pieces = Vec::new();
        for segment in self.rows(index, &passed)? {
            let row = &passed[first..=segment.end];
            self.row(&mut terms, stream, row, segment.delay_ns)?;
            first = segment.end + 1;
            if self.facts.is_some() {
                let exact = segment.exact.map(picoseconds).transpose()?;
                pieces.push(Piece {
                    ports: row.iter().map(|port| self.name(port)).collect(),
                    delay_ps: exact.unwrap_or_else(|| segment.delay_ns.saturating_mul(1_000)),
                });
            }
        }
        if let Some(facts) = &mut self.facts {
            facts.push(PromiseFacts {
                stream: stream.name.clone(),
                listener: listener.to_owned(),
                pieces,
                attained: None,
            });
        }
        terms.retain(|term| term.ns > 0);
        Ok(Some(terms))
    }

    fn name(&self, port: &Passed) -> String {
        let port = &self.mapped.ports[port.server];
        format!("{}>{}", port.node, port.to)
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
        let name = |port: &Passed| self.name(port);
        let mut take = |what: TermKind, at: String, wanted: u64| {
            let ns = wanted.min(left);
            left -= ns;
            Term { what, at, ns }
        };
        let mut certain = Vec::with_capacity(row.len());
        for port in row {
            let rate = Ratio::whole(i128::from(self.ports[port.server].link_rate_bps));
            let sending = stream.wire_bits().over(rate)?.ceil_ns()?;
            let latency = self.ports[port.server].latency_ns - port.sooner_ns;
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
