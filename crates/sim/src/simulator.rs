//! The simulation itself: events in order of time, frames from queue to queue.

use std::collections::VecDeque;

use crate::babble::Babble;
use crate::clock::Clock;
use crate::gates::since;
use crate::model::{Binding, Model, NONE, PortModel};
use crate::queue::EventQueue;
use crate::random::Random;
use crate::recovery::Recovering;
use crate::replay::tape::Tape;
use crate::scenario::{Break, Lateness, Scenario};
use crate::shaping::{Credit, Regulators};
use crate::source::Source;

mod broken;
mod cut_through;
mod meters;
mod ports;
mod preemption;
mod seen;

pub use meters::MeterSeen;
use meters::Metering;
use preemption::Pieces;
pub(crate) use preemption::pieces;
pub use seen::{ListenerSeen, PortSeen};

/// Number of frames that an unshaped source keeps in its host's queue, like a full socket.
const UNSHAPED_WINDOW: u32 = 2;
/// Tie number that comes after all other frames of the same time.
const LAST: u16 = u16::MAX;

/// A frame in the network.
#[derive(Clone, Copy, Debug)]
struct Frame {
    born_ps: u64,
    edge: u32,
    bits: u32,
    /// For a replay: the number of its departure.
    number: u32,
    /// Its number within its flow. The copies of a redundant stream's frame have the same one.
    sequence: u32,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The last bit of the frame has left its edge's cable.
    Arrives(Frame),
    /// The frame is through its latency and its regulator. `came_ps` is its arrival at the port, later by its time in
    /// the regulator.
    Eligible { frame: Frame, came_ps: u64 },
    /// The head of the frame is at a port that may forward it at once. Its last bit comes at `last_ps`.
    Heads { frame: Frame, last_ps: u64 },
    /// The head of the frame is through its latency of `late_ps`: it leaves now if the port is idle.
    Cuts {
        frame: Frame,
        last_ps: u64,
        late_ps: u64,
    },
    /// The last bit of a frame is at the port. It was decided at its head that it does not leave at once.
    Stored(Frame),
    /// As [`Event::Stored`], for a frame whose latency is known.
    Late { frame: Frame, late_ps: u64 },
    /// A port may choose its next frame.
    Wakes(u32),
    /// A piece of a frame has left a port with preemption, if it is still the one of that number.
    PieceEnds { port: u32, number: u32 },
    /// A source sends.
    Sends { flow: u32, bits: u32 },
    /// For a replay: a recorded frame departs.
    Departs { number: u32 },
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    frame: Frame,
    came_ps: u64,
}

#[derive(Clone, Debug)]
struct Port {
    queues: Vec<VecDeque<Waiting>>,
    /// One bit for each queue that is not empty.
    filled: u8,
    /// True if a wake-up is pending or the port is about to choose.
    woken: bool,
    busy_until_ps: u64,
    /// Fraction of a picosecond by which the last transmission ends later, in 1 / rate.
    fraction: u64,
    sending_bits: u32,
    /// Bits and frames that have arrived and are not being sent.
    waiting_bits: u64,
    waiting_frames: u64,
    /// Earliest time to hand over what was sent in this busy period, and the time of the last hand-over.
    hold_until_ps: u64,
    last_release_ps: u64,
    /// The tie number of the last hand-over. At equal times a link keeps its order.
    last_tie: u16,
    /// For a port with gates: the valid wake-up.
    wake_ps: u64,
    /// The credit of each class with a credit-based shaper.
    credits: Vec<Option<Credit>>,
    /// For a port with preemption: the piece of a frame that is being sent, and the frame that it interrupted.
    pieces: Pieces,
    seen: PortSeen,
}

impl Port {
    /// Returns the most urgent class with a frame that may be sent, or the time at which the next one may be.
    fn with_credit(&mut self, now_ps: u64) -> Result<Option<u32>, u64> {
        let mut ready_ps = u64::MAX;
        for class in (0..self.credits.len()).rev() {
            let filled = self.filled & (1 << class) != 0;
            if let Some(credit) = &mut self.credits[class] {
                credit.look(now_ps, filled);
                if filled {
                    let at = credit.ready_ps(now_ps);
                    if at <= now_ps {
                        return Ok(Some(class as u32));
                    }
                    ready_ps = ready_ps.min(at);
                }
            } else if filled {
                return Ok(Some(class as u32));
            }
        }
        if ready_ps == u64::MAX {
            Ok(None)
        } else {
            Err(ready_ps)
        }
    }
}

