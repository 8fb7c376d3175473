//! The network as ports and flows, and the claims of the certificate about them.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::Refused;
use crate::curve::{Line, Stair};
use crate::file::{self, Certificate, ContractKind, File, Int, Release, ShaperKind};
use crate::number::{BIT, BPS, Fraction, Num, bytes, ns};

/// Parts per 10^9.
const PPB: i128 = 1_000_000_000;
const NS_PER_SECOND: i128 = 1_000_000_000;
/// The smallest Ethernet frame: header and payload without FCS, bytes.
const SMALLEST_FRAME_BYTES: u64 = 60;

/// A frame source under a contract, on a tree of ports.
pub(crate) struct Flow {
    pub(crate) name: String,
    pub(crate) largest: Num,
    pub(crate) smallest: Num,
    pub(crate) contract: Line,
    /// Rate, bit/s, and burst, bits, as its talker keeps them by its own clock.
    pub(crate) keeps: (Fraction, Fraction),
    /// Rate, bit/s, and burst, bits, exactly; `None` if they leave 128 bits.
    pub(crate) exact: Option<(Fraction, Fraction)>,
    /// The interval and the tick error of a periodic talker whose clock is exact.
    pub(crate) ticks: Option<(Num, Num)>,
    /// The stair at its source, if it sends one frame in each interval.
    pub(crate) stair: Option<Stair>,
    pub(crate) hops: Vec<Hop>,
    /// For the second copy of a redundant stream: the first.
    pub(crate) copy_of: Option<usize>,
}

impl Flow {
    fn new(name: String, [smallest, largest]: [u64; 2], hops: Vec<Hop>) -> Flow {
        let (largest, smallest) = (bytes(largest), bytes(smallest));
        let (contract, exact, ticks, stair) = (Line::NOTHING, None, None, None);
        let (keeps, copy_of) = ((Fraction::whole(0), Fraction::whole(0)), None);
        Flow { name, largest, smallest, contract, keeps, exact, ticks, stair, hops, copy_of }
    }

    /// Enters a rate and a burst, on a clock that is as fast as it may be.
    fn keeps(&mut self, rate: Fraction, burst: Fraction, drift: i128) {
        let rate_up = rate.units_up(BPS, drift, PPB);
        self.contract = Line { burst: burst.units_up(BIT, 1, 1), rate: rate_up };
        self.keeps = (rate, burst);
        let fast = || rate.times(Fraction::of(drift, PPB)?);
        self.exact = fast().map(|rate| (rate, burst));
    }
}

/// One port on the way of a flow.
pub(crate) struct Hop {
    pub(crate) port: usize,
    pub(crate) class: u8,
    /// The hop before, within the flow.
    pub(crate) before: Option<usize>,
    /// Claimed: the largest lateness of its frames on arrival here, beyond the jitter at the source.
    pub(crate) late: Option<Num>,
}

/// One end of a link: it sends, highest class first, in order of arrival within a class.
pub(crate) struct Port {
    pub(crate) name: String,
    pub(crate) rate: Num,
    pub(crate) latency_min: Num,
    pub(crate) latency: Num,
    /// True if the latency is behind the queue, and frames may follow faster than the link's rate after it.
    pub(crate) catches_up: bool,
    pub(crate) cable_ns: u64,
    /// True if a frame's memory is free with its last bit only.
    pub(crate) frees_whole: bool,
    /// The flows that pass, with their hops here.
    pub(crate) passing: Vec<(usize, usize)>,
    /// Claimed delays by class.
    pub(crate) delays: [Option<Num>; 8],
    /// False if the network states values of single inputs and ports of this switch, or cut-through: nothing follows here.
    pub(crate) one_latency: bool,
    /// The mechanism that the checker has no rule for, here or at a port before.
    pub(crate) not_covered: Option<String>,
    /// True if its memory is that of all ports of its switch.
    shares: bool,
    /// The port that may take all of that memory.
    pub(crate) crowded: Option<String>,
}

