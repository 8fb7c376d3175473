//! Peer-to-peer real-time UDP beside best effort, in four set-ups, after the experiment that OSADL runs in its test
//! racks.
//!
//! A sends a datagram every 500 µs over a link of 100 Mbit/s, and B answers at once. Both also send 10 or 20 Mbit/s
//! of best effort in bursts of sixteen full frames:
//!
//! 1. no priority: one queue;
//! 2. VLAN priority: the real-time datagrams have PCP 5 and a queue of their own, which is served first;
//! 3. the same, with best effort limited to its rate, so that its frames come one by one;
//! 4. launch times: real-time datagrams leave at the start of each cycle and answers 100 µs later, held by ETF; best
//!    effort is launched after them.
//!
//! Needs 8021q, HTB and ETF, so it runs in the kernel lab, in virtual time: `scripts/vm bench osadl virtual`. It
//! exits with 1 if the four set-ups are not ordered as theory predicts, or if a bound does not hold. `--bound NS` is
//! the bound of `rtwire plan` for the round trip on the wire. The share of the software is measured before, without
//! the load of the experiment, and printed: see [`calibrate`]. `--cycles N` sets the number of cycles of each set-up.
//! `--own-rate RATE` sets the rate that HTB guarantees each class, to show its effect.
#![allow(clippy::unwrap_used)]

mod rows;

use rtwire_link::{Cycle, CycleConfig, LaunchMode, Sender, SenderConfig, TxPath};
use rtwire_measure::summary::nearest_rank;
use rtwire_sys::clock::{self, Clock, now_ns};
use rtwire_sys::{memory, sched};
use rtwire_testkit::{NetnsPair, Side, ip, tc};
use std::net::{SocketAddrV4, UdpSocket};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const CYCLE_NS: u64 = 500_000;
const ANSWER_NS: u64 = 100_000;
/// Launch time of best effort within a cycle: after the answer, and finished before the next cycle.
const BEST_EFFORT_NS: u64 = 250_000;
/// Bits of a full frame on the wire: 1472 bytes of data, UDP, IP, Ethernet and VLAN headers, FCS, preamble, gap.
const FULL_WIRE_BITS: u64 = (1472 + 28 + 18 + 24) * 8;
const FULL_DATA: usize = 1472;
const BURST: u64 = 16;
/// `SO_PRIORITY` values that name HTB's classes.
const BEST_EFFORT: u32 = 0x1_0010;
const REAL_TIME: u32 = 0x1_0011;
const LEAD_NS: u64 = 150_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SetUp {
    NoPriority,
    Priority,
    Limited,
    Launch,
}

impl SetUp {
    const ALL: [Self; 4] = [
        Self::NoPriority,
        Self::Priority,
        Self::Limited,
        Self::Launch,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::NoPriority => "no priority",
            Self::Priority => "VLAN priority",
            Self::Limited => "VLAN priority, best effort limited",
            Self::Launch => "launch times",
        }
    }

    const fn class(self) -> u32 {
        match self {
            Self::NoPriority => BEST_EFFORT,
            _ => REAL_TIME,
        }
    }

    const fn path(self) -> TxPath {
        match self {
            Self::Launch => TxPath::Launch(LaunchMode::Strict),
            _ => TxPath::Qdisc,
        }
    }
}

/// The cable and the settings common to all set-ups.
struct Rig {
    pair: NetnsPair,
    /// Rate that a class may send without borrowing, in the notation of `tc`.
    own_rate: String,
}

/// Load beside the real-time datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Load {
    /// No load.
    None,
    /// One full frame of best effort directly before each question and answer, from the same program.
    InFront,
    /// Best effort at this rate in each direction, in bit/s.
    Rate(u64),
}

impl Load {
    const fn bps(self) -> u64 {
        match self {
            Self::Rate(bps) => bps,
            _ => 0,
        }
    }
}

/// Round trips of one set-up under one load.
struct Outcome {
    set_up: SetUp,
    load_bps: u64,
    round_trips_ns: Vec<u64>,
    sent: u64,
    best_effort_frames: u64,
}

impl Outcome {
    fn at(&self, permille: u32) -> u64 {
        nearest_rank(&self.round_trips_ns, permille).unwrap_or(0)
    }

