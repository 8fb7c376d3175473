//! One trial: a network with chosen values, planned.

use std::collections::{BTreeMap, HashMap};

use super::score::{Score, score};
use super::space::{Entry, Pick, Space};
use super::{Progress, legal};
use crate::evaluate::evaluate;
use crate::network::{Contract, Network};
use crate::plan::Options;
use crate::refusal::Reason;
use crate::schedule::{LEAST_WORK, Scheduling, USUAL_WORK};
use rtwire_describe::ratio::Overflow;

/// The largest number of results that are kept.
const MOST_KEPT: usize = 200_000;

/// The work of entering chosen values into a network.
const APPLIED: u64 = 1;
/// The work of planning it.
const PLANNED: u64 = 7;
/// The work of a search for its schedule that found none, with the least effort and with the usual one.
const SEARCHED: [u64; 2] = [92, 1_000];

/// The work is used up, or the caller ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended;

/// The result of one trial.
#[derive(Clone, Debug)]
pub(super) struct Tried {
    pub(super) score: Score,
    pub(super) reasons: Vec<Reason>,
}

impl Tried {
    pub(super) fn fits(&self) -> bool {
        self.reasons.is_empty()
    }
}

/// Plans networks, and remembers the results.
pub(super) struct Trials<'a> {
    pub(super) network: &'a Network,
    pub(super) space: &'a Space,
    options: Options,
    /// The work that is left, and that is done.
    left: u64,
    pub(super) spent: u64,
    pub(super) progress: Progress,
    pub(super) stopped: bool,
    /// The choice with the least score so far.
    pub(super) nearest: (Score, Vec<Pick>),
    go_on: &'a mut dyn FnMut(&Progress) -> bool,
    /// The score of each choice, and true if it is exact.
    scores: HashMap<Vec<u8>, (Score, bool)>,
}

impl<'a> Trials<'a> {
    pub(super) fn new(
        network: &'a Network,
        space: &'a Space,
        options: Options,
        most: u64,
        go_on: &'a mut dyn FnMut(&Progress) -> bool,
    ) -> Trials<'a> {
        Trials {
            network,
            space,
            options,
            left: most.saturating_mul(APPLIED + PLANNED),
            spent: 0,
            progress: Progress::default(),
            stopped: false,
            nearest: (Score::MAX, vec![Pick::default(); space.entries.len()]),
            go_on,
            scores: HashMap::new(),
        }
    }

    fn spend(&mut self, work: u64) {
        self.left = self.left.saturating_sub(work);
        self.spent = self.spent.saturating_add(work);
    }

    /// Returns true if the work has ended.
    pub(super) const fn ended(&self) -> bool {
        self.stopped || self.left == 0
    }

    /// Asks whether to go on; remembers the answer no.
    pub(super) fn goes_on(&mut self) -> bool {
        self.stopped |= !(self.go_on)(&self.progress);
        !self.stopped
    }

    /// Returns the score of a choice that has been planned already.
    pub(super) fn known(&self, picks: &[Pick]) -> Option<Score> {
        let kept = self.scores.get(&key(self.space, picks));
        kept.map(|(score, _)| *score)
    }

    /// Returns true for a choice that is refused with the usual effort.
    pub(super) fn is_refused(&self, picks: &[Pick]) -> bool {
        let kept = self.scores.get(&key(self.space, picks));
        kept.is_some_and(|(score, exact)| *score > 0 && *exact)
    }

    /// Plans a choice. `None` if no description may state it, or its numbers are out of range.
    ///
    /// `exact`: what is refused is refused with the usual effort, too.
    pub(super) fn plan(&mut self, picks: &[Pick], exact: bool) -> Result<Option<Tried>, Ended> {
        if self.ended() || !self.goes_on() {
            return Err(Ended);
        }
        self.spend(APPLIED);
        let stated = picks.iter().all(|pick| *pick == Pick::default());
        let Ok(network) = applied(self.network, self.space, picks) else {
            return Ok(None);
        };
        if !stated && !legal::legal(&network) {
            return Ok(None);
        }
        self.spend(PLANNED);
        self.progress.planned += 1;
        let Some(mut tried) = self.tried(&network, LEAST_WORK) else {
            return Ok(None);
        };
        // A search that placed all streams would place them again, and what no search can place is told by other reasons.
        let unplaced = |reason: &Reason| matches!(reason, Reason::SchedulePlace { .. });
        let searched = tried.1.iter().any(unplaced);
        let rough = searched || (tried.0 && !tried.1.is_empty());
        if searched {
            self.spend(SEARCHED[0]);
        }
        if exact && rough {
            self.spend(SEARCHED[1]);
            let Some(again) = self.tried(&network, USUAL_WORK) else {
                return Ok(None);
            };
            tried = again;
        }
        if self.stopped {
            // The search for a schedule ended early: its result says nothing.
            return Err(Ended);
        }
        let reasons = tried.1;
        let score = score(&reasons);
        if score < self.nearest.0 {
            self.nearest = (score, picks.to_vec());
        }
        if self.scores.len() < MOST_KEPT {
            let kept = (score, exact || !rough);
            self.scores.insert(key(self.space, picks), kept);
        }
        Ok(Some(Tried { score, reasons }))
    }

    /// Returns true if some rows of ports were left out, and the reasons.
    fn tried(&mut self, network: &Network, work: u32) -> Option<(bool, Vec<Reason>)> {
        let (progress, go_on, stopped) = (&self.progress, &mut self.go_on, &mut self.stopped);
        let mut keep_going = || {
            *stopped |= !go_on(progress);
            !*stopped
        };
        let mut scheduling = Scheduling {
            work,
            ..Scheduling::new(&mut keep_going)
        };
        match evaluate(network, &self.options, &mut scheduling) {
            Ok((plan, reasons)) => Some((plan.method.contains("too many"), reasons)),
            Err(Overflow) => None,
        }
    }
}

