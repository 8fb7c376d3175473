//! All tests of the simulator from outside that need no network, as one program: it is linked once.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod adversarial;
mod common;
mod cut_through;
mod cyclic;
mod exact;
#[path = "common/exceeded.rs"]
mod exceeded;
mod groups;
mod latency;
mod laws;
mod meters;
mod preemption;
mod recovery;
mod replay;
mod replay_vectors;
#[path = "../../plan/tests/routers/networks.rs"]
mod routed_networks;
mod routers;
mod schedules;
mod schema;
#[path = "common/searched.rs"]
mod searched;
mod shaped;
#[path = "common/shaped.rs"]
mod shaped_networks;
mod soundness;
mod tightness;
