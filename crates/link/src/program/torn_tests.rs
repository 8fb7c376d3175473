//! A writer at full speed and readers on another processor: no torn value, none backwards.

use super::attach::PROGRAM;
use super::test_bench::{Bench, build};
use super::*;
use rtwire_sys::sched;
use rtwire_testkit::require;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::thread;
use std::time::{Duration, Instant};

/// The tests of this file use both processors, so they run one after the other.
fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Moves reader and writer to two processors. On one, each would see only what the other did before it was
/// interrupted. (With one processor only, it stays so.)
fn at_processor(cpu: usize) {
    let _ = sched::set_cpu(cpu);
}

/// Returns the time for each size: one second, or `RTWIRE_TEST_SOAK_SECONDS`.
fn time() -> Duration {
    let seconds = std::env::var("RTWIRE_TEST_SOAK_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok());
    seconds.map_or(Duration::from_millis(1000), Duration::from_secs)
}

/// Returns one byte of a self-checking value: it follows from the value's number and the byte's place.
fn octet(number: u32, at: usize) -> u8 {
    (number.wrapping_mul(0x9e37_79b1) >> 24) as u8 ^ at as u8
}

/// Stops the other threads even if this one fails, since they are joined.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writes values, numbered by `numbers`, until it is stopped; returns their number.
fn writes(bench: &Bench, length: usize, cpu: usize, numbers: &AtomicU32, stop: &AtomicBool) -> u64 {
    at_processor(cpu);
    let mut out = Vec::new();
    let mut frame = build(1001, 0).frame(&vec![0; length]);
    let mut written = 0;
    while !stop.load(Ordering::Relaxed) {
        let number = numbers.fetch_add(1, Ordering::Relaxed) + 1;
        written += 1;
        frame[22..26].copy_from_slice(&number.to_be_bytes());
        for at in 0..length {
            frame[30 + at] = octet(number, at);
        }
        bench
            .object
            .test_run_xdp(PROGRAM, &frame, &mut out, 1)
            .unwrap();
    }
    written
}

fn reads(mut slot: NewestSlot, stop: &AtomicBool, seen: &AtomicU32) -> (u64, u64) {
    at_processor(1);
    let mut out = [0; 1500];
    let (mut reads, mut fresh, mut last) = (0, 0, 0);
    while !stop.load(Ordering::Relaxed) {
        let Some(newest) = slot.read(&mut out) else {
            continue;
        };
        reads += 1;
        assert!(newest.sequence >= last, "{} after {last}", newest.sequence);
        assert_eq!(newest.fresh, newest.sequence != last);
        if last > 0 && newest.fresh {
            assert_eq!(u64::from(newest.sequence - last), newest.skipped + 1);
        }
        last = newest.sequence;
        fresh += u64::from(newest.fresh);
        seen.store(fresh as u32, Ordering::Relaxed);
        for (at, &found) in out[..newest.length].iter().enumerate() {
            assert_eq!(
                found,
                octet(newest.sequence, at),
                "number {last}, byte {at}: torn"
            );
        }
    }
    (reads, fresh)
}

#[test]
fn no_reader_sees_a_torn_value_or_a_step_backwards() {
    require!(root);
    let _alone = alone();
    for length in [1, 64, 1024, 1450] {
        let bench = Bench::new();
        let slot = bench.program.newest_channel(1001, 7).unwrap();
        let stop = AtomicBool::new(false);
        let start = Instant::now();
        let seen = [&AtomicU32::new(0), &AtomicU32::new(0)];
        thread::scope(|scope| {
            let writer = scope.spawn(|| writes(&bench, length, 0, &AtomicU32::new(0), &stop));
            let seen = &seen;
            let readers = seen
                .map(|seen| (slot.clone(), seen))
                .map(|(slot, seen)| scope.spawn(|| reads(slot, &stop, seen)));
            thread::sleep(time());
            // On a machine that others use, too, this takes as long as a valid test needs.
            let enough = || {
                slot.counters().accepted > 6000
                    && seen.iter().all(|seen| seen.load(Ordering::Relaxed) > 200)
            };
            while !enough() && start.elapsed() < 30 * time() {
                thread::sleep(Duration::from_millis(20));
            }
            stop.store(true, Ordering::Relaxed);
            let written = writer.join().unwrap();
            let counts = readers.map(|reader| reader.join().unwrap());
            println!(
                "{length} bytes, {:?}: {written} written, reads and fresh ones {counts:?}",
                start.elapsed()
            );
            for (reads, fresh) in counts {
                assert!(
                    written > 1000 && reads > 1000 && fresh > 100,
                    "too little for a test: {written} {counts:?}"
                );
            }
        });
        assert_eq!(slot.counters().busy, 0);
    }
}

/// Two writers at once, as with a driver that has several queues.
#[test]
fn two_processors_writing_one_slot_tear_nothing() {
    require!(root);
    let _alone = alone();
    let bench = Bench::new();
    let slot = bench.program.newest_channel(1001, 7).unwrap();
    let stop = AtomicBool::new(false);
    let numbers = AtomicU32::new(0);
    thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        let writers = [0, 1].map(|cpu| {
            let (bench, numbers, stop) = (&bench, &numbers, &stop);
            scope.spawn(move || writes(bench, 700, cpu, numbers, stop))
        });
        let mut reader = slot.clone();
        let mut out = [0; 1500];
        let until = Instant::now() + time();
        let mut last = 0;
        while Instant::now() < until {
            if let Some(newest) = reader.read(&mut out) {
                assert!(newest.sequence >= last);
                last = newest.sequence;
                assert!(
                    (0..700).all(|at| out[at] == octet(last, at)),
                    "number {last}: torn"
                );
            }
        }
        stop.store(true, Ordering::Relaxed);
        let written = writers
            .map(|writer| writer.join().unwrap())
            .iter()
            .sum::<u64>();
        let counters = slot.counters();
        println!("{written} written, {counters:?}");
        assert_eq!(counters.accepted + counters.stale + counters.busy, written);
    });
}

