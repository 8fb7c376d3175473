//! Compares the analysis in whole picoseconds with the one in fractions, over random graphs.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use proptest::prelude::*;

use super::dice::Dice;
use crate::bound::graph::{Flow, Graph, Hop, Method, Server};
use crate::bound::tfa::analyse;
use rtwire_describe::ratio::Ratio;

/// Returns servers that feed only later ones, and flows along some of them.
fn graph(dice: &mut Dice, classes: u8) -> Graph {
    let count = 1 + usize::try_from(dice.below(7)).unwrap();
    let servers = (0..count).map(|_| {
        let latency = dice.of(&[0, 5_000, 123_457]);
        let catches_up = dice.below(4) == 0;
        let least = if catches_up {
            0
        } else {
            dice.of(&[0, latency / 2, latency])
        };
        Server {
            rate: Ratio::whole(dice.of(&[100_000_000, 1_000_000_000, 33_333_333])),
            latency: Ratio::from_ns(latency),
            latency_min: Ratio::from_ns(least),
            catches_up,
            classes,
            foreign_frame: Ratio::whole(dice.of(&[0, 12_304])),
            ..Server::default()
        }
    });
    let servers = servers.collect();
    let flows = (0..1 + dice.below(12)).map(|_| {
        let mut hops = Vec::new();
        let mut at = usize::try_from(dice.below(count as u64)).unwrap();
        loop {
            hops.push(Hop {
                server: at,
                class: u8::try_from(dice.below(classes.into())).unwrap(),
                before: hops.len().checked_sub(1),
            });
            at += 1 + usize::try_from(dice.below(3)).unwrap();
            if at >= count {
                break;
            }
        }
        let frame = Ratio::whole(i128::from(dice.of(&[672_u64, 1_000, 5_000, 12_304])));
        let (mut burst, rate, mut period) = (
            frame,
            Ratio::whole((100_000 + dice.below(4_000_000)).into()),
            None,
        );
        let mut jitter = Ratio::ZERO;
        if dice.below(2) == 0 {
            let time = frame.over(rate).unwrap().ceil_ns().unwrap();
            jitter = Ratio::from_ns(dice.below(2 * time));
            let time = Ratio::from_ns(time);
            period = Some(time);
            burst = frame
                .plus(frame.over(time).unwrap().times(jitter).unwrap())
                .unwrap();
        } else if dice.below(2) == 0 {
            burst = burst.plus(Ratio::whole(dice.below(50_000).into())).unwrap();
        }
        let rate = period.map_or(rate, |period| frame.over(period).unwrap());
        Flow {
            burst,
            rate,
            frame_max: frame,
            frame_min: frame,
            period,
            jitter,
            meter: None,
            hops,
        }
    });
    let flows = flows.collect();
    Graph { servers, flows }
}

fn ps(value: Ratio) -> f64 {
    value.num() as f64 / value.den() as f64 * 1e12
}

const METHODS: [Method; 3] = [
    Method::FULL,
    Method {
        aggregates: false,
        ..Method::FULL
    },
    Method {
        line_shaping: false,
        aggregates: false,
        staircase: false,
        least_delay: false,
        last_on_link: false,
    },
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn both_say_the_same(seed in 1_u64..u64::MAX, classes in 1_u8..4) {
        let mut dice = Dice(seed);
        let graph = graph(&mut dice, classes);
        for method in METHODS {
            let exact = super::tfa::analyse(&graph, method).unwrap();
            let fast = analyse(&graph, method).unwrap();
            for (server, (exact, fast)) in exact.iter().zip(&fast).enumerate() {
                let tell = || format!("server {server}: {exact:?} {fast:?}");
                for (exact, fast) in exact.classes.iter().zip(&fast.classes) {
                    match (exact.delay, fast.delay) {
                        (Some(exact), Some(fast)) => {
                            // With classes above, the exact one may stop at a larger delay that holds as well.
                            if classes == 1 {
                                prop_assert!(ps(fast) >= ps(exact) - 100.0, "{}", tell());
                            }
                            prop_assert!(ps(fast) <= ps(exact) + 2_000.0, "{}", tell());
                        }
                        (exact, fast) => prop_assert_eq!(exact, fast),
                    }
                    prop_assert_eq!(exact.blocking, fast.blocking);
                }
                match (exact.backlog, fast.backlog) {
                    (Some(exact), Some(fast)) => {
                        let (exact, fast) = (ps(exact) / 1e12, ps(fast) / 1e12);
                        prop_assert!(fast <= exact + 3.0, "{}", tell());
                        prop_assert!(classes > 1 || fast >= exact - 1.0, "{}", tell());
                    }
                    (exact, fast) => prop_assert_eq!(exact, fast),
                }
            }
        }
    }
}
