//! The rule itself.

use std::collections::BTreeSet;

use super::allowance::StallLine;
use super::emulation::{PortErrors, errors_of, explain_drops};
use super::evidence::{Evidence, PortEvidence, PortId, StreamEvidence, TalkerEvidence};
use super::ports::{self, PortJudgement};
use super::replayed::{Surroundings, judge_replayed};
use super::stream::{StreamJudgement, judge_stream};
use super::talker::{TalkerJudgement, judge_talker};
use super::word::{Verdict, counted};

/// The verdict on a whole run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The worst verdict of all parts.
    pub verdict: Verdict,
    /// The reasons, in plain sentences; never empty.
    pub reasons: Vec<String>,
    /// The verdict on each stream, in the order of the evidence.
    pub streams: Vec<StreamJudgement>,
    /// The verdict on each port, in the order of the evidence.
    pub ports: Vec<PortJudgement>,
    /// The verdict on each talker, in the order of the evidence.
    pub talkers: Vec<TalkerJudgement>,
}

/// Judges a run. Pure: the same evidence produces the same judgement.
///
/// Broken if any part is broken, else inconclusive if any part is, else kept. See the [module](super) for the rule.
///
/// ```
/// use rtwire_measure::verdict::{judge, Evidence, Verdict};
/// let nothing = judge(&Evidence::default());
/// assert_eq!(nothing.verdict, Verdict::Inconclusive, "without evidence nothing is called kept");
/// ```
#[must_use]
pub fn judge(evidence: &Evidence) -> Judgement {
    if !evidence.clock_set.is_empty() {
        return judge_trusted(&evidence.without_times());
    }
    judge_trusted(evidence)
}

fn judge_trusted(evidence: &Evidence) -> Judgement {
    let trusted = evidence.stalls_doubted.is_empty();
    let line =
        |intervals: Vec<(u64, u64)>| StallLine::new(intervals.into_iter().filter(|_| trusted));
    let lines = [
        line(evidence.stalls.certain().collect()),
        line(evidence.stalls.possible().collect()),
    ];
    let errors = errors(evidence, &lines[1]);
    let mut ports = Vec::new();
    for (port, errors) in evidence.ports.iter().zip(&errors) {
        let beyond = contract_excess_bits(&evidence.talkers, std::slice::from_ref(&port.id));
        ports.push(match &port.emulated {
            Some(emulated) => ports::judge_emulated(port, emulated, errors, beyond),
            None => ports::judge_port(port, &lines[1], beyond),
        });
    }
    let streams: Vec<StreamJudgement> = evidence
        .streams
        .iter()
        .map(|stream| judge_one(evidence, stream, &lines, (&ports, &errors)))
        .collect();
    let talkers: Vec<TalkerJudgement> = evidence
        .talkers
        .iter()
        .map(|talker| judge_talker(talker, &evidence.rule))
        .collect();
    let general = general(evidence);
    let all = streams
        .iter()
        .map(|s| s.verdict)
        .chain(ports.iter().map(|p| p.verdict))
        .chain(talkers.iter().map(|t| t.verdict));
    let least = match streams.is_empty() || !general.is_empty() {
        true => Verdict::Inconclusive,
        false => Verdict::Kept,
    };
    let verdict = all.max().unwrap_or(least).max(least);
    let mut reasons = overall_reasons(verdict, &streams, &ports, &talkers);
    if verdict == Verdict::Inconclusive && !evidence.clock_set.is_empty() {
        // Each stream lacks samples for the same reason.
        reasons.clear();
    }
    reasons.extend(general);
    Judgement {
        verdict,
        reasons,
        streams,
        ports,
        talkers,
    }
}

/// Returns the errors of each port of an emulated network. Without all records nothing can be said of them.
fn errors(evidence: &Evidence, stalls: &StallLine) -> Vec<PortErrors> {
    let of = |port: &PortEvidence| match (&port.emulated, &evidence.emulation) {
        (Some(emulated), Some(emulation)) if emulation.records_lost == 0 => {
            errors_of(emulated, port.link_rate_bps, emulation.handover_ns, stalls)
        }
        _ => PortErrors::default(),
    };
    let mut errors: Vec<PortErrors> = evidence.ports.iter().map(of).collect();
    let ports = evidence.ports.iter();
    let ports: Vec<_> = ports
        .map(|port| (port.emulated.as_ref(), port.link_rate_bps))
        .collect();
    explain_drops(&ports, &mut errors);
    errors
}

