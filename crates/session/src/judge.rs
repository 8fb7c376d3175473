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
//! - `talkers` holds what each host sent against its contract.
//! - `findings` says what each host's own evidence shows, and what is missing.
//!
//! The frames of one stream at one listener are in memory at a time: some 110 bytes for each of them, and nothing for the
//! frames of all other streams.

mod check;
mod findings;
mod join;
mod report;
mod route;
mod stalls;
mod talkers;
#[cfg(test)]
mod tests;

use rtwire_measure::evidence::{EvidenceError, HostAccount, Witness};
use rtwire_measure::report::{Report, StreamReport, TalkerReport};
use rtwire_measure::units::grouped;
use rtwire_measure::verdict::{self, Evidence, Rule, StreamJudgement, TalkerJudgement, Verdict};
use rtwire_plan::Plan;

pub use check::JudgeError;
use findings::Finding;

/// The evidence in one file.
#[derive(Clone, Debug, PartialEq)]
pub struct EvidenceFile<W> {
    /// The file's name, for messages.
    pub name: String,
    /// Its content.
    pub evidence: W,
}

/// A file of evidence as the parts of a judgement see it.
struct File<'a> {
    name: &'a str,
    evidence: &'a HostAccount,
    records: &'a dyn Witness,
}

impl File<'_> {
    /// Names the file in an error of its records.
    fn unreadable(&self, error: EvidenceError) -> JudgeError {
        JudgeError::Unreadable {
            file: self.name.to_owned(),
            error,
        }
    }
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
/// The records of frames are read stream by stream, those of a talker once more than it has listeners.
///
/// # Errors
/// [`JudgeError`]: a file is no evidence of this plan, one host has two, or a file can no longer be read. What is only
/// missing is no error; the verdict is inconclusive then, and the report names it.
pub fn judge<W: Witness>(
    plan: &Plan,
    files: &[EvidenceFile<W>],
    options: &JudgeOptions,
) -> Result<Report, JudgeError> {
    let files: Vec<File<'_>> = files
        .iter()
        .map(|file| File {
            name: &file.name,
            evidence: file.evidence.account(),
            records: &file.evidence,
        })
        .collect();
    judged(plan, &files, options)
}

fn judged(plan: &Plan, files: &[File<'_>], options: &JudgeOptions) -> Result<Report, JudgeError> {
    check::files(plan, files)?;
    let talkers = talkers::of(plan, files)?;
    let mut findings = findings::of_hosts(plan, files);
    let mut judged: Vec<StreamJudgement> = Vec::new();
    let mut streams: Vec<StreamReport> = Vec::new();
    let mut reasons: Vec<(Verdict, String)> = Vec::new();
    let mut of_talkers: Vec<TalkerJudgement> = Vec::new();
    for (stream, at) in join::ends(plan) {
        let one = join::joined(plan, files, stream, at)?;
        findings.extend(findings::of_times(&one, options.allow_missing_ns));
        let ends = files.iter().map(|file| file.evidence);
        let ends = ends.filter(|end| [&one.talker, &one.listener].contains(&&end.header.host));
        let clock_set = ends.flat_map(findings::clock_set).collect();
        // Only the machines of its own two ends can have delayed its frames between their stamps.
        let evidence = Evidence {
            streams: vec![one.evidence],
            ports: Vec::new(),
            talkers: talkers.clone(),
            stalls: stalls::of(files, [&one.talker, &one.listener]),
            stalls_doubted: stalls::doubts(files, [&one.talker, &one.listener]),
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
        for (evidence, judgement) in evidence.streams.iter().zip(judgement.streams) {
            streams.push(report::stream(files, stream, evidence, &judgement));
            judged.push(judgement);
        }
    }
    let found = overall(&judged, &of_talkers, reasons, findings);
    let talkers = talkers.iter().zip(&of_talkers);
    let talkers = talkers.map(|(evidence, judged)| TalkerReport::new(evidence, judged));
    let talkers = talkers.collect();
    report::assemble(plan, files, options, (streams, talkers), found)
}

/// Returns the worst verdict, the reasons for it, and the milder findings.
fn overall(
    judged: &[StreamJudgement],
    talkers: &[TalkerJudgement],
    reasons: Vec<(Verdict, String)>,
    findings: Vec<Finding>,
) -> (Verdict, Vec<String>, Vec<String>) {
    let of_streams = judged.iter().map(|judgement| judgement.verdict);
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
        let excluded = judged.iter().map(StreamJudgement::samples_excluded);
        match excluded.sum::<u64>() {
            0 => {}
            count => decisive.push(format!(
                "{} late frames were excluded because a machine stalled; see the streams.",
                grouped(count)
            )),
        }
        return (verdict, decisive, notes);
    }
    for (_, reason) in reasons.into_iter().filter(|(of, _)| *of == verdict) {
        // A finding on a host may be one on its streams, too.
        if !decisive.contains(&reason) {
            decisive.push(reason);
        }
    }
    if decisive.is_empty() {
        decisive.push("No stream was measured.".to_owned());
    }
    (verdict, decisive, notes)
}
