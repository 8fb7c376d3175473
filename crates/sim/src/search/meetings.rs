//! The ports where others meet the victim, and how much later each must send to meet it.

use super::Search;
use crate::model::Edge;
use crate::scenario::{Lateness, Scenario};

/// A port that another flow shares with the victim.
#[derive(Clone, Copy)]
pub(super) struct Meeting {
    pub(super) flow: usize,
    /// Its edge at the port; `mine` is the victim's edge.
    pub(super) theirs: u32,
    pub(super) mine: u32,
    /// The port's position on the victim's route.
    pub(super) hop: usize,
    /// The last position of the victim's route up to which the flow stays with it, from here on.
    pub(super) exit: usize,
    /// The port that sends into the link over which the flow comes; `None` at its talker.
    pub(super) link: Option<u32>,
    /// Size of its burst, bits.
    pub(super) bits: u64,
    /// True if the flow joins the victim's route here over another link. If it joins several times, as on a ring, only
    /// the port nearest to its talker counts. There no other link has serialized it with others yet.
    pub(super) joins: bool,
    /// The time between frames of its burst on the input link, ps, and the number of frames that may follow each other.
    pub(super) spacing_ps: u64,
    pub(super) frames: u64,
    /// True for a lower class, which delays the victim only if its transmission has begun.
    pub(super) lower: bool,
    /// True for the victim's class.
    pub(super) same: bool,
}

/// A port of the victim's route whose latency varies.
#[derive(Clone, Copy)]
pub(super) struct Gathering {
    port: usize,
    hop: usize,
    /// The time at which the victim's worst frame enters the queue there if its latency is the largest, ps.
    at_ps: u64,
}

impl Search<'_, '_> {
    /// Records the ports where others meet the victim.
    pub(super) fn meet(&mut self, victim: usize) {
        let (edges, victim) = (&self.model.edges, &self.model.listeners[victim]);
        self.meetings.clear();
        self.shifts.clear();
        self.seen.clear();
        let port = |edge: u32| edges[edge as usize].port;
        let link = |way: &[u32], at: usize| Some(port(way[at.checked_sub(1)?]));
        for listener in &self.model.listeners {
            if listener.flow == victim.flow {
                continue;
            }
            let theirs = &listener.path;
            let places = victim.path.iter().enumerate().filter_map(|(hop, mine)| {
                let at = theirs.iter().position(|edge| port(*edge) == port(*mine));
                Some((hop, at?))
            });
            let places: Vec<(usize, usize)> = places.collect();
            let joins = places
                .iter()
                .filter(|(hop, at)| *hop == 0 || link(theirs, *at) != link(&victim.path, *hop))
                .min_by_key(|(_, at)| *at);
            for (number, place) in places.iter().enumerate() {
                let together = places[number..].windows(2);
                let together = together.take_while(|pair| pair[1].0 == pair[0].0 + 1);
                let exit = place.0 + together.count();
                let came_over = link(theirs, place.1);
                let (hop, theirs, mine) = (place.0, theirs[place.1], victim.path[place.0]);
                let known = |meeting: &&mut Meeting| meeting.theirs == theirs;
                if let Some(known) = self.meetings.iter_mut().find(known) {
                    known.exit = known.exit.max(exit);
                    continue;
                }
                let flow = listener.flow as usize;
                let frames = u64::from(self.model.flows[flow].burst_frames());
                let class = edges[theirs as usize].class;
                self.meetings.push(Meeting {
                    flow,
                    theirs,
                    mine,
                    hop,
                    exit,
                    link: came_over,
                    bits: frames.saturating_mul(u64::from(self.model.flows[flow].bits)),
                    joins: Some(place) == joins,
                    spacing_ps: self.spacing_ps(&listener.path, place.1),
                    frames,
                    lower: class < edges[mine as usize].class,
                    same: class == edges[mine as usize].class,
                });
            }
        }
    }

    /// Returns the time of a frame on the link before a position of its route, ps; 0 at its talker.
    fn spacing_ps(&self, way: &[u32], at: usize) -> u64 {
        let Some(before) = at
            .checked_sub(1)
            .map(|at| &self.model.edges[way[at] as usize])
        else {
            return 0;
        };
        let port = &self.model.ports[before.port as usize];
        let bits = self.model.flows[before.flow as usize].bits;
        // Behind a port with credits as far apart as those allow.
        if let Some(&Some(idle_bps)) = port.idle_bps.get(usize::from(before.class)) {
            let bits = u128::from(bits) * 1_000_000_000_000;
            return u64::try_from(bits.div_ceil(u128::from(idle_bps.max(1)))).unwrap_or(u64::MAX);
        }
        port.line.transmit(bits, 0).0
    }

    /// Returns the time by which another flow's burst must be earlier than together with the victim, so that a later
    /// one of its frames meets the victim in the queue.
    pub(super) fn head_start_ps(&mut self, number: usize, scenario: &Scenario) -> i64 {
        let meeting = self.meetings[number];
        let mine = &self.model.edges[meeting.mine as usize];
        let theirs = &self.model.edges[meeting.theirs as usize];
        let port = mine.port as usize;
        let ahead_ps = self
            .random
            .below(meeting.frames)
            .saturating_mul(meeting.spacing_ps);
        let signed = |ps: u64| i64::try_from(ps).unwrap_or(i64::MAX / 2);
        let later_ps = match scenario.lateness[port] {
            // The victim has the largest latency, that frame the least.
            Lateness::Gather { .. } => signed(mine.latency_ps) - signed(theirs.latency_min_ps),
            _ => 0,
        };
        signed(ahead_ps) - later_ps
    }

