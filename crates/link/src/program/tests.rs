//! The receive program, run on frames of every kind (`BPF_PROG_TEST_RUN`).

use super::attach::{PROGRAM, load};
use super::*;
use rtwire_sys::bpf::BpfObject;
use rtwire_sys::clock::{self, Clock};
use rtwire_testkit::require;
use rtwire_wire::rtdip::{Header, Semantics};
use rtwire_wire::{MacAddress, Pcp, VlanTag, ethernet};
use std::sync::atomic::AtomicU32;

pub(super) const DROP: u32 = 1;
pub(super) const PASS: u32 = 2;
pub(super) const TX: u32 = 3;
pub(super) const OWN: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
pub(super) const PEER: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);
pub(super) const ASKING: u16 = FIRST_ASKING_PORT;

/// The program, not attached to anything.
pub(super) struct Bench {
    pub(super) object: BpfObject,
    pub(super) program: ReceiveProgram,
    out: Vec<u8>,
}

impl Bench {
    pub(super) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // No interface has this index, so locks of its ports are nobody else's.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let interface = Interface {
            name: "test".to_owned(),
            index: std::process::id() * 100 + number,
            mac: OWN.0,
            mtu: 1500,
            up: true,
        };
        let (object, shared) = load(interface, EtherType::RTDIP).expect("these tests need root");
        Self {
            object,
            program: ReceiveProgram {
                shared: Arc::new(shared),
            },
            out: Vec::new(),
        }
    }

    pub(super) fn run(&mut self, frame: &[u8]) -> u32 {
        self.object
            .test_run_xdp(PROGRAM, frame, &mut self.out, 1)
            .unwrap()
            .verdict
    }

    /// The frame that the last run left.
    pub(super) fn left(&self) -> &[u8] {
        &self.out
    }

    /// Runs a frame that must go on to Linux as it is.
    fn passes(&mut self, frame: &[u8]) {
        assert_eq!(self.run(frame), PASS);
        assert_eq!(self.out, frame);
    }

    /// Runs a question; gives the answer's headers and data.
    fn answer(&mut self, frame: &[u8]) -> (ethernet::Header, Header, Vec<u8>) {
        assert_eq!(self.run(frame), TX);
        parsed(&self.out)
    }
}

fn parsed(octets: &[u8]) -> (ethernet::Header, Header, Vec<u8>) {
    let frame = ethernet::Frame::new(octets).unwrap();
    let header = ethernet::Header {
        destination: frame.destination(),
        source: frame.source(),
        vlan: frame.vlan(),
        ether_type: frame.ether_type(),
    };
    let (rtdip, data) = Header::parse(frame.payload()).unwrap();
    (header, rtdip, data.to_vec())
}

/// A frame as its parts say.
#[derive(Clone)]
pub(super) struct Build {
    pub(super) to: MacAddress,
    pub(super) from: MacAddress,
    pub(super) vlan: Option<VlanTag>,
    pub(super) header: Header,
}

pub(super) fn build(port: u16, sequence: u32) -> Build {
    Build {
        to: OWN,
        from: PEER,
        vlan: None,
        header: Header {
            semantics: Semantics::Newest,
            priority: Pcp::new(5).unwrap(),
            destination_port: port,
            source_port: ASKING,
            sequence,
            key: 7,
            time_ns: None,
        },
    }
}

impl Build {
    pub(super) fn frame(&self, data: &[u8]) -> Vec<u8> {
        let ethernet = ethernet::Header {
            destination: self.to,
            source: self.from,
            vlan: self.vlan,
            ether_type: EtherType::RTDIP,
        };
        let mut frame = vec![0; 2048];
        let at = ethernet.emit(&mut frame).unwrap();
        let end = at + self.header.emit(data, &mut frame[at..]).unwrap();
        frame.truncate(end.max(60 + at - 14));
        frame
    }
}

