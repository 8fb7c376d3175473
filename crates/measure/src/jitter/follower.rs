//! Follows a cycle packet by packet.

use super::frame::{Kind, PRE_OPERATIONAL_1};
use super::model::{FrameCounts, WorstCase, WorstKind};
use super::worst::{Keeper, Stored};
use crate::capture::{Packet, payload};

/// Bytes of a frame on the wire beyond header and payload: preamble, delimiter, FCS, gap.
const OVERHEAD_OCTETS: u64 = 24;
const SHORTEST_OCTETS: u64 = 60;

/// The settings of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The cycle, ns; `None` for the round number closest to the median interval.
    pub cycle_ns: Option<u64>,
    /// The rate of the link, bit/s; POWERLINK's is 100 Mbit/s.
    pub link_rate_bps: u64,
    /// Number of worst cases of each kind to keep.
    pub worst: usize,
    /// Number of packets to keep before and after each worst case.
    pub around: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cycle_ns: None,
            link_rate_bps: 100_000_000,
            worst: 5,
            around: 20,
        }
    }
}

/// A PReq without its PRes so far.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    since_ns: u64,
    /// True once the managing node has sent something else.
    gone_on: bool,
    /// True once the next SoC has arrived.
    next_cycle: bool,
}

/// The measured data of one node.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeTrack {
    waiting: Option<Waiting>,
    pub(super) polled: u64,
    pub(super) answered: u64,
    pub(super) late: u64,
    pub(super) lost: u64,
    pub(super) unasked: u64,
    /// Pairs of time (ns since the first packet) and duration, ns.
    pub(super) latencies: Vec<(u64, u64)>,
    pub(super) state: Option<u8>,
    pub(super) asked: u64,
    pub(super) async_answered: u64,
    pub(super) async_latencies: Vec<u64>,
}

/// Follows the packets of a capture.
#[derive(Debug)]
pub struct Follower {
    pub(super) settings: Settings,
    pub(super) frames: FrameCounts,
    pub(super) first_ns: Option<u64>,
    pub(super) last_ns: u64,
    last_soc_ns: Option<u64>,
    /// Time of the last SoC while its SoA is missing.
    isochronous_since_ns: Option<u64>,
    /// The node that the last SoA invited, and the SoA's time.
    asked: Option<(u8, u64)>,
    wire_octets: u64,
    pub(super) restarts: u64,
    /// Pairs of time (ns since the first packet) and duration, ns.
    pub(super) intervals: Vec<(u64, u64)>,
    pub(super) isochronous_ns: Vec<u64>,
    /// Bytes on the wire in each cycle.
    pub(super) cycle_octets: Vec<u64>,
    pub(super) nodes: Vec<NodeTrack>,
    pub(super) keeper: Keeper,
    /// True while a response is followed whose time is not known.
    untimed: bool,
}

