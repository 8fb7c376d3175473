//! Random networks with cyclic streams: no delay, jitter or backlog exceeds its bound, whatever clocks, talkers and other
//! traffic do within the description.
//!
//! `RTWIRE_SIMULATIONS=5000` simulates more networks.

use crate::common;

use common::cyclic::random_cyclic;
use common::network;
use common::referee::{all_methods, check};
use rtwire_plan::{Network, Options, Plan, plan};
use rtwire_sim::random::Random;
use rtwire_sim::{Model, Outcome, PatternChoice, Report, Scenario, Simulator};

const MS: u64 = 1_000_000_000;

fn count() -> u64 {
    std::env::var("RTWIRE_SIMULATIONS").map_or(200, |text| text.parse().unwrap())
}

#[test]
fn no_bound_is_exceeded_with_cyclic_streams() {
    let first = std::env::var("RTWIRE_FIRST_SEED").map_or(1, |seed| seed.parse().unwrap());
    let (mut planned, mut near, mut compared) = (0, 0, 0);
    for seed in first..first + count() {
        let text = random_cyclic(&mut Random::new(seed, 78));
        let network = network(&text);
        // What comes in a cycle may be too much for the next one. Then nothing is promised.
        let mut plans = all_methods(&network);
        plans.retain(|(_, plan)| plan.warnings.is_empty());
        if plans.is_empty() || !network.has_cyclic_streams() {
            continue;
        }
        planned += 1;
        match check(&network, &plans, seed, 30) {
            Ok(played) => {
                near += u64::from(played.used_permille >= 900);
                compared += played.promises;
            }
            Err(message) => panic!("seed {seed}: {message}\n{text}"),
        }
    }
    println!(
        "{planned} networks planned, in {near} 90 % of a promise were used, {compared} comparisons"
    );
    assert!(planned * 3 > count(), "{planned}");
    assert!(near * 2 > planned, "{near}");
}

fn play(network: &Network, plan: &Plan, clock_error_ps: i64) -> Report {
    let model = Model::with_plan(network, plan).unwrap();
    let mut scenario = Scenario::new(&model, PatternChoice::Greedy, 1, 20 * MS, 0);
    for (at, clock) in scenario.clocks.iter_mut().enumerate() {
        clock.error_ps = if at % 2 == 0 {
            clock_error_ps
        } else {
            -clock_error_ps
        };
        clock.drift_ppm = 0;
    }
    let mut simulator = Simulator::new(&model);
    simulator.run(&scenario);
    Report::new(&model, &simulator, &scenario, "greedy", plan)
}

/// Small frames on fast links, and clocks that are apart: without the closed time at the start of each cycle a frame comes to
/// the next switch in the cycle before, and there two cycles meet.
#[test]
fn the_closed_time_keeps_cycles_apart() {
    let text = include_str!("../../../examples/cyclic.toml");
    let network = rtwire_plan::read(text, "cyclic.toml", &[]).unwrap();
    let plan = plan(&network, &Options::default()).unwrap();
    let cyclic = plan.cyclic.as_ref().unwrap();
    // 84 B take 672 ns, the cable 500 ns: the clocks' 2 us need more. Here the smallest frame has 182 B on the wire.
    let closed: Vec<_> = cyclic
        .ports
        .iter()
        .filter(|port| port.closed_ns > 0)
        .collect();
    assert!(!closed.is_empty());
    for error_ps in [-1_000_000, 0, 1_000_000] {
        assert_eq!(play(&network, &plan, error_ps).outcome, Outcome::Kept);
    }
}
