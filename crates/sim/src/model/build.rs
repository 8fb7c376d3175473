//! Builds the tables of the simulation from a network and its plan.

use rtwire_plan::network::{Marks, Release};
use rtwire_plan::{ContractKind, CutThrough, Network, Plan, Ratio, ShaperKind};

use super::{
    Binding, Cycles, Edge, Flow, Listener, MeterModel, Model, NONE, PoolModel, PortModel,
    PreemptionModel, RecoveryModel,
};
use crate::error::SimulationError;
use crate::fixed::LineClock;
use crate::gates::{Gates, settled_ns};

/// Largest permitted time, ps. Sums of such times must fit into 64 bits.
const LONGEST_PS: u64 = 1 << 60;
const MIN_FRAME_BYTES: u64 = 60;

struct Draft<'a> {
    name: &'a str,
    talker: &'a str,
    receivers: &'a [String],
    routes: &'a [Vec<String>],
    marks: Marks,
    copy_of: Option<&'a String>,
}

fn to_ps(ns: u64, what: impl Fn() -> String) -> Result<u64, SimulationError> {
    match ns.checked_mul(1000) {
        Some(ps) if ps <= LONGEST_PS => Ok(ps),
        _ => Err(SimulationError::Range { what: what() }),
    }
}

fn to_bits(bytes: u64, name: &str) -> Result<u32, SimulationError> {
    let bits = bytes
        .checked_mul(8)
        .and_then(|bits| u32::try_from(bits).ok());
    bits.filter(|bits| *bits > 0)
        .ok_or_else(|| SimulationError::Range {
            what: format!("the frame of \"{name}\" ({bytes} B on the wire)"),
        })
}

fn number(count: usize) -> u32 {
    // Tables of more than 2^32 entries do not fit into memory.
    u32::try_from(count).unwrap_or(NONE)
}

impl Model {
    /// Prepares a network.
    ///
    /// # Errors
    /// [`SimulationError`] if a number is out of range or a route uses a link that does not exist.
    pub fn new(network: &Network) -> Result<Model, SimulationError> {
        let mut model = Model {
            ports: Vec::new(),
            pools: Vec::new(),
            edges: Vec::new(),
            branches: Vec::new(),
            flows: Vec::new(),
            listeners: Vec::new(),
            recoveries: Vec::new(),
            meters: Vec::new(),
            hosts: network.hosts.iter().map(|host| host.name.clone()).collect(),
            nodes: network
                .hosts
                .iter()
                .map(|host| host.name.clone())
                .chain(network.switches.iter().map(|switch| switch.name.clone()))
                .collect(),
            clock_error_ps: to_ps(network.schedule.clock_error_ns, || {
                "the clock error".to_owned()
            })?,
            preempts: network.preempting_port().is_some(),
            header_bits: to_bits(network.header_bytes(), "header")?,
            least_bits: to_bits(
                MIN_FRAME_BYTES + network.defaults.frame_overhead_bytes,
                "smallest frame",
            )?,
            lanes: 0,
            regulators: 0,
            gap_ps: 0,
            input_hash: network.input_hash.clone(),
            name: network.name.clone(),
        };
        let ports = model.add_ports(network)?;
        let mut numbers = Numbers::default();
        for stream in &network.streams {
            let draft = Draft {
                name: &stream.name,
                talker: &stream.talker,
                receivers: &stream.listeners,
                routes: &stream.routes,
                marks: stream.marks(),
                copy_of: stream.copy_of.as_ref(),
            };
            let contract = &stream.contract;
            let what = || format!("a time of stream \"{}\"", stream.name);
            let bits = to_bits(stream.wire_bytes, &stream.name)?;
            let flow = Flow {
                name: stream.name.clone(),
                best_effort: false,
                host: 0,
                bits,
                group: contract.kind.frames(),
                least_bits: u32::try_from(stream.smallest_wire_bits().floor()).unwrap_or(bits),
                rate: contract.rate,
                regulated_rate: regulated(network, contract.rate),
                burst: contract.burst,
                shaping_ps: to_ps(contract.shaping_interval_ns, what)?,
                tick_error_ps: to_ps(contract.tick_error_ns, what)?,
                binding: match contract.kind {
                    _ if !stream.shaped => Binding::Unshaped,
                    ContractKind::Interval { interval_ns, .. } => Binding::Interval {
                        interval_ps: to_ps(interval_ns, what)?,
                    },
                    ContractKind::Rate | ContractKind::Declared => Binding::Rate,
                },
                judged_ps: 0,
                branches: (0, 0),
                listeners: (0, 0),
                leader: NONE,
                recovery: NONE,
            };
            model.add_flow(network, &ports, &draft, flow, &mut numbers)?;
        }
        for allowance in &network.best_effort {
            let draft = Draft {
                name: &allowance.name,
                talker: &allowance.host,
                receivers: &allowance.to,
                routes: &allowance.routes,
                marks: allowance.marks(),
                copy_of: None,
            };
            let overhead = allowance.wire_bytes.saturating_sub(allowance.frame_bytes);
            let least = MIN_FRAME_BYTES.min(allowance.frame_bytes) + overhead;
            let flow = Flow {
                name: allowance.name.clone(),
                best_effort: true,
                host: 0,
                bits: to_bits(allowance.wire_bytes, &allowance.name)?,
                group: 1,
                least_bits: to_bits(least, &allowance.name)?,
                rate: allowance.rate,
                regulated_rate: regulated(network, allowance.rate),
                burst: allowance.burst,
                shaping_ps: 0,
                tick_error_ps: 0,
                binding: Binding::Rate,
                judged_ps: 0,
                branches: (0, 0),
                listeners: (0, 0),
                leader: NONE,
                recovery: NONE,
            };
            model.add_flow(network, &ports, &draft, flow, &mut numbers)?;
        }
        model.gap_ps = model.event_gap_ps();
        Ok(model)
    }

