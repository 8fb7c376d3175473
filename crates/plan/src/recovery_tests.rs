//! Tests of the count of frames by brute force: every way to send frames within a contract.

use super::{LEAST_HISTORY, MOST_APART, Within};
use rtwire_describe::ratio::Ratio;

fn ns(count: u64) -> Ratio {
    Ratio::from_ns(count)
}

/// Frames of a period, each late by 0 to a jitter: the most of them in a window are at its closed ends.
#[test]
fn periodic_frames_are_counted_with_both_ends() {
    for (period, jitter) in [(10, 0), (10, 3), (10, 25), (7, 7)] {
        let within = Within::Periodic {
            period: ns(period),
            jitter: ns(jitter),
        };
        for window in 0..60 {
            // The first as late as it may be, the others on time: frame n at n * period, at the earliest at the first.
            let first = jitter;
            let late = (0..100).map(|n| (n * period).max(first));
            let most = late.filter(|at| *at <= first + window).count() as u64;
            assert_eq!(
                within.frames(ns(window)).unwrap(),
                most,
                "{period} {jitter} {window}"
            );
        }
    }
}

/// A bucket of bits, full at first, and frames as early as it permits.
#[test]
fn frames_of_a_bucket_are_counted() {
    for (burst, rate, frame) in [(1000_u64, 3_u64, 100_u64), (100, 7, 100), (250, 1, 60)] {
        let within = Within::Line {
            burst: Ratio::whole(burst.into()),
            // Bits in a nanosecond.
            rate: Ratio::whole(i128::from(rate) * 1_000_000_000),
            frame: Ratio::whole(frame.into()),
        };
        for window in 0..200_u64 {
            let (mut tokens, mut most) = (burst, 0);
            for _ in 0..=window {
                while tokens >= frame {
                    tokens -= frame;
                    most += 1;
                }
                tokens += rate;
            }
            assert_eq!(
                within.frames(ns(window)).unwrap(),
                most,
                "{burst} {rate} {window}"
            );
        }
    }
}

#[test]
fn the_longest_history_is_half_of_the_numbers() {
    assert_eq!(MOST_APART + 1, u64::from(u16::MAX) / 2 + 1);
    assert_eq!(LEAST_HISTORY, 2);
}
