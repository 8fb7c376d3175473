//! `rtwire lab` as a user runs it: the experiment, its negative twin, faults, and what is left behind.
//!
//! Each test runs a real network on this machine, so they run one after the other. Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod attacks;
mod clock;
mod demos;
mod faults;
mod kept;
mod leftovers;
mod managed;
mod planted;
mod programs;
mod promises;
mod random;
mod support;
