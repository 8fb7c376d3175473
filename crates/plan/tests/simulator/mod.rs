//! A packet-level simulator: events in integer picoseconds, store and forward, FIFO or strict priority.
//!
//! It shares no formula with the crate. It only moves frames.

mod babble;
mod cyclic;
mod preemption;

use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use cyclic::{Cycles, Turn};
use preemption::Merge;
use rtwire_plan::{ContractKind, CutThrough, CyclicQueueing, FlowMeter, Network, Release};

const PS: u128 = 1_000_000_000_000;

/// A generator of numbers (xorshift), so that a failure can be repeated from its seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit.max(1)
    }
}

/// The behaviour of sources and switches within the limits of the description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// All at once, as early as the contracts allow; ports are as late as they may be.
    Greedy,
    /// As greedy, but no port is late.
    GreedyPrompt,
    /// Random phases and pauses; latencies at random.
    Random,
}

/// The result of a simulation.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Largest delay in ps for each flow and receiver.
    pub(crate) delays_ps: BTreeMap<(usize, String), u128>,
    /// Largest backlog of each directed port: bits of whole frames that have not been sent.
    pub(crate) backlog_bits: BTreeMap<(String, String), u128>,
    /// Frames delivered.
    pub(crate) delivered: u64,
    /// The frames of redundant streams that arrived, in order.
    pub(crate) arrivals: Vec<Arrival>,
    /// The instants at which each flow sent its frames, ps.
    pub(crate) sent_ps: Vec<Vec<u128>>,
    /// The frames of each flow that a meter discarded.
    pub(crate) discarded: BTreeMap<usize, u64>,
    /// The least delay in ps for each flow and receiver.
    pub(crate) least_ps: BTreeMap<(usize, String), u128>,
    /// The frames of cyclic streams that were not sent in the cycle after the one in which they came.
    pub(crate) missed: u64,
}

/// Faults in a network, the meters that guard it, and its cycles.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults<'a> {
    pub(crate) broken: &'a [Broken],
    /// The flow whose talker sends without regard to its contract.
    pub(crate) babbling: Option<usize>,
    pub(crate) meters: &'a [FlowMeter],
    pub(crate) cyclic: Option<&'a CyclicQueueing>,
}

/// The arrival of a frame of a redundant stream at its listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// The copy's flow.
    pub(crate) flow: usize,
    /// The frame's place among those of its flow.
    pub(crate) number: usize,
    pub(crate) at_ps: u128,
}

/// A link, from one node to another, that loses all frames of which a part is on it from one instant to another, ps.
#[derive(Clone, Debug)]
pub(crate) struct Broken {
    pub(crate) ends: (String, String),
    pub(crate) from_ps: u128,
    pub(crate) until_ps: u128,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    flow: usize,
    bits: u128,
    born: u128,
    number: usize,
}

struct Source {
    /// The burst in bits and the rate in bit/s, each as a fraction.
    burst: (u128, u128),
    rate: (u128, u128),
    frame_bits: u128,
    pcp: u8,
    /// The next nodes of each node.
    next: Tree,
    start: String,
    receivers: Vec<String>,
    interval_ps: Option<u128>,
    /// The number of frames in each interval.
    group: u32,
    jitter_ps: u128,
}

#[derive(Default)]
struct Port {
    stated: Option<[u8; 8]>,
    queues: Vec<VecDeque<Frame>>,
    busy_until: u128,
    /// The instant until which the port is idle although frames wait: its own lateness.
    held_until: u128,
    backlog: u128,
    sending: Option<(Frame, u128)>,
    rate: u128,
    latency_ps: u128,
    /// The time by which the latencies of every input differ at least.
    varies_ps: u128,
    /// True if a frame keeps all its memory until its last bit has left.
    keeps_whole: bool,
    /// The instant at which the last frame of an input and a queue entered that queue.
    entered: BTreeMap<(String, usize), u128>,
    catches_up: bool,
    cable_ps: u128,
    last_release: u128,
    /// Frames that may be interrupted, and the one that is.
    merge: Option<Merge>,
    /// Frames of cyclic streams, and the cycle in which each came.
    cyclic: Vec<(u128, Frame)>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The end of a transmission at a port.
    Sent(usize),
    /// A frame appears at a node, from a neighbour or from its own talker.
    Arrives {
        node: String,
        from: String,
        flow: usize,
        born: u128,
        number: usize,
    },
    /// The head of a frame from a neighbour is through its latency at a port that may forward it at once. Its last bit comes
    /// at `last`.
    Cuts {
        port: usize,
        from: String,
        flow: usize,
        born: u128,
        number: usize,
        last: u128,
    },
    /// A port that was late may start.
    Wakes(usize),
    /// A frame appears in a port's queue (after a switch's latency).
    Enters {
        port: usize,
        flow: usize,
        born: u128,
        number: usize,
    },
}

