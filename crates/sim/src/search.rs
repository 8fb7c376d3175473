//! Tries to break promises: random restarts and hill climbing over phases, pauses, patterns and latencies.
//!
//! Each promise in turn is the victim: at equal times its frames come last. A restart aligns all sources, so that
//! their bursts meet the victim on its route. It does so port after port, at the victim's real arrival times. Most
//! restarts are built: they also decide the order of the frames that join (`staged`). Then single changes are kept if
//! they delay the victim further.
//!
//! Every simulation counts for every promise, because a bad schedule for one may be worse for another.

mod cuts;
mod meetings;
mod moves;
mod staged;

use rtwire_plan::Plan;

use crate::model::{Binding, Model};
use crate::random::Random;
use crate::report::{Report, Witness, promise_ns};
use crate::scenario::{Behaviour, Lateness, Pattern, Scenario, clocks, cycle_ps};
use crate::simulator::Simulator;
use meetings::{Gathering, Meeting};
use staged::Group;

/// Plays a scenario: returns the victim's largest delay, or `None` if the search is to end.
type Play<'a, S> = dyn FnMut(&mut S, &Scenario) -> Option<u64> + 'a;

/// Number of unsuccessful changes in a row after which a climb ends.
const PATIENCE: u32 = 40;

/// Number of built starts before the first climb of a victim. Fewer precede each later one.
const VARIANTS: u64 = 6;

/// The options of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchOptions {
    /// Number of simulations.
    pub simulations: u64,
    /// The seed of the random numbers.
    pub seed: u64,
    /// Longest duration of a simulation, ps.
    pub longest_ps: u64,
}

struct Search<'a, 'm> {
    model: &'a Model,
    simulator: &'a mut Simulator<'m>,
    random: Random,
    report: &'a mut Report,
    best: Vec<Option<Witness>>,
    /// For each edge: the time of an undisturbed frame from its source to the edge's end.
    reach_ps: Vec<u64>,
    duration_ps: u64,
    played: u64,
    /// The ports where others meet the victim of the climb.
    ///
    /// `shifts` has, for each, the time by which the other source must be later. Then its first frame arrives there
    /// together with the victim's worst one. The times are from the last kept scenario.
    meetings: Vec<Meeting>,
    shifts: Vec<Option<i64>>,
    /// For each of them, the times at which the other source's first frame arrived there, and the last one of its first
    /// burst, ps.
    seen: Vec<Option<(u64, u64)>>,
    /// For each port of the victim's route, the times at which its worst frame arrived there, ps. If it sends a burst,
    /// those of the first and the last frame.
    comes: Vec<Option<(u64, u64)>>,
    /// For each port of its route, the time at which that frame's transmission began, ps.
    begins: Vec<Option<u64>>,
    /// The flows of the victim's class that join its route.
    groups: Vec<Group>,
    /// For each victim, the number of its built starts so far.
    starts: Vec<u64>,
    /// The ports of the victim's route whose latency varies, each with the time at which the victim's worst frame
    /// enters the queue there if its latency is the largest.
    gatherings: Vec<Gathering>,
}

/// Searches and adds the results to `report`: its worst cases, its verdict and its witnesses.
///
/// `go_on` is called before each simulation with the number of finished ones. If it returns false, the search ends.
pub fn search(
    model: &Model,
    simulator: &mut Simulator<'_>,
    plan: &Plan,
    options: &SearchOptions,
    report: &mut Report,
    mut go_on: impl FnMut(u64) -> bool,
) {
    let victims: Vec<usize> = (0..model.listeners.len())
        .filter(|listener| !model.flows[model.listeners[*listener].flow as usize].best_effort)
        .collect();
    let promises: Vec<Option<u64>> = victims
        .iter()
        .map(|listener| {
            let listener = &model.listeners[*listener];
            promise_ns(
                plan,
                &model.flows[listener.flow as usize].name,
                &listener.name,
            )
        })
        .collect();
    let longest_promise = promises.iter().flatten().max().copied().unwrap_or(0);
    let cycles = (0..model.flows.len()).map(|flow| cycle_ps(model, flow));
    let wanted = cycles
        .max()
        .unwrap_or(0)
        .saturating_add(longest_promise.saturating_mul(1000))
        .saturating_mul(3);
    let mut search = Search {
        model,
        simulator,
        random: Random::new(options.seed, 1 << 42),
        report,
        best: vec![None; victims.len()],
        reach_ps: reach(model),
        duration_ps: wanted.clamp(1, options.longest_ps),
        played: 0,
        meetings: Vec::new(),
        shifts: Vec::new(),
        seen: Vec::new(),
        comes: Vec::new(),
        begins: Vec::new(),
        groups: Vec::new(),
        starts: vec![0; victims.len()],
        gatherings: Vec::new(),
    };
    if victims.is_empty() {
        return;
    }
    let mut turn = 0;
    while search.played < options.simulations {
        let victim = turn % victims.len();
        turn += 1;
        // Each victim gets an equal share at a time, so a larger budget finds everything that a smaller one finds.
        if !search.climb(&victims, &promises, victim, options, &mut go_on) {
            break;
        }
    }
    let Search { report, best, .. } = search;
    report.witnesses = best.into_iter().flatten().collect();
    report.judge();
}