impl Follower {
    /// Creates a follower before its first packet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            frames: FrameCounts::default(),
            first_ns: None,
            last_ns: 0,
            last_soc_ns: None,
            isochronous_since_ns: None,
            asked: None,
            wire_octets: 0,
            restarts: 0,
            intervals: Vec::new(),
            isochronous_ns: Vec::new(),
            cycle_octets: Vec::new(),
            nodes: vec![NodeTrack::default(); 256],
            keeper: Keeper::new(settings.worst, settings.around),
            untimed: false,
        }
    }

    /// Returns the number of SoC so far.
    #[must_use]
    pub fn socs(&self) -> u64 {
        self.frames.soc
    }

    /// Follows the next packet.
    pub fn packet(&mut self, packet: &Packet<'_>) {
        self.frames.packets += 1;
        let Some(now_ns) = packet.time_ns else {
            self.frames.without_time += 1;
            return;
        };
        let first_ns = *self.first_ns.get_or_insert(now_ns);
        if now_ns < self.last_ns {
            self.frames.backwards += 1;
        }
        self.last_ns = self.last_ns.max(now_ns);
        self.keeper.packet(Stored {
            number: packet.number,
            time_ns: now_ns,
            link_type: packet.link_type,
            original_octets: packet.original_octets,
            data: packet.data.to_vec(),
        });
        let kind = payload(packet.link_type, packet.data, super::ETHER_TYPE).map(Kind::of);
        let octets = u64::from(packet.original_octets).max(SHORTEST_OCTETS) + OVERHEAD_OCTETS;
        let seen = Seen {
            now_ns,
            at_ns: now_ns.saturating_sub(first_ns),
            number: packet.number,
        };
        if let Some(Some(Kind::Soc)) = kind {
            self.soc(seen);
        }
        self.wire_octets += octets;
        match kind {
            None => self.frames.not_powerlink += 1,
            Some(None) => self.frames.malformed += 1,
            Some(Some(kind)) => self.frame(kind, seen),
        }
    }

    /// Follows a response that was sent on the packet before, at a time that nobody has noted: it counts, and has no PReq–PRes
    /// time.
    pub fn untimed_response(&mut self, packet: &Packet<'_>) {
        self.untimed = true;
        self.packet(packet);
        self.untimed = false;
    }

    fn frame(&mut self, kind: Kind, seen: Seen) {
        match kind {
            Kind::Soc => self.frames.soc += 1,
            Kind::Preq { node } => {
                self.frames.preq += 1;
                self.gone_on();
                self.preq(node, seen);
            }
            Kind::Pres { node, state } => {
                self.frames.pres += 1;
                self.pres(node, state, seen);
            }
            Kind::Soa {
                state,
                service,
                target,
            } => {
                self.frames.soa += 1;
                self.gone_on();
                self.soa(state, service, target, seen);
            }
            Kind::Asnd { node } => {
                self.frames.asnd += 1;
                if let Some((_, since_ns)) = self.asked.take_if(|(asked, _)| *asked == node) {
                    let track = &mut self.nodes[usize::from(node)];
                    track.async_answered += 1;
                    track
                        .async_latencies
                        .push(seen.now_ns.saturating_sub(since_ns));
                }
            }
            Kind::Other => self.frames.other_powerlink += 1,
        }
    }

    /// Marks every waiting PReq: the managing node has sent something else, so an answer is late from now on.
    fn gone_on(&mut self) {
        for waiting in self.nodes.iter_mut().filter_map(|n| n.waiting.as_mut()) {
            waiting.gone_on = true;
        }
    }

    fn soc(&mut self, seen: Seen) {
        if let Some(last_ns) = self.last_soc_ns {
            let interval_ns = seen.now_ns.saturating_sub(last_ns);
            self.intervals.push((seen.at_ns, interval_ns));
            self.cycle_octets.push(self.wire_octets);
            self.keeper
                .offer(seen.case(WorstKind::Soc, None, interval_ns));
            // The shorter an early interval, the worse. The value is inverted here and restored at the end.
            self.keeper
                .offer(seen.case(WorstKind::SocEarly, None, u64::MAX - interval_ns));
        }
        for (node, track) in (0..=255).zip(&mut self.nodes) {
            if let Some(waiting) = &mut track.waiting {
                waiting.gone_on = true;
                if !waiting.next_cycle {
                    waiting.next_cycle = true;
                    let case = seen.case(WorstKind::NoPres, Some(node), 0);
                    self.keeper.offer(case);
                }
            }
        }
        self.last_soc_ns = Some(seen.now_ns);
        self.isochronous_since_ns = Some(seen.now_ns);
        self.wire_octets = 0;
        self.asked = None;
    }

    fn preq(&mut self, node: u8, seen: Seen) {
        let track = &mut self.nodes[usize::from(node)];
        if track.waiting.is_some() {
            track.lost += 1;
        }
        track.polled += 1;
        track.waiting = Some(Waiting {
            since_ns: seen.now_ns,
            gone_on: false,
            next_cycle: false,
        });
    }

    fn pres(&mut self, node: u8, state: u8, seen: Seen) {
        let track = &mut self.nodes[usize::from(node)];
        track.state = Some(state);
        let Some(waiting) = track.waiting.take() else {
            track.unasked += 1;
            return;
        };
        let latency_ns = seen.now_ns.saturating_sub(waiting.since_ns);
        track.answered += 1;
        if self.untimed {
            return;
        }
        track.late += u64::from(waiting.gone_on);
        track.latencies.push((seen.at_ns, latency_ns));
        self.keeper
            .offer(seen.case(WorstKind::Pres, Some(node), latency_ns));
    }

    fn soa(&mut self, state: u8, service: u8, target: u8, seen: Seen) {
        match self.isochronous_since_ns.take() {
            Some(since_ns) => self
                .isochronous_ns
                .push(seen.now_ns.saturating_sub(since_ns)),
            // A reduced cycle has no SoC; the next SoC starts a new series.
            None if state == PRE_OPERATIONAL_1 => {
                self.restarts += u64::from(self.last_soc_ns.take().is_some());
                // A node polled before owes no more answers.
                for track in &mut self.nodes {
                    track.lost += u64::from(track.waiting.take().is_some());
                }
            }
            None => {}
        }
        self.asked = (service != 0).then_some((target, seen.now_ns));
        if service != 0 {
            self.nodes[usize::from(target)].asked += 1;
        }
    }
}

/// Packet number and time of a frame.
#[derive(Clone, Copy)]
struct Seen {
    now_ns: u64,
    at_ns: u64,
    number: u64,
}

impl Seen {
    fn case(self, kind: WorstKind, node: Option<u8>, value_ns: u64) -> WorstCase {
        WorstCase {
            kind,
            node,
            value_ns,
            number: self.number,
            at_ns: self.at_ns,
            words: String::new(),
        }
    }
}
