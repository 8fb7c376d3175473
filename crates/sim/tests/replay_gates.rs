//! The replay of a gated port beside TAPRIO of the kernel, and a gate that is 5 µs late. The kernel's own timestamps say when each
//! frame entered the queue and when it left.
//!
//! On a machine whose timers are late by more than that, nobody could tell: it runs in the kernel lab, in virtual time.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::time::Duration;

use rtwire_plan::{Options, Plan, plan, read};
use rtwire_sim::replay::{Departure, Fate, Replay};
use rtwire_sys::clock::{Clock, now_ns, sleep_until};
use rtwire_sys::interface;
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::stamps::{TxReport, TxStampKind, TxStampReader, TxStamping};
use rtwire_testkit::{NetnsPair, require, tc};

/// One window for each class is some hundred µs: TAPRIO of the kernel drops out of windows that are shorter than its timers
/// are late.
const NETWORK: &str = r#"
[network]
name = "a gated port"
[defaults]
link-rate = "10 Gbit/s"
tick-error = "50 us"
clock-error = "0 ns"
[[gate-profile]]
name = "software"
entries = 64
minimum-window = "300 us"
[[host]]
name = "A"
gates = "software"
queues = 4
[[host]]
name = "B"
[[link]]
ends = ["A", "B"]
[[stream]]
name = "timed"
talker = "A"
listeners = ["B"]
payload = "64 B"
interval = "2 ms"
priority = 7
schedule = "time-triggered"
[[stream]]
name = "other"
talker = "A"
listeners = ["B"]
frame = "1514 B"
rate = "5 Mbit/s"
priority = 2
"#;
const CYCLE_NS: u64 = 2_000_000;
/// The socket priority of each stream, its queue, and its frame's length without FCS.
const STREAMS: [(u32, u8, usize); 2] = [(7, 3, 14 + 16 + 64), (2, 1, 1_514)];
/// The number of frames of each stream.
const FRAMES: u64 = 150;
/// The distance of two frames: every phase of the cycle is met, and no frame waits for another.
const APART_NS: u64 = 7 * CYCLE_NS + 13_300;
/// The longest time from an open gate to the frame's departure, in virtual time: the timer's interrupt and the thread that sends.
const TAKES_NS: i64 = 60_000;
/// The largest difference of these times among frames that waited for their gate: less than the lateness that must be found.
/// Linux 6.12 has 1.7 µs, 6.1 has 3.6 µs.
const SPREAD_NS: i64 = 4_500;
const LATE_NS: u64 = 5_000;

/// A frame that passed: its time beyond the ideal one, ns, and true if the gate was closed when it came.
type Passed = (i64, bool);

fn planned() -> Plan {
    let network = read(NETWORK, "gated.toml", &[]).unwrap();
    plan(&network, &Options::default()).unwrap()
}

/// Sets the plan's gates at A's interface, `late_ns` later than planned.
fn set_gates(pair: &NetnsPair, plan: &Plan, late_ns: u64) {
    let port = plan.ports.iter().find(|port| port.node == "A").unwrap();
    let gates = port.gates.as_ref().unwrap();
    let entries: String = gates
        .entries
        .iter()
        .map(|entry| format!(" sched-entry S {:02x} {}", entry.gates, entry.duration_ns))
        .collect();
    let base_ns = gates.base_offset_ns + late_ns;
    tc(
        &pair.a.namespace,
        &format!(
            "qdisc replace dev rtwa root handle 100: taprio num_tc 4 map 0 0 1 1 2 2 3 3 0 0 0 0 0 0 0 0 \
             queues 1@0 1@1 1@2 1@3 base-time {base_ns}{entries} flags 0x0 clockid CLOCK_TAI"
        ),
    );
}

/// Returns true if the gate of a queue closes within `within_ns` of a time, ns of CLOCK_TAI.
fn closes_soon(plan: &Plan, queue: u8, at_ns: u64, within_ns: u64) -> bool {
    let port = plan.ports.iter().find(|port| port.node == "A").unwrap();
    let gates = port.gates.as_ref().unwrap();
    let open = |at_ns: u64| {
        let mut phase = (at_ns + gates.cycle_ns - gates.base_offset_ns) % gates.cycle_ns;
        gates.entries.iter().find_map(|entry| {
            let here = phase < entry.duration_ns;
            phase = phase.saturating_sub(entry.duration_ns);
            here.then_some(entry.gates & (1 << queue) != 0)
        })
    };
    !open(at_ns + within_ns).unwrap()
}

/// Returns the times at which a frame entered the queue and left it, ns of CLOCK_TAI.
fn stamps_of(stamps: &mut TxStampReader, id: u32, offset_ns: u64) -> (u64, u64) {
    let mut times = (None, None);
    while times.0.is_none() || times.1.is_none() {
        let came = stamps.wait(Duration::from_secs(5)).unwrap();
        assert!(came, "frame {id} never left, or its timestamp is lost");
        stamps
            .read(|report| {
                if let TxReport::Stamp(stamp) = report {
                    assert_eq!(stamp.id, id);
                    match stamp.kind {
                        TxStampKind::Queue => times.0 = Some(stamp.time_ns + offset_ns),
                        TxStampKind::Driver => times.1 = Some(stamp.time_ns + offset_ns),
                        TxStampKind::Card => unreachable!("not asked for"),
                    }
                }
            })
            .unwrap();
    }
    (times.0.unwrap(), times.1.unwrap())
}