/// Simulates scenarios of one network. Keeps its memory between them.
#[derive(Clone, Debug)]
pub struct Simulator<'a> {
    model: &'a Model,
    events: EventQueue<Event>,
    ports: Vec<Port>,
    sources: Vec<Option<Source>>,
    sent: Vec<u64>,
    listeners: Vec<ListenerSeen>,
    /// Ports that choose after all events of this time.
    choosing: Vec<u32>,
    random: Random,
    now_ps: u64,
    frame_hops: u64,
    copies: u64,
    delivered: u64,
    dropped: u64,
    drift_ppm: Vec<i32>,
    lateness: Vec<Lateness>,
    clocks: Vec<Clock>,
    duration_ps: u64,
    last_at_ties: u32,
    /// For each edge: arrivals at the port.
    came: Vec<Came>,
    /// The same before the first frame.
    fresh: Vec<Came>,
    /// For frames of the flow that is last at ties: entry into the talker's queue, edge, and arrival at the edge's
    /// port, ps.
    trace: Vec<(u64, u32, u64)>,
    regulators: Regulators,
    /// For each lane: the time at which its last frame leaves it, and that frame's tie number.
    lanes: Vec<(u64, u16)>,
    /// For each lane: the number of frames whose heads have come and that are not in the queue yet.
    heads: Vec<u32>,
    /// For a replay: the recorded departures and what becomes of them.
    tape: Option<Tape>,
    recoveries: Vec<Recovering>,
    meters: Vec<Metering>,
    breaks: Vec<Break>,
}

/// Arrivals of an edge's frames at its port.
#[derive(Clone, Copy, Debug)]
struct Came {
    /// That of the first one; `u64::MAX` if there is none. Picoseconds.
    first_ps: u64,
    /// That of the last one of its first burst so far.
    burst_ps: u64,
    /// The number of frames left of that burst.
    left: u32,
}

fn credits(port: &PortModel) -> Vec<Option<Credit>> {
    let slopes = port.idle_bps.iter();
    slopes
        .map(|idle| idle.map(|idle| Credit::new(idle, port.rate_bps)))
        .collect()
}

/// Returns the true time at which a clock that is fast by `ppm` shows `local_ps`.
fn true_time(local_ps: u64, ppm: i32) -> u64 {
    if ppm == 0 {
        return local_ps;
    }
    let million = 1_000_000_i64;
    let speed = u128::from((million + i64::from(ppm)).max(1).unsigned_abs());
    u64::try_from(u128::from(local_ps) * 1_000_000 / speed).unwrap_or(u64::MAX)
}