fn judge_one(
    evidence: &Evidence,
    stream: &StreamEvidence,
    [certain, possible]: &[StallLine; 2],
    (ports, errors): (&[PortJudgement], &[PortErrors]),
) -> StreamJudgement {
    let beyond_bits = contract_excess_bits(&evidence.talkers, &stream.route);
    let on_route = |(_, port): &(usize, &PortJudgement)| stream.route.contains(&port.id);
    let on_route = ports.iter().enumerate().filter(on_route);
    let Some(emulated) = &stream.emulated else {
        let drops_explained = on_route.map(|(_, port)| port.drops_explained).sum();
        return judge_stream(
            stream,
            &evidence.rule,
            certain,
            possible,
            beyond_bits,
            drops_explained,
        );
    };
    let on_route: Vec<&PortErrors> = on_route.map(|(at, _)| &errors[at]).collect();
    let drops = on_route
        .iter()
        .map(|port| port.drops_explained_of(emulated.flow));
    let around = Surroundings {
        rule: &evidence.rule,
        stalls: possible,
        records_complete: evidence
            .emulation
            .is_some_and(|emulation| emulation.records_lost == 0),
        drops_explained: drops.sum(),
        ports: on_route,
        handover_ns: evidence
            .emulation
            .map_or(0, |emulation| emulation.handover_ns),
        beyond_bits,
    };
    judge_replayed(stream, emulated, &around)
}

/// Returns the reasons against "kept" that concern the whole run.
fn general(evidence: &Evidence) -> Vec<String> {
    let mut reasons = Vec::new();
    let set = evidence.clock_set.iter();
    reasons.extend(set.map(|how| {
        format!(
            "{how} No time of the run is judged, only lost, doubled, reordered and altered frames."
        )
    }));
    if evidence.interrupted {
        reasons.push("The run was interrupted before its end.".to_owned());
    }
    let doubted = evidence.stalls_doubted.iter();
    reasons.extend(doubted.map(|why| format!("{why} So no recorded stall excuses anything.")));
    let lost = evidence
        .emulation
        .map_or(0, |emulation| emulation.records_lost);
    if lost > 0 {
        reasons.push(format!(
            "{} of the emulated ports lost: the emulation's own errors are unknown.",
            counted(lost, "record")
        ));
    }
    reasons
}

fn overall_reasons(
    verdict: Verdict,
    streams: &[StreamJudgement],
    ports: &[PortJudgement],
    talkers: &[TalkerJudgement],
) -> Vec<String> {
    if streams.is_empty() && verdict != Verdict::Broken {
        return vec!["No stream was measured.".to_owned()];
    }
    if verdict == Verdict::Kept {
        let mut reasons = vec![format!(
            "The promises to {} and {} were kept.",
            counted(streams.len() as u64, "stream"),
            counted(ports.len() as u64, "port")
        )];
        let explained: u64 = streams.iter().map(|stream| stream.explained).sum();
        if explained > 0 {
            reasons.push(format!(
                "{} delivered late by recorded stalls of the machine; see the streams.",
                counted(explained, "frame")
            ));
        }
        return reasons;
    }
    // All reasons of this verdict and no milder ones: those are in the parts.
    let of_streams = of_streams(streams.iter().filter(|s| s.verdict == verdict));
    let of_ports = ports
        .iter()
        .filter(|p| p.verdict == verdict)
        .map(|p| format!("Port {}: {}", p.id, p.reasons.join(" ")));
    let of_talkers = talkers
        .iter()
        .filter(|t| t.verdict == verdict)
        .map(|t| format!("Talker of {}: {}", t.name, t.reasons.join(" ")));
    of_talkers.chain(of_streams).chain(of_ports).collect()
}

/// Returns the reasons of streams. One that is the same at several listeners of a stream is told once.
fn of_streams<'a>(judged: impl Iterator<Item = &'a StreamJudgement>) -> Vec<String> {
    let mut told: Vec<(&str, String, String)> = Vec::new();
    for stream in judged {
        let why = stream.reasons[..stream.decisive].join(" ");
        match told
            .iter_mut()
            .find(|(name, _, said)| *name == stream.name && *said == why)
        {
            Some((_, listeners, _)) => {
                listeners.push_str(", ");
                listeners.push_str(&stream.listener);
            }
            None => told.push((&stream.name, stream.listener.clone(), why)),
        }
    }
    told.into_iter()
        .map(|(name, listeners, why)| format!("Stream {name} at {listeners}: {why}"))
        .collect()
}

/// Returns the number of bits that talkers sent beyond their contracts. It counts all talkers that can reach these
/// ports, directly or through ports shared with others.
fn contract_excess_bits(talkers: &[TalkerEvidence], ports: &[PortId]) -> u64 {
    if talkers.iter().all(|t| t.excess_bits() == 0) {
        return 0;
    }
    let mut reached: BTreeSet<&PortId> = ports.iter().collect();
    let mut left: Vec<&TalkerEvidence> = talkers.iter().collect();
    let mut bits = 0u64;
    loop {
        let (touching, others): (Vec<_>, Vec<_>) = left
            .into_iter()
            .partition(|t| t.ports.iter().any(|p| reached.contains(p)));
        if touching.is_empty() {
            return bits;
        }
        for talker in touching {
            bits = bits.saturating_add(talker.excess_bits());
            reached.extend(talker.ports.iter());
        }
        left = others;
    }
}
