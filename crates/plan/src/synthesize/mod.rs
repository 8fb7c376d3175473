//! Chooses what a description leaves open, so that all deadlines hold at the least cost.
//!
//! ```text
//! routes     the routes that a stream may take
//! space      the values that each stream may have
//! floor      deadlines that no choice can keep
//! relevant   the streams whose values can matter
//! cost       the objectives
//! legal      the choices that a description may state
//! trial      one choice, planned
//! score      the distance of a refused network from one that fits
//! ascent     all choices in the order of their cost
//! starts     whole choices that often fit
//! climb      steps from one choice to a better one
//! change     the result in the words of a description
//! ```
//!
//! Two searches take turns. One takes all choices in the order of their cost: the first that fits is the least. The other
//! climbs from good beginnings to a choice that fits. Then the first has only cheaper ones left. The turns are counted
//! in work, so that the same network leads to the same result. `docs/synthesis.md` describes it.

mod ascent;
mod change;
mod climb;
mod cost;
mod floor;
mod legal;
mod relevant;
mod routes;
mod score;
mod space;
mod starts;
mod trial;

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::network::Network;
use crate::plan::Options;
use crate::refusal::Reason;
use ascent::Ascent;
pub use change::Change;
use climb::{Climb, cheaper, cost_of};
pub use cost::{CostPart, Objective};
use rtwire_describe::hash::Fingerprint;
use rtwire_describe::ratio::Overflow;
use space::{Pick, Space};
use trial::{Ended, Trials, Tried, applied};

/// The largest number of hops to plan, all trials together.
const MOST_HOPS: u64 = 2_000_000;
/// The fewest and the most networks that are planned by default.
const PLANS: (u64, u64) = (300, 20_000);
/// The work of the first turn: some 64 plans. Each turn is twice as long as the one before.
const FIRST_TURN: u64 = 512;

/// The values that may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MayChange {
    /// `priority` of each stream.
    pub priorities: bool,
    /// `route` of streams with one listener and without `redundancy`.
    pub routes: bool,
    /// `shaping-interval` of streams with a `rate`.
    pub shaping_intervals: bool,
    /// `schedule = "time-triggered"` for streams with an `interval`, where nodes have gates.
    pub gates: bool,
}

impl MayChange {
    /// Everything.
    pub const ALL: MayChange = MayChange {
        priorities: true,
        routes: true,
        shaping_intervals: true,
        gates: true,
    };
    /// Nothing.
    pub const NOTHING: MayChange = MayChange {
        priorities: false,
        routes: false,
        shaping_intervals: false,
        gates: false,
    };
}

/// The state of a synthesis, for those who wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The number of networks planned.
    pub planned: u64,
    /// The cost of the best choice so far that fits.
    pub cost: Option<Vec<CostPart>>,
}

/// The options of a synthesis.
pub struct Synthesizing<'a> {
    /// The values that may change.
    pub may_change: MayChange,
    /// The objective.
    pub objective: Objective,
    /// The seed of the random numbers. The same seed leads to the same result.
    pub seed: u64,
    /// The largest number of networks to plan, or a fraction of it where schedules are searched in vain: that
    /// counts as up to 140 plans. `None`: by the size of the network.
    pub most_plans: Option<u64>,
    /// Streams that state a `tick-error`. They keep it where they become time-triggered.
    pub stated_tick_errors: BTreeSet<String>,
    /// Called before each plan and between rounds of its search for a schedule. If it returns false, the best result so
    /// far is used.
    pub keep_going: &'a mut dyn FnMut(&Progress) -> bool,
}

impl<'a> Synthesizing<'a> {
    /// Returns options with all values free and the usual effort, ended by `keep_going`.
    pub fn new(keep_going: &'a mut dyn FnMut(&Progress) -> bool) -> Synthesizing<'a> {
        Synthesizing {
            may_change: MayChange::ALL,
            objective: Objective::default(),
            seed: 1,
            most_plans: None,
            stated_tick_errors: BTreeSet::new(),
            keep_going,
        }
    }
}

/// The certainty of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// The network fits as it is.
    AsStated,
    /// It fits, and no choice that costs less does.
    Least,
    /// It fits. The work ended before all cheaper choices were tried.
    BestFound,
    /// No choice fits: the planner refuses each with its usual effort.
    NoneFits,
    /// The work ended before a choice was found that fits.
    NotFound,
}

impl Certainty {
    /// True if the network with the changes fits.
    #[must_use]
    pub const fn fits(self) -> bool {
        matches!(
            self,
            Certainty::AsStated | Certainty::Least | Certainty::BestFound
        )
    }
}

/// A synthesis as data: changes, cost, certainty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SynthesisReport {
    /// The objective.
    pub objective: Objective,
    /// The certainty of the result.
    pub certainty: Certainty,
    /// The changed values. If nothing fits, those of the try that came nearest.
    pub changes: Vec<Change>,
    /// The cost, the number that counts most first.
    pub cost: Vec<CostPart>,
    /// For [`Certainty::BestFound`] and [`Certainty::NotFound`]: nothing that costs less than this fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Vec<CostPart>>,
    /// The number of networks planned.
    pub planned: u64,
}

/// The result of a synthesis.
#[derive(Clone, Debug, PartialEq)]
pub struct Synthesis {
    /// The network with the changes.
    pub network: Network,
    /// The changes and what is known of them.
    pub report: SynthesisReport,
}

