//! The isochronous phase over a veth: in user space and in the driver, native and generic, with the same tests.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod mini;

use mini::{Controlled, ETHER_TYPE, Managing, PREQ, SOA, SOC, groups};
use rtwire_link::LinkError;
use rtwire_link::program::{Attach, ProgramConfig, ReceiveProgram, XdpMode};
use rtwire_link::run::{
    Arrived, Offload, PacketPort, Port, PortConfig, RunConfig, RunStatistics, Runner,
};
use rtwire_powerlink_station::driver::{DriverConfig, DriverCounters, DriverPort, Role};
use rtwire_testkit::{NetnsPair, Side, ip, require};
use rtwire_wire::MacAddress;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Path {
    User,
    Driver(XdpMode),
}

/// A port, and what a veth needs besides so that frames from its peer's driver reach it.
struct Opened {
    port: Box<dyn AnyPort + Send>,
    _pass: Option<ReceiveProgram>,
}

/// Either port, so that one test serves all paths.
trait AnyPort: Port {
    fn counters(&self) -> DriverCounters;
}

impl AnyPort for PacketPort {
    fn counters(&self) -> DriverCounters {
        DriverCounters::default()
    }
}

impl AnyPort for DriverPort {
    fn counters(&self) -> DriverCounters {
        DriverPort::counters(self)
    }
}

impl Port for Opened {
    fn send(&mut self, frame: &[u8]) -> Result<(), LinkError> {
        self.port.send(frame)
    }
    fn receive(&mut self, show: &mut dyn FnMut(Arrived<'_>)) -> Result<bool, LinkError> {
        self.port.receive(show)
    }
    fn offload(&mut self) -> Option<&mut dyn Offload> {
        self.port.offload()
    }
    fn is_ready(&self) -> bool {
        self.port.is_ready()
    }
    fn wait(&mut self, timeout: Duration) -> Result<(), LinkError> {
        self.port.wait(timeout)
    }
}

fn open(side: &Side, path: Path, role: Role, node: u8) -> Opened {
    side.run(|| {
        let port = PortConfig {
            groups: groups(),
            ..PortConfig::new(&side.interface, ETHER_TYPE)
        };
        match path {
            Path::User => Opened {
                port: Box::new(PacketPort::open(&port).unwrap()),
                _pass: Some(
                    ReceiveProgram::with(&ProgramConfig {
                        attach: Attach::Only(XdpMode::Native),
                        ..ProgramConfig::new(&side.interface)
                    })
                    .unwrap(),
                ),
            },
            Path::Driver(mode) => Opened {
                port: Box::new(
                    DriverPort::open(&DriverConfig {
                        attach: Attach::Only(mode),
                        ..DriverConfig::new(port, role, node)
                    })
                    .unwrap(),
                ),
                _pass: None,
            },
        }
    })
}

const PATHS: [(Path, Path); 7] = [
    (Path::User, Path::User),
    (Path::User, Path::Driver(XdpMode::Native)),
    (Path::User, Path::Driver(XdpMode::Generic)),
    (Path::Driver(XdpMode::Native), Path::User),
    (Path::Driver(XdpMode::Generic), Path::User),
    (Path::Driver(XdpMode::Native), Path::Driver(XdpMode::Native)),
    (
        Path::Driver(XdpMode::Generic),
        Path::Driver(XdpMode::Generic),
    ),
];

struct Ran {
    managing: Managing,
    controlled: Controlled,
    a: DriverCounters,
    b: DriverCounters,
    /// The statistics of the loops at `a` and `b`.
    loops: [RunStatistics; 2],
}

/// Runs a managing node at `a` and what answers for `nodes` at `b`, for as long as `meanwhile` takes.
fn run(
    pair: &NetnsPair,
    paths: (Path, Path),
    nodes: &[u8],
    meanwhile: impl FnOnce(&AtomicBool),
) -> Ran {
    let config = RunConfig::default();
    let mut a = Runner::new(open(&pair.a, paths.0, Role::Managing, 240), &config);
    let mut b = Runner::new(open(&pair.b, paths.1, Role::Controlled, nodes[0]), &config);
    let mac = MacAddress(pair.b.mac);
    let polled = nodes.iter().map(|node| (*node, mac)).collect();
    let mut managing = Managing::new(4_000_000, 1_500_000, polled);
    let mut controlled = Controlled::new(nodes);
    let (stop, silent) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let answers = scope.spawn(|| {
            b.run(&mut controlled, &stop, |node, _, _| {
                node.silent = silent.load(Ordering::Relaxed);
            })
        });
        let polls = scope.spawn(|| a.run(&mut managing, &stop, |_, _, _| {}));
        meanwhile(&silent);
        stop.store(true, Ordering::Relaxed);
        polls.join().unwrap().unwrap();
        answers.join().unwrap().unwrap();
    });
    Ran {
        managing,
        controlled,
        a: a.port().port.counters(),
        b: b.port().port.counters(),
        loops: [a.statistics(), b.statistics()],
    }
}

fn wait_ms(ms: u64) -> impl FnOnce(&AtomicBool) {
    move |_| thread::sleep(Duration::from_millis(ms))
}