/// Sends frames of both streams at all phases of the cycle, and compares each with the replay of the plan.
fn passed(pair: &NetnsPair, plan: &Plan) -> Vec<Passed> {
    let offset_ns = now_ns(Clock::Tai).saturating_sub(now_ns(Clock::Realtime));
    let offset_ns = (offset_ns + 500_000_000) / 1_000_000_000 * 1_000_000_000;
    let (departures, left) = pair.a.run(|| {
        let interface = interface::by_name("rtwa").unwrap();
        let both = TxStamping {
            queue: true,
            driver: true,
            card: false,
        };
        let mut ends = STREAMS.map(|(priority, _, bytes)| {
            let socket = PacketSocket::sender(&interface).unwrap();
            socket.set_priority(priority).unwrap();
            let stamps = socket.enable_tx_stamps(both).unwrap();
            let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
            frame.resize(bytes, 0);
            (socket, stamps, frame)
        });
        // The list that was set begins at the next cycle.
        let mut due_ns = now_ns(Clock::Tai) / CYCLE_NS * CYCLE_NS + 10 * CYCLE_NS;
        let (mut departures, mut left) = (Vec::new(), Vec::new());
        for frame in 0..FRAMES {
            for (flow, (socket, stamps, bytes)) in ends.iter_mut().enumerate() {
                let _ = sleep_until(Clock::Tai, due_ns);
                socket.send(bytes).unwrap();
                let id = u32::try_from(frame).unwrap();
                let (entered_ns, left_ns) = stamps_of(stamps, id, offset_ns);
                departures.push(Departure {
                    flow,
                    frame,
                    at_ns: entered_ns,
                    wire_bytes: None,
                });
                left.push(left_ns);
                due_ns += APART_NS;
            }
        }
        (departures, left)
    });
    let replayed = Replay::new(&plan.network, plan)
        .unwrap()
        .run(&departures)
        .unwrap();
    let compared = departures
        .iter()
        .zip(&left)
        .filter_map(|(departure, left_ns)| {
            let listener = replayed.at(departure.flow, "B").unwrap();
            let frame = &listener.frames[usize::try_from(departure.frame).unwrap()];
            assert_eq!(frame.frame, departure.frame);
            let Fate::Arrives { most_ns, .. } = frame.fate else {
                panic!("{frame:?}");
            };
            let wire_bytes = plan.network.streams[departure.flow].wire_bytes;
            // 10 Gbit/s: 0.8 ns for each byte; the delay is rounded up.
            let waits_ns =
                i64::try_from(most_ns).unwrap() - i64::try_from(wire_bytes * 8 / 10).unwrap();
            let begins_ns = i64::try_from(departure.at_ns).unwrap() + waits_ns;
            // The kernel takes its time. What comes just before the gate closes may wait for the next cycle.
            let queue = STREAMS[departure.flow].1;
            let at_ns = u64::try_from(begins_ns).unwrap();
            let judged = !closes_soon(plan, queue, at_ns, TAKES_NS as u64);
            judged.then_some((i64::try_from(*left_ns).unwrap() - begins_ns, waits_ns > 5))
        });
    compared.collect()
}

/// Returns the least and the largest of the times of frames that waited for their gate. One that left earlier than it should
/// came when a gate that is late was not closed yet.
fn waited(passed: &[Passed]) -> (i64, i64) {
    let waited: Vec<i64> = passed
        .iter()
        .filter(|it| it.1 && it.0 >= 0)
        .map(|it| it.0)
        .collect();
    assert!(
        waited.len() * 4 > passed.len() && waited.len() < passed.len(),
        "{} of {} frames waited",
        waited.len(),
        passed.len()
    );
    (*waited.iter().min().unwrap(), *waited.iter().max().unwrap())
}

#[test]
#[ignore = "needs sch_taprio and exact timers: runs in the kernel lab, in virtual time"]
fn taprio_opens_its_gates_as_the_replay_does_and_one_that_is_late_is_found() {
    require!(root, program "ip", program "tc");
    let pair = NetnsPair::new();
    rtwire_testkit::ip(&pair.a.namespace, "link del rtwa");
    rtwire_testkit::ip(
        &pair.a.namespace,
        &format!(
            "link add rtwa numtxqueues 4 numrxqueues 4 type veth peer name rtwb netns {} numtxqueues 4 numrxqueues 4",
            pair.b.namespace
        ),
    );
    rtwire_testkit::ip(&pair.b.namespace, "link set rtwb up");
    rtwire_testkit::ip(&pair.a.namespace, "link set rtwa up");
    let plan = planned();
    set_gates(&pair, &plan, 0);
    let as_planned = passed(&pair, &plan);
    let off = || as_planned.iter().map(|it| it.0);
    let (least, most) = (off().min().unwrap(), off().max().unwrap());
    assert!(
        least >= 0,
        "a frame left {least} ns from its ideal time: before the gate that the plan has"
    );
    assert!(
        most < TAKES_NS,
        "a frame left {most} ns after its ideal time"
    );
    let (soonest, latest) = waited(&as_planned);
    assert!(
        latest - soonest < SPREAD_NS,
        "from the gate to the departure: {soonest} to {latest} ns"
    );
    tc(&pair.a.namespace, "qdisc del dev rtwa root");
    set_gates(&pair, &plan, LATE_NS);
    let late = waited(&passed(&pair, &plan));
    println!(
        "@@ note from the gate to the departure {soonest} to {latest} ns; of gates that are {LATE_NS} ns late {late:?}"
    );
    // What no frame of an exact gate takes: each one shows it.
    assert!(
        late.0 > latest,
        "gates that are {LATE_NS} ns late: {late:?}, exact ones {soonest} to {latest} ns"
    );
    let shift_ns = late.0 - soonest;
    assert!(
        shift_ns.abs_diff(LATE_NS as i64) < SPREAD_NS as u64,
        "the gates are late by {shift_ns} ns"
    );
}
