//! The demo in a row, beside other programs, and the same with a fault planted in each: what a newcomer sees on a shared
//! machine must be true both ways.

use crate::planted::{Busy, Fault, planted_while};
use crate::support::*;

/// Demos of each kind in one run. `RTWIRE_DEMOS=20` makes the record of `make test-full`.
const DEMOS: usize = 1;
/// As `make demo` runs it.
const ARGUMENTS: [&str; 4] = ["--duration", "10s", "--at-most", "60s"];

/// Beside two busy loops no demo is broken, at least 19 of 20 are kept, and each planted fault is found.
#[test]
fn demos_beside_busy_loops_are_kept_and_planted_faults_are_found() {
    let _alone = alone();
    let demos = match std::env::var("RTWIRE_DEMOS") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => DEMOS,
    };
    let file = example("five-nodes.toml");
    let _busy = [Busy::start(), Busy::start()];
    let mut kept = 0;
    for number in 1..=demos {
        let (_, report) = measured(&file, &ARGUMENTS);
        println!(
            "demo {number}: {}: {}",
            report["verdict"], report["reasons"]
        );
        assert_ne!(report["verdict"], "broken", "{}", report["reasons"]);
        kept += usize::from(report["verdict"] == "kept");
    }
    let mut missed = Vec::new();
    let first = std::process::id() as usize;
    for (number, fault) in (1..=demos).zip(Fault::all().iter().cycle().skip(first % 6)) {
        let (code, report) = planted_while(&file, &fault.script, &ARGUMENTS);
        println!(
            "{number}, {}: {}: {}",
            fault.name, report["verdict"], report["reasons"]
        );
        if (report["verdict"].as_str(), code) != (Some("broken"), Some(1)) {
            missed.push(format!("{}: {}", fault.name, report["reasons"]));
        }
    }
    println!(
        "{kept} of {demos} demos kept, {} of {demos} faults found",
        demos - missed.len()
    );
    assert!(missed.is_empty(), "{missed:#?}");
    // One of twenty may meet a machine that stalls too much, as may the only one.
    assert!(demos - kept <= demos.div_ceil(20), "{kept} of {demos} kept");
}
