//! Finds a choice that fits by steps from good beginnings, then makes it cheaper.

use std::collections::BTreeSet;

use super::cost::{Cost, Objective, Sums};
use super::relevant::named;
use super::space::{Pick, Space};
use super::starts::starts;
use super::trial::{Trials, Tried, passing};
use crate::schedule::solve::Chance;

/// The largest number of late streams that a step looks at.
const MOST_LATE: usize = 4;
/// The largest number of their neighbours.
const MOST_NEAR: usize = 16;

/// A search by steps.
pub(super) struct Climb {
    /// Beginnings, the best last.
    starts: Vec<Vec<Pick>>,
    now: Option<(Vec<Pick>, Tried)>,
    chance: Chance,
    /// The streams that may change.
    free: Vec<bool>,
}

impl Climb {
    /// Begins at the stated values, whose result is `stated`.
    pub(super) fn new(trials: &Trials<'_>, stated: &Tried, free: &[bool], seed: u64) -> Climb {
        let picks = vec![Pick::default(); trials.space.entries.len()];
        let mut starts = starts(trials.network, trials.space, &stated.reasons);
        for start in &mut starts {
            for (pick, free) in start.iter_mut().zip(free) {
                if !free {
                    *pick = Pick::default();
                }
            }
        }
        starts.reverse();
        Climb {
            starts,
            now: Some((picks, stated.clone())),
            chance: Chance(seed),
            free: free.to_vec(),
        }
    }

    /// Searches with this much work at most. Returns a choice that fits, if one is found.
    pub(super) fn search(&mut self, trials: &mut Trials<'_>, most: u64) -> Option<Vec<Pick>> {
        let end = trials.spent.saturating_add(most);
        // Steps that plan nothing, because all is known, end too.
        let mut idle = 0;
        while trials.spent < end && !trials.ended() && idle < 200 {
            let before = trials.progress.planned;
            // All beginnings are planned before the steps from one of them.
            if let Some(start) = self.starts.pop() {
                if let Ok(Some(tried)) = trials.plan(&start, false) {
                    if self.take(start, tried) {
                        return self.now.take().map(|(picks, _)| picks);
                    }
                }
                continue;
            }
            let Some((picks, tried)) = self.now.clone() else {
                self.shake(trials);
                idle += 1;
                continue;
            };
            let mut better = false;
            for picks in self.steps(trials, &picks, &tried) {
                if trials.spent >= end || trials.ended() {
                    return None;
                }
                if trials.known(&picks).is_some() {
                    continue;
                }
                let Ok(Some(next)) = trials.plan(&picks, false) else {
                    continue;
                };
                if next.score < tried.score {
                    better = true;
                    if self.step(picks, next) {
                        return self.now.take().map(|(picks, _)| picks);
                    }
                    break;
                }
            }
            if !better {
                self.now = None;
            }
            idle = if trials.progress.planned > before {
                0
            } else {
                idle + 1
            };
        }
        None
    }

    /// Goes to a beginning if it is better than all before. Returns true if it fits.
    fn take(&mut self, picks: Vec<Pick>, tried: Tried) -> bool {
        let better = self
            .now
            .as_ref()
            .is_none_or(|(_, now)| tried.score < now.score);
        better && self.step(picks, tried)
    }

    fn step(&mut self, picks: Vec<Pick>, tried: Tried) -> bool {
        let fits = tried.fits();
        self.now = Some((picks, tried));
        fits
    }

    /// Leaves a place from which no step is better: goes to the best one so far, with a few random values.
    fn shake(&mut self, trials: &mut Trials<'_>) {
        let mut picks = trials.nearest.1.clone();
        let free: Vec<usize> = (0..picks.len()).filter(|at| self.free[*at]).collect();
        if free.is_empty() {
            return;
        }
        for _ in 0..2 + self.chance.below(3) {
            let at = free[self.chance.below(free.len())];
            let others = trials.space.entries[at].others(picks[at]);
            if !others.is_empty() {
                picks[at] = others[self.chance.below(others.len())];
            }
        }
        if let Ok(Some(tried)) = trials.plan(&picks, false) {
            self.now = Some((picks, tried));
        }
    }

