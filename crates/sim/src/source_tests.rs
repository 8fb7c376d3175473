//! No pattern ever exceeds its contract, in any window, in exact fractions.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use proptest::prelude::*;
use rtwire_plan::Ratio;

use super::Source;
use crate::model::{Binding, Flow};
use crate::random::Random;
use crate::scenario::{Behaviour, Pattern};

const US: u64 = 1_000_000;

fn flow(rate: Ratio, burst: Ratio, binding: Binding, tick_error_ps: u64, shaping_ps: u64) -> Flow {
    Flow {
        name: "x".to_owned(),
        best_effort: false,
        host: 0,
        bits: 8000,
        group: 1,
        least_bits: 8000,
        rate,
        regulated_rate: rate,
        burst,
        shaping_ps,
        tick_error_ps,
        binding,
        judged_ps: 0,
        branches: (0, 0),
        listeners: (0, 0),
        leader: 0,
        recovery: crate::model::NONE,
    }
}

fn releases(flow: &Flow, behaviour: Behaviour, seed: u64, count: usize) -> Vec<(u64, u32)> {
    let mut source = Source::new(flow, behaviour, Random::new(seed, 0));
    let list: Vec<(u64, u32)> = std::iter::from_fn(|| source.next()).take(count).collect();
    assert!(
        list.windows(2).all(|pair| pair[0].0 <= pair[1].0),
        "time runs backwards"
    );
    assert!(list.iter().all(|(at, _)| *at >= behaviour.phase_ps));
    list
}

/// Checks each closed window: at most burst + rate t, with t in whole picoseconds and everything else exact.
fn conforms(list: &[(u64, u32)], rate: Ratio, burst: Ratio) {
    for first in 0..list.len() {
        let mut bits = 0_i128;
        for (at, size) in &list[first..] {
            bits += i128::from(*size);
            let seconds = Ratio::new(i128::from(at - list[first].0), 1_000_000_000_000).unwrap();
            let allowed = burst.plus(rate.times(seconds).unwrap()).unwrap();
            assert!(
                Ratio::whole(bits) <= allowed,
                "{bits} bits from {} to {at} ps, {allowed:?} allowed",
                list[first].0
            );
        }
    }
}

fn pattern() -> impl Strategy<Value = Pattern> {
    prop_oneof![
        Just(Pattern::Greedy),
        Just(Pattern::Periodic),
        Just(Pattern::Random),
        Just(Pattern::Shaped)
    ]
}

fn behaviour() -> impl Strategy<Value = Behaviour> {
    (pattern(), 0..10_000 * US, 0_u32..6, 0..20_000 * US).prop_map(
        |(pattern, phase_ps, gap_before, gap_ps)| Behaviour {
            pattern,
            phase_ps,
            gap_before,
            gap_ps,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn rates_and_bursts_are_kept(
        rate in 1_i128..50_000_000,
        over in prop_oneof![Just(1514_i128), Just(1), Just(7), Just(60)],
        shaping_us in 0_u64..20_000,
        error_us in 0_u64..3000,
        extra in 0_i128..100_000,
        best_effort: bool,
        behaviour in behaviour(),
        seed: u64,
    ) {
        let rate = Ratio::new(rate, over).unwrap();
        let burst = Ratio::whole(8000 + extra);
        let mut flow = flow(rate, burst, Binding::Rate, error_us * US, shaping_us * US);
        flow.best_effort = best_effort;
        flow.least_bits = if best_effort { 672 } else { 8000 };
        let list = releases(&flow, behaviour, seed, 80);
        conforms(&list, rate, burst);
        prop_assert!(list.len() == 80 || rate.is_zero());
    }

    #[test]
    fn intervals_are_kept(
        interval_us in 1_u64..5000,
        error_us in 0_u64..12_000,
        behaviour in behaviour(),
        seed: u64,
    ) {
        let interval_ps = interval_us * US;
        let flow = flow(Ratio::ONE, Ratio::ONE, Binding::Interval { interval_ps }, error_us * US, 0);
        let list = releases(&flow, behaviour, seed, 80);
        prop_assert_eq!(list.len(), 80);
        for first in 0..list.len() {
            for last in first..list.len() {
                let window = list[last].0 - list[first].0;
                let allowed = (window + error_us * US) / interval_ps + 1;
                prop_assert!((last - first + 1) as u64 <= allowed);
            }
        }
    }
}

#[test]
fn greedy_is_as_early_as_may_be() {
    // A burst of 2.5 frames, one frame each 100 µs: two at once, the third after half a frame's tokens.
    let at_once = flow(
        Ratio::whole(80_000_000),
        Ratio::whole(20_000),
        Binding::Rate,
        0,
        0,
    );
    let list = releases(&at_once, Behaviour::new(Pattern::Greedy, 7 * US), 1, 5);
    let times: Vec<u64> = list.iter().map(|(at, _)| at / US).collect();
    assert_eq!(times, [7, 7, 57, 157, 257]);
    // Interval 100 µs, late by up to 250 µs: three frames at 250 µs, then on time.
    let interval_ps = 100 * US;
    let late = flow(
        Ratio::ONE,
        Ratio::ONE,
        Binding::Interval { interval_ps },
        250 * US,
        0,
    );
    let list = releases(&late, Behaviour::new(Pattern::Greedy, 0), 1, 5);
    let times: Vec<u64> = list.iter().map(|(at, _)| at / US).collect();
    assert_eq!(times, [250, 250, 250, 300, 400]);
}

#[test]
fn a_shaped_source_sends_at_ticks_only() {
    let flow = flow(
        Ratio::whole(30_000_000),
        Ratio::whole(38_000),
        Binding::Rate,
        0,
        1000 * US,
    );
    let list = releases(&flow, Behaviour::new(Pattern::Shaped, 5 * US), 1, 500);
    assert!(list.iter().all(|(at, _)| (at - 5 * US) % (1000 * US) == 0));
    // It keeps its rate: 3.75 frames a tick.
    let (last, _) = list[499];
    assert!(last / (1000 * US) <= 134, "{last}");
}

#[test]
fn best_effort_varies_its_sizes() {
    let mut flow = flow(
        Ratio::whole(1_000_000),
        Ratio::whole(40_000),
        Binding::Rate,
        0,
        0,
    );
    flow.best_effort = true;
    flow.least_bits = 672;
    let list = releases(&flow, Behaviour::new(Pattern::Random, 0), 1, 200);
    assert!(list.iter().any(|(_, bits)| *bits == 672));
    assert!(list.iter().any(|(_, bits)| *bits == 8000));
    assert!(
        list.iter()
            .all(|(_, bits)| (672..=8000).contains(bits) && bits % 8 == 0)
    );
}
