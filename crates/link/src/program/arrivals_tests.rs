//! Tests of arrival notes: one for each accepted value, whole, and none missing without being counted.

use super::attach::PROGRAM;
use super::test_bench::{ASKING, Bench, PEER, build};
use super::*;
use rtwire_sys::sched;
use rtwire_testkit::require;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::thread;

/// Returns the sender's time of a value: it follows from its number, and grows with it.
fn sender_time(sequence: u32) -> u64 {
    1_000_000 + u64::from(sequence) * 0x1_0001
}

fn frame(sequence: u32) -> Vec<u8> {
    let mut build = build(1001, sequence);
    build.header.time_ns = Some(sender_time(sequence));
    build.frame(&[7; 40])
}

#[test]
fn every_accepted_value_leaves_a_note_and_no_other_does() {
    require!(root);
    let mut bench = Bench::new();
    let mut slot = bench
        .program
        .newest_channel_with_notes(1001, 7, 64)
        .unwrap();
    let mut notes = slot.arrivals().unwrap();
    assert_eq!(notes.drain(|_| panic!("nothing came yet")), 0);
    let mut expected = Vec::new();
    let mut out = [0; 64];
    for sequence in [3, 4, 9, 10] {
        bench.run(&frame(sequence));
        let newest = slot.read(&mut out).unwrap();
        expected.push(ArrivalNote {
            sequence,
            arrival_ns: newest.arrival_ns,
            sender_time_ns: Some(sender_time(sequence)),
            source: PEER,
            source_port: ASKING,
        });
        // A duplicate, another key, and too much data.
        bench.run(&frame(sequence));
        let mut foreign = build(1001, sequence + 1);
        foreign.header.key = 8;
        bench.run(&foreign.frame(&[0]));
        bench.run(&build(1001, sequence + 1).frame(&[0; 1489]));
    }
    let mut found = Vec::new();
    assert_eq!(notes.drain(|note| found.push(note)), 4);
    assert_eq!(found, expected);
    assert_eq!(notes.drain(|_| panic!("each is shown once")), 0);
    assert_eq!(notes.missed(), 0);
    // Another reader begins with the oldest.
    assert_eq!(slot.arrivals().unwrap().drain(|_| ()), 4);
    assert_eq!(slot.counters().broken, 0);
}

#[test]
fn a_channel_without_notes_has_none_and_a_new_channel_begins_anew() {
    require!(root);
    let mut bench = Bench::new();
    assert!(
        bench
            .program
            .newest_channel(1002, 7)
            .unwrap()
            .arrivals()
            .is_none()
    );
    for _ in 0..2 {
        let slot = bench.program.newest_channel_with_notes(1001, 7, 8).unwrap();
        let mut notes = slot.arrivals().unwrap();
        for sequence in 0..3 {
            bench.run(&frame(sequence));
        }
        assert_eq!(notes.drain(|_| ()), 3);
    }
}

/// Random bursts between random looks, in rings of several sizes, beside a model: the notes that were read are the
/// newest, in order, and the others are counted.
#[test]
fn an_overrun_is_counted_to_the_note() {
    require!(root);
    let mut bench = Bench::new();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for places in [1_usize, 2, 8, 13, 64] {
        let slot = bench
            .program
            .newest_channel_with_notes(1001, 7, places)
            .unwrap();
        let room = places.next_power_of_two().max(2) as u64;
        let mut notes = slot.arrivals().unwrap();
        let (mut sent, mut read, mut missed) = (0_u64, 0_u64, 0_u64);
        for _ in 0..40 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            for _ in 0..random % (2 * room + 3) {
                bench.run(&frame(sent as u32));
                sent += 1;
            }
            // One place may be being overwritten.
            let first = read.max((sent + 1).saturating_sub(room));
            missed += first - read;
            let mut next = first;
            let shown = notes.drain(|note| {
                assert_eq!(u64::from(note.sequence), next);
                assert_eq!(note.sender_time_ns, Some(sender_time(note.sequence)));
                next += 1;
            });
            assert_eq!((next, shown), (sent, sent - first), "{places} places");
            assert_eq!(notes.missed(), missed, "{places} places");
            read = sent;
        }
        assert!(missed > 0 && read > missed, "both cases happened");
    }
}

/// Two writers on two processors and a reader that is sometimes too slow: every note is whole, and each value is either
/// shown or counted.
#[test]
fn notes_are_whole_and_complete_while_two_processors_write() {
    require!(root);
    let bench = Bench::new();
    let slot = bench
        .program
        .newest_channel_with_notes(1001, 7, 16)
        .unwrap();
    let mut notes = slot.arrivals().unwrap();
    let stop = AtomicBool::new(false);
    let numbers = AtomicU32::new(0);
    let (mut shown, mut last) = (0, None);
    thread::scope(|scope| {
        for cpu in [0, 1] {
            let (bench, numbers, stop) = (&bench, &numbers, &stop);
            scope.spawn(move || {
                let _ = sched::set_cpu(cpu);
                let mut out = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let number = numbers.fetch_add(1, Ordering::Relaxed);
                    let frame = frame(number);
                    let run = bench.object.test_run_xdp(PROGRAM, &frame, &mut out, 1);
                    run.unwrap();
                }
            });
        }
        // Stops the writers also when an assertion fails here.
        let _stop = StopAtEnd(&stop);
        for turn in 0..4_000 {
            let before = slot.counters().accepted;
            // Mostly as fast as it can; sometimes not before more came than the ring holds.
            let wanted = if turn % 100 == 99 { 40 } else { 1 };
            while slot.counters().accepted < before + wanted {
                thread::yield_now();
            }
            shown += notes.drain(|note| {
                assert_eq!(note.sender_time_ns, Some(sender_time(note.sequence)));
                assert!(last.is_none_or(|last| last < note.sequence), "{note:?}");
                last = Some(note.sequence);
            });
        }
    });
    shown += notes.drain(|_| ());
    assert_eq!(shown + notes.missed(), slot.counters().accepted);
    assert!(notes.missed() >= 40 * 24 && shown > 4_000);
}

struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