    /// Prepares a network that runs its plan: with the plan's gates, and with time-triggered streams launched at their
    /// offsets.
    ///
    /// # Errors
    /// As [`Model::new`].
    pub fn with_plan(network: &Network, plan: &Plan) -> Result<Model, SimulationError> {
        let mut model = Model::new(network)?;
        let settled_ns = settled_ns(network, plan);
        model.add_recoveries(plan)?;
        model.add_meters(network, plan)?;
        model.add_cycles(plan)?;
        for port in &mut model.ports {
            let planned = plan
                .ports
                .iter()
                .find(|planned| planned.node == port.node && planned.port == port.to);
            let node = model.nodes.iter().position(|node| *node == port.node);
            if let (Some(list), Some(node)) =
                (planned.and_then(|planned| planned.gates.as_ref()), node)
            {
                let holds_back = network
                    .gates(&port.node)
                    .is_some_and(|gates| gates.holds_back);
                let what = format!("{}>{}", port.node, port.to);
                port.gates = Some(Gates::new(list, holds_back, number(node), &what)?);
                port.late_start_ps = None;
            }
        }
        for (index, planned) in plan.streams.iter().enumerate().take(network.streams.len()) {
            let Some(launch) = &planned.launch else {
                continue;
            };
            let what = || format!("the launch of \"{}\"", planned.name);
            let period_ps = to_ps(launch.period_ns.max(1), what)?;
            // Launches begin when no clock shows a negative time any more.
            let periods = (2 * model.clock_error_ps).div_ceil(period_ps);
            model.flows[index].judged_ps = to_ps(settled_ns, what)?;
            model.flows[index].binding = Binding::Launch {
                period_ps,
                offset_ps: to_ps(launch.offset_ns, what)?.saturating_add(periods * period_ps),
            };
            for edge in model
                .edges
                .iter_mut()
                .filter(|edge| edge.flow as usize == index)
            {
                let port = &model.ports[edge.port as usize];
                let window = launch
                    .windows
                    .iter()
                    .find(|window| window.node == port.node && window.port == port.to);
                if let (Some(window), Some(_)) = (window, &port.gates) {
                    edge.window_ps = Some((to_ps(window.start_ns, what)? % period_ps, period_ps));
                }
            }
        }
        Ok(model)
    }