impl Port {
    /// Returns the node that sends.
    fn node(&self) -> &str {
        self.name.split_once('>').map_or("", |(node, _)| node)
    }

    /// Returns the time by which latencies before the queue differ.
    pub(crate) fn variation(&self) -> Num {
        if self.catches_up { Num::ZERO } else { self.latency - self.latency_min }
    }
}

/// Ports and flows.
pub(crate) struct Model {
    pub(crate) ports: Vec<Port>,
    /// Streams first, then best-effort allowances, in the order of the file.
    pub(crate) flows: Vec<Flow>,
    /// The ports by their names.
    pub(crate) numbers: HashMap<String, usize>,
    /// The flows by theirs.
    pub(crate) names: HashMap<String, usize>,
}

pub(crate) fn form(what: String) -> Refused {
    Refused::Form { what }
}

pub(crate) fn port_name(from: &str, to: &str) -> String {
    format!("{from}>{to}")
}

/// Returns the queue of a priority: by the node's own map, else `floor(pcp queues / 8)` (docs/network-description.md).
fn class_of(pcp: u8, node: &Node<'_>) -> u8 {
    let even = || (u16::from(pcp.min(7)) * u16::from(node.queues) / 8) as u8;
    node.priority_map.map_or_else(even, |map| map[usize::from(pcp.min(7))])
}

impl Model {
    /// Makes ports and flows of the file's network.
    pub(crate) fn of(file: &File) -> Result<Model, Refused> {
        let network = &file.network;
        let nodes = nodes(network)?;
        let mut ports = Vec::new();
        let mut numbers = HashMap::new();
        for link in &network.links {
            let [a, b] = &link.ends;
            for (node, to) in [(a, b), (b, a)] {
                let name = port_name(node, to);
                if numbers.insert(name.clone(), ports.len()).is_some() {
                    return Err(form(format!("port {name} is there twice")));
                }
                ports.push(port(network, &nodes, [node, to], link)?);
            }
        }
        let names = file.ports.iter().map(|plan| port_name(&plan.node, &plan.port));
        if !names.eq(ports.iter().map(|port| port.name.clone())) {
            return Err(form("its ports are not those of its network".to_owned()));
        }
        let mut model = Model { ports, flows: Vec::new(), numbers, names: HashMap::new() };
        let drift = PPB + i128::from(network.defaults.clock_drift_ppb.0);
        let overhead = network.defaults.frame_overhead_bytes.0;
        for stream in &network.streams {
            let (name, frame, wire) = (&stream.name, stream.frame_bytes.0, stream.wire_bytes.0);
            if wire < frame.saturating_add(overhead) {
                return Err(form(format!("\"{name}\" costs less on the wire than its frame")));
            }
            let less = stream.smallest_frame_bytes.map_or(0, |least| frame.saturating_sub(least.0));
            let ends = (stream.talker.as_str(), &stream.listeners[..]);
            let sent = Sent {
                priority: stream.pcp.min(7),
                // The class selector: three bits of six.
                code: stream.dscp.unwrap_or(8 * stream.pcp.min(7)),
                udp: stream.transport == "udp",
            };
            let hops = model.hops(&nodes, name, ends, &stream.routes, sent)?;
            let mut flow = Flow::new(name.clone(), [wire - less, wire], hops);
            if source(&mut flow, stream, drift).is_none() {
                return Err(form(format!("the contract of \"{name}\" is out of range")));
            }
            model.flows.push(flow);
        }
        for allowance in &network.best_effort {
            let name = format!("best-effort {}", allowance.name);
            let (frame, wire) = (allowance.frame_bytes.0, allowance.wire_bytes.0);
            let smallest = SMALLEST_FRAME_BYTES.min(frame) + wire.saturating_sub(frame);
            let ends = (allowance.host.as_str(), &allowance.to[..]);
            let sent = Sent { priority: 0, code: 0, udp: true };
            let hops = model.hops(&nodes, &name, ends, &allowance.routes, sent)?;
            let burst = allowance.burst.0.max(Fraction::whole(i128::from(wire) * 8));
            let burst = burst.filter(|_| wire >= frame.saturating_add(overhead));
            let no = || form(format!("the contract of \"{name}\" is out of range"));
            let burst = burst.ok_or_else(no)?;
            let mut flow = Flow::new(name, [smallest, wire], hops);
            flow.keeps(allowance.rate.0, burst, drift);
            model.flows.push(flow);
        }
        for (flow, one) in model.flows.iter().enumerate() {
            if model.names.insert(one.name.clone(), flow).is_some() {
                return Err(form(format!("\"{}\" is there twice", one.name)));
            }
            for (hop, at) in one.hops.iter().enumerate() {
                model.ports[at.port].passing.push((flow, hop));
            }
        }
        for (flow, stream) in model.flows.iter_mut().zip(&network.streams) {
            if let Some(first) = &stream.copy_of {
                let no =
                    || form(format!("the stream of which \"{}\" is a copy is missing", flow.name));
                flow.copy_of = Some(*model.names.get(first).ok_or_else(no)?);
            }
        }
        model.mark(file, &nodes);
        Ok(model)
    }

