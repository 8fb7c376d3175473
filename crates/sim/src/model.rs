//! A network in the form in which it is played: flat tables, numbers in place of names.

mod build;

use rtwire_plan::Ratio;

use crate::fixed::LineClock;
use crate::gates::Gates;

/// No such entry.
pub(crate) const NONE: u32 = u32::MAX;

/// A network that can be played.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) ports: Vec<PortModel>,
    pub(crate) pools: Vec<PoolModel>,
    pub(crate) edges: Vec<Edge>,
    /// Numbers of edges; [`Edge`] and [`Flow`] name parts of it.
    pub(crate) branches: Vec<u32>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) hosts: Vec<String>,
    /// Hosts, then switches: whose clocks may differ.
    pub(crate) nodes: Vec<String>,
    /// How far a clock may be from the network's time, picoseconds.
    pub(crate) clock_error_ps: u64,
    /// How many regulators there are in all.
    pub(crate) regulators: usize,
    /// About how far apart two events are, picoseconds.
    pub(crate) gap_ps: u64,
    /// The network's fingerprint.
    pub(crate) input_hash: String,
    pub(crate) name: String,
}

/// One end of a link, which sends.
#[derive(Clone, Debug)]
pub(crate) struct PortModel {
    pub(crate) node: String,
    pub(crate) to: String,
    pub(crate) line: LineClock,
    pub(crate) cable_ps: u64,
    pub(crate) latency_ps: u64,
    /// Holds frames after sending and then hands them over at once, in place of starting late.
    pub(crate) catches_up: bool,
    pub(crate) classes: u8,
    pub(crate) pool: u32,
    pub(crate) gates: Option<Gates>,
    pub(crate) rate_bps: u64,
    /// By class with a credit-based shaper: its idle slope, bit/s; empty where none has one.
    pub(crate) idle_bps: Vec<Option<u64>>,
}

/// Memory of one port, or of all ports of a switch.
#[derive(Clone, Debug)]
pub(crate) struct PoolModel {
    pub(crate) ports: Vec<u32>,
    /// Bits on the wire; `u64::MAX` at hosts.
    pub(crate) limit_bits: u64,
    pub(crate) limit_frames: u64,
}

/// One port on the way of one flow.
#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub(crate) port: u32,
    pub(crate) flow: u32,
    pub(crate) class: u8,
    /// The regulator before its queue.
    pub(crate) regulator: u32,
    /// Who listens behind this port.
    pub(crate) listener: u32,
    pub(crate) branches: (u32, u32),
    /// Where a schedule has its window here: picoseconds after the start of each period, and the period.
    pub(crate) window_ps: Option<(u64, u64)>,
}

/// How a flow binds itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    /// One frame in each interval.
    Interval { interval_ps: u64 },
    /// One frame in each period, at an offset of its own on its host's clock.
    Launch { period_ps: u64, offset_ps: u64 },
    /// A rate and a burst.
    Rate,
    /// Nothing binds it.
    Unshaped,
}

/// A stream or a best-effort allowance.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) name: String,
    pub(crate) best_effort: bool,
    pub(crate) host: u32,
    pub(crate) bits: u32,
    /// Of its smallest frame.
    pub(crate) least_bits: u32,
    pub(crate) rate: Ratio,
    /// What regulators let through: as much faster as a talker's clock may run.
    pub(crate) regulated_rate: Ratio,
    pub(crate) burst: Ratio,
    pub(crate) shaping_ps: u64,
    pub(crate) tick_error_ps: u64,
    pub(crate) binding: Binding,
    /// Its frames that come into being before this instant are not held against the schedule, picoseconds.
    pub(crate) judged_ps: u64,
    pub(crate) branches: (u32, u32),
    pub(crate) listeners: (u32, u32),
}

/// A flow's receiver.
#[derive(Clone, Debug)]
pub(crate) struct Listener {
    pub(crate) flow: u32,
    pub(crate) name: String,
    /// The edges from talker to listener.
    pub(crate) path: Vec<u32>,
}

impl Model {
    /// How many flows there are: streams first, then best-effort allowances.
    #[must_use]
    pub fn flow_count(&self) -> usize {
        self.flows.len()
    }

    /// How many ports there are: two for each link.
    #[must_use]
    pub fn port_count(&self) -> usize {
        self.ports.len()
    }
}