fn tag() -> Option<VlanTag> {
    VlanTag::new(Pcp::new(6).unwrap(), 12)
}

#[test]
fn a_newest_value_lies_in_its_slot() {
    require!(root);
    let mut bench = Bench::new();
    let mut slot = bench.program.newest_channel(1001, 7).unwrap();
    let mut out = [0; 1488];
    assert_eq!(slot.read(&mut out), None, "nothing came yet");
    for (number, length) in (10..).zip([0, 1, 7, 8, 15, 16, 17, 64, 100, 1024, 1450, 1476]) {
        for vlan in [None, tag()] {
            let mut build = build(1001, number * 2 + u32::from(vlan.is_some()));
            build.vlan = vlan;
            build.header.time_ns = vlan.map(|_| 123_456);
            let data: Vec<u8> = (0..length)
                .map(|at| (at * 7 + number as usize) as u8)
                .collect();
            let before = clock::now_ns(Clock::Tai);
            assert_eq!(bench.run(&build.frame(&data)), DROP);
            let newest = slot.read(&mut out).unwrap();
            assert_eq!(out[..newest.length], data);
            assert_eq!(
                (newest.sequence, newest.fresh, newest.skipped),
                (build.header.sequence, true, 0)
            );
            assert_eq!(
                (newest.source, newest.source_port, newest.priority),
                (PEER, ASKING, 5)
            );
            assert_eq!(newest.sender_time_ns, build.header.time_ns);
            // The kernel's fast clock and the one of the vDSO differ by the resolution of their updates.
            let (after, late) = (clock::now_ns(Clock::Tai), newest.arrival_ns + 1_000_000);
            assert!(late >= before && newest.arrival_ns <= after + 1_000_000);
            let again = slot.read(&mut out).unwrap();
            assert!(!again.fresh && again.skipped == 0 && again.sequence == newest.sequence);
        }
    }
    assert_eq!(
        slot.counters(),
        ChannelCounters {
            accepted: 24,
            ..Default::default()
        }
    );
    assert_eq!(bench.program.counters(), ProgramCounters::default());
}

#[test]
fn a_short_buffer_gets_the_beginning_and_the_true_length() {
    require!(root);
    let mut bench = Bench::new();
    let mut slot = bench.program.newest_channel(1001, 7).unwrap();
    bench.run(&build(1001, 1).frame(b"0123456789abcdefghij"));
    let mut out = [b'-'; 12];
    assert_eq!(slot.read(&mut out[..10]).unwrap().length, 20);
    assert_eq!(&out, b"0123456789--");
}

#[test]
fn every_reader_counts_what_it_skipped() {
    require!(root);
    let mut bench = Bench::new();
    let mut every = bench.program.newest_channel(1001, 7).unwrap();
    let mut some = every.clone();
    let mut out = [0; 8];
    for number in [5, 6, 7, 10, 11] {
        bench.run(&build(1001, number).frame(&[0]));
        let expected = if number == 10 { 2 } else { 0 };
        assert_eq!(
            every.read(&mut out).unwrap().skipped,
            expected,
            "number {number}"
        );
        if number == 6 {
            assert_eq!(
                some.read(&mut out).unwrap().skipped,
                0,
                "what was before the first look does not count"
            );
        }
    }
    assert_eq!(some.read(&mut out).unwrap().skipped, 4, "7 to 10");
    assert_eq!(every.missing(), 2);
}