    /// Adds the recovery functions of a plan's redundant streams.
    fn add_recoveries(&mut self, plan: &Plan) -> Result<(), SimulationError> {
        for (first, planned) in plan.streams.iter().enumerate().take(self.flows.len()) {
            let Some(recovery) = &planned.recovery else {
                continue;
            };
            let own = number(self.recoveries.len());
            for flow in &mut self.flows {
                if flow.leader == number(first) {
                    flow.recovery = own;
                }
            }
            self.recoveries.push(RecoveryModel {
                flow: number(first),
                history_length: recovery.history_length,
                reset_ms: recovery.reset_ms,
                delay_ps: to_ps(recovery.delay_ns, || {
                    format!("the promise of \"{}\"", planned.name)
                })?,
            });
        }
        Ok(())
    }

    /// Adds the flow meters of a plan.
    fn add_meters(&mut self, network: &Network, plan: &Plan) -> Result<(), SimulationError> {
        for planned in &plan.meters {
            let of_flow =
                |flow: &Flow| flow.name == planned.flow && flow.best_effort == planned.best_effort;
            let flow = self.flows.iter().position(of_flow);
            let edge = self.edges.iter_mut().find(|edge| {
                let port = &self.ports[edge.port as usize];
                Some(edge.flow as usize) == flow
                    && port.node == planned.from
                    && port.to == planned.switch
            });
            let (Some(flow), Some(edge)) = (flow, edge) else {
                return Err(SimulationError::Inconsistent {
                    what: format!(
                        "\"{}\" has a meter at {}, where it does not come from {}",
                        planned.flow, planned.switch, planned.from
                    ),
                });
            };
            edge.meter = number(self.meters.len());
            let bits = |bytes: u64| Ratio::whole(i128::from(bytes) * 8);
            let overhead = network.defaults.frame_overhead_bytes;
            let longest = planned
                .longest_frame_bytes
                .saturating_add(planned.overhead_bytes);
            self.meters.push(MeterModel {
                flow: number(flow),
                switch: planned.switch.clone(),
                rate: Ratio::whole(i128::from(planned.committed_rate_bps)),
                burst_bits: bits(planned.committed_burst_bytes),
                uncounted_bits: overhead.saturating_sub(planned.overhead_bytes) * 8,
                longest_bits: u64::from(to_bits(longest, &planned.flow)?),
            });
        }
        Ok(())
    }

    /// Adds a second edge for each one of a cyclic stream at a switch: one for each of the two queues.
    fn add_cycles(&mut self, plan: &Plan) -> Result<(), SimulationError> {
        let Some(cyclic) = &plan.cyclic else {
            return Ok(());
        };
        let cycle_ps = to_ps(cyclic.cycle_ns, || "the cycle".to_owned())?;
        let mut lanes = std::collections::HashMap::new();
        let names = cyclic.ports.iter().flat_map(|port| &port.streams);
        let names: std::collections::HashSet<&str> = names.map(String::as_str).collect();
        for listener in 0..self.listeners.len() {
            let flow = &self.flows[self.listeners[listener].flow as usize];
            if flow.best_effort || !names.contains(flow.name.as_str()) {
                continue;
            }
            let path = self.listeners[listener].path.clone();
            for pair in path.windows(2) {
                let (before, at) = (pair[0] as usize, pair[1] as usize);
                let port = self.edges[at].port;
                let name = &self.ports[port as usize].node;
                let gate = cyclic.switches.iter().find(|gate| gate.switch == *name);
                let node = self.nodes.iter().position(|node| node == name);
                let (Some(gate), Some(node), None) = (gate, node, self.edges[at].cycles) else {
                    continue;
                };
                let from = self.edges[before].port;
                let mut lane = |queue: u8| {
                    let next = number(self.lanes + lanes.len());
                    *lanes.entry((port, queue, from)).or_insert(next)
                };
                let (even_lane, odd_lane) = (lane(gate.even_queue), lane(gate.odd_queue));
                let odd = number(self.edges.len());
                self.edges.push(Edge {
                    class: gate.odd_queue,
                    lane: odd_lane,
                    ..self.edges[at].clone()
                });
                let even = &mut self.edges[at];
                (even.class, even.lane) = (gate.even_queue, even_lane);
                even.cycles = Some(Cycles {
                    node: number(node),
                    cycle_ps,
                    base_ps: 0,
                    odd,
                });
            }
        }
        self.lanes += lanes.len();
        Ok(())
    }

