//! Deterministic Ethernet from ordinary Linux machines: plan it, run it, prove it.

pub use rtwire_plan as plan;
