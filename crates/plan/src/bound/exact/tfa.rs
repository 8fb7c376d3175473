//! A graph of servers, bounded port by port (total flow analysis). (Tests only: the reference in exact fractions.)
//!
//! For each port and class, the arrivals over each input link and the port's service bound the delay `D` of any frame.
//! Behind the port, a flow's burst may have grown by `rate (D - D_min)`; the next port is computed with that.
//! `docs/bounds.md` derives each step.
//!
//! On a graph without cycles one pass in order suffices. On a cycle the passes repeat until nothing changes. A cycle
//! that does not settle has no bound.

use super::arrivals::Part;
use super::curve::{Arrivals, Line, TIME_GRID, excess_with_stairs};
use crate::bound::graph::{ClassBound, Graph, Method, PortBound};
use rtwire_describe::ratio::{Overflow, Ratio};

/// The largest number of passes over a cycle.
const MOST_PASSES: usize = 1_000;

/// The largest delay on a loop, seconds. A larger one counts as growth without end.
const LATEST: Ratio = Ratio::whole(1_000_000);

/// A flow at one of its hops: the index of the flow and that of the hop.
pub(super) type Passing = (usize, usize);

/// The link that flows come over, and the flows. `None`: they enter here.
pub(super) type Input = (Option<usize>, Vec<Passing>);

pub(super) struct Analysis<'a> {
    pub(super) graph: &'a Graph,
    pub(super) method: Method,
    /// The (flow, hop) pairs that pass each server.
    pub(super) passing: Vec<Vec<Passing>>,
    /// The jitter that each flow has gained since its source at each hop, seconds.
    pub(super) jitter: Vec<Vec<Option<Ratio>>>,
}

/// Bounds every port.
///
/// # Errors
/// [`Overflow`].
pub(crate) fn analyse(graph: &Graph, method: Method) -> Result<Vec<PortBound>, Overflow> {
    let mut passing = vec![Vec::new(); graph.servers.len()];
    for (flow_index, flow) in graph.flows.iter().enumerate() {
        for (hop_index, hop) in flow.hops.iter().enumerate() {
            passing[hop.server].push((flow_index, hop_index));
        }
    }
    let jitter = graph
        .flows
        .iter()
        .map(|flow| vec![Some(Ratio::ZERO); flow.hops.len()])
        .collect();
    let mut analysis = Analysis {
        graph,
        method,
        passing,
        jitter,
    };
    let (order, cyclic) = graph.order();
    let mut bounds: Vec<Option<PortBound>> = vec![None; graph.servers.len()];
    for server in order {
        bounds[server] = Some(analysis.visit(server)?.0);
    }
    if !cyclic.is_empty() {
        let mut settled = false;
        'passes: for _ in 0..MOST_PASSES {
            let mut changed = false;
            for &server in &cyclic {
                // Numbers that grow out of range are a loop that does not settle.
                let Ok((bound, moved)) = analysis.visit(server) else {
                    break 'passes;
                };
                changed |= moved || bounds[server].as_ref() != Some(&bound);
                let late = bound
                    .classes
                    .iter()
                    .any(|class| class.delay.is_some_and(|delay| delay > LATEST));
                bounds[server] = Some(bound);
                if late {
                    break 'passes;
                }
            }
            if !changed {
                settled = true;
                break;
            }
        }
        if !settled {
            // A number reached by stopping early would be no bound.
            for &server in &cyclic {
                bounds[server] = Some(analysis.unbounded(server));
            }
        }
    }
    Ok(bounds
        .into_iter()
        .enumerate()
        .map(|(server, bound)| bound.unwrap_or_else(|| analysis.unbounded(server)))
        .collect())
}

