//! One run from beginning to end: bring up, calibrate, measure, judge, take down.

use std::collections::BTreeMap;
use std::time::Duration;

use rtwire_measure::clock_steps::ClockStep;
use rtwire_measure::noise::{NoiseOptions, NoiseRecord, NoiseRecorder};
use rtwire_measure::report::Report;
use rtwire_measure::units::{self, grouped};
use rtwire_measure::verdict::{Rule, StallLine, judge};
use rtwire_plan::Plan;
use rtwire_session::outcome::HostResult;
use rtwire_session::task::{Assignment, Order};
use rtwire_session::{ReceivePath, SessionOptions, TxPath};
use rtwire_sys::clock::{self, Clock};

use crate::LabError;
use crate::awake::Awake;
use crate::blueprint::Layout;
use crate::calibrate::{Calibrated, calibrate};
use crate::events::{EventReader, Events};
use crate::evidence::Collected;
use crate::fabric::{Fabric, namespace_name};
use crate::lasting;
use crate::load::Load;
use crate::managed::{Brought, Managed, Transfers, remove_limits};
use crate::monitor::{Monitor, PortWatch};
use crate::processes::Processes;
use crate::registry::{self, Claim, NodeRecord, Phase, Record};
use crate::replayed::Exact;
use crate::report::assemble;
use crate::run_clock::RunClock;
use crate::sharing;
use crate::softirqs::Softirqs;
use crate::tasks;
use crate::transmit;

/// The time in ns from the order to run to the first frame: kernel timestamping starts some time after it is requested.
const SETTLE_NS: u64 = 500_000_000;

/// The time in ns between two looks at whether a run that is extended can end.
const LOOK_NS: u64 = 200_000_000;

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The plan.
    pub plan: Plan,
    /// The description's file name, for the record.
    pub file: String,
    /// The least duration of the measurement.
    pub duration: Duration,
    /// The longest duration. The run lasts longer than [`Self::duration`] where a stream needs more frames for a verdict,
    /// the machine more quiet time, or a talker that was held up more of its load. A shorter one than that counts as that.
    pub at_most: Duration,
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
    tasks::check_room(&options.plan.network, ns(options.at_most()))?;
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
    let result = measure(&options, &layout, &mut claim, &stopped);
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
    fn at_most(&self) -> Duration {
        self.at_most.max(self.duration)
    }

    /// Returns what to say before a run that cannot prove anything for its slowest stream.
    fn too_short(&self, (name, needed_ns): (&str, u64)) -> Option<String> {
        (needed_ns > ns(self.at_most())).then(|| {
            format!(
                "{} frames of stream {name}, which its verdict needs, take {}, and this run takes {} at most: it will be \
                 inconclusive. Give --at-most {}s or more",
                grouped(Rule::default().min_samples),
                units::short_duration(needed_ns),
                units::short_duration(ns(self.at_most())),
                needed_ns.div_ceil(1_000_000_000)
            )
        })
    }

    fn progress(&self, message: &str) {
        if self.show_progress {
            eprintln!("{message} …");
        }
    }
}

fn measure(
    options: &Options,
    layout: &Layout,
    claim: &mut Claim,
    stopped: &dyn Fn() -> bool,
) -> Result<Report, LabError> {
    let nodes = layout.blueprint.nodes.len();
    let slowest = lasting::slowest(&options.plan.network, &Rule::default());
    if let Some(note) = slowest.and_then(|slowest| options.too_short(slowest)) {
        eprintln!("note: {note}");
    }
    options.progress(&format!(
        "lab {}: bringing {nodes} nodes up",
        claim.record.id
    ));
    let fabric = Fabric::bring_up(&claim.prefix(), layout.blueprint.clone())?;
    let plan = &options.plan;
    let bursts_directory = &claim.subdirectory("calibration")?;
    let directory = &claim.subdirectory("run")?;

    let _awake = Awake::hold();
    let softirqs = Softirqs::hold();
    options.progress("measuring the unloaded network");
    claim.enter(Phase::Calibrating)?;
    let bursts = tasks::calibration(plan, &fabric, bursts_directory, ns(options.calibration));
    let calibrated = if bursts.flows.is_empty() {
        Calibrated::default()
    } else {
        let progress = |message: &str| options.progress(message);
        calibrate(&fabric, &bursts, options.calibration, stopped, &progress)?
    };
    let how = SessionOptions {
        path: options.transmit_path,
        receive_path: options.receive_path,
        spin: options.spin,
        police: options.police,
        one_machine: true,
        ..SessionOptions::default()
    };
    let how = (ns(options.at_most()), &how);
    let assignments = tasks::assignments(plan, layout, &fabric, directory, how)?;
    let managed = match &plan.network.manager_host {
        Some(host) => {
            options.progress(&format!(
                "starting the manager on {host}, and an agent on each host"
            ));
            Managed::start(plan, &fabric, &claim.subdirectory("manager")?)?
        }
        None => None,
    };
    let needed_ns = slowest.map_or(0, |(_, needed_ns)| needed_ns);
    let live = live(&fabric, &assignments, (options, needed_ns), stopped, claim)?;
    claim.enter(Phase::Ended)?;
    let mut troubles = Vec::new();
    let mut agents = Vec::new();
    if let Some(mut managed) = managed {
        troubles = managed.troubles();
        agents = managed.finish();
    }
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
    let stalls = StallLine::new(noise.stall_record().possible());
    let exact = Exact::new(plan, &fabric, directory, &live.events, &stalls)?;
    let collected = Collected {
        network: &plan.network,
        plan,
        fabric: &fabric,
        calibrated: &calibrated,
        events: &live.events,
        noise: &noise,
        exact: &exact,
        interrupted: live.interrupted,
        clock_step: live.clock_step,
        results: &live.results,
        watches: live.watches,
        directory,
        duration_ns: live.end_ns - live.start_ns,
        rule: Rule::default(),
    };
    let evidence = collected.evidence()?;
    let judgement = judge(&evidence);
    let times = (live.start_ns, collected.duration_ns);
    let mut report = assemble(
        options,
        &collected,
        &evidence,
        &judgement,
        &calibrated,
        noise.clone(),
        times,
    );
    if softirqs.threads == 0 {
        report.notes.push(
            "The kernel's threads for soft interrupts could not be made urgent: on a busy machine the emulated ports are late."
                .to_owned(),
        );
    }
    report.sharing = sharing::report(&collected, &live.brought, agents, live.start_ns);
    report.notes.append(&mut troubles);
    let failed = live.failures.iter();
    report
        .notes
        .extend(failed.map(|failure| format!("{failure}; its streams cannot be judged.")));
    if options.keep {
        fabric.take_replies()?;
        if plan.network.manager_host.is_some() {
            remove_limits(&fabric, &plan.network)?;
        }
    }
    Ok(report)
}

