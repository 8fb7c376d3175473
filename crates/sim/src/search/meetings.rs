//! The ports where others meet the victim, and how much later each must send to meet it.

use super::Search;
use crate::model::Edge;
use crate::scenario::Scenario;

/// A port that another flow shares with the victim.
#[derive(Clone, Copy)]
pub(super) struct Meeting {
    pub(super) flow: usize,
    /// Its edge at the port; `mine` is the victim's edge.
    theirs: u32,
    mine: u32,
    /// The port's position on the victim's route.
    hop: usize,
    /// True if the flow joins the victim's route here over another link. If it joins several times, as on a ring, only
    /// the port nearest to its talker counts. There no other link has serialized it with others yet.
    joins: bool,
    /// True for a lower class, which delays the victim only if its transmission has begun.
    lower: bool,
}

impl Search<'_, '_> {
    /// Records the ports where others meet the victim.
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
    }

    /// Returns the start of the busy period of the victim's class and above, when the victim arrives at a port at
    /// `mine_ps`. A lower frame delays them all if its transmission begins before. Only the first frame of each flow
    /// counts.
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

    /// Makes most of the flows that join at a position of the victim's route arrive there together with it.
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
