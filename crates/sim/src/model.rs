//! A network in the form that is simulated: flat tables, with numbers in place of names.

mod build;

use rtwire_plan::{CutThrough, Ratio};

use crate::fixed::LineClock;
use crate::gates::Gates;

/// A number that refers to no entry.
pub(crate) const NONE: u32 = u32::MAX;

/// A network that can be simulated.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) ports: Vec<PortModel>,
    pub(crate) pools: Vec<PoolModel>,
    pub(crate) edges: Vec<Edge>,
    /// Numbers of edges; [`Edge`] and [`Flow`] refer to ranges of them.
    pub(crate) branches: Vec<u32>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) recoveries: Vec<RecoveryModel>,
    pub(crate) meters: Vec<MeterModel>,
    pub(crate) hosts: Vec<String>,
    /// The nodes whose clocks may differ: hosts, then switches.
    pub(crate) nodes: Vec<String>,
    /// Largest error of a clock against the network's time, ps.
    pub(crate) clock_error_ps: u64,
    /// True if any port has preemption.
    pub(crate) preempts: bool,
    /// The part of a frame that must have come before it may be forwarded.
    pub(crate) header_bits: u32,
    /// The smallest Ethernet frame on the wire.
    pub(crate) least_bits: u32,
    /// Number of lanes.
    pub(crate) lanes: usize,
    /// Number of regulators.
    pub(crate) regulators: usize,
    /// Approximate time between two events, ps.
    pub(crate) gap_ps: u64,
    /// The network's fingerprint.
    pub(crate) input_hash: String,
    pub(crate) name: String,
}

/// The sending end of a link.
#[derive(Clone, Debug)]
pub(crate) struct PortModel {
    pub(crate) node: String,
    pub(crate) to: String,
    pub(crate) line: LineClock,
    pub(crate) cable_ps: u64,
    /// The largest latency of a frame: of a host's port that catches up, or of any input of a switch's port.
    pub(crate) latency_ps: u64,
    /// The time by which a switch may begin each busy period late: the latency of no input differs by less. `None` for
    /// a port with gates, credits or regulators, which has no late start.
    pub(crate) late_start_ps: Option<u64>,
    /// True if the port holds frames after sending and then hands them over at once, instead of starting late.
    pub(crate) catches_up: bool,
    pub(crate) classes: u8,
    /// The class of each priority.
    pub(crate) class_of: [u8; 8],
    pub(crate) pool: u32,
    pub(crate) gates: Option<Gates>,
    /// Its frame preemption, if it has it.
    pub(crate) preemption: Option<PreemptionModel>,
    pub(crate) rate_bps: u64,
    /// Idle slope of each class with a credit-based shaper, bit/s; empty if there is none.
    pub(crate) idle_bps: Vec<Option<u64>>,
}

/// Frame preemption at a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PreemptionModel {
    /// The lowest express class. Frames of those below may be interrupted.
    pub(crate) first_express: u8,
    /// The least part of a frame that a fragment carries, if it is not the last one, bits.
    pub(crate) least_bits: u32,
}

/// The memory of one port, or of all ports of a switch.
#[derive(Clone, Debug)]
pub(crate) struct PoolModel {
    pub(crate) ports: Vec<u32>,
    /// Size in bits on the wire; `u64::MAX` at hosts.
    pub(crate) limit_bits: u64,
    pub(crate) limit_frames: u64,
    /// True if a frame keeps all of its memory until its last bit has left.
    pub(crate) whole_frames: bool,
}

/// One port on the route of one flow.
#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub(crate) port: u32,
    pub(crate) flow: u32,
    pub(crate) class: u8,
    /// The lane before its queue: all frames of one input link and one class. They stay in order.
    pub(crate) lane: u32,
    /// The regulator in front of its queue.
    pub(crate) regulator: u32,
    /// The token bucket of its regulator: the number of the edge that has it.
    pub(crate) bucket: u32,
    /// The listener behind this port.
    pub(crate) listener: u32,
    /// The largest and the least latency from its input to its queue; 0 where the port catches up.
    pub(crate) latency_ps: u64,
    pub(crate) latency_min_ps: u64,
    /// True if its frames may be forwarded before their end has come.
    pub(crate) cut_through: CutThrough,
    pub(crate) branches: (u32, u32),
    /// The meter at the end of this link.
    pub(crate) meter: u32,
    /// The frame's scheduled window here: start within each period, and the period, ps.
    pub(crate) window_ps: Option<(u64, u64)>,
    /// The cycles of cyclic queueing here, at the edge of even ones.
    pub(crate) cycles: Option<Cycles>,
    /// The edge of even cycles, if this is one of odd cycles; else its own number.
    pub(crate) even: u32,
}

