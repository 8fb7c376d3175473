//! The rule itself.

use std::collections::BTreeSet;

use super::allowance::StallLine;
use super::evidence::{Evidence, PortId, TalkerEvidence};
use super::ports::{self, PortJudgement};
use super::stream::{StreamJudgement, judge_stream};
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
    let certain = StallLine::new(evidence.stalls.certain());
    let possible = StallLine::new(evidence.stalls.possible());
    let ports: Vec<PortJudgement> = evidence
        .ports
        .iter()
        .map(|port| {
            let beyond = contract_excess_bits(&evidence.talkers, std::slice::from_ref(&port.id));
            ports::judge_port(port, &possible, beyond)
        })
        .collect();
    let streams: Vec<StreamJudgement> = evidence
        .streams
        .iter()
        .map(|stream| {
            let beyond = contract_excess_bits(&evidence.talkers, &stream.route);
            let on_route = ports.iter().filter(|p| stream.route.contains(&p.id));
            let drops = on_route.map(|p| p.drops_explained).sum();
            judge_stream(stream, &evidence.rule, &certain, &possible, beyond, drops)
        })
        .collect();
    let verdict = if streams.is_empty() {
        ports
            .iter()
            .map(|p| p.verdict)
            .max()
            .unwrap_or(Verdict::Inconclusive)
            .max(Verdict::Inconclusive)
    } else {
        let all = streams
            .iter()
            .map(|s| s.verdict)
            .chain(ports.iter().map(|p| p.verdict));
        all.max().unwrap_or(Verdict::Inconclusive)
    };
    let reasons = overall_reasons(verdict, &streams, &ports);
    Judgement {
        verdict,
        reasons,
        streams,
        ports,
    }
}

fn overall_reasons(
    verdict: Verdict,
    streams: &[StreamJudgement],
    ports: &[PortJudgement],
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
        let excluded: u64 = streams.iter().map(StreamJudgement::samples_excluded).sum();
        if excluded > 0 {
            reasons.push(format!(
                "{} excluded because the machine itself stalled; see the streams.",
                counted(excluded, "late frame")
            ));
        }
        return reasons;
    }
    // All reasons of this verdict and no milder ones: those are in the parts.
    let of_streams = streams.iter().filter(|s| s.verdict == verdict).map(|s| {
        format!(
            "Stream {} at {}: {}",
            s.name,
            s.listener,
            s.reasons[..s.decisive].join(" ")
        )
    });
    let of_ports = ports
        .iter()
        .filter(|p| p.verdict == verdict)
        .map(|p| format!("Port {}: {}", p.id, p.reasons.join(" ")));
    of_streams.chain(of_ports).collect()
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
