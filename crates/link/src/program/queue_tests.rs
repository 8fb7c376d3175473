//! Tests of queue channels, by test runs.

use super::test_bench::{Bench, Build, DROP, PASS, PEER, build};
use super::*;
use crate::{LinkError, WakeUp};
use rtwire_sys::bpf::queue::{PLACE_WORDS, Queue};
use rtwire_testkit::require;
use rtwire_wire::rtdip::Semantics;
use rtwire_wire::{Pcp, VlanTag};
use std::time::Duration;

pub(super) fn message(port: u16, priority: u8, sequence: u32) -> Build {
    let mut build = build(port, sequence);
    build.header.semantics = Semantics::Queue;
    build.header.priority = Pcp::new(priority).unwrap();
    build
}

fn config(frames: usize) -> QueueConfig {
    QueueConfig {
        frames,
        wake_up: WakeUp::Spin,
        ..QueueConfig::default()
    }
}

fn sequences(queue: &mut QueueChannel, limit: usize) -> Vec<u32> {
    let mut found = Vec::new();
    queue.take(limit, |frame| found.push(frame.sequence));
    found
}

#[test]
fn every_frame_lies_in_its_place() {
    require!(root);
    let mut bench = Bench::new();
    let mut queue = bench
        .program
        .queue_without_interface(1001, 7, &config(4))
        .unwrap();
    assert!(!queue.look() && queue.peek().is_none());
    let lengths = [0, 1, 15, 16, 17, 64, 333, 1024, 1450, 1476];
    for (number, length) in (10..).zip(lengths) {
        for vlan in [None, VlanTag::new(Pcp::HIGHEST, 9)] {
            let mut build = message(1001, 5, number);
            build.vlan = vlan;
            build.header.time_ns = vlan.map(|_| 123_456);
            let data: Vec<u8> = (0..length).map(|at| (at * 7) as u8).collect();
            assert_eq!(bench.run(&build.frame(&data)), DROP);
            assert!(queue.wait(Some(Duration::ZERO)).unwrap());
            let frame = queue.peek().unwrap();
            assert_eq!(frame.data, data);
            assert_eq!(
                (frame.sequence, frame.source, frame.source_port),
                (number, PEER, build.header.source_port)
            );
            assert_eq!(
                (frame.priority, frame.sender_time_ns),
                (5, build.header.time_ns)
            );
            assert!(frame.arrival_ns.is_some());
            queue.release();
            assert!(!queue.look());
        }
    }
    assert_eq!(queue.counters().accepted, 2 * lengths.len() as u64);
    // More data than there is room for; another key; other semantics.
    bench.run(&message(1001, 0, 1).frame(&[0; 1489]));
    let mut wrong = message(1001, 0, 1);
    wrong.header.key = 8;
    bench.run(&wrong.frame(&[0]));
    bench.run(&build(1001, 1).frame(&[0]));
    let counters = queue.counters();
    assert_eq!(
        (
            counters.oversize,
            counters.wrong_key,
            counters.wrong_semantics
        ),
        (1, 1, 1)
    );
    assert!(!queue.look());
    drop(queue);
    assert_eq!(
        bench.run(&message(1001, 5, 1).frame(&[0])),
        PASS,
        "to Linux when it is closed"
    );
}

