//! Tests of the rule: each sentence of it, and its laws under random evidence.

use proptest::prelude::*;

use super::*;
use crate::noise::{Stall, StallRecord, StallSource};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const PROMISE: u64 = MS;

/// A stream of `delays`, one frame each millisecond from 10 ms on, promised 1 ms, at u = 0.9.
fn stream(delays: &[u64]) -> StreamEvidence {
    let n = delays.len() as u64;
    let sample = |(i, delay): (usize, &u64)| {
        let tx = 10 * MS + i as u64 * MS;
        let app_tx = tx - 10 * US;
        Sample {
            seq: i as u32,
            tx_ns: Some(tx),
            rx_ns: Some(tx + delay),
            app_tx_ns: app_tx,
            app_rx_ns: tx + delay + 20 * US,
        }
    };
    StreamEvidence {
        name: "C-to-B".to_owned(),
        listener: "B".to_owned(),
        promise_ns: Some(PROMISE),
        deadline_ns: None,
        published_max_ns: None,
        samples: delays.iter().enumerate().map(sample).collect(),
        frames_planned: n,
        frames_sent: n,
        frames_received: n,
        frames_overtaken: 0,
        frames_duplicated: 0,
        frames_reordered: 0,
        listener_drops: 0,
        route: vec![PortId::new("C", "s1"), PortId::new("s1", "B")],
        link_rate_bps: 100_000_000,
        utilization_ppm: 900_000,
        hold_ns: 0,
        unseen_ns: 0,
    }
}

fn evidence(stream: StreamEvidence) -> Evidence {
    Evidence {
        streams: vec![stream],
        ..Evidence::default()
    }
}

fn good(n: usize) -> Vec<u64> {
    vec![500 * US; n]
}

/// `n` frames in time, except that those at `late` take `delay`.
fn with_late(n: usize, late: impl IntoIterator<Item = usize>, delay: u64) -> Vec<u64> {
    let mut delays = good(n);
    for i in late {
        delays[i] = delay;
    }
    delays
}

fn core_stall(from: u64, to: u64) -> Stall {
    Stall {
        source: StallSource::Core(0),
        alive_ns: from,
        due_ns: from,
        woke_ns: to,
    }
}

fn stalls(stalls: impl IntoIterator<Item = Stall>) -> StallRecord {
    StallRecord {
        stalls: stalls.into_iter().collect(),
    }
}

fn verdict_of(evidence: &Evidence) -> (Verdict, String) {
    let judgement = judge(evidence);
    assert!(
        !judgement.reasons.is_empty() && judgement.streams.iter().all(|s| !s.reasons.is_empty())
    );
    (
        judgement.streams[0].verdict,
        judgement.streams[0].reasons[0].clone(),
    )
}

fn assert_says(evidence: &Evidence, verdict: Verdict, words: &str) {
    let (found, reason) = verdict_of(evidence);
    assert_eq!(found, verdict, "{reason}");
    assert!(
        reason.replace('\u{a0}', " ").contains(words),
        "{reason:?} should say {words:?}"
    );
    assert!(
        judge(evidence).verdict >= verdict,
        "the whole is no better than its parts"
    );
}

#[test]
fn all_in_time_is_kept() {
    assert_says(
        &evidence(stream(&good(2_000))),
        Verdict::Kept,
        "promised 1.000 ms, slowest 500.0 µs",
    );
    let exactly = with_late(2_000, [7], PROMISE);
    assert_says(
        &evidence(stream(&exactly)),
        Verdict::Kept,
        "slowest 1.000 ms",
    );
}

#[test]
fn one_late_frame_breaks_it() {
    let late = with_late(20_000, [700], PROMISE + 1);
    assert_says(
        &evidence(stream(&late)),
        Verdict::Broken,
        "1 of 20 000 frames took longer than the promised 1.000 ms",
    );
}