/// Returns the queue of a priority at a port: as stated, else an eighth of the queues for each priority.
fn class(pcp: u8, port: &Port) -> usize {
    match port.stated {
        Some(map) => usize::from(map[usize::from(pcp)]),
        None => usize::from(pcp) * port.queues.len() / 8,
    }
}

/// Returns the instants in ps at which a source hands its frames to its host, within its contract.
fn instants(source: &Source, behaviour: Behaviour, horizon_ps: u128, dice: &mut Dice) -> Vec<u128> {
    let mut list = Vec::new();
    if let Some(interval) = source.interval_ps {
        // Frame n may be up to the tick error late: the first as late as it may be, the others on time, is densest.
        let phase = match behaviour {
            Behaviour::Random => u128::from(dice.below(u64::try_from(interval).unwrap())),
            _ => 0,
        };
        let first_late = if behaviour == Behaviour::Random {
            u128::from(dice.below(u64::try_from(source.jitter_ps + 1).unwrap()))
        } else {
            source.jitter_ps
        };
        let mut n = 0;
        loop {
            // Time is counted from the latest possible first release, so that greedy sources meet at zero.
            let nominal = phase + n * interval + source.jitter_ps;
            let late = match behaviour {
                _ if n == 0 => first_late,
                Behaviour::Random => {
                    u128::from(dice.below(u64::try_from(source.jitter_ps + 1).unwrap()))
                }
                _ => 0,
            };
            let at = (nominal + late).saturating_sub(2 * source.jitter_ps);
            let at = list.last().map_or(at, |last: &u128| at.max(*last));
            if at > horizon_ps {
                return list;
            }
            for _ in 0..source.group {
                list.push(at);
            }
            n += 1;
        }
    }
    // A token bucket: tokens in units of 1 / (rate.1 * burst.1 * PS) bit, starting full.
    let unit = source.rate.1 * source.burst.1;
    let full = source.burst.0 * source.rate.1 * PS;
    let fill = source.rate.0 * source.burst.1;
    let cost = source.frame_bits * unit * PS;
    let (mut tokens, mut now) = (full, 0_u128);
    if behaviour == Behaviour::Random {
        now = u128::from(dice.below(2_000_000_000));
    }
    while now <= horizon_ps {
        if tokens >= cost {
            tokens -= cost;
            list.push(now);
            if behaviour == Behaviour::Random && dice.below(4) == 0 {
                let pause = u128::from(dice.below(3_000_000_000));
                now += pause;
                tokens = full.min(tokens + fill * pause);
            }
        } else if fill == 0 {
            break;
        } else {
            let wait = (cost - tokens).div_ceil(fill);
            now += wait;
            tokens = full.min(tokens + fill * wait);
        }
    }
    list
}

fn fraction(ratio: rtwire_plan::Ratio) -> (u128, u128) {
    (
        u128::try_from(ratio.num()).unwrap(),
        u128::try_from(ratio.den()).unwrap(),
    )
}

/// The next nodes, by the node before and the node; at the talker it is the node before, too.
type Tree = BTreeMap<(String, String), Vec<String>>;

fn tree(routes: &[Vec<String>]) -> Tree {
    let mut next = Tree::new();
    for route in routes {
        let mut before = &route[0];
        for pair in route.windows(2) {
            let list = next.entry((before.clone(), pair[0].clone())).or_default();
            if !list.contains(&pair[1]) {
                list.push(pair[1].clone());
            }
            before = &pair[0];
        }
    }
    next
}

