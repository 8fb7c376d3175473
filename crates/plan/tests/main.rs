//! All tests of the planner from outside, as one program: it is linked once, and its tests share the processors.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod credits;
mod examples;
mod fixtures;
mod identities;
mod imports;
mod large;
mod meters;
mod no_panic;
mod pitfalls;
mod plan_file;
mod priority_map;
mod recovery;
mod routers;
mod routes;
mod schedule_exact;
mod schedule_sets;
mod schedules;
mod schemas;
mod sets;
mod several_links;
mod simulated;
mod simulator;
mod suggestions;
mod synthesis;
mod vectors;
