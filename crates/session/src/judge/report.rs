//! Makes the report: the same as the lab's.

use std::collections::BTreeSet;

use rtwire_measure::evidence::{ClockBasis, HostAccount};
use rtwire_measure::noise::{NoiseRecord, StallSource};
use rtwire_measure::report::{HostReport, Machine, Report, StreamReport, TalkerReport};
use rtwire_measure::summary::Summary;
use rtwire_measure::units::{self, duration};
use rtwire_measure::verdict::{StreamEvidence, StreamJudgement, Verdict};
use rtwire_plan::{ContractKind, Plan, Stream};

use super::{File, JudgeError, JudgeOptions};
use crate::picture::{drawn, utc};

/// The numbers of a machine's cores in the report begin at a multiple of this, where there are several machines.
const CORES_APART: u32 = 1_000;

pub(super) fn assemble(
    plan: &Plan,
    files: &[File<'_>],
    options: &JudgeOptions,
    (streams, talkers): (Vec<StreamReport>, Vec<TalkerReport>),
    (verdict, reasons, findings): (Verdict, Vec<String>, Vec<String>),
) -> Result<Report, JudgeError> {
    let (start_ns, duration_ns) = times(files);
    let hosts = files.iter().map(|file| host(plan, file));
    Ok(Report {
        format: 2,
        title: plan.network.name.clone(),
        verdict,
        reasons,
        streams,
        talkers,
        ports: Vec::new(),
        hosts: hosts.collect::<Result<_, _>>()?,
        sharing: None,
        calibration: Vec::new(),
        noise: noise(files),
        machine: match machines(files).as_slice() {
            [only] => only.header.machine.clone(),
            _ => Machine::this(&options.rtwire_version),
        },
        command: options.command.clone(),
        started_at: utc(start_ns),
        started_tai_ns: start_ns,
        #[allow(clippy::cast_precision_loss)] // shown to a millisecond
        duration_s: duration_ns as f64 / 1e9,
        plan_hash: plan.input_hash.clone(),
        rule: options.rule,
        notes: notes(plan, files, findings),
        network: drawn(&plan.network, |_, _| None),
    })
}

/// Returns the report on one stream at one listener.
pub(super) fn stream(
    files: &[File<'_>],
    stream: &Stream,
    evidence: &StreamEvidence,
    judgement: &StreamJudgement,
) -> StreamReport {
    let (start_ns, duration_ns) = times(files);
    let (talker, description) = (&stream.talker, describe(stream));
    StreamReport {
        receive_path: receive_path(files, evidence),
        transmit_path: transmit_path(files, talker, evidence),
        ..StreamReport::new(
            evidence,
            judgement,
            talker,
            &description,
            start_ns,
            duration_ns,
        )
    }
}

/// Returns the first begin of any host, and the time from there to the last end, ns.
fn times(files: &[File<'_>]) -> (u64, u64) {
    let evidence = || files.iter().map(|file| file.evidence);
    let start_ns = evidence().map(|one| one.header.start_ns).min().unwrap_or(0);
    let end = |one: &HostAccount| one.end.map_or(one.known_to_ns(), |end| end.sent_to_ns);
    let end_ns = evidence().map(end).max().unwrap_or(0);
    (start_ns, end_ns.saturating_sub(start_ns))
}

/// Returns the evidence of one host of each machine.
fn machines<'a>(files: &'a [File<'_>]) -> Vec<&'a HostAccount> {
    let mut seen = BTreeSet::new();
    let evidence = files.iter().map(|file| file.evidence);
    evidence
        .filter(|one| seen.insert(&one.header.boot_id))
        .collect()
}

/// Returns the noise of all machines in one record.
fn noise(files: &[File<'_>]) -> Option<NoiseRecord> {
    let mut all: Option<NoiseRecord> = None;
    for (number, machine) in (0_u32..).zip(machines(files)) {
        let Some(mut noise) = machine.noise.clone() else {
            continue;
        };
        let apart = number.saturating_mul(CORES_APART);
        for core in &mut noise.cores {
            core.core = core.core.saturating_add(apart);
        }
        for stall in &mut noise.stalls {
            if let StallSource::Core(core) = &mut stall.source {
                *core = core.saturating_add(apart);
            }
        }
        match &mut all {
            None => all = Some(noise),
            Some(all) => {
                all.from_ns = all.from_ns.min(noise.from_ns);
                all.to_ns = all.to_ns.max(noise.to_ns);
                all.cores.append(&mut noise.cores);
                all.steal.append(&mut noise.steal);
                all.add(noise.stalls);
            }
        }
    }
    all
}

fn of_host<'a>(files: &'a [File<'_>], host: &str) -> Option<&'a HostAccount> {
    let mut evidence = files.iter().map(|file| file.evidence);
    evidence.find(|one| one.header.host == host)
}

fn receive_path(files: &[File<'_>], stream: &StreamEvidence) -> Option<String> {
    let listeners = &of_host(files, &stream.listener)?.header.listeners;
    let entry = listeners.iter().find(|entry| entry.stream == stream.name);
    entry.map(|entry| entry.path.clone())
}

fn transmit_path(files: &[File<'_>], talker: &str, stream: &StreamEvidence) -> Option<String> {
    let talkers = &of_host(files, talker)?.header.talkers;
    let entry = talkers.iter().find(|entry| entry.stream == stream.name);
    let path = entry.map(|entry| entry.path.clone());
    path.filter(|path| path != "qdisc")
}

fn host(plan: &Plan, file: &File<'_>) -> Result<HostReport, JudgeError> {
    let evidence = file.evidence;
    let own = plan.network.streams.iter();
    let own = own.filter(|stream| stream.talker == evidence.header.host);
    let late = Summary::of_passes(|take| {
        (0..evidence.header.talkers.len()).try_for_each(|at| {
            let sent = file.records.sent(at, &mut |record| take(record.late_ns));
            sent.map_err(|error| file.unreadable(error))
        })
    })?;
    Ok(HostReport {
        name: evidence.header.host.clone(),
        shaper_cpu_ns: None,
        shaper_cpu_percent: None,
        tick_error_declared_ns: own.map(|stream| stream.contract.tick_error_ns).max(),
        wakeups: late.map_or(0, |late| late.samples),
        tick_overshoot_ns: late,
        ticks_skipped: (evidence.talkers.iter())
            .fold(0, |all, one| all.saturating_add(one.cycles_skipped)),
    })
}

fn notes(plan: &Plan, files: &[File<'_>], findings: Vec<String>) -> Vec<String> {
    let mut notes = findings;
    notes.extend(plan.warnings.iter().cloned());
    notes.push(
        "Delays are from the kernel's transmit stamp at the talker to the receive stamp at the listener. Ports of switches give no \
         evidence, so no backlog is judged."
            .to_owned(),
    );
    for file in files {
        let evidence = file.evidence;
        let header = &evidence.header;
        notes.push(format!(
            "Host {} on {}: {}, {}, rtwire {}; {}{}.",
            header.host,
            header.interface,
            header.machine.kernel,
            header.machine.model,
            header.machine.rtwire_version,
            clock_in_words(evidence),
            header
                .stamps
                .as_ref()
                .map_or(String::new(), |stamps| format!(
                    "; stamps of arrivals {stamps}"
                ))
        ));
    }
    let machines = machines(files);
    for (number, machine) in (1_u32..).zip(machines.iter().skip(1)) {
        notes.push(format!(
            "Cores {} and up are those of the machine of host {}.",
            number.saturating_mul(CORES_APART),
            machine.header.host
        ));
    }
    if machines.len() == 1 && files.len() > 1 {
        notes.push("All hosts share one kernel, and so one clock.".to_owned());
    }
    notes
}

fn clock_in_words(evidence: &HostAccount) -> String {
    match (evidence.header.clock, evidence.clock_uncertainty_ns()) {
        (ClockBasis::Unknown, _) => {
            "nobody knows how far its clock is from the network's".to_owned()
        }
        (ClockBasis::Stated { .. }, known) => format!(
            "its clock is stated to be within {}",
            duration(known.unwrap_or(0))
        ),
        (ClockBasis::Ptp { .. }, Some(known)) => {
            format!("its clock followed ptp4l within {}", duration(known))
        }
        (ClockBasis::Ptp { .. }, None) => {
            let looks = evidence.marks.iter().filter_map(|mark| mark.clock.as_ref());
            let bad = looks.filter(|look| look.uncertainty_ns.is_none());
            let state = bad.map(|look| look.state.clone()).next();
            format!(
                "its clock was not synchronised all the time ({})",
                state.unwrap_or_else(|| "no look at it is recorded".to_owned())
            )
        }
    }
}

/// Returns a short description of a stream.
fn describe(stream: &Stream) -> String {
    match stream.contract.kind {
        _ if !stream.shaped => "shaper off".to_owned(),
        ContractKind::Interval { interval_ns, .. } => {
            format!("{} B every {}", stream.frame_bytes, duration(interval_ns))
        }
        ContractKind::Rate | ContractKind::Declared => {
            let rate = super::route::whole(stream.contract.rate.ceil());
            format!("{} on the wire", units::rate(rate))
        }
    }
}
