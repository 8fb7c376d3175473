//! A graph of servers, bounded port by port (total flow analysis).
//!
//! For each port and class, the arrivals over each input link and the port's service bound the delay `D` of any frame.
//! Behind the port, a flow's burst may have grown by `rate (D - D_min)`; the next port is computed with that.
//! `docs/bounds.md` derives each step.
//!
//! On a graph without cycles one pass in order suffices. On a cycle the passes repeat until nothing changes. A cycle
//! that does not settle has no bound.

use super::arrivals::{Class, Departures, Input};
use super::excess::Walk;
use super::fixed::{
    self, Data, Line, Rate, Time, plus, product, quotient_down, rate_down, rate_up, time_down,
    time_up,
};
use super::graph::{ClassBound, ClassShaper, Graph, Hop, Method, PortBound};
use super::mutation::{Term, keeps};
use rtwire_describe::ratio::{Overflow, Ratio};

mod entry;
mod lane;
mod meter;
mod port;
mod preemption;

pub(super) use entry::Entry;
pub(super) use preemption::Preemption;

/// The largest number of passes over a cycle.
const MOST_PASSES: usize = 1_000;

/// The largest delay on a loop, picoseconds (ten days). A larger one counts as growth without end.
const LATEST: Time = 1_000_000_000_000_000_000;

pub(super) struct ServerNumbers {
    pub(super) rate: Rate,
    /// The rate rounded up, for arrivals over the link.
    pub(super) rate_up: Rate,
    pub(super) latency: Time,
    pub(super) latency_min: Time,
    /// The time by which the latency before the queue differs between frames of one input, at most; 0 if the latency is
    /// behind it.
    pub(super) variation: Time,
    /// The inputs whose latencies are stated.
    pub(super) entries: Vec<(usize, Entry)>,
    pub(super) foreign: Data,
    pub(super) preemption: Option<Preemption>,
    pub(super) slopes: [Option<Rate>; 8],
    /// True if its link ends at meters.
    pub(super) metered: bool,
}

pub(super) struct FlowNumbers {
    pub(super) line: Line,
    pub(super) largest: Data,
    pub(super) smallest: Data,
    pub(super) period: Option<Time>,
    pub(super) jitter: Time,
    pub(super) meter: Option<meter::MeterNumbers>,
    /// The place of its first hop in tables by hop.
    pub(super) first: usize,
}

/// The jitter that a flow has gained before a hop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AddedJitter {
    /// The largest lateness of its frames, counted since its source.
    pub(super) late: Time,
    /// The jitter gained since its source or the last regulator, which restores its contract.
    pub(super) line: Time,
}

pub(super) struct Analysis<'a> {
    pub(super) graph: &'a Graph,
    pub(super) method: Method,
    pub(super) servers: Vec<ServerNumbers>,
    pub(super) flows: Vec<FlowNumbers>,
    /// The (flow, hop) pairs that pass each server.
    pub(super) passing: Vec<Vec<(u32, u32)>>,
    /// The jitter at each hop of all flows; `None` if a port before has no bound.
    pub(super) added_jitter: Vec<Option<AddedJitter>>,
    pub(super) departures: Vec<Departures>,
    /// The place of each server in `inputs` of the current visit.
    pub(super) places: Vec<u32>,
    pub(super) walk: Walk,
}

/// Bounds every port.
///
/// # Errors
/// [`Overflow`].
pub fn analyse(graph: &Graph, method: Method) -> Result<Vec<PortBound>, Overflow> {
    analyse_while(graph, method, &mut |_| true)
}

/// As [`analyse`], but it can be ended. `go_on` is called before each port with the number of visited ports.
///
/// If it returns false, the work ends, and all ports that are not final have no bound.
///
/// # Errors
/// [`Overflow`].
pub fn analyse_while(
    graph: &Graph,
    method: Method,
    go_on: &mut dyn FnMut(usize) -> bool,
) -> Result<Vec<PortBound>, Overflow> {
    run(&mut Analysis::new(graph, method)?, go_on)
}

/// Visits every port until nothing changes.
pub(super) fn run(
    analysis: &mut Analysis<'_>,
    go_on: &mut dyn FnMut(usize) -> bool,
) -> Result<Vec<PortBound>, Overflow> {
    let graph = analysis.graph;
    let (order, cyclic) = graph.order();
    let mut bounds: Vec<Option<PortBound>> = vec![None; graph.servers.len()];
    let mut visits = 0;
    for server in order {
        visits += 1;
        if !go_on(visits) {
            break;
        }
        bounds[server] = Some(analysis.visit(server)?.0);
    }
    if !cyclic.is_empty() {
        let mut settled = false;
        'passes: for _ in 0..MOST_PASSES {
            let mut changed = false;
            for &server in &cyclic {
                visits += 1;
                if !go_on(visits) {
                    break 'passes;
                }
                // Numbers that grow out of range are a loop that does not settle.
                let Ok((bound, moved)) = analysis.visit(server) else {
                    break 'passes;
                };
                changed |= moved || bounds[server].as_ref() != Some(&bound);
                let latest = fixed::seconds(LATEST);
                let late = bound
                    .classes
                    .iter()
                    .any(|class| class.delay.is_some_and(|delay| delay > latest));
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
                analysis.forget(server);
            }
        }
    }
    Ok(bounds
        .into_iter()
        .enumerate()
        .map(|(server, bound)| bound.unwrap_or_else(|| analysis.unbounded(server)))
        .collect())
}

