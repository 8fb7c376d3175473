//! Schedules of whole networks: what the plan says, and that an independent check finds nothing wrong with it.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use rtwire_plan::schedule::check::faults;
use rtwire_plan::{Options, plan, read};

const CELL: &str = include_str!("../../../examples/scheduled-cell.toml");

#[test]
fn the_example_is_scheduled() {
    let network = read(CELL, "scheduled-cell.toml", &[]).unwrap();
    let plan = plan(&network, &Options::default()).unwrap_or_else(|refusal| panic!("{refusal}"));
    assert_eq!(faults(&network, &plan), Vec::<String>::new());
}