    /// Returns the ports of all routes, each once. A frame is sent once at each port, so the routes form a tree.
    ///
    /// A router reads the code point with which a frame comes: the priority behind it is the one stated for the code, or a
    /// quotient by 8. Then it may write another code for the next router (docs/network-description.md).
    fn hops(
        &self,
        nodes: &Nodes<'_>,
        name: &str,
        (talker, ends): (&str, &[String]),
        routes: &[Vec<String>],
        sent: Sent,
    ) -> Result<Vec<Hop>, Refused> {
        let reaches =
            |(route, end): (&Vec<String>, &String)| route.len() > 1 && route.last() == Some(end);
        if ends.is_empty() || ends.len() != routes.len() || !routes.iter().zip(ends).all(reaches) {
            return Err(form(format!("the routes of \"{name}\" are not those to its listeners")));
        }
        let mut hops: Vec<Hop> = Vec::new();
        for route in routes {
            let (mut before, mut now) = (None, sent);
            if route.first().is_none_or(|first| first != talker) {
                return Err(form(format!("a route of \"{name}\" does not begin at its talker")));
            }
            // Hosts forward nothing.
            let is_host = |node: &String| nodes.get(node.as_str()).is_some_and(|node| node.is_host);
            let ends = |at: usize| at == 0 || at + 1 == route.len();
            if !route.iter().enumerate().all(|(at, node)| is_host(node) == ends(at)) {
                let what = format!("a route of \"{name}\" is not from host to host over switches");
                return Err(form(what));
            }
            for pair in route.windows(2) {
                let tables = nodes.get(pair[0].as_str()).and_then(|node| node.routing);
                if let Some(tables) = tables {
                    if !sent.udp {
                        let router = &pair[0];
                        return Err(form(format!(
                            "\"{name}\" is no UDP: \"{router}\" is a router"
                        )));
                    }
                    now = now.routed(tables);
                }
                let at = port_name(&pair[0], &pair[1]);
                let missing = || form(format!("the route of \"{name}\" has no port {at}"));
                let port = *self.numbers.get(&at).ok_or_else(missing)?;
                let known = hops.iter().position(|hop| hop.port == port);
                if known.is_some_and(|known| hops[known].before != before) {
                    return Err(form(format!("the routes of \"{name}\" meet again at {at}")));
                }
                before = known.or_else(|| {
                    let node = nodes.get(pair[0].as_str());
                    let class = node.map_or(0, |node| class_of(now.priority, node));
                    hops.push(Hop { port, class, before, late: None });
                    Some(hops.len() - 1)
                });
            }
        }
        Ok(hops)
    }

