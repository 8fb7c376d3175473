//! Exact times of contracts: a token bucket that counts in time.
//!
//! A bucket of depth b and rate r is equivalent to a virtual clock (GCRA). Each frame of M bits advances the clock by
//! M / r. The clock must not be more than b / r ahead.
//!
//! Times are ps with 32 fractional bits. Costs are rounded up and the depth is rounded down, so a frame that conforms
//! here conforms exactly.

use rtwire_plan::Ratio;

const FRACTION_BITS: u32 = 32;

/// Returns `numerator / denominator` seconds in fractions of a picosecond, rounded down, and true if it was rounded.
/// Returns `None` beyond 128 bits.
fn seconds(numerator: u128, denominator: u128) -> Option<(u128, bool)> {
    let mut whole = numerator.checked_div(denominator)?;
    let mut rest = numerator % denominator;
    // Step by step, so that the numbers stay small.
    for factor in [1_000_000, 1_000_000, 1 << 16, 1 << 16] {
        let scaled = rest.checked_mul(factor)?;
        whole = whole
            .checked_mul(factor)?
            .checked_add(scaled / denominator)?;
        rest = scaled % denominator;
    }
    Some((whole, rest != 0))
}

fn parts(ratio: Ratio) -> Option<(u128, u128)> {
    Some((
        u128::try_from(ratio.num()).ok()?,
        u128::try_from(ratio.den()).ok()?,
    ))
}

/// Returns the duration of `bits` at `rate` bit/s in fractions of a picosecond, rounded up; `None` if it is infinite
/// or too long.
fn duration_up(bits: u64, rate: Ratio) -> Option<u128> {
    let (num, den) = parts(rate)?;
    if num == 0 {
        return None;
    }
    let (down, inexact) = seconds(u128::from(bits).checked_mul(den)?, num)?;
    down.checked_add(u128::from(inexact))
}

/// Returns the duration of `bits` at `rate` bit/s in ps, rounded up; `None` if it is infinite or too long.
pub(crate) fn duration_ps(bits: u64, rate: Ratio) -> Option<u64> {
    let fractions = duration_up(bits, rate)?;
    u64::try_from((fractions + (1 << FRACTION_BITS) - 1) >> FRACTION_BITS).ok()
}

/// A token bucket: at most b + r t bits in any closed window of length t.
#[derive(Clone, Debug)]
pub(crate) enum Bucket {
    /// A bucket that fills with time.
    Fills {
        /// Duration of a bit, in fractions of a picosecond.
        bit: u128,
        /// Duration of the usual frame, in fractions of a picosecond.
        frame: u128,
        frame_bits: u64,
        /// Depth of the bucket, b / r.
        depth: u128,
        /// The virtual clock.
        ahead: u128,
    },
    /// A bucket that never fills again.
    Once {
        /// Remaining bits.
        left: u64,
    },
}

impl Bucket {
    /// Creates a full bucket for frames of mostly `frame_bits`. At rate 0, or with times beyond 128 bits, it never
    /// fills again.
    pub(crate) fn new(rate: Ratio, burst: Ratio, frame_bits: u64) -> Bucket {
        let once = || Bucket::Once {
            left: u64::try_from(burst.floor()).unwrap_or(0),
        };
        let fills = || {
            let over = burst.over(rate).ok()?;
            let (num, den) = parts(over)?;
            Some(Bucket::Fills {
                bit: duration_up(1, rate)?,
                frame: duration_up(frame_bits, rate)?,
                frame_bits,
                depth: seconds(num, den)?.0,
                ahead: 0,
            })
        };
        if rate.is_zero() {
            return once();
        }
        fills().unwrap_or_else(once)
    }

    fn cost(bit: u128, frame: u128, frame_bits: u64, bits: u64) -> u128 {
        if bits == frame_bits {
            frame
        } else {
            bit.saturating_mul(u128::from(bits))
        }
    }

    /// Returns the first time at or after `now_ps` at which a frame of `bits` conforms, ps; `None` if never.
    pub(crate) fn earliest_ps(&self, now_ps: u64, bits: u64) -> Option<u64> {
        match *self {
            Bucket::Once { left } => (bits <= left).then_some(now_ps),
            Bucket::Fills {
                bit,
                frame,
                frame_bits,
                depth,
                ahead,
            } => {
                let cost = Bucket::cost(bit, frame, frame_bits, bits);
                if cost > depth.saturating_add(1 << FRACTION_BITS) {
                    return None;
                }
                // The depth of a bucket exactly as deep as the frame was rounded down, and the cost was rounded up.
                let start = ahead.saturating_add(cost).saturating_sub(depth.max(cost));
                let start = start.saturating_add((1 << FRACTION_BITS) - 1) >> FRACTION_BITS;
                Some(now_ps.max(u64::try_from(start).ok()?))
            }
        }
    }