#[test]
fn numbers_never_go_backwards_but_for_a_sender_that_begins_again() {
    require!(root);
    let mut bench = Bench::new();
    let mut slot = bench.program.newest_channel(1001, 7).unwrap();
    let mut out = [0; 8];
    let mut sends = |from: MacAddress, sequence, time_ns| {
        let mut build = build(1001, sequence);
        build.from = from;
        build.header.time_ns = time_ns;
        bench.run(&build.frame(&[0]));
        slot.read(&mut out).unwrap().sequence
    };
    assert_eq!(sends(PEER, u32::MAX, None), u32::MAX);
    assert_eq!(sends(PEER, 1, None), 1, "over the wrap");
    assert_eq!(sends(PEER, 1, None), 1);
    assert_eq!(sends(PEER, 0, None), 1, "behind");
    assert_eq!(sends(PEER, 2, Some(1000)), 2);
    assert_eq!(sends(PEER, 1, Some(1000)), 2, "not later");
    assert_eq!(sends(PEER, 0, Some(1001)), 0, "later: it begins again");
    // Without times: two in a row that lie far behind.
    assert_eq!(sends(PEER, 5000, None), 5000);
    assert_eq!(sends(PEER, 3976, None), 5000, "1024 behind, the first time");
    assert_eq!(sends(PEER, 3978, None), 5000, "not its follower");
    assert_eq!(sends(PEER, 3979, None), 5000, "not 1024 behind");
    assert_eq!(sends(PEER, 0, None), 5000);
    assert_eq!(sends(PEER, 1, None), 1);
    let other = MacAddress([2, 0, 0, 0, 0, 3]);
    assert_eq!(sends(other, 0, None), 0, "another sender");
    assert_eq!(slot.counters().stale, 7);
}

#[test]
fn what_is_not_the_channels_is_dropped_and_counted() {
    require!(root);
    let mut bench = Bench::new();
    let mut slot = bench.program.newest_channel(1001, 7).unwrap();
    let mut wrong = build(1001, 1);
    wrong.header.key = 8;
    assert_eq!(bench.run(&wrong.frame(&[0])), DROP);
    let mut wrong = build(1001, 1);
    wrong.header.semantics = Semantics::Queue;
    assert_eq!(bench.run(&wrong.frame(&[0])), DROP);
    // More than a slot holds, in a frame longer than the usual.
    assert_eq!(bench.run(&build(1001, 1).frame(&[0; 1488])), DROP);
    let expected = ChannelCounters {
        wrong_key: 1,
        wrong_semantics: 1,
        accepted: 1,
        ..Default::default()
    };
    assert_eq!(slot.counters(), expected);
    assert_eq!(bench.run(&build(1001, 2).frame(&[0; 1489])), DROP);
    assert_eq!(
        slot.counters(),
        ChannelCounters {
            oversize: 1,
            ..expected
        }
    );
    assert_eq!(slot.read(&mut [0; 8]).unwrap().sequence, 1);
    // Another port, and this one when it is closed.
    bench.passes(&build(1002, 1).frame(&[0]));
    drop(slot);
    bench.passes(&build(1001, 3).frame(&[0]));
    assert_eq!(
        bench.program.counters(),
        ProgramCounters {
            other_port: 2,
            ..Default::default()
        }
    );
}

