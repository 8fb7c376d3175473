use super::super::report::tests::{heard, said};
use super::*;

fn of(talkers: &[TalkerRow], listeners: &[ListenerRow]) -> (Verdict, Vec<String>) {
    judge(talkers, listeners, &Circumstances::default())
}

#[test]
fn frames_of_another_plan_and_beyond_the_contract_break() {
    let foreign = ListenerRow {
        frames_foreign: 3,
        ..heard(0, 0)
    };
    let (verdict, reasons) = of(&[], &[foreign]);
    assert_eq!(verdict, Verdict::Broken);
    assert!(reasons[0].contains("foreign plan"), "{reasons:?}");
    let long = ListenerRow {
        frames_too_long: 1,
        ..heard(5, 0)
    };
    assert_eq!(of(&[], &[long]).0, Verdict::Broken);
    let frequent = ListenerRow {
        frames_too_frequent: 1,
        ..heard(5, 0)
    };
    assert_eq!(of(&[], &[frequent]).0, Verdict::Broken);
}

#[test]
fn what_is_missing_breaks_and_silence_settles_nothing() {
    assert_eq!(of(&[], &[heard(5, 0)]).0, Verdict::Complete);
    assert_eq!(
        of(&[], &[heard(5, 0), heard(0, 0)]).0,
        Verdict::Inconclusive
    );
    let (verdict, reasons) = of(&[], &[heard(0, 0), heard(5, 1)]);
    assert_eq!(verdict, Verdict::Broken);
    assert_eq!(reasons.len(), 2, "{reasons:?}");
}

#[test]
fn late_cycles_break_unless_a_stall_explains_them() {
    let late = |unexplained, untold| TalkerRow {
        cycles_late: 3,
        cycles_unexplained: unexplained,
        cycles_untold: untold,
        ..said()
    };
    assert_eq!(of(&[said()], &[]).0, Verdict::Complete);
    let (verdict, reasons) = of(&[late(0, false)], &[]);
    assert_eq!(verdict, Verdict::Inconclusive);
    assert!(reasons[0].contains("machine stalled"), "{reasons:?}");
    let (verdict, reasons) = of(&[late(2, false)], &[]);
    assert_eq!(verdict, Verdict::Broken);
    assert!(reasons[0].contains("--no-noise"), "{reasons:?}");
    let recorded = Circumstances {
        noise: true,
        ..Circumstances::default()
    };
    let (verdict, reasons) = judge(&[late(2, false)], &[], &recorded);
    assert_eq!(verdict, Verdict::Inconclusive);
    assert!(reasons[0].contains("too short"), "{reasons:?}");
    let proof = TalkerRow {
        cycles_are_proof: true,
        ..late(2, false)
    };
    assert_eq!(judge(&[proof], &[], &recorded).0, Verdict::Broken);
    // A full record proves neither.
    assert_eq!(of(&[late(2, true)], &[]).0, Verdict::Inconclusive);
    let full = Circumstances {
        noise: true,
        noise_full: true,
        ..Circumstances::default()
    };
    assert_eq!(
        judge(&[late(2, false)], &[], &full).0,
        Verdict::Inconclusive
    );
}

#[test]
fn a_run_whose_stalls_are_doubted_is_never_complete() {
    let doubts = [
        "The noise thread of core 0 began as SCHED_FIFO 90 and ended as SCHED_OTHER 0.".to_owned(),
    ];
    let doubted = Circumstances {
        noise: true,
        noise_doubted: &doubts,
        ..Circumstances::default()
    };
    let (verdict, reasons) = judge(&[said()], &[heard(5, 0)], &doubted);
    assert_eq!(verdict, Verdict::Inconclusive);
    assert!(
        reasons[0].ends_with("SCHED_OTHER 0: so no recorded stall excuses anything"),
        "{reasons:?}"
    );
}

