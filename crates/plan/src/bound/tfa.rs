//! A graph of servers, bounded port by port (total flow analysis).
//!
//! For each port and class: what can arrive over each input link, what the port
//! serves, hence the delay `D` of any frame of the class. Behind the port a flow
//! may be denser by `rate (D - D_min)`; the next port is computed with that.
//! `docs/bounds.md` derives each step.
//!
//! On a graph without cycles one pass in order suffices. On a cycle the passes
//! repeat until nothing changes; a cycle that does not settle has no bound.

use super::arrivals::{Bundle, Class, Departures, Input, Part, together};
use super::credit::{Above, Credit};
use super::excess::{Arrivals, Stair, Walk};
use super::fixed::{
    self, Data, Line, Rate, Time, plus, product, quotient_down, quotient_up, rate_down, rate_up,
    time_down, time_up,
};
use super::graph::{ClassBound, ClassShaper, Graph, Hop, Method, PortBound};
use super::mutation::{Term, keeps};
use super::rational::{Overflow, Ratio};

/// More passes over a cycle than this are not tried.
const MOST_PASSES: usize = 1_000;

/// A delay beyond so many picoseconds (ten days) on a loop is taken as growth without end.
const LATEST: Time = 1_000_000_000_000_000_000;

/// Two delays that differ by less, picoseconds, are as good as one.
const NEAR: Time = 50;

struct ServerNumbers {
    rate: Rate,
    /// The rate rounded up, for what the link brings.
    rate_up: Rate,
    latency: Time,
    latency_min: Time,
    foreign: Data,
    slopes: [Option<Rate>; 8],
}

struct FlowNumbers {
    line: Line,
    largest: Data,
    smallest: Data,
    period: Option<Time>,
    jitter: Time,
    /// The place of its first hop in tables by hop.
    first: usize,
}

/// How much denser than at its source a flow is when it comes to a hop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Denser {
    /// Since its source: by so much its frames may be late.
    late: Time,
    /// Since its source or the last regulator, which makes it keep to its contract again.
    line: Time,
}

struct Analysis<'a> {
    graph: &'a Graph,
    method: Method,
    servers: Vec<ServerNumbers>,
    flows: Vec<FlowNumbers>,
    /// For each server, the (flow, hop) pairs that pass it.
    passing: Vec<Vec<(u32, u32)>>,
    /// By hop of all flows; none where something before has no bound.
    denser: Vec<Option<Denser>>,
    departures: Vec<Departures>,
    /// By server: its place in `inputs` of the visit at hand.
    places: Vec<u32>,
    walk: Walk,
}

/// Bound every port.
///
/// # Errors
/// [`Overflow`].
pub fn analyse(graph: &Graph, method: Method) -> Result<Vec<PortBound>, Overflow> {
    analyse_while(graph, method, &mut |_| true)
}

