//! Tests of the explanation of late answers: whose stalls count, accident, and a full record.

use super::*;
use rtwire_measure::noise::{CoreNoise, Stall, StallSource};
use rtwire_sys::clock::{Clock, now_ns};

const MS: u64 = 1_000_000;
const START_NS: u64 = 1_000_000 * MS;

fn late(number: u64, sent_ns: u64, took_ns: u64, core: u32) -> Late {
    Late {
        number,
        sent_ns,
        answered_ns: sent_ns + took_ns,
        cores: [core, core],
        call: OwnCall::default(),
    }
}

/// A record of 5 s with a stall of this length on each of these cores, every 10 ms.
fn record(cores: &[u32], length_ns: u64) -> NoiseRecord {
    let stalls = (0..500).flat_map(|at| {
        cores.iter().map(move |&core| {
            let due_ns = START_NS + at * 10 * MS + 5 * MS;
            Stall {
                source: StallSource::Core(core),
                alive_ns: due_ns,
                due_ns,
                woke_ns: due_ns + length_ns,
            }
        })
    });
    NoiseRecord {
        from_ns: START_NS,
        to_ns: START_NS + 5000 * MS,
        stalls: stalls.collect(),
        ..NoiseRecord::default()
    }
}

/// Judges late answers by one record, with a deadline of 75 µs.
fn judged(record: NoiseRecord, lates: Vec<Late>) -> Found {
    let found = Arc::<Mutex<Found>>::default();
    let mut keeper = Keeper {
        notes: sync_channel(1).1,
        found: Arc::clone(&found),
        deadline_ns: 75_000,
        also: Vec::new(),
        waiting: lates,
        before: NoiseRecord::default(),
    };
    keeper.judge(record, true);
    locked(&found).clone()
}

#[test]
fn what_no_record_covers_stays_unexplained() {
    rtwire_testkit::require!(root);
    let options = options(100_000, Vec::new());
    let mut explainer = Explainer::start(options, 100_000, Vec::new()).unwrap();
    let now = now_ns(Clock::Tai);
    explainer.note(late(0, now - 3_600_000_000_000, 3_600_000_000_000, 0));
    explainer.finish();
    let found = explainer.found();
    assert_eq!((found.explained(), found.unexplained()), (0, 1));
}

#[test]
fn only_stalls_of_the_cores_that_it_passed_explain_a_miss() {
    // Each lies in a stall of core 1, which lasts 500 µs; no other core stalls.
    let in_stall = |at, core| late(at, START_NS + at * 100 * MS + 5 * MS, 520_000, core);
    let on_core = |core| (0..40).map(|at| in_stall(at, core)).collect();
    let found = judged(record(&[1], 500_000), on_core(1));
    assert_eq!((found.explained(), found.unexplained()), (40, 0));
    assert!(found.by_chance < 2.0, "{found:?}");
    let found = judged(record(&[1], 500_000), on_core(0));
    assert_eq!((found.explained(), found.unexplained()), (0, 40));
}

#[test]
fn a_send_call_that_took_as_long_as_usual_is_no_stall() {
    // The record's thread of core 0 was due at the beginning of each send call, which lasts 60 µs, and woke at its end. The
    // answer to each second question was late by 100 µs for another reason; each other send call lasted 100 µs longer.
    let question = |at: u64| START_NS + at * 10 * MS + 5 * MS;
    let call_ns = |at: u64| 60_000 + 100_000 * (at % 2);
    let stall = |at| Stall {
        source: StallSource::Core(0),
        alive_ns: question(at) - 70_000,
        due_ns: question(at) + 5_000,
        woke_ns: question(at) + 5_000 + call_ns(at),
    };
    let with_calls = NoiseRecord {
        stalls: (0..400).map(stall).collect(),
        ..record(&[], 0)
    };
    let miss = |at: u64| Late {
        call: OwnCall {
            took_ns: call_ns(at),
            usual_ns: 60_000,
        },
        ..late(at, question(at), 165_000, 0)
    };
    let found = judged(with_calls, (0..400).map(miss).collect());
    let in_stalls = found.misses.iter().filter(|miss| miss.in_stall);
    assert!(in_stalls.clone().all(|miss| miss.number % 2 == 1));
    assert_eq!((found.explained(), found.unexplained()), (200, 200));
}

#[test]
fn misses_that_meet_stalls_by_accident_are_not_explained() {
    // Of evenly spread misses as many meet a stall as a random moment does.
    let spread = |at: u64| late(at, START_NS + at * 4_170_017 % (4_900 * MS), 150_000, 0);
    let stall = |at: u64| Stall {
        source: StallSource::Core(0),
        alive_ns: START_NS + at * 400_000,
        due_ns: START_NS + at * 400_000 + 100_000,
        woke_ns: START_NS + at * 400_000 + 145_000,
    };
    let often = NoiseRecord {
        stalls: (0..12_500).map(stall).collect(),
        ..record(&[], 0)
    };
    let found = judged(often, (0..1000).map(spread).collect());
    assert!(found.in_stalls > 100, "{found:?}");
    let close = (found.by_chance - found.in_stalls as f64).abs() < 60.0;
    assert!(close, "{found:?}");
    assert!(found.is_accident(), "{found:?}");
    assert_eq!((found.explained(), found.unexplained()), (0, 1000));
}

#[test]
fn a_full_record_is_named_with_its_core_where_a_miss_passed_it() {
    let core = |core, dropped_stalls| CoreNoise {
        core,
        policy: "SCHED_FIFO".to_owned(),
        priority: 99,
        policy_at_end: "SCHED_FIFO".to_owned(),
        priority_at_end: 99,
        fallback: None,
        overshoot_ns: None,
        histogram: Vec::new(),
        steal_ns: 0,
        stalls: 500 + dropped_stalls,
        stalled_ns: 0,
        dropped_stalls,
    };
    let full = || NoiseRecord {
        cores: vec![core(0, 7), core(1, 0)],
        ..record(&[0, 1], 100_000)
    };
    let miss = |core| vec![late(0, START_NS + 50 * MS, 300_000, core)];
    assert_eq!(judged(full(), miss(0)).full(), [(0, 7)]);
    let other = judged(full(), miss(1));
    assert_eq!(other.full(), []);
    let records: Vec<_> = other.records().collect();
    assert_eq!(
        (records.len(), records[0].0, records[0].1.stalls),
        (1, 1, 500)
    );
    let share = other.share(records[0].1);
    assert!((share - 0.01).abs() < 1e-9, "100 µs of each 10 ms: {share}");
}
