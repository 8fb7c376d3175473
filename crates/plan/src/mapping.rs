//! A network as a graph of servers: each end of each link is one server.

use std::collections::HashMap;

use crate::bound::graph::{ClassShaper, Flow, Graph, Hop, Meter, Preempting, Server, ServerInput};
use crate::network::{
    ContractKind, Host, LatencyRange, Marks, Network, Routers, SMALLEST_FRAME_BYTES, ShaperKind,
    Switch, class_by,
};
use crate::plan::{NodeKind, PreemptionPlan};
use crate::schedule::Closing;
use rtwire_describe::ratio::{Overflow, Ratio};

/// One directed port.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) node: String,
    pub(crate) to: String,
    pub(crate) kind: NodeKind,
    pub(crate) rate_bps: u64,
    pub(crate) latency_ns: u64,
    pub(crate) cable_ns: u64,
}

/// The graph, and the meaning of its numbers.
#[derive(Clone, Debug)]
pub(crate) struct Mapped {
    /// The port of each server.
    pub(crate) ports: Vec<Port>,
    /// Streams first, in order; then best-effort allowances.
    pub(crate) graph: Graph,
    /// The name of each flow.
    pub(crate) flow_names: Vec<String>,
    /// The flows that pass each server, and the index of the hop there.
    pub(crate) passing: Vec<Vec<(usize, usize)>>,
    /// True if cyclic streams are in the graph at hosts only: at switches they have cycles.
    pub(crate) has_cycles: bool,
    numbers: HashMap<String, HashMap<String, usize>>,
}

/// Hosts and switches by name. To search lists for each port would take the square of a network's size.
pub(crate) struct Nodes<'a> {
    hosts: HashMap<&'a str, &'a Host>,
    switches: HashMap<&'a str, &'a Switch>,
    routers: Routers<'a>,
}

impl<'a> Nodes<'a> {
    pub(crate) fn new(network: &'a Network) -> Nodes<'a> {
        let hosts = network.hosts.iter();
        let switches = network.switches.iter();
        Nodes {
            hosts: hosts.map(|host| (host.name.as_str(), host)).collect(),
            switches: switches
                .map(|switch| (switch.name.as_str(), switch))
                .collect(),
            routers: network.routers(),
        }
    }

    pub(crate) fn switch(&self, name: &str) -> Option<&'a Switch> {
        self.switches.get(name).copied()
    }

    fn kind(&self, name: &str) -> NodeKind {
        if self.hosts.contains_key(name) {
            NodeKind::Host
        } else if self.routers.get(name).is_some() {
            NodeKind::Router
        } else {
            NodeKind::Switch
        }
    }

    /// Returns the same as [`Network::queues`].
    pub(crate) fn queues(&self, name: &str) -> u8 {
        let of_switch = self.switches.get(name).map(|switch| switch.queues);
        of_switch
            .or_else(|| self.hosts.get(name).map(|host| host.queues))
            .unwrap_or(1)
    }

    /// Returns the same as [`Network::class`].
    fn class(&self, name: &str, pcp: u8) -> u8 {
        let map = match self.switches.get(name) {
            Some(switch) => switch.priority_map.as_ref(),
            None => self
                .hosts
                .get(name)
                .and_then(|host| host.priority_map.as_ref()),
        };
        class_by(map, pcp, self.queues(name))
    }

    /// Returns [`Network::port_latency`] without a search for the node.
    fn port_latency(&self, network: &Network, from: &str, to: &str) -> LatencyRange {
        let (host, switch) = (self.hosts.get(from), self.switches.get(from));
        network.port_latency_of((from, to), host.copied(), switch.copied())
    }
}

impl Mapped {
    /// Returns the frame preemption of a port, as a plan shows it.
    pub(crate) fn preemption(&self, index: usize) -> Option<PreemptionPlan> {
        let here = self.graph.servers[index].preemption?;
        let bytes = here.piece.over(Ratio::whole(8)).map(Ratio::ceil);
        Some(PreemptionPlan {
            first_express_class: here.first_express,
            longest_piece_bytes: bytes.ok().and_then(|bytes| u64::try_from(bytes).ok())?,
        })
    }

