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
