//! Starts of a climb that are built port after port: when must each flow that joins the victim's route come, so that
//! the victim waits as long as possible there and at all later ports?
//!
//! All frames that stay with the victim are to form one run right before it, without a gap: then each of them delays it
//! where it joins, and the largest of them sets the distance at a later port. Frames that leave earlier come at the
//! front of the run, because a frame that leaves from its middle makes a gap.
//!
//! ```text
//! one link      | leaves at 1 | leaves at 2 | stays |
//! other link                        | leaves at 1 | stays |
//! victim                                                  ^ comes
//! ```

use std::cmp::Reverse;
use std::ops::Range;

use super::{Play, Search};
use crate::scenario::{Behaviour, Lateness, Pattern, Scenario, clocks};

/// The order of the frames of one link: the last one comes right before the victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// By the port at which they leave, the largest of a port first.
    Exit,
    /// By size, the largest first.
    Largest,
    /// By the port at which they leave, the smallest of a port first.
    Smallest,
}

/// One flow that is moved to one or the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Odd {
    None,
    LargestFirst,
    LargestLast,
}

/// The flows of the victim's class that join its route at one position over one link.
#[derive(Clone, Debug)]
pub(super) struct Group {
    hop: usize,
    /// The numbers of their meetings, in the order in which they are to come.
    pub(super) members: Vec<usize>,
    /// True if they are to come as late as possible, although some of them leave before others.
    late: bool,
}

impl Search<'_, '_> {
    /// Plays several starts for a listener, its promise and a seed, until one attains the promise. Returns the worst
    /// scenario, or `None` if the search is to end.
    pub(super) fn worst_stage(
        &mut self,
        (victim, promise_ps, seed): (usize, u64, u64),
        numbers: Range<u64>,
        play: &mut Play<'_, Self>,
    ) -> Option<Scenario> {
        let mut worst: Option<(u64, Scenario)> = None;
        for number in numbers {
            let (seen, scenario) = self.stage(victim, promise_ps, number, seed, play)?;
            if worst.as_ref().is_none_or(|(most, _)| seen > *most) {
                worst = Some((seen, scenario));
            }
            if promise_ps > 0 && seen >= promise_ps {
                break;
            }
        }
        worst.map(|(_, scenario)| scenario)
    }

    /// Plays the start number `number` of a victim. Returns the worst of its scenarios, or `None` if the search is to
    /// end.
    fn stage(
        &mut self,
        victim: usize,
        promise_ps: u64,
        number: u64,
        seed: u64,
        play: &mut Play<'_, Self>,
    ) -> Option<(u64, Scenario)> {
        self.form_groups(victim, number);
        let blockers = self.blockers(victim, number);
        let mut scenario = self.stage_start(victim, promise_ps, number, seed);
        let mut worst: Option<(u64, Scenario)> = None;
        let mut take = |search: &mut Self, scenario: &Scenario| {
            let seen = play(search, scenario)?;
            search.listen(victim);
            if worst.as_ref().is_none_or(|(most, _)| seen > *most) {
                worst = Some((seen, scenario.clone()));
            }
            Some(())
        };
        take(self, &scenario)?;
        let model = self.model;
        let path = &model.listeners[victim].path;
        let has_credit = path.iter().any(|edge| {
            let edge = &model.edges[*edge as usize];
            let idle = &model.ports[edge.port as usize].idle_bps;
            idle.get(usize::from(edge.class))
                .is_some_and(Option::is_some)
        });
        // With credits the transmission of the victim, at which blockers are aimed, moves with each of them.
        let (passes, rounds, blocking) = if has_credit { (2, 2, 2) } else { (3, 1, 1) };
        for pass in 0..passes {
            for hop in 0..path.len() {
                for _ in 0..rounds {
                    if self.join_at(hop, has_credit, &mut scenario) {
                        take(self, &scenario)?;
                    }
                }
                for _ in 0..blocking {
                    if pass > 0 && self.block_at(hop, &blockers, has_credit, &mut scenario) {
                        take(self, &scenario)?;
                    }
                }
            }
        }
        worst
    }

