//! The demo in a row, beside other programs, and the same with a fault planted in each: what a newcomer sees on a shared
//! machine must be true both ways.

use crate::attacks::{Fault, planted_while};
use crate::planted::Busy;
use crate::support::*;

/// As `make demo` runs it: the record of `make test-full`.
const DEMO: [&str; 4] = ["--duration", "10s", "--at-most", "60s"];
/// As long as a verdict needs.
const BRIEF: [&str; 4] = ["--calibration", "500ms", "--duration", "3s"];

/// The number in a variable, if it is set.
fn asked(name: &str) -> Option<usize> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Beside two busy loops no demo is broken, at least 19 of 20 are kept, and each planted fault is found.
///
/// `RTWIRE_DEMOS=20 RTWIRE_FAULTS=20` makes the record: as many demos, and as many with one fault each. The faults take
/// turns.
#[test]
fn demos_beside_busy_loops_are_kept_and_planted_faults_are_found() {
    let _alone = alone();
    let (demos, faults) = (asked("RTWIRE_DEMOS"), asked("RTWIRE_FAULTS"));
    let arguments = match demos.or(faults) {
        Some(_) => DEMO,
        None => BRIEF,
    };
    let (demos, faults) = (demos.unwrap_or(1), faults.unwrap_or(1));
    let file = example("five-nodes.toml");
    let folder = tempfile::tempdir().unwrap();
    let all = Fault::all(folder.path());
    let _busy = [Busy::start(), Busy::start()];
    let mut kept = 0;
    for number in 1..=demos {
        let (_, report) = measured(&file, &arguments);
        println!(
            "demo {number}: {}: {}",
            report["verdict"], report["reasons"]
        );
        assert_ne!(report["verdict"], "broken", "{}", report["reasons"]);
        kept += usize::from(report["verdict"] == "kept");
    }
    let mut missed = Vec::new();
    let first = std::process::id() as usize;
    for (number, fault) in (1..=faults).zip(all.iter().cycle().skip(first % all.len())) {
        let (code, report) = planted_while(&file, &fault.script, &arguments);
        println!(
            "{number}, {}: {}: {}",
            fault.name, report["verdict"], report["reasons"]
        );
        let says = fault.says(&report);
        let found = report["reasons"].to_string().contains(&says);
        if (report["verdict"].as_str(), code, found) != (Some("broken"), Some(1), true) {
            missed.push(format!("{}: {}", fault.name, report["reasons"]));
        }
    }
    println!(
        "{kept} of {demos} demos kept, {} of {faults} faults found",
        faults - missed.len()
    );
    assert!(missed.is_empty(), "{missed:#?}");
    // One of twenty may meet a machine that stalls too much, as may the only one.
    assert!(demos - kept <= demos.div_ceil(20), "{kept} of {demos} kept");
}
