//! The replay of one port beside ports of the kernel: HTB with strict priority, and TBF, at 10 Mbit/s on a cable between
//! two namespaces. The kernel's own timestamps say when each frame entered the queue and when it left.
//!
//! A frame takes 1.2 ms, so the noise of a machine is small beside it. Every frame has the same size, so the n-th to leave
//! can be compared with the ideal n-th whatever a stall has done to the order.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::time::{Duration, Instant};

use rtwire_sim::replay::{self, Entry, Exit};
use rtwire_sys::interface;
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::stamps::{TxReport, TxStampKind, TxStampReader, TxStamping};
use rtwire_testkit::{NetnsPair, Side, require, tc};

const RATE_BPS: u64 = 10_000_000;
/// Header and payload; 24 B more on the wire.
const FRAME_BYTES: usize = 1476;
const WIRE_BYTES: u32 = 1500;
/// The number of bursts without a stall that are wanted, and the most that are sent for them.
const CALM_BURSTS: usize = 20;
const MOST_BURSTS: usize = 400;
/// The distance from the ideal time that the best of all bursts may have, ns.
const MARGIN_NS: i128 = 100_000;
/// The distance within which every frame of a burst must be, so that its order must be the ideal one, ns.
const CALM_NS: i128 = 300_000;
/// The kernel counts a bucket in steps of 64 ns, a time in whole ns.
const STEP_NS: i128 = 200;

/// Time after the first frame of a burst, µs, and the class.
type Plan = [(u64, u8)];

/// One frame of a burst: its entry into the queue, and the time at which it left, ns.
struct Passed {
    entry: Entry,
    left_ns: u64,
}

/// Sockets that send into each class, with the readers of their timestamps.
struct Bench {
    sockets: Vec<(PacketSocket, TxStampReader)>,
    frame: Vec<u8>,
}

impl Bench {
    fn open(side: &Side, priorities: &[u32]) -> Bench {
        let interface = interface::by_name(&side.interface).unwrap();
        let sockets = priorities.iter().map(|priority| {
            let socket = PacketSocket::sender(&interface).unwrap();
            socket.set_priority(*priority).unwrap();
            let both = TxStamping {
                queue: true,
                driver: true,
                card: false,
            };
            let stamps = socket.enable_tx_stamps(both).unwrap();
            (socket, stamps)
        });
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
        frame.resize(FRAME_BYTES, 0);
        Bench {
            sockets: sockets.collect(),
            frame,
        }
    }

    /// Sends a burst and waits until every frame has left. `sent` counts the frames of each class so far.
    fn burst(&mut self, plan: &Plan, sent: &mut [u32]) -> Vec<Passed> {
        let first = sent.to_vec();
        let start = Instant::now();
        for (at_us, class) in plan {
            while start.elapsed() < Duration::from_micros(*at_us) {
                std::hint::spin_loop();
            }
            self.sockets[usize::from(*class)]
                .0
                .send(&self.frame)
                .unwrap();
            sent[usize::from(*class)] += 1;
        }
        let mut passed = Vec::new();
        for (class, (_, stamps)) in self.sockets.iter_mut().enumerate() {
            let (first, count) = (first[class], (sent[class] - first[class]) as usize);
            let mut times = vec![(None, None); count];
            while times.iter().any(|it| it.0.is_none() || it.1.is_none()) {
                assert!(
                    stamps.wait(Duration::from_secs(10)).unwrap(),
                    "a frame or its timestamp is lost"
                );
                stamps
                    .read(|report| {
                        if let TxReport::Stamp(stamp) = report {
                            let time = &mut times[(stamp.id - first) as usize];
                            match stamp.kind {
                                TxStampKind::Queue => time.0 = Some(stamp.time_ns),
                                TxStampKind::Driver => time.1 = Some(stamp.time_ns),
                                TxStampKind::Card => unreachable!("not asked for"),
                            }
                        }
                    })
                    .unwrap();
            }
            passed.extend(times.into_iter().map(|(entered, left)| Passed {
                entry: Entry {
                    at_ns: entered.unwrap(),
                    class: class as u8,
                    wire_bytes: WIRE_BYTES,
                },
                left_ns: left.unwrap(),
            }));
        }
        passed.sort_by_key(|it| it.left_ns);
        passed
    }
}

/// Returns the ideal beginnings of a burst's frames in their ideal order, ns, and the ideal places of its frames.
fn ideal(burst: &[Passed], classes: u8) -> (Vec<u64>, Vec<u32>) {
    let entries: Vec<Entry> = burst.iter().map(|it| it.entry).collect();
    let exits: Vec<Exit> = replay::port(RATE_BPS, classes, &entries).unwrap();
    let mut begins = vec![0; burst.len()];
    for (entry, exit) in entries.iter().zip(&exits) {
        begins[exit.place as usize] = entry.at_ns + exit.begins_ps / 1000;
    }
    (begins, exits.iter().map(|exit| exit.place).collect())
}