    /// Creates greedy sources that meet the victim where they join its route. All others are silent.
    fn stage_start(&mut self, victim: usize, promise_ps: u64, number: u64, seed: u64) -> Scenario {
        let listener = &self.model.listeners[victim];
        // Others may have to send much earlier than the victim.
        let far = self.reach_ps.iter().max().copied().unwrap_or(0);
        let mut start = far.saturating_add(promise_ps);
        let mut duration_ps = start.saturating_add(promise_ps);
        if duration_ps > self.duration_ps {
            (start, duration_ps) = (far, self.duration_ps);
        }
        let silent = Behaviour::new(Pattern::Greedy, duration_ps.saturating_add(1));
        let mut sources = vec![silent; self.model.flows.len()];
        sources[self.leader(listener.flow as usize)].phase_ps =
            self.late_enough(listener.flow as usize, start);
        for group in &self.groups {
            for member in &group.members {
                let meeting = &self.meetings[*member];
                let ahead_ps = self.before_ps(meeting.mine);
                let phase_ps = (start + ahead_ps).saturating_sub(self.before_ps(meeting.theirs));
                sources[self.leader(meeting.flow)].phase_ps =
                    self.late_enough(meeting.flow, phase_ps);
            }
        }
        let all = match (number, self.random.below(5)) {
            (0, _) | (5.., 3..) => Lateness::Gather { at_ps: 0 },
            (1, _) | (5.., 0) => Lateness::BusyStart,
            (2 | 3, _) | (5.., 1) => Lateness::Pipeline,
            _ => Lateness::Prompt,
        };
        Scenario {
            seed,
            duration_ps,
            sources,
            lateness: vec![all; self.model.ports.len()],
            drift_ppm: vec![0; self.model.hosts.len()],
            last_at_ties: Some(listener.flow as usize),
            clocks: clocks(self.model, &mut self.random, true),
            breaks: Vec::new(),
            babbling: Vec::new(),
        }
    }

    /// Returns the time of an undisturbed frame from its source to an edge's queue, ps.
    pub(super) fn before_ps(&self, edge: u32) -> u64 {
        let own = &self.model.edges[edge as usize];
        let port = &self.model.ports[own.port as usize];
        let bits = self.model.flows[own.flow as usize].bits;
        self.reach_ps[edge as usize].saturating_sub(port.line.transmit(bits, 0).0 + port.cable_ps)
    }

    /// Sorts the flows that join into groups, in the order of variant `number`. The first five are fixed, all others
    /// are drawn.
    fn form_groups(&mut self, victim: usize, number: u64) {
        let hops = self.model.listeners[victim].path.len();
        let mut taken = vec![self.leader(self.model.listeners[victim].flow as usize)];
        let mut joiners: Vec<usize> = (0..self.meetings.len())
            .filter(|at| self.meetings[*at].joins && self.meetings[*at].same)
            .collect();
        joiners.sort_by_key(|at| self.meetings[*at].hop);
        self.groups.clear();
        for at in joiners {
            let (hop, link) = (self.meetings[at].hop, self.meetings[at].link);
            let leader = self.leader(self.meetings[at].flow);
            // A flow that joins several times can be shifted to one of the ports only.
            if taken.contains(&leader) {
                continue;
            }
            taken.push(leader);
            let same = |group: &&mut Group| {
                group.hop == hop && self.meetings[group.members[0]].link == link
            };
            match self.groups.iter_mut().find(same) {
                Some(group) => group.members.push(at),
                None => self.groups.push(Group {
                    hop,
                    members: vec![at],
                    late: false,
                }),
            }
        }
        let mut groups = std::mem::take(&mut self.groups);
        // At each position the link first that others can make longest.
        let rest = |group: &Group| {
            let bits = group.members.iter().map(|at| self.meetings[*at].bits);
            bits.clone().fold(0, u64::saturating_add) - bits.max().unwrap_or(0)
        };
        groups.sort_by_key(|group| (group.hop, Reverse(rest(group))));
        let single = number == 4 || number > 4 && !self.random.once_in(3);
        for hop in 0..hops {
            // All links, only the first one, or none is to come as late as possible.
            let (none, first, order) = match number {
                0 | 4 => (true, false, Order::Exit),
                1 => (false, true, Order::Exit),
                2 => (false, false, Order::Exit),
                3 => (true, false, Order::Largest),
                _ => {
                    let late = self.random.below(3);
                    let orders = [Order::Exit, Order::Exit, Order::Largest, Order::Smallest];
                    let order = orders[self.random.below(4) as usize];
                    (late == 0, late == 1, order)
                }
            };
            let here = groups.iter_mut().filter(|group| group.hop == hop);
            for (place, group) in here.enumerate() {
                group.late = !none && (place == 0 || !first);
                let mut odd = Odd::None;
                if number == 4 && place == 0 {
                    (group.late, odd) = (true, Odd::LargestFirst);
                } else if single && number > 4 {
                    let chance = if place == 0 { 2 } else { 5 };
                    if self.random.once_in(chance) {
                        odd = if self.random.once_in(3) {
                            Odd::LargestLast
                        } else {
                            Odd::LargestFirst
                        };
                    }
                    if self.random.once_in(chance) {
                        group.late = self.random.once_in(2);
                    }
                }
                self.sort(&mut group.members, order, odd);
            }
        }
        self.groups = groups;
    }

