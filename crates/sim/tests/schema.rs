//! The committed schema matches the code.
//! `RTWIRE_UPDATE=1 cargo test -p rtwire-sim --test main schema` regenerates it.

use crate::common;

use rtwire_sim::{Model, PatternChoice, Report, Scenario, SearchOptions, Simulator, search};

#[test]
fn the_schema_is_committed() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../schema/simulation.schema.json");
    // As `rtwire schema simulation` prints it: keys in the order of a JSON value, not in that of `schemars`.
    let generated = format!("{:#}\n", rtwire_sim::report_schema().to_value());
    if std::env::var_os("RTWIRE_UPDATE").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert!(
        committed == generated,
        "{} differs from what the code says; run with RTWIRE_UPDATE=1",
        path.display()
    );
}

#[test]
fn reports_are_of_the_schema() {
    let schema = serde_json::to_value(rtwire_sim::report_schema()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for text in [
        include_str!("../../../examples/line.toml"),
        include_str!("../../../examples/five-nodes-unshaped.toml"),
    ] {
        let network = common::network(text);
        let plan = common::promises(&network);
        let model = Model::new(&network).unwrap();
        let mut simulator = Simulator::new(&model);
        let scenario = Scenario::new(&model, PatternChoice::Mixed, 1, 20_000_000_000, 10);
        simulator.run(&scenario);
        let mut report = Report::new(&model, &simulator, &scenario, "mixed", &plan);
        let options = SearchOptions {
            simulations: 20,
            seed: 1,
            longest_ps: 10_000_000_000,
        };
        search(&model, &mut simulator, &plan, &options, &mut report, |_| {
            true
        });
        let value = serde_json::to_value(&report).unwrap();
        let faults: Vec<String> = validator
            .iter_errors(&value)
            .map(|fault| fault.to_string())
            .collect();
        assert!(faults.is_empty(), "{faults:?}");
        assert_eq!(serde_json::from_value::<Report>(value).unwrap(), report);
    }
}
