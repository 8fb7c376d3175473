//! Arrivals at a port over each input link: lines and stairs that bound them. (Tests only: the reference in exact
//! fractions.)

use super::curve::{Line, Stair, TIME_GRID};
use super::tfa::{Analysis, Input, Passing};
use rtwire_describe::ratio::{Overflow, Ratio};

impl Analysis<'_> {
    /// Returns the time by which the latency before a server's queue differs between frames.
    pub(super) fn variation(&self, server: usize) -> Result<Ratio, Overflow> {
        let here = &self.graph.servers[server];
        if here.catches_up {
            return Ok(Ratio::ZERO);
        }
        here.latency.minus(here.latency_min)
    }

    pub(super) fn class(&self, (flow, hop): (usize, usize)) -> u8 {
        self.graph.flows[flow].hops[hop].class
    }

    /// Returns the contract of a flow at a hop. `None` if a port before has no bound.
    pub(super) fn contract(
        &self,
        (flow, hop): (usize, usize),
        shift: Ratio,
    ) -> Result<Option<Line>, Overflow> {
        let source = &self.graph.flows[flow];
        match self.jitter[flow][hop] {
            Some(jitter) => Line::new(source.burst, source.rate)?
                .shifted(jitter.plus(shift)?)
                .map(Some),
            None => Ok(None),
        }
    }

    pub(super) fn contracts(
        &self,
        flows: &[Passing],
        shift: Ratio,
    ) -> Result<Option<Line>, Overflow> {
        let mut total = Line {
            burst: Ratio::ZERO,
            rate: Ratio::ZERO,
        };
        for flow in flows {
            match self.contract(*flow, shift)? {
                Some(line) => total = total.plus(line)?,
                None => return Ok(None),
            }
        }
        Ok(Some(total))
    }

    /// Returns the periodic flows as stairs, and the others as one line, all with `ahead` seconds more jitter.
    pub(super) fn stairs(
        &self,
        flows: &[Passing],
        ahead: Ratio,
    ) -> Result<(Line, Vec<Stair>), Overflow> {
        let mut rest = Line {
            burst: Ratio::ZERO,
            rate: Ratio::ZERO,
        };
        let mut stairs = Vec::new();
        for &(flow, hop) in flows {
            let source = &self.graph.flows[flow];
            match (
                source.period.filter(|_| self.method.staircase),
                self.jitter[flow][hop],
            ) {
                (Some(period), Some(jitter)) => {
                    let jitter = source
                        .jitter
                        .plus(jitter)?
                        .plus(ahead)?
                        .tidied_up(TIME_GRID)?;
                    stairs.push(Stair {
                        frame: source.frame_max,
                        period,
                        jitter,
                    });
                }
                _ => {
                    if let Some(line) = self.contract((flow, hop), ahead)? {
                        rest = rest.plus(line)?;
                    }
                }
            }
        }
        Ok((rest, stairs))
    }

    /// Returns the largest frame of a lower class at a server.
    pub(super) fn blocking(&self, server: usize, class: u8) -> Ratio {
        self.passing[server]
            .iter()
            .filter(|passing| self.class(**passing) < class)
            .map(|(flow, _)| self.graph.flows[*flow].frame_max)
            .fold(self.graph.servers[server].foreign_frame, Ratio::max)
    }

    /// Returns every line that bounds flows which share an input link. `None` if they have none.
    pub(super) fn lines(
        &self,
        from: Option<usize>,
        flows: &[Passing],
        shift: Ratio,
    ) -> Result<Option<Vec<Line>>, Overflow> {
        let Some(total) = self.contracts(flows, shift)? else {
            return Ok(None);
        };
        let mut lines = vec![total];
        // Flows that enter here come over no link: nothing but their contracts holds them back.
        let Some(before) = from.filter(|_| !flows.is_empty()) else {
            return Ok(Some(lines));
        };
        let link = &self.graph.servers[before];
        if self.method.line_shaping {
            let frames = flows
                .iter()
                .map(|(flow, _)| self.graph.flows[*flow].frame_max);
            let frame = frames.fold(Ratio::ZERO, Ratio::max);
            let ahead = if link.catches_up {
                link.rate.times(link.latency)?
            } else {
                Ratio::ZERO
            };
            lines.push(Line::new(frame.plus(ahead)?, link.rate)?.shifted(shift)?);
        }
        if self.method.aggregates {
            let least = flows.iter().filter_map(|(flow, hop)| {
                let hops = &self.graph.flows[*flow].hops;
                hops[*hop].before.map(|at| hops[at].class)
            });
            if let Some(line) = self.leaving(before, least.min().unwrap_or(0))? {
                lines.push(line.shifted(shift)?);
            }
        }
        Ok(Some(lines))
    }

    /// Returns a line that bounds all flows of a class and above together when they leave a server.
    pub(super) fn leaving(&self, server: usize, class: u8) -> Result<Option<Line>, Overflow> {
        let link = &self.graph.servers[server];
        let flows: Vec<_> = self.passing[server]
            .iter()
            .copied()
            .filter(|passing| self.class(*passing) >= class)
            .collect();
        let late = if link.catches_up {
            link.latency
        } else {
            self.variation(server)?
        };
        let Some(total) = self.contracts(&flows, Ratio::ZERO)? else {
            return Ok(None);
        };
        if total.rate > link.rate {
            return Ok(None);
        }
        let largest = flows
            .iter()
            .map(|(flow, _)| self.graph.flows[*flow].frame_max)
            .fold(Ratio::ZERO, Ratio::max);
        let smallest = if link.catches_up {
            Ratio::ZERO
        } else {
            flows
                .iter()
                .map(|(flow, _)| self.graph.flows[*flow].frame_min)
                .fold(largest, Ratio::min)
        };
        let bits = self
            .blocking(server, class)
            .plus(largest)?
            .minus(smallest)?;
        total.shifted(late.plus(bits.over(link.rate)?)?).map(Some)
    }

    /// Returns the flows of a server by their input link.
    pub(super) fn inputs(&self, server: usize) -> Vec<Input> {
        let mut inputs: Vec<Input> = Vec::new();
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
}

/// The lines of one input link: of the class itself, of those above it, and of both together.
pub(super) struct Part {
    pub(super) equal: Vec<Line>,
    pub(super) above: Vec<Line>,
    pub(super) both: Vec<Line>,
    pub(super) equal_flows: Vec<Passing>,
    pub(super) above_flows: Vec<Passing>,
}

impl Part {
    /// Returns lines in `s` that bound the arrivals of the class until `s` and of those above until `s + d`.
    pub(super) fn lines(&self, d: Ratio) -> Result<Vec<Line>, Overflow> {
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
