//! When does each frame of a time-triggered stream leave each port?
//!
//! ```text
//! model        requests for time, made from a network
//! unscheduled  traffic through the same ports that is not scheduled
//! circle       time that repeats, folded onto one period
//! board        requests for time, and the circles on which they are entered
//! solve        the place of every request: first fit in a good order, then search
//! lists        lists of gate states, made from windows
//! closings     the time that closed gates take from unscheduled traffic
//! outcome      promises, lists and launches
//! refused      the reasons against a schedule
//! gates        the outcome's data: lists of gate states, launch offsets, windows
//! check        checks a plan's schedule against the network again, by other means
//! ```
//!
//! The derivation is in `docs/schedules.md`.

pub mod board;
pub mod check;
mod circle;
pub(crate) mod closings;
pub mod gates;
mod lists;
mod model;
#[cfg(test)]
pub(crate) mod mutation_tests;
mod outcome;
mod refused;
pub mod solve;
mod unscheduled;

use std::collections::BTreeMap;

use crate::identity::Kept;
use crate::plan::Plan;
use gates::Launch;
pub(crate) use outcome::{Closing, synthesize};

/// The usual number of placements that a search tries, all rounds together.
pub(crate) const USUAL_WORK: u32 = 200_000;
/// The number of placements tried if a search is one trial of many.
pub(crate) const LEAST_WORK: u32 = 20_000;

/// The options for scheduling time-triggered streams.
pub struct Scheduling<'a> {
    /// Launches to keep, by the names of their streams: those of a running plan.
    pub kept: BTreeMap<String, Launch>,
    /// True if kept launches may move if nothing else helps.
    pub moves: bool,
    /// The seed of the random numbers. The same seed leads to the same schedule.
    pub seed: u64,
    /// The largest number of placements that a search may try, all rounds together. The first round is always
    /// finished.
    pub work: u32,
    /// Called between rounds of the search, and between trials of changes. If it returns false, the best result so far
    /// is used.
    pub keep_going: &'a mut dyn FnMut() -> bool,
    /// The identities to keep, and the epoch of the plan that keeps them.
    pub(crate) identities: Option<Kept>,
}

impl<'a> Scheduling<'a> {
    /// Returns options with nothing kept and the usual effort, ended by `keep_going`.
    pub fn new(keep_going: &'a mut dyn FnMut() -> bool) -> Scheduling<'a> {
        Scheduling {
            kept: BTreeMap::new(),
            moves: false,
            seed: 1,
            work: USUAL_WORK,
            keep_going,
            identities: None,
        }
    }

    /// Keeps every launch and every identity of a plan. The new plan has the next epoch.
    #[must_use]
    pub fn keeping(mut self, plan: &Plan) -> Scheduling<'a> {
        self.identities = Some(Kept::of(plan, plan.epoch.saturating_add(1)));
        self.keeping_launches(plan)
    }

    /// As [`Scheduling::keeping`], for a plan of this epoch: the manager of a network skips epochs that nobody reads.
    #[must_use]
    pub fn keeping_at(mut self, plan: &Plan, epoch: u64) -> Scheduling<'a> {
        self.identities = Some(Kept::of(plan, epoch));
        self.keeping_launches(plan)
    }

    /// Keeps every launch of a plan.
    #[must_use]
    pub(crate) fn keeping_launches(mut self, plan: &Plan) -> Scheduling<'a> {
        let launches = plan
            .streams
            .iter()
            .filter_map(|stream| Some((stream.name.clone(), stream.launch.clone()?)));
        self.kept.extend(launches);
        self
    }
}
