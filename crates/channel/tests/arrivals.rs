//! The arrival of every newest value, of those, too, that nobody read.
#![allow(clippy::unwrap_used)]

mod common;
use common::*;
use rtwire_channel::{
    ArrivalNote, ListenerConfig, NewestListener, Semantics, Talker, TalkerConfig,
};
use rtwire_sys::clock::{self, Clock};
use rtwire_testkit::{NetnsPair, require};

fn talker_of_newest(pair: &NetnsPair, way: Way) -> Talker {
    let config = TalkerConfig {
        semantics: Semantics::Newest,
        ..talker_config(&pair.a, &pair.b, way, 1001)
    };
    talker(pair, &config)
}

fn noting(way: Way, wait: usize, arrivals: usize) -> ListenerConfig {
    let mut config = listener_config(way, 1001);
    (config.wake_up, config.order) = WAITS[wait];
    config.arrivals = arrivals;
    config
}

fn drained(listener: &mut NewestListener) -> Vec<ArrivalNote> {
    let mut found = Vec::new();
    let shown = listener.arrivals(|note| found.push(note));
    assert_eq!(shown, found.len() as u64);
    found
}

/// A listener that sleeps gets the arrival of every value. The moment of each send, before and after, bounds it: over a
/// veth a value comes within the call that sends it.
#[test]
fn a_listener_that_sleeps_gets_the_arrival_of_every_value() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    for way in WAYS {
        for wait in 0..WAITS.len() {
            let (_endpoint, mut listener) = newest_listener(&pair, way, &noting(way, wait, 256));
            let mut talker = talker_of_newest(&pair, way);
            // Kernel timestamps begin some time after they are asked for.
            let mut sent = 0_u32;
            loop {
                talker.send(&[0; 20]).unwrap();
                sent += 1;
                assert!(listener.wait(SOON).unwrap());
                listener.read().unwrap();
                if drained(&mut listener)
                    .iter()
                    .all(|note| note.stamp.is_on_the_way())
                {
                    break;
                }
            }
            let now = || clock::now_ns(Clock::Tai);
            let sends: Vec<(u64, u64)> = (0..200)
                .map(|_| {
                    // Spread over 20 ms, so that the time of fetching is none of these.
                    let start = now();
                    while now() < start + 100_000 {
                        std::hint::spin_loop();
                    }
                    let before = now();
                    talker.send(&[7; 20]).unwrap();
                    (before, now())
                })
                .collect();
            // A packet socket's values are noted when they are fetched.
            let newest = listener.read().unwrap().unwrap();
            assert_eq!((newest.sequence, newest.skipped), (sent + 199, 199));
            let notes = drained(&mut listener);
            let numbers: Vec<u32> = notes.iter().map(|note| note.sequence).collect();
            assert_eq!(
                numbers,
                (sent..sent + 200).collect::<Vec<_>>(),
                "{way:?} {wait}"
            );
            /// The kernel's fast clock differs from the vDSO's by the resolution of its updates, and a soft interrupt
            /// may finish the delivery.
            const SLACK_NS: u64 = 1_000_000;
            let mut late = 0;
            for (note, (before, after)) in notes.iter().zip(&sends) {
                assert!(note.stamp.is_on_the_way() && note.source_port == 7);
                assert!(
                    note.arrival_ns + SLACK_NS >= *before,
                    "{way:?} {wait} {note:?}"
                );
                late += usize::from(note.arrival_ns > after + SLACK_NS);
                let sender = note.sender_time_ns.unwrap();
                assert!(sender >= *before && sender <= *after);
            }
            assert!(
                late <= 20,
                "{late} of 200 stamps are of a later moment: {way:?} {wait}"
            );
            assert!(drained(&mut listener).is_empty());
            assert_eq!(listener.arrivals_missed(), 0);
        }
    }
}

#[test]
fn an_overrun_of_the_notes_is_counted() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    for way in WAYS {
        let (_endpoint, mut listener) = newest_listener(&pair, way, &noting(way, 1, 16));
        let mut talker = talker_of_newest(&pair, way);
        for value in 0..100_u8 {
            talker.send(&[value; 20]).unwrap();
        }
        listener.read().unwrap();
        let notes = drained(&mut listener);
        let shown = notes.len() as u64;
        assert_eq!(shown + listener.arrivals_missed(), 100, "{way:?}");
        // The receive program may be about to overwrite one.
        assert_eq!(shown, if way.in_program() { 15 } else { 16 });
        assert_eq!(notes.last().unwrap().sequence, 99);
    }
}

#[test]
fn without_a_request_nothing_is_noted() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    for way in WAYS {
        let (_endpoint, mut listener) = newest_listener(&pair, way, &noting(way, 0, 0));
        talker_of_newest(&pair, way).send(&[1; 20]).unwrap();
        assert!(listener.wait(SOON).unwrap());
        assert!(drained(&mut listener).is_empty());
        assert_eq!(listener.arrivals_missed(), 0);
    }
}