#[test]
fn faulty_frames_are_counted_and_go_on() {
    require!(root);
    let mut bench = Bench::new();
    let slot = bench.program.newest_channel(1001, 7).unwrap();
    let responder = bench.program.respond_channel(1002, 7, None).unwrap();
    for port in [1001, 1002] {
        for (vlan, at) in [(None, 14), (tag(), 18)] {
            let mut build = build(port, 1);
            build.vlan = vlan;
            build.header.time_ns = Some(1);
            let good = build.frame(&[1; 100]);
            let mut fault = |change: &dyn Fn(&mut Vec<u8>), expected: ProgramCounters| {
                let before = bench.program.counters();
                let mut frame = good.clone();
                change(&mut frame);
                bench.passes(&frame);
                let after = bench.program.counters();
                let found = ProgramCounters {
                    truncated: after.truncated - before.truncated,
                    wrong_version: after.wrong_version - before.wrong_version,
                    malformed: after.malformed - before.malformed,
                    wrong_length: after.wrong_length - before.wrong_length,
                    other_port: after.other_port - before.other_port,
                };
                assert_eq!(found, expected);
            };
            let none = ProgramCounters::default();
            fault(
                &|f| f[at] = 0x20,
                ProgramCounters {
                    wrong_version: 1,
                    ..none
                },
            );
            fault(
                &|f| f[at] = 0x02,
                ProgramCounters {
                    wrong_version: 1,
                    ..none
                },
            );
            fault(
                &|f| f[at] = 0x16,
                ProgramCounters {
                    malformed: 1,
                    ..none
                },
            );
            fault(
                &|f| f[at + 1] = 8,
                ProgramCounters {
                    malformed: 1,
                    ..none
                },
            );
            fault(
                &|f| f.truncate(at + 123),
                ProgramCounters {
                    wrong_length: 1,
                    ..none
                },
            );
            for length in [at, at + 1, at + 15, at + 16, at + 23] {
                fault(
                    &|f| f.truncate(length),
                    ProgramCounters {
                        truncated: 1,
                        ..none
                    },
                );
            }
            fault(
                &|f| f.truncate(at + 24),
                ProgramCounters {
                    wrong_length: 1,
                    ..none
                },
            );
            // Foreign: another type, another station, two tags, a tag cut short.
            fault(&|f| f[at - 1] ^= 1, none);
            fault(&|f| f[5] = 9, none);
            fault(
                &|f| {
                    f.splice(12..12, [0x81, 0, 0, 1, 0x81, 0, 0, 2])
                        .for_each(drop)
                },
                none,
            );
            fault(
                &|f| f.truncate(14),
                if at == 14 {
                    ProgramCounters {
                        truncated: 1,
                        ..none
                    }
                } else {
                    none
                },
            );
        }
    }
    assert_eq!(slot.counters(), ChannelCounters::default());
    assert_eq!(responder.counters(), ChannelCounters::default());
}

#[test]
fn an_answer_has_prepared_content_and_the_questions_number() {
    require!(root);
    let mut bench = Bench::new();
    let mut responder = bench
        .program
        .respond_channel(1002, 7, Some(b"first"))
        .unwrap();
    let mut number = 0;
    let mut answers = 0;
    for length in [5, 0, 1, 21, 22, 23, 64, 1450, 1476] {
        let content: Vec<u8> = (0..length).map(|at| at as u8 | 0x80).collect();
        if length != 5 {
            responder.replace(&content).unwrap();
        }
        let expected: &[u8] = if length == 5 { b"first" } else { &content };
        for vlan in [None, tag()] {
            for question in [0, 1, 300, 1476] {
                number += 1;
                let mut build = build(1002, number);
                build.vlan = vlan;
                build.header.time_ns = (question != 1).then_some(99);
                let before = clock::now_ns(Clock::Tai);
                let (ethernet, header, data) = bench.answer(&build.frame(&vec![0xee; question]));
                assert_eq!(
                    (ethernet.destination, ethernet.source, ethernet.vlan),
                    (PEER, OWN, vlan)
                );
                assert_eq!(
                    (header.destination_port, header.source_port),
                    (ASKING, 1002)
                );
                assert_eq!(
                    (header.sequence, header.key, header.priority.get()),
                    (number, 7, 5)
                );
                assert_eq!(header.semantics, Semantics::Newest);
                assert_eq!(data, expected);
                assert!(header.time_ns.unwrap() + 1_000_000 > before);
                let tag = if vlan.is_some() { 4 } else { 0 };
                assert_eq!(bench.out.len(), (38 + length).max(60) + tag);
                let padding = &bench.out[38 + tag + length..];
                assert!(
                    padding.iter().all(|&octet| octet == 0),
                    "no octet of the question is left"
                );
                answers += 1;
            }
        }
    }
    assert_eq!(
        responder.counters(),
        ChannelCounters {
            accepted: answers,
            ..Default::default()
        }
    );
    assert!(matches!(
        responder.replace(&[0; 1477]),
        Err(ProgramError::TooLong { octets: 1477 })
    ));
}

