//! Replays recorded traffic through the described network: the exact delay of each frame that really was sent.
//!
//! ```text
//! departures (flow, number, time) --> Replay --> for each listener and frame: delay, or dropped
//!                                       ^
//!          Network and its Plan --------/   rates, latencies, priorities, gates, credits, regulators, buffers
//! ```
//!
//! Sources are replaced by the record; nothing else differs from a simulation. No bound is computed and no contract is
//! kept: a talker that sent too much is replayed as it sent.
//!
//! # Time
//! A record has ns of CLOCK_TAI; the simulation counts ps from the first departure. Each gate list is shifted by that
//! origin modulo its own cycle. So gates are at the same place of their cycles as in the run, and nothing is rounded.
//! All clocks are exact. Credits are zero and regulators are full at the first departure.
//!
//! # Order
//! The order of the input does not matter. Frames that depart at the same time enter in order of flow, then of number.
//! At one time all frames arrive before a port chooses.
//!
//! # Latency
//! A description permits a latency from a least to a largest one. If they differ at any port, the record is played three
//! times, with all ports as [`Lateness::Prompt`], [`Lateness::BusyStart`] and [`Lateness::Pipeline`]. The result has the
//! least and the largest delay of the three. It is not the largest of all mixtures: that is what the plan bounds. With
//! constant latencies one play is exact.
//!
//! # Cost
//! A million departures in a network of 16 switches take about 0.6 s for each play, on one core in release. Besides the
//! record itself, memory is 28 bytes for each departure, and 64 bytes for each departure and listener. What waits in the
//! network comes on top.

mod port;
pub(crate) mod tape;
mod types;

pub use port::{Entry, Exit, port};
pub use types::{Departure, Fate, FrameReplay, ListenerReplay, PortReplay, Replayed};

use std::collections::HashMap;

use rtwire_plan::{BestEffort, Network, Plan};

use crate::error::SimulationError;
use crate::gates::{rebased, settled_ns};
use crate::model::{Binding, Model};
use crate::scenario::Lateness;
use crate::simulator::Simulator;
use tape::{Slot, Tape};

/// Largest size of a recorded frame on the wire, bytes. No Ethernet frame is larger.
const LARGEST_BYTES: u32 = 1 << 16;
/// Longest time between the first and the last departure, ns: 13 days.
const LONGEST_NS: u64 = (1 << 60) / 1000;
/// The latest simulated time, ps. Sums of times still fit into 64 bits.
const LAST_PS: u64 = 1 << 62;

/// A described network, ready to replay records.
#[derive(Clone, Debug)]
pub struct Replay {
    model: Model,
    plays: &'static [Lateness],
    settled_ns: u64,
}

impl Replay {
    /// Prepares a network with the gates of its plan. Neither should contain the latency of an emulation.
    ///
    /// # Errors
    /// [`SimulationError`] if a number is out of range, the network is not consistent, or the plan is of another one.
    pub fn new(network: &Network, plan: &Plan) -> Result<Replay, SimulationError> {
        let planned = plan.streams.iter().map(|stream| &stream.name);
        if !planned.eq(network.streams.iter().map(|stream| &stream.name)) {
            return Err(SimulationError::Inconsistent {
                what: "the plan has other streams than the network".to_owned(),
            });
        }
        let (network, allowances) = by_receiver(network);
        let mut model = Model::with_plan(&network, plan)?;
        share_buckets(&mut model, network.streams.len(), &allowances);
        for flow in &mut model.flows {
            // The record takes the place of every source and of its schedule.
            flow.binding = Binding::Rate;
            flow.judged_ps = 0;
        }
        for edge in &mut model.edges {
            edge.window_ps = None;
        }
        let late = model
            .ports
            .iter()
            .any(|port| port.catches_up && port.latency_ps > 0);
        let mut edges = model.edges.iter();
        let late = late
            || edges
                .any(|edge| edge.latency_min_ps < edge.latency_ps || !edge.cut_through.is_off());
        Ok(Replay {
            model,
            plays: if late {
                &[Lateness::Prompt, Lateness::BusyStart, Lateness::Pipeline]
            } else {
                &[Lateness::Prompt]
            },
            settled_ns: settled_ns(&network, plan),
        })
    }

