//! No simulated delay exceeds its promise and no simulated backlog exceeds its bound, for every method. No frame is
//! lost if the plan fits.
//!
//! `RTWIRE_SIMULATIONS=5000` simulates more networks. A violation prints its description. Reduce it and keep it in
//! `tests/counterexamples`.

use crate::common;

use common::networks::{
    random_description, random_line, random_ring, random_shaped_ways, random_shapers,
};
use common::referee::{all_methods, check, loses_nothing_as_planned, scenarios};
use common::{network, promises};
use rtwire_plan::{Analysis, Options, plan};
use rtwire_sim::random::Random;
use rtwire_sim::{Model, Outcome, PatternChoice, Report, Scenario, Simulator};

fn count(usual: u64) -> u64 {
    let usual = if cfg!(debug_assertions) {
        usual / 10
    } else {
        usual
    };
    std::env::var("RTWIRE_SIMULATIONS").map_or(usual, |count| count.parse().unwrap())
}

/// Checks `networks` random networks. Returns the number of those with promises, and of those that used 90 % of a
/// promise.
fn check_all(
    networks: u64,
    simulations: u64,
    describe: impl Fn(&mut Random) -> String,
) -> (u64, u64) {
    check_most(networks, simulations, (3, 4), describe)
}

/// As [`check_all`]. More than `(a, b)`, a of b, of the networks must have a promise.
fn check_most(
    networks: u64,
    simulations: u64,
    (part, of): (u64, u64),
    describe: impl Fn(&mut Random) -> String,
) -> (u64, u64) {
    let (mut bounded, mut near, mut hops, mut compared) = (0_u64, 0_u64, 0_u64, 0_u64);
    let first = std::env::var("RTWIRE_FIRST_SEED").map_or(1, |seed| seed.parse().unwrap());
    let mut failures = Vec::new();
    for seed in first..first + networks {
        let text = describe(&mut Random::new(seed, 0));
        let network = network(&text);
        let plans = all_methods(&network);
        let mut promised = plans[0]
            .1
            .streams
            .iter()
            .flat_map(|stream| &stream.promises);
        bounded += u64::from(promised.any(|promise| promise.delay_ns.is_some()));
        match check(&network, &plans, seed, simulations) {
            Ok(played) => {
                near += u64::from(played.used_permille >= 900);
                hops += played.frame_hops;
                compared += played.promises;
            }
            Err(message) => failures.push(format!("seed {seed}: {message}\n{text}")),
        }
    }
    println!(
        "{bounded} of {networks} networks with promises, in {near} 90 % of one were used, {hops} frame-hops, {compared} comparisons"
    );
    assert!(
        failures.is_empty(),
        "{} networks with violations, the first:\n{}",
        failures.len(),
        failures[0]
    );
    assert!(
        bounded * of > networks * part,
        "only {bounded} networks had a promise"
    );
    (bounded, near)
}

#[test]
fn no_bound_is_exceeded_in_random_networks() {
    let (bounded, near) = check_all(count(400), 40, random_description);
    assert!(
        near * 2 > bounded,
        "only {near} of {bounded} networks came near a promise: the simulation is too tame"
    );
}

#[test]
fn no_bound_is_exceeded_in_rings() {
    check_all(count(100), 40, random_ring);
}

/// With long routes of bursts, the promises come from the bounds on rows of ports.
#[test]
fn no_bound_is_exceeded_where_rows_of_ports_are_less() {
    check_all(count(300), 60, random_line);
    let (mut less, mut promises, mut saved) = (0, 0, 0.0);
    for seed in 1..40 {
        let network = network(&random_line(&mut Random::new(seed, 0)));
        let delays = |analysis| {
            let options = Options {
                ignore_limits: true,
                analysis,
            };
            let plan = plan(&network, &options).unwrap();
            let promises = plan.streams.into_iter().flat_map(|it| it.promises);
            promises
                .map(|promise| {
                    let terms: u64 = promise.terms.iter().map(|term| term.ns).sum();
                    assert_eq!(Some(terms), promise.delay_ns);
                    terms
                })
                .collect::<Vec<u64>>()
        };
        let (ports, rows) = (delays(Analysis::Full), delays(Analysis::EndToEnd));
        for ((port, row), whole) in ports.iter().zip(&rows).zip(delays(Analysis::Sfa)) {
            assert!(row <= port && *row <= whole, "{row} {port} {whole}");
            promises += 1;
            less += usize::from(row < port);
            saved += 1.0 - *row as f64 / *port as f64;
        }
    }
    println!(
        "rows are less for {less} of {promises} promises, by {:.1} % in the mean of all",
        saved / promises as f64 * 100.0
    );
    assert!(less * 4 > promises, "{less} of {promises}");
}

