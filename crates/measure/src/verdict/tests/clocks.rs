//! Hosts whose clocks may differ.

use super::*;

/// A stream whose clocks may differ by `clocks`, all of its receive stamps moved by `offset`.
fn apart(delays: &[u64], clocks: Option<u64>, offset: i64) -> Evidence {
    let mut stream = stream(delays);
    stream.clock_uncertainty_ns = clocks;
    for sample in &mut stream.samples {
        sample.rx_ns = sample.rx_ns.map(|rx| rx.saturating_add_signed(offset));
    }
    evidence(stream)
}

#[test]
fn a_delay_is_judged_only_beyond_the_difference_of_the_clocks() {
    let u = 100 * US;
    let limits = [
        // Delay, verdict.
        (PROMISE - u, Verdict::Kept),
        (PROMISE - u + 1, Verdict::Inconclusive),
        (PROMISE, Verdict::Inconclusive),
        (PROMISE + u, Verdict::Inconclusive),
        (PROMISE + u + 1, Verdict::Broken),
    ];
    for (delay, expected) in limits {
        let (verdict, reason) = verdict_of(&apart(&with_late(2_000, [7], delay), Some(u), 0));
        assert_eq!(verdict, expected, "{delay}: {reason}");
    }
    // With one clock the promise itself is the limit.
    assert_eq!(
        verdict_of(&apart(&with_late(2_000, [7], PROMISE + 1), Some(0), 0)).0,
        Verdict::Broken
    );
}

#[test]
fn a_frame_before_its_time_is_the_clocks_fault_and_named() {
    let u = 600 * US;
    // 500 us of delay, the listener's clock behind by 1 ms: 500 us before it was sent, and u allows that.
    assert_eq!(
        verdict_of(&apart(&good(2_000), Some(u), -1_000_000)).0,
        Verdict::Kept
    );
    let (verdict, reason) = verdict_of(&apart(&good(2_000), Some(u), -1_200_000));
    assert_eq!(verdict, Verdict::Inconclusive);
    assert!(
        reason.contains("before they were sent, by up to 700"),
        "{reason}"
    );
}

#[test]
fn clocks_that_nobody_knows_settle_nothing() {
    for delays in [good(2_000), vec![20 * PROMISE; 2_000]] {
        let (verdict, reason) = verdict_of(&apart(&delays, None, 0));
        assert_eq!(verdict, Verdict::Inconclusive);
        assert!(reason.contains("Nobody knows"), "{reason}");
    }
}

/// A stall excuses what it explains, beside the clocks.
#[test]
fn a_stall_and_the_clocks_add_up() {
    let u = 100 * US;
    let delay = PROMISE + u + 50 * US;
    let mut evidence = apart(&with_late(20_000, [700], delay), Some(u), 0);
    assert_eq!(verdict_of(&evidence).0, Verdict::Broken);
    let at = evidence.streams[0].samples[700].tx_ns.unwrap();
    evidence.stalls = stalls([core_stall(at, at + 51 * US)]);
    assert_eq!(verdict_of(&evidence).0, Verdict::Kept);
}

/// Without a stamp the delay between the applications stands in. It compares two clocks, too.
#[test]
fn a_frame_without_stamps_is_in_time_only_as_far_as_the_clocks_tell() {
    let u = 100 * US;
    // 30 us more lie between the applications.
    let limits = [
        (PROMISE - 30 * US - u, Verdict::Kept),
        (PROMISE - 30 * US - u + 1, Verdict::Inconclusive),
    ];
    for (delay, expected) in limits {
        let mut evidence = apart(&with_late(2_000, [7], delay), Some(u), 0);
        evidence.streams[0].samples[7].rx_ns = None;
        let (verdict, reason) = verdict_of(&evidence);
        assert_eq!(verdict, expected, "{delay}: {reason}");
        // By the programs' times it was in time, whatever the clocks are.
        let sample = &mut evidence.streams[0].samples[7];
        sample.app_rx_ns = sample.app_tx_ns - u + PROMISE - u + 1;
        assert_eq!(verdict_of(&evidence).0, Verdict::Kept, "{reason}");
        // A newer value overtook it: no program's time tells anything.
        evidence.streams[0].samples[7].app_rx_ns = 0;
        assert_eq!(verdict_of(&evidence).0, Verdict::Inconclusive);
    }
}

/// A deadline below the promise is met only as far as the clocks tell.
#[test]
fn a_deadline_below_the_promise_is_met_only_beyond_the_difference_of_the_clocks() {
    let (u, deadline) = (100 * US, PROMISE - 300 * US);
    for (delay, expected) in [
        (deadline - u, Verdict::Kept),
        (deadline - u + 1, Verdict::Inconclusive),
        (deadline + u, Verdict::Inconclusive),
    ] {
        let mut evidence = apart(&with_late(2_000, [7], delay), Some(u), 0);
        evidence.streams[0].deadline_ns = Some(deadline);
        let (verdict, reason) = verdict_of(&evidence);
        assert_eq!(verdict, expected, "{delay}: {reason}");
    }
}

/// Clocks that may differ by the promise leave no frame decided: the report says how closely they must agree.
#[test]
fn clocks_that_decide_nothing_are_told_how_closely_they_must_agree() {
    let said = |u| verdict_of(&apart(&good(2_000), Some(u), 0)).1;
    let remedy = "must agree to within less than 1.000 ms";
    assert!(said(PROMISE).contains(remedy), "{}", said(PROMISE));
    assert!(said(2 * PROMISE).contains(remedy));
    assert!(!said(PROMISE - 1).contains(remedy), "a part is undecided");
}
