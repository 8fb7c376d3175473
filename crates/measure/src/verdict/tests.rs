//! Tests of the rule for streams, sentence by sentence. Stalls, ports, and laws under random evidence have modules of
//! their own.

mod clocks;
mod laws;
mod ports;
mod replayed;
mod stalls;

use super::*;
use crate::noise::{Stall, StallRecord, StallSource};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const PROMISE: u64 = MS;

/// A stream of `delays`: one frame each millisecond from 10 ms, promised 1 ms, at u = 0.9.
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
        frames_corrupted: 0,
        frames_duplicated: 0,
        frames_reordered: 0,
        listener_drops: 0,
        route: vec![PortId::new("C", "s1"), PortId::new("s1", "B")],
        link_rate_bps: 100_000_000,
        utilization_ppm: 900_000,
        hold_ns: 0,
        emulated: None,
        clock_uncertainty_ns: Some(0),
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
        "appears twice among the samples",
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
    // One frame without stamps whose application stamps do not prove that it was in time.
    assert_says(
        &without(1, 990 * US),
        Verdict::Inconclusive,
        "the network delay is unknown",
    );
    // Stamps that run backwards belong to something else and count as missing.
    let mut backwards = stream(&good(2_000));
    backwards.samples[5].rx_ns = Some(1);
    backwards.samples[5].app_rx_ns += 5 * MS;
    assert_says(
        &evidence(backwards),
        Verdict::Inconclusive,
        "the network delay is unknown",
    );
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
        unexplained_excess_bits: 0,
        best_effort: false,
        frames_off_launch: 0,
        frames_planned: 0,
        frames_sent: 0,
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
    // It also reaches through a third stream whose port it shares.
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
        unexplained_excess_bits: 0,
        best_effort: false,
        frames_off_launch: 0,
        frames_planned: 0,
        frames_sent: 0,
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
        "nothing to judge",
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

#[test]
fn a_reason_of_several_listeners_is_told_once() {
    let of = |name: &str, listener: &str, frames: usize| {
        let mut one = stream(&good(frames));
        (one.name, one.listener) = (name.to_owned(), listener.to_owned());
        one
    };
    let mut e = evidence(of("s", "B", 10));
    e.streams.push(of("other", "B", 10));
    e.streams.push(of("s", "C", 10));
    e.streams.push(of("s", "D", 11));
    let told = judge(&e).reasons;
    let begins: Vec<&str> = told
        .iter()
        .filter_map(|why| why.split(':').next())
        .collect();
    assert_eq!(
        begins,
        ["Stream s at B, C", "Stream other at B", "Stream s at D"],
        "{told:?}"
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
fn a_value_that_a_newer_one_overtook_is_judged_and_shown_and_a_lost_one_is_lost() {
    let mut evidence = evidence(stream(&vec![PROMISE / 2; 2_000]));
    evidence.streams[0].frames_overtaken = 10;
    let judged = judge(&evidence);
    assert_eq!(judged.verdict, Verdict::Kept);
    let reasons = judged.streams[0].reasons.join(" ");
    assert!(
        reasons.contains("Overtaken by newer ones before they were read: 10 frames"),
        "{reasons}"
    );
    // One of them has no time at the application, and came too late.
    let late = &mut evidence.streams[0].samples[7];
    late.app_rx_ns = 0;
    late.rx_ns = late.rx_ns.map(|rx| rx + PROMISE);
    assert_eq!(judge(&evidence).verdict, Verdict::Broken);
    let late = &mut evidence.streams[0].samples[7];
    late.rx_ns = late.rx_ns.map(|rx| rx - PROMISE);
    assert_eq!(judge(&evidence).verdict, Verdict::Kept);
    evidence.streams[0].frames_sent += 1;
    assert_eq!(judge(&evidence).verdict, Verdict::Broken);
}

#[test]
fn frames_that_arrived_and_left_no_stamp_are_unjudged_by_name() {
    let mut evidence = evidence(stream(&vec![PROMISE / 2; 2_000]));
    // That they were overtaken is no excuse.
    evidence.streams[0].samples.truncate(1_979);
    evidence.streams[0].frames_overtaken = 21;
    let judged = judge(&evidence);
    assert_eq!(judged.verdict, Verdict::Inconclusive);
    assert!(
        judged.streams[0].reasons[0].contains("21 frames not judged"),
        "{judged:?}"
    );
}

#[test]
fn an_altered_payload_is_broken() {
    let mut evidence = evidence(stream(&vec![PROMISE / 2; 2_000]));
    evidence.streams[0].frames_corrupted = 1;
    let judged = judge(&evidence);
    assert_eq!(judged.verdict, Verdict::Broken);
    assert!(
        judged.streams[0].reasons[0].contains("altered payload"),
        "{judged:?}"
    );
}
