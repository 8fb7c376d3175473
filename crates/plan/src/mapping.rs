//! A network as a graph of servers: each end of each link is one.

use crate::bound::graph::{Flow, Graph, Hop, Server};
use crate::bound::rational::{Overflow, Ratio};
use crate::network::{ContractKind, Network, class_of};
use crate::plan::NodeKind;
use crate::schedule::Closing;

/// One directed port.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) node: String,
    pub(crate) to: String,
    pub(crate) kind: NodeKind,
    pub(crate) rate_bps: u64,
    pub(crate) latency_ns: u64,
}

/// The graph, and what its numbers mean.
#[derive(Clone, Debug)]
pub(crate) struct Mapped {
    /// By server.
    pub(crate) ports: Vec<Port>,
    /// Streams first, in order; then best-effort allowances.
    pub(crate) graph: Graph,
    /// By flow.
    pub(crate) flow_names: Vec<String>,
}

/// The smallest frame on Ethernet, header and payload without FCS, bytes.
const SMALLEST_FRAME_BYTES: u64 = 60;

impl Mapped {
    /// The port of a node towards a neighbour.
    pub(crate) fn port(&self, from: &str, to: &str) -> Option<usize> {
        self.ports
            .iter()
            .position(|port| port.node == from && port.to == to)
    }

    /// The hop of a flow at a port.
    pub(crate) fn hop_at(&self, flow: usize, server: usize) -> Option<&Hop> {
        self.graph.flows[flow]
            .hops
            .iter()
            .find(|hop| hop.server == server)
    }
}

/// What stands for the time that gates are closed, among the flows of a port.
pub(crate) const CLOSED_GATES: &str = "(closed gates)";

/// `closings` is what gates take from unscheduled traffic: streams that go through them have a schedule of their own.
pub(crate) fn map(network: &Network, closings: &[Closing]) -> Result<Mapped, Overflow> {
    let mut ports = Vec::new();
    let mut servers = Vec::new();
    for link in &network.links {
        let [a, b] = &link.ends;
        for (node, to) in [(a, b), (b, a)] {
            let (latency_ns, catches_up) = network.port_latency(node, to);
            let kind = if network.host(node).is_some() {
                NodeKind::Host
            } else {
                NodeKind::Switch
            };
            ports.push(Port {
                node: node.clone(),
                to: to.clone(),
                kind,
                rate_bps: link.rate_bps,
                latency_ns,
            });
            servers.push(Server {
                rate: Ratio::whole(i128::from(link.rate_bps)),
                latency: Ratio::from_ns(latency_ns),
                latency_min: Ratio::ZERO,
                // Without latency there is nothing to catch up.
                catches_up: catches_up && latency_ns > 0,
                classes: network.queues(node),
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
    };
    for stream in &network.streams {
        let mut hops = hops(network, &mapped, &stream.routes, stream.pcp);
        if stream.time_triggered {
            // Only where nothing but its launch keeps it from others: at a talker without gates.
            let first = hops.first().map(|hop| hop.server);
            hops.retain(|hop| Some(hop.server) == first && network.gates(&stream.talker).is_none());
        }
        let frame = stream.wire_bits();
        mapped.graph.flows.push(Flow {
            burst: stream.contract.burst,
            rate: stream.contract.rate,
            frame_max: frame,
            frame_min: frame,
            period: match stream.contract.kind {
                ContractKind::Interval { interval_ns } => Some(Ratio::from_ns(interval_ns)),
                _ => None,
            },
            jitter: Ratio::from_ns(stream.contract.tick_error_ns),
            hops,
        });
        mapped.flow_names.push(stream.name.clone());
    }
    for allowance in &network.best_effort {
        let hops = hops(network, &mapped, &allowance.routes, 0);
        let overhead = allowance.wire_bytes - allowance.frame_bytes.min(allowance.wire_bytes);
        let smallest = SMALLEST_FRAME_BYTES.min(allowance.frame_bytes) + overhead;
        mapped.graph.flows.push(Flow {
            burst: allowance.burst,
            rate: allowance.rate,
            frame_max: Ratio::whole(i128::from(allowance.wire_bytes) * 8),
            frame_min: Ratio::whole(i128::from(smallest) * 8),
            period: None,
            jitter: Ratio::ZERO,
            hops,
        });
        mapped.flow_names.push(allowance.name.clone());
    }
    for closing in closings {
        close(&mut mapped, closing)?;
    }
    Ok(mapped)
}

/// Closed gates are work that goes before all else.
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
    };
    mapped.graph.flows.push(flow);
    mapped.flow_names.push(CLOSED_GATES.to_owned());
    Ok(())
}

/// The ports of all routes, each once: where ways part, each branch carries the frame.
fn hops(network: &Network, mapped: &Mapped, routes: &[Vec<String>], pcp: u8) -> Vec<Hop> {
    let mut hops: Vec<Hop> = Vec::new();
    for route in routes {
        let mut before = None;
        for pair in route.windows(2) {
            let [from, to] = pair else { continue };
            let Some(server) = mapped.port(from, to) else {
                continue;
            };
            before = match hops.iter().position(|hop| hop.server == server) {
                Some(at) => Some(at),
                None => {
                    hops.push(Hop {
                        server,
                        class: class_of(pcp, network.queues(from)),
                        before,
                    });
                    Some(hops.len() - 1)
                }
            };
        }
    }
    hops
}
