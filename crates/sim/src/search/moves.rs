//! Changes of the arrivals where flows join the victim's route: one flow comes together with another, behind it or
//! before it; a link's flows move together; a flow takes another place on its link.

use super::Search;
use super::meetings::Meeting;
use crate::scenario::Scenario;

impl Search<'_, '_> {
    /// Makes one such change, by the arrivals of the last kept scenario. Returns false if none is possible.
    pub(super) fn rearrange(&mut self, scenario: &mut Scenario) -> bool {
        let joiners: Vec<usize> = (0..self.meetings.len())
            .filter(|at| {
                self.meetings[*at].joins && self.seen.get(*at).is_some_and(Option::is_some)
            })
            .collect();
        if joiners.is_empty() {
            return false;
        }
        let one = joiners[self.random.below(joiners.len() as u64) as usize];
        let meeting = self.meetings[one];
        let (Some(came_ps), Some((_, mine_ps))) = (
            self.first_seen_ps(one),
            self.comes.get(meeting.hop).copied().flatten(),
        ) else {
            return false;
        };
        let on_link: Vec<usize> = joiners
            .iter()
            .copied()
            .filter(|at| {
                let other = &self.meetings[*at];
                other.hop == meeting.hop && other.link == meeting.link
            })
            .collect();
        match self.random.below(20) {
            0..13 => {
                // Together with any other at this port, or right before it.
                let here: Vec<usize> = (0..self.meetings.len())
                    .filter(|at| self.meetings[*at].hop == meeting.hop)
                    .collect();
                let drawn = self.random.up_to(here.len() as u64) as usize;
                let other = here.get(drawn).copied();
                let at_ps = match other {
                    Some(other) => self.first_seen_ps(other),
                    None => Some(mine_ps),
                };
                let Some(at_ps) = at_ps else {
                    return false;
                };
                let own_ps = self.frame_ps(one);
                let other_ps = other.map_or(own_ps, |other| self.frame_ps(other));
                let apart = match self.random.below(6) {
                    0 | 1 => 0,
                    2 => 1,
                    3 => -1,
                    4 => -other_ps,
                    _ => -own_ps,
                };
                let shift = signed(at_ps) - signed(came_ps) + apart;
                if self.random.once_in(4) {
                    for at in on_link {
                        self.shift(scenario, at, shift);
                    }
                } else {
                    self.shift(scenario, one, shift);
                }
            }
            13..18 => self.reinsert(scenario, one, &on_link),
            _ => {
                // All that came before it at this port, or only its link.
                let unit = joiners[self.random.below(joiners.len() as u64) as usize];
                let mut shift = self.frame_ps(unit);
                if self.random.once_in(2) {
                    shift = -shift;
                }
                let linked = self.random.once_in(2);
                for at in joiners {
                    let other = &self.meetings[at];
                    let near = other.hop == meeting.hop && (!linked || other.link == meeting.link);
                    if near && self.first_seen_ps(at).is_some_and(|ps| ps <= came_ps) {
                        self.shift(scenario, at, shift);
                    }
                }
            }
        }
        true
    }

    /// Aims one flow of another class or with a burst at the victim's arrival at a port that they share, or at the begin
    /// of its transmission. Returns false if there is none.
    pub(super) fn aim(&mut self, scenario: &mut Scenario) -> bool {
        let several = |meeting: &Meeting| !meeting.same || meeting.frames > 1;
        let choices: Vec<usize> = (0..self.meetings.len())
            .filter(|at| several(&self.meetings[*at]))
            .collect();
        if choices.is_empty() {
            return false;
        }
        let at = choices[self.random.below(choices.len() as u64) as usize];
        let meeting = self.meetings[at];
        let comes_ps = self.comes.get(meeting.hop).copied().flatten();
        let begins_ps = self.begins.get(meeting.hop).copied().flatten();
        let (Some((_, comes_ps)), Some(begins_ps)) = (comes_ps, begins_ps) else {
            return false;
        };
        let at_begin = meeting.lower || !meeting.same && self.random.once_in(2);
        let wanted_ps = if at_begin { begins_ps } else { comes_ps };
        let wanted_ps = wanted_ps.saturating_sub(u64::from(meeting.lower));
        let first = self.random.once_in(3);
        match self.seen.get(at).copied().flatten() {
            Some((first_ps, last_ps)) => {
                let seen_ps = if first { first_ps } else { last_ps };
                self.shift(scenario, at, signed(wanted_ps) - signed(seen_ps));
            }
            // It is silent so far.
            None => {
                let phase_ps = wanted_ps.saturating_sub(self.before_ps(meeting.theirs));
                let phase_ps = self.late_enough(meeting.flow, phase_ps);
                scenario.sources[self.leader(meeting.flow)].phase_ps = phase_ps;
            }
        }
        true
    }

    /// Takes a flow out of the frames of its link, and puts it before or behind another one. Those between close the gap.
    fn reinsert(&mut self, scenario: &mut Scenario, one: usize, on_link: &[usize]) {
        let other = on_link[self.random.below(on_link.len() as u64) as usize];
        let (Some(from_ps), Some(to_ps)) = (self.first_seen_ps(one), self.first_seen_ps(other))
        else {
            return;
        };
        let room = self.frame_ps(one);
        if from_ps < to_ps {
            self.shift(scenario, one, signed(to_ps) - signed(from_ps));
            for at in on_link {
                let between = self
                    .first_seen_ps(*at)
                    .is_some_and(|ps| ps > from_ps && ps <= to_ps);
                if between {
                    self.shift(scenario, *at, -room);
                }
            }
        } else if from_ps > to_ps {
            let before = signed(to_ps) - self.frame_ps(other);
            self.shift(scenario, one, before - signed(from_ps));
            if self.random.once_in(2) {
                for at in on_link {
                    if self.first_seen_ps(*at).is_some_and(|ps| ps < to_ps) {
                        self.shift(scenario, *at, -room);
                    }
                }
            }
        }
    }

    fn first_seen_ps(&self, meeting: usize) -> Option<u64> {
        self.seen.get(meeting).copied().flatten().map(|seen| seen.0)
    }

    /// Returns the time of a flow's frame at the port where it meets the victim, ps.
    fn frame_ps(&self, meeting: usize) -> i64 {
        let edge = &self.model.edges[self.meetings[meeting].theirs as usize];
        let port = &self.model.ports[edge.port as usize];
        let bits = self.model.flows[edge.flow as usize].bits;
        signed(port.line.transmit(bits, 0).0)
    }

    fn shift(&self, scenario: &mut Scenario, meeting: usize, shift: i64) {
        let source = &mut scenario.sources[self.leader(self.meetings[meeting].flow)];
        source.phase_ps = source.phase_ps.saturating_add_signed(shift);
    }
}

fn signed(ps: u64) -> i64 {
    i64::try_from(ps).unwrap_or(i64::MAX / 4)
}