fn reach(model: &Model) -> Vec<u64> {
    let mut reach = vec![0; model.edges.len()];
    for listener in &model.listeners {
        let mut at = 0_u64;
        for edge in &listener.path {
            let port = &model.ports[model.edges[*edge as usize].port as usize];
            let bits = model.flows[listener.flow as usize].bits;
            at = at.saturating_add(port.line.transmit(bits, 0).0 + port.cable_ps);
            reach[*edge as usize] = at;
        }
    }
    reach
}

impl Search<'_, '_> {
    /// Runs one restart and its climb. Returns false if the search is to end.
    fn climb(
        &mut self,
        victims: &[usize],
        promises: &[Option<u64>],
        victim: usize,
        options: &SearchOptions,
        go_on: &mut impl FnMut(u64) -> bool,
    ) -> bool {
        let listener = victims[victim];
        let mut play = |search: &mut Self, scenario: &Scenario| {
            if search.played >= options.simulations || !go_on(search.played) {
                return None;
            }
            search.simulator.run(scenario);
            search.played += 1;
            search.report.simulations += 1;
            search.report.frame_hops += search.simulator.frame_hops();
            search.report.include(search.model, search.simulator);
            search.keep(victims, promises, scenario);
            Some(search.simulator.listeners()[listener].worst_ps)
        };
        self.meet(listener);
        self.groups.clear();
        let promise_ps = promises[victim].unwrap_or(0).saturating_mul(1_000);
        let best = self.best[victim].as_ref();
        let attained = best.is_some_and(|best| promise_ps > 0 && best.delay_ps >= promise_ps);
        let patience = if attained { PATIENCE / 4 } else { PATIENCE };
        let first = self.starts[victim] == 0;
        let mut scenario = match best {
            // Sometimes the climb starts from the best known scenario.
            Some(best) if !first && self.random.once_in(3) => best.scenario.clone(),
            _ if first || !self.random.once_in(4) => {
                let variants = if first { VARIANTS } else { VARIANTS / 2 };
                let from = self.starts[victim];
                self.starts[victim] += variants;
                let goal = (listener, promise_ps, options.seed);
                match self.worst_stage(goal, from..from + variants, &mut play) {
                    Some(scenario) => scenario,
                    None => return false,
                }
            }
            _ => {
                let mut scenario = self.restart(listener, options.seed);
                if !self.random.once_in(4) {
                    // A short simulation: only the first frames, until they have arrived.
                    let start = self.reach_ps.iter().max().copied().unwrap_or(0);
                    let short = start.saturating_add(promise_ps).saturating_mul(2);
                    scenario.duration_ps = scenario.duration_ps.min(short);
                }
                if !self.random.once_in(4) {
                    // Frames that come together over one link arrive one after the other. The second round takes that
                    // into account.
                    let hops = self.model.listeners[listener].path.len();
                    for hop in (0..hops).chain(0..hops) {
                        if play(self, &scenario).is_none() {
                            return false;
                        }
                        self.listen(listener);
                        self.align(hop, &mut scenario);
                    }
                }
                scenario
            }
        };
        let mut reached = None;
        let mut failures = 0;
        let mut candidate = scenario.clone();
        while failures < patience {
            let Some(seen) = play(self, &candidate) else {
                return false;
            };
            if reached.is_none_or(|reached| seen >= reached) {
                if reached.is_some_and(|reached| seen > reached) {
                    failures = 0;
                } else {
                    failures += 1;
                }
                reached = Some(seen);
                scenario.clone_from(&candidate);
                self.listen(listener);
            } else {
                failures += 1;
            }
            candidate.clone_from(&scenario);
            self.change(&mut candidate);
        }
        true
    }

