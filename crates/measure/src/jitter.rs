//! Jitter of a POWERLINK cycle and response times of its nodes, from a capture of any origin or live.
//!
//! ```text
//!  packets ──► Follower::packet ──► SoC–SoC intervals, PReq–PRes times, lost, late, load
//!                   │                                   │
//!                   └── worst cases with the packets around them     └──► JitterReport ──► text, JSON, HTML
//!                            └──► capture (pcapng, each with a comment)
//! ```
//!
//! All times come from the capture's timestamps and are valid for the place of the capture. A PReq–PRes time captured
//! at the managing node's port contains the path to the controlled node and back.
//!
//! | word | meaning |
//! |---|---|
//! | deviation | difference between an interval from SoC to SoC and the cycle; a missing SoC makes it a whole cycle |
//! | late | a PRes that arrived after the managing node's next PReq, SoA or SoC |
//! | lost | a PReq without a PRes before the node's next PReq |
//! | missing | SoC that should have been sent, by the length of an interval |
//! | isochronous phase | from SoC to SoA |
//!
//! Limits: with PollResponse chaining, PRes have no PReq. They are counted, but they have no PReq–PRes time.

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

/// Returns the JSON Schema of the report, as committed in `schema/jitter.schema.json`.
#[must_use]
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(JitterReport).to_value()
}