    fn sort(&self, members: &mut [usize], order: Order, odd: Odd) {
        let of = |at: &usize| (self.meetings[*at].exit, self.meetings[*at].bits);
        match order {
            Order::Exit => members.sort_by_key(|at| (of(at).0, Reverse(of(at).1))),
            Order::Largest => members.sort_by_key(|at| (Reverse(of(at).1), of(at).0)),
            Order::Smallest => members.sort_by_key(of),
        }
        let places = 0..members.len();
        let largest = match odd {
            Odd::None => None,
            Odd::LargestFirst => {
                places.max_by_key(|place| (of(&members[*place]).1, Reverse(of(&members[*place]).0)))
            }
            Odd::LargestLast => {
                places.max_by_key(|place| (of(&members[*place]).1, of(&members[*place]).0))
            }
        };
        if let Some(place) = largest {
            if odd == Odd::LargestFirst {
                members[..=place].rotate_right(1);
            } else {
                members[place..].rotate_left(1);
            }
        }
    }

    /// Shifts the flows that join at a position of the victim's route. Returns false if there are none.
    fn join_at(&self, hop: usize, has_credit: bool, scenario: &mut Scenario) -> bool {
        self.gather_at(hop, scenario);
        let Some(&Some((own_ps, comes_ps))) = self.comes.get(hop) else {
            return false;
        };
        let here = || self.groups.iter().filter(move |group| group.hop == hop);
        // Those before the victim that joined earlier, each with its last position. Frames of its own burst leave last.
        let mut ahead = vec![(usize::MAX, own_ps)];
        for (meeting, seen) in self.meetings.iter().zip(&self.seen) {
            if let (true, Some(seen)) = (meeting.hop == hop && meeting.same, seen) {
                if !meeting.joins && seen.0 <= comes_ps {
                    ahead.push((meeting.exit, seen.0));
                }
            }
        }
        // Equal times are a picosecond apart, so that the first to leave goes first.
        let mut ranked: Vec<usize> = here().flat_map(|group| group.members.clone()).collect();
        ranked.sort_by_key(|at| (self.meetings[*at].exit, Reverse(self.meetings[*at].bits)));
        let signed = |ps: u64| i64::try_from(ps).unwrap_or(i64::MAX / 4);
        for (number_of_group, group) in here().enumerate() {
            let others = || {
                let all = here().enumerate();
                all.filter(move |(other, _)| *other != number_of_group)
                    .map(|(_, group)| group)
            };
            // The time by which a flow must be earlier than the victim, so that no gap is in front of those that stay
            // longer.
            let earlier_ps = |exit: usize| {
                if group.late {
                    return 0;
                }
                let stay = ahead.iter().filter(|(last, _)| *last > exit);
                let run = stay.map(|(_, seen)| comes_ps - seen).max().unwrap_or(0);
                let tail = |group: &Group| {
                    let stay = group.members.iter().map(|at| &self.meetings[*at]);
                    let mut times = stay
                        .filter(|meeting| meeting.exit > exit)
                        .map(|meeting| meeting.frames.saturating_mul(meeting.spacing_ps));
                    let _first = times.next();
                    times.fold(0, u64::saturating_add)
                };
                run.max(others().map(tail).max().unwrap_or(0))
            };
            let mut next: Option<i64> = None;
            for at in group.members.iter().rev() {
                let meeting = &self.meetings[*at];
                let Some((first_ps, last_ps)) = self.seen.get(*at).copied().flatten() else {
                    continue;
                };
                let behind = ranked.iter().rev().position(|other| other == at);
                let tie_ps = behind.unwrap_or(0) as i64;
                let mut wanted = signed(comes_ps)
                    .saturating_sub(signed(earlier_ps(meeting.exit)))
                    .saturating_sub(tie_ps);
                let mut seen_ps = last_ps;
                if has_credit {
                    // Behind credits a link has gaps, and the order of its frames is that of its queue.
                    let leaves = meeting.exit == hop && hop + 1 < self.comes.len();
                    if leaves && !group.late {
                        seen_ps = first_ps;
                    } else {
                        wanted = signed(comes_ps) - tie_ps;
                    }
                } else if let Some(next) = next {
                    wanted = wanted.min(next);
                }
                let burst_ps = meeting.frames.saturating_mul(meeting.spacing_ps);
                next = Some(wanted.saturating_sub(signed(burst_ps)));
                let source = &mut scenario.sources[self.leader(meeting.flow)];
                let shift = wanted.saturating_sub(signed(seen_ps));
                source.phase_ps = source.phase_ps.saturating_add_signed(shift);
            }
        }
        !ranked.is_empty()
    }

