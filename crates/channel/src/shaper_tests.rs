//! The laws on which a shaper's promise is based, checked exactly.

use super::*;
use proptest::prelude::*;

const FRAME: u64 = 1538 * 8;

fn unit(config: &ShaperConfig) -> u128 {
    SECOND * u128::from(config.rate.1)
}

/// A(s, t) ≤ b + r (t - s) for every pair of frames, s and t included, in scaled integers.
fn conforms(config: &ShaperConfig, sent: &[(u64, u64)]) -> Result<(), String> {
    for (first, &(from, _)) in sent.iter().enumerate() {
        let mut bits = 0_u128;
        for &(to, frame) in &sent[first..] {
            bits += u128::from(frame);
            let allowed = config.burst_scaled + u128::from(config.rate.0) * u128::from(to - from);
            if bits * unit(config) > allowed {
                return Err(format!("from {from} to {to}: {bits} bits"));
            }
        }
    }
    Ok(())
}

prop_compose! {
    fn any_config()(num in 1_000_000u64..1_000_000_000, den in 1u64..2000, interval in 1_000u64..10_000_000,
                    error in 0u64..1_000_000, epoch: u64) -> ShaperConfig {
        // Rates from 1 Mbit/s to 1 Gbit/s, as fractions.
        let mut config = ShaperConfig::contract((num * den + 7, den), interval, error, FRAME);
        config.epoch_ns = epoch;
        config
    }
}

proptest! {
    #[test]
    fn accepted_frames_conform(config in any_config(), start in 0u64..1 << 62,
                               wishes in prop::collection::vec((0u64..400_000, 60u64..1538), 1..120)) {
        let mut shaper = Shaper::new(config);
        let (mut now, mut sent) = (start, Vec::new());
        for (pause, octets) in wishes {
            now += pause;
            if shaper.take(now, octets * 8).is_ok() {
                sent.push((now, octets * 8));
            }
        }
        prop_assert_eq!(conforms(&config, &sent), Ok(()));
        let mut meter = ContractMeter::new(config.rate);
        for &(time, bits) in &sent {
            meter.observe(time, bits);
        }
        prop_assert_eq!(meter.excess_ns(&config), 0);
    }

    #[test]
    fn a_saturated_sender_reaches_its_rate(config in any_config(), ticks in 2u64..200,
                                           lateness in prop::collection::vec(0u64..=1_000_000, 200),
                                           octets in 60u64..=1538) {
        let bits = octets * 8;
        let mut shaper = Shaper::new(config);
        let (mut total, mut sent, mut last) = (0_u128, Vec::new(), 0);
        let first = shaper.earliest(1 << 40, bits).unwrap();
        for tick in 0..ticks {
            let due = first + tick * config.interval_ns;
            let now = due + lateness[tick as usize] % (config.tick_error_ns + 1);
            // A tick may come later than the next is due; time does not go back.
            last = now.max(last);
            while shaper.take(last, bits).is_ok() {
                total += u128::from(bits);
                if sent.len() < 200 { sent.push((last, bits)) }
            }
        }
        prop_assert_eq!(conforms(&config, &sent), Ok(()));
        // The bucket never overflowed: all tokens were used, except a rest of less than a frame.
        let first_look = first + lateness[0] % (config.tick_error_ns + 1);
        let came = config.burst_scaled + u128::from(config.rate.0) * u128::from(last - first_look);
        prop_assert!(came - total * unit(&config) < u128::from(bits) * unit(&config),
                     "{} of {}", total * unit(&config), came);
    }

    #[test]
    fn earliest_is_right(config in any_config(), start in 1u64 << 40..1 << 62, octets in 60u64..1538,
                         used in 0u64..50, pause in 0u64..20_000_000) {
        let mut shaper = Shaper::new(config);
        for _ in 0..used { let _ = shaper.take(start, octets * 8); }
        let now = start + pause;
        let earliest = shaper.earliest(now, octets * 8).unwrap();
        prop_assert!(earliest >= now);
        // The frame may be sent then. Unless that is now, it is a tick; at the tick before it could not be sent, or that is past.
        prop_assert!(shaper.clone().take(earliest, octets * 8).is_ok());
        if earliest != now {
            let interval = i128::from(config.interval_ns);
            prop_assert_eq!((i128::from(earliest) - i128::from(config.epoch_ns)).rem_euclid(interval), 0);
            let before = earliest - config.interval_ns;
            prop_assert!(before < now || shaper.clone().take(before, octets * 8).is_err());
        }
    }

    #[test]
    fn the_meter_finds_the_least_depth(rate in 1_000u64..1_000_000_000,
                                       frames in prop::collection::vec((0u64..1_000_000, 1u64..20_000), 1..60)) {
        let mut meter = ContractMeter::new((rate, 1));
        let (mut now, mut sent) = (0, Vec::new());
        for (pause, bits) in frames {
            now += pause;
            meter.observe(now, bits);
            sent.push((now, bits));
        }
        let with = |burst| ShaperConfig::with_burst((rate, 1), burst, 1, 0);
        prop_assert_eq!(conforms(&with(meter.burst_bits()), &sent), Ok(()));
        prop_assert!(conforms(&with(meter.burst_bits() - 1), &sent).is_err());
    }
}

#[test]
fn without_the_frame_and_the_tick_error_the_rate_is_not_reached() {
    // The reason for the depth: with r·T_s alone the bucket overflows at every late tick.
    let rate = (30_000_000, 1);
    let mut shaper = Shaper::new(ShaperConfig::with_burst(rate, 30_000, 1_000_000, 0));
    let mut total = 0;
    for tick in 0..1000_u64 {
        while shaper
            .take(tick * 1_000_000 + (tick % 2) * 50_000, FRAME)
            .is_ok()
        {
            total += FRAME;
        }
    }
    assert!(total < 28_000_000, "{total}");
}