fn sources(network: &Network) -> Vec<Source> {
    let mut list = Vec::new();
    for stream in &network.streams {
        list.push(Source {
            burst: fraction(stream.contract.burst),
            rate: fraction(stream.contract.rate),
            frame_bits: u128::from(stream.wire_bytes) * 8,
            pcp: stream.pcp,
            next: tree(&stream.routes),
            start: stream.talker.clone(),
            receivers: stream.listeners.clone(),
            interval_ps: match stream.contract.kind {
                ContractKind::Interval { interval_ns, .. } => Some(u128::from(interval_ns) * 1_000),
                _ => None,
            },
            group: stream.contract.kind.frames(),
            jitter_ps: u128::from(stream.contract.tick_error_ns) * 1_000,
        });
    }
    for allowance in &network.best_effort {
        list.push(Source {
            burst: fraction(allowance.burst),
            rate: fraction(allowance.rate),
            frame_bits: u128::from(allowance.wire_bytes) * 8,
            pcp: 0,
            next: tree(&allowance.routes),
            start: allowance.host.clone(),
            receivers: allowance.to.clone(),
            interval_ps: None,
            group: 1,
            jitter_ps: 0,
        });
    }
    list
}

/// Simulates a network for a while.
pub(crate) fn simulate(
    network: &Network,
    behaviour: Behaviour,
    horizon_ps: u128,
    dice: &mut Dice,
) -> Outcome {
    simulate_with(network, behaviour, horizon_ps, dice, Faults::default())
}

/// Simulates a network for a while with broken links.
pub(crate) fn simulate_broken(
    network: &Network,
    behaviour: Behaviour,
    horizon_ps: u128,
    dice: &mut Dice,
    broken: &[Broken],
) -> Outcome {
    let faults = Faults {
        broken,
        ..Faults::default()
    };
    simulate_with(network, behaviour, horizon_ps, dice, faults)
}

