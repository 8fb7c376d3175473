//! The verdict on a port: its backlog and its drops.

use super::allowance::{Allowance, StallLine};
use super::contract::excess_bits;
use super::emulation::{EmulatedPort, PortErrors};
use super::evidence::{PortEvidence, PortId};
use super::word::{Verdict, counted};
use crate::units::{duration, grouped, share};

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
    /// Frames of an emulated port that were late, and a stall recorded at that moment explains it.
    pub explained: u64,
    /// Frames of an emulated port that were late, and nothing explains it.
    pub unexplained: u64,
    /// The highest lateness of an emulated port that no stall explains, ns.
    pub worst_error_ns: Option<u64>,
}

/// Judges a port of an emulated network: its backlog in the described network, and its errors in the emulated one.
/// `beyond_bits` is the number of bits that talkers sent beyond their contracts.
pub(super) fn judge_emulated(
    port: &PortEvidence,
    emulated: &EmulatedPort,
    errors: &PortErrors,
    beyond_bits: u64,
) -> PortJudgement {
    use Verdict::{Broken, Inconclusive};
    let mut found: Vec<(Verdict, String)> = Vec::new();
    if errors.unexplained > 0 {
        found.push((Broken, format!(
            "{} later than the calibrated {} with no stall of the machine at that moment: the port does not behave as described; the latest by {}.",
            counted(errors.unexplained, "frame"), duration(emulated.latency_ns), duration(errors.worst_ns)
        )));
    }
    if let Some(ppm) = errors.slower_ppm {
        found.push((
            Broken,
            format!(
                "Its lateness grows while it is busy: it is slower than its rate by {}.",
                share(ppm, 1_000_000)
            ),
        ));
    }
    if errors.out_of_order > 0 {
        found.push((
            Broken,
            format!(
                "{} left before one that should have gone first.",
                counted(errors.out_of_order, "frame")
            ),
        ));
    }
    if emulated.unmatched > 0 {
        found.push((
            Broken,
            format!(
                "{} left that had not entered, or left twice.",
                counted(emulated.unmatched, "frame")
            ),
        ));
    }
    found.extend(foreign(port, emulated));
    let drops_explained = match emulated.exact_dropped {
        0 => port
            .frames_dropped
            .min(errors.drops_explained.values().sum()),
        _ => 0,
    };
    let drops_unexplained = port.frames_dropped - drops_explained;
    if drops_unexplained > 0 {
        let drops = counted(drops_unexplained, "frame");
        found.push((
            Broken,
            format!("{drops} dropped because the buffer was full."),
        ));
    }
    if drops_explained > 0 {
        let drops = counted(drops_explained, "frame");
        found.push((Inconclusive, format!(
            "{drops} dropped after stalls of the machine that were recorded; the described port drops none."
        )));
    }
    match (port.promised_backlog_bytes, emulated.exact_backlog_bytes) {
        (Some(promised), Some(exact)) if exact > promised => {
            let text = format!(
                "The backlog reaches {} B of the promised {} B in the described network",
                grouped(exact),
                grouped(promised)
            );
            // As for delays: what frames that are held back reach, no excess has caused.
            found.push(match (beyond_bits, emulated.held_back_backlog_bytes) {
                (0, _) => (Broken, format!("{text}.")),
                (_, Some(held)) if held > promised => (
                    Broken,
                    format!(
                        "{text}, and {} B with frames of talkers that are held back until they keep their contracts.",
                        grouped(held)
                    ),
                ),
                (_, Some(_)) if emulated.exact_dropped == 0 => (
                    Verdict::Kept,
                    format!("{text}, after a talker was held up; nothing is dropped there."),
                ),
                (_, Some(_)) => (
                    Inconclusive,
                    format!("{text}, after a talker was held up, and frames are dropped there."),
                ),
                (_, None) => (
                    Inconclusive,
                    format!("{text}, after a talker was held up or missed its launch times."),
                ),
            });
        }
        (Some(_), Some(_)) => {}
        (None, _) => found.push((
            Inconclusive,
            "The plan has no backlog bound for this port, so there is nothing to judge.".to_owned(),
        )),
        (_, None) => found.push((Inconclusive, "The port was not replayed.".to_owned())),
    }
    let verdict = found.iter().map(|(verdict, _)| *verdict).max();
    if verdict.unwrap_or(Verdict::Kept) == Verdict::Kept {
        found.push((
            Verdict::Kept,
            format!(
                "Promised {} B, highest backlog {} B in the described network, nothing dropped.",
                grouped(port.promised_backlog_bytes.unwrap_or(0)),
                grouped(emulated.exact_backlog_bytes.unwrap_or(0))
            ),
        ));
    }
    found.sort_by_key(|(verdict, _)| std::cmp::Reverse(*verdict));
    PortJudgement {
        id: port.id.clone(),
        verdict: verdict.unwrap_or(Verdict::Kept),
        reasons: found.into_iter().map(|(_, reason)| reason).collect(),
        drops_explained,
        explained: errors.explained,
        unexplained: errors.unexplained,
        worst_error_ns: Some(errors.worst_ns),
    }
}