#[test]
fn the_most_urgent_is_first_and_what_is_held_stays() {
    require!(root);
    let mut bench = Bench::new();
    let mut queue = bench
        .program
        .queue_without_interface(1001, 7, &config(64))
        .unwrap();
    for sequence in 0..16 {
        bench.run(&message(1001, (sequence % 4) as u8, sequence).frame(&[0]));
    }
    assert_eq!(sequences(&mut queue, 5), [3, 7, 11, 15, 2]);
    assert!(queue.look());
    bench.run(&message(1001, 7, 99).frame(&[0]));
    assert_eq!(queue.peek().unwrap().sequence, 6, "the one looked at");
    queue.release();
    assert_eq!(
        sequences(&mut queue, 99),
        [99, 10, 14, 1, 5, 9, 13, 0, 4, 8, 12]
    );
    drop(queue);

    let arrival = QueueConfig {
        by_priority: false,
        stamps: false,
        ..config(64)
    };
    let mut queue = bench
        .program
        .queue_without_interface(1001, 7, &arrival)
        .unwrap();
    for sequence in 0..8 {
        bench.run(&message(1001, (7 - sequence) as u8, sequence).frame(&[0]));
    }
    assert!(queue.look());
    assert_eq!(queue.peek().unwrap().arrival_ns, None);
    assert_eq!(sequences(&mut queue, 99), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn a_full_ring_loses_its_own_frames_only() {
    require!(root);
    let mut bench = Bench::new();
    let open = |port| {
        bench
            .program
            .queue_without_interface(port, 7, &config(8))
            .unwrap()
    };
    let (mut slow, mut other) = (open(1001), open(1002));
    for sequence in 0..20 {
        bench.run(&message(1001, 1, sequence).frame(&[1]));
        bench.run(&message(1002, 1, sequence).frame(&[2]));
        assert_eq!(sequences(&mut other, 9), [sequence]);
    }
    bench.run(&message(1001, 6, 77).frame(&[1]));
    assert_eq!((slow.full(), other.full()), (12, 0));
    assert_eq!(slow.counters().accepted, 9);
    assert_eq!(
        sequences(&mut slow, 99),
        [77, 0, 1, 2, 3, 4, 5, 6, 7],
        "another priority has its own room"
    );
    // It goes on, many times around the ring.
    for sequence in 100..200 {
        bench.run(&message(1001, 1, sequence).frame(&[1]));
        if sequence % 5 == 4 {
            let expected: Vec<u32> = (sequence - 4..=sequence).collect();
            assert_eq!(sequences(&mut slow, 99), expected);
        }
    }
    assert_eq!(slow.full(), 12);
}

#[test]
fn only_the_first_frame_wakes_a_sleeper() {
    require!(root);
    let mut bench = Bench::new();
    for (wake_up, woken) in [(WakeUp::Block, PASS), (WakeUp::Spin, DROP)] {
        let config = QueueConfig {
            wake_up,
            ..config(8)
        };
        let mut queue = bench
            .program
            .queue_without_interface(1001, 7, &config)
            .unwrap();
        let frame = message(1001, 1, 5).frame(&[1]);
        assert_eq!(bench.run(&frame), DROP, "nobody sleeps");
        assert!(queue.queue.look_or_sleep(), "what is there is taken first");
        queue.release();
        assert!(!queue.queue.look_or_sleep());
        assert_eq!(bench.run(&frame), woken, "{wake_up:?}");
        assert_eq!(bench.run(&frame), DROP, "it is awake now");
        assert_eq!(
            queue.take(9, |_| ()),
            2,
            "the one that woke it is there, too"
        );
        assert!(!queue.queue.look_or_sleep());
        queue.queue.awake();
        assert_eq!(bench.run(&frame), DROP);
    }
}

#[test]
fn police_is_before_the_copy() {
    require!(root);
    let mut bench = Bench::new();
    let mut queue = bench
        .program
        .queue_without_interface(1001, 7, &config(64))
        .unwrap();
    queue.police(Some(&Police::new(100, 10 * 84 * 8))).unwrap();
    for sequence in 0..20 {
        bench.run(&message(1001, 1, sequence).frame(&[1]));
    }
    let counters = queue.counters();
    assert_eq!(
        (counters.accepted, counters.policed, queue.full()),
        (10, 10, 0)
    );
    assert_eq!(sequences(&mut queue, 99).len(), 10);
}

#[test]
fn memory_that_makes_no_sense_harms_nobody_else() {
    require!(root);
    let mut bench = Bench::new();
    let mut other = bench
        .program
        .queue_without_interface(1002, 7, &config(8))
        .unwrap();
    let queue = bench
        .program
        .queue_without_interface(1001, 7, &config(8))
        .unwrap();
    let frame = message(1001, 3, 5).frame(&[1]);
    // Other memory, shorter than its settings say, as if this process had overwritten it at random.
    for (places, levels) in [(1 << 40, 7), (0, 0), (u64::MAX, u64::MAX), (3, 5)] {
        let broken = MappedArray::create("broken", PLACE_WORDS, 2).unwrap();
        let set = |field: Queue, value| {
            let word = broken.word(0, field as usize).unwrap();
            word.store(value, Ordering::Relaxed);
        };
        set(Queue::Places, places);
        set(Queue::Levels, levels);
        let channel = &queue.channel;
        let put = channel
            .program
            .queues
            .put(channel.index as u32, broken.descriptor());
        put.unwrap();
        for _ in 0..100 {
            assert_eq!(bench.run(&frame), DROP);
        }
    }
    assert!(queue.counters().broken > 0);
    bench.run(&message(1002, 3, 5).frame(&[1]));
    assert_eq!(sequences(&mut other, 9), [5]);
}

/// Real frames over a veth, in each mode and with each way to wait: all arrive in order, and a sleeping reader is
/// woken.
#[test]
fn frames_from_the_wire_come_in_order_and_wake_their_reader() {
    require!(root, program "ip");
    const SENT: u32 = 300;
    for mode in [XdpMode::Native, XdpMode::Generic] {
        let pair = rtwire_testkit::NetnsPair::new();
        let attach = ProgramConfig {
            attach: Attach::Only(mode),
            ..ProgramConfig::new(pair.a.interface.as_str())
        };
        let program = pair.a.run(|| ReceiveProgram::with(&attach)).unwrap();
        let sender = crate::SenderConfig::new(pair.b.interface.as_str());
        let mut sender = pair.b.run(|| crate::Sender::frames(&sender)).unwrap();
        let budget = Duration::from_micros(100);
        for wake_up in [WakeUp::Block, WakeUp::Spin, WakeUp::SpinThenBlock(budget)] {
            let config = QueueConfig {
                frames: 512,
                wake_up,
                ..QueueConfig::default()
            };
            let mut queue = pair
                .a
                .run(|| program.queue_channel(1001, 7, &config))
                .unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for sequence in 0..SENT {
                        let mut message = message(1001, (sequence % 2) as u8, sequence);
                        message.to.0 = pair.a.mac;
                        message.vlan = VlanTag::new(Pcp::LOWEST, 5).filter(|_| sequence % 3 == 0);
                        sender.send(&message.frame(&[1; 64])).unwrap();
                        if sequence % 30 == 0 {
                            std::thread::sleep(Duration::from_millis(3));
                        }
                    }
                });
                let (mut next, mut woken) = ([0, 1], 0);
                for _ in 0..SENT {
                    assert!(
                        queue.wait(Some(Duration::from_secs(10))).unwrap(),
                        "{mode}, {wake_up:?}: after {next:?}"
                    );
                    woken += 1;
                    let frame = queue.peek().unwrap();
                    let level = usize::from(frame.priority);
                    assert_eq!(frame.sequence, next[level], "{mode}, {wake_up:?}");
                    next[level] += 2;
                    queue.release();
                }
                assert_eq!(woken, SENT);
            });
            assert!(!queue.wait(Some(Duration::from_millis(5))).unwrap());
            assert_eq!(queue.full(), 0);
        }
    }
}