#[test]
fn a_run_that_was_cut_short_is_never_complete() {
    let cut = Circumstances {
        interrupted: Some((3_000_000_000, 60_000_000_000)),
        ..Circumstances::default()
    };
    let (verdict, reasons) = judge(&[said()], &[heard(5, 0)], &cut);
    assert_eq!(verdict, Verdict::Inconclusive);
    assert!(reasons[0].contains("3.000 s of 60.00 s"), "{reasons:?}");
}

#[test]
fn with_a_clock_that_was_set_only_what_is_counted_is_judged() {
    let step = ClockStep {
        at_ns: 7,
        by_ns: -3_600_000_000_000,
    };
    let set = Circumstances {
        noise: true,
        clocks_ns: Some(0),
        clock_steps: &[step],
        ..Circumstances::default()
    };
    let proof = TalkerRow {
        cycles_late: 2,
        cycles_unexplained: 2,
        cycles_are_proof: true,
        ..said()
    };
    let heard_late = ListenerRow {
        frames_late_unexplained: 4,
        frames_too_frequent: 9,
        ..heard(5, 0)
    };
    let (verdict, reasons) = judge(&[proof], &[heard_late], &set);
    assert_eq!(verdict, Verdict::Inconclusive, "{reasons:?}");
    assert!(reasons[0].contains("set back by 3600"), "{reasons:?}");
    assert_eq!(judge(&[], &[heard(5, 1)], &set).0, Verdict::Broken, "lost");
}

/// Promise 20 us, deadline 2 ms, 3.4 ms measured.
#[test]
fn delays_are_judged_as_far_as_the_clocks_are_known() {
    let row = |unexplained| ListenerRow {
        promise_ns: Some(20_000),
        deadline_ns: Some(2_000_000),
        frames_beyond_promise: 9,
        frames_beyond_deadline: 4,
        frames_late_unexplained: unexplained,
        ..heard(5, 0)
    };
    let known = Circumstances {
        clocks_ns: Some(2_000),
        ..Circumstances::default()
    };
    let (verdict, reasons) = of(&[], &[row(4)]);
    assert_eq!(verdict, Verdict::Inconclusive, "nobody knows the clocks");
    assert!(reasons[0].contains("--clock-uncertainty"), "{reasons:?}");
    let (verdict, reasons) = judge(&[], &[row(4)], &known);
    assert_eq!(verdict, Verdict::Broken);
    assert!(reasons[0].contains("deadline of 2.000 ms"), "{reasons:?}");
    let (verdict, reasons) = judge(&[], &[row(0)], &known);
    assert_eq!(verdict, Verdict::Inconclusive, "stalls explain the rest");
    assert!(reasons[0].contains("rtwire judge"), "{reasons:?}");
    let contradicting = ListenerRow {
        frames_contradicting: 1,
        ..heard(5, 0)
    };
    assert_eq!(
        judge(&[], &[contradicting], &known).0,
        Verdict::Inconclusive
    );
    let before = ListenerRow {
        frames_before_sent: 1,
        ..heard(5, 0)
    };
    assert_eq!(of(&[], &[before]).0, Verdict::Inconclusive);
}

/// The lab and `rtwire judge` call these broken: so does one end.
#[test]
fn doubled_and_overtaken_frames_and_unknown_arrivals_are_found() {
    let doubled = ListenerRow {
        frames_duplicated: 1,
        ..heard(5, 0)
    };
    let overtaken = ListenerRow {
        frames_reordered: 1,
        ..heard(5, 0)
    };
    for (row, words) in [(doubled, "arrived twice"), (overtaken, "sent later")] {
        let (verdict, reasons) = of(&[], std::slice::from_ref(&row));
        assert_eq!(verdict, Verdict::Broken, "{words}");
        assert!(reasons[0].contains(words), "{reasons:?}");
        let office = ListenerRow {
            best_effort: true,
            ..row
        };
        assert_eq!(of(&[], &[office]).0, Verdict::Complete, "{words}");
    }
    let unknown = ListenerRow {
        arrivals_missed: 3,
        ..heard(5, 0)
    };
    let (verdict, reasons) = of(&[], &[unknown]);
    assert_eq!(verdict, Verdict::Inconclusive);
    assert!(reasons[0].contains("no room"), "{reasons:?}");
}