    /// Returns the number of flows: streams, then best effort by receiver.
    #[must_use]
    pub fn flow_count(&self) -> usize {
        self.model.flows.len()
    }

    /// Returns the time after a network's start from which the promises of a schedule hold, ns. It is 0 unless frames
    /// need the frames before them (`isolation = "frames"`).
    #[must_use]
    pub fn settled_ns(&self) -> u64 {
        self.settled_ns
    }

    /// Replays a record until no frame is left that can leave.
    ///
    /// # Errors
    /// [`SimulationError::UnknownFlow`], [`SimulationError::FrameSize`] and [`SimulationError::Repeated`] for a wrong
    /// departure. [`SimulationError::Range`] for a record of more than 13 days or 2^32 frames at listeners, or if
    /// frames need more than 53 days.
    pub fn run(&self, departures: &[Departure]) -> Result<Replayed, SimulationError> {
        let count = u32::try_from(departures.len()).map_err(|_| too_many())?;
        let mut by_time: Vec<u32> = (0..count).collect();
        by_time.sort_unstable_by_key(|at| {
            let it = &departures[*at as usize];
            (it.at_ns, it.flow, it.frame)
        });
        let origin_ns = by_time
            .first()
            .map_or(0, |first| departures[*first as usize].at_ns);
        let entries = self.entries(departures, &by_time, origin_ns)?;
        let mut by_frame: Vec<u32> = (0..count).collect();
        let key = |number: &u32| {
            let it = &departures[by_time[*number as usize] as usize];
            (it.flow, it.frame)
        };
        by_frame.sort_unstable_by_key(key);
        if let Some(pair) = by_frame
            .windows(2)
            .find(|pair| key(&pair[0]) == key(&pair[1]))
        {
            let (flow, frame) = key(&pair[0]);
            return Err(SimulationError::Repeated { flow, frame });
        }
        let (tape, ports) = self.play(entries, origin_ns)?;
        let at = |number: u32| &departures[by_time[number as usize] as usize];
        let listeners = self.results(&tape, &by_frame, at);
        Ok(Replayed { listeners, ports })
    }

    /// Checks departures and returns them in order of time, on the simulation's clock.
    fn entries(
        &self,
        departures: &[Departure],
        by_time: &[u32],
        origin_ns: u64,
    ) -> Result<Vec<tape::Entry>, SimulationError> {
        by_time
            .iter()
            .map(|at| {
                let it = &departures[*at as usize];
                let flow = self.model.flows.get(it.flow);
                let flow = flow.ok_or(SimulationError::UnknownFlow {
                    flow: it.flow,
                    flows: self.model.flows.len(),
                })?;
                let after_ns = it.at_ns - origin_ns;
                if after_ns > LONGEST_NS {
                    return Err(SimulationError::Range {
                        what: "the time between the first and the last departure".to_owned(),
                    });
                }
                Ok(tape::Entry {
                    at_ps: after_ns * 1000,
                    // A network of 2^32 flows does not fit into memory.
                    flow: u32::try_from(it.flow).unwrap_or(u32::MAX),
                    bits: match it.wire_bytes {
                        Some(bytes) => bits_of(bytes)?,
                        None => flow.bits,
                    },
                })
            })
            .collect()
    }

    /// Plays the departures in each way in which ports may use their latency.
    fn play(
        &self,
        entries: Vec<tape::Entry>,
        origin_ns: u64,
    ) -> Result<(Tape, Vec<PortReplay>), SimulationError> {
        let mut model = self.model.clone();
        for gates in model
            .ports
            .iter_mut()
            .filter_map(|port| port.gates.as_mut())
        {
            gates.rebase(origin_ns);
        }
        for cycles in model
            .edges
            .iter_mut()
            .filter_map(|edge| edge.cycles.as_mut())
        {
            cycles.base_ps = rebased(0, origin_ns, cycles.cycle_ps.saturating_mul(2));
        }
        let last_ps = entries.last().map_or(0, |entry| entry.at_ps);
        // Each departure makes some four events. Only the queue's speed depends on it.
        model.gap_ps = (last_ps / (entries.len() as u64 * 4).max(1)).max(1);
        let mut simulator = Simulator::new(&model);
        let mut tape = Tape::new(&model, entries).ok_or_else(too_many)?;
        let name = |port: &crate::model::PortModel| PortReplay {
            node: port.node.clone(),
            port: port.to.clone(),
            ..PortReplay::default()
        };
        let mut ports: Vec<PortReplay> = model.ports.iter().map(name).collect();
        for late in self.plays {
            let left;
            (tape, left) = simulator.replay(tape, *late, LAST_PS);
            if left {
                return Err(SimulationError::Range {
                    what: "the time that the recorded frames need".to_owned(),
                });
            }
            for (index, port) in ports.iter_mut().enumerate() {
                let Some(seen) = simulator.port(index) else {
                    continue;
                };
                port.backlog_bytes = port.backlog_bytes.max(seen.backlog_bits.div_ceil(8));
                port.dropped = port.dropped.max(seen.dropped);
            }
        }
        Ok((tape, ports))
    }

