//! One run from beginning to end: bring up, calibrate, measure, judge, take down.

use std::collections::BTreeMap;
use std::time::Duration;

use rtwire_measure::noise::{NoiseOptions, NoiseRecord, NoiseRecorder};
use rtwire_measure::report::{
    DrawnLink, DrawnNode, HostReport, Machine, NodeKind, PortReport, Report, StreamReport,
};
use rtwire_measure::summary::Summary;
use rtwire_measure::verdict::{Evidence, Judgement, Rule, judge};
use rtwire_plan::schedule::Scheduling;
use rtwire_plan::{Network, Plan};
use rtwire_session::outcome::HostResult;
use rtwire_session::task::{Assignment, Order};
use rtwire_session::{ReceivePath, SessionOptions, TxPath};
use rtwire_sys::clock::{self, Clock};

use crate::LabError;
use crate::awake::Awake;
use crate::blueprint::Layout;
use crate::calibrate::{Calibrated, calibrate};
use crate::evidence::{Collected, describe};
use crate::fabric::{Fabric, namespace_name};
use crate::monitor::{Monitor, PortWatch};
use crate::ports::Field;
use crate::processes::Processes;
use crate::registry::{self, Claim, NodeRecord, Record};
use crate::tasks;
use crate::transmit;

/// The time in ns from the order to run to the first frame: kernel timestamping starts some time after it is requested.
const SETTLE_NS: u64 = 500_000_000;

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The plan.
    pub plan: Plan,
    /// The description's file name, for the record.
    pub file: String,
    /// The duration of the measurement.
    pub duration: Duration,
    /// The duration of the calibration before it.
    pub calibration: Duration,
    /// The receive path of the hosts' listeners.
    pub receive_path: ReceivePath,
    /// The transmit path of RTDiP frames; not [`TxPath::Launch`], for which the hosts have no queue.
    pub transmit_path: TxPath,
    /// The time that listeners spin before they sleep; zero: they sleep at once.
    pub spin: Duration,
    /// Drops frames beyond their streams' contracts at the listeners. The time is the tolerance for hosts that are late.
    pub police: Option<Duration>,
    /// True if the network stays up afterwards.
    pub keep: bool,
    /// The command, for the report.
    pub command: String,
    /// The version of rtwire, for the report.
    pub rtwire_version: String,
    /// True if the progress is shown on standard error.
    pub show_progress: bool,
}

/// The outcome of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Everything that was promised, measured and judged.
    pub report: Report,
    /// The lab, where it was kept.
    pub kept: Option<Record>,
}

/// Runs a network on this machine.
///
/// Needs root. Ctrl-C (SIGINT, SIGTERM) ends the measurement early, and the report covers what there is.
///
/// # Errors
/// Missing privileges or kernel features; a network that the lab does not emulate; a host's process that fails.
/// Everything that was brought up is taken down again.
pub fn run(options: Options) -> Result<Outcome, LabError> {
    crate::privilege::check()?;
    let stop = rtwire_sys::signal::install_stop_flag()
        .map_err(|e| std::io::Error::other(e.to_string()))?;
    let stopped = || stop.load(std::sync::atomic::Ordering::Relaxed);
    for id in registry::remove_crashed()? {
        options.progress(&format!("removed what lab {id} left behind"));
    }
    let layout = Layout::of(&options.plan)?;
    tasks::check_room(&options.plan.network, ns(options.duration))?;
    transmit::check(&options.plan.network, options.transmit_path)?;
    let mut claim = Claim::new(&options.plan.network.name, &options.file)?;
    let prefix = claim.prefix();
    for (index, node) in layout.blueprint.nodes.iter().enumerate() {
        claim.record.nodes.push(NodeRecord {
            name: node.name.clone(),
            namespace: namespace_name(&prefix, index, &node.name),
        });
    }
    // The names are written down before the first one exists.
    claim.save()?;
    let result = measure(&options, &layout, &claim, &stopped);
    match result {
        Ok(report) if options.keep => {
            claim.record.kept = true;
            claim.save()?;
            Ok(Outcome {
                report,
                kept: Some(claim.record.clone()),
            })
        }
        result => {
            // By name: also what a bring-up that failed half-way has made. What could not be removed stays on record.
            let mut cleaned = Ok(());
            match rtwire_sys::netns::list(&format!("{prefix}-")) {
                Ok(names) => {
                    for name in names {
                        cleaned = cleaned.and(rtwire_sys::netns::delete(&name));
                    }
                }
                Err(error) => cleaned = Err(error),
            }
            let released = match &cleaned {
                Ok(()) => claim.release(),
                Err(_) => Ok(()),
            };
            let report = result?;
            cleaned?;
            released?;
            Ok(Outcome { report, kept: None })
        }
    }
}