    /// Marks the ports for which there is no rule, and all ports that their frames pass later. Where one of them shares
    /// memory, its unknown backlog may leave no room to the other ports of its switch: they are marked as crowded.
    fn mark(&mut self, file: &File, nodes: &Nodes<'_>) {
        let network = &file.network;
        let launched = network.streams.iter().filter(|one| one.time_triggered);
        let launching: HashSet<&str> = launched.map(|one| one.talker.as_str()).collect();
        let cyclic = network.streams.iter().filter(|one| one.cyclic == Some(true));
        let cyclic: HashSet<&String> = cyclic.flat_map(|one| one.routes.iter().flatten()).collect();
        let metered = network.switches.iter().any(|one| one.flow_meters.is_some());
        for (port, plan) in self.ports.iter_mut().zip(&file.ports) {
            let (name, to) = (plan.node.as_str(), &plan.port);
            let Some(node) = nodes.get(name) else { continue };
            let shaped = network.shapers.iter().find(|shaper| {
                shaper.node == name && shaper.to.as_ref().is_none_or(|only| only == to)
            });
            let scheduled = launching.contains(name) || (node.gated && !launching.is_empty());
            let cycles = file.cyclic.is_some() || cyclic.contains(&plan.node);
            let what = match shaped.map(|shaper| &shaper.kind) {
                Some(ShaperKind::Credit { .. }) => "credit-based shaper",
                Some(ShaperKind::Asynchronous) => "asynchronous shaper",
                None if !port.one_latency => "values of single ports, or cut-through,",
                None if cycles && !node.is_host => "cyclic queueing",
                None if scheduled || plan.gates.is_some() => "gates",
                None if node.preempts || plan.preemption.is_some() => "frame preemption",
                None if metered || file.meters.is_some() => "flow meters",
                None => continue,
            };
            port.not_covered = Some(format!("{what} at {}", port.name));
        }
        for (stream, flow) in network.streams.iter().zip(&self.flows) {
            let why = match stream.contract.kind {
                // A talker without a shaper keeps no contract: nothing follows where its frames pass.
                _ if !stream.shaped => "whose shaper is off",
                ContractKind::Interval { frames: Some(_), .. } => {
                    "with several frames in an interval"
                }
                _ => continue,
            };
            for hop in &flow.hops {
                let port = &mut self.ports[hop.port];
                let why = format!("\"{}\", {why}, at {}", stream.name, port.name);
                port.not_covered = Some(why);
            }
        }
        // From port to port, until no further port is reached. Each round marks at least one.
        loop {
            let mut reached = Vec::new();
            for flow in &self.flows {
                for hop in &flow.hops {
                    let before = hop.before.map(|before| &self.ports[flow.hops[before].port]);
                    let reason = before.and_then(|before| before.not_covered.clone());
                    if let (Some(reason), None) = (reason, &self.ports[hop.port].not_covered) {
                        reached.push((hop.port, reason));
                    }
                }
            }
            if reached.is_empty() {
                break;
            }
            for (port, reason) in reached {
                self.ports[port].not_covered = Some(reason);
            }
        }
        // A frame that finds no room is lost, but makes no other one late: so this goes no further.
        let unknown = self.ports.iter().filter(|port| port.shares && !port.passing.is_empty());
        let unknown = unknown.filter_map(|port| {
            let why = port.not_covered.as_ref()?;
            let why = format!("memory shared with {}, which is not covered: {why}", port.name);
            Some((port.node().to_owned(), why))
        });
        let unknown: HashMap<_, _> = unknown.collect();
        for port in &mut self.ports {
            port.crowded = unknown.get(port.node()).cloned();
        }
    }

