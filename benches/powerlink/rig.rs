//! One managing node, some controlled nodes, a bridge between them, and a watcher.

use crate::apart::Apart;
use crate::judge::{Happened, Interruptions, Losses};
use crate::load::Load;
use crate::watch::watch;
use rtwire_link::program::{Attach, ProgramConfig, ReceiveProgram, XdpMode};
use rtwire_measure::jitter::JitterReport;
use rtwire_measure::units::{duration, short_duration};
use rtwire_powerlink::Cdc;
use rtwire_powerlink_station::{Handle, Io, Project, Station, StationStatus};
use rtwire_sys::clock::{self, Clock};
use rtwire_testkit::{Side, Star};
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The priority of the managing node, above all others of the rig.
pub(crate) const MANAGING_PRIORITY: u8 = 60;
const CONTROLLED_PRIORITY: u8 = 50;
/// The longest time in which a network has to become operational.
const BOOT: Duration = Duration::from_secs(20);
/// The interval at which the managing node's events are read: it keeps its last 64.
const LOOK: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    User,
    Driver,
    /// In user space, the controlled node in a process of its own, as users start it.
    Apart,
    /// The same, with the plainest node in C. The managing node is ours.
    Plain,
}

impl Path {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::User => "user space",
            Self::Driver => "driver",
            Self::Apart => "user space, as a command",
            Self::Plain => "plain node in C",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scenario {
    pub(crate) cycle_us: u64,
    pub(crate) nodes: u8,
    pub(crate) path: Path,
    pub(crate) loaded: bool,
    /// The response timeout, µs; `None` for the longest that the cycle allows.
    pub(crate) timeout_us: Option<u64>,
}

impl Scenario {
    pub(crate) fn new(cycle_us: u64, nodes: u8, path: Path, loaded: bool) -> Self {
        Self {
            cycle_us,
            nodes,
            path,
            loaded,
            timeout_us: None,
        }
    }

    fn cycle(self) -> String {
        short_duration(self.cycle_us * 1_000)
    }

    fn load(self) -> &'static str {
        if self.loaded { "loaded" } else { "idle" }
    }

    /// The part of a scenario that is the same for both paths.
    pub(crate) fn conditions(self) -> String {
        format!("{} CN, {}, {}", self.nodes, self.cycle(), self.load())
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cycle, path) = (self.cycle(), self.path.name());
        write!(f, "{} CN, {cycle}, {path}, {}", self.nodes, self.load())
    }
}

pub(crate) struct Outcome {
    /// True if the network has become operational.
    pub(crate) booted: bool,
    /// The watcher's report from then on.
    pub(crate) report: Option<JitterReport>,
    /// The managing node's cycles in that time.
    pub(crate) cycles: u64,
    pub(crate) skipped: u64,
    pub(crate) stalls: u64,
    pub(crate) worst_stall_ns: u64,
    pub(crate) lost: u64,
    /// Responses that came after their timeout: the part of the lost ones that did come.
    pub(crate) late: u64,
    /// Times that the managing node has left Operational, or has taken a node for lost.
    pub(crate) interruptions: u64,
    /// System calls of the first controlled node; 0 of one that is not ours.
    pub(crate) calls: u64,
    /// The cycles of that node.
    pub(crate) calls_cycles: u64,
    /// The last events, if there were interruptions.
    pub(crate) events: Vec<String>,
    /// The causes of the interruptions, and the lost responses, by time.
    pub(crate) interrupted: Vec<Happened>,
    pub(crate) lost_at: Vec<Happened>,
}

impl Outcome {
    pub(crate) fn in_short(&self) -> String {
        if !self.booted {
            return format!("not operational within {BOOT:?}: {:?}", self.events);
        }
        let report = self.report.as_ref();
        let latency = report.and_then(|report| report.latency_ns);
        let soc = report.and_then(|report| report.soc.as_ref().map(|soc| soc.deviation_ns));
        let utilization = report.and_then(|report| report.utilization.as_ref());
        let phase = utilization.and_then(|u| u.isochronous_ns);
        let show = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), duration);
        format!(
            "PRes p50 {} p99 {}, SoC deviation p50 {} p99 {}, phase p50 {}, {} cycles, {} skipped in {} stalls (worst {}), {} lost, {} came late, {} interruptions",
            show(latency.map(|s| s.p50)),
            show(latency.map(|s| s.p99)),
            show(soc.map(|s| s.p50)),
            show(soc.map(|s| s.p99)),
            show(phase.map(|s| s.p50)),
            self.cycles,
            self.skipped,
            self.stalls,
            duration(self.worst_stall_ns),
            self.lost,
            self.late,
            self.interruptions,
        )
    }
}

/// The network; the same for all scenarios with the same number of nodes.
pub(crate) struct Rig {
    star: Star,
    /// A veth takes frames from its peer's driver only if it has a program too.
    _bridge: Vec<ReceiveProgram>,
}

