//! A network in virtual time: exact, and as fast as the machine. Every frame takes its time on a medium of 100 Mbit/s; a
//! test may drop, change, delay or add frames, and stall stations.

use crate::port::Port;
use rtwire_powerlink::cn::ControlledConfig;
use rtwire_powerlink::mn::ManagingConfig;
use rtwire_powerlink::od::DataType;
use rtwire_powerlink::pdo::Mapped;
use rtwire_powerlink::prepared;
use rtwire_powerlink::{Cdc, ControlledNode, Event, ManagingNode, ObjectDictionary};
use rtwire_wire::powerlink::{MessageType, NmtState, View};
use rtwire_wire::{MacAddress, Node};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub const MS: u64 = 1_000_000;
pub const US: u64 = 1_000;
pub const SECOND: u64 = 1_000_000_000;

pub enum Station {
    Mn(Box<ManagingNode>),
    Cn(Box<ControlledNode>),
}

impl Station {
    fn node(&mut self) -> &mut dyn Node {
        match self {
            Self::Mn(node) => &mut **node,
            Self::Cn(node) => &mut **node,
        }
    }

    fn next_event(&mut self) -> Option<Event> {
        match self {
            Self::Mn(node) => node.next_event(),
            Self::Cn(node) => node.next_event(),
        }
    }
}

/// The fate of a frame on the medium.
pub enum Fate {
    Deliver,
    Drop,
    Delay(u64),
}

type Judge = Box<dyn FnMut(u64, usize, &mut Vec<u8>) -> Fate>;

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// A frame for all but its sender.
    Frame {
        from: usize,
        slot: usize,
    },
    Wake(usize),
}

pub struct Network {
    pub now_ns: u64,
    pub stations: Vec<Station>,
    pub events: Vec<(u64, usize, Event)>,
    pub judge: Option<Judge>,
    pub record: Option<Vec<(u64, Vec<u8>)>>,
    /// The time that each station takes to react to a frame, ns.
    pub reaction_ns: Vec<u64>,
    /// The time until which each station is stalled, ns.
    pub stalled_ns: Vec<u64>,
    /// The time until which each station is cut off, ns.
    pub cut_ns: Vec<u64>,
    /// True if events are kept.
    pub keep_events: bool,
    pub frames: u64,
    queue: BinaryHeap<Reverse<(u64, u64, Due)>>,
    sequence: u64,
    slots: Vec<Vec<u8>>,
    free: Vec<usize>,
    /// The port that each station sends through.
    pub ports: Vec<Port>,
    woken_ns: Vec<u64>,
}

impl Network {
    pub fn new(stations: Vec<Station>) -> Self {
        Self::with_ports(stations, false)
    }

    /// The same; the ports send prepared frames by themselves, or not.
    pub fn with_ports(stations: Vec<Station>, sends: bool) -> Self {
        let port = || {
            let mut port = Port::default();
            port.sends = sends;
            port
        };
        let count = stations.len();
        let mut network = Self {
            now_ns: 1_000_000,
            stations,
            events: Vec::new(),
            judge: None,
            record: None,
            reaction_ns: vec![2_000; count],
            stalled_ns: vec![0; count],
            cut_ns: vec![0; count],
            keep_events: true,
            frames: 0,
            queue: BinaryHeap::new(),
            sequence: 0,
            slots: Vec::new(),
            free: Vec::new(),
            ports: (0..count).map(|_| port()).collect(),
            woken_ns: vec![u64::MAX; count],
        };
        for at in 0..count {
            let now_ns = network.now_ns;
            network.stations[at]
                .node()
                .start(now_ns, &mut network.ports[at]);
            network.after(at);
        }
        network
    }

    fn push(&mut self, at_ns: u64, due: Due) {
        self.sequence += 1;
        self.queue.push(Reverse((at_ns, self.sequence, due)));
    }

    fn transmit(&mut self, at_ns: u64, from: usize, mut frame: Vec<u8>) {
        self.frames += 1;
        let mut arrives_ns = at_ns + (frame.len().max(60) as u64 + 24) * 80 + 500;
        if let Some(judge) = &mut self.judge {
            match judge(at_ns, from, &mut frame) {
                Fate::Deliver => {}
                Fate::Drop => {
                    self.ports[from].spare.push(frame);
                    return;
                }
                Fate::Delay(ns) => arrives_ns += ns,
            }
        }
        if let Some(record) = &mut self.record {
            record.push((at_ns, frame.clone()));
        }
        let slot = match self.free.pop() {
            Some(slot) => {
                let before = std::mem::replace(&mut self.slots[slot], frame);
                self.ports[from].spare.push(before);
                slot
            }
            None => {
                self.slots.push(frame);
                self.slots.len() - 1
            }
        };
        self.push(arrives_ns, Due::Frame { from, slot });
    }