    fn add_ports(&mut self, network: &Network) -> Result<PortNumbers, SimulationError> {
        let mut numbers = PortNumbers::new();
        let mut shared = std::collections::HashMap::new();
        for link in &network.links {
            for (node, to) in [(0, 1), (1, 0)] {
                let (node, to) = (&link.ends[node], &link.ends[to]);
                let latency = network.port_latency(node, to);
                let at = number(self.ports.len());
                let buffer = network.switch(node).map(|switch| switch.buffer);
                let pool = match buffer {
                    Some(buffer) if buffer.shared => *shared
                        .entry(node.clone())
                        .or_insert(number(self.pools.len())),
                    _ => number(self.pools.len()),
                };
                if pool as usize == self.pools.len() {
                    self.pools.push(PoolModel {
                        ports: Vec::new(),
                        limit_bits: buffer
                            .map_or(u64::MAX, |buffer| buffer.bytes.saturating_mul(8)),
                        limit_frames: buffer.and_then(|buffer| buffer.frames).unwrap_or(u64::MAX),
                        whole_frames: buffer.is_none_or(|it| it.release == Release::Frame),
                    });
                }
                self.pools[pool as usize].ports.push(at);
                let what = || format!("a time of the link between \"{node}\" and \"{to}\"");
                self.ports.push(PortModel {
                    node: node.clone(),
                    to: to.clone(),
                    line: LineClock::new(link.rate_bps),
                    cable_ps: to_ps(link.cable_delay_ns, what)?,
                    latency_ps: to_ps(latency.max_ns, what)?,
                    late_start_ps: late_start_ps(network, node, to),
                    catches_up: latency.catches_up,
                    classes: network.queues(node).clamp(1, 8),
                    class_of: classes_of(network, node),
                    pool,
                    gates: None,
                    preemption: preemption(network, node, to),
                    rate_bps: link.rate_bps,
                    idle_bps: idle_slopes(network, node, to),
                });
                numbers.insert((node.clone(), to.clone()), at);
            }
        }
        Ok(numbers)
    }

