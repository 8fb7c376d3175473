//! One managing node, some controlled nodes, a bridge between them, and somebody who watches.

use crate::load::Load;
use crate::mini::{Controlled, ETHER_TYPE, Managing, groups};
use rtwire_link::powerlink::{DriverConfig, Role, StationPath, StationPort};
use rtwire_link::program::{Attach, ProgramConfig, ReceiveProgram, XdpMode};
use rtwire_link::run::{PortConfig, RealTime, RunConfig, RunStatistics, Runner};
use rtwire_measure::capture::{LINK_ETHERNET, Packet};
use rtwire_measure::jitter::{Follower, JitterReport, Settings};
use rtwire_measure::report::Machine;
use rtwire_measure::units::duration;
use rtwire_sys::filter::{Filter, Instruction, Test};
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::{Batch, Wait, interface};
use rtwire_testkit::{Side, Star};
use rtwire_wire::MacAddress;
use std::fmt;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Above all others of the rig.
pub(crate) const MANAGING_PRIORITY: u8 = 60;
const CONTROLLED_PRIORITY: u8 = 50;
const WATCHING_PRIORITY: u8 = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    User,
    Driver,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scenario {
    pub(crate) cycle_us: u64,
    pub(crate) nodes: u8,
    pub(crate) path: Path,
    pub(crate) loaded: bool,
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} CN, {}, {}, {}",
            self.nodes,
            duration(self.cycle_us * 1_000).replace(".000", ""),
            match self.path {
                Path::User => "user space",
                Path::Driver => "driver",
            },
            if self.loaded { "loaded" } else { "idle" }
        )
    }
}

pub(crate) struct Outcome {
    /// What the watcher has seen.
    pub(crate) report: JitterReport,
    pub(crate) cycles: u64,
    pub(crate) skipped: u64,
    pub(crate) lost: u64,
    /// Of the first controlled node.
    pub(crate) controlled: RunStatistics,
}

impl Outcome {
    pub(crate) fn in_short(&self) -> String {
        let latency = self.report.latency_ns;
        let soc = self.report.soc.as_ref().map(|soc| soc.deviation_ns);
        let phase = self
            .report
            .utilization
            .as_ref()
            .and_then(|u| u.isochronous_ns);
        let show = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), duration);
        format!(
            "PRes p50 {} p99 {}, SoC deviation p50 {} p99 {}, phase p50 {}, {} cycles, {} skipped, {} lost",
            show(latency.map(|s| s.p50)),
            show(latency.map(|s| s.p99)),
            show(soc.map(|s| s.p50)),
            show(soc.map(|s| s.p99)),
            show(phase.map(|s| s.p50)),
            self.cycles,
            self.skipped,
            self.lost
        )
    }
}

/// The network; the same for all scenarios of as many nodes.
pub(crate) struct Rig {
    star: Star,
    /// A veth takes frames from its peer's driver only where it has a program, too.
    _bridge: Vec<ReceiveProgram>,
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