impl<'a> Analysis<'a> {
    pub(super) fn new(graph: &'a Graph, method: Method) -> Result<Analysis<'a>, Overflow> {
        let mut servers = Vec::with_capacity(graph.servers.len());
        let mut departures = Vec::with_capacity(graph.servers.len());
        for server in &graph.servers {
            let mut slopes = [None; 8];
            for (slope, shaper) in slopes.iter_mut().zip(&server.shapers) {
                if let ClassShaper::Credit { idle_slope } = shaper {
                    *slope = Some(rate_down(*idle_slope)?);
                }
            }
            let entries = entry::entries(server)?;
            let numbers = ServerNumbers {
                rate: rate_down(server.rate)?,
                rate_up: rate_up(server.rate)?,
                latency: time_up(server.latency)?,
                latency_min: time_down(server.latency_min)?,
                variation: entry::variation(server)?,
                entries,
                foreign: fixed::data_up(server.foreign_frame)?,
                preemption: server.preemption.map(Preemption::new).transpose()?,
                slopes,
                metered: false,
            };
            let ahead = if server.catches_up && keeps(Term::CatchingUp) {
                product(numbers.rate_up, numbers.latency)
            } else {
                0
            };
            departures.push(Departures {
                line: Line {
                    burst: ahead,
                    rate: if method.line_shaping {
                        numbers.rate_up
                    } else {
                        0
                    },
                },
                ..Departures::default()
            });
            servers.push(numbers);
        }
        let mut flows = Vec::with_capacity(graph.flows.len());
        let mut passing = vec![Vec::new(); graph.servers.len()];
        let mut first = 0;
        for (number, flow) in graph.flows.iter().enumerate() {
            flows.push(FlowNumbers {
                line: Line {
                    burst: fixed::data_up(flow.burst)?,
                    rate: rate_up(flow.rate)?,
                },
                largest: fixed::data_up(flow.frame_max)?,
                smallest: fixed::data_up(flow.frame_min)?,
                period: flow
                    .period
                    .filter(|_| method.staircase)
                    .map(time_down)
                    .transpose()?
                    .filter(|period| *period > 0),
                jitter: time_up(flow.jitter)?,
                meter: match &flow.meter {
                    Some(meter) => Some(meter::MeterNumbers::new(flow, meter)?),
                    None => None,
                },
                first,
            });
            first += flow.hops.len();
            for (hop_number, hop) in flow.hops.iter().enumerate() {
                let number = u32::try_from(number).map_err(|_| Overflow)?;
                let hop_number = u32::try_from(hop_number).map_err(|_| Overflow)?;
                passing[hop.server].push((number, hop_number));
            }
        }
        let mut analysis = Analysis {
            graph,
            method,
            servers,
            flows,
            passing,
            added_jitter: vec![Some(AddedJitter::default()); first],
            departures,
            places: vec![u32::MAX; graph.servers.len()],
            walk: Walk::default(),
        };
        analysis.cut_through()?;
        analysis.find_metered();
        Ok(analysis)
    }

    /// Discards the bounds of a server's departures.
    fn forget(&mut self, server: usize) {
        for &(flow, hop) in &self.passing[server] {
            let own = &self.flows[flow as usize];
            for (next, behind) in self.graph.flows[flow as usize].hops.iter().enumerate() {
                if behind.before == Some(hop as usize) {
                    self.added_jitter[own.first + next] = None;
                }
            }
        }
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

    fn class_of(&self, (flow, hop): (u32, u32)) -> u8 {
        self.graph.flows[flow as usize].hops[hop as usize].class
    }

    /// Bounds one server, and passes on its departures. Returns true if those changed.
    fn visit(&mut self, server: usize) -> Result<(PortBound, bool), Overflow> {
        let inputs = self.inputs(server, true)?;
        let port = self.port(server, &inputs)?;
        self.depart(server, &inputs, &port)?;
        let mut changed = false;
        let here = &self.graph.servers[server];
        let numbers = &self.servers[server];
        for &(flow_number, hop_number) in &self.passing[server] {
            let flow = &self.graph.flows[flow_number as usize];
            let own = &self.flows[flow_number as usize];
            let hop = hop_number as usize;
            let class = usize::from(flow.hops[hop].class);
            let entry = self.entry(flow_number as usize, hop);
            let delay = port.delays.get(class).copied().flatten();
            let delay = delay.map(|delay| delay - entry.sooner);
            // The least delay must not contain what need not happen: blocking, queueing, more than the least latency.
            let least = if !self.method.least_delay {
                0
            } else {
                let latency = if keeps(Term::LeastLatency) {
                    entry.least
                } else {
                    numbers.latency
                };
                if here.catches_up {
                    latency
                } else {
                    let smallest = self.smallest_at(flow_number as usize, hop);
                    let sent = smallest.min(entry.header);
                    plus(latency, quotient_down(sent, numbers.rate_up)?)?
                }
            };
            let after = match (self.added_jitter[own.first + hop], delay) {
                (Some(before), Some(delay)) => {
                    let held = if keeps(Term::Jitter) {
                        (delay - least).max(0)
                    } else {
                        0
                    };
                    let line = if matches!(here.shapers.get(class), Some(ClassShaper::Regulated)) {
                        0
                    } else {
                        before.line
                    };
                    Some(AddedJitter {
                        late: plus(before.late, held)?,
                        line: plus(line, held)?,
                    })
                }
                _ => None,
            };
            for (next, hop) in flow.hops.iter().enumerate() {
                if hop.before == Some(hop_number as usize) {
                    let place = &mut self.added_jitter[own.first + next];
                    changed |= *place != after;
                    *place = after;
                }
            }
        }
        Ok((port.bound, changed))
    }

    /// True if the streams of a hop's class arrive within their contracts: from their talkers, or out of regulators.
    fn enters_conforming(&self, hop: Hop) -> bool {
        let shapers = &self.graph.servers[hop.server].shapers;
        hop.before.is_none() || shapers.get(usize::from(hop.class)) == Some(&ClassShaper::Regulated)
    }

    /// Returns the flows of a server by their input link, and by class. In the queue their frames may be closer together
    /// than on the link, by the variation of the latency; `queued` is false for those that arrive.
    fn inputs(&mut self, server: usize, queued: bool) -> Result<Vec<Input>, Overflow> {
        let here = &self.graph.servers[server];
        let classes = usize::from(here.classes);
        let mut inputs: Vec<Input> = Vec::new();
        let mut local = None;
        for &(flow_number, hop_number) in &self.passing[server] {
            let flow = &self.graph.flows[flow_number as usize];
            let own = &self.flows[flow_number as usize];
            let hop = flow.hops[hop_number as usize];
            let before = hop.before.map(|before| flow.hops[before]);
            let regulated =
                here.shapers.get(usize::from(hop.class)) == Some(&ClassShaper::Regulated);
            // What a regulator lets go comes over no link.
            let from = before.map(|before| before.server).filter(|_| !regulated);
            let new = u32::try_from(inputs.len()).map_err(|_| Overflow)?;
            let shift = if queued {
                self.entry(flow_number as usize, hop_number as usize).varies
            } else {
                0
            };
            let place = match from {
                Some(from) => &mut self.places[from],
                None => local.get_or_insert(u32::MAX),
            };
            if *place == u32::MAX {
                *place = new;
                inputs.push(Input {
                    from,
                    shift,
                    classes: vec![Class::default(); classes],
                    interruptions: Class::default(),
                    least_express: Data::MAX,
                });
            }
            let Some(input) = inputs.get_mut(*place as usize) else {
                continue;
            };
            let Some(class) = input.classes.get_mut(usize::from(hop.class)) else {
                continue;
            };
            let known = before.filter(|_| !regulated);
            let interrupted = known.is_some_and(|before| {
                let there = &self.servers[before.server].preemption;
                there.is_some_and(|there| there.interrupts(before.class))
            });
            class.joined_by(own, known.map(|before| before.class), interrupted);
            // A regulator adds no delay behind a queue that its streams entered within their contracts. Behind one that
            // they entered with more jitter, a stream waits there for others, and nothing bounds for how long.
            let held_back =
                regulated && before.is_some_and(|before| !self.enters_conforming(before));
            let Some(added_jitter) =
                self.added_jitter[own.first + hop_number as usize].filter(|_| !held_back)
            else {
                class.unbounded = true;
                continue;
            };
            let (flow_at, hop_at) = (flow_number as usize, hop_number as usize);
            let line = if regulated {
                Line {
                    burst: if keeps(Term::RegulatedBurst) {
                        own.line.burst
                    } else {
                        0
                    },
                    rate: own.line.rate,
                }
            } else {
                let Some(line) = self.line_at(flow_at, hop_at, added_jitter, shift)? else {
                    class.unbounded = true;
                    continue;
                };
                line
            };
            let late = plus(added_jitter.late, shift)?;
            let periodic = !self.is_metered(flow_at, hop_at);
            class.bring(own, line, periodic.then_some(late))?;
            let preemption = self.servers[server].preemption;
            if let Some(preemption) = preemption.filter(|it| !it.interrupts(hop.class)) {
                input.interrupt(preemption, own, line, late)?;
            }
        }
        for input in &inputs {
            if let Some(from) = input.from {
                self.places[from] = u32::MAX;
            }
        }
        Ok(inputs)
    }
}