    fn keep(&mut self, victims: &[usize], promises: &[Option<u64>], scenario: &Scenario) {
        for (at, listener) in victims.iter().enumerate() {
            let seen = self.simulator.listeners()[*listener].worst_ps;
            if self.best[at]
                .as_ref()
                .is_some_and(|best| best.delay_ps >= seen)
                || seen == 0
            {
                continue;
            }
            let listener = &self.model.listeners[*listener];
            self.best[at] = Some(Witness {
                stream: self.model.flows[listener.flow as usize].name.clone(),
                listener: listener.name.clone(),
                delay_ps: seen,
                used_permille: Witness::used(seen, promises[at]),
                simulation: self.played,
                scenario: scenario.clone(),
            });
        }
    }

    /// Creates a scenario of mostly greedy sources, each of which meets the victim at one of the shared ports.
    fn restart(&mut self, victim: usize, seed: u64) -> Scenario {
        let listener = &self.model.listeners[victim];
        let victim_flow = listener.flow;
        // All phases are relative to this one, so that those of far sources are not negative.
        let start = self.reach_ps.iter().max().copied().unwrap_or(0);
        let align = !self.random.once_in(8);
        let mut sources = Vec::new();
        for flow in 0..self.model.flows.len() {
            let cycle = cycle_ps(self.model, flow);
            let mut phase_ps = if align {
                start
            } else {
                self.random.below(cycle)
            };
            if flow as u32 != victim_flow && align {
                if let Some((mine, theirs)) = self.meeting(&listener.path, flow) {
                    phase_ps = (start + theirs).saturating_sub(mine);
                    if self.random.once_in(3) {
                        // Aims at the middle of the victim's burst, not at its head.
                        let cycle = cycle_ps(self.model, victim_flow as usize);
                        phase_ps += self.random.of_any_size(cycle);
                    }
                }
                phase_ps = self.late_enough(flow, phase_ps);
            } else if align {
                phase_ps = self.late_enough(flow, phase_ps);
            }
            let pattern = if self.random.once_in(16) {
                Pattern::Periodic
            } else {
                Pattern::Greedy
            };
            sources.push(Behaviour::new(pattern, phase_ps));
        }
        // Both copies of a redundant stream do what the first one does: here what the victim is to do.
        let leader = self.leader(victim_flow as usize);
        sources[leader] = sources[victim_flow as usize];
        let all = match self.random.below(5) {
            0 => Lateness::BusyStart,
            1 => Lateness::Pipeline,
            2 => Lateness::Prompt,
            // The victim late, all others prompt: until the time at which they meet is known.
            _ => Lateness::Gather { at_ps: 0 },
        };
        Scenario {
            seed,
            duration_ps: self.duration_ps,
            sources,
            lateness: vec![all; self.model.ports.len()],
            drift_ppm: vec![0; self.model.hosts.len()],
            last_at_ties: Some(victim_flow as usize),
            clocks: clocks(self.model, &mut self.random, true),
            breaks: Vec::new(),
            babbling: Vec::new(),
        }
    }

    /// Returns the phase with which a greedy periodic source first sends at `phase_ps`: it first sends at its phase
    /// plus the tick error.
    fn late_enough(&self, flow: usize, phase_ps: u64) -> u64 {
        let flow = &self.model.flows[flow];
        match flow.binding {
            Binding::Interval { .. } => phase_ps.saturating_sub(flow.tick_error_ps),
            _ => phase_ps,
        }
    }

