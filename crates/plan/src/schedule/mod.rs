//! When does each frame of a time-triggered stream leave each port?
//!
//! ```text
//! model        from a network to requests for time
//! unscheduled  what goes through the same ports without being scheduled
//! circle       time that repeats, folded upon one period
//! board        requests for time, and the circles on which they are entered
//! solve        where to put everything: first fit in a good order, then search
//! lists        from windows to lists of gate states
//! closings     what closed gates take from unscheduled traffic
//! outcome      promises, lists and launches
//! refused      what is in the way of a schedule
//! gates        the outcome's data: lists of gate states, launch offsets, windows
//! check        a plan's schedule held against the network again, by other means
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

/// Placements tried in a search, all rounds together.
pub(crate) const USUAL_WORK: u32 = 200_000;
/// The same, where a search is one trial of many.
pub(crate) const LEAST_WORK: u32 = 20_000;

/// How time-triggered streams are to be scheduled.
pub struct Scheduling<'a> {
    /// Launches that are to stay, by the names of their streams: those of a plan that runs.
    pub kept: BTreeMap<String, Launch>,
    /// Whether they may move where nothing else helps.
    pub moves: bool,
    /// What chance is drawn from: the same seed gives the same schedule.
    pub seed: u64,
    /// How many placements a search may try, all rounds together; the first round is always finished.
    pub work: u32,
    /// Asked between rounds of search, and of looking for changes that would fit: false ends it with the best so far.
    pub keep_going: &'a mut dyn FnMut() -> bool,
    /// The identities that are to stay, and the epoch of the plan that keeps them.
    pub(crate) identities: Option<Kept>,
}

impl<'a> Scheduling<'a> {
    /// Nothing kept, the usual effort, ended by `keep_going`.
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

    /// Keeps every launch and every identity of a plan; the new plan is of the next epoch.
    #[must_use]
    pub fn keeping(mut self, plan: &Plan) -> Scheduling<'a> {
        self.identities = Some(Kept::of(plan, plan.epoch.saturating_add(1)));
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