/// With tokens enough, a frame goes at a tick and up to J behind it, and else at the next tick: not 1 ns earlier or later. A
/// promise is computed with exactly this grid.
#[test]
fn a_frame_goes_from_a_tick_on_until_the_tick_error_is_over() {
    for epoch_ns in [300, 9_300, 5_000_000_300] {
        let config = ShaperConfig {
            epoch_ns,
            ..ShaperConfig::with_burst((1_000_000, 1), 10_000, 1_000, 50)
        };
        let shaper = Shaper::new(config);
        for (now_ns, earliest_ns) in [
            (10_299, 10_300),
            (10_300, 10_300),
            (10_301, 10_301),
            (10_349, 10_349),
            (10_350, 10_350),
            (10_351, 11_300),
            (11_000, 11_300),
            (11_299, 11_300),
        ] {
            let found = shaper.earliest(now_ns, 400);
            assert_eq!(found, Some(earliest_ns), "at {now_ns}, epoch {epoch_ns}");
        }
        // Empty at a tick; 1 ns brings a bit's thousandth: tokens for one bit are there 1000 ns later, at the next tick,
        // and those for two a tick behind that. For one more ns than a tick has, a whole tick is waited.
        let mut shaper = Shaper::new(config);
        assert_eq!(shaper.take(10_300, 10_000), Ok(()));
        assert_eq!(shaper.earliest(10_300, 1), Some(11_300));
        assert_eq!(shaper.earliest(10_300, 2), Some(12_300));
        assert_eq!(
            shaper.take(11_299, 1),
            Err(NotYet {
                earliest_ns: Some(11_300)
            })
        );
        let mut late = shaper.clone();
        assert_eq!(late.take(11_300, 1), Ok(()));
        let mut off = Shaper::new(config);
        assert_eq!(off.take(10_301, 10_000), Ok(()));
        assert_eq!(off.earliest(10_301, 1), Some(12_300));
    }
}

/// A frame as long as the bucket is deep may go; one whose tokens are complete 1 ns behind a tick waits for the next.
#[test]
fn the_bucket_counts_to_the_last_bit_and_nanosecond() {
    let config = ShaperConfig::with_burst((2_999_999, 1), 10_000, 1_000, 0);
    let mut shaper = Shaper::new(config);
    assert_eq!(shaper.earliest(10_000, 10_000), Some(10_000));
    assert_eq!(shaper.take(10_000, 10_000), Ok(()));
    // 3 bits take 1000.0003 ns.
    assert_eq!(shaper.earliest(10_000, 3), Some(12_000));
    assert_eq!(shaper.earliest(10_000, 2), Some(11_000));
}

#[test]
fn time_that_is_lived_twice_brings_tokens_once() {
    let mut shaper = Shaper::new(ShaperConfig::with_burst((1_000_000, 1), 1_000, 1_000, 0));
    assert_eq!(shaper.take(1_000_000, 500), Ok(()));
    // The clock goes back; what is left may be used.
    assert_eq!(shaper.take(500_000, 100), Ok(()));
    assert!(shaper.take(1_000_000, 401).is_err());
    assert_eq!(shaper.take(1_000_000, 400), Ok(()));
}

/// The contract's depth, term by term: `r·(T_s + J) + M`.
#[test]
fn the_contract_is_as_deep_as_its_formula_says() {
    let config = ShaperConfig::contract((3_000_000, 7), 1_000_000, 50_000, FRAME);
    let by_rate = 3_000_000 * (1_000_000 + 50_000);
    assert_eq!(
        config.burst_scaled,
        by_rate + u128::from(FRAME) * 7 * SECOND
    );
    let mut shaper = Shaper::new(config);
    let bits = u64::try_from(config.burst_scaled / (7 * SECOND)).unwrap();
    assert!(shaper.take(1, bits + 1).is_err());
    assert_eq!(shaper.take(1, bits), Ok(()));
}

#[test]
fn frames_longer_than_the_bucket_never_go() {
    let mut shaper = Shaper::new(ShaperConfig::with_burst((1_000_000, 1), 1000, 1_000_000, 0));
    assert_eq!(shaper.earliest(5, 1001), None);
    assert_eq!(shaper.take(5, 1001), Err(NotYet { earliest_ns: None }));
    assert_eq!(shaper.take(5, 1000), Ok(()));
    let next = NotYet {
        earliest_ns: Some(1_000_000),
    };
    assert_eq!(shaper.take(5, 400), Err(next));
}

#[test]
fn unshaped_lets_everything_through() {
    let mut shaper = Shaper::unshaped();
    for _ in 0..1000 {
        assert_eq!(shaper.take(1, u64::MAX), Ok(()));
    }
    assert_eq!(shaper.earliest(1, u64::MAX), Some(1));
}

#[test]
fn a_clock_that_goes_back_gives_no_tokens() {
    let mut shaper = Shaper::new(ShaperConfig::with_burst((1_000_000, 1), 1000, 1_000, 0));
    assert_eq!(shaper.take(1_000_000, 1000), Ok(()));
    assert!(shaper.take(500_000, 1).is_err());
    assert!(shaper.take(1_000_000, 1).is_err());
    assert_eq!(shaper.earliest(500_000, 1), Some(1_001_000));
    assert_eq!(shaper.take(1_001_000, 1), Ok(()));
}
