//! Builds the ports with their budgets from a network.

use std::collections::HashMap;
use std::sync::Arc;

use crate::network::{Network, Release};

use super::check::{Known, Label, Port, PortClass, Sum, room_bits};
use super::types::{AdmissionError, Budgets, LEAST_BITS, NONE, Offer, Pool, RATE_BITS, TIME_BITS};
use super::{Admission, Denied, Ticket};

const NS: u128 = 1_000_000_000;
/// The longest budget and latency, nanoseconds. Longer ones are refused.
const LONGEST_NS: u64 = 1_000_000_000_000;
/// The smallest frame of a best-effort allowance: header and payload without FCS, bytes.
const SMALLEST_FRAME_BYTES: u64 = 60;

fn time_up(ns: u64) -> u64 {
    // At most 1000 s: 50 bits.
    u64::try_from((u128::from(ns) << TIME_BITS).div_ceil(NS)).unwrap_or(u64::MAX)
}

fn time_down(ns: u64) -> u64 {
    u64::try_from((u128::from(ns) << TIME_BITS) / NS).unwrap_or(u64::MAX)
}

struct PortNames<'a> {
    from: &'a str,
    to: &'a str,
    rate_bps: u64,
    cable_ns: u64,
}

impl Admission {
    /// Returns the ports of a network with their budgets, and its best-effort allowances, without streams.
    ///
    /// # Errors
    /// [`AdmissionError`] in three cases:
    ///
    /// - a number is out of range,
    /// - a budget is below the time that the port needs for one frame alone,
    /// - an allowance does not fit.
    pub fn new(network: &Network, budgets: &Budgets) -> Result<Admission, AdmissionError> {
        let mut admission = empty(budgets)?;
        let ppb = network.defaults.clock_drift_ppb.min(100_000_000);
        admission.drift = (ppb << 32).div_ceil(1_000_000_000);
        let mut names = Vec::new();
        for link in &network.links {
            let [a, b] = &link.ends;
            for (from, to) in [(a, b), (b, a)] {
                let number = u32::try_from(names.len()).map_err(|_| AdmissionError::Range {
                    what: "the number of links".to_owned(),
                })?;
                let of_node = admission.numbers.entry(from.clone()).or_default();
                of_node.insert(to.clone(), number);
                names.push(PortNames {
                    from,
                    to,
                    rate_bps: link.rate_bps,
                    cable_ns: link.cable_delay_ns,
                });
            }
        }
        admission.add_pools(network)?;
        // The links into each node, in the order of the file: the inputs of its ports.
        let mut into: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut slots_behind = Vec::new();
        for (number, name) in names.iter().enumerate() {
            let list = into.entry(name.to).or_default();
            slots_behind.push(list.len());
            list.push(number);
        }
        let lines = names
            .iter()
            .map(|name| line(network, name, admission.largest_frame_bits))
            .collect::<Result<Vec<Sum>, AdmissionError>>()?;
        let inputs: HashMap<&str, Arc<[Sum]>> = into
            .iter()
            .map(|(node, list)| (*node, list.iter().map(|number| lines[*number]).collect()))
            .collect();
        for (number, name) in names.iter().enumerate() {
            let inputs = inputs.get(name.from).cloned().unwrap_or_default();
            let behind = u32::try_from(slots_behind[number]).unwrap_or(u32::MAX);
            admission.add_port(network, budgets, name, inputs, behind)?;
        }
        for allowance in &network.best_effort {
            let overhead = allowance.wire_bytes.saturating_sub(allowance.frame_bytes);
            let smallest = SMALLEST_FRAME_BYTES.min(allowance.frame_bytes);
            let offer =
                Offer::from_parts(allowance.rate, allowance.burst, allowance.wire_bytes, 0)?
                    .with_smallest(smallest.saturating_add(overhead));
            let route = admission.route(&allowance.routes)?;
            admission
                .offer(&offer, &route)
                .map_err(|why| described(&allowance.name, why))?;
        }
        Ok(admission)
    }

    /// As [`Admission::new`], with the streams of the description in its order.
    ///
    /// # Errors
    /// As [`Admission::new`], and [`AdmissionError::Description`] for the first stream that does not fit.
    pub fn with_streams(
        network: &Network,
        budgets: &Budgets,
    ) -> Result<(Admission, Vec<Ticket>), AdmissionError> {
        let mut admission = Admission::new(network, budgets)?;
        let mut tickets = Vec::new();
        for stream in &network.streams {
            let route = admission.route(&stream.routes)?;
            let ticket = admission
                .offer(&Offer::of(stream)?, &route)
                .map_err(|why| described(&stream.name, why))?;
            tickets.push(ticket);
        }
        Ok((admission, tickets))
    }