    /// Returns the choices one step away: first other values of what is late, then of what it meets.
    fn steps(&self, trials: &Trials<'_>, picks: &[Pick], tried: &Tried) -> Vec<Vec<Pick>> {
        let (network, space) = (trials.network, trials.space);
        let ports = passing(network, space, picks);
        let mut late: Vec<usize> = Vec::new();
        let mut near: BTreeSet<usize> = BTreeSet::new();
        for reason in &tried.reasons {
            let (streams, node) = named(reason);
            for (at, entry) in space.entries.iter().enumerate() {
                let copies = || {
                    entry
                        .members
                        .iter()
                        .map(|index| &network.streams[*index].name)
                };
                let is_named = streams
                    .iter()
                    .any(|name| *name == entry.name || copies().any(|copy| copy == name));
                if is_named && !late.contains(&at) {
                    late.push(at);
                }
            }
            for ((from, _), list) in &ports {
                if Some(*from) == node {
                    near.extend(list);
                }
            }
        }
        late.truncate(MOST_LATE);
        for list in ports.values() {
            if late.iter().any(|at| list.contains(at)) {
                near.extend(list);
            }
        }
        let near = near.into_iter().filter(|at| !late.contains(at));
        let near: Vec<usize> = near.take(MOST_NEAR).collect();
        let mut steps = Vec::new();
        for at in late.iter().chain(&near) {
            if !self.free[*at] {
                continue;
            }
            let entry = &space.entries[*at];
            let mut others = entry.others(picks[*at]);
            if let Some(scheduled) = entry.as_scheduled(picks[*at]) {
                others.extend(entry.with_priority(scheduled, 7));
                others.extend(entry.with_priority(scheduled, 6));
            }
            for other in others {
                let mut next = picks.to_vec();
                next[*at] = other;
                steps.push(next);
            }
        }
        steps
    }
}

pub(super) fn cost_of(space: &Space, picks: &[Pick], objective: Objective) -> Cost {
    let pairs = space.entries.iter().zip(picks);
    let sums = pairs.fold(Sums::default(), |sums, (entry, pick)| {
        sums.with(entry, *pick)
    });
    sums.cost(objective)
}

/// Makes a choice that fits cheaper, value by value, until nothing helps or the work ends.
pub(super) fn cheaper(
    trials: &mut Trials<'_>,
    picks: Vec<Pick>,
    objective: Objective,
) -> Vec<Pick> {
    let mut best = picks;
    let space = trials.space;
    let mut cost = cost_of(space, &best, objective);
    loop {
        let mut better = false;
        for next in cheaper_steps(space, &best, objective) {
            let own = cost_of(space, &next, objective);
            // What was refused once is refused again.
            if own >= cost || trials.known(&next).is_some_and(|score| score > 0) {
                continue;
            }
            let Ok(tried) = trials.plan(&next, false) else {
                return best;
            };
            if tried.is_some_and(|tried| tried.fits()) {
                (best, cost, better) = (next, own, true);
                break;
            }
        }
        if !better {
            return best;
        }
    }
}

/// Returns choices that may be cheaper: streams as stated, single values, and one priority in place of another.
fn cheaper_steps(space: &Space, picks: &[Pick], objective: Objective) -> Vec<Vec<Pick>> {
    let mut steps = Vec::new();
    for (at, pick) in picks.iter().enumerate() {
        let mut others = Vec::new();
        if *pick != Pick::default() {
            others.push(Pick::default());
        }
        others.extend(space.entries[at].others(*pick));
        for other in others {
            let mut next = picks.to_vec();
            next[at] = other;
            steps.push(next);
        }
    }
    if objective == Objective::Simple {
        for from in 0..8 {
            for to in 0..8 {
                let merged: Vec<Pick> = space
                    .entries
                    .iter()
                    .zip(picks)
                    .map(|(entry, pick)| match entry.priority(*pick) == from {
                        true => entry.with_priority(*pick, to).unwrap_or(*pick),
                        false => *pick,
                    })
                    .collect();
                if merged != picks {
                    steps.push(merged);
                }
            }
        }
    }
    steps.sort_by_key(|next| cost_of(space, next, objective));
    steps
}
