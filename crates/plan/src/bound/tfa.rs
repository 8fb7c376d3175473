//! A graph of servers, bounded port by port (total flow analysis).
//!
//! For each port and class: what can arrive over each input link, what the port
//! serves, hence the delay `D` of any frame of the class. Behind the port a flow
//! may be denser by `rate (D - D_min)`; the next port is computed with that.
//! `docs/bounds.md` derives each step.
//!
//! On a graph without cycles one pass in order suffices. On a cycle the passes
//! repeat until nothing changes; a cycle that does not settle has no bound.

use super::curve::{Arrivals, Line, Stair, TIME_GRID, excess_with_stairs};
use super::rational::{Overflow, Ratio};

/// A port: serves frames, highest class first, in order of arrival within a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Rate, bit/s.
    pub rate: Ratio,
    /// Largest latency on top of queueing and transmission, seconds.
    pub latency: Ratio,
    /// Least latency, seconds. Zero unless proven.
    pub latency_min: Ratio,
    /// Whether frames may leave faster than `rate` after having been late.
    pub catches_up: bool,
    /// Number of classes; a larger number is more urgent.
    pub classes: u8,
    /// A frame of traffic outside the graph that may be in the way of every class, bits.
    pub foreign_frame: Ratio,
}

/// One server on the way of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Index of the server.
    pub server: usize,
    /// The flow's class there.
    pub class: u8,
    /// Index, within the flow, of the hop before; `None` where the flow enters.
    pub before: Option<usize>,
}

/// Frames under one contract, over a path or a tree of servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Bits at once.
    pub burst: Ratio,
    /// Bits per second.
    pub rate: Ratio,
    /// Largest frame, bits.
    pub frame_max: Ratio,
    /// Smallest frame, bits.
    pub frame_min: Ratio,
    /// Seconds between frames of `frame_max`, where it sends one in each period.
    pub period: Option<Ratio>,
    /// How late a frame of a periodic flow may enter, seconds (contained in `burst`).
    pub jitter: Ratio,
    /// Its servers; a hop comes behind the hop before it.
    pub hops: Vec<Hop>,
}

/// Servers and flows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// The ports.
    pub servers: Vec<Server>,
    /// The traffic.
    pub flows: Vec<Flow>,
}

/// What the analysis may use. All are sound; fewer give larger bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    /// No link carries more than its rate allows.
    pub line_shaping: bool,
    /// All flows of a port together leave it no burstier than they came, but for its latency.
    pub aggregates: bool,
    /// A periodic flow sends whole frames, not a fluid.
    pub staircase: bool,
    /// No frame passes a port in less than its own time on the link, so that only the rest makes flows denser.
    pub least_delay: bool,
}

impl Method {
    /// Everything.
    pub const FULL: Method = Method { line_shaping: true, aggregates: true, staircase: true, least_delay: true };
}

/// The bounds of one class at one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassBound {
    /// Largest delay from arrival of a frame's last bit to departure of its last bit, seconds; `None`: unbounded.
    pub delay: Option<Ratio>,
    /// Largest frame of a lower class, bits, that may be in the way.
    pub blocking: Ratio,
}

/// The bounds of one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortBound {
    /// By class.
    pub classes: Vec<ClassBound>,
    /// Largest backlog of all classes together, bits; `None`: unbounded. Zero where nothing passes.
    pub backlog: Option<Ratio>,
}

/// More passes over a cycle than this are not tried.
const MOST_PASSES: usize = 1_000;

/// A delay beyond this many seconds on a loop is taken as growth without end.
const LATEST: Ratio = Ratio::whole(1_000_000);

struct Analysis<'a> {
    graph: &'a Graph,
    method: Method,
    /// For each server, the (flow, hop) pairs that pass it.
    passing: Vec<Vec<(usize, usize)>>,
    /// For each flow and hop: how much later than at its source two frames can come close, seconds.
    jitter: Vec<Vec<Option<Ratio>>>,
}

