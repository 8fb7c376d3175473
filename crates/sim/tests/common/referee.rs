//! The referee: simulates one network in many ways and compares the results with the promises of every method.

use rtwire_plan::{Analysis, Isolation, Network, Options, Plan, plan};
use rtwire_sim::{
    Lateness, Model, Outcome, PatternChoice, Report, Scenario, SearchOptions, Simulator, search,
};

use super::promises;

const MS: u64 = 1_000_000_000;

/// Number of simulated networks and promises, and the tightest result.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Played {
    /// Largest used share of a promise of the default method, in thousandths.
    pub(crate) used_permille: u64,
    /// Number of transmissions by ports.
    pub(crate) frame_hops: u64,
    /// Number of promises, of all methods, that were compared with results.
    pub(crate) promises: u64,
}

/// Returns the promises of every method, whether or not limits are exceeded; the default method first.
pub(crate) fn all_methods(network: &Network) -> Vec<(Analysis, Plan)> {
    let mut methods = Analysis::ALL;
    methods.sort_by_key(|analysis| *analysis != Analysis::default());
    methods
        .into_iter()
        .map(|analysis| {
            let options = Options {
                ignore_limits: true,
                analysis,
            };
            let plan = plan(network, &options).unwrap_or_else(|refusal| panic!("{refusal}"));
            (analysis, plan)
        })
        .collect()
}

/// The patterns and latencies with which a network is simulated.
pub(crate) fn scenarios(
    network: &Network,
    model: &Model,
    seed: u64,
) -> Vec<(PatternChoice, Scenario)> {
    let drift_ppm = u32::try_from(network.defaults.clock_drift_ppb / 1000).unwrap();
    let scenario = |choice| Scenario::new(model, choice, seed, 25 * MS, drift_ppm);
    let mut list = Vec::new();
    for choice in [
        PatternChoice::Greedy,
        PatternChoice::Periodic,
        PatternChoice::Random,
        PatternChoice::Shaped,
        PatternChoice::Mixed,
    ] {
        let misses = matches!(choice, PatternChoice::Random | PatternChoice::Mixed);
        if misses && network.schedule.isolation == Isolation::Frames {
            // Talkers that skip periods: `frames` promises nothing about them.
            continue;
        }
        list.push((choice, scenario(choice)));
    }
    for lateness in [Lateness::Prompt, Lateness::Pipeline] {
        let mut scenario = scenario(PatternChoice::Greedy);
        scenario.lateness.fill(lateness);
        list.push((PatternChoice::Greedy, scenario));
    }
    list
}

/// Adds the results that exceed a plan's promises to `list`. Returns the number of compared promises.
fn exceeded(report: &Report, plan: &Plan, list: &mut Vec<String>) -> u64 {
    let mut compared = 0;
    let limit_ps = |promised_ns: u64| promised_ns * 1000 + report.rounding_ps;
    for seen in report.streams.iter().filter(|stream| !stream.best_effort) {
        let stream = plan.streams.iter().find(|it| it.name == seen.name);
        let mut promises = stream.unwrap().promises.iter();
        let promise = promises.find(|it| it.listener == seen.listener).unwrap();
        let Some(ns) = promise.delay_ns else { continue };
        compared += 1;
        if seen.worst_delay_ps.is_some_and(|ps| ps > limit_ps(ns)) {
            list.push(format!(
                "{} to {}: {:?} ps seen, {ns} ns promised",
                seen.name, seen.listener, seen.worst_delay_ps
            ));
        }
        if let (Some(seen_ps), Some(ns)) = (seen.jitter_ps, promise.jitter_ns) {
            if seen_ps > limit_ps(ns) {
                list.push(format!("{}: jitter {seen_ps} ps, {ns} ns", seen.name));
            }
        }
    }
    for seen in &report.ports {
        let mut ports = plan.ports.iter();
        let port = ports.find(|port| port.node == seen.node && port.port == seen.port);
        let port = port.unwrap();
        let above =
            |seen: u64, bound: Option<u64>| u64::from(bound.is_some_and(|bound| seen > bound));
        let mut wrong = above(seen.highest_backlog_bytes, port.backlog_bytes)
            + above(seen.highest_backlog_frames, port.backlog_frames)
            + seen.frames_off_window;
        for (seen, class) in seen.classes.iter().zip(&port.classes) {
            assert_eq!(seen.class, class.class);
            compared += u64::from(class.delay_ns.is_some());
            let bound_ps = class.delay_ns.map(limit_ps);
            wrong += above(seen.worst_delay_ps, bound_ps);
        }
        compared += u64::from(port.backlog_bytes.is_some());
        if wrong > 0 {
            list.push(format!("{seen:?} of {:?}", port.classes));
        }
    }
    compared
}