    fn lost(&self) -> u64 {
        self.sent - self.round_trips_ns.len() as u64
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)
    };
    let number = |name: &str| -> Option<u64> { value(name)?.parse().ok() };
    let cycles = number("--cycles").unwrap_or(2000);
    memory::lock_all().unwrap();
    let rig = Rig {
        pair: cable(),
        own_rate: value("--own-rate").map_or("8bit".to_owned(), Clone::clone),
    };
    let software_ns = calibrate(&rig, cycles / 4);
    let limit_ns = number("--bound").map(|bound_ns| bound_ns + software_ns);
    if let Some(limit_ns) = limit_ns {
        println!(
            "promised there and back with priorities: {:.1} µs",
            limit_ns as f64 / 1000.0
        );
    }
    println!(
        "{:<36} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8} {:>6}",
        "set-up", "Mbit/s", "min µs", "p50", "p99", "p99.9", "max", "lost"
    );
    let mut faults = Vec::new();
    for load_bps in [10_000_000, 20_000_000] {
        let outcomes = SetUp::ALL.map(|set_up| run(&rig, set_up, Load::Rate(load_bps), cycles));
        for outcome in &outcomes {
            show(outcome);
        }
        let max = outcomes.each_ref().map(|outcome| outcome.at(1000));
        let p99 = outcomes.each_ref().map(|outcome| outcome.at(990));
        let broken = judge(load_bps, max, p99);
        rows::print(&outcomes, limit_ns, &broken);
        faults.extend(broken);
        for outcome in &outcomes {
            if outcome.lost() > 0 {
                faults.push(format!(
                    "{}: {} lost",
                    outcome.set_up.name(),
                    outcome.lost()
                ));
            }
            let bounded = matches!(outcome.set_up, SetUp::Priority | SetUp::Limited);
            if let (true, Some(limit_ns)) = (bounded, limit_ns) {
                if outcome.at(1000) > limit_ns {
                    faults.push(format!(
                        "{}: {} ns is over the bound of {limit_ns} ns",
                        outcome.set_up.name(),
                        outcome.at(1000)
                    ));
                }
            }
        }
    }
    for fault in &faults {
        println!("not as theory says: {fault}");
    }
    ExitCode::from(u8::from(!faults.is_empty()))
}

/// Returns the time in ns that the software of both hosts adds to the wire's time for a round trip. It is measured
/// before the experiment on the same machine and link, without the load of the experiment, and never changed
/// afterwards.
///
/// It takes the larger of two measurements. One uses an empty link, where no frame waits on the wire. The other has
/// one full frame directly before each datagram. So it includes the link's own timer, which an empty link never
/// needs, and the reception of that frame. The wire's share of it, two full frames, is subtracted.
fn calibrate(rig: &Rig, cycles: u64) -> u64 {
    let empty_ns = run(rig, SetUp::Priority, Load::None, cycles).at(1000);
    let behind = run(rig, SetUp::Priority, Load::InFront, cycles).at(1000);
    let behind_ns = behind.saturating_sub(2 * FULL_WIRE_BITS * 10);
    println!(
        "software there and back, at most: {:.1} µs on an empty link, {:.1} µs behind a full frame each way",
        empty_ns as f64 / 1000.0,
        behind_ns as f64 / 1000.0
    );
    empty_ns.max(behind_ns)
}

/// Checks the slowest round trips against theory. The set-ups wait for: a burst; one frame in each direction; the
/// same; no frame. Chance decides which of two set-ups with the same bound has the slowest round trip, so these are
/// compared by p99.
fn judge(load_bps: u64, max: [u64; 4], p99: [u64; 4]) -> Vec<String> {
    let [none, priority, _, launch] = max;
    let frame_ns = FULL_WIRE_BITS * 10;
    let mut faults = Vec::new();
    let mut must = |holds: bool, text: &str| {
        if !holds {
            faults.push(format!(
                "{text}, at {load_bps} bit/s: slowest {max:?} ns, p99 {p99:?} ns"
            ));
        }
    };
    must(
        none > 2 * priority,
        "priority halves the slowest round trip at least",
    );
    must(
        none > (BURST / 2) * frame_ns,
        "without priority a burst is in the way",
    );
    must(
        p99[2] <= p99[1] + frame_ns / 10,
        "limiting best effort does not harm",
    );
    must(launch < priority, "launch times beat priority");
    must(
        launch < ANSWER_NS + frame_ns / 2,
        "nothing is in the way of a launch",
    );
    faults
}

fn show(outcome: &Outcome) {
    let us = |ns: u64| format!("{:.1}", ns as f64 / 1000.0);
    println!(
        "{:<36} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8} {:>6}",
        outcome.set_up.name(),
        outcome.load_bps / 1_000_000,
        us(outcome.at(0)),
        us(outcome.at(500)),
        us(outcome.at(990)),
        us(outcome.at(999)),
        us(outcome.at(1000)),
        outcome.lost()
    );
    let name = outcome.set_up.name().replace(", ", "_").replace(' ', "_");
    for (what, value) in [
        ("min", outcome.at(0)),
        ("p50", outcome.at(500)),
        ("p99", outcome.at(990)),
        ("max", outcome.at(1000)),
    ] {
        let load = outcome.load_bps / 1_000_000;
        println!("@@ value osadl/{name}/{load}M/{what} {value} ns");
    }
    assert!(outcome.load_bps == 0 || outcome.best_effort_frames > 0);
}