impl Options {
    fn progress(&self, message: &str) {
        if self.show_progress {
            eprintln!("{message} …");
        }
    }
}

fn measure(
    options: &Options,
    layout: &Layout,
    claim: &Claim,
    stopped: &dyn Fn() -> bool,
) -> Result<Report, LabError> {
    let nodes = layout.blueprint.nodes.len();
    options.progress(&format!(
        "lab {}: bringing {nodes} nodes up",
        claim.record.id
    ));
    let fabric = Fabric::bring_up(&claim.prefix(), layout.blueprint.clone())?;
    let directory = claim.directory();
    let mut network = options.plan.network.clone();

    let _awake = Awake::hold();
    options.progress("measuring the unloaded network");
    let bursts = tasks::calibration(&options.plan, &fabric, directory, ns(options.calibration));
    let calibrated = if bursts.is_empty() {
        Calibrated::default()
    } else {
        let progress = |message: &str| options.progress(message);
        calibrate(&fabric, &bursts, options.calibration, stopped, &progress)?
    };
    for (_, port) in &calibrated.ports {
        network.set_port_latency(&port.node, &port.port, port.latency_ns);
    }
    // The description's own plan was judged before; the lab's addition is shown, not refused.
    let ignore = rtwire_plan::Options {
        ignore_limits: true,
        analysis: options.plan.options.analysis,
    };
    let mut go_on = || true;
    // Launches are those of the plan that is run.
    let mut scheduling = Scheduling::new(&mut go_on).keeping(&options.plan);
    let plan = rtwire_plan::plan_with(&network, &ignore, &mut scheduling)
        .map_err(|e| LabError::Plan(e.to_string()))?;
    let plan = with_identities_of(plan, &options.plan);

    let how = SessionOptions {
        path: options.transmit_path,
        receive_path: options.receive_path,
        spin: options.spin,
        police: options.police,
        ..SessionOptions::default()
    };
    let how = (ns(options.duration), &how);
    let assignments = tasks::assignments(&plan, layout, &fabric, directory, how)?;
    options.progress(&format!("running for {} s", options.duration.as_secs_f64()));
    let live = live(&fabric, &assignments, options.duration, stopped)?;
    let collected = Collected {
        network: &network,
        plan: &plan,
        fabric: &fabric,
        results: &live.results,
        watches: live.watches,
        directory,
        duration_ns: live.end_ns - live.start_ns,
        rule: Rule::default(),
    };
    let mut evidence = collected.evidence()?;
    let mut noise = live.noise;
    for result in live.results.values() {
        noise.add(result.talkers.iter().flat_map(|t| t.stalls.iter().cloned()));
        noise.add(
            result
                .listeners
                .iter()
                .flat_map(|l| l.stalls.iter().cloned()),
        );
    }
    evidence.stalls = noise.stall_record();
    let judgement = judge(&evidence);
    let times = (live.start_ns, collected.duration_ns);
    let mut report = assemble(
        options,
        &collected,
        &evidence,
        &judgement,
        &calibrated,
        noise,
        times,
    );
    let failed = live.failures.iter();
    report
        .notes
        .extend(failed.map(|failure| format!("{failure}; its streams cannot be judged.")));
    if options.keep {
        fabric.take_replies()?;
    }
    Ok(report)
}

/// Returns a plan with the identities of the given one. The plan with the lab's own latency has larger promises; its
/// addresses, ports and keys stay the same.
fn with_identities_of(mut plan: Plan, given: &Plan) -> Plan {
    for stream in &mut plan.streams {
        if let Some(own) = given.streams.iter().find(|own| own.name == stream.name) {
            stream.identity = own.identity.clone();
        }
    }
    plan.best_effort.clone_from(&given.best_effort);
    plan.plan_id.clone_from(&given.plan_id);
    plan.epoch = given.epoch;
    plan
}

/// The results when talkers and listeners have ended.
struct Live {
    start_ns: u64,
    end_ns: u64,
    results: BTreeMap<String, HostResult>,
    watches: Vec<PortWatch>,
    noise: NoiseRecord,
    /// Hosts whose process ended before its answer; the others are still judged.
    failures: Vec<String>,
}

