//! The verdict on a talker: its contract, and for best effort its load.

use super::evidence::{Rule, TalkerEvidence};
use super::stream::offered_enough;
use super::word::{Verdict, counted};
use crate::units::grouped;

/// The verdict on one talker, with its reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TalkerJudgement {
    /// The name of the stream or best-effort flow.
    pub name: String,
    /// True for best effort.
    pub best_effort: bool,
    /// The verdict.
    pub verdict: Verdict,
    /// The reasons, in plain sentences; never empty.
    pub reasons: Vec<String>,
}

/// Judges one talker. A stream's own load is judged with the stream.
pub(super) fn judge_talker(talker: &TalkerEvidence, rule: &Rule) -> TalkerJudgement {
    let mut verdict = Verdict::Kept;
    let mut reasons = Vec::new();
    let excess = talker.contract_excess_bits.unwrap_or(0);
    if talker.unexplained_excess_bits > 0 {
        verdict = Verdict::Broken;
        reasons.push(format!(
            "It sent {} beyond its contract, and no recorded stall of the machine explains it.",
            counted(talker.unexplained_excess_bits, "bit")
        ));
    } else if excess > 0 {
        reasons.push(format!(
            "It sent {} beyond its contract when the machine held it up. All delays are judged as it really sent.",
            counted(excess, "bit")
        ));
    }
    if talker.frames_off_launch > 0 {
        reasons.push(format!(
            "{} departed at another time than the launch time of the plan: on this machine a frame leaves when its \
             thread wakes. What is late because of that is not judged.",
            counted(talker.frames_off_launch, "frame")
        ));
    }
    if talker.best_effort && !offered_enough(talker.frames_sent, talker.frames_planned, rule) {
        verdict = verdict.max(Verdict::Inconclusive);
        reasons.push(format!(
            "It sent {} of {} planned frames: the load was not offered.",
            grouped(talker.frames_sent),
            grouped(talker.frames_planned)
        ));
    }
    if reasons.is_empty() {
        reasons.push(format!(
            "{} sent within the contract.",
            counted(talker.frames_sent, "frame")
        ));
    }
    TalkerJudgement {
        name: talker.stream.clone(),
        best_effort: talker.best_effort,
        verdict,
        reasons,
    }
}