#[test]
fn an_echo_is_the_question_sent_back() {
    require!(root);
    let mut bench = Bench::new();
    let _responder = bench.program.respond_channel(1002, 7, None).unwrap();
    for time_ns in [None, Some(5)] {
        let mut build = build(1002, 3);
        build.header.time_ns = time_ns;
        build.to = MacAddress::BROADCAST;
        let question = build.frame(b"some words");
        let (ethernet, header, data) = bench.answer(&question);
        assert_eq!(
            (ethernet.destination, ethernet.source),
            (PEER, OWN),
            "its own address, not the group's"
        );
        assert_eq!((data.as_slice(), header.sequence), (&b"some words"[..], 3));
        assert_eq!(header.time_ns.is_some(), time_ns.is_some());
        assert_ne!(header.time_ns, Some(5), "the time at which it came");
        assert_eq!(bench.out.len(), question.len());
    }
}

#[test]
fn responders_never_answer_each_other() {
    require!(root);
    let mut bench = Bench::new();
    let responder = bench.program.respond_channel(1002, 7, None).unwrap();
    let mut question = build(1002, 1);
    question.header.source_port = ASKING - 1;
    assert_eq!(bench.run(&question.frame(&[0])), DROP);
    question.header.source_port = ASKING;
    question.from = MacAddress([3, 0, 0, 0, 0, 2]);
    assert_eq!(
        bench.run(&question.frame(&[0])),
        DROP,
        "an answer must not go to a group"
    );
    assert_eq!(responder.counters().no_question, 2);
    let refused = bench.program.respond_channel(ASKING, 7, None);
    assert!(matches!(
        refused,
        Err(ProgramError::AskingPort { port: ASKING })
    ));
}

#[test]
fn police_lets_the_contract_pass_and_no_more() {
    require!(root);
    let mut bench = Bench::new();
    let slot = bench.program.newest_channel(1001, 7).unwrap();
    // 100 bit/s: seconds for a frame. A burst of ten frames of 84 octets on the wire, to the bit.
    slot.police(Some(&Police::new(100, 10 * 84 * 8))).unwrap();
    for number in 0..20 {
        bench.run(&build(1001, number).frame(&[0]));
    }
    assert_eq!(
        (slot.counters().accepted, slot.counters().policed),
        (10, 10)
    );
    let mut wrong = build(1001, 30);
    wrong.header.key = 9;
    bench.run(&wrong.frame(&[0]));
    assert_eq!(
        slot.counters().policed,
        10,
        "what is not the channel's is not weighed"
    );
    slot.police(None).unwrap();
    bench.run(&build(1001, 31).frame(&[0]));
    assert_eq!(slot.counters().accepted, 11);

    let fails = |rate, burst| slot.police(Some(&Police::new(rate, burst))).is_err();
    assert!(
        fails(0, 1000) && fails(1000, 100) && fails(1, 1_000_000) && fails(u64::MAX, 1_000_000)
    );
    assert!(!fails(1, 3600) && !fails(10_000_000_000, 1_000_000));
}