    /// Records the times at which all flows arrived at those ports.
    pub(super) fn listen(&mut self, victim: usize) {
        let born_ps = self.simulator.listeners()[victim].worst_born_ps;
        let simulator = &*self.simulator;
        let shift = |meeting: &Meeting| {
            let mine = simulator.came_ps(born_ps, meeting.mine)?;
            let theirs = simulator.first_came_ps(meeting.theirs)?;
            let wanted = if meeting.lower {
                self.waits_since_ps(meeting.mine, mine).checked_sub(1)?
            } else {
                mine
            };
            Some(i64::try_from(wanted).ok()? - i64::try_from(theirs).ok()?)
        };
        self.shifts = self.meetings.iter().map(shift).collect();
        let both = |meeting: &Meeting| {
            let first_ps = simulator.first_came_ps(meeting.theirs)?;
            Some((first_ps, simulator.burst_came_ps(meeting.theirs)?))
        };
        self.seen = self.meetings.iter().map(both).collect();
        let last = |edge: &u32| simulator.last_came_ps(born_ps, *edge);
        let path = self.model.listeners[victim].path.iter();
        self.comes = path
            .map(|edge| Some((simulator.came_ps(born_ps, *edge)?, last(edge)?)))
            .collect();
        self.listen_begins(victim);
        let path = self.model.listeners[victim].path.iter().enumerate();
        let gathering = |(hop, edge): (usize, &u32)| {
            let mine = &self.model.edges[*edge as usize];
            let mut here = self
                .model
                .edges
                .iter()
                .filter(|edge| edge.port == mine.port);
            let varies = here.any(|edge| edge.latency_min_ps < edge.latency_ps);
            let came_ps = self.simulator.came_ps(born_ps, *edge)?;
            varies.then(|| Gathering {
                port: mine.port as usize,
                hop,
                at_ps: came_ps.saturating_add(mine.latency_ps),
            })
        };
        self.gatherings = path.filter_map(gathering).collect();
    }

    /// Returns the start of the busy period of the victim's class and above, when the victim arrives at a port at
    /// `mine_ps`. A lower frame delays them all if its transmission begins before. Only the first frame of each flow
    /// counts.
    pub(super) fn waits_since_ps(&self, mine: u32, mine_ps: u64) -> u64 {
        let (model, victim) = (self.model, &self.model.edges[mine as usize]);
        let port = &model.ports[victim.port as usize];
        let mut comers: Vec<(u64, &Edge)> = Vec::new();
        for (number, edge) in model.edges.iter().enumerate() {
            let came = self.simulator.first_came_ps(number as u32);
            if let Some(came_ps) = came.filter(|came_ps| *came_ps <= mine_ps) {
                if edge.port == victim.port {
                    comers.push((came_ps, edge));
                }
            }
        }
        comers.sort_by_key(|(came_ps, _)| *came_ps);
        let (mut done_ps, mut since_ps) = (0, None);
        for (came_ps, edge) in comers {
            if came_ps > done_ps {
                since_ps = None;
            }
            if edge.class >= victim.class {
                since_ps = since_ps.or(Some(came_ps));
            }
            let bits = model.flows[edge.flow as usize].bits;
            done_ps = done_ps.max(came_ps) + port.line.transmit(bits, 0).0;
        }
        since_ps.filter(|_| done_ps > mine_ps).unwrap_or(mine_ps)
    }

    /// Lets all frames meet the victim's worst one in the queue of one port, or of all. Returns false if no port on its
    /// route has a latency that varies.
    pub(super) fn gather(&mut self, scenario: &mut Scenario) -> bool {
        if self.gatherings.is_empty() {
            return false;
        }
        let only = self.random.below(self.gatherings.len() as u64) as usize;
        let all = self.random.once_in(2);
        for (number, gathering) in self.gatherings.iter().enumerate() {
            if !all && number != only {
                continue;
            }
            let latency_ps = self.model.ports[gathering.port].latency_ps;
            // Mostly at that instant; at times a little before it, or behind.
            let at_ps = match self.random.below(4) {
                0 => gathering
                    .at_ps
                    .saturating_sub(self.random.of_any_size(latency_ps)),
                1 => gathering
                    .at_ps
                    .saturating_add(self.random.of_any_size(latency_ps)),
                _ => gathering.at_ps,
            };
            scenario.lateness[gathering.port] = Lateness::Gather { at_ps };
        }
        true
    }

    /// Makes most of the flows that join at a position of the victim's route arrive there together with it.
    pub(super) fn align(&mut self, hop: usize, scenario: &mut Scenario) {
        self.gather_at(hop, scenario);
        for (meeting, shift) in self.meetings.iter().zip(&self.shifts) {
            if let (Some(shift), true) = (shift, meeting.joins && meeting.hop == hop) {
                if !self.random.once_in(12) {
                    let source = &mut scenario.sources[meeting.flow];
                    source.phase_ps = source.phase_ps.saturating_add_signed(*shift);
                }
            }
        }
    }

    /// Lets the frames at one position of the victim's route gather in the queue when the victim comes, if they gather.
    pub(super) fn gather_at(&self, hop: usize, scenario: &mut Scenario) {
        for gathering in self.gatherings.iter().filter(|it| it.hop == hop) {
            if let Lateness::Gather { at_ps } = &mut scenario.lateness[gathering.port] {
                *at_ps = gathering.at_ps;
            }
        }
    }
}