/// Runs all scenarios and a search of the given number of simulations.
///
/// # Errors
/// The exceeded bound and its method.
pub(crate) fn check(
    network: &Network,
    plans: &[(Analysis, Plan)],
    seed: u64,
    simulations: u64,
) -> Result<Played, String> {
    let default = &plans[0].1;
    let model = Model::with_plan(network, default).unwrap();
    let mut simulator = Simulator::new(&model);
    let mut played = Played::default();
    for (at, (choice, scenario)) in scenarios(network, &model, seed).into_iter().enumerate() {
        simulator.run(&scenario);
        assert_eq!(simulator.in_flight(), 0, "frames are stuck");
        let mut report = Report::new(&model, &simulator, &scenario, choice.word(), default);
        if at == 0 {
            let options = SearchOptions {
                simulations,
                seed,
                longest_ps: 30 * MS,
            };
            search(
                &model,
                &mut simulator,
                default,
                &options,
                &mut report,
                |_| true,
            );
        }
        played.frame_hops += report.frame_hops;
        for (analysis, plan) in plans {
            let mut found = Vec::new();
            played.promises += exceeded(&report, plan, &mut found);
            if !found.is_empty() {
                let lateness = scenario.lateness.first();
                let found = found.join("\n");
                return Err(format!("{analysis:?}, {choice:?}, {lateness:?}: {found}"));
            }
        }
        let violated = report.streams.iter().any(|stream| stream.violated)
            || report.ports.iter().any(|port| port.violated);
        assert!(!violated, "the report sees what this comparison does not");
        let used = report.streams.iter().filter_map(|it| it.used_permille);
        played.used_permille = played.used_permille.max(used.max().unwrap_or(0));
    }
    Ok(played)
}

/// Checks that nothing is lost and each promise is kept where each switch has exactly the memory that the plan requires. Returns false for a
/// network in which a port has no bound. `told` names the network.
pub(crate) fn loses_nothing_as_planned(mut network: Network, seed: u64, told: &str) -> bool {
    let generous = promises(&network).ports;
    if generous.iter().any(|port| port.backlog_bytes.is_none()) {
        return false;
    }
    for switch in &mut network.switches {
        let needs = generous.iter().filter(|port| port.node == switch.name);
        let needs = needs.filter_map(|port| port.backlog_bytes);
        let bytes = if switch.buffer.shared {
            needs.sum()
        } else {
            needs.max().unwrap_or(0)
        };
        switch.buffer.bytes = bytes.max(1);
    }
    let plan =
        plan(&network, &Options::default()).unwrap_or_else(|refusal| panic!("{refusal}\n{told}"));
    let model = Model::new(&network).unwrap();
    let mut simulator = Simulator::new(&model);
    for (choice, scenario) in scenarios(&network, &model, seed) {
        simulator.run(&scenario);
        let report = Report::new(&model, &simulator, &scenario, choice.word(), &plan);
        assert_eq!(
            (report.outcome, simulator.dropped()),
            (Outcome::Kept, 0),
            "{choice:?}: {:?}\n{told}",
            report.ports
        );
    }
    true
}