    fn add_pools(&mut self, network: &Network) -> Result<(), AdmissionError> {
        let shared = network
            .switches
            .iter()
            .filter(|switch| switch.buffer.shared);
        for switch in shared {
            if self.pools.len() >= usize::from(NONE) {
                return Err(AdmissionError::Range {
                    what: "the number of switches with a shared buffer".to_owned(),
                });
            }
            self.pools.push(Pool {
                node: switch.name.clone(),
                room_bits: self.memory(switch.buffer.bytes, switch.buffer.frames),
                used_bits: 0,
            });
        }
        Ok(())
    }

    /// Returns the bits that a buffer certainly holds. A buffer counted in frames may be full of the smallest ones.
    fn memory(&self, bytes: u64, frames: Option<u64>) -> u64 {
        let by_frames = frames.map_or(u64::MAX, |frames| {
            frames.saturating_mul(self.smallest_frame_bits)
        });
        bytes.saturating_mul(8).min(by_frames)
    }

    fn add_port(
        &mut self,
        network: &Network,
        budgets: &Budgets,
        name: &PortNames<'_>,
        inputs: Arc<[Sum]>,
        slot_behind: u32,
    ) -> Result<(), AdmissionError> {
        let late = network.port_latency(name.from, name.to);
        let (latency_ns, catches_up) = (late.max_ns, late.catches_up);
        let (early_ns, cut_bits) = self.cut_through(network, name);
        let variation = time_up((late.variation_ns() + early_ns).min(LONGEST_NS));
        let shown = format!("{}>{}", name.from, name.to);
        let range = |what: &str| AdmissionError::Range {
            what: format!("port {shown}: {what}"),
        };
        let switch = network.switch(name.from);
        if switch.is_some_and(|switch| switch.routing.is_some()) {
            return Err(AdmissionError::Unsupported {
                port: shown,
                what: "a router's priorities".to_owned(),
            });
        }
        if network.gates(name.from).is_some() {
            return Err(AdmissionError::Unsupported {
                port: shown,
                what: "gates".to_owned(),
            });
        }
        if network.has_flow_meters() {
            return Err(AdmissionError::Unsupported {
                port: shown,
                what: "flow meters".to_owned(),
            });
        }
        if network.has_preemption() && network.preemption(name.from, name.to).is_some() {
            return Err(AdmissionError::Unsupported {
                port: shown,
                what: "frame preemption".to_owned(),
            });
        }
        let shaped = network.shapers.iter().any(|shaper| {
            shaper.node == name.from && shaper.to.as_deref().is_none_or(|only| only == name.to)
        });
        if shaped {
            return Err(AdmissionError::Unsupported {
                port: shown,
                what: "a shaper".to_owned(),
            });
        }
        let number = |count: usize| u32::try_from(count).map_err(|_| range("its number"));
        let rate = name.rate_bps << RATE_BITS;
        let latency = time_up(latency_ns.min(LONGEST_NS));
        let latency_bits = super::check::bits_up(rate, latency);
        // What comes during the latency, and the frame that is being sent.
        let taken_bits = match switch.map(|switch| switch.buffer.release) {
            Some(Release::Frame) => latency_bits + self.largest_frame_bits,
            _ => latency_bits,
        };
        let taken_bits = taken_bits + cut_bits;
        let is_host = network.host(name.from).is_some();
        let classes = network.queues(name.from).clamp(1, 8);
        let (mut pool, mut memory_bits) = (NONE, u64::MAX);
        if let Some(switch) = switch {
            if switch.buffer.shared {
                let at = self.pools.iter().position(|pool| pool.node == switch.name);
                pool = at.and_then(|at| u16::try_from(at).ok()).unwrap_or(NONE);
                if let Some(pool) = self.pools.get_mut(usize::from(pool)) {
                    pool.room_bits = pool.room_bits.saturating_sub(taken_bits);
                }
            } else {
                let memory = self.memory(switch.buffer.bytes, switch.buffer.frames);
                memory_bits = memory.saturating_sub(taken_bits);
            }
        }
        let slots = if is_host { 1 } else { inputs.len().max(1) };
        let port = Port {
            rate,
            least_per_bit: if catches_up && latency_ns > 0 || cut_bits > 0 {
                0
            } else {
                let fine = 1_u128 << (TIME_BITS + LEAST_BITS);
                u64::try_from(fine / u128::from(name.rate_bps.max(1))).unwrap_or(0)
            },
            first_class: number(self.classes.len())?,
            first_cell: number(self.cells.len())?,
            slots: number(slots)?,
            classes,
            priority_map: network.priority_map(name.from).copied(),
            lines: !is_host,
            pool,
            slot_behind,
            memory_bits,
            inputs,
            latency,
            variation,
        };
        self.labels.push(Label {
            name: shown.clone().into_boxed_str(),
            cable_ns: name.cable_ns,
        });
        for class in 0..classes {
            let key = (name.from.to_owned(), name.to.to_owned(), class);
            let stated = budgets.at_ports.get(&key).copied();
            let shared = (0..8_u8)
                .filter(|pcp| port.class(*pcp) == class)
                .map(|pcp| budgets.delay_ns[usize::from(pcp)])
                .min();
            // No frame comes in a class that no priority has.
            let shared = shared.or(budgets.delay_ns.iter().copied().max());
            let low_bits = self.low_bits(class);
            // A bound of what is there now may be less than a first other frame needs.
            let stated =
                stated.map(|ns| ns.max(self.least_ns(name.rate_bps, latency_ns, low_bits)));
            let budget_ns = stated.or(shared).unwrap_or(0);
            let room = room_bits(rate, time_down(budget_ns), latency, low_bits);
            self.classes.push(PortClass {
                total: Sum::default(),
                room_bits: room.ok_or_else(|| {
                    range(&format!(
                        "the budget of class {class}, {budget_ns} ns: its latency and one frame in the way take longer;"
                    ))
                })?,
                budget: time_up(budget_ns),
                budget_ns,
                known: Known::NOTHING,
            });
        }
        let cells = slots * usize::from(classes);
        self.cells.resize(self.cells.len() + cells, Sum::default());
        self.ports.push(port);
        Ok(())
    }