fn live(
    fabric: &Fabric,
    assignments: &[Assignment],
    duration: Duration,
    stopped: &dyn Fn() -> bool,
) -> Result<Live, LabError> {
    let mut processes = Processes::start(assignments)?;
    (0..2 * fabric.blueprint.cables.len()).for_each(|port| fabric.records.reset(port));
    let recorder = NoiseRecorder::start(NoiseOptions::default())?;
    let monitor = Monitor::start(fabric, ns(duration));
    let start_ns = clock::now_ns(Clock::Tai) + SETTLE_NS;
    let planned_end_ns = start_ns + ns(duration);
    processes.order(Order::Run {
        start_ns,
        end_ns: planned_end_ns,
    });
    while clock::now_ns(Clock::Tai) < planned_end_ns && !stopped() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let end_ns = planned_end_ns.min(clock::now_ns(Clock::Tai));
    if stopped() {
        processes.order(Order::Stop);
    }
    let mut results = BTreeMap::new();
    let mut failures = Vec::new();
    for (host, result) in processes.finish() {
        match result {
            Ok(result) => {
                results.insert(host, result);
            }
            Err(error) => failures.push(error.to_string()),
        }
    }
    let noise = recorder.stop()?;
    let watches = monitor.finish();
    if end_ns <= start_ns {
        return Err(LabError::Stopped);
    }
    Ok(Live {
        start_ns,
        end_ns,
        results,
        watches,
        noise,
        failures,
    })
}

fn assemble(
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
    Report {
        format: 1,
        title: network.name.clone(),
        verdict: judgement.verdict,
        reasons: judgement.reasons.clone(),
        streams: streams.collect(),
        hosts: hosts(collected, duration_ns),
        calibration: calibrated.ports.iter().map(|(_, port)| port.clone()).collect(),
        noise: Some(noise),
        machine: Machine::this(&options.rtwire_version),
        command: options.command.clone(),
        started_at: rtwire_measure::units::rfc3339_utc(unix_seconds(start_ns)),
        started_tai_ns: start_ns,
        #[allow(clippy::cast_precision_loss)] // shown to a millisecond
        duration_s: duration_ns as f64 / 1e9,
        plan_hash: collected.plan.input_hash.clone(),
        rule: collected.rule,
        notes: notes(options, collected, calibrated),
        network: drawn(network, &ports),
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

fn notes(options: &Options, collected: &Collected<'_>, calibrated: &Calibrated) -> Vec<String> {
    let mut notes = options.plan.warnings.clone();
    notes.push(
        "The promises contain the lab's own latency, measured on the unloaded network before the run; \
         the description's own plan promises less."
            .to_owned(),
    );
    notes.push(format!(
        "An emulated link hands a frame over when its transmission begins: the time it takes is added to every delay, for \
         each link on the way. What that cannot show (larger frames in front, a link ahead of a wire by up to {}) counts against \
         \"kept\". Cables have no length.",
        rtwire_measure::units::duration(crate::fabric::RELEASE_CREDIT_NS)
    ));
    notes.extend(transmit::note(options.transmit_path));
    let (left_out, of) = calibrated.slices_left_out;
    if left_out > 0 {
        notes.push(format!(
            "{left_out} of {of} slices of the calibration were left out because the machine stalled in them."
        ));
    }
    for warning in &collected.plan.warnings {
        if !notes.contains(warning) {
            notes.push(format!("With the lab's own latency: {warning}"));
        }
    }
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
                    "Host {host}: {} frames found no room in the interface's own queue.",
                    talker.sends_refused
                ));
            }
        }
    }
    notes
}

fn network_stream(network: &Network, index: usize) -> &str {
    let stream = network.streams.get(index);
    stream.map_or("best effort", |stream| stream.name.as_str())
}

fn drawn(network: &Network, ports: &[PortReport]) -> rtwire_measure::report::Network {
    let hosts = network
        .hosts
        .iter()
        .map(|host| (host.name.clone(), NodeKind::Host));
    let switches = network
        .switches
        .iter()
        .map(|s| (s.name.clone(), NodeKind::Switch));
    let nodes = hosts
        .chain(switches)
        .map(|(name, kind)| DrawnNode { name, kind });
    let links = network.links.iter().flat_map(|link| {
        let [a, b] = &link.ends;
        [(a, b), (b, a)].map(|(from, to)| DrawnLink {
            from: from.clone(),
            to: to.clone(),
            rate_bps: link.rate_bps,
            utilization_percent: ports
                .iter()
                .find(|port| port.switch == *from && port.port == *to)
                .map(|port| port.utilization_percent),
        })
    });
    rtwire_measure::report::Network {
        name: network.name.clone(),
        nodes: nodes.collect(),
        links: links.collect(),
    }
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4)
}

/// UTC of a moment of CLOCK_TAI, by the offset that holds now.
fn unix_seconds(tai_ns: u64) -> u64 {
    let offset = clock::tai_offset_ns().unwrap_or(0);
    tai_ns.saturating_add_signed(-offset) / 1_000_000_000
}