    fn results<'a>(
        &self,
        tape: &Tape,
        by_frame: &[u32],
        departure: impl Fn(u32) -> &'a Departure,
    ) -> Vec<ListenerReplay> {
        let mut listeners = Vec::with_capacity(self.model.listeners.len());
        let mut rest = by_frame;
        for (index, flow) in self.model.flows.iter().enumerate() {
            let own = rest.partition_point(|number| departure(*number).flow == index);
            let (frames, others) = rest.split_at(own);
            rest = others;
            for listener in flow.listeners.0..flow.listeners.1 {
                let way = listener - flow.listeners.0;
                let frames = frames.iter().map(|number| {
                    let it = departure(*number);
                    FrameReplay {
                        frame: it.frame,
                        at_ns: it.at_ns,
                        fate: self.fate(tape.slot(*number, way)),
                    }
                });
                listeners.push(ListenerReplay {
                    flow: index,
                    name: flow.name.clone(),
                    listener: self.model.listeners[listener as usize].name.clone(),
                    frames: frames.collect(),
                });
            }
        }
        listeners
    }

    fn fate(&self, slot: Slot) -> Fate {
        let (least_ns, most_ns) = (slot.least_ps.div_ceil(1000), slot.most_ps.div_ceil(1000));
        match usize::from(slot.arrivals) {
            0 if slot.dropped => Fate::Dropped,
            0 => Fate::Stuck,
            plays if plays == self.plays.len() => Fate::Arrives { least_ns, most_ns },
            _ => Fate::MayArrive { least_ns, most_ns },
        }
    }
}

fn too_many() -> SimulationError {
    SimulationError::Range {
        what: "the number of recorded frames".to_owned(),
    }
}

/// Returns a recorded size on the wire in bits.
fn bits_of(bytes: u32) -> Result<u32, SimulationError> {
    if bytes == 0 || bytes > LARGEST_BYTES {
        return Err(SimulationError::FrameSize {
            bytes: u64::from(bytes),
            most: u64::from(LARGEST_BYTES),
        });
    }
    Ok(bytes * 8)
}

/// Returns the network with an allowance for each receiver, and the number of the original allowance of each.
///
/// A best-effort frame goes to one receiver. In a simulation, an allowance sends each frame to all of them.
fn by_receiver(network: &Network) -> (Network, Vec<usize>) {
    let mut split = network.clone();
    split.best_effort.clear();
    let mut origins = Vec::new();
    for (index, allowance) in network.best_effort.iter().enumerate() {
        for (to, route) in allowance.to.iter().zip(&allowance.routes) {
            split.best_effort.push(BestEffort {
                to: vec![to.clone()],
                routes: vec![route.clone()],
                ..allowance.clone()
            });
            origins.push(index);
        }
    }
    (split, origins)
}

/// Lets the receivers of one allowance share its token bucket at each port: the regulator knows only one stream.
fn share_buckets(model: &mut Model, streams: usize, allowances: &[usize]) {
    let mut first = HashMap::new();
    for at in 0..model.edges.len() {
        let edge = &mut model.edges[at];
        let Some(position) = (edge.flow as usize).checked_sub(streams) else {
            continue;
        };
        let key = (allowances.get(position).copied(), edge.port);
        edge.bucket = *first.entry(key).or_insert(edge.bucket);
    }
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