/// Ends all threads that look at its flags when this is dropped, also by a panic: a benchmark that cannot go on ends.
struct Ending<'a>([&'a AtomicBool; 2]);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        for flag in self.0 {
            flag.store(true, Ordering::Relaxed);
        }
    }
}

fn status(handle: &Handle) -> StationStatus {
    let status = handle.status(Duration::from_secs(10));
    status.expect("a station that runs tells its state")
}

fn interruptions(status: &StationStatus) -> u64 {
    let lost: u64 = status.nodes.iter().map(|node| node.times_lost).sum();
    status.left_operational + lost
}

fn lost(status: &StationStatus) -> u64 {
    status.nodes.iter().map(|node| u64::from(node.lost)).sum()
}

fn late(status: &StationStatus) -> u64 {
    status.nodes.iter().map(|node| u64::from(node.late)).sum()
}

fn operational(status: &StationStatus) -> bool {
    status.state == "Operational" && status.nodes.iter().all(|node| node.operational)
}

impl Rig {
    pub(crate) fn new(nodes: u8) -> Self {
        let star = Star::new(nodes + 1);
        let bridge = star.ports.iter().map(pass).collect();
        Self {
            star,
            _bridge: bridge,
        }
    }

    /// Runs a scenario for some time, with or without a watcher: each watched frame costs time, too.
    pub(crate) fn measure(&self, scenario: Scenario, time: Duration, watch_it: bool) -> Outcome {
        let stop = AtomicBool::new(false);
        let watched = AtomicBool::new(false);
        let stations = &self.star.stations;
        let losses = &Mutex::new(Losses::new());
        thread::scope(|scope| {
            let _ending = Ending([&stop, &watched]);
            let (told, handles) = channel();
            let mut threads = Vec::new();
            let mut apart = Vec::new();
            for (node, side) in (1_u8..).zip(&stations[1..]) {
                let text = controlled(scenario, node);
                let process = match scenario.path {
                    Path::Plain => Some(Apart::plain(side, node, CONTROLLED_PRIORITY)),
                    Path::Apart => Some(Apart::command(side, &text)),
                    Path::User | Path::Driver => None,
                };
                if let Some(process) = process {
                    apart.push((pass(side), process));
                    continue;
                }
                let (told, stop) = (told.clone(), &stop);
                threads.push(
                    scope.spawn(move || run(side, scenario.path, &text, &told, stop, |_| {})),
                );
            }
            let controlled: Vec<Handle> = (0..threads.len())
                .map(|_| handles.recv().expect("a station begins"))
                .collect();
            let (text, stop_of_mn) = (managing(scenario), &stop);
            threads.push(scope.spawn(move || {
                let losses = &mut *losses.lock().unwrap();
                let path = scenario.path;
                run(&stations[0], path, &text, &told, stop_of_mn, |io| {
                    losses.look(io)
                });
            }));
            let manager = handles.recv().expect("the managing node begins");
            let begun = Instant::now();
            let mut before = status(&manager);
            while !operational(&before) && begun.elapsed() < BOOT {
                thread::sleep(Duration::from_millis(100));
                before = status(&manager);
            }
            let there = operational(&before);
            let first = controlled.first().map(status);
            let mut interruptions_of = Interruptions::new();
            let begun_tai = clock::now_ns(Clock::Tai);
            let watcher = (there && watch_it).then(|| {
                let port = &self.star.ports[0];
                let watched = &watched;
                scope.spawn(move || watch(port, scenario.cycle_us * 1_000, watched))
            });
            if there {
                let load = scenario.loaded.then(Load::start);
                let begun = Instant::now();
                while begun.elapsed() < time {
                    thread::sleep(LOOK.min(time.saturating_sub(begun.elapsed())));
                    interruptions_of.look(&status(&manager));
                }
                drop(load);
            }
            watched.store(true, Ordering::Relaxed);
            let report = watcher.map(|watcher| watcher.join().unwrap());
            let (after, last) = (status(&manager), controlled.first().map(status));
            let of_node = |count: fn(&StationStatus) -> u64| match (&first, &last) {
                (Some(first), Some(last)) => count(last) - count(first),
                _ => 0,
            };
            stop.store(true, Ordering::Relaxed);
            for thread in threads {
                thread.join().unwrap();
            }
            let since =
                |all: Vec<Happened>| all.into_iter().filter(|h| h.at_ns >= begun_tai).collect();
            let interruptions = interruptions(&after) - interruptions(&before);
            Outcome {
                booted: there,
                report,
                cycles: after.cycles - before.cycles,
                skipped: after.skipped_cycles - before.skipped_cycles,
                stalls: after.own_stalls - before.own_stalls,
                worst_stall_ns: after.worst_stall_ns,
                lost: lost(&after) - lost(&before),
                late: late(&after) - late(&before),
                interruptions,
                calls: of_node(|status| status.system_calls),
                calls_cycles: of_node(|status| status.cycles),
                events: if interruptions > 0 || !there {
                    after.events.into_iter().map(|event| event.what).collect()
                } else {
                    Vec::new()
                },
                interrupted: since(interruptions_of.happened()),
                lost_at: since(losses.lock().unwrap().happened()),
            }
        })
    }
}

