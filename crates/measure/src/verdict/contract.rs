//! Checks a talker's frames against the token bucket of its contract.

use super::allowance::StallLine;

/// Returns the largest number of bits by which the frames exceed the contract `burst + rate * t`, over all intervals.
///
/// `frames` are (transmit stamp in ns, size on the wire in bits), sorted by time. A whole frame counts at its stamp,
/// so 0 means that the stamps obey the bucket exactly. The rate is `rate_num / rate_den` bit/s. The result is rounded
/// up.
///
/// Note: the kernel stamps a frame where it leaves its queue. Frames that waited there can follow each other faster
/// than the talker sent them, at most at the link's rate.
///
/// ```
/// use rtwire_measure::verdict::excess_bits;
/// // 1 Mbit/s and 2 000 bits: two frames of 1 000 at once are right, a third one is 1 000 too much.
/// let frames = [(0, 1_000), (0, 1_000), (0, 1_000)];
/// assert_eq!(excess_bits(frames[..2].iter().copied(), 1_000_000, 1, 2_000), 0);
/// assert_eq!(excess_bits(frames.iter().copied(), 1_000_000, 1, 2_000), 1_000);
/// ```
#[must_use]
pub fn excess_bits(
    frames: impl IntoIterator<Item = (u64, u64)>,
    rate_num: u64,
    rate_den: u64,
    burst_bits: u64,
) -> u64 {
    const NS: u128 = 1_000_000_000;
    let den = u128::from(rate_den.max(1)) * NS;
    // Level of a bucket that leaks at the rate, in bits times `den`. It is the most that arrived in any interval
    // ending now, beyond what the rate permits.
    let (mut level, mut highest, mut last) = (0u128, 0u128, None);
    for (at_ns, bits) in frames {
        let passed = u128::from(at_ns.saturating_sub(last.unwrap_or(at_ns)));
        last = Some(last.unwrap_or(at_ns).max(at_ns));
        level = level.saturating_sub(passed * u128::from(rate_num)) + u128::from(bits) * den;
        highest = highest.max(level);
    }
    u64::try_from(
        highest
            .saturating_sub(u128::from(burst_bits) * den)
            .div_ceil(den),
    )
    .unwrap_or(u64::MAX)
}

/// Returns the number of bits by which frames exceed the contract although each counts at the earliest time at which the
/// machine permitted its talker to send it.
///
/// That time is the beginning of a stall that ended at most `slack_ns` before the stamp, else the stamp itself. A talker
/// that a stall held up does not exceed its contract; one that sends more does. The result is rounded up.
///
/// ```
/// use rtwire_measure::verdict::{StallLine, unexplained_excess_bits};
/// // One frame of 1 000 bits each ms. The second one was held up until the third was due.
/// let frames = [(0, 1_000), (1_900_000, 1_000), (2_000_000, 1_000)];
/// let excess = |stalls| unexplained_excess_bits(frames, 1_000_000, 1, 1_000, &stalls, 50_000);
/// assert_eq!(excess(StallLine::default()), 900);
/// assert_eq!(excess(StallLine::new([(1_000_000, 1_880_000)])), 0);
/// ```
#[must_use]
pub fn unexplained_excess_bits(
    frames: impl IntoIterator<Item = (u64, u64)>,
    rate_num: u64,
    rate_den: u64,
    burst_bits: u64,
    stalls: &StallLine,
    slack_ns: u64,
) -> u64 {
    const NS: u128 = 1_000_000_000;
    let den = u128::from(rate_den.max(1)) * NS;
    let num = u128::from(rate_num.max(1));
    let burst = u128::from(burst_bits) * den;
    let (mut level, mut highest, mut last) = (0u128, 0u128, 0u64);
    for (at_ns, bits) in frames {
        let bits = u128::from(bits) * den;
        let first_ns = stalls
            .began_before(at_ns, slack_ns)
            .max(last)
            .min(at_ns.max(last));
        let leaked = |to_ns: u64| level.saturating_sub(u128::from(to_ns - last) * num);
        // The earliest time from then on at which the frame conforms, but no later than its stamp.
        let over = (leaked(first_ns) + bits).saturating_sub(burst);
        let wait_ns = u64::try_from(over.div_ceil(num)).unwrap_or(u64::MAX);
        let sent_ns = first_ns.saturating_add(wait_ns).min(at_ns.max(last));
        level = leaked(sent_ns) + bits;
        last = sent_ns;
        highest = highest.max(level);
    }
    u64::try_from(highest.saturating_sub(burst).div_ceil(den)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_the_worst_interval(
            gaps in prop::collection::vec((0u64..2_000, 1u64..3_000), 1..30), rate in 1u64..2_000, burst in 0u64..5_000,
        ) {
            let mut t = 0;
            let frames: Vec<_> = gaps.iter().map(|(g, bits)| { t += g; (t, *bits) }).collect();
            let rate_bps = rate * 1_000_000; // rate / 1000 bits per ns
            let mut worst = 0i128;
            for i in 0..frames.len() {
                for j in i..frames.len() {
                    let sum: u64 = frames[i..=j].iter().map(|f| f.1).sum();
                    let over = i128::from(sum) * 1_000 - i128::from(rate) * i128::from(frames[j].0 - frames[i].0);
                    worst = worst.max(over - i128::from(burst) * 1_000);
                }
            }
            let expected = (worst + 999) / 1_000;
            prop_assert_eq!(i128::from(excess_bits(frames, rate_bps, 1, burst)), expected);
        }
    }
}
