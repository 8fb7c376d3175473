//! Judges a run: kept, broken or inconclusive.
//!
//! - **Kept**: measured, and within the promise. It is never said without evidence.
//! - **Broken**: measured, not within the promise, and no stall of the machine explains it.
//! - **Inconclusive**: the measurement shows neither, and the report says why.
//!
//! `docs/verdict.md` states the rule line by line. The whole run is as good as its worst part: each stream at each of its
//! listeners, each port, each talker's contract.

mod allowance;
mod clocks;
mod contract;
mod emulation;
mod evidence;
mod judge;
mod ports;
mod replayed;
mod service;
mod stream;
mod talker;
#[cfg(test)]
mod tests;
mod word;

pub use allowance::{Allowance, StallLine, hold_ns};
pub use contract::{excess_bits, unexplained_excess_bits};
pub use emulation::{EmulatedPort, EmulatedStream, Emulation, HeldBack, PortDrop, ReplayedFrame};
pub use evidence::{
    BacklogSample, DropWindow, Evidence, PortEvidence, PortId, Rule, Sample, StreamEvidence,
    TalkerEvidence,
};
pub use judge::{Judgement, judge};
pub use ports::PortJudgement;
pub use service::{FrameId, PortFrame, lateness, order};
pub use stream::StreamJudgement;
pub use talker::TalkerJudgement;
pub use word::Verdict;