    /// Chooses a random port that a flow shares with the path. Returns the times at which the flow's and the path's
    /// frame reach its queue, ps.
    fn meeting(&mut self, path: &[u32], flow: usize) -> Option<(u64, u64)> {
        let edges = &self.model.edges;
        let before = |reach: &[u64], edge: u32| {
            let port = &self.model.ports[edges[edge as usize].port as usize];
            let bits = self.model.flows[edges[edge as usize].flow as usize].bits;
            reach[edge as usize].saturating_sub(port.line.transmit(bits, 0).0 + port.cable_ps)
        };
        let mut shared = Vec::new();
        let (first, end) = self.model.flows[flow].listeners;
        for listener in first..end {
            for own in &self.model.listeners[listener as usize].path {
                for theirs in path {
                    if edges[*own as usize].port == edges[*theirs as usize].port {
                        shared.push((
                            before(&self.reach_ps, *own),
                            before(&self.reach_ps, *theirs),
                        ));
                    }
                }
            }
        }
        if shared.is_empty() {
            return None;
        }
        let at = self.random.below(shared.len() as u64) as usize;
        // The first shared port usually matters most.
        let at = if self.random.once_in(2) { 0 } else { at };
        shared.get(at).copied()
    }

    /// Returns the flow whose behaviour a flow has.
    fn leader(&self, flow: usize) -> usize {
        self.model.flows[flow].leader as usize
    }

    /// Makes one or a few changes.
    fn change(&mut self, scenario: &mut Scenario) {
        if !scenario.clocks.is_empty() && self.random.once_in(4) {
            // Moves one clock's error to the opposite limit.
            let at = self.random.below(scenario.clocks.len() as u64) as usize;
            scenario.clocks[at].error_ps = -scenario.clocks[at].error_ps;
        }
        if self.random.once_in(6) && self.gather(scenario) {
            return;
        }
        if self.model.preempts && self.random.once_in(6) && self.cut(scenario) {
            return;
        }
        if self.random.once_in(4) && self.aim(scenario) {
            return;
        }
        if self.random.once_in(2) && self.rearrange(scenario) {
            return;
        }
        if !self.shifts.is_empty() && self.random.once_in(3) {
            // Makes one flow arrive at a port together with the victim.
            let at = self.random.below(self.shifts.len() as u64) as usize;
            if let Some(mut shift) = self.shifts[at] {
                if self.random.once_in(2) {
                    shift -= self.head_start_ps(at, scenario);
                }
                let leader = self.leader(self.meetings[at].flow);
                let source = &mut scenario.sources[leader];
                source.phase_ps = source.phase_ps.saturating_add_signed(shift);
                return;
            }
        }
        let changes = 1 + self.random.below(3) / 2;
        for _ in 0..changes {
            let met = self.random.below(self.meetings.len().max(1) as u64) as usize;
            let flow = match self.meetings.get(met) {
                // Mostly one that meets the victim.
                Some(meeting) if !self.random.once_in(4) => meeting.flow,
                _ => self.random.below(self.model.flows.len() as u64) as usize,
            };
            let cycle = cycle_ps(self.model, flow);
            let leader = self.leader(flow);
            let source = &mut scenario.sources[leader];
            match self.random.below(16) {
                0 => source.phase_ps = self.random.below(cycle.saturating_mul(2)),
                1..=5 => {
                    let step = self.random.of_any_size(cycle);
                    source.phase_ps = source.phase_ps.saturating_add(step);
                }
                6..=10 => {
                    let step = self.random.of_any_size(cycle);
                    source.phase_ps = source.phase_ps.saturating_sub(step);
                }
                11 | 12 => {
                    source.gap_before = if self.random.once_in(4) {
                        0
                    } else {
                        1 + self.random.below(8) as u32
                    };
                    source.gap_ps = self.random.of_any_size(cycle.saturating_mul(2));
                }
                13 => {
                    source.pattern = if source.pattern == Pattern::Greedy {
                        Pattern::Periodic
                    } else {
                        Pattern::Greedy
                    };
                }
                _ => {
                    let port = self.random.below(self.model.ports.len() as u64) as usize;
                    let lateness = [
                        Lateness::BusyStart,
                        Lateness::Pipeline,
                        Lateness::Prompt,
                        Lateness::Random,
                    ];
                    scenario.lateness[port] = lateness[self.random.below(4) as usize];
                }
            }
        }
    }
}
