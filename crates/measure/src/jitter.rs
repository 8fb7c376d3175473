//! How even is a POWERLINK cycle, and how fast do its nodes answer? From a capture of any origin, or live.
//!
//! ```text
//!  packets ──► Follower::packet ──► SoC–SoC intervals, PReq–PRes times, lost, late, load
//!                   │                                   │
//!                   └── worst cases with what was around them        └──► JitterReport ──► text, JSON, HTML
//!                            └──► capture (pcapng, each with a comment)
//! ```
//!
//! What is measured is what the capture's stamps say, at the place where it was taken: a PReq–PRes time at the managing
//! node's port contains the way to the controlled node and back.
//!
//! | word | meaning |
//! |---|---|
//! | deviation | how far the time between two SoC is from the cycle; a SoC that did not come makes it a whole cycle |
//! | late | a PRes that came after the managing node had gone on (its next PReq, SoA or SoC) |
//! | lost | a PReq whose PRes did not come before the node's next PReq |
//! | missing | SoC that the length of an interval says there should have been |
//! | isochronous phase | from SoC to SoA |
//!
//! Limits: with PollResponse chaining, PRes have no PReq; they are counted, and no time is given for them.

mod build;
mod charts;
pub mod compare;
mod follower;
mod frame;
mod html;
mod model;
#[cfg(test)]
mod tests;
mod text;
mod worst;

pub use follower::{Follower, Settings};
pub use model::{
    AsynchronousReport, CycleReport, FrameCounts, HistogramBin, JitterReport, Limits, NodeReport,
    SocReport, UtilizationReport, WorstCase, WorstKind,
};
pub use worst::Neighbourhood;

/// POWERLINK's EtherType.
pub const ETHER_TYPE: u16 = 0x88ab;

/// The JSON Schema of the report, as it is committed in `schema/jitter.schema.json`.
#[must_use]
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(JitterReport).to_value()
}