/// The results when talkers and listeners have ended.
struct Live {
    start_ns: u64,
    end_ns: u64,
    results: BTreeMap<String, HostResult>,
    watches: Vec<PortWatch>,
    events: Events,
    noise: NoiseRecord,
    /// True if Ctrl-C ended it.
    interrupted: bool,
    /// The step of the clock that ended it.
    clock_step: Option<ClockStep>,
    /// Hosts whose process ended before its answer; the others are still judged.
    failures: Vec<String>,
    /// The bytes that the transfers brought.
    brought: Vec<Brought>,
}

fn live(
    fabric: &Fabric,
    assignments: &[Assignment],
    (options, needed_ns): (&Options, u64),
    stopped: &dyn Fn() -> bool,
    claim: &mut Claim,
) -> Result<Live, LabError> {
    let mut processes = Processes::start(assignments)?;
    (0..2 * fabric.blueprint.cables.len()).for_each(|port| fabric.records.reset(port));
    let recorder = NoiseRecorder::start(NoiseOptions::beside_a_lab())?;
    let monitor = Monitor::start(fabric, ns(options.at_most()));
    let reader = EventReader::start(fabric);
    let mut time = RunClock::begin();
    let start_ns = clock::now_ns(Clock::Tai) + SETTLE_NS;
    let last_end_ns = start_ns + ns(options.at_most());
    processes.order(Order::Run {
        start_ns,
        end_ns: last_end_ns,
    });
    let transfers = Transfers::start(fabric, &options.plan.network)?;
    let load = Load::begin(fabric, &options.plan.network, &Rule::default());
    time.wait(SETTLE_NS, stopped);
    let stalled_before_ns = recorder.stalled_ns();
    claim.enter(Phase::Running)?;
    options.progress(&format!("running for {} s", options.duration.as_secs_f64()));
    time.wait(SETTLE_NS + ns(options.duration), stopped);
    let most_ns = ns(options.at_most());
    let is_enough = |lasted_ns| {
        let stalled_ns = recorder.stalled_ns().saturating_sub(stalled_before_ns);
        lasting::is_enough(lasted_ns, needed_ns, stalled_ns)
            && !load.can_be_made_up(lasted_ns, most_ns)
    };
    let lasted_ns = |time: &RunClock| time.elapsed_ns().saturating_sub(SETTLE_NS);
    while lasted_ns(&time) < most_ns
        && !stopped()
        && time.step().is_none()
        && !is_enough(lasted_ns(&time))
    {
        time.wait(time.elapsed_ns() + LOOK_NS, stopped);
    }
    let end_ns = start_ns + lasted_ns(&time).min(most_ns);
    let interrupted = stopped() && end_ns < last_end_ns;
    // By a clock that was set, hosts may take the end for an hour away.
    if end_ns < last_end_ns || time.step().is_some() {
        processes.order(Order::Stop);
    }
    // Their last frames have left the network before the records end.
    let brought = transfers.finish();
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
    let events = reader.finish();
    if end_ns <= start_ns {
        if let Some(step) = time.step() {
            return Err(LabError::ClockSet(step));
        }
        return Err(LabError::Stopped);
    }
    Ok(Live {
        start_ns,
        end_ns,
        results,
        watches,
        events,
        noise,
        interrupted,
        clock_step: time.step(),
        failures,
        brought,
    })
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4)
}