/// Cyclic queueing on the route of one flow: a frame goes on over one of two edges, by the cycle in which it arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cycles {
    /// The node whose clock counts them.
    pub(crate) node: u32,
    pub(crate) cycle_ps: u64,
    /// The start of an even cycle, ps after a whole number of pairs of cycles since the clock's epoch.
    pub(crate) base_ps: u64,
    /// The edge for frames that arrive in odd cycles.
    pub(crate) odd: u32,
}

/// The contract of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    /// One frame in each interval.
    Interval { interval_ps: u64 },
    /// One frame in each period, at a fixed offset on its host's clock.
    Launch { period_ps: u64, offset_ps: u64 },
    /// A rate and a burst.
    Rate,
    /// No limit.
    Unshaped,
}

/// A stream or a best-effort allowance.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) name: String,
    pub(crate) best_effort: bool,
    pub(crate) host: u32,
    pub(crate) bits: u32,
    /// Number of frames that follow each other in an interval.
    pub(crate) group: u32,
    /// Size of its smallest frame on the wire.
    pub(crate) least_bits: u32,
    pub(crate) rate: Ratio,
    /// The rate of its regulators: faster than the contract by the permitted error of a talker's clock.
    pub(crate) regulated_rate: Ratio,
    pub(crate) burst: Ratio,
    pub(crate) shaping_ps: u64,
    pub(crate) tick_error_ps: u64,
    pub(crate) binding: Binding,
    /// Frames created before this time are not checked against the schedule, ps.
    pub(crate) judged_ps: u64,
    pub(crate) branches: (u32, u32),
    pub(crate) listeners: (u32, u32),
    /// The flow whose frames it sends: itself, or for a second copy the first one.
    pub(crate) leader: u32,
    /// The recovery of its frames at the listener, if its plan has one.
    pub(crate) recovery: u32,
}

impl Flow {
    /// Returns the number of frames that it may send at once.
    pub(crate) fn burst_frames(&self) -> u32 {
        let burst = u64::try_from(self.burst.floor()).unwrap_or(u64::MAX);
        let frames = (burst / u64::from(self.bits.max(1))).clamp(1, 1 << 16);
        u32::try_from(frames).unwrap_or(1)
    }
}

/// The recovery of a redundant stream.
#[derive(Clone, Debug)]
pub(crate) struct RecoveryModel {
    /// The flow of the first copy.
    pub(crate) flow: u32,
    pub(crate) history_length: u32,
    pub(crate) reset_ms: u64,
    /// The promise of the recovered stream, ps.
    pub(crate) delay_ps: u64,
}

/// A flow meter at the end of a talker's link.
#[derive(Clone, Debug)]
pub(crate) struct MeterModel {
    pub(crate) flow: u32,
    /// The switch that has it.
    pub(crate) switch: String,
    pub(crate) rate: Ratio,
    pub(crate) burst_bits: Ratio,
    /// The bits of each frame on the wire that it does not count.
    pub(crate) uncounted_bits: u64,
    /// The longest frame that passes, as it counts.
    pub(crate) longest_bits: u64,
}

/// A receiver of a flow.
#[derive(Clone, Debug)]
pub(crate) struct Listener {
    pub(crate) flow: u32,
    pub(crate) name: String,
    /// The edges from talker to listener.
    pub(crate) path: Vec<u32>,
}

impl Model {
    /// Returns the number of flows: streams first, then best-effort allowances.
    #[must_use]
    pub fn flow_count(&self) -> usize {
        self.flows.len()
    }

    /// Returns the number of ports: two for each link.
    #[must_use]
    pub fn port_count(&self) -> usize {
        self.ports.len()
    }

    /// Returns the time by which the simulation may be later than what it simulates, ps. Regulators and credits let frames go
    /// at whole picoseconds: each such port delays them by less than one.
    #[must_use]
    pub fn rounding_ps(&self) -> u64 {
        let mut shapes: Vec<bool> = self
            .ports
            .iter()
            .map(|it| !it.idle_bps.is_empty())
            .collect();
        for edge in self.edges.iter().filter(|edge| edge.regulator != NONE) {
            shapes[edge.port as usize] = true;
        }
        shapes.into_iter().filter(|shapes| *shapes).count() as u64
    }

    /// Returns the number of a stream, or of a best-effort allowance, by its name. If both have that name it is the stream.
    #[must_use]
    pub fn flow(&self, name: &str) -> Option<usize> {
        self.flows.iter().position(|flow| flow.name == name)
    }

    /// Returns the two ports of the link between two nodes; `None` if there is no such link.
    #[must_use]
    pub fn link_ports(&self, one: &str, other: &str) -> Option<[usize; 2]> {
        let port = |node: &str, to: &str| {
            let mut ports = self.ports.iter();
            ports.position(|port| port.node == node && port.to == to)
        };
        Some([port(one, other)?, port(other, one)?])
    }
}
