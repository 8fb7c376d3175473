//! The findings beside the delays of frames: those in each host's own evidence, and those on what is missing.

use std::collections::BTreeSet;

use rtwire_measure::evidence::{HostAccount, ListenerTotals, TalkerTotals};
use rtwire_measure::noise::{NoiseRecord, Stalls};
use rtwire_measure::units::{duration, grouped};
use rtwire_measure::verdict::Verdict;
use rtwire_plan::{ContractKind, Plan, Stream};

use super::join::Joined;
use super::{File, stalls, talkers};
use crate::late_cycles::{Account, LateCycles, Record, Shown};

/// One finding.
pub(super) struct Finding {
    /// The verdict that it leads to; `None`: it is only worth knowing.
    pub(super) verdict: Option<Verdict>,
    /// The finding in a sentence.
    pub(super) text: String,
}

fn broken(text: String) -> Finding {
    Finding {
        verdict: Some(Verdict::Broken),
        text,
    }
}

fn open(text: String) -> Finding {
    Finding {
        verdict: Some(Verdict::Inconclusive),
        text,
    }
}

fn known(text: String) -> Finding {
    Finding {
        verdict: None,
        text,
    }
}

/// Returns the findings on every host of the plan.
pub(super) fn of_hosts(plan: &Plan, files: &[File<'_>]) -> Vec<Finding> {
    let mut found = absent(plan, files);
    found.extend(unsent(plan, files));
    for file in files {
        whole(file, &mut found);
        found.extend(clock_set(file.evidence).map(open));
        found.extend(noise(file.evidence));
        let evidence = file.evidence;
        let stalls = evidence
            .noise
            .as_ref()
            .map(|noise| match stalls::is_doubted(evidence) {
                true => Stalls::default(),
                false => Stalls::of(noise),
            });
        for totals in &evidence.talkers {
            let stream = stream(plan, &totals.stream);
            talker(evidence, totals, stream, stalls.as_ref(), &mut found);
        }
        for totals in &evidence.listeners {
            listener(evidence, totals, stream(plan, &totals.stream), &mut found);
        }
    }
    found
}

fn stream<'a>(plan: &'a Plan, name: &str) -> Option<&'a Stream> {
    plan.network.streams.iter().find(|one| one.name == *name)
}

/// Returns a sentence for each step of a host's clock.
pub(super) fn clock_set(evidence: &HostAccount) -> impl Iterator<Item = String> + '_ {
    let host = &evidence.header.host;
    let steps = evidence.clock_set();
    steps.map(move |step| format!("Host {host}: {step}."))
}

