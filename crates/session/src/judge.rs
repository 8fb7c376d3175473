//! One verdict on a whole network, from the evidence of all its hosts: `rtwire judge`.
//!
//! ```text
//!  plan ──────────────┐
//!  A.evidence ──┐     ├► check ► join by stream and sequence ► verdict::judge ─┐
//!  B.evidence ──┴─────┘                     what the hosts say of themselves ──┴► Report
//! ```
//!
//! - `check` refuses files that cannot be judged: of another plan, changed, twice.
//! - `join` makes a sample of each frame from its talker's stamp and its listener's.
//! - `findings` says what each host's own evidence shows, and what is missing.

mod check;
mod findings;
mod join;
mod report;
mod route;
mod stalls;
#[cfg(test)]
mod tests;

use rtwire_measure::evidence::HostEvidence;
use rtwire_measure::report::{Report, TalkerReport};
use rtwire_measure::units::grouped;
use rtwire_measure::verdict::{
    self, Evidence, Rule, StreamEvidence, StreamJudgement, TalkerJudgement, Verdict,
};
use rtwire_plan::Plan;

pub use check::JudgeError;
use findings::Finding;
use join::Joined;

/// The evidence in one file.
#[derive(Clone, Debug, PartialEq)]
pub struct EvidenceFile {
    /// The file's name, for messages.
    pub name: String,
    /// Its content.
    pub evidence: HostEvidence,
}

/// The options of a judgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgeOptions {
    /// The longest time at the beginning or the end, ns, in which a talker may have sent without evidence of its listener.
    /// It is not judged, and named. A longer one makes the verdict inconclusive.
    pub allow_missing_ns: u64,
    /// The thresholds of the rule.
    pub rule: Rule,
    /// The command, for the report.
    pub command: String,
    /// The version of rtwire, for the report.
    pub rtwire_version: String,
}

/// Judges a network by its plan and the evidence of its hosts.
///
/// # Errors
/// [`JudgeError`]: a file is no evidence of this plan, or one host has two. What is only missing is no error; the verdict is
/// inconclusive then, and the report names it.
pub fn judge(
    plan: &Plan,
    files: &[EvidenceFile],
    options: &JudgeOptions,
) -> Result<Report, JudgeError> {
    check::files(plan, files)?;
    let joined = join::streams(plan, files);
    let (streams, talkers): (Vec<Joined>, _) = (joined, join::talkers(plan, files));
    let mut findings = findings::of_hosts(plan, files);
    for one in &streams {
        findings.extend(findings::of_times(one, options.allow_missing_ns));
    }
    let mut judged: Vec<(StreamEvidence, StreamJudgement)> = Vec::new();
    let mut reasons: Vec<(Verdict, String)> = Vec::new();
    let mut of_talkers: Vec<TalkerJudgement> = Vec::new();
    for one in streams {
        let ends = files.iter().map(|file| &file.evidence);
        let ends = ends.filter(|end| [&one.talker, &one.listener].contains(&&end.header.host));
        let clock_set = ends.flat_map(findings::clock_set).collect();
        // Only the machines of its own two ends can have delayed its frames between their stamps.
        let evidence = Evidence {
            streams: vec![one.evidence],
            ports: Vec::new(),
            talkers: talkers.clone(),
            stalls: stalls::of(files, [&one.talker, &one.listener]),
            clock_set,
            rule: options.rule,
            ..Evidence::default()
        };
        let judgement = verdict::judge(&evidence);
        for reason in judgement.reasons {
            // What a talker did is said once, not for each stream.
            let said = (judgement.verdict, reason);
            if !reasons.contains(&said) {
                reasons.push(said);
            }
        }
        // Each time the same: talkers are judged by the stalls of their own machines.
        of_talkers = judgement.talkers;
        judged.extend(evidence.streams.into_iter().zip(judgement.streams));
    }
    let found = overall(&judged, &of_talkers, reasons, findings);
    let talkers = talkers.iter().zip(&of_talkers);
    let talkers = talkers.map(|(evidence, judged)| TalkerReport::new(evidence, judged));
    let report = report::assemble(plan, files, options, judged, found);
    Ok(Report {
        talkers: talkers.collect(),
        ..report
    })
}

/// Returns the worst verdict, the reasons for it, and the milder findings.
fn overall(
    judged: &[(StreamEvidence, StreamJudgement)],
    talkers: &[TalkerJudgement],
    reasons: Vec<(Verdict, String)>,
    findings: Vec<Finding>,
) -> (Verdict, Vec<String>, Vec<String>) {
    let of_streams = judged.iter().map(|(_, judgement)| judgement.verdict);
    let of_findings = findings.iter().filter_map(|finding| finding.verdict);
    let of_talkers = talkers.iter().map(|judgement| judgement.verdict);
    let verdict = of_streams.chain(of_talkers).chain(of_findings).max();
    let verdict = verdict.unwrap_or(Verdict::Inconclusive);
    let mut decisive = Vec::new();
    let mut notes = Vec::new();
    for finding in findings {
        if finding.verdict == Some(verdict) {
            decisive.push(finding.text);
        } else {
            notes.push(finding.text);
        }
    }
    if verdict == Verdict::Kept {
        decisive.push(format!(
            "The promises to {} at their listeners were kept.",
            match judged.len() {
                1 => "1 stream".to_owned(),
                count => format!("{count} streams"),
            }
        ));
        let excluded = judged
            .iter()
            .map(|(_, judgement)| judgement.samples_excluded());
        match excluded.sum::<u64>() {
            0 => {}
            count => decisive.push(format!(
                "{} late frames were excluded because a machine stalled; see the streams.",
                grouped(count)
            )),
        }
        return (verdict, decisive, notes);
    }
    let worst = reasons.into_iter().filter(|(of, _)| *of == verdict);
    decisive.extend(worst.map(|(_, reason)| reason));
    if decisive.is_empty() {
        decisive.push("No stream was measured.".to_owned());
    }
    (verdict, decisive, notes)
}
