//! Where others meet the victim, and how much later each would have to send to be in its way there.

use super::Search;
use crate::model::Edge;
use crate::scenario::Scenario;

/// A port that another flow shares with the victim.
#[derive(Clone, Copy)]
pub(super) struct Meeting {
    pub(super) flow: usize,
    /// Its edge there, and the victim's.
    theirs: u32,
    mine: u32,
    /// The place on the victim's way.
    hop: usize,
    /// Here it comes into the victim's way over another link. Where it does so more than once, as on a ring: nearest to its
    /// talker, where no other link has put it in line with others yet.
    joins: bool,
    /// Of a lower class: in the way only where it has begun.
    lower: bool,
}

impl Search<'_, '_> {
    /// Note where others meet the victim.
    pub(super) fn meet(&mut self, victim: usize) {
        let (edges, victim) = (&self.model.edges, &self.model.listeners[victim]);
        self.meetings.clear();
        self.shifts.clear();
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
            for place in &places {
                let (hop, theirs, mine) = (place.0, theirs[place.1], victim.path[place.0]);
                let known = |meeting: &Meeting| meeting.theirs == theirs;
                if self.meetings.iter().any(known) {
                    continue;
                }
                self.meetings.push(Meeting {
                    flow: listener.flow as usize,
                    theirs,
                    mine,
                    hop,
                    joins: Some(place) == joins,
                    lower: edges[theirs as usize].class < edges[mine as usize].class,
                });
            }
        }
    }

    /// Note when all came to where they meet the victim.
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
    }

    /// Since when frames that go before the victim have waited without a pause when it comes to a port at `mine_ps`: a
    /// lower frame is in the way of them all if it begins before. Counted with the first frame of each flow.
    fn waits_since_ps(&self, mine: u32, mine_ps: u64) -> u64 {
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

    /// Let those who first meet the victim at a place on its way come there together with it; most of them.
    pub(super) fn align(&mut self, hop: usize, scenario: &mut Scenario) {
        for (meeting, shift) in self.meetings.iter().zip(&self.shifts) {
            if let (Some(shift), true) = (shift, meeting.joins && meeting.hop == hop) {
                if !self.random.once_in(12) {
                    let source = &mut scenario.sources[meeting.flow];
                    source.phase_ps = source.phase_ps.saturating_add_signed(*shift);
                }
            }
        }
    }
}