/// Returns a text that is equal for choices with equal plans.
fn key(space: &Space, picks: &[Pick]) -> Vec<u8> {
    let pairs = space.entries.iter().zip(picks);
    pairs
        .flat_map(|(entry, pick)| {
            [
                entry.class(*pick),
                pick.route,
                pick.interval,
                pick.scheduled,
            ]
        })
        .collect()
}

/// Returns the network with the chosen values.
pub(super) fn applied(
    network: &Network,
    space: &Space,
    picks: &[Pick],
) -> Result<Network, Overflow> {
    let mut changed = network.clone();
    for (entry, pick) in space.entries.iter().zip(picks) {
        if *pick != Pick::default() {
            apply(&mut changed, space, entry, *pick)?;
        }
    }
    Ok(changed)
}

fn apply(network: &mut Network, space: &Space, entry: &Entry, pick: Pick) -> Result<(), Overflow> {
    let usual_ns = network.defaults.tick_error_ns;
    for index in &entry.members {
        let Some(stream) = network.streams.get_mut(*index) else {
            continue;
        };
        stream.pcp = entry.priority(pick);
        if let (Some(route), true) = (entry.route(pick), pick.route != 0) {
            stream.routes = vec![route.clone()];
        }
        if pick.interval != 0 {
            stream.set_shaping_interval(entry.interval_ns(pick))?;
        }
        if pick.scheduled != 0 {
            stream.time_triggered = true;
            let old = &stream.contract;
            // As in a description: a launch in hardware is not late as a thread that wakes is.
            let usual =
                old.tick_error_ns == usual_ns && !space.stated_tick_errors.contains(&entry.name);
            stream.contract = Contract::new(
                old.rate,
                stream.wire_bytes,
                old.shaping_interval_ns,
                if usual { 0 } else { old.tick_error_ns },
                old.kind,
                old.burst,
            )?;
        }
    }
    Ok(())
}

/// The streams at each port, as entries, by sender and receiver.
pub(super) fn passing<'n>(
    network: &'n Network,
    space: &'n Space,
    picks: &[Pick],
) -> BTreeMap<(&'n str, &'n str), Vec<usize>> {
    let mut ports: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for (at, (entry, pick)) in space.entries.iter().zip(picks).enumerate() {
        let chosen = entry.route(*pick).map(core::slice::from_ref);
        let stated = || {
            let members = entry.members.iter();
            members.flat_map(|index| network.streams[*index].routes.iter())
        };
        let routes: Vec<&Vec<String>> = match chosen {
            Some(chosen) => chosen.iter().collect(),
            None => stated().collect(),
        };
        for pair in routes.iter().flat_map(|route| route.windows(2)) {
            let list = ports.entry((&pair[0], &pair[1])).or_default();
            if list.last() != Some(&at) {
                list.push(at);
            }
        }
    }
    ports
}
