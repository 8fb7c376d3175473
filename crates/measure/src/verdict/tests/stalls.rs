//! The effects that a recorded stall of the machine excuses, and those that it does not.

use super::*;

#[test]
fn a_recorded_stall_excuses_as_much_as_it_was_long() {
    // Sent at 710 ms; the machine stalled from 710.2 to 713.2 ms.
    let stalled = stalls([core_stall(710 * MS + 200 * US, 713 * MS + 200 * US)]);
    let arriving_after = |delay| Evidence {
        stalls: stalled.clone(),
        ..evidence(stream(&with_late(2_000, [700], delay)))
    };
    assert_says(
        &arriving_after(PROMISE + 3 * MS),
        Verdict::Kept,
        "2 000 frames arrived",
    );
    let judgement = judge(&arriving_after(PROMISE + 3 * MS));
    assert_eq!(judgement.streams[0].samples_excluded(), 1);
    assert!(
        judgement.reasons[1].contains("1 frame delivered late by recorded stalls"),
        "{:?}",
        judgement.reasons
    );
    assert_says(
        &arriving_after(PROMISE + 3 * MS + 1),
        Verdict::Broken,
        "no recorded stall",
    );
}

#[test]
fn a_stall_elsewhere_in_time_excuses_nothing() {
    let late = with_late(2_000, [700], PROMISE + 2 * MS);
    for stall in [
        core_stall(100 * MS, 103 * MS),
        core_stall(720 * MS, 1_000 * MS),
    ] {
        let e = Evidence {
            stalls: stalls([stall]),
            ..evidence(stream(&late))
        };
        assert_says(&e, Verdict::Broken, "no recorded stall");
    }
}

#[test]
fn only_what_can_delay_a_frame_on_its_way_excuses() {
    let late = with_late(2_000, [700], PROMISE + 2 * MS);
    let stall = |source| Stall {
        source,
        ..core_stall(710 * MS, 713 * MS)
    };
    for (source, verdict) in [
        (StallSource::Core(1), Verdict::Kept),
        (StallSource::Switch("s1".to_owned()), Verdict::Kept),
        (StallSource::Talker("C-to-B".to_owned()), Verdict::Broken),
        (StallSource::Listener("C-to-B".to_owned()), Verdict::Broken),
    ] {
        let e = Evidence {
            stalls: stalls([stall(source)]),
            ..evidence(stream(&late))
        };
        assert_eq!(verdict_of(&e).0, verdict);
    }
}

#[test]
fn stalls_of_several_cores_at_once_count_once() {
    let late = with_late(2_000, [700], PROMISE + 4 * MS);
    let both = stalls([
        core_stall(710 * MS, 713 * MS),
        Stall {
            source: StallSource::Core(1),
            ..core_stall(710 * MS, 713 * MS)
        },
    ]);
    assert_says(
        &Evidence {
            stalls: both,
            ..evidence(stream(&late))
        },
        Verdict::Broken,
        "no recorded stall",
    );
}

#[test]
fn a_stall_that_began_before_it_was_noticed_makes_doubt() {
    let late = with_late(2_000, [700], PROMISE + 3 * MS);
    let noticed = Stall {
        alive_ns: 710 * MS,
        ..core_stall(710 * MS + 200 * US, 713 * MS + 100 * US)
    };
    let e = Evidence {
        stalls: stalls([noticed]),
        ..evidence(stream(&late))
    };
    assert_says(
        &e,
        Verdict::Inconclusive,
        "only if the stall began before it was noticed",
    );
    assert_eq!(judge(&e).streams[0].samples_excluded(), 1);
}

#[test]
fn more_than_one_percent_excluded_is_inconclusive() {
    let with_excused = |count: usize| {
        let late = with_late(10_000, (0..count).map(|i| 100 + i * 2), PROMISE + MS);
        // Long enough to reach them all, so that exposure stays small and only the share decides.
        let stall = core_stall(110 * MS, 112 * MS + count as u64 * 2 * MS);
        Evidence {
            stalls: stalls([stall]),
            rule: Rule {
                max_exposed_ppm: 1_000_000,
                ..Rule::default()
            },
            ..evidence(stream(&late))
        }
    };
    assert_says(&with_excused(100), Verdict::Kept, "arrived");
    assert_says(
        &with_excused(101),
        Verdict::Inconclusive,
        "more than 1 % is too much to judge",
    );
}

/// A test against deliberate stalls: they must not turn a broken promise into a kept one.
#[test]
fn noise_everywhere_is_no_excuse() {
    let late = with_late(20_000, (0..20_000).step_by(500), PROMISE + 200 * US);
    let injected = stalls(
        (0..2_000).map(|i| core_stall(10 * MS + i * 10 * MS, 10 * MS + i * 10 * MS + 900 * US)),
    );
    let e = Evidence {
        stalls: injected,
        ..evidence(stream(&late))
    };
    assert_says(&e, Verdict::Inconclusive, "an excuse proves nothing");
    // The same noise beside a promise that was kept all along changes nothing.
    let e = Evidence {
        stalls: e.stalls,
        ..evidence(stream(&good(20_000)))
    };
    assert_says(&e, Verdict::Kept, "slowest 500.0 µs");
}
