//! Tests of newest values in their slot, and of their readers.

use super::test_bench::{ASKING, Bench, DROP, PEER, build, tag};
use super::*;
use rtwire_sys::clock::{self, Clock};
use rtwire_testkit::require;
use rtwire_wire::MacAddress;

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
            // The kernel's fast clock and that of the vDSO differ by the resolution of their updates.
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
    // Without times: two numbers in a row that lie far behind.
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