    /// Returns the port of a node towards a neighbour.
    pub(crate) fn port(&self, from: &str, to: &str) -> Option<usize> {
        self.numbers.get(from)?.get(to).copied()
    }
}

/// The name of the flow that represents closed gates at a port.
pub(crate) const CLOSED_GATES: &str = "(closed gates)";
/// The name of the flow that represents the cyclic streams of a switch's port.
pub(crate) const CYCLIC_STREAMS: &str = "(cyclic streams)";

/// True if a flow of this name represents time that a schedule takes.
pub(crate) fn is_schedule(name: &str) -> bool {
    name == CLOSED_GATES || name == CYCLIC_STREAMS
}

/// Makes the graph. `closings` is the time that gates take from unscheduled traffic; the streams that pass through
/// gates have a schedule of their own.
pub(crate) fn map(network: &Network, closings: &[Closing]) -> Result<Mapped, Overflow> {
    let mut ports = Vec::new();
    let mut servers = Vec::new();
    let mut numbers: HashMap<String, HashMap<String, usize>> = HashMap::new();
    let nodes = Nodes::new(network);
    for link in &network.links {
        let [a, b] = &link.ends;
        for (node, to) in [(a, b), (b, a)] {
            let latency = nodes.port_latency(network, node, to);
            let kind = nodes.kind(node);
            let of_node = numbers.entry(node.clone()).or_default();
            of_node.entry(to.clone()).or_insert(ports.len());
            ports.push(Port {
                node: node.clone(),
                to: to.clone(),
                kind,
                rate_bps: link.rate_bps,
                latency_ns: latency.max_ns,
                cable_ns: link.cable_delay_ns,
            });
            servers.push(Server {
                rate: Ratio::whole(i128::from(link.rate_bps)),
                latency: Ratio::from_ns(latency.max_ns),
                latency_min: Ratio::from_ns(latency.min_ns),
                // Without latency there is nothing to catch up.
                catches_up: latency.catches_up && latency.max_ns > 0,
                classes: nodes.queues(node),
                foreign_frame: Ratio::ZERO,
                ..Server::default()
            });
        }
    }
    let mut mapped = Mapped {
        ports,
        graph: Graph {
            servers,
            flows: Vec::new(),
        },
        flow_names: Vec::new(),
        passing: Vec::new(),
        has_cycles: network.schedule.cycle_ns.is_some_and(|it| it > 0),
        numbers,
    };
    shape(network, &nodes, &mut mapped);
    preempt(network, &mut mapped);
    inputs(network, &nodes, &mut mapped);
    // A fast clock sends more in a second than the contract says.
    let ppb = i128::from(network.defaults.clock_drift_ppb);
    let drift = Ratio::new(1_000_000_000 + ppb, 1_000_000_000)?;
    let faster = |rate: Ratio| rate.times(drift)?.tidied_up(1_000_000_000);
    for stream in &network.streams {
        let mut hops = hops(&nodes, &mapped, &stream.routes, stream.marks());
        if stream.time_triggered {
            // Only where nothing but its launch keeps it from others: at a talker without gates.
            let first = hops.first().map(|hop| hop.server);
            hops.retain(|hop| Some(hop.server) == first && network.gates(&stream.talker).is_none());
        }
        if stream.cyclic && mapped.has_cycles {
            // At switches it has cycles, not delays of its own.
            hops.retain(|hop| mapped.ports[hop.server].kind == NodeKind::Host);
        }
        let frame = stream.wire_bits();
        mapped.graph.flows.push(Flow {
            burst: stream.contract.burst,
            rate: faster(stream.contract.rate)?,
            frame_max: frame,
            frame_min: stream.smallest_wire_bits(),
            period: match stream.contract.kind {
                // Several frames count as a line: n M + r (t + J).
                ContractKind::Interval {
                    interval_ns,
                    frames: 1,
                } => Some(Ratio::from_ns(interval_ns).over(drift)?),
                _ => None,
            },
            // On a clock that is as much too slow it takes that much longer, and a little more than by this factor once.
            jitter: Ratio::from_ns(stream.contract.tick_error_ns)
                .times(drift)?
                .times(drift)?,
            meter: meter(network, &mapped, &hops, stream.frame_bytes, drift)?,
            hops,
        });
        mapped.flow_names.push(stream.name.clone());
    }
    for allowance in &network.best_effort {
        let hops = hops(&nodes, &mapped, &allowance.routes, allowance.marks());
        let overhead = allowance.wire_bytes - allowance.frame_bytes.min(allowance.wire_bytes);
        let smallest = SMALLEST_FRAME_BYTES.min(allowance.frame_bytes) + overhead;
        mapped.graph.flows.push(Flow {
            burst: allowance.burst,
            rate: faster(allowance.rate)?,
            frame_max: Ratio::whole(i128::from(allowance.wire_bytes) * 8),
            frame_min: Ratio::whole(i128::from(smallest) * 8),
            period: None,
            jitter: Ratio::ZERO,
            meter: meter(network, &mapped, &hops, allowance.frame_bytes, drift)?,
            hops,
        });
        mapped.flow_names.push(allowance.name.clone());
    }
    for closing in closings {
        close(&mut mapped, closing)?;
    }
    mapped.passing = vec![Vec::new(); mapped.ports.len()];
    for (flow, path) in mapped.graph.flows.iter().enumerate() {
        for (hop, at) in path.hops.iter().enumerate() {
            mapped.passing[at.server].push((flow, hop));
        }
    }
    Ok(mapped)
}