/// Sends bursts through a port that may be ahead of the ideal one by `ahead_ns`, and compares each with the replay.
fn compare(bench: &mut Bench, plan: &Plan, ahead_ns: i128) {
    let classes = bench.sockets.len() as u8;
    let mut sent = vec![0; bench.sockets.len()];
    // A class of HTB has a byte of its own at first, with which its first frame may pass any other.
    let all: Vec<(u64, u8)> = (0..classes).map(|class| (0, class)).collect();
    bench.burst(&all, &mut sent);
    let mut best = vec![i128::MAX; plan.len()];
    let mut calm = 0;
    let mut burst = 0;
    while calm < CALM_BURSTS && burst < MOST_BURSTS {
        burst += 1;
        // The bucket fills: this is a part of the scenario, not a wait for a state.
        std::thread::sleep(Duration::from_millis(4));
        let passed = bench.burst(plan, &mut sent);
        let (begins, places) = ideal(&passed, classes);
        let off_ns: Vec<i128> = passed
            .iter()
            .zip(&begins)
            .map(|(it, begin)| i128::from(it.left_ns) - i128::from(*begin))
            .collect();
        for (place, off_ns) in off_ns.iter().enumerate() {
            assert!(
                *off_ns >= -ahead_ns - STEP_NS,
                "burst {burst}: frame {place} left {off_ns} ns after its ideal time, credit {ahead_ns} ns"
            );
            best[place] = best[place].min(*off_ns);
        }
        let first = passed.iter().map(|it| it.entry.at_ns).min().unwrap();
        let punctual = plan.iter().all(|(at_us, class)| {
            let due = first + at_us * 1000;
            let near =
                |it: &&Passed| it.entry.class == *class && it.entry.at_ns.abs_diff(due) < 300_000;
            let wanted = plan.iter().filter(|it| *it == &(*at_us, *class)).count();
            passed.iter().filter(near).count() >= wanted
        });
        if punctual && off_ns.iter().all(|off_ns| *off_ns < CALM_NS) {
            calm += 1;
            let order: Vec<u32> = (0..).take(plan.len()).collect();
            assert_eq!(places, order, "burst {burst}: frames left in another order");
        }
    }
    println!("{calm} of {burst} bursts without a stall; best distances {best:?} ns");
    assert!(
        calm == CALM_BURSTS,
        "only {calm} of {burst} bursts could be judged: this machine stalls too much"
    );
    for (place, off_ns) in best.into_iter().enumerate() {
        // The first frame finds an idle port; the credit lets the others go ahead.
        let wanted_ns = if place == 0 { 0 } else { -ahead_ns };
        assert!(
            off_ns <= wanted_ns + MARGIN_NS,
            "frame {place} left at best {off_ns} ns after its ideal time, {wanted_ns} ns expected"
        );
    }
}

#[test]
fn htb_sends_by_priority_as_the_replay_does() {
    require!(root, program "ip", program "tc");
    let pair = NetnsPair::new();
    let side = &pair.a;
    // 250 B of credit are 200 µs. A class's own rate is a byte a second, so all borrow from their parent.
    for arguments in [
        "qdisc add dev rtwa root handle 1: htb default 10",
        "class add dev rtwa parent 1: classid 1:1 htb rate 10mbit ceil 10mbit burst 250b cburst 250b overhead 24",
        "class add dev rtwa parent 1:1 classid 1:10 htb rate 8bit ceil 10gbit burst 1b prio 1",
        "class add dev rtwa parent 1:1 classid 1:11 htb rate 8bit ceil 10gbit burst 1b prio 0",
    ] {
        tc(&side.namespace, arguments);
    }
    // Less urgent ones first. At 2.9 ms, between two beginnings, two urgent ones come late.
    let plan = [
        (0, 0),
        (0, 0),
        (0, 0),
        (0, 1),
        (0, 0),
        (0, 1),
        (2900, 1),
        (2900, 1),
    ];
    side.run(|| {
        compare(
            &mut Bench::open(side, &[0x1_0010, 0x1_0011]),
            &plan,
            200_000,
        )
    });
}

#[test]
fn tbf_sends_in_order_as_the_replay_does() {
    require!(root, program "ip", program "tc");
    let pair = NetnsPair::new();
    let side = &pair.a;
    // The kernel counts the overhead in the burst, too. So the bucket has 524 B more than a frame: 419.2 µs.
    tc(
        &side.namespace,
        "qdisc add dev rtwa root tbf rate 10mbit burst 2000b limit 100kb overhead 24",
    );
    let plan = [(0, 0), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0), (2900, 0)];
    side.run(|| compare(&mut Bench::open(side, &[0]), &plan, 419_200));
}