    fn add_flow(
        &mut self,
        network: &Network,
        ports: &PortNumbers,
        draft: &Draft<'_>,
        mut flow: Flow,
        numbers: &mut Numbers,
    ) -> Result<(), SimulationError> {
        let number_of_flow = number(self.flows.len());
        let inconsistent = |what: String| SimulationError::Inconsistent { what };
        let host = network
            .hosts
            .iter()
            .position(|host| host.name == draft.talker);
        flow.host = number(host.ok_or_else(|| {
            inconsistent(format!(
                "\"{}\" has no talker \"{}\"",
                draft.name, draft.talker
            ))
        })?);
        // The tree of all routes, each port once.
        let first = self.edges.len();
        let mut children: Vec<Vec<u32>> = Vec::new();
        let what = || format!("a latency on the way of \"{}\"", draft.name);
        let mut befores: Vec<Option<usize>> = Vec::new();
        let mut roots: Vec<u32> = Vec::new();
        let routers = network.routers();
        let first_listener = number(self.listeners.len());
        for (receiver, route) in draft.receivers.iter().zip(draft.routes) {
            let mut before: Option<usize> = None;
            let mut path = Vec::new();
            for (place, (from, to, pcp)) in routers.hops(route, draft.marks).enumerate() {
                let port = *ports
                    .get(&(from.to_owned(), to.to_owned()))
                    .ok_or_else(|| {
                        inconsistent(format!(
                            "\"{}\" goes from {from} to {to}, but there is no such link",
                            draft.name
                        ))
                    })?;
                let known = self.edges[first..]
                    .iter()
                    .position(|edge| edge.port == port);
                let at = known.map_or(self.edges.len(), |known| first + known);
                if known.is_none() {
                    let input = place.checked_sub(1).map(|before| &route[before]);
                    let latency = input.map(|input| network.input_latency(input, from, to));
                    let latency = latency.filter(|latency| !latency.catches_up);
                    let latency = latency.unwrap_or_default();
                    let cut_through = input.map(|input| network.cut_through(input, from, to));
                    self.edges.push(Edge {
                        port,
                        flow: number_of_flow,
                        class: self.ports[port as usize].class_of[usize::from(pcp & 7)],
                        lane: NONE,
                        regulator: NONE,
                        bucket: number(at),
                        listener: NONE,
                        latency_ps: to_ps(latency.max_ns, what)?,
                        latency_min_ps: to_ps(latency.min_ns, what)?,
                        cut_through: cut_through.unwrap_or(CutThrough::Off),
                        branches: (0, 0),
                        meter: NONE,
                        window_ps: None,
                        cycles: None,
                        even: number(at),
                    });
                    befores.push(before);
                    children.push(Vec::new());
                    match before {
                        Some(before) => children[before - first].push(number(at)),
                        None => roots.push(number(at)),
                    }
                }
                path.push(number(at));
                before = Some(at);
            }
            let last = before.ok_or_else(|| {
                inconsistent(format!("\"{}\" has no route to \"{receiver}\"", draft.name))
            })?;
            self.edges[last].listener = number(self.listeners.len());
            self.listeners.push(Listener {
                flow: number_of_flow,
                name: receiver.clone(),
                path,
            });
        }
        for (index, before) in befores.into_iter().enumerate() {
            let port = &self.ports[self.edges[first + index].port as usize];
            let class = self.edges[first + index].class;
            let from = before.map_or(NONE, |before| self.edges[before].port);
            let lane = (self.edges[first + index].port, class, from);
            let next = number(numbers.lanes.len());
            self.edges[first + index].lane = *numbers.lanes.entry(lane).or_insert(next);
            if network.shaper(&port.node, &port.to, class) == Some(ShaperKind::Asynchronous) {
                let before = before.map_or((NONE, 0), |before| {
                    (self.edges[before].port, self.edges[before].class)
                });
                let key = (self.edges[first + index].port, class, before);
                let regulators = &mut numbers.regulators;
                let next = number(regulators.len());
                self.edges[first + index].regulator = *regulators.entry(key).or_insert(next);
            }
        }
        self.lanes = numbers.lanes.len();
        self.regulators = numbers.regulators.len();
        for (index, list) in children.into_iter().enumerate() {
            self.edges[first + index].branches = self.add_branches(&list);
        }
        flow.branches = self.add_branches(&roots);
        flow.listeners = (first_listener, number(self.listeners.len()));
        let first = draft.copy_of.and_then(|first| {
            let mut flows = self.flows.iter();
            flows.position(|flow| !flow.best_effort && flow.name == *first)
        });
        flow.leader = first.map_or(number_of_flow, number);
        self.flows.push(flow);
        Ok(())
    }

    fn add_branches(&mut self, list: &[u32]) -> (u32, u32) {
        let start = number(self.branches.len());
        self.branches.extend_from_slice(list);
        (start, number(self.branches.len()))
    }