/// Assigns the description's shapers to their classes.
fn shape(network: &Network, nodes: &Nodes<'_>, mapped: &mut Mapped) {
    for shaper in &network.shapers {
        let class = usize::from(nodes.class(&shaper.node, shaper.pcp));
        let numbers = mapped.numbers.get(&shaper.node).into_iter().flatten();
        let numbers = numbers.filter(|(to, _)| shaper.to.as_ref().is_none_or(|only| only == *to));
        let numbers: Vec<usize> = numbers.map(|(_, number)| *number).collect();
        for number in numbers {
            let places = &mut mapped.graph.servers[number].shapers;
            if let Some(place) = places.get_mut(class) {
                *place = match shaper.kind {
                    ShaperKind::Credit { idle_slope } => ClassShaper::Credit { idle_slope },
                    ShaperKind::Asynchronous => ClassShaper::Regulated,
                };
            }
        }
    }
}

/// The bytes of a fragment on the wire that are not of the frame: preamble with its mark 8, gap 12.
const FRAGMENT_BYTES: u64 = 20;
/// The cost of an interruption, bytes: CRC 4 and gap 12 of the fragment that ends, preamble with its mark 8 of the next.
const INTERRUPTION_BYTES: u64 = 24;
/// The least size of any fragment, CRC included, bytes.
const LEAST_FRAGMENT_BYTES: u64 = 64;

/// Returns the longest piece of a frame that cannot be interrupted, bytes on the wire.
///
/// A piece of two least fragments can be cut in two. One with a byte less cannot.
pub(crate) fn longest_piece_bytes(additional_fragment_size: u8) -> u64 {
    let first = LEAST_FRAGMENT_BYTES * (1 + u64::from(additional_fragment_size)) - 4;
    first + LEAST_FRAGMENT_BYTES - 1 + FRAGMENT_BYTES
}

/// Enters the frame preemption of each port.
fn preempt(network: &Network, mapped: &mut Mapped) {
    if !network.has_preemption() {
        return;
    }
    let bits = |bytes: u64| Ratio::whole(i128::from(bytes) * 8);
    for (port, server) in mapped.ports.iter().zip(&mut mapped.graph.servers) {
        let here = network.preemption(&port.node, &port.to);
        server.preemption = here.map(|here| Preempting {
            first_express: here.first_express,
            piece: bits(longest_piece_bytes(here.additional_fragment_size)),
            interruption: bits(INTERRUPTION_BYTES),
        });
    }
}

