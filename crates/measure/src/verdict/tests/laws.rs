//! The laws of the rule under random evidence.

use proptest::prelude::*;

use super::*;

fn random_evidence() -> impl Strategy<Value = Evidence> {
    let delays = prop::collection::vec(
        prop_oneof![40 => 0..PROMISE, 1 => PROMISE..PROMISE + 3 * MS],
        20..300,
    );
    let spans = prop::collection::vec((0u64..320 * MS, 0u64..4 * MS, 0u64..250 * US), 0..8);
    let rule = (0u32..200_000, 0u32..1_000_000).prop_map(|(excluded, exposed)| Rule {
        min_samples: 20,
        max_excluded_ppm: excluded,
        max_exposed_ppm: exposed,
        ..Rule::default()
    });
    (delays, spans, rule, 500_000u32..1_050_000, 0u64..10 * MS).prop_map(
        |(delays, spans, rule, u, hold)| {
            let stall = |(at, length, before): (u64, u64, u64)| Stall {
                alive_ns: at,
                due_ns: at + before,
                woke_ns: at + before + length,
                source: StallSource::Core(0),
            };
            let stream = StreamEvidence {
                utilization_ppm: u,
                hold_ns: hold,
                ..stream(&delays)
            };
            Evidence {
                rule,
                stalls: stalls(spans.into_iter().map(stall)),
                ..evidence(stream)
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// "Kept" means what it says, checked from first principles without the code under test.
    #[test]
    fn kept_means_kept(e in random_evidence()) {
        let j = judge(&e);
        if j.verdict != Verdict::Kept {
            return Ok(());
        }
        let samples = &e.streams[0].samples;
        let late: Vec<_> = samples.iter().filter(|s| s.network_delay_ns().unwrap() > PROMISE).collect();
        prop_assert!(late.len() as u64 * 1_000_000 <= samples.len() as u64 * u64::from(e.rule.max_excluded_ppm));
        prop_assert_eq!(late.len() as u64, j.streams[0].samples_excluded());
        let total: u64 = StallLine::new(e.stalls.certain()).total_ns();
        for s in late {
            prop_assert!(s.network_delay_ns().unwrap() - PROMISE <= total, "never later than all stalls together");
            prop_assert!(e.stalls.certain().any(|(from, _)| from < s.rx_ns.unwrap()), "a stall came first");
        }
    }

    /// Without stalls, one late frame is enough.
    #[test]
    fn nothing_excuses_on_a_quiet_machine(mut e in random_evidence()) {
        e.stalls.stalls.clear();
        let late = e.streams[0].samples.iter().any(|s| s.network_delay_ns().unwrap() > PROMISE);
        prop_assert_eq!(judge(&e).verdict, if late { Verdict::Broken } else { Verdict::Kept });
    }

    /// More noise never leads to "broken", and leads to "kept" only within the stated shares.
    #[test]
    fn adding_stalls(e in random_evidence(), at in 0u64..320 * MS, length in 1u64..8 * MS) {
        let before = judge(&e);
        let mut noisier = e.clone();
        noisier.stalls.stalls.push(core_stall(at, at + length));
        let after = judge(&noisier);
        prop_assert!(after.verdict < Verdict::Broken || before.verdict == Verdict::Broken);
        prop_assert_eq!(after.streams[0].late, before.streams[0].late, "a late frame stays a late frame");
        if before.verdict == Verdict::Broken && after.verdict == Verdict::Kept {
            let (s, n) = (&after.streams[0], e.streams[0].samples.len() as u64);
            prop_assert_eq!(s.excused, s.late);
            prop_assert!(s.late * 1_000_000 <= n * u64::from(e.rule.max_excluded_ppm));
            prop_assert!(s.exposed * 1_000_000 <= n * u64::from(e.rule.max_exposed_ppm));
        }
        if before.streams[0].late == 0 {
            prop_assert_eq!(after.verdict, Verdict::Kept, "noise does not touch what was in time");
        }
    }

    /// Leaving frames out of the record never makes it kept.
    #[test]
    fn removing_samples(e in random_evidence(), which in any::<prop::sample::Index>()) {
        let mut fewer = e.clone();
        let samples = &mut fewer.streams[0].samples;
        let at = which.index(samples.len());
        samples.remove(at);
        prop_assert_ne!(judge(&fewer).verdict, Verdict::Kept);
        // Nor does it help to deny that the frame arrived: then it is lost.
        fewer.streams[0].frames_received -= 1;
        prop_assert_eq!(judge(&fewer).verdict, Verdict::Broken);
        // Nor to take its stamps away.
        let mut unstamped = e.clone();
        unstamped.streams[0].samples[at].rx_ns = None;
        // except where the application's own stamps prove that the frame was in time.
        let proven = e.streams[0].samples[at].app_delay_ns().is_some_and(|delay| delay <= PROMISE);
        let kept_before = judge(&e).verdict == Verdict::Kept;
        prop_assert!(judge(&unstamped).verdict != Verdict::Kept || kept_before || proven);
    }

    /// A frame that comes later never improves the verdict.
    #[test]
    fn monotone_in_lateness(e in random_evidence(), which in any::<prop::sample::Index>(), more in 1u64..5 * MS) {
        let mut later = e.clone();
        let at = which.index(later.streams[0].samples.len());
        let sample = &mut later.streams[0].samples[at];
        sample.rx_ns = sample.rx_ns.map(|rx| rx + more);
        sample.app_rx_ns += more;
        prop_assert!(judge(&later).verdict >= judge(&e).verdict);
    }

    /// Nor does a stricter promise.
    #[test]
    fn monotone_in_the_promise(e in random_evidence(), less in 1u64..PROMISE) {
        let mut stricter = e.clone();
        stricter.streams[0].promise_ns = Some(PROMISE - less);
        prop_assert!(judge(&stricter).verdict >= judge(&e).verdict);
    }
}