fn address(last: u8) -> SocketAddrV4 {
    SocketAddrV4::new([10, 78, 0, last].into(), 5000)
}

/// Creates VLAN 5 on a pair's cable; real-time frames have PCP 5.
fn cable() -> NetnsPair {
    let pair = NetnsPair::new();
    for (side, own, other) in [(&pair.a, 1, 2), (&pair.b, 2, 1)] {
        let interface = &side.interface;
        for command in [
            format!(
                "link add link {interface} name v5 type vlan id 5 egress-qos-map {REAL_TIME}:5"
            ),
            format!("addr add 10.78.0.{own}/24 dev v5"),
            "link set v5 up".to_owned(),
            format!(
                "neigh add 10.78.0.{other} lladdr 02:00:00:00:00:0{other} dev v5 nud permanent"
            ),
        ] {
            ip(&side.namespace, &command);
        }
    }
    pair
}

/// Sets up a link of 100 Mbit/s with two classes, the most urgent served first.
fn queues(side: &Side, set_up: SetUp, load_bps: u64, own: &str) {
    let dev = format!("dev {}", side.interface);
    let _ = Command::new("tc")
        .args(["-n", &side.namespace, "qdisc", "del", "dev"])
        .args([&side.interface, "root"])
        .output();
    let ceil = if set_up == SetUp::Limited && load_bps > 0 {
        // A little above the offered load, or the queue would grow for ever. Without credit the frames come one by
        // one.
        load_bps + load_bps / 10
    } else {
        100_000_000
    };
    // No credit: each frame occupies the link for its whole time, as on a cable. And next to no guaranteed rate: HTB
    // serves a class within its own rate before all classes that borrow, whatever their priority.
    let one = "burst 1 cburst 1 overhead 24 quantum 1600";
    tc(
        &side.namespace,
        &format!("qdisc add {dev} root handle 1: htb default 10"),
    );
    tc(
        &side.namespace,
        &format!("class add {dev} parent 1: classid 1:1 htb rate 100mbit ceil 100mbit {one}"),
    );
    for (class, ceil) in [("10", ceil), ("11", 100_000_000)] {
        let priority = if class == "10" { 7 } else { 0 };
        tc(
            &side.namespace,
            &format!(
                "class add {dev} parent 1:1 classid 1:{class} htb rate {own} ceil {ceil} prio {priority} {one}"
            ),
        );
    }
    if set_up == SetUp::Launch {
        for class in ["10", "11"] {
            tc(
                &side.namespace,
                &format!("qdisc add {dev} parent 1:{class} etf clockid CLOCK_TAI delta 30000"),
            );
        }
    }
}

fn sender(side: &Side, set_up: SetUp, class: u32, to: SocketAddrV4) -> Sender {
    let config = SenderConfig {
        path: set_up.path(),
        priority: class,
        ..SenderConfig::new("v5")
    };
    side.run(|| Sender::datagrams(&config, to).unwrap())
}

fn receiver(side: &Side, at: SocketAddrV4) -> UdpSocket {
    let socket = side.run(|| UdpSocket::bind(at).unwrap());
    socket
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    socket
}