/// By the program's own clock, whatever share of the time this process gets: a port whose contract is never exceeded tells,
/// but for some ns, when its last frame came.
#[test]
fn a_bucket_fills_again_at_its_rate() {
    require!(root);
    // One processor's clock does not go back.
    rtwire_sys::sched::set_cpu(0).unwrap();
    let mut bench = Bench::new();
    // 1 Mbit/s, frames of 84 octets on the wire: one in 672 µs. Offered in a loop, far more.
    const FRAME: u64 = 672_000 << 8;
    let police = Police::new(1_000_000, 84 * 8);
    let policed = bench.program.police(1003, &police).unwrap();
    let clock = Police::new(100_000_000_000, 1_000_000);
    // What its own frame adds: 84 octets at 100 Gbit/s, rounded up.
    const TICK: u64 = 7 << 8;
    let clock = bench.program.police(1004, &clock).unwrap();
    let (frame, tick) = (build(1003, 0).frame(&[0]), build(1004, 0).frame(&[0]));
    let start = std::time::Instant::now();
    let (mut passed, mut dropped, mut due) = (0, 0, 0);
    while start.elapsed() < std::time::Duration::from_millis(200) || passed < 50 {
        assert_eq!(bench.run(&tick), PASS);
        let is_full = clock.full_at() >= policed.full_at();
        let full_at = policed.full_at();
        let verdict = bench.run(&frame);
        // Full before the frame came: it must pass. And whatever passes has found the bucket full.
        if is_full {
            due += 1;
            assert_eq!(verdict, PASS, "{due} were due");
        }
        if verdict == PASS {
            passed += 1;
            let came = policed.full_at() - FRAME;
            assert!(came >= full_at, "frame {passed}: {full_at} {came}");
            // The bucket is as empty as one frame makes it, from the moment on at which that came.
            let before = clock.full_at() - TICK;
            assert_eq!(bench.run(&tick), PASS);
            let after = clock.full_at();
            assert!((before..=after).contains(&came), "{before} {came} {after}");
        } else {
            dropped += 1;
            assert_eq!(policed.full_at(), full_at, "a frame dropped costs nothing");
        }
    }
    assert!(due > 0 && dropped > 0, "{due} {dropped}");
    let counters = policed.counters();
    assert_eq!((counters.accepted, counters.policed), (passed, dropped));
}

#[test]
fn a_port_and_a_channel_are_had_once() {
    require!(root);
    let bench = Bench::new();
    let program = &bench.program;
    let slot = program.newest_channel(1001, 0).unwrap();
    for taken in [
        program.newest_channel(1001, 0).map(drop),
        program.respond_channel(1001, 0, None).map(drop),
        program.police(1001, &Police::new(1000, 10_000)).map(drop),
    ] {
        assert!(
            matches!(taken, Err(ProgramError::PortInUse { port: 1001, .. })),
            "{taken:?}"
        );
    }
    let clone = slot.clone();
    drop(slot);
    assert!(program.newest_channel(1001, 0).is_err(), "a reader is left");
    drop(clone);
    let mut all: Vec<_> = (0..64)
        .map(|port| program.newest_channel(1001 + port, 0).unwrap())
        .collect();
    assert!(matches!(
        program.newest_channel(2000, 0),
        Err(ProgramError::NoChannel { .. })
    ));
    all.pop();
    program.newest_channel(2000, 0).unwrap();
}

#[test]
fn a_program_that_is_detached_or_loses_its_interface_says_so() {
    require!(root, program "ip");
    let pair = rtwire_testkit::NetnsPair::new();
    let attach = || {
        pair.a
            .run(|| ReceiveProgram::attach(&pair.a.interface))
            .unwrap()
    };
    let program = attach();
    assert_eq!(
        (program.mode(), program.why_generic()),
        (XdpMode::Native, None)
    );
    assert_eq!(program.is_attached(), Ok(true));
    program.detach().unwrap();
    assert_eq!(program.is_attached(), Ok(false));
    // The place is free for another, which is shared, and stays attached while a channel of anybody's is open.
    let second = attach();
    assert!(!second.is_joined());
    let slot = second.newest_channel(1001, 0).unwrap();
    drop(second);
    let third = attach();
    assert!(third.is_joined());
    drop(third);
    drop(slot);
    let third = attach();
    assert!(!third.is_joined());
    for change in ["down", "up"] {
        rtwire_testkit::ip(
            &pair.a.namespace,
            &format!("link set {} {change}", pair.a.interface),
        );
        assert_eq!(third.is_attached(), Ok(true), "{change}");
    }
    rtwire_testkit::ip(&pair.a.namespace, &format!("link del {}", pair.a.interface));
    assert_eq!(third.is_attached(), Ok(false));
}