/// Few enough to be the machine's doing: it stalls for milliseconds now and then.
fn few(lost: u64, cycles: u64) -> bool {
    lost <= 5 + cycles / 10
}

#[test]
fn cycles_run_on_every_path() {
    require!(root);
    require!(program "ip");
    for paths in PATHS {
        let pair = NetnsPair::new();
        let ran = run(&pair, paths, &[7], wait_ms(600));
        let managing = &ran.managing;
        assert!(managing.cycles > 60, "{paths:?}: {}", managing.cycles);
        assert!(
            few(managing.lost[0], managing.cycles),
            "{paths:?}: {:?} of {}",
            managing.lost,
            managing.cycles
        );
        // Data go both ways, at most some cycles old.
        assert!(
            u64::from(managing.values[0]) + 30 > ran.controlled.polls,
            "{paths:?}: {:?} {}",
            managing.values,
            ran.controlled.polls
        );
        assert!(
            u64::from(ran.controlled.value) + 30 > managing.cycles,
            "{paths:?}"
        );
        if let Path::Driver(_) = paths.1 {
            assert!(
                ran.b.answered + 30 > managing.cycles,
                "{paths:?}: {:?}",
                ran.b
            );
            assert!(ran.b.unanswered < 30, "{:?}", ran.b);
        }
        assert_eq!((ran.a.overrun, ran.b.overrun), (0, 0));
        // Each response is due once: the loop or the driver sends it, never both, never neither.
        let b = ran.loops[1];
        let due = b.sent + b.unsent + b.offloaded;
        assert_eq!(due, ran.controlled.polls, "{paths:?}: {b:?}");
        assert!(b.offloaded <= ran.b.answered, "{paths:?}: {b:?}");
        if let Path::Driver(_) = paths.1 {
            // The loop has not read what came as it ended: no equality.
            assert!(b.sent + b.unsent <= ran.b.unanswered, "{paths:?}: {b:?}");
        }
    }
}

#[test]
fn the_node_sees_every_frame_in_order_on_every_path() {
    require!(root);
    require!(program "ip");
    for paths in PATHS {
        let pair = NetnsPair::new();
        let ran = run(&pair, paths, &[7], wait_ms(400));
        let history = &ran.controlled.history;
        assert!(history.len() > 100, "{paths:?}");
        let odd = history
            .windows(2)
            .filter(|two| !matches!(two, [SOC, PREQ] | [PREQ, SOA] | [SOA, SOC]))
            .count();
        assert_eq!(odd, 0, "{paths:?}: {:?}", &history[..30]);
    }
}

#[test]
fn polls_are_chained_in_the_driver() {
    require!(root);
    require!(program "ip");
    for paths in PATHS {
        // One station answers for several, from user space.
        if paths.1 != Path::User {
            continue;
        }
        let pair = NetnsPair::new();
        let ran = run(&pair, paths, &[1, 2, 3, 4], wait_ms(600));
        let managing = &ran.managing;
        let lost: u64 = managing.lost.iter().sum();
        assert!(
            managing.cycles > 60 && few(lost, managing.cycles * 4),
            "{paths:?}"
        );
        if let Path::Driver(_) = paths.0 {
            let possible = 3 * managing.cycles;
            assert!(
                ran.a.chained * 10 > possible * 8,
                "{paths:?}: {:?} of {possible}",
                ran.a
            );
            assert_eq!(ran.a.unchained, 0);
        } else {
            assert_eq!(ran.a.chained, 0);
        }
        // Each got its polls, none twice.
        assert!(ran.controlled.polls <= 4 * managing.cycles, "{paths:?}");
    }
}

#[test]
fn a_node_that_falls_silent_is_not_answered_for_and_comes_back() {
    require!(root);
    require!(program "ip");
    for paths in PATHS {
        let pair = NetnsPair::new();
        let ran = run(&pair, paths, &[7], |silent| {
            thread::sleep(Duration::from_millis(250));
            silent.store(true, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(300));
            silent.store(false, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(250));
        });
        let lost = ran.managing.lost[0];
        assert!(
            lost > 40,
            "{paths:?}: {lost} lost of {}",
            ran.managing.cycles
        );
        assert!(
            u64::from(ran.managing.values[0]) + 30 > ran.controlled.polls,
            "{paths:?}: it came back"
        );
    }
}

#[test]
fn a_cable_that_is_pulled_and_put_back_is_borne() {
    require!(root);
    require!(program "ip");
    for paths in PATHS {
        let pair = NetnsPair::new();
        let ran = run(&pair, paths, &[7], |_| {
            thread::sleep(Duration::from_millis(200));
            ip(&pair.b.namespace, "link set rtwb down");
            thread::sleep(Duration::from_millis(250));
            ip(&pair.b.namespace, "link set rtwb up");
            thread::sleep(Duration::from_millis(300));
        });
        assert!(ran.managing.lost[0] > 30, "{paths:?}");
        assert!(
            u64::from(ran.managing.values[0]) + 30 > ran.controlled.polls,
            "{paths:?}: it came back"
        );
    }
}