impl<'a> Simulator<'a> {
    /// Creates a simulator without a scenario.
    #[must_use]
    pub fn new(model: &'a Model) -> Simulator<'a> {
        let ports = model.ports.iter().map(|port| Port {
            queues: vec![VecDeque::new(); usize::from(port.classes)],
            filled: 0,
            woken: false,
            busy_until_ps: 0,
            fraction: 0,
            sending_bits: 0,
            waiting_bits: 0,
            waiting_frames: 0,
            hold_until_ps: 0,
            last_release_ps: 0,
            last_tie: 0,
            wake_ps: u64::MAX,
            credits: credits(port),
            pieces: Pieces::default(),
            seen: PortSeen {
                class_delay_ps: vec![0; usize::from(port.classes)],
                ..PortSeen::default()
            },
        });
        let fresh: Vec<Came> = model
            .edges
            .iter()
            .map(|edge| Came {
                first_ps: u64::MAX,
                burst_ps: 0,
                left: model.flows[edge.flow as usize].burst_frames(),
            })
            .collect();
        Simulator {
            model,
            events: EventQueue::new(model.gap_ps),
            ports: ports.collect(),
            sources: Vec::new(),
            sent: vec![0; model.flows.len()],
            listeners: vec![ListenerSeen::default(); model.listeners.len()],
            choosing: Vec::new(),
            random: Random::new(0, 0),
            now_ps: 0,
            frame_hops: 0,
            copies: 0,
            delivered: 0,
            dropped: 0,
            drift_ppm: Vec::new(),
            lateness: Vec::new(),
            clocks: Vec::new(),
            duration_ps: 0,
            last_at_ties: NONE,
            came: fresh.clone(),
            fresh,
            trace: Vec::new(),
            regulators: Regulators::new(model),
            lanes: vec![(0, 0); model.lanes],
            heads: vec![0; model.lanes],
            tape: None,
            recoveries: Vec::new(),
            meters: Vec::new(),
            breaks: Vec::new(),
        }
    }

    /// Simulates a scenario from its start until no frame is left in the network.
    ///
    /// # Panics
    /// If the scenario is of another network: it has fewer sources, ports or hosts.
    pub fn run(&mut self, scenario: &Scenario) {
        self.start(scenario);
        self.play_until(u64::MAX);
    }

    /// Starts a scenario. [`Simulator::play_until`] continues it.
    ///
    /// # Panics
    /// As [`Simulator::run`].
    pub fn start(&mut self, scenario: &Scenario) {
        assert!(
            scenario.sources.len() == self.model.flows.len()
                && scenario.lateness.len() == self.model.ports.len()
                && scenario.drift_ppm.len() == self.model.hosts.len()
                && (scenario.clocks.is_empty() || scenario.clocks.len() == self.model.nodes.len()),
            "the scenario is not of this network"
        );
        self.reset(scenario);
        for flow in 0..self.model.flows.len() {
            let number = flow as u32;
            // Both copies of a frame are sent at once, so a second copy does what the first one does.
            let leader = self.model.flows[flow].leader;
            let behaviour = scenario.sources[leader as usize];
            if self.model.flows[flow].binding == Binding::Unshaped {
                self.sources.push(None);
                for _ in 0..UNSHAPED_WINDOW {
                    let bits = self.model.flows[flow].bits;
                    self.send_at(number, behaviour.phase_ps, bits);
                }
                continue;
            }
            let random = Random::new(scenario.seed, u64::from(leader));
            let source = Source::new(&self.model.flows[flow], behaviour, random);
            let source = if scenario.babbling.contains(&flow) {
                source.babbling(self.babble(flow, behaviour.phase_ps))
            } else {
                source
            };
            self.sources.push(Some(source));
            self.schedule_source(number);
        }
    }

    fn babble(&self, flow: usize, phase_ps: u64) -> Babble {
        let own = &self.model.flows[flow];
        let first = self.model.branches.get(own.branches.0 as usize);
        let port = first.map(|edge| self.model.edges[*edge as usize].port);
        let rate_bps = port.map_or(1, |port| self.model.ports[port as usize].rate_bps);
        Babble::new(own, phase_ps, rate_bps, self.model.least_bits)
    }

    fn reset(&mut self, scenario: &Scenario) {
        self.events.clear();
        self.regulators.reset(self.model);
        self.lanes.fill((0, 0));
        self.heads.fill(0);
        for (port, model) in self.ports.iter_mut().zip(&self.model.ports) {
            port.credits = credits(model);
            port.pieces = Pieces::default();
            for queue in &mut port.queues {
                queue.clear();
            }
            port.filled = 0;
            port.woken = false;
            port.busy_until_ps = 0;
            port.fraction = 0;
            port.sending_bits = 0;
            port.waiting_bits = 0;
            port.waiting_frames = 0;
            port.hold_until_ps = 0;
            port.last_release_ps = 0;
            port.last_tie = 0;
            port.wake_ps = u64::MAX;
            port.seen.off_window = 0;
            port.seen.backlog_bits = 0;
            port.seen.backlog_frames = 0;
            port.seen.dropped = 0;
            port.seen.class_delay_ps.fill(0);
        }
        for listener in &mut self.listeners {
            listener.received = 0;
            listener.judged = 0;
            listener.worst_ps = 0;
            listener.least_ps = 0;
            listener.worst_born_ps = 0;
            listener.histogram.clear();
            listener.cut = 0;
        }
        self.recoveries.clear();
        for recovery in &self.model.recoveries {
            self.recoveries.push(Recovering::new(
                recovery.history_length,
                recovery.reset_ms,
                recovery.delay_ps,
            ));
        }
        self.meters.clear();
        self.meters
            .extend(self.model.meters.iter().map(Metering::new));
        self.breaks.clone_from(&scenario.breaks);
        self.sources.clear();
        self.sent.fill(0);
        self.came.copy_from_slice(&self.fresh);
        self.trace.clear();
        self.choosing.clear();
        self.random = Random::new(scenario.seed, 1 << 41);
        self.now_ps = 0;
        self.frame_hops = 0;
        self.copies = 0;
        self.delivered = 0;
        self.dropped = 0;
        self.drift_ppm.clone_from(&scenario.drift_ppm);
        self.lateness.clone_from(&scenario.lateness);
        self.clocks.clone_from(&scenario.clocks);
        self.duration_ps = scenario.duration_ps;
        self.last_at_ties = scenario.last_at_ties.map_or(NONE, |flow| flow as u32);
    }

    /// Continues to the end of `until_ps`, or until no event is left. Returns true if events are left.
    pub fn play_until(&mut self, until_ps: u64) -> bool {
        loop {
            while let Some(event) = self.events.pop_at(self.now_ps) {
                self.happen(event);
            }
            if !self.choosing.is_empty() {
                // Choosing creates only later events.
                for index in 0..self.choosing.len() {
                    self.choose(self.choosing[index]);
                }
                self.choosing.clear();
                continue;
            }
            match self.events.next_time_ps() {
                Some(next) if next <= until_ps => self.now_ps = next,
                Some(_) => return true,
                None => return false,
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrives(frame) => {
                let edge = &self.model.edges[frame.edge as usize];
                let (first, end) = edge.branches;
                if edge.listener != NONE {
                    let delay = self.now_ps - frame.born_ps;
                    let judged_ps = self.model.flows[edge.flow as usize].judged_ps;
                    let seen = &mut self.listeners[edge.listener as usize];
                    seen.received += 1;
                    if let Some(tape) = &mut self.tape {
                        tape.arrived(self.model, frame.number, edge.listener, delay);
                    } else if frame.born_ps >= judged_ps {
                        seen.judge(delay, frame.born_ps);
                    }
                    self.delivered += 1;
                    self.copies += 1;
                    let now_ps = self.now_ps;
                    let flow = edge.flow;
                    if let Some(recovery) = self.recovery(flow) {
                        recovery.arrives(frame.sequence, frame.born_ps, now_ps);
                    }
                }
                // The arrived copy ends here; each branch makes its own.
                self.copies -= 1;
                if !self.passes_meter(frame) {
                    return;
                }
                for branch in first..end {
                    let edge = self.in_cycle(self.model.branches[branch as usize]);
                    // Its head came before.
                    if !self.has_head(edge, frame.bits) {
                        self.copies += 1;
                        self.enter(Frame { edge, ..frame });
                    }
                }
            }
            Event::Eligible { frame, came_ps } => {
                let port = self.model.edges[frame.edge as usize].port;
                self.queue(port, Waiting { frame, came_ps });
            }
            Event::Heads { frame, last_ps } => self.head(frame, last_ps),
            Event::Cuts {
                frame,
                last_ps,
                late_ps,
            } => self.cut(frame, last_ps, late_ps),
            Event::Late { frame, late_ps } => self.stored(frame, self.now_ps, late_ps),
            Event::Stored(frame) => self.enter(frame),
            Event::Wakes(port) => {
                // If gates made the port wait, an earlier wake-up may have been set since.
                let gated = self.model.ports[port as usize].gates.is_some();
                if !gated || self.ports[port as usize].wake_ps == self.now_ps {
                    self.choosing.push(port);
                }
            }
            Event::PieceEnds { port, number } => self.piece_ends(port, number),
            Event::Sends { flow, bits } => {
                // It is looked at in the lower bits only, once it is larger.
                let sequence = self.sent[flow as usize] as u32;
                self.sent[flow as usize] += 1;
                let (first, end) = self.model.flows[flow as usize].branches;
                let born_ps = self.now_ps;
                if let Some(recovery) = self.recovery(flow) {
                    recovery.sent(sequence, born_ps);
                }
                let number = match &mut self.tape {
                    Some(tape) => tape.sent(self.model, flow, born_ps, bits),
                    None => NONE,
                };
                let frame = Frame {
                    born_ps,
                    edge: NONE,
                    bits,
                    number,
                    sequence,
                };
                self.enter_branches(first, end, frame);
                if self.sources[flow as usize].is_some() {
                    self.schedule_source(flow);
                }
            }
            Event::Departs { number } => self.depart(number),
        }
    }

    /// Returns the edge over which a frame goes on that arrives now: where queueing is cyclic, by the number of the cycle.
    fn in_cycle(&self, edge: u32) -> u32 {
        let Some(cycles) = self.model.edges[edge as usize].cycles else {
            return edge;
        };
        let clock = self.clocks.get(cycles.node as usize).copied();
        let shown_ps = clock.unwrap_or_default().shows_ps(self.now_ps);
        let both_ps = cycles.cycle_ps.saturating_mul(2);
        let into_ps = since(shown_ps, cycles.base_ps, both_ps);
        if into_ps < cycles.cycle_ps {
            edge
        } else {
            cycles.odd
        }
    }

    /// Lets a copy of a frame enter each of its next ports.
    fn enter_branches(&mut self, first: u32, end: u32, frame: Frame) {
        for branch in first..end {
            let edge = self.model.branches[branch as usize];
            self.copies += 1;
            self.enter(Frame { edge, ..frame });
        }
    }

    /// Plays recorded departures instead of sources, with every port late in the same way. Returns the departures with
    /// what became of them, and true if frames are left at `until_ps`.
    pub(crate) fn replay(&mut self, tape: Tape, late: Lateness, until_ps: u64) -> (Tape, bool) {
        self.reset(&Scenario {
            seed: 0,
            duration_ps: u64::MAX,
            sources: Vec::new(),
            lateness: vec![late; self.model.ports.len()],
            drift_ppm: Vec::new(),
            last_at_ties: None,
            clocks: Vec::new(),
            breaks: Vec::new(),
            babbling: Vec::new(),
        });
        self.tape = Some(tape);
        self.await_departure(0);
        let left = self.play_until(until_ps);
        (self.tape.take().unwrap_or_default(), left)
    }

    /// Runs a scenario. Returns the flow and the release of each frame that its sources sent, ps.
    ///
    /// # Panics
    /// As [`Simulator::run`].
    pub fn releases(&mut self, scenario: &Scenario) -> Vec<(usize, u64)> {
        let tape = self.record(scenario);
        tape.releases().collect()
    }

    /// Runs a scenario and returns what its sources sent and what became of it.
    pub(crate) fn record(&mut self, scenario: &Scenario) -> Tape {
        self.start(scenario);
        self.tape = Some(Tape::default());
        self.play_until(u64::MAX);
        self.tape.take().unwrap_or_default()
    }

    fn await_departure(&mut self, number: u32) {
        let next = self.tape.as_ref().and_then(|tape| tape.entry(number));
        if let Some(entry) = next {
            self.events.push(entry.at_ps, 0, Event::Departs { number });
        }
    }

    fn depart(&mut self, number: u32) {
        let Some(entry) = self.tape.as_ref().and_then(|tape| tape.entry(number)) else {
            return;
        };
        let (first, end) = self.model.flows[entry.flow as usize].branches;
        let frame = Frame {
            born_ps: self.now_ps,
            edge: NONE,
            bits: entry.bits,
            number,
            sequence: 0,
        };
        self.enter_branches(first, end, frame);
        // One departure is pending at a time, so the queue of events stays small.
        self.await_departure(number + 1);
    }

    fn schedule_source(&mut self, flow: u32) {
        while let Some((local_ps, bits)) =
            self.sources[flow as usize].as_mut().and_then(Source::next)
        {
            let host = self.model.flows[flow as usize].host as usize;
            let at = match self.model.flows[flow as usize].binding {
                Binding::Launch { .. } => {
                    let (clock, shown_ps) = (self.clock(host), i64::try_from(local_ps));
                    let shown_ps = shown_ps.unwrap_or(i64::MAX);
                    if shown_ps < clock.shows_ps(0) {
                        // This time is before the start of the simulation.
                        continue;
                    }
                    clock.when_ps(shown_ps)
                }
                _ => true_time(local_ps, self.drift_ppm[host]),
            };
            let at = at.max(self.now_ps);
            if self
                .is_both_copies(flow, local_ps)
                .unwrap_or(at <= self.duration_ps)
            {
                let tie = self.tie(flow);
                self.events.push(at, tie, Event::Sends { flow, bits });
            }
            return;
        }
    }

    fn send_at(&mut self, flow: u32, at_ps: u64, bits: u32) {
        if at_ps <= self.duration_ps {
            let tie = self.tie(flow);
            self.events.push(at_ps, tie, Event::Sends { flow, bits });
        }
    }

    fn clock(&self, node: usize) -> Clock {
        self.clocks.get(node).copied().unwrap_or_default()
    }

    fn tie(&self, flow: u32) -> u16 {
        if flow == self.last_at_ties { LAST } else { 0 }
    }
}