    /// Assigns flows of other classes to positions of the victim's route: at each one lower frame, the largest, and each
    /// higher flow at one position. Returns the numbers of their meetings.
    fn blockers(&mut self, victim: usize, number: u64) -> Vec<usize> {
        let model = self.model;
        let path = &model.listeners[victim].path;
        let own = self.leader(model.listeners[victim].flow as usize);
        let mut taken: Vec<usize> = vec![own];
        let mut chosen = Vec::new();
        let mut hops: Vec<usize> = (0..path.len()).collect();
        if number > 1 {
            for at in (1..hops.len()).rev() {
                hops.swap(at, self.random.up_to(at as u64) as usize);
            }
        }
        for hop in hops {
            let lower = (0..self.meetings.len()).filter(|at| {
                let meeting = &self.meetings[*at];
                meeting.lower && meeting.hop == hop && !taken.contains(&self.leader(meeting.flow))
            });
            let frame = |at: &usize| model.flows[self.meetings[*at].flow].bits;
            if let Some(at) = lower.max_by_key(|at| (frame(at), Reverse(*at))) {
                taken.push(self.leader(self.meetings[at].flow));
                chosen.push(at);
            }
        }
        for flow in 0..model.flows.len() {
            let places: Vec<usize> = (0..self.meetings.len())
                .filter(|at| {
                    let meeting = &self.meetings[*at];
                    meeting.flow == flow && !meeting.same && !meeting.lower
                })
                .collect();
            if places.is_empty() || taken.contains(&self.leader(flow)) {
                continue;
            }
            taken.push(self.leader(flow));
            let joins = places.iter().find(|at| self.meetings[**at].joins);
            let drawn = places[self.random.below(places.len() as u64) as usize];
            chosen.push(*joins.filter(|_| number % 2 == 0).unwrap_or(&drawn));
        }
        chosen
    }

    /// Shifts the blockers of a position of the victim's route to the time at which they delay it most. Returns false if
    /// there are none.
    fn block_at(
        &self,
        hop: usize,
        blockers: &[usize],
        has_credit: bool,
        scenario: &mut Scenario,
    ) -> bool {
        let (Some(&Some((_, comes_ps))), Some(&Some(begins_ps))) =
            (self.comes.get(hop), self.begins.get(hop))
        else {
            return false;
        };
        let mut any = false;
        for at in blockers {
            let meeting = &self.meetings[*at];
            if meeting.hop != hop {
                continue;
            }
            any = true;
            let wanted = match (meeting.lower, has_credit) {
                (true, true) => begins_ps.saturating_sub(1),
                (true, false) => self
                    .waits_since_ps(meeting.mine, comes_ps)
                    .saturating_sub(1),
                (false, _) => begins_ps,
            };
            let flow = self.leader(meeting.flow);
            let source = &mut scenario.sources[flow];
            match self.seen.get(*at).copied().flatten() {
                Some((first_ps, last_ps)) => {
                    let last = has_credit && !meeting.lower;
                    let seen_ps = if last { last_ps } else { first_ps };
                    let ahead = |ps: u64| i64::try_from(ps).unwrap_or(i64::MAX / 4);
                    let shift = ahead(wanted) - ahead(seen_ps);
                    source.phase_ps = source.phase_ps.saturating_add_signed(shift);
                }
                None => {
                    let phase_ps = wanted.saturating_sub(self.before_ps(meeting.theirs));
                    source.phase_ps = self.late_enough(meeting.flow, phase_ps);
                }
            }
        }
        any
    }

    /// Records for each position of the victim's route when the transmission of its worst frame begins, as far as its
    /// next arrival tells.
    pub(super) fn listen_begins(&mut self, victim: usize) {
        let path = &self.model.listeners[victim].path;
        let seen = &self.simulator.listeners()[victim];
        let end_ps = seen.worst_born_ps + seen.worst_ps;
        self.begins.clear();
        for (hop, edge) in path.iter().enumerate() {
            let edge = &self.model.edges[*edge as usize];
            let port = &self.model.ports[edge.port as usize];
            let bits = self.model.flows[edge.flow as usize].bits;
            let next_ps = match self.comes.get(hop + 1) {
                Some(next) => next.map(|(_, last_ps)| last_ps),
                None => Some(end_ps),
            };
            let took_ps = port.line.transmit(bits, 0).0 + port.cable_ps;
            self.begins
                .push(next_ps.and_then(|next_ps| next_ps.checked_sub(took_ps)));
        }
    }
}

#[cfg(test)]
#[path = "staged_tests.rs"]
mod tests;
