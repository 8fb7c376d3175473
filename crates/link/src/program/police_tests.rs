//! Tests of the token bucket.

use super::test_bench::{Bench, PASS, build};
use super::*;
use rtwire_testkit::require;

#[test]
fn police_lets_the_contract_pass_and_no_more() {
    require!(root);
    let mut bench = Bench::new();
    let slot = bench.program.newest_channel(1001, 7).unwrap();
    // At 100 bit/s a frame takes seconds. A burst of exactly ten frames of 84 bytes on the wire.
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

/// Uses the program's own clock, so it works with any share of processor time. A port that never exceeds its contract
/// reports the arrival of its last frame, to a few ns.
#[test]
fn a_bucket_fills_again_at_its_rate() {
    require!(root);
    // The clock of one processor does not go back.
    rtwire_sys::sched::set_cpu(0).unwrap();
    let mut bench = Bench::new();
    // 1 Mbit/s, frames of 84 bytes on the wire: one in 672 µs. Far more are offered in a loop.
    const FRAME: u64 = 672_000 << 8;
    let police = Police::new(1_000_000, 84 * 8);
    let policed = bench.program.police(1003, &police).unwrap();
    let clock = Police::new(100_000_000_000, 1_000_000);
    // The cost of its own frame: 84 bytes at 100 Gbit/s, rounded up.
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
        // If the bucket was full before the frame came, it must pass. Each frame that passes has found the bucket
        // full.
        if is_full {
            due += 1;
            assert_eq!(verdict, PASS, "{due} were due");
        }
        if verdict == PASS {
            passed += 1;
            let came = policed.full_at() - FRAME;
            assert!(came >= full_at, "frame {passed}: {full_at} {came}");
            // The bucket is as empty as one frame makes it, from the arrival of that frame on.
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