    /// Takes a frame of `bits` at `now_ps`, at which it conforms.
    pub(crate) fn take(&mut self, now_ps: u64, bits: u64) {
        match self {
            Bucket::Once { left } => *left = left.saturating_sub(bits),
            Bucket::Fills {
                bit,
                frame,
                frame_bits,
                ahead,
                ..
            } => {
                let cost = Bucket::cost(*bit, *frame, *frame_bits, bits);
                let now = u128::from(now_ps) << FRACTION_BITS;
                *ahead = (*ahead).max(now).saturating_add(cost);
            }
        }
    }
}

/// The transmission times of a link's frames, exact across frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineClock {
    rate_bps: u64,
    /// Duration of a bit, if it is a whole number of ps; else 0.
    exact_ps_per_bit: u64,
}

const PS: u64 = 1_000_000_000_000;

impl LineClock {
    pub(crate) fn new(rate_bps: u64) -> LineClock {
        let rate_bps = rate_bps.max(1);
        LineClock {
            rate_bps,
            exact_ps_per_bit: if PS % rate_bps == 0 { PS / rate_bps } else { 0 },
        }
    }

    /// Returns the duration of `bits` in whole ps, and the new fraction. `fraction` (in 1 / rate) is the one that the
    /// previous frame left.
    pub(crate) fn transmit(self, bits: u32, fraction: u64) -> (u64, u64) {
        if self.exact_ps_per_bit != 0 {
            return (u64::from(bits).saturating_mul(self.exact_ps_per_bit), 0);
        }
        let total = u128::from(bits) * u128::from(PS) + u128::from(fraction);
        let rate = u128::from(self.rate_bps);
        (
            u64::try_from(total / rate).unwrap_or(u64::MAX),
            // The value is below the rate, which has 64 bits.
            u64::try_from(total % rate).unwrap_or(0),
        )
    }

    /// Returns the number of bits that are sent in `left_ps`, rounded down. Times are rounded by less than a
    /// picosecond, which must not count as a bit.
    pub(crate) fn bits_in(self, left_ps: u64) -> u64 {
        let bits = u128::from(left_ps) * u128::from(self.rate_bps) / u128::from(PS);
        u64::try_from(bits).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::{Bucket, LineClock, duration_ps};
    use rtwire_plan::Ratio;

    #[test]
    fn a_bucket_of_one_frame_is_a_period() {
        let rate = Ratio::whole(1_000_000);
        let mut bucket = Bucket::new(rate, Ratio::whole(1000), 1000);
        let mut now = 0;
        for n in 0..1000 {
            now = bucket.earliest_ps(now, 1000).unwrap();
            bucket.take(now, 1000);
            assert!(now == n * 1_000_000_000);
        }
        assert_eq!(bucket.earliest_ps(now, 2000), None);
    }

    #[test]
    fn a_grant_is_spent_once() {
        let mut bucket = Bucket::new(Ratio::ZERO, Ratio::whole(2500), 1000);
        for _ in 0..2 {
            assert_eq!(bucket.earliest_ps(5, 1000), Some(5));
            bucket.take(5, 1000);
        }
        assert_eq!(bucket.earliest_ps(5, 1000), None);
        assert_eq!(bucket.earliest_ps(5, 500), Some(5));
    }

    #[test]
    fn links_lose_no_time_to_rounding() {
        let clock = LineClock::new(3);
        let (mut total, mut fraction) = (0, 0);
        for _ in 0..3 {
            let (ps, left) = clock.transmit(1, fraction);
            total += ps;
            fraction = left;
        }
        assert_eq!((total, fraction), (1_000_000_000_000, 0));
        assert_eq!(
            LineClock::new(100_000_000).transmit(12304, 0),
            (123_040_000, 0)
        );
        assert_eq!(
            duration_ps(12304, Ratio::whole(100_000_000)),
            Some(123_040_000)
        );
    }
}
