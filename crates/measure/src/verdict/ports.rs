//! The verdict on a port: its backlog and its drops.

use super::allowance::{Allowance, StallLine};
use super::evidence::{PortEvidence, PortId};
use super::word::{Verdict, counted};
use crate::units::grouped;

/// The verdict on one port, with its reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortJudgement {
    /// The port.
    pub id: PortId,
    /// The verdict.
    pub verdict: Verdict,
    /// The reasons, in plain sentences; never empty.
    pub reasons: Vec<String>,
    /// Number of dropped frames that a stall or an exceeded contract would explain. They make the verdict
    /// inconclusive.
    pub drops_explained: u64,
}

/// Judges one port. Anything that a stall explains makes the verdict inconclusive, never kept. Therefore each stall
/// counts with its longest possible length.
pub(super) fn judge_port(
    port: &PortEvidence,
    possible: &StallLine,
    beyond_bits: u64,
) -> PortJudgement {
    let allowance = Allowance::new(possible, port.utilization_ppm, port.hold_ns);
    let allowed_bytes = |from_ns: u64, to_ns: u64| {
        let bits = u128::from(allowance.ns(from_ns, to_ns)) * u128::from(port.link_rate_bps)
            / 1_000_000_000;
        (bits + u128::from(beyond_bits)) / 8
    };
    let mut verdict = Verdict::Kept;
    let mut reasons = Vec::new();

    let spare = port
        .promised_backlog_bytes
        .zip(port.buffer_bytes)
        .map(|(p, b)| u128::from(b.saturating_sub(p)));
    let explained = port.drop_windows.iter().filter(|w| {
        let allowed = allowed_bytes(w.from_ns, w.to_ns);
        spare.is_some_and(|spare| allowed > 0 && allowed >= spare)
    });
    let drops_explained = explained
        .map(|w| w.frames)
        .sum::<u64>()
        .min(port.frames_dropped);
    let unexplained = port.frames_dropped - drops_explained;
    if unexplained > 0 {
        verdict = Verdict::Broken;
        reasons.push(format!(
            "{} dropped because the buffer was full.",
            counted(unexplained, "frame")
        ));
    }
    if drops_explained > 0 {
        verdict = verdict.max(Verdict::Inconclusive);
        reasons.push(format!(
            "{} dropped when a stall of the machine, or a talker beyond its contract, could have filled the buffer.",
            counted(drops_explained, "frame")
        ));
    }

    match (port.promised_backlog_bytes, port.max_backlog_bytes) {
        (Some(promised), Some(max)) if max > promised => {
            let over = port.backlog.iter().filter(|b| b.max_bytes > promised);
            let all_explained = over
                .clone()
                .all(|b| u128::from(b.max_bytes - promised) <= allowed_bytes(b.from_ns, b.to_ns));
            let seen = over.map(|b| b.max_bytes).max() >= Some(max);
            let text = format!(
                "The backlog reached {} B of the promised {} B",
                grouped(max),
                grouped(promised)
            );
            if all_explained && seen {
                verdict = verdict.max(Verdict::Inconclusive);
                reasons.push(format!("{text}, which a stall of the machine, or a talker beyond its contract, explains."));
            } else {
                verdict = Verdict::Broken;
                reasons.push(format!(
                    "{text} and no recorded stall of the machine explains it."
                ));
            }
        }
        (Some(promised), Some(max)) => {
            if verdict == Verdict::Kept {
                reasons.push(format!(
                    "Promised {} B, highest backlog {} B, nothing dropped.",
                    grouped(promised),
                    grouped(max)
                ));
            }
        }
        (None, _) => {
            verdict = verdict.max(Verdict::Inconclusive);
            reasons.push(
                "The plan has no backlog bound for this port, so there is nothing to judge."
                    .to_owned(),
            );
        }
        (_, None) => {
            verdict = verdict.max(Verdict::Inconclusive);
            reasons.push("The backlog was not measured.".to_owned());
        }
    }
    PortJudgement {
        id: port.id.clone(),
        verdict,
        reasons,
        drops_explained,
    }
}