/// Changes a network so that all deadlines hold, at the least cost.
///
/// A network that fits is returned as it is. [`crate::plan()`] accepts the result if [`Certainty::fits`] says so.
///
/// # Errors
/// [`Overflow`] if the network's own numbers leave the range of exact arithmetic.
pub fn synthesize(
    network: &Network,
    options: &Options,
    wanted: Synthesizing<'_>,
) -> Result<Synthesis, Overflow> {
    let Synthesizing {
        may_change,
        objective,
        seed,
        most_plans,
        stated_tick_errors,
        keep_going,
    } = wanted;
    let all_priorities = objective == Objective::Simple;
    let mut space = Space::new(network, may_change, all_priorities, &stated_tick_errors);
    let possible = floor::prune(network, &mut space);
    let space = space;
    let most = most_plans.unwrap_or_else(|| usual_plans(network));
    let mut trials = Trials::new(network, &space, *options, most.max(1), keep_going);
    let stated = vec![Pick::default(); space.entries.len()];
    let report = |certainty, picks: &[Pick], bound, planned| SynthesisReport {
        objective,
        certainty,
        changes: change::changes(&space, picks),
        cost: objective.named(cost_of(&space, picks, objective)),
        bound,
        planned,
    };
    let first = match trials.plan(&stated, true) {
        Ok(Some(first)) => first,
        Ok(None) => return Err(Overflow),
        Err(Ended) => {
            let report = report(Certainty::NotFound, &stated, None, trials.progress.planned);
            let network = network.clone();
            return Ok(Synthesis { network, report });
        }
    };
    let fixed = |reason: &Reason| matches!(reason, Reason::Unshaped { .. });
    let (certainty, picks, bound) = if first.fits() {
        (Certainty::AsStated, stated, None)
    } else if !possible || first.reasons.iter().any(fixed) {
        (Certainty::NoneFits, stated, None)
    } else {
        let free = match objective {
            Objective::Changes => relevant::relevant(network, &space, &first.reasons),
            // Its cost counts every stream, also those that are in nobody's way.
            Objective::Simple => vec![true; space.entries.len()],
        };
        search(&mut trials, &first, &free, (objective, seed))
    };
    let named = bound.map(|bound| objective.named(bound));
    let report = report(certainty, &picks, named, trials.progress.planned);
    let mut changed = applied(network, &space, &picks)?;
    let marked =
        |hash: Fingerprint, one: &Change| hash.with(&one.stream).with(&one.key).with(&one.new);
    if !report.changes.is_empty() {
        let hash = Fingerprint::new().with(&network.input_hash);
        changed.input_hash = report.changes.iter().fold(hash, marked).text();
    }
    Ok(Synthesis {
        network: changed,
        report,
    })
}

/// Returns the number of plans of a synthesis by default. A large network gets fewer, not a long wait.
fn usual_plans(network: &Network) -> u64 {
    let routes = network.streams.iter().flat_map(|stream| &stream.routes);
    let hops: usize = routes.map(Vec::len).sum();
    (MOST_HOPS / (hops.max(1) as u64)).clamp(PLANS.0, PLANS.1)
}

/// Searches in turns. Returns the certainty, the choice, and the cost below which nothing fits.
fn search(
    trials: &mut Trials<'_>,
    first: &Tried,
    free: &[bool],
    (objective, seed): (Objective, u64),
) -> (Certainty, Vec<Pick>, Option<cost::Cost>) {
    let space = trials.space;
    let mut ascent = Ascent::new(space, objective, free);
    let mut climb = Climb::new(trials, first, free, seed);
    let mut found: Option<(cost::Cost, Vec<Pick>)> = None;
    let mut turn = FIRST_TURN;
    // Of a choice whose trial did not end: it may fit.
    let mut open: Option<cost::Cost> = None;
    while !trials.ended() && trials.goes_on() {
        let before = trials.spent;
        let below = found.as_ref().map(|(cost, _)| *cost);
        while trials.spent < before.saturating_add(turn) && open.is_none() {
            let Some((cost, picks)) = ascent.next(below) else {
                break;
            };
            if trials.is_refused(&picks) {
                continue;
            }
            match trials.plan(&picks, true) {
                Ok(tried) if tried.as_ref().is_some_and(Tried::fits) => {
                    return (Certainty::Least, picks, None);
                }
                Ok(_) => {}
                Err(Ended) => open = Some(cost),
            }
        }
        let bound = ascent.bound();
        let done = bound.is_none_or(|bound| below.is_some_and(|below| bound >= below));
        if done && open.is_none() && !ascent.is_cut() {
            return match found {
                Some((_, picks)) => (Certainty::Least, picks, None),
                None => (Certainty::NoneFits, trials.nearest.1.clone(), None),
            };
        }
        if found.is_none() {
            if let Some(picks) = climb.search(trials, turn) {
                let picks = cheaper(trials, picks, objective);
                let cost = cost_of(space, &picks, objective);
                trials.progress.cost = Some(objective.named(cost));
                found = Some((cost, picks));
            }
        }
        if trials.spent == before {
            // Neither search has anything left.
            break;
        }
        turn = turn.saturating_mul(2);
    }
    let bound = ascent.bound().into_iter().chain(open).min();
    match found {
        Some((_, picks)) => (Certainty::BestFound, picks, bound),
        None => (Certainty::NotFound, trials.nearest.1.clone(), bound),
    }
}
