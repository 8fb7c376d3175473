//! The watchdog, and requests of others, in the program (`BPF_PROG_TEST_RUN`).

use super::layout::Chain;
use super::requests::Requests;
use super::tests::{Bench, DROP, PASS, TX, preq, pres, soc};
use super::*;
use rtwire_powerlink::prepared;
use rtwire_sys::clock::{self, Clock};
use rtwire_testkit::require;

#[test]
fn a_program_that_stands_still_is_not_answered_for() {
    require!(root);
    const WATCHDOG: u64 = 3;
    // Cycles go by their SoC, or, where those are lost, by their requests.
    for soc_comes in [true, false] {
        let mut bench = Bench::new(Role::Controlled, 7);
        bench.program().set(Control::Watchdog, WATCHDOG);
        bench.run(&soc());
        while let Some((taken, _)) = bench.take() {
            bench.driver.cycle = taken.note;
        }
        bench.prepare_response(&pres(7));
        // The request of the cycle that user space has read.
        assert_eq!(bench.run(&preq(7)), TX);
        let cycle = |bench: &mut Bench| {
            if soc_comes {
                assert_eq!(bench.run(&soc()), DROP);
            }
            bench.run(&preq(7))
        };
        for _ in 0..2 {
            for _ in 0..WATCHDOG {
                assert_eq!(cycle(&mut bench), TX, "{soc_comes}");
            }
            let before = bench.counters();
            for _ in 0..10 {
                assert_eq!(cycle(&mut bench), PASS, "{soc_comes}");
            }
            let after = bench.counters();
            let grown = [
                after.lapsed - before.lapsed,
                after.answered - before.answered,
            ];
            assert_eq!(grown, [10, 0]);
            // Back again, the program reads the oldest frame first: that renews nothing for today.
            let (old, _) = bench.take().unwrap();
            bench.driver.cycle = old.note;
            bench.arm_reply(prepared::PREQ, 0);
            assert_eq!(cycle(&mut bench), PASS, "renewed by an old frame");
            while let Some((taken, _)) = bench.take() {
                bench.driver.cycle = taken.note;
            }
            bench.arm_reply(prepared::PREQ, 0);
        }
    }
}

#[test]
fn without_a_watchdog_the_driver_answers_for_ever() {
    require!(root);
    let mut bench = Bench::new(Role::Controlled, 7);
    bench.program().set_watchdog(0);
    bench.prepare_response(&pres(7));
    for _ in 0..1_000 {
        bench.run(&soc());
        assert_eq!(bench.run(&preq(7)), TX);
    }
    bench.program().set_watchdog(3);
    assert_eq!(bench.run(&preq(7)), PASS);
    assert_eq!(bench.counters().lapsed, 1);
    let mut bench = Bench::new(Role::Managing, 240);
    bench.driver.requests = Requests::new(8, DriverConfig::chain_of(1_000_000, 0));
    bench.prepare_nodes(&[1, 2]);
    assert!(!bench.due(0));
    assert_eq!(bench.run(&pres(1)), TX);
}

#[test]
fn a_request_that_the_managing_node_has_not_sent_is_dropped_and_counted() {
    require!(root);
    let mut bench = Bench::new(Role::Controlled, 7);
    bench.prepare_response(&pres(7));
    let from = |mac: u8, source: u8| {
        let mut frame = preq(7);
        (frame[11], frame[16]) = (mac, source);
        frame
    };
    assert_eq!(bench.run(&from(9, 9)), DROP, "from a controlled node");
    assert_eq!(bench.run(&from(9, 240)), TX, "its address is not known yet");
    let managing = MacAddress([2, 0, 0, 0, 0, 240]);
    bench.program().set(Control::Managing, word_of(managing));
    assert_eq!(bench.run(&from(240, 240)), TX);
    assert_eq!(bench.run(&from(9, 240)), DROP, "from another address");
    assert_eq!(bench.run(&from(240, 9)), DROP, "from another number");
    let counters = bench.counters();
    assert_eq!((counters.foreign, counters.answered), (3, 2));
    // Forged SoC and requests do not make cycles: else they would end the answers.
    bench.program().set(Control::Watchdog, 2);
    let mut forged = soc();
    forged[11] = 9;
    for _ in 0..10 {
        bench.run(&forged);
        bench.run(&from(9, 240));
    }
    assert_eq!(bench.run(&preq(7)), TX);
}

#[test]
fn a_chain_does_not_outlive_its_time() {
    require!(root);
    let mut bench = Bench::new(Role::Managing, 240);
    let cell = [1, 2, 3];
    // Longer than any test; then its end is moved to long ago.
    bench.driver.requests = Requests::new(8, DriverConfig::chain_of(1_000_000_000, 1_000_000));
    bench.prepare_nodes(&cell);
    assert!(!bench.due(0));
    assert_eq!(bench.run(&pres(1)), TX, "in time");
    let until = bench.program().chain.word(0, Chain::UntilNs as usize);
    let begun_ns = until.unwrap().swap(1, Ordering::Relaxed) - 1_000_000_000_000_000;
    let passed_ns = clock::now_ns(Clock::Monotonic).checked_sub(begun_ns);
    assert!(passed_ns.is_some(), "it begins with the first request");
    assert_eq!(bench.run(&pres(2)), PASS, "its time is over");
    assert_eq!(bench.counters().lapsed, 1);
    // User space, back again, sends it, and the next cycle's chain runs.
    assert!(!bench.due(2));
    bench.prepare_nodes(&cell);
    assert!(!bench.due(0));
    assert_eq!(bench.run(&pres(1)), TX);
}