/// Bound every port.
///
/// # Errors
/// [`Overflow`].
pub fn analyse(graph: &Graph, method: Method) -> Result<Vec<PortBound>, Overflow> {
    let mut passing = vec![Vec::new(); graph.servers.len()];
    for (flow_index, flow) in graph.flows.iter().enumerate() {
        for (hop_index, hop) in flow.hops.iter().enumerate() {
            passing[hop.server].push((flow_index, hop_index));
        }
    }
    let jitter = graph.flows.iter().map(|flow| vec![Some(Ratio::ZERO); flow.hops.len()]).collect();
    let mut analysis = Analysis { graph, method, passing, jitter };
    let (order, cyclic) = analysis.order();
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
                let Ok((bound, moved)) = analysis.visit(server) else { break 'passes };
                changed |= moved || bounds[server].as_ref() != Some(&bound);
                let late = bound.classes.iter().any(|class| class.delay.is_some_and(|delay| delay > LATEST));
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
    Ok(bounds.into_iter().enumerate().map(|(server, bound)| bound.unwrap_or_else(|| analysis.unbounded(server))).collect())
}

impl Analysis<'_> {
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
        let mut ready: Vec<usize> = (0..count).rev().filter(|server| waits_for[*server] == 0).collect();
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

    /// Bound one server, and pass on what leaves it. Says whether that changed.
    fn visit(&mut self, server: usize) -> Result<(PortBound, bool), Overflow> {
        let bound = self.bound(server)?;
        let mut changed = false;
        let here = &self.graph.servers[server];
        for &(flow_index, hop_index) in &self.passing[server] {
            let flow = &self.graph.flows[flow_index];
            let delay = bound.classes.get(usize::from(flow.hops[hop_index].class)).and_then(|class| class.delay);
            // The least delay must not contain what need not happen: blocking, queueing, the largest latency.
            let least = if !self.method.least_delay {
                Ratio::ZERO
            } else if here.catches_up {
                here.latency_min
            } else {
                here.latency_min.plus(flow.frame_min.over(here.rate)?)?
            };
            let after = match (self.jitter[flow_index][hop_index], delay) {
                (Some(jitter), Some(delay)) => Some(jitter.plus(delay.minus(least)?)?.tidied_up(TIME_GRID)?),
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
        let class = ClassBound { delay, blocking: Ratio::ZERO };
        PortBound { classes: vec![class; usize::from(classes)], backlog: nothing.then_some(Ratio::ZERO) }
    }

    fn class(&self, (flow, hop): (usize, usize)) -> u8 {
        self.graph.flows[flow].hops[hop].class
    }

    /// The contract of a flow as it is at a hop; `None` where something before has no bound.
    fn contract(&self, (flow, hop): (usize, usize)) -> Result<Option<Line>, Overflow> {
        let source = &self.graph.flows[flow];
        match self.jitter[flow][hop] {
            Some(jitter) => Line::new(source.burst, source.rate)?.shifted(jitter).map(Some),
            None => Ok(None),
        }
    }

    fn contracts(&self, flows: &[(usize, usize)]) -> Result<Option<Line>, Overflow> {
        let mut total = Line { burst: Ratio::ZERO, rate: Ratio::ZERO };
        for flow in flows {
            match self.contract(*flow)? {
                Some(line) => total = total.plus(line)?,
                None => return Ok(None),
            }
        }
        Ok(Some(total))
    }

    /// The periodic ones of some flows as stairs, `ahead` seconds denser; the others as one line, as much denser.
    fn stairs(&self, flows: &[(usize, usize)], ahead: Ratio) -> Result<(Line, Vec<Stair>), Overflow> {
        let mut rest = Line { burst: Ratio::ZERO, rate: Ratio::ZERO };
        let mut stairs = Vec::new();
        for &(flow, hop) in flows {
            let source = &self.graph.flows[flow];
            match (source.period.filter(|_| self.method.staircase), self.jitter[flow][hop]) {
                (Some(period), Some(jitter)) => {
                    let jitter = source.jitter.plus(jitter)?.plus(ahead)?.tidied_up(TIME_GRID)?;
                    stairs.push(Stair { frame: source.frame_max, period, jitter });
                }
                _ => {
                    if let Some(line) = self.contract((flow, hop))? {
                        rest = rest.plus(line.shifted(ahead)?)?;
                    }
                }
            }
        }
        Ok((rest, stairs))
    }

    /// Largest frame of a lower class at a server.
    fn blocking(&self, server: usize, class: u8) -> Ratio {
        self.passing[server]
            .iter()
            .filter(|passing| self.class(**passing) < class)
            .map(|(flow, _)| self.graph.flows[*flow].frame_max)
            .fold(self.graph.servers[server].foreign_frame, Ratio::max)
    }

    /// Every line that flows which share an input link stay below; `None` where they have none.
    fn lines(&self, from: Option<usize>, flows: &[(usize, usize)]) -> Result<Option<Vec<Line>>, Overflow> {
        let Some(total) = self.contracts(flows)? else { return Ok(None) };
        let mut lines = vec![total];
        // Flows that enter here come over no link: nothing but their contracts holds them back.
        let Some(before) = from.filter(|_| !flows.is_empty()) else { return Ok(Some(lines)) };
        let link = &self.graph.servers[before];
        if self.method.line_shaping {
            let frames = flows.iter().map(|(flow, _)| self.graph.flows[*flow].frame_max);
            let frame = frames.fold(Ratio::ZERO, Ratio::max);
            let ahead = if link.catches_up { link.rate.times(link.latency)? } else { Ratio::ZERO };
            lines.push(Line::new(frame.plus(ahead)?, link.rate)?);
        }
        if self.method.aggregates {
            let least = flows.iter().filter_map(|(flow, hop)| {
                let hops = &self.graph.flows[*flow].hops;
                hops[*hop].before.map(|at| hops[at].class)
            });
            if let Some(line) = self.leaving(before, least.min().unwrap_or(0))? {
                lines.push(line);
            }
        }
        Ok(Some(lines))
    }

    /// What all flows of a class and above together are below when they leave a server.
    fn leaving(&self, server: usize, class: u8) -> Result<Option<Line>, Overflow> {
        let link = &self.graph.servers[server];
        let flows: Vec<_> = self.passing[server].iter().copied().filter(|passing| self.class(*passing) >= class).collect();
        let Some(total) = self.contracts(&flows)? else { return Ok(None) };
        if total.rate > link.rate {
            return Ok(None);
        }
        let largest = flows.iter().map(|(flow, _)| self.graph.flows[*flow].frame_max).fold(Ratio::ZERO, Ratio::max);
        let smallest = if link.catches_up {
            Ratio::ZERO
        } else {
            flows.iter().map(|(flow, _)| self.graph.flows[*flow].frame_min).fold(largest, Ratio::min)
        };
        let bits = self.blocking(server, class).plus(largest)?.minus(smallest)?;
        total.shifted(link.latency.plus(bits.over(link.rate)?)?).map(Some)
    }

    /// The flows of a server by the link that they come over.
    fn inputs(&self, server: usize) -> Vec<(Option<usize>, Vec<(usize, usize)>)> {
        let mut inputs: Vec<(Option<usize>, Vec<(usize, usize)>)> = Vec::new();
        for &(flow, hop) in &self.passing[server] {
            let hops = &self.graph.flows[flow].hops;
            let from = hops[hop].before.map(|before| hops[before].server);
            match inputs.iter_mut().find(|(link, _)| *link == from) {
                Some((_, flows)) => flows.push((flow, hop)),
                None => inputs.push((from, vec![(flow, hop)])),
            }
        }
        inputs
    }

    fn bound(&self, server: usize) -> Result<PortBound, Overflow> {
        let here = &self.graph.servers[server];
        let inputs = self.inputs(server);
        let mut classes = Vec::new();
        for class in 0..here.classes {
            let blocking = self.blocking(server, class);
            let used = self.passing[server].iter().any(|passing| self.class(*passing) == class);
            let delay = if used { self.delay(server, class, blocking, &inputs)? } else { Some(here.latency) };
            classes.push(ClassBound { delay, blocking });
        }
        let backlog = if inputs.is_empty() {
            Some(Ratio::ZERO)
        } else {
            let mut groups = Vec::new();
            let mut bounded = true;
            for (from, flows) in &inputs {
                let Some(lines) = self.lines(*from, flows)? else {
                    bounded = false;
                    continue;
                };
                let (rest, stairs) = self.stairs(flows, Ratio::ZERO)?;
                groups.push(Arrivals { lines, rest, stairs });
            }
            match if bounded { excess_with_stairs(&groups, here.rate)? } else { None } {
                Some(bits) => Some(bits.plus(here.rate.times(here.latency)?)?.plus(here.foreign_frame)?),
                None => None,
            }
        };
        Ok(PortBound { classes, backlog })
    }

    /// The largest delay of a class: the least `d` such that for every `s` all that must leave before a frame
    /// which came `s` after the queue was last empty has left at `s + d`.
    fn delay(
        &self,
        server: usize,
        class: u8,
        blocking: Ratio,
        inputs: &[(Option<usize>, Vec<(usize, usize)>)],
    ) -> Result<Option<Ratio>, Overflow> {
        let here = &self.graph.servers[server];
        let mut parts = Vec::new();
        let (mut own, mut urgent) = (Line { burst: Ratio::ZERO, rate: Ratio::ZERO }, Line { burst: Ratio::ZERO, rate: Ratio::ZERO });
        for (from, flows) in inputs {
            let of = |wanted: fn(u8, u8) -> bool| -> Vec<(usize, usize)> {
                flows.iter().copied().filter(|flow| wanted(self.class(*flow), class)).collect()
            };
            let (equal_flows, above_flows) = (of(|a, b| a == b), of(|a, b| a > b));
            let (Some(equal), Some(above), Some(both)) = (
                self.lines(*from, &equal_flows)?,
                self.lines(*from, &above_flows)?,
                self.lines(*from, &of(|a, b| a >= b))?,
            ) else {
                return Ok(None);
            };
            own = own.plus(equal[0])?;
            urgent = urgent.plus(above[0])?;
            parts.push(Part { equal, above, both, equal_flows, above_flows });
        }
        let rates = own.rate.plus(urgent.rate)?;
        if rates >= here.rate {
            return Ok(None);
        }
        let fixed = blocking.plus(here.rate.times(here.latency)?)?;
        let needs = |d: Ratio| -> Result<Option<Ratio>, Overflow> {
            let mut groups = Vec::new();
            for part in &parts {
                let (rest, mut stairs) = self.stairs(&part.equal_flows, Ratio::ZERO)?;
                let (urgent_rest, urgent_stairs) = self.stairs(&part.above_flows, d)?;
                stairs.extend(urgent_stairs);
                groups.push(Arrivals { lines: part.lines(d)?, rest: rest.plus(urgent_rest)?, stairs });
            }
            excess_with_stairs(&groups, here.rate)?.map(|bits| bits.plus(fixed)?.over(here.rate)).transpose()
        };
        if urgent.rate.is_zero() && urgent.burst.is_zero() {
            // Nothing overtakes, so that `d` is on one side only.
            return needs(Ratio::ZERO)?.map(|delay| delay.tidied_up(TIME_GRID * 1_000)).transpose();
        }
        // Holds without the links' help; below it the condition is searched by halves, in picoseconds.
        let start = own.burst.plus(urgent.burst)?.plus(fixed)?.over(here.rate.minus(urgent.rate)?)?;
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
        Ratio::new(enough, TIME_GRID).map(Some)
    }
}

/// The lines of one input link: of the class itself, of those above it, of both together.
struct Part {
    equal: Vec<Line>,
    above: Vec<Line>,
    both: Vec<Line>,
    equal_flows: Vec<(usize, usize)>,
    above_flows: Vec<(usize, usize)>,
}

impl Part {
    /// Lines in `s` above all that the link brings of the class until `s` and of those above until `s + d`.
    fn lines(&self, d: Ratio) -> Result<Vec<Line>, Overflow> {
        if self.above[0].burst.is_zero() && self.above[0].rate.is_zero() {
            return Ok(self.equal.clone());
        }
        let mut lines = Vec::new();
        // What overtakes in a window of `d` alone.
        let mut within = None;
        for line in &self.above {
            let value = line.shifted(d)?.burst;
            within = Some(within.map_or(value, |least: Ratio| least.min(value)));
        }
        let within = within.unwrap_or(Ratio::ZERO);
        // The first is that of the contracts.
        for equal in &self.equal {
            for above in &self.above {
                lines.push(equal.plus(above.shifted(d)?)?);
            }
        }
        for line in &self.both {
            // Both until s and the urgent ones on to s + d; or both until s + d.
            lines.push(Line::new(line.burst.plus(within)?, line.rate)?);
            lines.push(line.shifted(d)?);
        }
        Ok(lines)
    }
}