    /// Takes what a station has sent and told, and when it wants to be woken.
    fn after(&mut self, at: usize) {
        let now_ns = self.now_ns;
        self.stations[at].node().settle(&mut self.ports[at]);
        let mut sent = std::mem::take(&mut self.ports[at].frames);
        // The frames of one station follow each other on the medium.
        let mut free_ns = now_ns;
        for (frame, launch_ns) in sent.drain(..) {
            let leaves_ns = free_ns.max(launch_ns.unwrap_or(0));
            free_ns = leaves_ns + (frame.len().max(60) as u64 + 24) * 80;
            if self.cut_ns[at] <= now_ns {
                self.transmit(leaves_ns, at, frame);
            }
        }
        self.ports[at].frames = sent;
        while let Some(event) = self.stations[at].next_event() {
            if self.keep_events {
                self.events.push((now_ns, at, event));
            }
        }
        let wake_ns = self.stations[at].node().wake_at_ns().unwrap_or(u64::MAX);
        if wake_ns != self.woken_ns[at] && wake_ns != u64::MAX {
            self.woken_ns[at] = wake_ns;
            let wake_ns = wake_ns.max(now_ns);
            self.push(wake_ns, Due::Wake(at));
        }
    }

    pub fn run_until(&mut self, until_ns: u64) {
        while let Some(Reverse((at_ns, ..))) = self.queue.peek() {
            if *at_ns > until_ns {
                break;
            }
            let Some(Reverse((at_ns, _, due))) = self.queue.pop() else {
                break;
            };
            self.now_ns = self.now_ns.max(at_ns);
            match due {
                Due::Wake(at) => {
                    if self.stalled_ns[at] > self.now_ns {
                        let later = self.stalled_ns[at];
                        self.push(later, Due::Wake(at));
                        continue;
                    }
                    let now_ns = self.now_ns;
                    let wanted = self.stations[at].node().wake_at_ns();
                    if wanted.is_some_and(|wanted| wanted <= now_ns) {
                        self.woken_ns[at] = u64::MAX;
                        self.stations[at].node().moment(now_ns, &mut self.ports[at]);
                        self.after(at);
                    }
                }
                Due::Frame { from, slot } => self.deliver(from, slot),
            }
        }
        self.now_ns = until_ns;
    }

    fn deliver(&mut self, from: usize, slot: usize) {
        let now_ns = self.now_ns;
        let frame = std::mem::take(&mut self.slots[slot]);
        let view = View::new(&frame);
        let (kind, for_node) = (view.message_type(), view.destination());
        for at in 0..self.stations.len() {
            if at == from || self.cut_ns[at] > now_ns {
                continue;
            }
            // What an interface's filter does: requests for others, and responses that nobody has mapped.
            let wanted = match (&self.stations[at], kind) {
                (Station::Cn(cn), Some(MessageType::PREQ)) => for_node == Some(cn.number()),
                (Station::Cn(cn), Some(MessageType::PRES)) => {
                    let source = view.source().unwrap_or_default();
                    source == 240 || cn.image().receive_of(source).is_some()
                }
                (Station::Mn(_), Some(MessageType::PREQ)) => false,
                _ => true,
            };
            if !wanted {
                continue;
            }
            // What leaves by itself does so before the node knows of it.
            let leaving = match (&self.stations[at], kind) {
                (Station::Cn(_), Some(MessageType::PREQ)) => self.ports[at].cue(prepared::PREQ),
                (_, Some(MessageType::PRES)) => {
                    let source = view.source().unwrap_or_default();
                    self.ports[at].cue(prepared::pres(source))
                }
                _ => Vec::new(),
            };
            for (own, after_ns) in leaving {
                self.transmit(now_ns + after_ns, at, own);
            }
            // A stalled station reads the frame late, but its stamp is right.
            self.stations[at]
                .node()
                .frame(now_ns, &frame, &mut self.ports[at]);
            self.ports[at].shown();
            let reaction_ns = self.reaction_ns[at];
            for sent in &mut self.ports[at].frames {
                sent.1 = Some(sent.1.unwrap_or(0).max(now_ns + reaction_ns));
            }
            self.after(at);
        }
        self.slots[slot] = frame;
        self.free.push(slot);
    }

    pub fn run(&mut self, ns: u64) {
        let until_ns = self.now_ns + ns;
        self.run_until(until_ns);
    }

    /// Runs until `done` holds, looking each millisecond; says when, or fails after `limit_ns`.
    pub fn run_till(
        &mut self,
        limit_ns: u64,
        what: &str,
        mut done: impl FnMut(&Self) -> bool,
    ) -> u64 {
        let begin_ns = self.now_ns;
        while !done(self) {
            assert!(
                self.now_ns - begin_ns < limit_ns,
                "not within {limit_ns} ns: {what}; states {:?}; events {:#?}",
                self.states(),
                self.events.iter().rev().take(20).collect::<Vec<_>>()
            );
            self.run(MS);
        }
        self.now_ns - begin_ns
    }

