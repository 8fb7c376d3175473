//! Results of a search beside the promises of a network.

use rtwire_plan::{Network, Plan};
use rtwire_sim::{Model, PatternChoice, Report, Scenario, SearchOptions, Simulator, search};

/// Returns the results with all bursts at once, and then those of a search of the given number of simulations.
pub(crate) fn searched(
    network: &Network,
    plan: &Plan,
    simulations: u64,
    longest_ps: u64,
) -> Report {
    let model = Model::new(network).unwrap();
    let mut simulator = Simulator::new(&model);
    let scenario = Scenario::new(&model, PatternChoice::Greedy, 1, longest_ps, 0);
    simulator.run(&scenario);
    let mut report = Report::new(&model, &simulator, &scenario, "greedy", plan);
    let options = SearchOptions {
        simulations,
        seed: 1,
        longest_ps,
    };
    search(&model, &mut simulator, plan, &options, &mut report, |_| {
        true
    });
    report
}