/// Returns the project of a controlled node: a byte in, a byte out.
pub(crate) fn controlled(scenario: Scenario, node: u8) -> String {
    // A lost node starts again at once: eight that are each silent for 600 ms are seldom all there at the same time.
    // A poll follows the SoC soon. With many nodes on few cores, waiting for it would take their time.
    let linger_us = if scenario.nodes == 1 { 60 } else { 0 };
    let path = path(scenario.path);
    format!(
        "[station]\nnode = {node}\ninterface = \"rtws\"\ncycle = \"{} us\"\npath = \"{path}\"\n\
         priority = {CONTROLLED_PRIORITY}\nsilence-after-reset = \"0 us\"\nlinger = \"{linger_us} us\"\n\
         receives = [\"6200h/1 u8\"]\nsends = [\"6000h/1 u8\"]\n",
        scenario.cycle_us
    )
}

fn path(path: Path) -> &'static str {
    match path {
        Path::User | Path::Apart | Path::Plain => "user",
        Path::Driver => "native",
    }
}

/// Returns the time after which a response counts as missing (object 1F92h), µs.
///
/// In user space all nodes may use theirs up, and the cycle still holds. In the driver a whole exchange takes some 12
/// µs, so one silent node beside the others is tolerated.
///
/// A long timeout costs nothing if the response comes. One shorter than a stall of some hundred µs loses responses
/// that are only late.
fn timeout_us(scenario: Scenario) -> u64 {
    const EXCHANGE_US: u64 = 12;
    let nodes = u64::from(scenario.nodes);
    let phase_us = scenario.cycle_us * 4 / 5;
    let left_us = match scenario.path {
        Path::User | Path::Apart | Path::Plain => phase_us / nodes,
        Path::Driver => phase_us - (nodes - 1) * EXCHANGE_US,
    };
    scenario.timeout_us.unwrap_or(left_us).min(2_000)
}

pub(crate) fn managing(scenario: Scenario) -> String {
    let cycle_us = scenario.cycle_us;
    let timeout_us = timeout_us(scenario);
    // A node that the SoC wakes is awake when its request comes (object 1F8Ah/1). So it is with the other stack,
    // whose request follows 55 to 60 µs after the SoC.
    let waits = scenario.path != Path::Driver && scenario.nodes == 1 && cycle_us >= 1_000;
    // All others have no pause at all, as little as the measured phase can be; a station's own default is a friendly one.
    let pause = if waits {
        "cdc = \"wait.cdc\""
    } else {
        "wait-soc-preq = \"0 us\""
    };
    let mut text = format!(
        "[station]\n{pause}\nnode = 240\ninterface = \"rtws\"\ncycle = \"{cycle_us} us\"\npath = \"{}\"\n\
         priority = {MANAGING_PRIORITY}\nspin = \"{} us\"\n",
        path(scenario.path),
        100.min(cycle_us / 4),
    );
    for node in 1..=scenario.nodes {
        text += &format!(
            "[[node]]\nnumber = {node}\nmandatory = true\nresponse-timeout = \"{timeout_us} us\"\n\
             receives = [\"6200h/1 u8\"]\nsends = [\"6000h/1 u8\"]\n"
        );
    }
    text
}

/// Opens a station in its namespace and runs it until `stop` is set.
fn run(
    side: &Side,
    path: Path,
    text: &str,
    told: &Sender<Handle>,
    stop: &AtomicBool,
    mut control: impl FnMut(&Io<'_>) + Send,
) {
    side.run(|| {
        // In native mode a veth takes frames that its peer's driver sends only if it has a program too.
        let _pass = (path != Path::Driver).then(|| pass(side));
        let folder = tempfile::tempdir().unwrap();
        let mut wait = Cdc::default();
        wait.push(0x1f8a, 1, 50_000, 4);
        std::fs::write(folder.path().join("wait.cdc"), wait.emit()).unwrap();
        let project = Project::parse(text, &folder.path().join("bench.toml")).unwrap();
        let mut station = if project.node == 240 {
            Station::managing(&project)
        } else {
            Station::controlled(&project)
        }
        .unwrap();
        told.send(station.handle()).unwrap();
        station.run(stop, |io| control(io)).unwrap();
    });
}

fn pass(side: &Side) -> ReceiveProgram {
    side.run(|| {
        ReceiveProgram::with(&ProgramConfig {
            attach: Attach::Only(XdpMode::Native),
            ..ProgramConfig::new(&side.interface)
        })
        .unwrap()
    })
}