/// The share of a link, in millionths, that frames of no stream may take. With more, the traffic was not the described one.
const FOREIGN_MOST_PPM: u64 = 10_000;
/// The bytes that such frames may always bring at once: a full frame with a VLAN tag, on the wire.
const FOREIGN_BURST_LEAST_BYTES: u64 = 1_542;

/// Returns the finding on frames of no stream and no best effort, which the described network does not have.
fn foreign(port: &PortEvidence, emulated: &EmulatedPort) -> Option<(Verdict, String)> {
    let served = || {
        emulated
            .frames
            .iter()
            .filter(|frame| frame.left_ns.is_some())
    };
    let foreign = || served().filter(|frame| frame.frame.is_none());
    let count = foreign().count() as u64;
    if count == 0 {
        return None;
    }
    let bits: u64 = foreign().map(|frame| u64::from(frame.wire_bits)).sum();
    let took_ns = u128::from(bits) * 1_000_000_000 / u128::from(port.link_rate_bps.max(1));
    let took_ns = u64::try_from(took_ns).unwrap_or(u64::MAX);
    let first = emulated.frames.iter().map(|frame| frame.entered_ns).min();
    let last = served().filter_map(|frame| frame.left_ns).max();
    let span_ns = last.unwrap_or(0).saturating_sub(first.unwrap_or(0)).max(1);
    let ppm = u128::from(took_ns) * 1_000_000 / u128::from(span_ns);
    let text = format!(
        "{} of no stream here ({} of the link)",
        counted(count, "frame"),
        share(took_ns, span_ns)
    );
    // A share says nothing of a moment. Beyond it, they may bring at once what is left of the promised backlog.
    let at = foreign().filter_map(|frame| Some((frame.left_ns?, u64::from(frame.wire_bits))));
    let rate_num = port.link_rate_bps.saturating_mul(FOREIGN_MOST_PPM);
    let burst_bytes = excess_bits(at, rate_num, 1_000_000, 0).div_ceil(8);
    let spare = port
        .promised_backlog_bytes
        .zip(emulated.exact_backlog_bytes)
        .map_or(0, |(promised, exact)| promised.saturating_sub(exact));
    let at_once = burst_bytes > spare.max(FOREIGN_BURST_LEAST_BYTES);
    Some(match ppm > u128::from(FOREIGN_MOST_PPM) || at_once {
        true if at_once => (
            Verdict::Inconclusive,
            format!(
                "{text}, {} B of them at once: the traffic is not the described one.",
                grouped(burst_bytes)
            ),
        ),
        true => (
            Verdict::Inconclusive,
            format!("{text}: the traffic is not the described one."),
        ),
        false => (
            Verdict::Kept,
            format!("{text}; exact delays do not contain them."),
        ),
    })
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
        explained: 0,
        unexplained: 0,
        worst_error_ns: None,
    }
}
