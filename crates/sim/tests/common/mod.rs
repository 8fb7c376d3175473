//! Shared by the tests: random networks, their promises by every method, the referee.

#![allow(
    dead_code,
    reason = "each test file is a crate of its own and uses a part"
)]

pub(crate) mod cyclic;
pub(crate) mod gated;
pub(crate) mod networks;
pub(crate) mod referee;

use rtwire_plan::{Network, Options, Plan, plan, read};
use rtwire_sim::random::Random;

pub(crate) fn network(text: &str) -> Network {
    read(text, "test.toml", &[]).unwrap_or_else(|faults| panic!("{faults}\n{text}"))
}

/// Returns a method's promises, whether or not limits are exceeded.
pub(crate) fn promises(network: &Network) -> Plan {
    let options = Options {
        ignore_limits: true,
        ..Options::default()
    };
    plan(network, &options).unwrap_or_else(|refusal| panic!("{refusal}"))
}

pub(crate) fn pick<T: Copy>(random: &mut Random, list: &[T]) -> T {
    list[random.below(list.len() as u64) as usize]
}