#[test]
fn a_reader_learns_what_becomes_of_program_and_interface() {
    require!(root, program "ip");
    for mode in [XdpMode::Native, XdpMode::Generic] {
        learns_what_becomes_of_them(mode);
    }
}

fn learns_what_becomes_of_them(mode: XdpMode) {
    let pair = rtwire_testkit::NetnsPair::new();
    let attach = ProgramConfig {
        attach: Attach::Only(mode),
        ..ProgramConfig::new(pair.a.interface.as_str())
    };
    let program = pair.a.run(|| ReceiveProgram::with(&attach)).unwrap();
    for wake_up in [WakeUp::Block, WakeUp::Spin] {
        let config = QueueConfig {
            wake_up,
            ..QueueConfig::default()
        };
        let mut queue = pair
            .a
            .run(|| program.queue_channel(1001, 7, &config))
            .unwrap();
        let link = |change: &str| {
            let name = &pair.a.interface;
            rtwire_testkit::ip(&pair.a.namespace, &format!("link set {name} {change}"));
        };
        let second = Some(Duration::from_secs(1));
        link("down");
        let down = queue.wait(second);
        assert!(
            matches!(down, Err(LinkError::InterfaceDown { .. })),
            "{wake_up:?}: {down:?}"
        );
        link("up");
        assert!(!queue.wait(Some(Duration::from_millis(1))).unwrap());
    }
    let mut queue = pair
        .a
        .run(|| program.queue_channel(1001, 7, &QueueConfig::default()))
        .unwrap();
    program.detach().unwrap();
    for _ in 0..2 {
        let detached = queue.wait(Some(Duration::from_secs(1)));
        assert!(
            matches!(detached, Err(LinkError::ProgramDetached { .. })),
            "{detached:?}"
        );
    }
    let delete = format!("link del {}", pair.a.interface);
    rtwire_testkit::ip(&pair.a.namespace, &delete);
    for _ in 0..2 {
        let gone = queue.wait(Some(Duration::from_secs(1)));
        assert!(
            matches!(gone, Err(LinkError::InterfaceGone { .. })),
            "{gone:?}"
        );
    }
}
