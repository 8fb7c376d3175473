//! The latency of a frame before the queue, by the input over which it comes.

use super::Analysis;
use crate::bound::fixed::{self, Data, Time, plus, quotient_up, time_down, time_up};
use crate::bound::graph::Server;
use crate::bound::mutation::{Term, keeps};
use rtwire_describe::ratio::Overflow;

/// The way of one input's frames into the queue of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::bound) struct Entry {
    /// The time by which their latency differs between frames.
    pub(in crate::bound) varies: Time,
    /// Their least latency.
    pub(in crate::bound) least: Time,
    /// The part of a frame after which it may enter the queue; more than any frame if all of it must have come.
    pub(in crate::bound) header: Data,
    /// The time by which their largest latency is less than that of another input: their delay is less by it.
    pub(in crate::bound) sooner: Time,
}

/// Returns the time by which the latency before a server's queue differs between frames.
pub(super) fn variation(server: &Server) -> Result<Time, Overflow> {
    if server.catches_up {
        return Ok(0);
    }
    Ok(time_up(server.latency.minus(server.latency_min)?)?.max(0))
}

/// Returns the entry of each input whose latency is stated.
pub(super) fn entries(server: &Server) -> Result<Vec<(usize, Entry)>, Overflow> {
    let inputs = server.inputs.iter().filter(|_| !server.catches_up);
    inputs
        .map(|input| {
            let varies = time_up(input.latency.minus(input.latency_min)?)?.max(0);
            let entry = Entry {
                varies,
                least: time_down(input.latency_min)?,
                header: match input.header {
                    Some(header) if keeps(Term::CutThrough) => fixed::data_down(header)?,
                    _ => Data::MAX,
                },
                sooner: time_down(server.latency.minus(input.latency)?)?.max(0),
            };
            Ok((input.from, entry))
        })
        .collect()
}

impl Analysis<'_> {
    /// Adds the time by which the largest frame of an input may enter the queue before its end has come.
    pub(super) fn cut_through(&mut self) -> Result<(), Overflow> {
        for (server, passing) in self.passing.iter().enumerate() {
            let rate = self.servers[server].rate;
            let mut variation = None;
            for (from, entry) in &mut self.servers[server].entries {
                let here = passing.iter().filter(|(flow, hop)| {
                    let hops = &self.graph.flows[*flow as usize].hops;
                    let before = hops[*hop as usize].before;
                    before.is_some_and(|before| hops[before].server == *from)
                });
                let frames = here.map(|(flow, _)| self.flows[*flow as usize].largest);
                let largest = frames.max().unwrap_or(0);
                if largest > entry.header {
                    let early = quotient_up(largest - entry.header, rate)?;
                    entry.varies = plus(entry.varies, early)?;
                }
                variation = variation.max(Some(entry.varies));
            }
            if let Some(variation) = variation {
                self.servers[server].variation = variation;
            }
        }
        Ok(())
    }

    /// Returns the largest frame that may be in a server's queue before its end has come.
    pub(super) fn largest_cut(&self, server: usize) -> Data {
        let cut = self.passing[server].iter().filter(|(flow, hop)| {
            let largest = self.flows[*flow as usize].largest;
            largest > self.entry(*flow as usize, *hop as usize).header
        });
        let frames = cut.map(|(flow, _)| self.flows[*flow as usize].largest);
        frames.max().unwrap_or(0)
    }

    /// Returns how the frames of a flow come into the queue of one of its hops.
    pub(in crate::bound) fn entry(&self, flow: usize, hop: usize) -> Entry {
        let hops = &self.graph.flows[flow].hops;
        let numbers = &self.servers[hops[hop].server];
        let from = hops[hop].before.map(|before| hops[before].server);
        let stated = numbers.entries.iter().find(|(one, _)| Some(*one) == from);
        let entry = stated.map_or(
            Entry {
                varies: numbers.variation,
                least: numbers.latency_min,
                header: Data::MAX,
                sooner: 0,
            },
            |(_, entry)| *entry,
        );
        Entry {
            varies: if keeps(Term::LatencyVariation) {
                entry.varies
            } else {
                0
            },
            ..entry
        }
    }

    /// True if the latency before a server's queue differs between frames of one input.
    pub(in crate::bound) fn has_variation(&self, server: usize) -> bool {
        keeps(Term::LatencyVariation) && self.servers[server].variation > 0
    }
}
