//! One port: its delays by class, its backlog, and the bounds of its departures.

use super::Analysis;
use super::lane::{self, Lane};
use crate::bound::arrivals::{Bundle, Class, Departures, Input, Part, together};
use crate::bound::credit::Credit;
use crate::bound::excess::Arrivals;
use crate::bound::fixed::{self, Data, Line, Rate, Time, plus, product, quotient_up};
use crate::bound::graph::{ClassBound, ClassShaper, PortBound};
use crate::bound::mutation::{Term, keeps};
use rtwire_describe::ratio::Overflow;

/// The largest difference between two delays that count as equal, picoseconds.
const NEAR: Time = 50;

/// The result of a visit.
pub(super) struct Port {
    pub(super) bound: PortBound,
    pub(super) delays: Vec<Option<Time>>,
    shaped: Vec<Option<Shaped>>,
}

/// A class with a credit at one port.
pub(in crate::bound) struct Shaped {
    pub(in crate::bound) credit: Credit,
    /// The largest delay of its frames.
    delay: Option<Time>,
    /// The lines that bound what the class sends from an instant on at which its credit is at most zero. The first has
    /// the least rate.
    pub(in crate::bound) lines: Vec<Line>,
}

impl Analysis<'_> {
    pub(super) fn port(&mut self, server: usize, inputs: &[Input]) -> Result<Port, Overflow> {
        let classes = usize::from(self.graph.servers[server].classes);
        let mut largest = vec![0; classes];
        let mut used = vec![false; classes];
        for input in inputs {
            for (at, class) in input.classes.iter().enumerate() {
                largest[at] = class.largest.max(largest[at]);
                used[at] |= class.used;
            }
        }
        let low: Vec<Data> = (0..classes)
            .map(|class| self.below(server, class, inputs))
            .collect();
        let shaped = self.shaped(server, inputs, &largest, &low)?;
        let mut delays = Vec::with_capacity(classes);
        let mut bounds = Vec::with_capacity(classes);
        for class in 0..classes {
            let blocking = if keeps(Term::Blocking) { low[class] } else { 0 };
            let here = &self.servers[server];
            let (delay, in_the_way) = match (used[class], &shaped[class]) {
                (false, _) => (Some(here.latency), low[class]),
                (true, Some(one)) => (one.delay, product(here.rate, one.credit.wait)),
                (true, None) => {
                    let delay = self.delay(server, class, blocking, inputs, &shaped, None)?;
                    (delay, low[class])
                }
            };
            delays.push(delay);
            bounds.push(ClassBound {
                delay: delay.map(fixed::seconds),
                blocking: fixed::bits(in_the_way)?,
            });
        }
        // Memory is taken from a frame's arrival on, before any latency.
        let backlog = if self.has_variation(server) {
            let arrived = self.inputs(server, false)?;
            self.backlog(server, &arrived, &delays)?
        } else {
            self.backlog(server, inputs, &delays)?
        };
        let bound = PortBound {
            classes: bounds,
            backlog: backlog.map(fixed::bits).transpose()?,
        };
        Ok(Port {
            bound,
            delays,
            shaped,
        })
    }

    /// Returns the largest frame of a lower class at a port.
    fn below(&self, server: usize, class: usize, inputs: &[Input]) -> Data {
        let here = &self.servers[server];
        let classes = inputs
            .iter()
            .flat_map(|input| input.classes[..class].iter().enumerate());
        let largest = classes.map(|(lower, one)| match here.preemption {
            // Classes are numbers below 8.
            Some(preemption) => preemption.in_the_way(class as u8, lower as u8, one.largest),
            None => one.largest,
        });
        largest.fold(here.foreign, Data::max)
    }

    /// Returns the largest delay of a class at a port, with the arrivals as they are known now. Of a class with a credit
    /// it is that of frames of at least `smallest`. If there is a `lane`, it is that of frames that come there.
    pub(in crate::bound) fn delay_of(
        &mut self,
        server: usize,
        class: u8,
        smallest: Data,
        lane: Option<&Lane>,
    ) -> Result<Option<Time>, Overflow> {
        let inputs = self.inputs(server, true)?;
        let class = usize::from(class);
        let low = self.below(server, class, &inputs);
        let shaped = self.shaped_now(server, &inputs)?;
        match shaped.get(class) {
            Some(Some(one)) => {
                self.credit_delay(server, class, &one.credit, smallest, &inputs, lane)
            }
            _ => self.delay(server, class, low, &inputs, &shaped, lane),
        }
    }

    /// Returns the classes with a credit of a port, with the arrivals as they are known now; nothing if it has none.
    pub(in crate::bound) fn shaped_of(
        &mut self,
        server: usize,
    ) -> Result<Vec<Option<Shaped>>, Overflow> {
        if self.servers[server].slopes == [None; 8] {
            return Ok(Vec::new());
        }
        let inputs = self.inputs(server, true)?;
        self.shaped_now(server, &inputs)
    }

    /// Returns the classes with a credit of a port.
    fn shaped_now(
        &mut self,
        server: usize,
        inputs: &[Input],
    ) -> Result<Vec<Option<Shaped>>, Overflow> {
        let classes = usize::from(self.graph.servers[server].classes);
        let of = |class: usize| inputs.iter().map(move |input| input.classes[class].largest);
        let largest: Vec<Data> = (0..classes)
            .map(|class| of(class).max().unwrap_or(0))
            .collect();
        let low: Vec<Data> = (0..classes)
            .map(|class| self.below(server, class, inputs))
            .collect();
        self.shaped(server, inputs, &largest, &low)
    }

    /// Returns the classes with a credit of a port, with their delays. `largest` and `low` are the largest frames of each
    /// class and of those below it.
    fn shaped(
        &mut self,
        server: usize,
        inputs: &[Input],
        largest: &[Data],
        low: &[Data],
    ) -> Result<Vec<Option<Shaped>>, Overflow> {
        let rate = self.servers[server].rate;
        let mut list: Vec<Option<Shaped>> = Vec::new();
        list.resize_with(largest.len(), || None);
        let (mut above, mut slopes): (Vec<Vec<Line>>, Rate) = (Vec::new(), 0);
        for class in (0..largest.len()).rev() {
            let slope = self.servers[server].slopes.get(class).copied().flatten();
            let Some(slope) = slope else {
                continue;
            };
            slopes = plus(slopes, slope)?;
            if slopes > rate {
                return Err(Overflow);
            }
            let credit = Credit::new(rate, slope, &above, largest[class], low[class])?;
            let smallest = self.smallest(server, class);
            let delay = self.credit_delay(server, class, &credit, smallest, inputs, None)?;
            let mut lines = vec![credit.uses];
            if delay.is_some() {
                // Its contracts bound it as well, since their rates are below the idle slope.
                let mut contracts = Line::default();
                for input in inputs {
                    contracts = contracts.plus(input.classes[class].contracts)?;
                }
                if !keeps(Term::CreditUsed) {
                    contracts.burst = 0;
                }
                lines.insert(0, contracts);
            }
            above.push(lines.clone());
            list[class] = Some(Shaped {
                credit,
                delay,
                lines,
            });
        }
        Ok(list)
    }

    /// Returns the smallest frame of a class at a port.
    fn smallest(&self, server: usize, class: usize) -> Data {
        let passing = self.passing[server].iter();
        let here = passing.filter(|passing| usize::from(self.class_of(**passing)) == class);
        let frames = here.map(|(flow, hop)| self.smallest_at(*flow as usize, *hop as usize));
        frames.min().unwrap_or(0)
    }

    /// Returns the largest delay of frames of at least `smallest` in a class with a credit.
    ///
    /// The class is served I (t - wait), whatever is above it, until the frame begins. The frame itself takes its time
    /// on the link.
    fn credit_delay(
        &mut self,
        server: usize,
        class: usize,
        credit: &Credit,
        smallest: Data,
        inputs: &[Input],
        lane: Option<&Lane>,
    ) -> Result<Option<Time>, Overflow> {
        let mut groups = Vec::new();
        for input in inputs.iter().filter(|input| input.classes[class].used) {
            let own = &input.classes[class];
            if own.unbounded {
                return Ok(None);
            }
            if let Some(lane) = lane::of(lane, input.from) {
                groups.push(lane.arrivals());
                continue;
            }
            let mut bundle = Bundle::default();
            bundle.add(own)?;
            groups.push(Arrivals {
                lines: bundle.lines(self.link(input), input.shift)?,
                rest: own.rest,
                stairs: own.stairs.clone(),
                last: None,
            });
        }
        let Some(excess) = self.walk.excess(&groups, credit.idle_slope)? else {
            return Ok(None);
        };
        let latency = self.latency(server);
        let waits = plus(credit.wait, latency)?;
        let ahead = (excess - smallest).max(0);
        let own = if keeps(Term::CreditOwn) {
            quotient_up(smallest, self.servers[server].rate)?
        } else {
            0
        };
        let begins = plus(quotient_up(ahead, credit.idle_slope)?, own)?;
        plus(begins, waits).map(Some)
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

    /// Returns the largest delay of a class: the least `d` for which every frame has left in time. For every `s`, a
    /// frame that came `s` after the queue was last empty has left at `s + d`, with all that must leave before it.
    fn delay(
        &mut self,
        server: usize,
        class: usize,
        blocking: Data,
        inputs: &[Input],
        shaped: &[Option<Shaped>],
        lane: Option<&Lane>,
    ) -> Result<Option<Time>, Overflow> {
        let rate = self.servers[server].rate;
        let mut parts: Vec<Part<'_>> = Vec::new();
        let (mut own, mut urgent) = (Line::default(), Line::default());
        for input in inputs {
            let (mut equal, mut above, mut both) =
                (Bundle::default(), Bundle::default(), Bundle::default());
            let mut part = Part::default();
            for (at, one) in input.classes.iter().enumerate().skip(class) {
                // Classes with a credit count by what they send: less than what comes.
                if !one.used || (at > class && shaped[at].is_some()) {
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
            let lane = lane::of(lane, input.from);
            part.last = lane.map(|lane| &lane.last);
            part.equal = match lane {
                Some(lane) => lane.lines.clone(),
                None => equal.lines(link, input.shift)?,
            };
            if !part.urgent.is_empty() {
                part.above = above.lines(link, input.shift)?;
                part.both = both.lines(link, input.shift)?;
            }
            own = own.plus(part.equal[0])?;
            urgent = urgent.plus(above.contracts)?;
            parts.push(part);
        }
        let preemption = self.servers[server].preemption;
        if preemption.is_some_and(|preemption| preemption.interrupts(class as u8)) {
            for input in inputs {
                let lines = self.interruptions(server, input, self.link(input))?;
                let Some(contracts) = lines.first() else {
                    continue;
                };
                urgent = urgent.plus(*contracts)?;
                parts.push(Part {
                    equal: vec![Line::default()],
                    above: lines,
                    urgent: vec![&input.interruptions],
                    ..Part::default()
                });
            }
        }
        for one in shaped.iter().skip(class + 1).flatten() {
            urgent = urgent.plus(one.lines[0])?;
            parts.push(Part {
                equal: vec![Line::default()],
                above: one.lines.clone(),
                both: one.lines.clone(),
                ..Part::default()
            });
        }
        if plus(own.rate, urgent.rate)? >= rate {
            return Ok(None);
        }
        // A latency before the queue comes on top of the wait in the queue, in which frames of other classes overtake.
        // Of one behind the queue it is not known when it happens, so they may overtake during it, too.
        let latency = self.latency(server);
        let (before, during) = if self.graph.servers[server].catches_up {
            (0, latency)
        } else {
            (latency, 0)
        };
        let fixed_time = plus(quotient_up(blocking, rate)?, during)?;
        let total = |queued: Time| plus(queued, before).map(Some);
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
            return total(d);
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
                return total(needed);
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
        total(enough)
    }

    /// Returns the largest backlog of a port.
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
            group.lines = bundle.lines(self.link(input), input.shift)?;
            groups.push(group);
            groups.extend(self.interruptions_held(server, input, self.link(input))?);
        }
        let latency = if keeps(Term::MemoryLatency) {
            here.latency
        } else {
            0
        };
        let fixed = product(here.rate_up, latency)
            .checked_add(here.foreign)
            .and_then(|fixed| fixed.checked_add(self.largest_cut(server)))
            .ok_or(Overflow)?;
        let rate = here.rate;
        match self.walk.excess(&groups, rate)? {
            Some(bits) => Ok(Some(bits.checked_add(fixed).ok_or(Overflow)?)),
            None => Ok(None),
        }
    }

    /// Returns the backlog of a port that may rest while frames wait. Its frames have come within the time that they
    /// may stay.
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
                let lines = bundle.lines(self.link(input), input.shift)?;
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
            let (Some(delay), Some(added_jitter)) = (
                delays.get(class).copied().flatten(),
                self.added_jitter[own.first + hop_number as usize],
            ) else {
                return Ok(None);
            };
            // It leaves within `delay` of when it would have come had it not been late.
            let most = own.line.shifted(added_jitter.line).at(delay);
            total = total.checked_add(most).ok_or(Overflow)?;
        }
        Ok(Some(total))
    }

    /// True if the flows of this part of the local input came through regulators. All of a class do, or none.
    fn is_regulated(&self, server: usize, class: &Class, input: &Input) -> bool {
        let at = input
            .classes
            .iter()
            .position(|one| core::ptr::eq(one, class));
        at.and_then(|at| self.graph.servers[server].shapers.get(at))
            == Some(&ClassShaper::Regulated)
    }

    /// Passes on the bounds of this port's departures to the ports behind.
    pub(super) fn depart(
        &mut self,
        server: usize,
        inputs: &[Input],
        port: &Port,
    ) -> Result<(), Overflow> {
        let here = &self.graph.servers[server];
        let numbers = &self.servers[server];
        let classes = usize::from(here.classes);
        let mut all = vec![None; classes];
        let has_credit = port.shaped.iter().any(Option::is_some);
        let metered = numbers.metered && keeps(Term::MeterAggregate);
        if self.method.aggregates && !has_credit && !metered {
            let mut arrived = Some(Line::default());
            let (mut largest, mut smallest) = (0, Data::MAX);
            let mut least_of = vec![Data::MAX; classes];
            for &(flow, hop) in &self.passing[server] {
                let class = usize::from(self.class_of((flow, hop)));
                if let Some(least) = least_of.get_mut(class) {
                    *least = (*least).min(self.smallest_at(flow as usize, hop as usize));
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
                let low = self.below(server, class, inputs);
                // A frame that is interrupted leaves later than those behind it came: nothing holds such classes together.
                let is_whole = numbers
                    .preemption
                    .is_none_or(|preemption| !preemption.interrupts(class as u8));
                if let Some(arrived) = arrived.filter(|_| largest > 0 && is_whole) {
                    // A latency before the queue is in the arrivals already, as far as it varies.
                    let (latency, least) = if here.catches_up {
                        (numbers.latency, 0)
                    } else {
                        (0, smallest.min(largest))
                    };
                    all[class] = together(arrived, numbers.rate, latency, low, largest, least)?;
                }
            }
        }
        let credit = port.shaped.iter().map(|one| {
            let one = one.as_ref()?;
            // Held frames follow each other faster.
            (!here.catches_up).then_some(one.credit.sends)
        });
        let credit = credit.collect();
        let departures = &mut self.departures[server];
        departures.together = all;
        departures.credit = credit;
        Ok(())
    }
}