/// Simulates a network for a while in which something goes wrong.
pub(crate) fn simulate_with(
    network: &Network,
    behaviour: Behaviour,
    horizon_ps: u128,
    dice: &mut Dice,
    faults: Faults<'_>,
) -> Outcome {
    let broken = faults.broken;
    let copies: Vec<Option<usize>> = network
        .streams
        .iter()
        .map(|stream| {
            let first = stream.copy_of.as_ref()?;
            network.streams.iter().position(|one| one.name == *first)
        })
        .collect();
    let redundant =
        |flow: usize| copies.get(flow).is_some_and(Option::is_some) || copies.contains(&Some(flow));
    let sources = sources(network);
    let mut names: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut ports: Vec<Port> = Vec::new();
    for link in &network.links {
        let [a, b] = &link.ends;
        for (from, to) in [(a, b), (b, a)] {
            let latency = network.port_latency(from, to);
            names.insert((from.clone(), to.clone()), ports.len());
            ports.push(Port {
                queues: vec![VecDeque::new(); usize::from(network.queues(from))],
                stated: network.priority_map(from).copied(),
                rate: u128::from(link.rate_bps),
                latency_ps: u128::from(latency.max_ns) * 1_000,
                varies_ps: network
                    .neighbours(from)
                    .filter(|input| input != to)
                    .map(|input| network.input_latency(input, from, to))
                    .map(|latency| u128::from(latency.max_ns - latency.min_ns) * 1_000)
                    .min()
                    .unwrap_or(0),
                keeps_whole: network
                    .switch(from)
                    .is_none_or(|switch| switch.buffer.release == Release::Frame),
                catches_up: latency.catches_up,
                cable_ps: u128::from(link.cable_delay_ns) * 1_000,
                merge: Merge::of(network, from, to),
                ..Port::default()
            });
        }
    }
    let ends: Vec<(String, String)> = {
        let mut ends = vec![(String::new(), String::new()); ports.len()];
        for (name, index) in &names {
            ends[*index] = name.clone();
        }
        ends
    };
    let mut outcome = Outcome::default();
    let mut cycles = faults.cyclic.map(|it| Cycles::new(network, it));
    // The cycle in which a frame came to a port.
    let mut came: BTreeMap<(usize, usize, usize), u128> = BTreeMap::new();
    let mut cycle_at: BTreeMap<(usize, usize, String), u128> = BTreeMap::new();
    // The frames that were forwarded before their last bit, by port, input, and the time of that bit.
    let mut cut: BTreeSet<(usize, String, u128)> = BTreeSet::new();
    let header_bits = u128::from(network.header_bytes()) * 8;
    let overhead = network.defaults.frame_overhead_bytes;
    let mut meters: BTreeMap<(usize, String), babble::Bucket> = BTreeMap::new();
    for meter in faults.meters {
        let streams = network.streams.iter().map(|it| (&it.name, false));
        let mut flows = streams.chain(network.best_effort.iter().map(|it| (&it.name, true)));
        let flow = flows.position(|it| it == (&meter.flow, meter.best_effort));
        let drift = i64::try_from(network.defaults.clock_drift_ppb).unwrap();
        let fast = [-drift, 0, drift][usize::try_from(dice.below(3)).unwrap()];
        let bucket = babble::Bucket::new(meter, overhead, fast);
        meters.insert((flow.unwrap(), meter.switch.clone()), bucket);
    }
    // The sizes of frames that differ from those of their flow.
    let mut sizes: BTreeMap<(usize, usize), u128> = BTreeMap::new();
    // The order of events at one instant is part of the behaviour: frames arrive before a port chooses.
    let mut events: BinaryHeap<std::cmp::Reverse<(u128, u8, u64, Event)>> = BinaryHeap::new();
    let mut serial = 0_u64;
    for (flow, source) in sources.iter().enumerate() {
        if faults.babbling == Some(flow) {
            let first = &source.next[&(source.start.clone(), source.start.clone())][0];
            let rate = ports[names[&(source.start.clone(), first.clone())]].rate;
            let least = source.frame_bits.min(u128::from(60 + overhead) * 8);
            let list = babble::babble(
                (source.frame_bits, least, rate),
                behaviour,
                horizon_ps,
                dice,
            );
            outcome.sent_ps.push(Vec::new());
            for (number, (at, bits)) in list.into_iter().enumerate() {
                sizes.insert((flow, number), bits);
                serial += 1;
                let (node, from) = (source.start.clone(), source.start.clone());
                let event = Event::Arrives {
                    node,
                    from,
                    flow,
                    born: at,
                    number,
                };
                events.push(std::cmp::Reverse((at, 0, serial, event)));
            }
            continue;
        }
        // The copies of a frame are sent at once.
        let list = match copies.get(flow).copied().flatten() {
            Some(first) => outcome.sent_ps[first].clone(),
            None => instants(source, behaviour, horizon_ps, dice),
        };
        outcome.sent_ps.push(list.clone());
        for (number, at) in list.into_iter().enumerate() {
            serial += 1;
            let tie = if behaviour == Behaviour::Random {
                dice.below(1 << 20) << 32 | serial
            } else {
                serial
            };
            let event = Event::Arrives {
                node: source.start.clone(),
                from: source.start.clone(),
                flow,
                born: at,
                number,
            };
            events.push(std::cmp::Reverse((at, 0, tie, event)));
        }
    }
    let bits_of = |flow: usize, number: usize| {
        let own = sizes.get(&(flow, number));
        own.copied().unwrap_or(sources[flow].frame_bits)
    };
    let lateness = |port: &Port, dice: &mut Dice| match behaviour {
        Behaviour::Greedy => port.latency_ps,
        Behaviour::GreedyPrompt => 0,
        Behaviour::Random => u128::from(dice.below(u64::try_from(port.latency_ps + 1).unwrap())),
    };
    // A switch's latency of one frame. What is left of the largest may come at the start of a busy period.
    let of_frame = |least_ns: u64, most_ns: u64, dice: &mut Dice| match behaviour {
        // Ports with gates start often, so there is no late start that takes the rest.
        Behaviour::Greedy if faults.cyclic.is_some() => u128::from(most_ns) * 1_000,
        Behaviour::Greedy | Behaviour::GreedyPrompt => u128::from(least_ns) * 1_000,
        Behaviour::Random => match dice.below(3) {
            0 => u128::from(least_ns) * 1_000,
            1 => u128::from(most_ns) * 1_000,
            _ => {
                let varies = (most_ns - least_ns) * 1_000;
                u128::from(least_ns) * 1_000 + u128::from(dice.below(varies + 1))
            }
        },
    };
    while let Some(std::cmp::Reverse((now, _, _, event))) = events.pop() {
        let mut push = |at: u128, rank: u8, event: Event| {
            serial += 1;
            events.push(std::cmp::Reverse((at, rank, serial, event)));
        };
        let index = match event {
            Event::Arrives {
                node,
                from,
                flow,
                born,
                number,
            } => {
                if from == sources[flow].start && node != from {
                    let meter = meters.get_mut(&(flow, node.clone()));
                    if meter.is_some_and(|it| !it.passes(now, bits_of(flow, number))) {
                        *outcome.discarded.entry(flow).or_default() += 1;
                        continue;
                    }
                }
                if sources[flow].receivers.contains(&node) {
                    outcome.delivered += 1;
                    let most = outcome.delays_ps.entry((flow, node.clone())).or_default();
                    *most = (*most).max(now - born);
                    let least = outcome.least_ps.entry((flow, node.clone()));
                    let least = least.or_insert(u128::MAX);
                    *least = (*least).min(now - born);
                    if redundant(flow) {
                        outcome.arrivals.push(Arrival {
                            flow,
                            number,
                            at_ps: now,
                        });
                    }
                }
                for next in sources[flow]
                    .next
                    .get(&(from.clone(), node.clone()))
                    .into_iter()
                    .flatten()
                {
                    let index = names[&(node.clone(), next.clone())];
                    if cut.remove(&(index, from.clone(), now)) {
                        continue;
                    }
                    if let Some(cycles) = cycles.as_mut().filter(|it| it.is_of(flow, &node)) {
                        let cycle = cycles.number(&node, now, dice);
                        came.insert((index, flow, number), cycle);
                        // It comes in the cycle in which it was sent.
                        let before = cycle_at.get(&(flow, number, from.clone()));
                        outcome.missed += u64::from(before.is_some_and(|it| it + 1 != cycle));
                        cycle_at.insert((flow, number, node.clone()), cycle);
                    }
                    let port = &mut ports[index];
                    port.backlog += bits_of(flow, number);
                    let sent = match port.sending {
                        // Of the frame under way, what is on the wire already may be free (rounded down).
                        Some((frame, start)) if !port.keeps_whole => {
                            (now.saturating_sub(start) * port.rate / PS).min(frame.bits)
                        }
                        _ => 0,
                    };
                    let most = outcome.backlog_bits.entry(ends[index].clone()).or_default();
                    *most = (*most).max(port.backlog - sent);
                    let mut at = now;
                    if !port.catches_up {
                        // Frames of one input stay in order within a queue.
                        let latency = network.input_latency(&from, &node, next);
                        let late = of_frame(latency.min_ns, latency.max_ns, dice);
                        let queue = class(sources[flow].pcp, port);
                        let last = port.entered.entry((from.clone(), queue)).or_default();
                        at = (now + late).max(*last);
                        *last = at;
                    }
                    let port = index;
                    let event = Event::Enters {
                        port,
                        flow,
                        born,
                        number,
                    };
                    push(at, 1, event);
                }
                continue;
            }
            Event::Enters {
                port: index,
                flow,
                born,
                number,
            } => {
                let port = &mut ports[index];
                let frame = Frame {
                    flow,
                    bits: bits_of(flow, number),
                    born,
                    number,
                };
                if let Some(cycle) = came.remove(&(index, flow, number)) {
                    port.cyclic.push((cycle, frame));
                    push(now, 2, Event::Wakes(index));
                    continue;
                }
                let queue = class(sources[flow].pcp, port);
                let was_idle = port.sending.is_none() && port.queues.iter().all(VecDeque::is_empty);
                port.queues[queue].push_back(frame);
                if let Some(end) = port.interrupt(queue, now) {
                    push(end, 2, Event::Sent(index));
                }
                if was_idle
                    && !port.catches_up
                    && behaviour == Behaviour::Greedy
                    && faults.cyclic.is_none()
                {
                    // All latencies of a busy period may end together, with that of its first frame.
                    port.held_until = now + port.varies_ps;
                    push(port.held_until, 2, Event::Wakes(index));
                    continue;
                }
                push(now, 2, Event::Wakes(index));
                continue;
            }
            Event::Sent(index) => {
                let port = &mut ports[index];
                // The end of a frame that was interrupted before.
                if port.busy_until != now {
                    continue;
                }
                if let Some(frame) = port.piece_ends() {
                    port.backlog -= frame.bits;
                    // Such a port hands frames over late, in order, and then in quick succession.
                    let release = if port.catches_up {
                        (now + lateness(port, dice)).max(port.last_release)
                    } else {
                        now
                    };
                    port.last_release = release;
                    let event = Event::Arrives {
                        node: ends[index].1.clone(),
                        from: ends[index].0.clone(),
                        flow: frame.flow,
                        born: frame.born,
                        number: frame.number,
                    };
                    let (began, end) = (now - frame.bits * PS / port.rate, release + port.cable_ps);
                    let lost = broken.iter().any(|link| {
                        link.ends == ends[index] && began < link.until_ps && end >= link.from_ps
                    });
                    if !lost {
                        push(end, 0, event);
                    }
                }
                index
            }
            Event::Cuts {
                port: index,
                from,
                flow,
                born,
                number,
                last,
            } => {
                let port = &mut ports[index];
                let queue = class(sources[flow].pcp, port);
                let idle = port.sending.is_none() && port.queues.iter().all(VecDeque::is_empty);
                let before = port.entered.entry((from.clone(), queue)).or_default();
                if idle && now < last && now >= port.held_until && *before <= now {
                    *before = now;
                    let bits = bits_of(flow, number);
                    port.queues[queue].push_back(Frame {
                        flow,
                        bits,
                        born,
                        number,
                    });
                    port.backlog += bits;
                    let most = outcome.backlog_bits.entry(ends[index].clone()).or_default();
                    *most = (*most).max(port.backlog);
                    cut.insert((index, from, last));
                    push(now, 2, Event::Wakes(index));
                }
                continue;
            }
            Event::Wakes(index) => index,
        };
        let port = &mut ports[index];
        if port.sending.is_none() && port.backlog > 0 && now >= port.held_until {
            let turn = match &mut cycles {
                Some(cycles) if !port.cyclic.is_empty() => {
                    let ends = (ends[index].0.as_str(), ends[index].1.as_str());
                    cyclic::turn(&mut port.cyclic, cycles, (ends, port.rate), now, dice)
                }
                _ => Turn::Empty,
            };
            let next = match turn {
                Turn::Sends(frame, late) => {
                    outcome.missed += u64::from(late);
                    Some((frame, frame.bits))
                }
                Turn::Waits(until) => {
                    push(until, 2, Event::Wakes(index));
                    port.next()
                }
                Turn::Empty => port.next(),
            };
            if let Some((frame, bits)) = next {
                // Never slower than the link: rounded down.
                let end = now + bits * PS / port.rate;
                port.busy_until = end;
                port.sending = Some((frame, now));
                push(end, 2, Event::Sent(index));
                if port.catches_up && port.latency_ps > 0 || frame.bits <= header_bits {
                    continue;
                }
                let (from, node) = &ends[index];
                let nexts = sources[frame.flow].next.get(&(from.clone(), node.clone()));
                for next in nexts.into_iter().flatten() {
                    let cuts = match network.cut_through(from, node, next) {
                        CutThrough::Off => false,
                        CutThrough::On => true,
                        CutThrough::Possible => {
                            behaviour != Behaviour::Random || dice.below(2) == 0
                        }
                    };
                    if cuts {
                        let latency = network.input_latency(from, node, next);
                        let late = of_frame(latency.min_ns, latency.max_ns, dice);
                        let head = (header_bits * PS).div_ceil(port.rate);
                        let event = Event::Cuts {
                            port: names[&(node.clone(), next.clone())],
                            from: from.clone(),
                            flow: frame.flow,
                            born: frame.born,
                            number: frame.number,
                            last: end + port.cable_ps,
                        };
                        push(now + head + port.cable_ps + late, 1, event);
                    }
                }
            }
        }
    }
    outcome
}
