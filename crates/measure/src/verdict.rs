//! Kept, broken or inconclusive: the rule.
#![doc = include_str!("../../../docs/verdict.md")]

mod allowance;
mod contract;
mod evidence;
mod judge;
mod ports;
#[cfg(test)]
mod tests;

pub use allowance::{Allowance, StallLine};
pub use contract::excess_bits;
pub use evidence::{
    BacklogSample, DropWindow, Evidence, PortEvidence, PortId, Rule, Sample, StreamEvidence,
    TalkerEvidence,
};
pub use judge::{Judgement, StreamJudgement, Verdict, judge};
pub use ports::PortJudgement;
