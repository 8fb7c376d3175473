//! Judges a run: kept, broken or inconclusive.
//!
//! - **Kept**: measured, and within the promise. It is never said without evidence.
//! - **Broken**: measured, not within the promise, and no stall of the machine explains it.
//! - **Inconclusive**: the measurement shows neither, and the report says why.
//!
//! `docs/verdict.md` states the rule line by line. The whole run is as good as its worst part: each stream at each of its
//! listeners, each port, each talker's contract.

mod allowance;
mod contract;
mod evidence;
mod judge;
mod ports;
mod stream;
#[cfg(test)]
mod tests;
mod word;

pub use allowance::{Allowance, StallLine, hold_ns};
pub use contract::excess_bits;
pub use evidence::{
    BacklogSample, DropWindow, Evidence, PortEvidence, PortId, Rule, Sample, StreamEvidence,
    TalkerEvidence,
};
pub use judge::{Judgement, judge};
pub use ports::PortJudgement;
pub use stream::StreamJudgement;
pub use word::Verdict;