    /// Returns the time before its end at which a frame may enter a port's queue, nanoseconds, and the bits of such a
    /// frame. Both are 0 where each frame is stored.
    fn cut_through(&self, network: &Network, name: &PortNames<'_>) -> (u64, u64) {
        let switch = network.switch(name.from);
        let Some(switch) = switch.filter(|switch| switch.cuts_through()) else {
            return (0, 0);
        };
        let mut inputs = network.neighbours(name.from).filter(|one| *one != name.to);
        if inputs.all(|one| network.cut_through_of(one, switch, name.to).is_off()) {
            return (0, 0);
        }
        let bits = self.largest_frame_bits.max(self.foreign_frame_bits);
        let rest = u128::from(bits.saturating_sub(network.header_bytes() * 8));
        let ns = (rest * NS).div_ceil(u128::from(name.rate_bps.max(1)));
        (u64::try_from(ns).unwrap_or(LONGEST_NS), bits)
    }

    /// Returns the time that a port needs for one frame if another frame has just begun, nanoseconds.
    fn least_ns(&self, rate_bps: u64, latency_ns: u64, low_bits: u64) -> u64 {
        let bits = u128::from(low_bits + self.largest_frame_bits + 8);
        let ns = (bits * NS).div_ceil(u128::from(rate_bps.max(1)));
        latency_ns.saturating_add(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Returns the largest frame, in bits, that can block a class.
    pub(super) fn low_bits(&self, class: u8) -> u64 {
        if class > 0 {
            self.largest_frame_bits.max(self.foreign_frame_bits)
        } else {
            self.foreign_frame_bits
        }
    }
}

fn described(name: &str, why: Denied) -> AdmissionError {
    AdmissionError::Description {
        name: name.to_owned(),
        why: Box::new(why),
    }
}

/// Returns the traffic that a link carries at most, as a straight line.
fn line(
    network: &Network,
    name: &PortNames<'_>,
    largest_frame_bits: u64,
) -> Result<Sum, AdmissionError> {
    if name.rate_bps == 0 || name.rate_bps > 1_000_000_000_000 {
        return Err(AdmissionError::Range {
            what: format!("the rate of the link {}>{}", name.from, name.to),
        });
    }
    let late = network.port_latency(name.from, name.to);
    let rate = name.rate_bps << RATE_BITS;
    let late = if late.catches_up {
        super::check::bits_up(rate, time_up(late.max_ns.min(LONGEST_NS)))
    } else {
        0
    };
    Ok(Sum {
        burst: largest_frame_bits + late,
        rate,
    })
}

fn empty(budgets: &Budgets) -> Result<Admission, AdmissionError> {
    let sizes = [
        budgets.largest_wire_bytes,
        budgets.foreign_wire_bytes,
        budgets.smallest_wire_bytes,
    ];
    if sizes.iter().any(|bytes| *bytes > 1 << 20) || budgets.largest_wire_bytes == 0 {
        return Err(AdmissionError::Range {
            what: "the size of a frame (1 B to 1 MiB)".to_owned(),
        });
    }
    let mut all = budgets.delay_ns.iter().chain(budgets.at_ports.values());
    if all.any(|ns| *ns > LONGEST_NS) {
        return Err(AdmissionError::Range {
            what: "a budget".to_owned(),
        });
    }
    Ok(Admission {
        ports: Vec::new(),
        labels: Vec::new(),
        classes: Vec::new(),
        cells: Vec::new(),
        pools: Vec::new(),
        numbers: HashMap::new(),
        largest_frame_bits: budgets.largest_wire_bytes * 8,
        foreign_frame_bits: budgets.foreign_wire_bytes * 8,
        smallest_frame_bits: budgets.smallest_wire_bytes.max(1) * 8,
        drift: 0,
        streams: Vec::new(),
        next_generation: 0,
        free: Vec::new(),
        admitted: 0,
        journal: Vec::new(),
        marks: 0,
        scratch: Vec::new(),
        crossings: Vec::new(),
    })
}
