//! Assembles the report on a run.

use rtwire_measure::noise::NoiseRecord;
use rtwire_measure::report::{HostReport, Machine, PortReport, Report, StreamReport, TalkerReport};
use rtwire_measure::summary::Summary;
use rtwire_measure::verdict::{Evidence, Judgement};
use rtwire_plan::Network;
use rtwire_session::picture::{drawn, utc};

use crate::calibrate::Calibrated;
use crate::evidence::{Collected, describe};
use crate::ports::Field;
use crate::run::Options;
use crate::transmit;

pub(crate) fn assemble(
    options: &Options,
    collected: &Collected<'_>,
    evidence: &Evidence,
    judgement: &Judgement,
    calibrated: &Calibrated,
    noise: NoiseRecord,
    (start_ns, duration_ns): (u64, u64),
) -> Report {
    let network = collected.network;
    let streams = evidence.streams.iter().zip(&judgement.streams);
    let streams = streams.map(|(of_stream, judged)| {
        let stream = network.streams.iter().find(|s| s.name == of_stream.name);
        let talker = stream.map_or("", |stream| stream.talker.as_str());
        let description = stream.map(describe).unwrap_or_default();
        let index = network
            .streams
            .iter()
            .position(|s| s.name == of_stream.name);
        let result = index.and_then(|index| collected.listener(index, &of_stream.listener));
        StreamReport {
            receive_path: result.map(|result| result.path.clone()),
            transmit_path: stream.and_then(|one| transmit::name(one, options.transmit_path)),
            ..StreamReport::new(
                of_stream,
                judged,
                talker,
                &description,
                start_ns,
                duration_ns,
            )
        }
    });
    let ports = evidence.ports.iter().zip(&judgement.ports);
    let ports =
        ports.map(|(of_port, judged)| PortReport::new(of_port, judged, start_ns, duration_ns));
    let ports: Vec<PortReport> = ports.collect();
    let utilization = |from: &str, to: &str| {
        let port = ports
            .iter()
            .find(|one| one.switch == from && one.port == to);
        port.map(|port| port.utilization_percent)
    };
    let drawn = drawn(network, utilization);
    let talkers = evidence.talkers.iter().zip(&judgement.talkers);
    let talkers = talkers.map(|(of_talker, judged)| TalkerReport::new(of_talker, judged));
    Report {
        format: 2,
        title: network.name.clone(),
        verdict: judgement.verdict,
        reasons: judgement.reasons.clone(),
        streams: streams.collect(),
        talkers: talkers.collect(),
        hosts: hosts(collected, duration_ns),
        sharing: None,
        calibration: calibrated.ports.iter().map(|(_, port)| port.clone()).collect(),
        noise: Some(noise),
        machine: Machine::this(&options.rtwire_version),
        command: options.command.clone(),
        started_at: utc(start_ns),
        started_tai_ns: start_ns,
        #[allow(clippy::cast_precision_loss)] // shown to a millisecond
        duration_s: duration_ns as f64 / 1e9,
        plan_hash: collected.plan.input_hash.clone(),
        rule: collected.rule,
        notes: notes(options, collected),
        network: drawn,
        ports,
    }
}

fn hosts(collected: &Collected<'_>, duration_ns: u64) -> Vec<HostReport> {
    let of_host = |host: &rtwire_plan::Host| {
        let result = collected.results.get(&host.name);
        let talkers = result.map_or(&[][..], |result| &result.talkers);
        let cpu_ns: u64 = talkers.iter().map(|talker| talker.cpu_ns).sum();
        let overshoots: Vec<u64> = talkers
            .iter()
            .flat_map(|talker| talker.overshoots_ns.iter().map(|&ns| u64::from(ns)))
            .collect();
        let declared = collected
            .network
            .streams
            .iter()
            .filter(|s| s.talker == host.name);
        HostReport {
            name: host.name.clone(),
            shaper_cpu_ns: (!talkers.is_empty()).then_some(cpu_ns),
            #[allow(clippy::cast_precision_loss)] // shown to two digits
            shaper_cpu_percent: (!talkers.is_empty())
                .then(|| cpu_ns as f64 * 100.0 / duration_ns.max(1) as f64),
            tick_error_declared_ns: declared.map(|s| s.contract.tick_error_ns).max(),
            wakeups: overshoots.len() as u64,
            tick_overshoot_ns: Summary::of(overshoots),
            ticks_skipped: talkers.iter().map(|talker| talker.ticks_skipped).sum(),
        }
    };
    collected.network.hosts.iter().map(of_host).collect()
}

fn notes(options: &Options, collected: &Collected<'_>) -> Vec<String> {
    let mut notes = options.plan.warnings.clone();
    notes.push(
        "Network delays are exact: all frames as they were really sent, replayed through the described network. Loss, \
         doubled frames and order are those of the real delivery."
            .to_owned(),
    );
    if collected.network.manager_host.is_some() {
        notes.push(
            "Exact delays begin behind the agents. An agent holds a planned frame only while its talker is ahead of its contract: \
             a frame that was held for longer counts as delivered late."
                .to_owned(),
        );
    }
    if let Some(what) = not_emulated(collected.network) {
        notes.push(format!(
            "The emulated ports have no {what}: they serve plain priorities. Delays are judged through the {what} of the \
             described network, loss and order by what the plain ports delivered."
        ));
    }
    notes.extend(transmit::note(options.transmit_path));
    for port in 0..2 * collected.fabric.blueprint.cables.len() {
        let count = |field| collected.fabric.records.get(port, field);
        let inside = count(Field::AcceptedFrames).saturating_sub(count(Field::LeftFrames));
        if let (true, Some((from, to))) = (inside > 0, collected.fabric.blueprint.port_ends(port)) {
            let name = |node: usize| &collected.fabric.blueprint.nodes[node].name;
            notes.push(format!(
                "{inside} frames that {} took to send to {} had not arrived there at the end.",
                name(from),
                name(to)
            ));
        }
    }
    for (host, result) in collected.results {
        let faults = result.talkers.iter().filter_map(|t| t.fault.as_ref());
        let faults = faults.chain(result.listeners.iter().filter_map(|l| l.fault.as_ref()));
        notes.extend(faults.map(|fault| format!("Host {host}: {fault}")));
        for (reason, count) in &result.strays {
            notes.push(format!(
                "Host {host} saw {count} frames that belonged to no channel: {reason}."
            ));
        }
        for listener in result.listeners.iter().filter(|l| l.frames_policed > 0) {
            let stream = network_stream(collected.network, listener.stream);
            notes.push(format!(
                "Host {host} dropped {} frames of {stream} beyond its contract.",
                listener.frames_policed
            ));
        }
        for talker in &result.talkers {
            if talker.sends_refused > 0 {
                notes.push(format!(
                    "Host {host}: {} frames found no room in this host's queue.",
                    talker.sends_refused
                ));
            }
        }
    }
    notes
}

/// Returns the parts of the described network that the emulated ports lack, in words.
fn not_emulated(network: &Network) -> Option<String> {
    let gates = network.switches.iter().any(|switch| switch.gates.is_some())
        || network.hosts.iter().any(|host| host.gates.is_some());
    let shapers = !network.shapers.is_empty();
    let all = [(gates, "gates"), (shapers, "shapers")];
    let missing: Vec<&str> = all
        .iter()
        .filter(|(is, _)| *is)
        .map(|(_, what)| *what)
        .collect();
    (!missing.is_empty()).then(|| missing.join(" and "))
}

fn network_stream(network: &Network, index: usize) -> &str {
    let stream = network.streams.get(index);
    stream.map_or("best effort", |stream| stream.name.as_str())
}