fn run(rig: &Rig, set_up: SetUp, load: Load, cycles: u64) -> Outcome {
    let (pair, load_bps) = (&rig.pair, load.bps());
    for side in [&pair.a, &pair.b] {
        queues(side, set_up, load_bps, &rig.own_rate);
    }
    let first_ns = (now_ns(Clock::Tai) / CYCLE_NS + 40) * CYCLE_NS;
    let (stop, sending) = (AtomicBool::new(false), AtomicBool::new(true));
    let (a, b) = (receiver(&pair.a, address(1)), receiver(&pair.b, address(2)));
    thread::scope(|scope| {
        let (stop, sending) = (&stop, &sending);
        // Other traffic to the peer, in the best-effort class.
        let other = |side: &Side, last: u8| {
            let to = SocketAddrV4::new([10, 78, 0, last].into(), 9);
            sender(side, set_up, BEST_EFFORT, to)
        };
        let loads = (load_bps > 0).then(|| {
            [other(&pair.a, 2), other(&pair.b, 1)].map(|sender| {
                scope.spawn(move || best_effort(sender, set_up, load_bps, first_ns, stop))
            })
        });
        let in_front = |side: &Side, last: u8| (load == Load::InFront).then(|| other(side, last));
        let (mut before_a, mut before_b) = (in_front(&pair.a, 2), in_front(&pair.b, 1));
        let mut back = sender(&pair.b, set_up, set_up.class(), address(1));
        scope.spawn(move || {
            sched::set_fifo(79).unwrap();
            let mut data = [0; 64];
            while !stop.load(Ordering::Relaxed) {
                if b.recv(&mut data).is_ok_and(|octets| octets == 64) {
                    let start_ns = u64::from_ne_bytes([
                        data[0], data[1], data[2], data[3], data[4], data[5], data[6], data[7],
                    ]);
                    if let Some(sender) = &mut before_b {
                        let _ = sender.send(&[0; FULL_DATA]);
                    }
                    let _ = match set_up {
                        SetUp::Launch => back.send_at(&data, start_ns + ANSWER_NS),
                        _ => back.send(&data),
                    };
                }
            }
        });
        let answers = scope.spawn(move || {
            sched::set_fifo(78).unwrap();
            let mut data = [0; 64];
            let mut round_trips_ns = Vec::with_capacity(1 << 16);
            while !stop.load(Ordering::Relaxed) {
                if a.recv(&mut data).is_ok_and(|octets| octets == 64) {
                    let now = now_ns(Clock::Tai);
                    let start_ns = u64::from_ne_bytes([
                        data[0], data[1], data[2], data[3], data[4], data[5], data[6], data[7],
                    ]);
                    round_trips_ns.push(now - start_ns);
                }
            }
            round_trips_ns
        });
        let mut out = sender(&pair.a, set_up, set_up.class(), address(2));
        let asking = scope.spawn(move || {
            sched::set_fifo(80).unwrap();
            let lead_ns = if set_up == SetUp::Launch { LEAD_NS } else { 0 };
            let mut cycle = Cycle::new(CycleConfig {
                clock: Clock::Tai,
                period_ns: CYCLE_NS,
                epoch_ns: first_ns - lead_ns,
                spin_ns: 0,
            });
            let mut data = [0; 64];
            for _ in 0..cycles {
                let launch_ns = cycle.wait().unwrap().instant_ns + lead_ns;
                let start_ns = if lead_ns > 0 {
                    launch_ns
                } else {
                    now_ns(Clock::Tai)
                };
                data[..8].copy_from_slice(&start_ns.to_ne_bytes());
                if let Some(sender) = &mut before_a {
                    let _ = sender.send(&[0; FULL_DATA]);
                }
                let _ = if lead_ns > 0 {
                    out.send_at(&data, launch_ns)
                } else {
                    out.send(&data)
                };
            }
            sending.store(false, Ordering::Relaxed);
        });
        asking.join().unwrap();
        // Datagrams behind a burst may take a while.
        thread::sleep(Duration::from_millis(150));
        stop.store(true, Ordering::Relaxed);
        let best_effort_frames = loads.map_or(0, |loads| {
            loads.into_iter().map(|load| load.join().unwrap()).sum()
        });
        let mut round_trips_ns = answers.join().unwrap();
        round_trips_ns.sort_unstable();
        Outcome {
            set_up,
            load_bps,
            round_trips_ns,
            sent: cycles,
            best_effort_frames,
        }
    })
}

/// Sends full frames at a rate: in bursts, or with launch times one in each cycle that has room for it.
fn best_effort(
    mut sender: Sender,
    set_up: SetUp,
    load_bps: u64,
    first_ns: u64,
    stop: &AtomicBool,
) -> u64 {
    let frame_ns = FULL_WIRE_BITS * 1_000_000_000 / load_bps;
    let data = [0; FULL_DATA];
    let mut frames = 0;
    while !stop.load(Ordering::Relaxed) {
        let due = first_ns + frames * frame_ns;
        if set_up == SetUp::Launch {
            let launch_ns = (due / CYCLE_NS + 1) * CYCLE_NS + BEST_EFFORT_NS;
            let _ = clock::sleep_until(Clock::Tai, launch_ns - 2 * LEAD_NS);
            let _ = sender.send_at(&data, launch_ns);
            frames += 1;
        } else {
            // Not a whole number of cycles: bursts meet the datagrams at every phase.
            let _ = clock::sleep_until(Clock::Tai, due + 1_234);
            for _ in 0..BURST {
                let _ = sender.send(&data);
            }
            frames += BURST;
        }
    }
    frames
}