/// Enters the latency of each input, and its cut-through, at the ports of switches that state some.
fn inputs(network: &Network, nodes: &Nodes<'_>, mapped: &mut Mapped) {
    let header = Ratio::whole(i128::from(network.header_bytes()) * 8);
    for link in &network.links {
        let [a, b] = &link.ends;
        for (before, node) in [(a, b), (b, a)] {
            let stated = nodes.switch(node);
            let stated = stated.filter(|switch| !switch.ports.is_empty() || switch.cuts_through());
            let (Some(switch), Some(from)) = (stated, mapped.port(before, node)) else {
                continue;
            };
            let ports = mapped.numbers.get(node).into_iter().flatten();
            let ports = ports.filter(|(to, _)| *to != before);
            for (to, server) in ports {
                let latency = network.input_latency_of(before, (node, to), None, Some(switch));
                let cuts = !network.cut_through_of(before, switch, to).is_off();
                mapped.graph.servers[*server].inputs.push(ServerInput {
                    from,
                    header: cuts.then_some(header),
                    latency: Ratio::from_ns(latency.max_ns),
                    latency_min: Ratio::from_ns(latency.min_ns),
                });
            }
        }
    }
}

/// Adds closed gates as a flow that is served before all others.
fn close(mapped: &mut Mapped, closing: &Closing) -> Result<(), Overflow> {
    let Some(server) = mapped.port(&closing.node, &closing.to) else {
        return Ok(());
    };
    let here = &mut mapped.graph.servers[server];
    let class = here.classes;
    here.classes += 1;
    let frame = Ratio::whole(here.rate.times(Ratio::from_ns(closing.frame_ns))?.ceil());
    let flow = Flow {
        // Whole bits: sums of odd fractions would leave 128 bits.
        burst: Ratio::whole(here.rate.times(closing.closed.burst)?.ceil()),
        rate: Ratio::whole(here.rate.times(closing.closed.rate)?.ceil()),
        frame_max: frame,
        frame_min: frame,
        period: None,
        jitter: Ratio::ZERO,
        hops: vec![Hop {
            server,
            class,
            before: None,
        }],
        meter: None,
    };
    mapped.graph.flows.push(flow);
    mapped.flow_names.push(closing.name.to_owned());
    Ok(())
}

/// Returns the ports of all routes, each once. If routes part, each branch carries the frame.
/// Behind a router a frame has the priority that the router gave.
fn hops(nodes: &Nodes<'_>, mapped: &Mapped, routes: &[Vec<String>], marks: Marks) -> Vec<Hop> {
    let mut hops: Vec<Hop> = Vec::new();
    for route in routes {
        let mut before = None;
        for (from, to, pcp) in nodes.routers.hops(route, marks) {
            let Some(server) = mapped.port(from, to) else {
                continue;
            };
            before = match hops.iter().position(|hop| hop.server == server) {
                Some(at) => Some(at),
                None => {
                    hops.push(Hop {
                        server,
                        class: nodes.class(from, pcp),
                        before,
                    });
                    Some(hops.len() - 1)
                }
            };
        }
    }
    hops
}

/// Returns the meter of a flow of frames of `frame_bytes`, if it passes one where its talker's link ends.
fn meter(
    network: &Network,
    mapped: &Mapped,
    hops: &[Hop],
    frame_bytes: u64,
    drift: Ratio,
) -> Result<Option<Meter>, Overflow> {
    let mut entered_at: Vec<Option<usize>> = Vec::with_capacity(hops.len());
    let mut found = None;
    for (at, hop) in hops.iter().enumerate() {
        let entered = match hop.before {
            None => None,
            // Behind the first switch it is as there.
            Some(before) if hops[before].before.is_some() => entered_at[before],
            Some(before) => {
                let port = &mapped.ports[hops[before].server];
                let meters = network.flow_meters(&port.node, &port.to);
                found = found.or(meters);
                meters.map(|_| at)
            }
        };
        entered_at.push(entered);
    }
    let Some(meters) = found else {
        return Ok(None);
    };
    let bits = |bytes: u64| Ratio::whole(i128::from(bytes) * 8);
    let smallest = SMALLEST_FRAME_BYTES.min(frame_bytes);
    let frame_min = bits(smallest + network.defaults.frame_overhead_bytes);
    Ok(Some(Meter {
        counted: bits(frame_bytes + meters.overhead_bytes),
        wire: frame_min.over(bits(smallest + meters.overhead_bytes))?,
        clock: drift,
        frame_min,
        entered_at,
    }))
}