#[test]
fn a_recorded_stall_excuses_as_much_as_it_was_long() {
    // Sent at 710 ms; the machine stood still from 710.2 to 713.2 ms.
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
        judgement.reasons[1].contains("1 late frame excluded"),
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
        "only if it began before it was noticed",
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

/// Somebody who wants a broken promise to look kept lets the machine stall all the time.
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

#[test]
fn loss_duplicates_and_disorder_break_it() {
    let lost = StreamEvidence {
        frames_planned: 2_001,
        frames_sent: 2_001,
        ..stream(&good(2_000))
    };
    assert_says(
        &evidence(lost.clone()),
        Verdict::Broken,
        "Lost in the network: 1 of 2 001 frames",
    );
    let own = StreamEvidence {
        listener_drops: 1,
        ..lost
    };
    assert_says(
        &evidence(own),
        Verdict::Inconclusive,
        "the listener's own socket",
    );
    let twice = StreamEvidence {
        frames_duplicated: 2,
        ..stream(&good(2_000))
    };
    assert_says(&evidence(twice), Verdict::Broken, "2 frames arrived twice");
    let disorder = StreamEvidence {
        frames_reordered: 3,
        ..stream(&good(2_000))
    };
    assert_says(
        &evidence(disorder),
        Verdict::Broken,
        "3 frames arrived after one that was sent later",
    );
}

#[test]
fn too_little_evidence_is_inconclusive() {
    assert_says(
        &evidence(stream(&good(999))),
        Verdict::Inconclusive,
        "a verdict needs 1 000",
    );
    assert_says(
        &evidence(stream(&[])),
        Verdict::Inconclusive,
        "Only 0 frames",
    );
    let idle = StreamEvidence {
        frames_planned: 2_021,
        ..stream(&good(2_000))
    };
    assert_says(
        &evidence(idle),
        Verdict::Inconclusive,
        "the load was not offered",
    );
    let enough = StreamEvidence {
        frames_planned: 2_020,
        ..stream(&good(2_000))
    };
    assert_eq!(verdict_of(&evidence(enough)).0, Verdict::Kept);
    let mut unrecorded = stream(&good(2_000));
    unrecorded.samples.pop();
    assert_says(
        &evidence(unrecorded),
        Verdict::Inconclusive,
        "2 000 frames arrived but 1 999 were recorded",
    );
    // Frames in time, counted twice, would thin out the late ones.
    let mut padded = stream(&good(2_000));
    padded.samples[9] = padded.samples[8];
    assert_says(
        &evidence(padded),
        Verdict::Inconclusive,
        "among the samples twice",
    );
    let contradiction = StreamEvidence {
        frames_sent: 1_999,
        frames_planned: 1_999,
        ..stream(&good(2_000))
    };
    assert_says(
        &evidence(contradiction),
        Verdict::Inconclusive,
        "contradicts itself",
    );
}

#[test]
fn missing_stamps_hide_nothing() {
    let without = |count: usize, delay: u64| {
        let mut s = stream(&with_late(2_000, 0..count, delay));
        for sample in &mut s.samples[..count] {
            sample.tx_ns = None;
        }
        evidence(s)
    };
    assert_says(&without(20, 500 * US), Verdict::Kept, "arrived");
    assert_says(
        &without(21, 500 * US),
        Verdict::Inconclusive,
        "no kernel time stamps",
    );
    // One frame without stamps of which not even the application can say that it was in time.
    assert_says(&without(1, 990 * US), Verdict::Inconclusive, "nobody knows");
    // Stamps that run backwards are of something else: the same as none.
    let mut backwards = stream(&good(2_000));
    backwards.samples[5].rx_ns = Some(1);
    backwards.samples[5].app_rx_ns += 5 * MS;
    assert_says(&evidence(backwards), Verdict::Inconclusive, "nobody knows");
}

#[test]
fn a_talker_beyond_its_contract_makes_the_others_inconclusive_as_far_as_it_explains() {
    let other = |ports: Vec<PortId>, bits| TalkerEvidence {
        stream: "D-to-B".to_owned(),
        ports,
        rate_bps: 32_000_000,
        tick_error_declared_ns: 100 * US,
        tick_overshoot_max_ns: 100 * US,
        shaper_caps_burst: true,
        contract_excess_bits: Some(bits),
    };
    let late = with_late(2_000, [700], PROMISE + 100 * US);
    let with = |talkers| Evidence {
        talkers,
        ..evidence(stream(&late))
    };
    let shared = vec![PortId::new("D", "s1"), PortId::new("s1", "B")];
    // 10 000 bits at 100 Mbit/s are 100 µs.
    assert_says(
        &with(vec![other(shared.clone(), 10_000)]),
        Verdict::Inconclusive,
        "beyond its contract",
    );
    assert_says(
        &with(vec![other(shared.clone(), 9_999)]),
        Verdict::Broken,
        "no recorded stall",
    );
    assert_says(
        &with(vec![other(
            vec![PortId::new("D", "s1"), PortId::new("s1", "E")],
            10_000,
        )]),
        Verdict::Broken,
        "",
    );
    // It also reaches through a third one whose port it shares.
    let bridge = TalkerEvidence {
        contract_excess_bits: Some(0),
        ..other(vec![PortId::new("s1", "B"), PortId::new("s0", "s1")], 0)
    };
    assert_says(
        &with(vec![other(vec![PortId::new("s0", "s1")], 10_000), bridge]),
        Verdict::Inconclusive,
        "beyond its contract",
    );
}

#[test]
fn what_a_late_tick_is_worth_where_nobody_looked_at_the_stamps() {
    let talker = TalkerEvidence {
        stream: "C".to_owned(),
        ports: vec![],
        rate_bps: 30_000_000,
        tick_error_declared_ns: 100 * US,
        tick_overshoot_max_ns: 200 * US,
        shaper_caps_burst: false,
        contract_excess_bits: None,
    };
    assert_eq!(talker.excess_bits(), 3_000);
    assert_eq!(
        TalkerEvidence {
            shaper_caps_burst: true,
            ..talker.clone()
        }
        .excess_bits(),
        0
    );
    assert_eq!(
        TalkerEvidence {
            contract_excess_bits: Some(5),
            ..talker
        }
        .excess_bits(),
        5
    );
}

#[test]
fn without_a_promise_nothing_is_kept() {
    let none = StreamEvidence {
        promise_ns: None,
        ..stream(&good(2_000))
    };
    assert_says(
        &evidence(none.clone()),
        Verdict::Inconclusive,
        "nothing to keep",
    );
    let deadline = StreamEvidence {
        deadline_ns: Some(400 * US),
        ..none.clone()
    };
    assert_says(
        &evidence(deadline),
        Verdict::Broken,
        "longer than the deadline of 400.0 µs",
    );
    let lost = StreamEvidence {
        frames_sent: 2_001,
        frames_planned: 2_001,
        ..none
    };
    assert_says(&evidence(lost), Verdict::Broken, "Lost in the network");
}

fn port() -> PortEvidence {
    PortEvidence {
        id: PortId::new("s1", "B"),
        link_rate_bps: 100_000_000,
        promised_backlog_bytes: Some(100_000),
        buffer_bytes: Some(130_204),
        max_backlog_bytes: Some(90_000),
        frames_dropped: 0,
        drop_windows: vec![],
        backlog: vec![BacklogSample {
            from_ns: 700 * MS,
            to_ns: 701 * MS,
            max_bytes: 90_000,
        }],
        utilization_ppm: 900_000,
        hold_ns: 0,
        utilization_percent: 90.0,
    }
}

#[test]
fn ports() {
    let with = |port: PortEvidence, stall: Option<Stall>, lost: u64| {
        let n = 2_000 + lost;
        let s = StreamEvidence {
            frames_sent: n,
            frames_planned: n,
            ..stream(&good(2_000))
        };
        judge(&Evidence {
            ports: vec![port],
            stalls: stalls(stall),
            ..evidence(s)
        })
    };
    assert_eq!(with(port(), None, 0).verdict, Verdict::Kept);

    let over = PortEvidence {
        max_backlog_bytes: Some(110_000),
        backlog: vec![BacklogSample {
            from_ns: 700 * MS,
            to_ns: 701 * MS,
            max_bytes: 110_000,
        }],
        ..port()
    };
    assert_eq!(with(over.clone(), None, 0).verdict, Verdict::Broken);
    // 10 000 B are 800 µs at 100 Mbit/s.
    let j = with(
        over.clone(),
        Some(core_stall(700 * MS, 700 * MS + 800 * US)),
        0,
    );
    assert_eq!(j.verdict, Verdict::Inconclusive, "{:?}", j.reasons);
    assert_eq!(
        with(
            over.clone(),
            Some(core_stall(700 * MS, 700 * MS + 799 * US)),
            0
        )
        .verdict,
        Verdict::Broken
    );
    let unseen = PortEvidence {
        backlog: vec![],
        ..over
    };
    assert_eq!(
        with(unseen, Some(core_stall(700 * MS, 710 * MS)), 0).verdict,
        Verdict::Broken
    );

    let dropped = PortEvidence {
        frames_dropped: 2,
        drop_windows: vec![DropWindow {
            from_ns: 700 * MS,
            to_ns: 705 * MS,
            frames: 2,
        }],
        ..port()
    };
    assert_eq!(with(dropped.clone(), None, 2).verdict, Verdict::Broken);
    // 30 204 B of spare buffer are 2 416.32 µs.
    let j = with(
        dropped.clone(),
        Some(core_stall(701 * MS, 703 * MS + 417 * US)),
        2,
    );
    assert_eq!(j.verdict, Verdict::Inconclusive, "{:?}", j.reasons);
    assert_eq!(
        j.streams[0].verdict,
        Verdict::Inconclusive,
        "the stream's loss is explained with it"
    );
    assert_eq!(
        with(
            dropped.clone(),
            Some(core_stall(701 * MS, 703 * MS + 416 * US)),
            2
        )
        .verdict,
        Verdict::Broken
    );
    assert_eq!(
        with(
            dropped.clone(),
            Some(core_stall(701 * MS, 703 * MS + 417 * US)),
            3
        )
        .verdict,
        Verdict::Broken,
        "one more lost than dropped"
    );
    let more = PortEvidence {
        frames_dropped: 3,
        ..dropped
    };
    assert_eq!(
        with(more, Some(core_stall(701 * MS, 704 * MS)), 2).verdict,
        Verdict::Broken,
        "nobody knows when the third was dropped"
    );

    let unknown = PortEvidence {
        max_backlog_bytes: None,
        ..port()
    };
    assert_eq!(with(unknown, None, 0).verdict, Verdict::Inconclusive);
    let unbounded = PortEvidence {
        promised_backlog_bytes: None,
        ..port()
    };
    assert_eq!(
        with(unbounded.clone(), None, 0).verdict,
        Verdict::Inconclusive
    );
    assert_eq!(
        with(
            PortEvidence {
                frames_dropped: 1,
                ..unbounded
            },
            None,
            0
        )
        .verdict,
        Verdict::Broken
    );
}

#[test]
fn hold_is_the_longest_burst_at_link_rate() {
    // 300 000 bit at 30 of 100 Mbit/s: as long as 300 000 bit need at the 70 Mbit/s that it gains on its rate.
    assert_eq!(
        hold_ns(100_000_000, [(300_000, 30_000_000), (704, 704_000)]),
        4_285_715
    );
    assert_eq!(hold_ns(100_000_000, []), 0);
    assert_eq!(hold_ns(100_000_000, [(1, 100_000_000)]), u64::MAX);
}

#[test]
fn the_worst_part_decides() {
    let mut e = evidence(stream(&good(2_000)));
    e.streams.push(stream(&good(10)));
    assert_eq!(judge(&e).verdict, Verdict::Inconclusive);
    e.streams.push(stream(&with_late(2_000, [3], 2 * MS)));
    let j = judge(&e);
    assert_eq!(j.verdict, Verdict::Broken);
    assert_eq!(
        j.reasons.len(),
        1,
        "only what led to the verdict: {:?}",
        j.reasons
    );
    assert_eq!(judge(&Evidence::default()).verdict, Verdict::Inconclusive);
}

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

    /// Kept says what it says, from first principles and not by way of the code under test.
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

    /// More noise never accuses, and acquits only within the stated shares.
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
        let proven = e.streams[0].samples[at].app_delay_ns() <= PROMISE;
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

#[test]
fn what_an_emulated_network_cannot_show_counts_against_kept() {
    let mut evidence = evidence(stream(&vec![PROMISE - 100; 2_000]));
    evidence.streams[0].unseen_ns = 100;
    assert_eq!(judge(&evidence).verdict, Verdict::Kept, "it just fits");
    evidence.streams[0].unseen_ns = 101;
    let judged = judge(&evidence);
    assert_eq!(judged.verdict, Verdict::Inconclusive);
    assert!(
        judged.streams[0].reasons[0].contains("emulated"),
        "{:?}",
        judged.streams[0].reasons
    );
}

#[test]
fn a_missed_deadline_below_the_promise_is_not_kept() {
    let mut evidence = evidence(stream(&vec![PROMISE - 100; 2_000]));
    evidence.streams[0].deadline_ns = Some(PROMISE - 100);
    assert_eq!(judge(&evidence).verdict, Verdict::Kept);
    evidence.streams[0].deadline_ns = Some(PROMISE - 101);
    let judged = judge(&evidence);
    assert_eq!(judged.verdict, Verdict::Inconclusive);
    assert!(
        judged.streams[0].reasons[0].contains("deadline"),
        "{:?}",
        judged.streams[0].reasons
    );
}

#[test]
fn a_value_that_a_newer_one_overtook_arrived_and_a_lost_one_did_not() {
    let mut evidence = evidence(stream(&vec![PROMISE / 2; 2_000]));
    let of = &mut evidence.streams[0];
    (
        of.frames_sent,
        of.frames_planned,
        of.frames_received,
        of.frames_overtaken,
    ) = (2_010, 2_010, 2_010, 10);
    assert_eq!(judge(&evidence).verdict, Verdict::Kept);
    evidence.streams[0].frames_sent = 2_011;
    assert_eq!(judge(&evidence).verdict, Verdict::Broken);
}