    /// Enters the certificate's claims. They are checked later; here only their form is.
    pub(crate) fn claim(&mut self, certificate: &Certificate) -> Result<(), Refused> {
        let mut told = vec![false; self.ports.len()];
        for facts in &certificate.ports {
            let at = &facts.port;
            let no = |what: String| form(format!("at port {at} {what}"));
            let number = *self.numbers.get(at).ok_or_else(|| no("there is nothing".to_owned()))?;
            if core::mem::replace(&mut told[number], true) {
                return Err(no("facts are stated twice".to_owned()));
            }
            let mut seen = HashSet::new();
            for fact in &facts.arrivals {
                let found = self.names.get(&fact.flow).copied().and_then(|flow| {
                    let hops = &mut self.flows[flow].hops;
                    hops.iter_mut().find(|hop| hop.port == number)
                });
                let hop = found.filter(|_| seen.insert(&fact.flow));
                let hop = hop.ok_or_else(|| no(format!("\"{}\" is no flow", fact.flow)))?;
                hop.late = fact.late_ps.map(Int::num);
            }
            for fact in &facts.classes {
                let place = self.ports[number].delays.get_mut(usize::from(fact.class));
                let place = place.filter(|place| place.is_none());
                let place = place.ok_or_else(|| no(format!("class {} is none", fact.class)))?;
                *place = fact.delay_ps.map(Int::num);
            }
        }
        Ok(())
    }

    /// Returns the largest frame of the classes below one at a port.
    pub(crate) fn blocking(&self, port: usize, class: u8) -> Num {
        let lower = self.ports[port].passing.iter();
        let lower = lower.filter(|(flow, hop)| self.flows[*flow].hops[*hop].class < class);
        lower.fold(Num::ZERO, |most, (flow, _)| most.max(self.flows[*flow].largest))
    }
}

/// Priority and code point of a frame on a link.
#[derive(Clone, Copy)]
struct Sent {
    priority: u8,
    code: u8,
    udp: bool,
}

impl Sent {
    fn routed(self, tables: &file::Routing) -> Sent {
        let stated = |table: &Option<BTreeMap<u8, u8>>| table.as_ref()?.get(&self.code).copied();
        Sent {
            priority: stated(&tables.priorities).unwrap_or(self.code / 8),
            code: stated(&tables.remark).unwrap_or(self.code),
            ..self
        }
    }
}

/// A host, a switch or a router.
struct Node<'a> {
    routing: Option<&'a file::Routing>,
    queues: u8,
    priority_map: Option<[u8; 8]>,
    latency_min_ns: u64,
    latency_ns: u64,
    is_host: bool,
    frees_whole: bool,
    one_latency: bool,
    shares: bool,
    gated: bool,
    preempts: bool,
}

type Nodes<'a> = HashMap<&'a str, Node<'a>>;

fn nodes<'a>(network: &'a file::Network) -> Result<Nodes<'a>, Refused> {
    let host = |host: &file::Host| Node {
        routing: None,
        queues: host.queues,
        priority_map: host.priority_map,
        latency_min_ns: 0,
        latency_ns: host.latency_ns.0,
        is_host: true,
        frees_whole: true,
        one_latency: true,
        shares: false,
        gated: host.gates.is_some(),
        preempts: host.preemption.is_some(),
    };
    let switch = |switch: &'a file::Switch| Node {
        routing: switch.routing.as_ref(),
        queues: switch.queues,
        priority_map: switch.priority_map,
        latency_min_ns: switch.latency_min_ns.0,
        latency_ns: switch.latency_ns.0,
        is_host: false,
        frees_whole: switch.buffer.release == Release::Frame,
        one_latency: switch.ports.is_none() && switch.cut_through.is_none(),
        shares: switch.buffer.shared,
        gated: switch.gates.is_some(),
        preempts: switch.preemption.is_some(),
    };
    let hosts = network.hosts.iter().map(|one| (one.name.as_str(), host(one)));
    let switches = network.switches.iter().map(|one| (one.name.as_str(), switch(one)));
    let mut nodes = HashMap::new();
    for (name, node) in hosts.chain(switches) {
        let no = |what: &str| Err(form(format!("node \"{name}\" {what}")));
        let mut map = node.priority_map.into_iter().flatten();
        if name.contains('>') {
            return no("has `>` in its name");
        }
        if !(1..=8).contains(&node.queues) || map.any(|queue| queue >= node.queues) {
            return no("has not 1 to 8 queues, or a priority without one");
        }
        if nodes.insert(name, node).is_some() {
            return no("is there twice");
        }
    }
    Ok(nodes)
}