#[test]
fn no_bound_is_exceeded_with_credits_and_regulators() {
    check_all(count(300), 40, random_shapers);
}

/// Long routes and loops: ports with credits are in rows, too.
#[test]
fn no_bound_is_exceeded_on_long_routes_with_credits_and_regulators() {
    // In half of them regulators stand here and there, and then half have no promise: some 74 of 100 have one.
    check_most(count(100), 40, (3, 5), random_shaped_ways);
}

/// Memory exactly as large as the plan requires, of ports and of pools.
#[test]
fn memory_as_large_as_planned_loses_nothing() {
    let mut tried = 0;
    for seed in 0..count(200) {
        let text = random_description(&mut Random::new(seed, 1));
        let told = format!("seed {seed}\n{text}");
        tried += u64::from(loses_nothing_as_planned(network(&text), seed, &told));
    }
    assert!(
        tried * 2 > count(200),
        "only {tried} networks had bounds everywhere"
    );
}

/// `f0` is late by nothing but its own frames, so its promise is exact. A regulator lets frames go at whole picoseconds.
#[test]
fn a_picosecond_of_a_regulator_breaks_no_promise() {
    let network = network(include_str!(
        "counterexamples/regulators-to-the-picosecond.toml"
    ));
    let plan = promises(&network);
    let model = Model::with_plan(&network, &plan).unwrap();
    let mut simulator = Simulator::new(&model);
    let mut by_one = 0;
    for drift_ppm in -100..=100 {
        let mut scenario = Scenario::new(&model, PatternChoice::Greedy, 1, 25_000_000_000, 0);
        scenario.drift_ppm.fill(drift_ppm);
        simulator.run(&scenario);
        let report = Report::new(&model, &simulator, &scenario, "greedy", &plan);
        let f0 = &report.streams[0];
        let promised_ps = f0.promised_delay_ns.unwrap() * 1_000;
        by_one += u32::from(f0.worst_delay_ps == Some(promised_ps + 1));
        assert_eq!(report.outcome, Outcome::Kept, "{report:#?}");
        // One for each port with a regulator.
        assert_eq!(report.rounding_ps, 2);
    }
    assert!(by_one > 0, "this is not the network that showed it");
}

/// All known counterexamples.
#[test]
fn counterexamples_are_no_more() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/counterexamples");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let network = network(&std::fs::read_to_string(&path).unwrap());
        let plans = all_methods(&network);
        if let Err(message) = check(&network, &plans, 1, 2000) {
            panic!("{}: {message}", path.display());
        }
    }
}

/// Each node has a random map of priorities to queues. What is simulated keeps the promises of the same maps, and is not
/// what the default maps do.
#[test]
fn maps_of_priorities_are_played() {
    let mut differ = 0;
    for seed in 1..=count(60) {
        let mut random = Random::new(seed, 0);
        let plain = network(&random_description(&mut random));
        let mut mapped = plain.clone();
        let mut map = |queues: u8| {
            let mut draw = || u8::try_from(random.below(u64::from(queues))).unwrap();
            Some(std::array::from_fn(|_| draw()))
        };
        for host in &mut mapped.hosts {
            host.priority_map = map(host.queues);
        }
        for switch in &mut mapped.switches {
            switch.priority_map = map(switch.queues);
        }
        if let Err(failure) = check(&mapped, &all_methods(&mapped), seed, 4) {
            panic!("seed {seed}: {failure}\n{mapped:?}");
        }
        let delays = |network: &rtwire_plan::Network| {
            let plan = promises(network);
            let model = Model::with_plan(network, &plan).unwrap();
            let mut simulator = Simulator::new(&model);
            let (choice, scenario) = scenarios(network, &model, seed).remove(0);
            simulator.run(&scenario);
            let report = Report::new(&model, &simulator, &scenario, choice.word(), &plan);
            let all = report.streams.into_iter().filter(|one| !one.best_effort);
            all.map(|one| one.worst_delay_ps).collect::<Vec<_>>()
        };
        differ += u64::from(delays(&plain) != delays(&mapped));
    }
    assert!(differ > count(60) / 4, "{differ}");
}
