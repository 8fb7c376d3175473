//! The verdict on one stream at one listener of an emulated network.
//!
//! Its delays are those of an exact replay through the *described* network. The emulation has to deliver every frame,
//! once and in order, and each of its errors needs a recorded cause.

use std::collections::HashMap;

use super::allowance::StallLine;
use super::emulation::{EmulatedStream, FrameError, PortErrors, handover};
use super::evidence::{Rule, StreamEvidence};
use super::service::FrameId;
use super::stream::{Findings, StreamJudgement, exceeds, frames, percent, share_ppm, sufficiency};
use super::word::{Verdict, counted};
use crate::units::{duration, grouped, share};

/// The rest of the evidence, as far as the verdict on a stream needs it.
pub(super) struct Surroundings<'a> {
    pub(super) rule: &'a Rule,
    pub(super) stalls: &'a StallLine,
    /// The errors of the ports on the route.
    pub(super) ports: Vec<&'a PortErrors>,
    pub(super) handover_ns: u64,
    /// Number of bits that talkers sent beyond their contracts, of all that can reach the route.
    pub(super) beyond_bits: u64,
    /// Number of this stream's frames that ports on the route dropped while a stall held them up.
    pub(super) drops_explained: u64,
    /// True if no record of a port was lost.
    pub(super) records_complete: bool,
}

/// Judges one stream at one listener of an emulated network.
pub(super) fn judge_replayed(
    stream: &StreamEvidence,
    emulated: &EmulatedStream,
    around: &Surroundings<'_>,
) -> StreamJudgement {
    let mut j = StreamJudgement::new(stream);
    let mut found = Findings::default();
    exact_delays(stream, emulated, around, &mut j, &mut found);
    deliveries(stream, emulated, around, &mut j, &mut found);
    frames(stream, &j, around.drops_explained, &mut found);
    sufficiency(stream, around.rule, &j, &mut found);
    let kept = kept_reason(stream, emulated, &j);
    found.conclude(&mut j, kept);
    j
}

/// Judges the delays in the described network.
fn exact_delays(
    stream: &StreamEvidence,
    emulated: &EmulatedStream,
    around: &Surroundings<'_>,
    j: &mut StreamJudgement,
    found: &mut Findings,
) {
    use Verdict::{Broken, Inconclusive};
    let Some(promise) = stream.promise_ns else {
        found.add(
            Inconclusive,
            "The plan has no delay bound for this stream, so there is nothing to judge.".to_owned(),
        );
        return;
    };
    let settled = || emulated.frames.iter().filter(|frame| !frame.unsettled);
    let exact = || settled().filter_map(|frame| frame.exact_ns);
    j.late = exact().filter(|ns| *ns > promise).count() as u64;
    let lost = settled().filter(|frame| frame.exact_ns.is_none()).count() as u64;
    // The frames held back are traffic within all contracts, through the same network. What is beyond the promise there is a
    // proof, whatever a talker did in the run. What is not, the excess has caused.
    let also_held_back = emulated
        .held_back
        .is_some_and(|held| held.slowest_ns > promise || held.lost > 0);
    let (verdict, why) = match around.beyond_bits {
        0 => (Broken, "although all talkers kept their contracts"),
        _ if also_held_back => (
            Broken,
            "and so do frames of talkers that are held back until they keep their contracts",
        ),
        _ => (
            Inconclusive,
            "but a talker was held up and missed its contract or its launch times",
        ),
    };
    let unsettled = emulated.frames.len() - settled().count();
    if unsettled > 0 {
        found.add(
            Verdict::Kept,
            format!(
                "{} at the beginning not judged: the schedule needs the frames before them.",
                counted(unsettled as u64, "delay")
            ),
        );
    }
    match verdict {
        Broken => j.unexplained = j.late,
        _ => j.beyond_contract = j.late,
    }
    if j.late > 0 {
        found.add(verdict, format!(
            "{} of {} frames need longer than the promised {} in the described network, {why}; the slowest needs {}.",
            grouped(j.late), grouped(settled().count() as u64), duration(promise),
            duration(exact().max().unwrap_or(0))
        ));
    }
    if lost > 0 {
        found.add(
            verdict,
            format!(
                "{} lost in the described network, {why}.",
                counted(lost, "frame")
            ),
        );
    }
    if let Some(deadline) = stream.deadline_ns.filter(|deadline| *deadline < promise) {
        let missed = exact()
            .filter(|ns| *ns > deadline && *ns <= promise)
            .count() as u64;
        if missed > 0 {
            found.add(
                Inconclusive,
                format!(
                    "{} longer than the deadline of {}, though not longer than the promised {}.",
                    counted(missed, "frame needs"),
                    duration(deadline),
                    duration(promise)
                ),
            );
        }
    }
}

