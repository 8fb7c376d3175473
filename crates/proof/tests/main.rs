//! All tests of the checker from outside, as one program: it is linked once.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod accepts;
#[rustfmt::skip] // It is formatted where it lives.
#[path = "../../sim/tests/common/mod.rs"]
mod common;
mod mutations;
#[rustfmt::skip] // It is formatted where it lives.
#[path = "../../plan/tests/routers/networks.rs"]
mod routed_networks;
mod routers;
mod schedules;
#[rustfmt::skip] // It is formatted where it lives.
#[path = "../../sim/tests/common/searched.rs"]
mod searched;
mod simulated;
mod stated;