    /// Returns the expected time between two events from how often frames pass ports. Only the queue's speed depends
    /// on it.
    fn event_gap_ps(&self) -> u64 {
        let mut hops = vec![1_u64; self.flows.len()];
        for edge in &self.edges {
            hops[edge.flow as usize] += 2;
        }
        let mut per_second = 1_u64;
        for (flow, hops) in self.flows.iter().zip(hops) {
            let bits = u128::from(flow.bits);
            let rate = u128::try_from(flow.rate.floor()).unwrap_or(0);
            let frames = u64::try_from(rate / bits).unwrap_or(u64::MAX);
            per_second = per_second.saturating_add(frames.saturating_mul(hops));
        }
        (1_000_000_000_000 / per_second).max(1)
    }
}

/// The numbers that edges share.
#[derive(Default)]
struct Numbers {
    /// The number of each lane, by port and class, and by the port before them.
    lanes: std::collections::HashMap<(u32, u8, u32), u32>,
    /// The number of each regulator, by port and class, and by the port and class before them.
    regulators: std::collections::HashMap<(u32, u8, (u32, u8)), u32>,
}

/// Returns the time by which a port may begin each busy period late. A frame of any input may have as much more latency.
/// A port with credits begins often. Regulators are behind the latency: what they let go is not late any more.
fn late_start_ps(network: &Network, node: &str, to: &str) -> Option<u64> {
    let mut classes = 0..network.queues(node).clamp(1, 8);
    if classes.any(|class| network.shaper(node, to, class).is_some()) {
        return None;
    }
    let inputs = network.neighbours(node).filter(|input| *input != to);
    let varies = inputs.map(|input| network.input_latency(input, node, to).variation_ns());
    let least = varies.min();
    let least = least.unwrap_or_else(|| network.port_latency(node, to).variation_ns());
    Some(least.saturating_mul(1_000).min(LONGEST_PS))
}

/// Returns the frame preemption of a port. A fragment has at least 64 (1 + addFragSize) bytes, the last four of which are
/// its mCRC.
fn preemption(network: &Network, node: &str, to: &str) -> Option<PreemptionModel> {
    let stated = network
        .has_preemption()
        .then(|| network.preemption(node, to))??;
    Some(PreemptionModel {
        first_express: stated.first_express,
        least_bits: (64 * (1 + u32::from(stated.additional_fragment_size)) - 4) * 8,
    })
}

/// Returns the queue of each priority at the ports of a node.
fn classes_of(network: &Network, node: &str) -> [u8; 8] {
    let switches = network
        .switches
        .iter()
        .map(|one| (&one.name, one.queues, one.priority_map));
    let hosts = network
        .hosts
        .iter()
        .map(|one| (&one.name, one.queues, one.priority_map));
    let found = switches.chain(hosts).find(|(name, ..)| *name == node);
    let (_, queues, stated) = found.unwrap_or((&network.name, 1, None));
    // Without a map, the eight priorities are dealt out evenly, from the least urgent queue on.
    let (mut even, mut dealt) = ([0; 8], 0_u8);
    for class in &mut even {
        *class = dealt / 8;
        dealt += queues.clamp(1, 8);
    }
    stated.unwrap_or(even)
}

fn idle_slopes(network: &Network, node: &str, to: &str) -> Vec<Option<u64>> {
    let classes = network.queues(node).clamp(1, 8);
    let slopes: Vec<Option<u64>> = (0..classes)
        .map(|class| match network.shaper(node, to, class) {
            Some(ShaperKind::Credit { idle_slope }) => u64::try_from(idle_slope.floor()).ok(),
            _ => None,
        })
        .collect();
    if slopes.iter().any(Option::is_some) {
        slopes
    } else {
        Vec::new()
    }
}

fn regulated(network: &Network, rate: Ratio) -> Ratio {
    let ppb = i128::from(network.defaults.clock_drift_ppb);
    let faster = Ratio::new(1_000_000_000 + ppb, 1_000_000_000);
    faster.and_then(|faster| rate.times(faster)).unwrap_or(rate)
}

type PortNumbers = std::collections::HashMap<(String, String), u32>;
