//! (Tests only: the reference in exact fractions.) What arrives at a port over each input link: lines and stairs that it stays below.

use super::curve::{Line, Stair, TIME_GRID};
use super::tfa::{Analysis, Input, Passing};
use rtwire_describe::ratio::{Overflow, Ratio};

impl Analysis<'_> {
    pub(super) fn class(&self, (flow, hop): (usize, usize)) -> u8 {
        self.graph.flows[flow].hops[hop].class
    }

    /// The contract of a flow as it is at a hop; `None` where something before has no bound.
    pub(super) fn contract(&self, (flow, hop): (usize, usize)) -> Result<Option<Line>, Overflow> {
        let source = &self.graph.flows[flow];
        match self.jitter[flow][hop] {
            Some(jitter) => Line::new(source.burst, source.rate)?
                .shifted(jitter)
                .map(Some),
            None => Ok(None),
        }
    }

    pub(super) fn contracts(&self, flows: &[Passing]) -> Result<Option<Line>, Overflow> {
        let mut total = Line {
            burst: Ratio::ZERO,
            rate: Ratio::ZERO,
        };
        for flow in flows {
            match self.contract(*flow)? {
                Some(line) => total = total.plus(line)?,
                None => return Ok(None),
            }
        }
        Ok(Some(total))
    }

    /// The periodic ones of some flows as stairs, the others as one line; both with `ahead` seconds of jitter.
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
                    if let Some(line) = self.contract((flow, hop))? {
                        rest = rest.plus(line.shifted(ahead)?)?;
                    }
                }
            }
        }
        Ok((rest, stairs))
    }

    /// Largest frame of a lower class at a server.
    pub(super) fn blocking(&self, server: usize, class: u8) -> Ratio {
        self.passing[server]
            .iter()
            .filter(|passing| self.class(**passing) < class)
            .map(|(flow, _)| self.graph.flows[*flow].frame_max)
            .fold(self.graph.servers[server].foreign_frame, Ratio::max)
    }

    /// Every line that flows which share an input link stay below; `None` where they have none.
    pub(super) fn lines(
        &self,
        from: Option<usize>,
        flows: &[Passing],
    ) -> Result<Option<Vec<Line>>, Overflow> {
        let Some(total) = self.contracts(flows)? else {
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
    pub(super) fn leaving(&self, server: usize, class: u8) -> Result<Option<Line>, Overflow> {
        let link = &self.graph.servers[server];
        let flows: Vec<_> = self.passing[server]
            .iter()
            .copied()
            .filter(|passing| self.class(*passing) >= class)
            .collect();
        let Some(total) = self.contracts(&flows)? else {
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
        total
            .shifted(link.latency.plus(bits.over(link.rate)?)?)
            .map(Some)
    }

    /// The flows of a server by the link that they come over.
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

/// The lines of one input link: of the class itself, of those above it, of both together.
pub(super) struct Part {
    pub(super) equal: Vec<Line>,
    pub(super) above: Vec<Line>,
    pub(super) both: Vec<Line>,
    pub(super) equal_flows: Vec<Passing>,
    pub(super) above_flows: Vec<Passing>,
}

impl Part {
    /// Lines in `s` above all that the link brings of the class until `s` and of those above until `s + d`.
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