fn port(
    network: &file::Network,
    nodes: &Nodes<'_>,
    [from, to]: [&str; 2],
    link: &file::Link,
) -> Result<Port, Refused> {
    let node = nodes.get(from);
    let node = node.ok_or_else(|| form(format!("a link ends at \"{from}\", which is no node")))?;
    let mut own = network.port_latencies.iter();
    let (min, max, catches_up) = match own.find(|one| one.from == from && one.to == to) {
        Some(own) => (0, own.latency_ns.0, true),
        None => (node.latency_min_ns, node.latency_ns, node.is_host),
    };
    if min > max || link.rate_bps.0 == 0 {
        return Err(form(format!("port {} has no rate, or no latency", port_name(from, to))));
    }
    Ok(Port {
        name: port_name(from, to),
        rate: Num::from(i128::from(link.rate_bps.0)) * BPS.into(),
        latency_min: ns(min),
        latency: ns(max),
        catches_up: catches_up && max > 0,
        cable_ns: link.cable_delay_ns.0,
        frees_whole: node.frees_whole,
        one_latency: node.one_latency,
        passing: Vec::new(),
        delays: [None; 8],
        not_covered: None,
        shares: node.shares,
        crowded: None,
    })
}

/// **Theorem (contract).** A talker that sends one frame of `M` in each interval `P`, each up to `J` late, brings at
/// most `M (floor((t + J) / P) + 1)` and at most `M + M/P (t + J)` in any closed window `t`. One that wakes each `T_s`,
/// up to `J` late, and hands out its budget and a frame that straddles its end, brings at most `r (t + T_s + J) + M`.
/// On a clock that is fast by `rho` intervals are `P / (1 + rho)`, and rates `r (1 + rho)` (docs/bounds.md,
/// "Contracts", "Clocks that drift"; staircases: J.-Y. Le Boudec, P. Thiran, "Network Calculus", 1.2.1).
///
/// Where the file states more than that, more counts, and the talker may send more than one frame in an interval.
fn source(flow: &mut Flow, stream: &file::Stream, drift: i128) -> Option<()> {
    let contract = &stream.contract;
    let tick = ns(contract.tick_error_ns.0);
    let frame = Fraction::whole(i128::from(stream.wire_bytes.0) * 8);
    let seconds = |ns: Int| Fraction::of(ns.0.into(), NS_PER_SECOND);
    let mut rate = contract.rate.0;
    let waits = match contract.kind {
        ContractKind::Interval { interval_ns, .. } => {
            let period = ns(interval_ns.0);
            let (own, late) =
                (frame.over(seconds(interval_ns)?)?, seconds(contract.tick_error_ns)?);
            if rate.at_most(own)? && contract.burst.0.at_most(own.times(late)?.plus(frame)?)? {
                flow.ticks = Some((period, tick));
                flow.stair = Some(Stair {
                    frame: flow.largest,
                    period: (period * PPB.into()).over_down(drift.into()),
                    jitter: (tick * drift.into() * drift.into()).over_up((PPB * PPB).into()),
                });
            }
            rate = rate.max(own)?;
            late
        }
        ContractKind::Rate => {
            seconds(Int(contract.tick_error_ns.0.checked_add(contract.shaping_interval_ns.0)?))?
        }
        ContractKind::Declared => Fraction::whole(0),
    };
    let burst = contract.burst.0.max(rate.times(waits)?.plus(frame)?)?;
    flow.keeps(rate, burst, drift);
    Some(())
}