    pub fn mn(&mut self) -> &mut ManagingNode {
        match &mut self.stations[0] {
            Station::Mn(node) => node,
            Station::Cn(_) => panic!("the first station is the managing node"),
        }
    }

    pub fn cn(&mut self, at: usize) -> &mut ControlledNode {
        match &mut self.stations[at] {
            Station::Cn(node) => node,
            Station::Mn(_) => panic!("station {at} is the managing node"),
        }
    }

    pub fn states(&self) -> Vec<NmtState> {
        let state = |station: &Station| match station {
            Station::Mn(node) => node.state(),
            Station::Cn(node) => node.state(),
        };
        self.stations.iter().map(state).collect()
    }

    pub fn operational(&self) -> bool {
        self.states()
            .iter()
            .all(|&state| state == NmtState::OPERATIONAL)
    }

    /// Returns the time of the first such event; `None` if none has happened.
    pub fn happened(&self, wanted: impl Fn(usize, &Event) -> bool) -> Option<u64> {
        let found = self.events.iter().find(|(_, at, event)| wanted(*at, event));
        found.map(|(ns, ..)| *ns)
    }
}

pub fn address(node: u8) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0x0e, node])
}

/// One byte in, one out, as input and output devices have them; and a domain of any size.
pub fn cn_dictionary() -> ObjectDictionary {
    let mut d = ObjectDictionary::controlled_node();
    d.set_number(0x1000, 0, 0x000f_0191);
    d.set_number(0x1018, 1, 0x42);
    d.insert_variable(0x6000, "input", DataType::Unsigned(1));
    d.insert_variable(0x6200, "output", DataType::Unsigned(1));
    d.insert_variable(0x2100, "blob", DataType::Domain);
    d
}

pub fn cn(node: u8) -> ControlledNode {
    let config = ControlledConfig {
        node,
        address: address(node),
        dictionary: cn_dictionary(),
        limits: rtwire_powerlink::cn::Limits {
            silence_ns: 0,
            ..rtwire_powerlink::cn::Limits::default()
        },
    };
    ControlledNode::new(config).unwrap()
}

pub fn mapping(index: u16, offset_octets: usize, octets: usize) -> u64 {
    let mapped = Mapped {
        index,
        subindex: 0,
        offset_octets,
        octets,
    };
    mapped.to_number()
}

/// The configuration that a configurator writes for one node.
pub fn cn_cdc(cycle_us: u64) -> Cdc {
    let mut cdc = Cdc::default();
    cdc.push(0x1600, 0, 0, 1);
    cdc.push(0x1a00, 0, 0, 1);
    cdc.push(0x1006, 0, cycle_us, 4);
    cdc.push(0x1020, 1, 14_000, 4);
    cdc.push(0x1020, 2, 5, 4);
    cdc.push(0x1600, 1, mapping(0x6200, 0, 1), 8);
    cdc.push(0x1a00, 1, mapping(0x6000, 0, 1), 8);
    cdc.push(0x1600, 0, 1, 1);
    cdc.push(0x1a00, 0, 1, 1);
    cdc
}

/// The managing node's configuration for `nodes`, with `change` applied at the end.
pub fn mn_cdc(cycle_us: u64, nodes: &[u8], change: impl FnOnce(&mut Cdc)) -> Cdc {
    let mut cdc = Cdc::default();
    cdc.push(0x1006, 0, cycle_us, 4);
    for (n, &node) in nodes.iter().enumerate() {
        let n = n as u16;
        cdc.push(0x1f81, node, 0x8000_000f, 4);
        cdc.push(0x1f92, node, 100_000, 4);
        cdc.push(0x1f26, node, 14_000, 4);
        cdc.push(0x1f27, node, 5, 4);
        cdc.push_data(0x1f22, node, cn_cdc(cycle_us).emit());
        for (first, index) in [(0x1400, 0xa000), (0x1800, 0xa400)] {
            cdc.push(first + n, 1, u64::from(node), 1);
            cdc.push(first + 0x200 + n, 1, mapping(index + n, 0, 1), 8);
            cdc.push(first + 0x200 + n, 0, 1, 1);
        }
    }
    change(&mut cdc);
    cdc
}

pub fn mn(cdc: &Cdc) -> ManagingNode {
    ManagingNode::new(ManagingConfig::from_cdc(address(240), cdc).unwrap()).unwrap()
}

pub fn network(cycle_us: u64, nodes: &[u8], change: impl FnOnce(&mut Cdc)) -> Network {
    network_with(false, cycle_us, nodes, change)
}

/// The same; the ports send prepared frames by themselves, or not.
pub fn network_with(
    sends: bool,
    cycle_us: u64,
    nodes: &[u8],
    change: impl FnOnce(&mut Cdc),
) -> Network {
    let cdc = mn_cdc(cycle_us, nodes, change);
    let mut stations = vec![Station::Mn(Box::new(mn(&cdc)))];
    stations.extend(nodes.iter().map(|&node| Station::Cn(Box::new(cn(node)))));
    Network::with_ports(stations, sends)
}