/// Judges how the emulation delivered the frames.
fn deliveries(
    stream: &StreamEvidence,
    emulated: &EmulatedStream,
    around: &Surroundings<'_>,
    j: &mut StreamJudgement,
    found: &mut Findings,
) {
    use Verdict::{Broken, Inconclusive, Kept};
    let known: HashMap<u32, Option<u64>> = emulated
        .frames
        .iter()
        .map(|frame| (frame.seq, frame.left_ns))
        .collect();
    // A port of the route without evidence has a record of no frame.
    let all_known = around.ports.len() == stream.route.len();
    let mut unrecorded = 0;
    for sample in &stream.samples {
        let Some(left_ns) = known.get(&sample.seq) else {
            j.stamps_missing += 1;
            continue;
        };
        let id = FrameId {
            flow: emulated.flow,
            seq: sample.seq,
        };
        let at_ports = around
            .ports
            .iter()
            .filter_map(|port| port.of.get(&id))
            .max();
        let came_ns = sample
            .rx_ns
            .map(|rx_ns| rx_ns.saturating_sub(emulated.transmission_ns));
        let last = handover(*left_ns, came_ns, around.handover_ns, around.stalls);
        match at_ports.copied().max(last) {
            Some(FrameError::Unexplained) => j.port_errors += 1,
            Some(FrameError::Explained) => j.explained += 1,
            // Without the records of all ports of its way, a frame shows no error because nobody saw it.
            None if around.records_complete => {
                let passed = |port: &&PortErrors| port.passed.binary_search(&id).is_ok();
                let recorded = all_known && left_ns.is_some() && around.ports.iter().all(passed);
                unrecorded += u64::from(!recorded);
            }
            None => {}
        }
    }
    j.stamps_missing += unrecorded;
    let n = stream.samples.len() as u64;
    if unrecorded > 0 {
        let too_many = exceeds(unrecorded, n, around.rule.max_missing_ppm);
        found.add(
            if too_many { Inconclusive } else { Kept },
            format!(
                "{} arrived without a record of each port on the way: the error of their delivery is unknown.",
                counted(unrecorded, "frame")
            ),
        );
    }
    let clean = n.saturating_sub(j.port_errors + j.explained + j.stamps_missing);
    j.coverage_ppm = share_ppm(clean, n);
    if j.port_errors > 0 {
        found.add(Broken, format!(
            "{} delivered later than the described network would, and no stall of the machine at that moment explains it.",
            counted(j.port_errors, "frame")
        ));
    }
    if j.explained == 0 {
        return;
    }
    let text = format!(
        "{} ({}) delivered late by stalls of the machine that were recorded at that moment",
        counted(j.explained, "frame"),
        share(j.explained, n)
    );
    match exceeds(
        n - clean,
        n,
        1_000_000 - around.rule.min_coverage_ppm.min(1_000_000),
    ) {
        true => found.add(
            Inconclusive,
            format!(
                "{text}: with less than {} % of the frames free of them, little was shown.",
                percent(around.rule.min_coverage_ppm)
            ),
        ),
        false => found.add(Kept, format!("{text}.")),
    }
}

fn kept_reason(stream: &StreamEvidence, emulated: &EmulatedStream, j: &StreamJudgement) -> String {
    let settled = emulated.frames.iter().filter(|frame| !frame.unsettled);
    let slowest = settled.filter_map(|frame| frame.exact_ns).max();
    match (stream.promise_ns, slowest) {
        (Some(promise), Some(slowest)) => format!(
            "{} frames arrived, none lost; promised {}, slowest {} in the described network; judged on {} of the frames.",
            grouped(stream.frames_received),
            duration(promise),
            duration(slowest),
            share(u64::from(j.coverage_ppm), 1_000_000)
        ),
        _ => format!(
            "{} frames arrived, none lost.",
            grouped(stream.frames_received)
        ),
    }
}