/// As [`analyse`]; `go_on` is asked before each port with the number of those visited, and false ends the work: then all
/// ports that are not final have no bound.
///
/// # Errors
/// [`Overflow`].
pub fn analyse_while(
    graph: &Graph,
    method: Method,
    go_on: &mut dyn FnMut(usize) -> bool,
) -> Result<Vec<PortBound>, Overflow> {
    let mut analysis = Analysis::new(graph, method)?;
    let (order, cyclic) = analysis.order();
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
    fn new(graph: &'a Graph, method: Method) -> Result<Analysis<'a>, Overflow> {
        let mut servers = Vec::with_capacity(graph.servers.len());
        let mut departures = Vec::with_capacity(graph.servers.len());
        for server in &graph.servers {
            let mut slopes = [None; 8];
            for (slope, shaper) in slopes.iter_mut().zip(&server.shapers) {
                if let ClassShaper::Credit { idle_slope } = shaper {
                    *slope = Some(rate_down(*idle_slope)?);
                }
            }
            let numbers = ServerNumbers {
                rate: rate_down(server.rate)?,
                rate_up: rate_up(server.rate)?,
                latency: time_up(server.latency)?,
                latency_min: time_down(server.latency_min)?,
                foreign: fixed::data_up(server.foreign_frame)?,
                slopes,
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
                first,
            });
            first += flow.hops.len();
            for (hop_number, hop) in flow.hops.iter().enumerate() {
                let number = u32::try_from(number).map_err(|_| Overflow)?;
                let hop_number = u32::try_from(hop_number).map_err(|_| Overflow)?;
                passing[hop.server].push((number, hop_number));
            }
        }
        Ok(Analysis {
            graph,
            method,
            servers,
            flows,
            passing,
            denser: vec![Some(Denser::default()); first],
            departures,
            places: vec![u32::MAX; graph.servers.len()],
            walk: Walk::default(),
        })
    }

    /// Servers in an order in which each comes behind those that feed it, and those for which there is none.
    fn order(&self) -> (Vec<usize>, Vec<usize>) {
        let count = self.graph.servers.len();
        let mut follows: Vec<Vec<usize>> = vec![Vec::new(); count];
        let mut waits_for = vec![0_usize; count];
        for flow in &self.graph.flows {
            for hop in &flow.hops {
                if let Some(before) = hop.before {
                    follows[flow.hops[before].server].push(hop.server);
                    waits_for[hop.server] += 1;
                }
            }
        }
        let mut order = Vec::new();
        let mut ready: Vec<usize> = (0..count)
            .rev()
            .filter(|server| waits_for[*server] == 0)
            .collect();
        while let Some(server) = ready.pop() {
            order.push(server);
            for &next in &follows[server] {
                waits_for[next] -= 1;
                if waits_for[next] == 0 {
                    ready.push(next);
                }
            }
        }
        let cyclic = (0..count).filter(|server| waits_for[*server] > 0).collect();
        (order, cyclic)
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

    /// Bound one server, and pass on what leaves it. Says whether that changed.
    fn visit(&mut self, server: usize) -> Result<(PortBound, bool), Overflow> {
        let inputs = self.inputs(server)?;
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
            let delay = port.delays.get(class).copied().flatten();
            // The least delay must not contain what need not happen: blocking, queueing, the largest latency.
            let least = if !self.method.least_delay {
                0
            } else {
                let latency = if keeps(Term::LeastLatency) {
                    numbers.latency_min
                } else {
                    numbers.latency
                };
                if here.catches_up {
                    latency
                } else {
                    plus(latency, quotient_down(own.smallest, numbers.rate_up)?)?
                }
            };
            let after = match (self.denser[own.first + hop], delay) {
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
                    Some(Denser {
                        late: plus(before.late, held)?,
                        line: plus(line, held)?,
                    })
                }
                _ => None,
            };
            for (next, hop) in flow.hops.iter().enumerate() {
                if hop.before == Some(hop_number as usize) {
                    let place = &mut self.denser[own.first + next];
                    changed |= *place != after;
                    *place = after;
                }
            }
        }
        Ok((port.bound, changed))
    }

    /// Whether the streams of a hop's class come to it within their contracts: from their talkers, or out of regulators.
    fn enters_conforming(&self, hop: Hop) -> bool {
        let shapers = &self.graph.servers[hop.server].shapers;
        hop.before.is_none() || shapers.get(usize::from(hop.class)) == Some(&ClassShaper::Regulated)
    }

    /// The flows of a server by the link that they come over, and by class.
    fn inputs(&mut self, server: usize) -> Result<Vec<Input>, Overflow> {
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
            let place = match from {
                Some(from) => &mut self.places[from],
                None => local.get_or_insert(u32::MAX),
            };
            if *place == u32::MAX {
                *place = new;
                inputs.push(Input {
                    from,
                    classes: vec![Class::default(); classes],
                });
            }
            let Some(class) = inputs
                .get_mut(*place as usize)
                .and_then(|input| input.classes.get_mut(usize::from(hop.class)))
            else {
                continue;
            };
            class.used = true;
            class.largest = class.largest.max(own.largest);
            if let Some(before) = before.filter(|_| !regulated) {
                let (least, most) = class.before.unwrap_or((before.class, before.class));
                class.before = Some((least.min(before.class), most.max(before.class)));
            }
            // A regulator adds no delay behind a queue that its streams entered within their contracts. Behind one that
            // they entered denser, a stream waits there for others, and nothing bounds for how long.
            let held_back =
                regulated && before.is_some_and(|before| !self.enters_conforming(before));
            let Some(denser) = self.denser[own.first + hop_number as usize].filter(|_| !held_back)
            else {
                class.unbounded = true;
                continue;
            };
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
                own.line.shifted(denser.line)
            };
            class.contracts = class.contracts.plus(line)?;
            match own.period {
                Some(period) => class.stairs.push(Stair {
                    frame: own.largest,
                    period,
                    jitter: plus(own.jitter, denser.late)?,
                }),
                None => class.rest = class.rest.plus(line)?,
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

/// What a visit finds.
struct Port {
    bound: PortBound,
    delays: Vec<Option<Time>>,
    credits: Vec<Option<Credit>>,
}

impl Analysis<'_> {
    fn port(&mut self, server: usize, inputs: &[Input]) -> Result<Port, Overflow> {
        let classes = usize::from(self.graph.servers[server].classes);
        let foreign = self.servers[server].foreign;
        let mut largest = vec![0; classes];
        let mut used = vec![false; classes];
        for input in inputs {
            for (at, class) in input.classes.iter().enumerate() {
                largest[at] = class.largest.max(largest[at]);
                used[at] |= class.used;
            }
        }
        let low: Vec<Data> = (0..classes)
            .map(|class| largest[..class].iter().copied().fold(foreign, Data::max))
            .collect();
        let credits = self.credits(server, &largest, &low)?;
        let mut delays = Vec::with_capacity(classes);
        let mut bounds = Vec::with_capacity(classes);
        for class in 0..classes {
            let blocking = if keeps(Term::Blocking) { low[class] } else { 0 };
            let here = &self.servers[server];
            let (delay, in_the_way) = match (used[class], &credits[class]) {
                (false, _) => (Some(here.latency), low[class]),
                (true, Some(credit)) => {
                    let delay = self.credit_delay(server, class, credit, inputs)?;
                    (delay, product(self.servers[server].rate, credit.wait))
                }
                (true, None) => {
                    let delay = self.delay(server, class, blocking, inputs, &credits)?;
                    (delay, low[class])
                }
            };
            delays.push(delay);
            bounds.push(ClassBound {
                delay: delay.map(fixed::seconds),
                blocking: fixed::bits(in_the_way)?,
            });
        }
        let backlog = self.backlog(server, inputs, &delays)?;
        let bound = PortBound {
            classes: bounds,
            backlog: backlog.map(fixed::bits).transpose()?,
        };
        Ok(Port {
            bound,
            delays,
            credits,
        })
    }

    fn credits(
        &self,
        server: usize,
        largest: &[Data],
        low: &[Data],
    ) -> Result<Vec<Option<Credit>>, Overflow> {
        let here = &self.servers[server];
        let mut credits = vec![None; largest.len()];
        let mut above = Above::default();
        for class in (0..largest.len()).rev() {
            if let Some(slope) = here.slopes.get(class).copied().flatten() {
                credits[class] = Some(Credit::new(
                    here.rate,
                    slope,
                    &above,
                    largest[class],
                    low[class],
                )?);
                above = above.and(here.rate, slope, largest[class])?;
            }
        }
        Ok(credits)
    }

    /// The largest delay of a class with a credit: it is served I (t - wait), whoever is above.
    fn credit_delay(
        &mut self,
        server: usize,
        class: usize,
        credit: &Credit,
        inputs: &[Input],
    ) -> Result<Option<Time>, Overflow> {
        let mut groups = Vec::new();
        for input in inputs.iter().filter(|input| input.classes[class].used) {
            let own = &input.classes[class];
            if own.unbounded {
                return Ok(None);
            }
            let mut bundle = Bundle::default();
            bundle.add(own)?;
            groups.push(Arrivals {
                lines: bundle.lines(self.link(input))?,
                rest: own.rest,
                stairs: own.stairs.clone(),
            });
        }
        let Some(excess) = self.walk.excess(&groups, credit.idle_slope)? else {
            return Ok(None);
        };
        let latency = self.latency(server);
        let waits = plus(credit.wait, latency)?;
        plus(quotient_up(excess, credit.idle_slope)?, waits).map(Some)
    }

    fn latency(&self, server: usize) -> Time {
        if keeps(Term::Latency) {
            self.servers[server].latency
        } else {
            0
        }
    }

    fn link(&self, input: &Input) -> Option<&Departures> {
        input.from.map(|from| &self.departures[from])
    }

    /// The largest delay of a class: the least `d` such that for every `s` all that must leave before a frame
    /// which came `s` after the queue was last empty has left at `s + d`.
    fn delay(
        &mut self,
        server: usize,
        class: usize,
        blocking: Data,
        inputs: &[Input],
        credits: &[Option<Credit>],
    ) -> Result<Option<Time>, Overflow> {
        let rate = self.servers[server].rate;
        let mut parts: Vec<Part<'_>> = Vec::new();
        let (mut own, mut urgent) = (Line::default(), Line::default());
        for input in inputs {
            let (mut equal, mut above, mut both) =
                (Bundle::default(), Bundle::default(), Bundle::default());
            let mut part = Part::default();
            for (at, one) in input.classes.iter().enumerate().skip(class) {
                // Classes with a credit count by what they send, not by what comes.
                if !one.used || (at > class && credits[at].is_some()) {
                    continue;
                }
                if one.unbounded {
                    return Ok(None);
                }
                if at == class {
                    equal.add(one)?;
                    part.own = Some(one);
                } else {
                    above.add(one)?;
                    part.urgent.push(one);
                }
                both.add(one)?;
            }
            if part.own.is_none() && part.urgent.is_empty() {
                continue;
            }
            let link = self.link(input);
            part.equal = equal.lines(link)?;
            if !part.urgent.is_empty() {
                part.above = above.lines(link)?;
                part.both = both.lines(link)?;
            }
            own = own.plus(part.equal[0])?;
            urgent = urgent.plus(above.contracts)?;
            parts.push(part);
        }
        for credit in credits.iter().skip(class + 1).flatten() {
            let sends = if keeps(Term::CreditBurst) {
                credit.sends
            } else {
                Line {
                    burst: 0,
                    ..credit.sends
                }
            };
            urgent = urgent.plus(sends)?;
            parts.push(Part {
                equal: vec![Line::default()],
                above: vec![sends],
                both: vec![sends],
                ..Part::default()
            });
        }
        if plus(own.rate, urgent.rate)? >= rate {
            return Ok(None);
        }
        let fixed_time = plus(quotient_up(blocking, rate)?, self.latency(server))?;
        let mut groups = vec![Arrivals::default(); parts.len()];
        let walk = &mut self.walk;
        let mut needs = |d: Time| -> Result<Option<Time>, Overflow> {
            for (part, group) in parts.iter().zip(&mut groups) {
                part.fill(d, group)?;
            }
            let excess = walk.excess(&groups, rate)?;
            excess
                .map(|bits| plus(quotient_up(bits, rate)?, fixed_time))
                .transpose()
        };
        let Some(mut d) = needs(0)? else {
            return Ok(None);
        };
        if urgent.is_nothing() {
            // Nothing overtakes, so that `d` is on one side only.
            return Ok(Some(d));
        }
        // Holds without the links' help.
        let all = own.burst.checked_add(urgent.burst).ok_or(Overflow)?;
        let all = all.checked_add(product(rate, fixed_time)).ok_or(Overflow)?;
        let mut enough = quotient_up(all, rate - urgent.rate)?;
        // From below, where nothing is promised until it holds; the first that holds is the least.
        for _ in 0..40 {
            let Some(needed) = needs(d)? else {
                return Ok(None);
            };
            if needed <= d {
                return Ok(Some(needed));
            }
            let step = needed - d;
            d = needed;
            if step <= NEAR {
                break;
            }
        }
        // Close: what is left is halved. Each that is taken has been checked.
        while enough - d > NEAR {
            let nearer = d + (enough - d).min(NEAR << 1) / 2;
            let half = d + (enough - d) / 2;
            let candidate = if needs(nearer)?.is_some_and(|needed| needed <= nearer) {
                nearer
            } else {
                half
            };
            match needs(candidate)? {
                Some(needed) if needed <= candidate => enough = needed.max(d),
                _ => d = candidate,
            }
            if candidate == nearer {
                break;
            }
        }
        Ok(Some(enough))
    }

    /// The largest amount that waits at a port.
    fn backlog(
        &mut self,
        server: usize,
        inputs: &[Input],
        delays: &[Option<Time>],
    ) -> Result<Option<Data>, Overflow> {
        let here = &self.servers[server];
        if inputs.is_empty() {
            return Ok(Some(0));
        }
        let shapers = &self.graph.servers[server].shapers;
        if shapers.iter().any(|shaper| *shaper != ClassShaper::None) {
            return self.shaped_backlog(server, inputs, delays);
        }
        let mut groups = Vec::new();
        for input in inputs {
            let mut bundle = Bundle::default();
            let mut group = Arrivals::default();
            for class in &input.classes {
                if class.unbounded {
                    return Ok(None);
                }
                bundle.add(class)?;
                group.rest = group.rest.plus(class.rest)?;
                group.stairs.extend_from_slice(&class.stairs);
            }
            group.lines = bundle.lines(self.link(input))?;
            groups.push(group);
        }
        let latency = if keeps(Term::MemoryLatency) {
            here.latency
        } else {
            0
        };
        let fixed = product(here.rate_up, latency)
            .checked_add(here.foreign)
            .ok_or(Overflow)?;
        let rate = here.rate;
        match self.walk.excess(&groups, rate)? {
            Some(bits) => Ok(Some(bits.checked_add(fixed).ok_or(Overflow)?)),
            None => Ok(None),
        }
    }

    /// Where a port may rest although frames wait: what is there has come within the time that it may stay.
    fn shaped_backlog(
        &self,
        server: usize,
        inputs: &[Input],
        delays: &[Option<Time>],
    ) -> Result<Option<Data>, Overflow> {
        let here = &self.graph.servers[server];
        let mut total = self.servers[server].foreign;
        for input in inputs {
            for (class, delay) in input.classes.iter().zip(delays) {
                let regulated_class = class.used && input.from.is_none();
                if !class.used || (regulated_class && self.is_regulated(server, class, input)) {
                    continue;
                }
                let (Some(delay), false) = (delay, class.unbounded) else {
                    return Ok(None);
                };
                let mut bundle = Bundle::default();
                bundle.add(class)?;
                let lines = bundle.lines(self.link(input))?;
                let most = lines.iter().map(|line| line.at(*delay)).min();
                total = total.checked_add(most.unwrap_or(0)).ok_or(Overflow)?;
            }
        }
        for &(flow_number, hop_number) in &self.passing[server] {
            let class = usize::from(self.class_of((flow_number, hop_number)));
            if here.shapers.get(class) != Some(&ClassShaper::Regulated) {
                continue;
            }
            let own = &self.flows[flow_number as usize];
            let (Some(delay), Some(denser)) = (
                delays.get(class).copied().flatten(),
                self.denser[own.first + hop_number as usize],
            ) else {
                return Ok(None);
            };
            // It leaves within `delay` of when it would have come had it not been late.
            let most = own.line.shifted(denser.line).at(delay);
            total = total.checked_add(most).ok_or(Overflow)?;
        }
        Ok(Some(total))
    }

    /// Whether the flows of this part of the local input came through regulators: all of a class do, or none.
    fn is_regulated(&self, server: usize, class: &Class, input: &Input) -> bool {
        let at = input
            .classes
            .iter()
            .position(|one| core::ptr::eq(one, class));
        at.and_then(|at| self.graph.servers[server].shapers.get(at))
            == Some(&ClassShaper::Regulated)
    }

    /// What the ports behind may know of all that leaves this one.
    fn depart(&mut self, server: usize, inputs: &[Input], port: &Port) -> Result<(), Overflow> {
        let here = &self.graph.servers[server];
        let numbers = &self.servers[server];
        let classes = usize::from(here.classes);
        let mut all = vec![None; classes];
        let has_credit = port.credits.iter().any(Option::is_some);
        if self.method.aggregates && !has_credit {
            let mut arrived = Some(Line::default());
            let (mut largest, mut smallest) = (0, Data::MAX);
            let mut least_of = vec![Data::MAX; classes];
            for &(flow, hop) in &self.passing[server] {
                let class = usize::from(self.class_of((flow, hop)));
                if let Some(least) = least_of.get_mut(class) {
                    *least = (*least).min(self.flows[flow as usize].smallest);
                }
            }
            for class in (0..classes).rev() {
                for input in inputs {
                    let one = &input.classes[class];
                    if one.unbounded {
                        arrived = None;
                    }
                    arrived = match arrived {
                        Some(line) => Some(line.plus(one.contracts)?),
                        None => None,
                    };
                    largest = one.largest.max(largest);
                }
                smallest = smallest.min(least_of[class]);
                let low = (0..class)
                    .flat_map(|below| inputs.iter().map(move |input| input.classes[below].largest))
                    .fold(numbers.foreign, Data::max);
                if let Some(arrived) = arrived.filter(|_| largest > 0) {
                    let least = if here.catches_up {
                        0
                    } else {
                        smallest.min(largest)
                    };
                    all[class] =
                        together(arrived, numbers.rate, numbers.latency, low, largest, least)?;
                }
            }
        }
        let credit = port.credits.iter().map(|credit| {
            let credit = credit.as_ref()?;
            // Held frames follow each other faster.
            (!here.catches_up).then_some(credit.sends)
        });
        let credit = credit.collect();
        let departures = &mut self.departures[server];
        departures.together = all;
        departures.credit = credit;
        Ok(())
    }
}