#[test]
fn answers_are_whole_while_their_content_is_replaced() {
    require!(root);
    let _alone = alone();
    let bench = Bench::new();
    let mut responder = bench
        .program
        .respond_channel(1002, 7, Some(&[1; 1001]))
        .unwrap();
    let stop = AtomicBool::new(false);
    let changed = AtomicU32::new(0);
    thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        let asks = scope.spawn(|| {
            at_processor(0);
            let question = build(1002, 1).frame(&[0; 64]);
            let mut out = Vec::new();
            let (mut answers, mut last) = (0_u64, 0);
            while !stop.load(Ordering::Relaxed) {
                let verdict = bench
                    .object
                    .test_run_xdp(PROGRAM, &question, &mut out, 1)
                    .unwrap()
                    .verdict;
                if verdict != super::test_bench::TX {
                    continue;
                }
                answers += 1;
                let content = &out[38..];
                let octet = content[0];
                assert_eq!(content.len(), 1000 + usize::from(octet));
                assert!(
                    content.iter().all(|&other| other == octet),
                    "torn: {content:?}"
                );
                changed.fetch_add(u32::from(octet != last), Ordering::Relaxed);
                last = octet;
            }
            answers
        });
        at_processor(1);
        let start = Instant::now();
        // On a machine that others use, too, this takes as long as a valid test needs.
        let enough = || start.elapsed() > time() && changed.load(Ordering::Relaxed) > 1000;
        let mut number = 0_u64;
        while !enough() && start.elapsed() < 30 * time() {
            number += 1;
            let octet = (number % 200) as u8 + 1;
            responder
                .replace(&vec![octet; 1000 + usize::from(octet)])
                .unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        let answers = asks.join().unwrap();
        let changes = changed.load(Ordering::Relaxed);
        println!(
            "{number} replaced, {answers} answers, {changes} changes, {:?}",
            responder.counters()
        );
        assert!(answers > 1000 && changes > 100);
        assert!(responder.counters().unanswered <= answers / 100);
    });
}

/// Real frames over a veth in each mode; every second one has a VLAN tag.
#[test]
fn values_from_the_wire_are_whole_in_each_mode() {
    require!(root, program "ip");
    let _alone = alone();
    for mode in [XdpMode::Native, XdpMode::Generic] {
        let pair = rtwire_testkit::NetnsPair::new();
        let config = ProgramConfig {
            attach: Attach::Only(mode),
            ..ProgramConfig::new(pair.a.interface.as_str())
        };
        let program = pair.a.run(|| ReceiveProgram::with(&config)).unwrap();
        assert_eq!(program.mode(), mode);
        let slot = pair.a.run(|| program.newest_channel(1001, 7)).unwrap();
        let sender = crate::SenderConfig {
            path: crate::TxPath::Direct,
            ..crate::SenderConfig::new(pair.b.interface.as_str())
        };
        let mut sender = pair.b.run(|| crate::Sender::frames(&sender)).unwrap();
        let (stop, seen) = (AtomicBool::new(false), AtomicU32::new(0));
        thread::scope(|scope| {
            let _stop = StopAtEnd(&stop);
            let (reader, stopped) = (slot.clone(), &stop);
            let seen = &seen;
            let reader = scope.spawn(move || reads(reader, stopped, seen));
            at_processor(0);
            let start = Instant::now();
            // On a machine that others use, too, the reader has its core for a short time only.
            let enough = || start.elapsed() > time() && seen.load(Ordering::Relaxed) > 1000;
            let mut number = 0_u32;
            while !enough() && start.elapsed() < 30 * time() {
                number += 1;
                let mut build = build(1001, number);
                build.to.0 = pair.a.mac;
                build.from.0 = pair.b.mac;
                build.vlan =
                    rtwire_wire::VlanTag::new(build.header.priority, 5).filter(|_| number % 2 == 0);
                let data: Vec<u8> = (0..200).map(|at| octet(number, at)).collect();
                sender.send(&build.frame(&data)).unwrap();
            }
            thread::sleep(Duration::from_millis(100));
            stop.store(true, Ordering::Relaxed);
            let (reads, fresh) = reader.join().unwrap();
            println!(
                "{mode}: {number} sent, {reads} reads, {fresh} fresh, {:?}",
                slot.counters()
            );
            assert_eq!(slot.counters().accepted + slot.missing(), u64::from(number));
            assert!(slot.counters().accepted > u64::from(number) / 2 && fresh > 100);
        });
    }
}