#[test]
fn frames_too_long_for_native_mode_get_the_generic_one() {
    require!(root, program "ip");
    let pair = rtwire_testkit::NetnsPair::new();
    for side in [&pair.a, &pair.b] {
        rtwire_testkit::ip(
            &side.namespace,
            &format!("link set {} mtu 9000", side.interface),
        );
    }
    let program = pair
        .a
        .run(|| ReceiveProgram::attach(&pair.a.interface))
        .unwrap();
    assert_eq!(program.mode(), XdpMode::Generic);
    assert!(
        program.why_generic().unwrap().contains("MTU"),
        "{:?}",
        program.why_generic()
    );
}

#[test]
fn fields_of_the_question_are_put_into_the_answer() {
    require!(root);
    let mut bench = Bench::new();
    let question_at = |offset| PatchSource::Question { offset };
    let patch = |source, octets, place| Patch {
        source,
        octets,
        place,
    };
    let patches = [
        patch(question_at(3), 1, 0),
        patch(question_at(0), 16, 20),
        patch(PatchSource::Sequence, 4, 40),
        patch(PatchSource::ArrivalTime, 8, 92),
        patch(question_at(112), 16, 50),
    ];
    let content: Vec<u8> = (0..100).map(|at| at ^ 0xff).collect();
    let mut responder = bench
        .program
        .respond_channel_with(1002, 7, Some(&content), &patches)
        .unwrap();
    for (number, length) in (1000..).zip([0, 1, 5, 16, 100, 120, 127, 128, 129, 1400]) {
        for vlan in [None, tag()] {
            let mut question = build(1002, number);
            question.vlan = vlan;
            let data: Vec<u8> = (0..length).map(|at| (at * 3 + 1) as u8).collect();
            let before = clock::now_ns(Clock::Tai);
            let (_, header, answer) = bench.answer(&question.frame(&data));
            let came = u64::from_be_bytes(answer[92..].try_into().unwrap());
            let told = header.time_ns.unwrap();
            // The clock that a program may read is not strictly in step with ours.
            assert!(
                came + 1_000_000 > before && came < told + 1_000_000,
                "{before} {came} {told}"
            );
            // The same in user space, as the responder over packet sockets does it.
            let mut expected = content.clone();
            apply_patches(&patches, &data, number, came, &mut expected);
            assert_eq!(answer, expected, "{length}");
            assert_eq!(answer[0], data.get(3).copied().unwrap_or(0));
            assert_eq!(answer[40..44], number.to_be_bytes());
        }
    }
    // Content and patches are replaced together, and may have none.
    responder.replace_with(&[9; 36], &patches[..2]).unwrap();
    let (.., answer) = bench.answer(&build(1002, 1).frame(&[5; 40]));
    assert_eq!(answer, [&[5][..], &[9; 19], &[5; 16]].concat());
    responder.replace(&[9; 3]).unwrap();
    assert_eq!(bench.answer(&build(1002, 1).frame(&[5; 40])).2, [9; 3]);

    let mut fails = |number, patch: Patch| {
        let refused = responder.replace_with(&[0; 50], &[patches[0], patch]);
        assert!(
            matches!(refused, Err(ProgramError::Patch { number: found }) if found == number),
            "{patch:?}: {refused:?}"
        );
    };
    fails(1, patch(question_at(0), 0, 0));
    fails(1, patch(question_at(0), 17, 0));
    fails(1, patch(question_at(125), 4, 0));
    fails(1, patch(PatchSource::Sequence, 8, 0));
    fails(1, patch(PatchSource::ArrivalTime, 9, 0));
    fails(1, patch(question_at(0), 4, 47));
    let many = [patches[0]; 9];
    let refused = responder.replace_with(&[0; 50], &many).unwrap_err();
    assert!(refused.to_string().contains("at most 8"), "{refused}");
    let (.., answer) = bench.answer(&build(1002, 1).frame(&[5; 40]));
    assert_eq!(answer, [9; 3], "what is refused changes nothing");
}