impl Analysis<'_> {
    /// Bounds one server, and passes on its departures. Returns true if those changed.
    fn visit(&mut self, server: usize) -> Result<(PortBound, bool), Overflow> {
        let bound = self.bound(server)?;
        let mut changed = false;
        let here = &self.graph.servers[server];
        for &(flow_index, hop_index) in &self.passing[server] {
            let flow = &self.graph.flows[flow_index];
            let delay = bound
                .classes
                .get(usize::from(flow.hops[hop_index].class))
                .and_then(|class| class.delay);
            // The least delay must not contain what need not happen: blocking, queueing, more than the least latency.
            let least = if !self.method.least_delay {
                Ratio::ZERO
            } else if here.catches_up {
                here.latency_min
            } else {
                here.latency_min.plus(flow.frame_min.over(here.rate)?)?
            };
            let after = match (self.jitter[flow_index][hop_index], delay) {
                (Some(jitter), Some(delay)) => {
                    Some(jitter.plus(delay.minus(least)?)?.tidied_up(TIME_GRID)?)
                }
                _ => None,
            };
            for (next, hop) in flow.hops.iter().enumerate() {
                if hop.before == Some(hop_index) && self.jitter[flow_index][next] != after {
                    self.jitter[flow_index][next] = after;
                    changed = true;
                }
            }
        }
        Ok((bound, changed))
    }

    fn unbounded(&self, server: usize) -> PortBound {
        let classes = self.graph.servers[server].classes;
        let nothing = self.passing[server].is_empty();
        let delay = nothing.then_some(self.graph.servers[server].latency);
        let class = ClassBound {
            delay,
            blocking: Ratio::ZERO,
        };
        PortBound {
            classes: vec![class; usize::from(classes)],
            backlog: nothing.then_some(Ratio::ZERO),
        }
    }

    fn bound(&self, server: usize) -> Result<PortBound, Overflow> {
        let here = &self.graph.servers[server];
        let inputs = self.inputs(server);
        let mut classes = Vec::new();
        for class in 0..here.classes {
            let blocking = self.blocking(server, class);
            let used = self.passing[server]
                .iter()
                .any(|passing| self.class(*passing) == class);
            let delay = if used {
                self.delay(server, class, blocking, &inputs)?
            } else {
                Some(here.latency)
            };
            classes.push(ClassBound { delay, blocking });
        }
        let backlog = if inputs.is_empty() {
            Some(Ratio::ZERO)
        } else {
            let mut groups = Vec::new();
            let mut bounded = true;
            for (from, flows) in &inputs {
                let Some(lines) = self.lines(*from, flows, Ratio::ZERO)? else {
                    bounded = false;
                    continue;
                };
                let (rest, stairs) = self.stairs(flows, Ratio::ZERO)?;
                groups.push(Arrivals {
                    lines,
                    rest,
                    stairs,
                });
            }
            match if bounded {
                excess_with_stairs(&groups, here.rate)?
            } else {
                None
            } {
                Some(bits) => Some(
                    bits.plus(here.rate.times(here.latency)?)?
                        .plus(here.foreign_frame)?,
                ),
                None => None,
            }
        };
        Ok(PortBound { classes, backlog })
    }

    /// Returns the largest delay of a class: the least `d` for which every frame has left in time. For every `s`, a
    /// frame that came `s` after the queue was last empty has left at `s + d`, with all that must leave before it.
    fn delay(
        &self,
        server: usize,
        class: u8,
        blocking: Ratio,
        inputs: &[Input],
    ) -> Result<Option<Ratio>, Overflow> {
        let here = &self.graph.servers[server];
        let varies = self.variation(server)?;
        let mut parts = Vec::new();
        let (mut own, mut urgent) = (
            Line {
                burst: Ratio::ZERO,
                rate: Ratio::ZERO,
            },
            Line {
                burst: Ratio::ZERO,
                rate: Ratio::ZERO,
            },
        );
        for (from, flows) in inputs {
            let of = |wanted: fn(u8, u8) -> bool| -> Vec<Passing> {
                flows
                    .iter()
                    .copied()
                    .filter(|flow| wanted(self.class(*flow), class))
                    .collect()
            };
            let (equal_flows, above_flows) = (of(|a, b| a == b), of(|a, b| a > b));
            let (Some(equal), Some(above), Some(both)) = (
                self.lines(*from, &equal_flows, varies)?,
                self.lines(*from, &above_flows, varies)?,
                self.lines(*from, &of(|a, b| a >= b), varies)?,
            ) else {
                return Ok(None);
            };
            own = own.plus(equal[0])?;
            urgent = urgent.plus(above[0])?;
            parts.push(Part {
                equal,
                above,
                both,
                equal_flows,
                above_flows,
            });
        }
        let rates = own.rate.plus(urgent.rate)?;
        if rates >= here.rate {
            return Ok(None);
        }
        // A latency before the queue comes on top of the time in the queue.
        let (before, fixed) = if here.catches_up {
            let fixed = blocking.plus(here.rate.times(here.latency)?)?;
            (Ratio::ZERO, fixed)
        } else {
            (here.latency, blocking)
        };
        let needs = |d: Ratio| -> Result<Option<Ratio>, Overflow> {
            let mut groups = Vec::new();
            for part in &parts {
                let (rest, mut stairs) = self.stairs(&part.equal_flows, varies)?;
                let (urgent_rest, urgent_stairs) =
                    self.stairs(&part.above_flows, d.plus(varies)?)?;
                stairs.extend(urgent_stairs);
                groups.push(Arrivals {
                    lines: part.lines(d)?,
                    rest: rest.plus(urgent_rest)?,
                    stairs,
                });
            }
            excess_with_stairs(&groups, here.rate)?
                .map(|bits| bits.plus(fixed)?.over(here.rate))
                .transpose()
        };
        if urgent.rate.is_zero() && urgent.burst.is_zero() {
            // Nothing overtakes, so that `d` is on one side only.
            return needs(Ratio::ZERO)?
                .map(|delay| delay.plus(before)?.tidied_up(TIME_GRID * 1_000))
                .transpose();
        }
        // Holds without the links' help; below it the condition is searched by halves, in picoseconds.
        let start = own
            .burst
            .plus(urgent.burst)?
            .plus(fixed)?
            .over(here.rate.minus(urgent.rate)?)?;
        let (mut too_small, mut enough) = (0_i128, start.times(Ratio::whole(TIME_GRID))?.ceil());
        while enough - too_small > 1 {
            let middle = too_small + (enough - too_small) / 2;
            let d = Ratio::new(middle, TIME_GRID)?;
            if needs(d)?.is_some_and(|needed| needed <= d) {
                enough = middle;
            } else {
                too_small = middle;
            }
        }
        Ratio::new(enough, TIME_GRID)?.plus(before).map(Some)
    }
}
