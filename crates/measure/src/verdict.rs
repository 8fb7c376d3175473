//! Kept, broken or inconclusive: the rule of the verdict.
#![doc = include_str!("../../../docs/verdict.md")]

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