/// Names the hosts with streams whose evidence is not there.
fn absent(plan: &Plan, files: &[File<'_>]) -> Vec<Finding> {
    let streams = plan.network.streams.iter();
    let hosts: BTreeSet<&String> = streams
        .flat_map(|stream| std::iter::once(&stream.talker).chain(&stream.listeners))
        .collect();
    let there = |host: &str| {
        let mut headers = files.iter().map(|file| &file.evidence.header);
        headers.any(|header| header.host == host)
    };
    let absent = hosts.into_iter().filter(|host| !there(host));
    absent
        .map(|host| {
            open(format!(
                "There is no evidence of host {host}: what it sent and received is not judged."
            ))
        })
        .collect()
}

/// Names the best effort of the plan that no run sent. It may have been sent by other programs, as the plan permits: so the promises
/// were shown beside a load that nobody recorded.
fn unsent(plan: &Plan, files: &[File<'_>]) -> Option<Finding> {
    let unsent = talkers::unsent(plan, files);
    (!unsent.is_empty()).then(|| Finding {
        verdict: Some(Verdict::Kept),
        text: format!(
            "No evidence shows the best effort that the plan permits: {}. Nobody knows whether there was that load; `rtwire run \
             --best-effort` sends and records it.",
            unsent.join(", ")
        ),
    })
}

/// Says why the stalls of a host's record excuse less than they seem to.
fn noise(evidence: &HostAccount) -> Vec<Finding> {
    let host = &evidence.header.host;
    let doubts = stalls::doubts_of(evidence).into_iter();
    let doubts = doubts.map(|why| format!("{why} So no recorded stall excuses anything."));
    let full = evidence.noise.iter().flat_map(NoiseRecord::overfull);
    let full = full.map(|why| format!("Host {host}: {why}"));
    doubts.chain(full).map(open).collect()
}

/// Names what is missing in a file.
fn whole(file: &File<'_>, found: &mut Vec<Finding>) {
    let evidence = file.evidence;
    let host = &evidence.header.host;
    let Some(end) = evidence.end else {
        let known_ns = evidence
            .known_to_ns()
            .saturating_sub(evidence.header.start_ns);
        found.push(open(format!(
            "The evidence of host {host} ({}) is truncated: what happened there later than {} after its begin is missing, with its \
             counters and stalls.",
            file.name,
            duration(known_ns)
        )));
        return;
    };
    if end.interrupted {
        let ran_ns = end.sent_to_ns.saturating_sub(evidence.header.start_ns);
        found.push(open(format!(
            "The run of host {host} was interrupted after {} of {}.",
            duration(ran_ns),
            duration(evidence.header.planned_ns.unwrap_or(0))
        )));
    }
    let talkers = evidence
        .talkers
        .iter()
        .map(|totals| (&totals.stream, totals.unkept));
    let listeners = evidence
        .listeners
        .iter()
        .map(|totals| (&totals.stream, totals.unkept));
    for (stream, unkept) in talkers.chain(listeners) {
        let causes = [
            (unkept.overrun, "the writer was held up for too long"),
            (
                unkept.beyond_limit,
                "the file had its largest size (--evidence-limit)",
            ),
        ];
        for (count, why) in causes.into_iter().filter(|(count, _)| *count > 0) {
            found.push(open(format!(
                "{} records of stream {stream} are not in the evidence of host {host}: {why}.",
                grouped(count)
            )));
        }
    }
}

fn talker(
    evidence: &HostAccount,
    totals: &TalkerTotals,
    stream: Option<&Stream>,
    stalls: Option<&Stalls>,
    found: &mut Vec<Finding>,
) {
    let (host, name) = (&evidence.header.host, &totals.stream);
    if let Some(fault) = &totals.fault {
        found.push(broken(format!(
            "Host {host}: the talker of {name} ended: {fault}."
        )));
    }
    if totals.frames_refused > 0 {
        found.push(broken(format!(
            "Host {host}: {} frames of {name} found no room in this host's queue.",
            grouped(totals.frames_refused)
        )));
    }
    let Some(contract) = stream
        .filter(|stream| stream.shaped)
        .map(|one| &one.contract)
    else {
        return;
    };
    let ContractKind::Interval { interval_ns, .. } = contract.kind else {
        return;
    };
    let none = Stalls::default();
    let cycles = LateCycles::of(
        (Some(interval_ns), contract.tick_error_ns),
        totals.late.iter().copied(),
        totals.cycles_skipped,
        stalls.unwrap_or(&none),
    );
    let account = Account {
        stream: name,
        tick_error_ns: contract.tick_error_ns,
        worst_ns: totals.lateness_ns.map_or(0, |late| late.max),
        late: cycles.late,
        unexplained: cycles.unexplained,
        untold: cycles.untold,
        is_proof: cycles.is_proof(totals.frames_sent.saturating_add(totals.cycles_skipped)),
    };
    let record = match stalls {
        _ if evidence.clock_set().next().is_some() => Record::ClockSet,
        None => Record::None,
        Some(_) if stalls::is_full(evidence) => Record::Full,
        Some(_) => Record::Whole,
    };
    if let Some((shown, text)) = account.finding(record) {
        let text = format!("Host {host}: {text}.");
        found.push(match shown {
            // The promise to a frame begins where it is sent: what was sent is judged, and whether it was enough.
            Shown::Machine => known(text),
            Shown::Nothing => open(text),
            Shown::Fault => broken(text),
        });
    }
}

fn listener(
    evidence: &HostAccount,
    totals: &ListenerTotals,
    stream: Option<&Stream>,
    found: &mut Vec<Finding>,
) {
    let (host, name) = (&evidence.header.host, &totals.stream);
    if let Some(fault) = &totals.fault {
        found.push(broken(format!(
            "Host {host}: the listener of {name} ended: {fault}."
        )));
    }
    let counts = [
        (
            totals.frames_policed,
            "were beyond its contract and dropped",
        ),
        (
            totals.frames_foreign,
            "were of another plan; none was taken",
        ),
        (totals.frames_too_long, "were longer than its contract"),
        (
            // By a clock that was set, frames are closer than they were.
            totals.frames_too_frequent * u64::from(evidence.clock_set().next().is_none()),
            "were more frequent than its contract",
        ),
    ];
    for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
        found.push(broken(format!(
            "Host {host}: {} frames at the port of {name} {what}.",
            grouped(count)
        )));
    }
    if totals.talker_restarts > 0 && stream.is_some() {
        found.push(open(format!(
            "Host {host}: the talker of {name} began again {} times while it listened; one evidence holds one run.",
            grouped(totals.talker_restarts)
        )));
    }
}

/// Returns the findings on the time in which a stream's listener has no evidence of what its talker sent.
pub(super) fn of_times(one: &Joined, allowed_ns: u64) -> Vec<Finding> {
    let (stream, talker, listener) = (&one.evidence.name, &one.talker, &one.listener);
    let mut found = Vec::new();
    let ends = [
        (one.missing_before_ns, "first", "begins later"),
        (one.missing_after_ns, "last", "ends earlier"),
    ];
    for (ns, which, why) in ends.into_iter().filter(|(ns, ..)| *ns > 0) {
        let why = match one.times_known {
            true => format!("and the evidence of {listener} {why}"),
            false => format!(
                "nothing of it arrived, and the clocks do not tell whether {listener} listened"
            ),
        };
        let text = format!(
            "The {which} {} of stream {stream} at {listener} are not judged: {talker} sent, {why}.",
            duration(ns)
        );
        found.push(Finding {
            verdict: (ns > allowed_ns).then_some(Verdict::Inconclusive),
            text,
        });
    }
    if one.strangers > 0 {
        found.push(open(format!(
            "{} frames of stream {stream} arrived at {listener} that the evidence of {talker} does not know: they are of another \
             run of {talker}, or of somebody else.",
            grouped(one.strangers)
        )));
    }
    found
}