    pub(crate) fn measure(&self, scenario: Scenario, time: Duration) -> Outcome {
        let stop = AtomicBool::new(false);
        let watched = AtomicBool::new(false);
        let stations = &self.star.stations;
        let cycle_ns = scenario.cycle_us * 1_000;
        let polled: Vec<(u8, MacAddress)> = stations[1..]
            .iter()
            .zip(1..)
            .map(|(side, node)| (node, MacAddress(side.mac)))
            .collect();
        // All of them may use up their time, and the cycle still holds.
        let timeout_ns = (cycle_ns * 4 / 5 / u64::from(scenario.nodes)).min(2_000_000);
        let mut managing = Managing::new(cycle_ns, timeout_ns, polled);
        let ready = Barrier::new(stations.len() + 1);
        thread::scope(|scope| {
            let watcher = scope.spawn(|| watch(&self.star.ports[0], cycle_ns, &watched));
            let mut controlled = Vec::new();
            for (node, side) in (1_u8..).zip(&stations[1..]) {
                let (ready, stop) = (&ready, &stop);
                controlled.push(scope.spawn(move || {
                    let mut station = Controlled::new(&[node]);
                    let config = RunConfig {
                        // A poll follows the SoC soon; with many nodes on few cores waiting for it takes their time.
                        linger_ns: if scenario.nodes == 1 { 60_000 } else { 0 },
                        ..RunConfig::default()
                    };
                    drive(
                        side,
                        scenario.path,
                        Role::Controlled,
                        node,
                        &config,
                        CONTROLLED_PRIORITY,
                        ready,
                        |runner| {
                            runner.run(&mut station, stop, |_, _, _| {}).unwrap();
                            runner.statistics()
                        },
                    )
                }));
            }
            let (managing, ready, stop) = (&mut managing, &ready, &stop);
            let polls = scope.spawn(move || {
                let config = RunConfig {
                    spin_ns: 100_000.min(cycle_ns / 4),
                    linger_ns: 0,
                    ..RunConfig::default()
                };
                drive(
                    &stations[0],
                    scenario.path,
                    Role::Managing,
                    240,
                    &config,
                    MANAGING_PRIORITY,
                    ready,
                    |runner| {
                        runner.run(managing, stop, |_, _, _| {}).unwrap();
                        (
                            managing.cycles,
                            managing.skipped,
                            managing.lost.iter().sum(),
                        )
                    },
                )
            });
            ready.wait();
            // Not before: what is set up takes its turns with everybody else.
            let load = scenario.loaded.then(Load::start);
            thread::sleep(time + Duration::from_millis(100));
            drop(load);
            stop.store(true, Ordering::Relaxed);
            let (cycles, skipped, lost) = polls.join().unwrap();
            watched.store(true, Ordering::Relaxed);
            let statistics: Vec<RunStatistics> =
                controlled.into_iter().map(|c| c.join().unwrap()).collect();
            Outcome {
                report: watcher.join().unwrap(),
                cycles,
                skipped,
                lost,
                controlled: statistics[0],
            }
        })
    }
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

/// Opens a station's port and runs it on a real-time thread.
#[allow(clippy::too_many_arguments, reason = "one place, called twice")]
fn drive<T: Send>(
    side: &Side,
    path: Path,
    role: Role,
    node: u8,
    config: &RunConfig,
    priority: u8,
    ready: &Barrier,
    work: impl FnOnce(&mut Runner<StationPort>) -> T + Send,
) -> T {
    side.run(|| {
        let port = PortConfig {
            groups: groups(),
            ..PortConfig::new(&side.interface, ETHER_TYPE)
        };
        let config_of_port = DriverConfig {
            attach: Attach::Only(XdpMode::Native),
            ..DriverConfig::new(port, role, node)
        };
        let (way, _pass) = match path {
            Path::User => (StationPath::User, Some(pass(side))),
            Path::Driver => (StationPath::Driver, None),
        };
        let (port, _) = StationPort::open(&config_of_port, way).unwrap();
        let mut runner = Runner::new(port, config);
        RealTime {
            fifo_priority: Some(priority),
            cpu: None,
        }
        .apply()
        .unwrap();
        ready.wait();
        work(&mut runner)
    })
}

/// Watches the managing node's port of the bridge until told to stop.
fn watch(port: &Side, cycle_ns: u64, stop: &AtomicBool) -> JitterReport {
    port.run(|| {
        let found = interface::by_name(&port.interface).unwrap();
        let filter = Filter::new(&[
            Instruction::LoadHalf(12),
            Instruction::Jump {
                test: Test::Equal(ETHER_TYPE.into()),
                yes: 0,
                no: 1,
            },
            Instruction::Accept,
            Instruction::Reject,
        ])
        .unwrap();
        let (socket, ()) = PacketSocket::receiver(&found, 3, &filter, |socket| {
            socket.enable_rx_stamps()?;
            socket.take_all()?;
            socket.set_receive_room(256 << 20)?;
            Ok(())
        })
        .unwrap();
        let _ = rtwire_sys::sched::set_fifo(WATCHING_PRIORITY);
        let mut follower = Follower::new(Settings {
            cycle_ns: Some(cycle_ns),
            worst: 0,
            around: 0,
            ..Settings::default()
        });
        let mut batch = Batch::new(1024, 128).with_only(false, true);
        let mut number = 0;
        while !stop.load(Ordering::Relaxed) {
            // In one go what has come meanwhile: the fewer wake-ups, the less is disturbed.
            thread::sleep(Duration::from_millis(20));
            while let Ok(count) = socket.receive(&mut batch, Wait::No, usize::MAX) {
                for message in (0..count).filter_map(|index| batch.get(index)) {
                    number += 1;
                    follower.packet(&Packet {
                        number,
                        time_ns: message.stamp_realtime_ns,
                        link_type: LINK_ETHERNET,
                        data: message.data,
                        original_octets: message.data.len() as u32,
                    });
                }
            }
        }
        let machine = Machine::this(env!("CARGO_PKG_VERSION"));
        follower.finish("bridge", "live", "bench", machine).0
    })
}
