//! The numbers for computing ports: whole picoseconds, millionths of a bit/s, and their product.
//!
//! A rate times a time is a whole number of 10^-18 bit, so only times that are quotients are rounded. Values from
//! fractions are rounded up once.

use rtwire_describe::ratio::{Overflow, Ratio};

/// A time, picoseconds.
pub(crate) type Time = i64;
/// A rate, millionths of a bit/s.
pub(crate) type Rate = i64;
/// An amount of data, 10^-18 bit.
pub(crate) type Data = i128;

const PER_SECOND: i128 = 1_000_000_000_000;
const PER_BPS: i128 = 1_000_000;
pub(crate) const PER_BIT: i128 = PER_SECOND * PER_BPS;

/// The latest time, about three months. A later one is out of range: sums of times must not leave 64 bits.
const LATEST: i128 = i64::MAX as i128 / 4;

/// Multiplies a fraction by `parts`, rounded up.
fn parts_up(value: Ratio, parts: i128) -> Result<i128, Overflow> {
    // Whole and fraction apart, so that large numbers with large denominators stay in range.
    let whole = value.floor();
    let rest = value.minus(Ratio::whole(whole))?.tidied_up(parts)?;
    let rest = rest.times(Ratio::whole(parts))?.ceil();
    whole
        .checked_mul(parts)
        .and_then(|whole| whole.checked_add(rest))
        .ok_or(Overflow)
}

fn in_range(value: i128) -> Result<i64, Overflow> {
    if value.abs() > LATEST {
        return Err(Overflow);
    }
    i64::try_from(value).map_err(|_| Overflow)
}

pub(crate) fn time_up(seconds: Ratio) -> Result<Time, Overflow> {
    in_range(parts_up(seconds, PER_SECOND)?)
}

pub(crate) fn time_down(seconds: Ratio) -> Result<Time, Overflow> {
    Ok(-time_up(Ratio::ZERO.minus(seconds)?)?)
}

pub(crate) fn rate_up(bps: Ratio) -> Result<Rate, Overflow> {
    in_range(parts_up(bps, PER_BPS)?)
}

pub(crate) fn rate_down(bps: Ratio) -> Result<Rate, Overflow> {
    Ok(-rate_up(Ratio::ZERO.minus(bps)?)?)
}

pub(crate) fn data_up(bits: Ratio) -> Result<Data, Overflow> {
    parts_up(bits, PER_BIT)
}

pub(crate) fn data_down(bits: Ratio) -> Result<Data, Overflow> {
    Ok(-parts_up(Ratio::ZERO.minus(bits)?, PER_BIT)?)
}

pub(crate) fn seconds(time: Time) -> Ratio {
    // The denominator is neither zero nor the least number.
    Ratio::new(time.into(), PER_SECOND).unwrap_or(Ratio::ZERO)
}

pub(crate) fn bits(data: Data) -> Result<Ratio, Overflow> {
    Ratio::new(data, PER_BIT)
}

/// Returns the exact product.
pub(crate) fn product(rate: Rate, time: Time) -> Data {
    i128::from(rate) * i128::from(time)
}

/// Returns the time that `data` takes at `rate`, rounded up.
pub(crate) fn quotient_up(data: Data, rate: Rate) -> Result<Time, Overflow> {
    if rate <= 0 {
        return Err(Overflow);
    }
    let rate = i128::from(rate);
    let whole = data.div_euclid(rate);
    in_range(whole + i128::from(data.rem_euclid(rate) != 0))
}

/// Returns the time that `data` takes at `rate`, rounded down.
pub(crate) fn quotient_down(data: Data, rate: Rate) -> Result<Time, Overflow> {
    if rate <= 0 {
        return Err(Overflow);
    }
    in_range(data.div_euclid(i128::from(rate)))
}

pub(crate) fn plus(a: i64, b: i64) -> Result<i64, Overflow> {
    in_range(i128::from(a) + i128::from(b))
}

/// Returns `value` times `parts / of`, rounded up. `of` is positive.
pub(crate) fn share_up(value: i128, parts: i128, of: i128) -> Result<i128, Overflow> {
    let product = value.checked_mul(parts).ok_or(Overflow)?;
    Ok(product.div_euclid(of) + i128::from(product.rem_euclid(of) != 0))
}

/// `burst + rate s` in a window of `s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) burst: Data,
    pub(crate) rate: Rate,
}

impl Line {
    pub(crate) fn at(self, s: Time) -> Data {
        self.burst + product(self.rate, s)
    }

    /// Returns the line as seen `shift` later.
    pub(crate) fn shifted(self, shift: Time) -> Line {
        Line {
            burst: self.burst + product(self.rate, shift),
            rate: self.rate,
        }
    }

    pub(crate) fn plus(self, other: Line) -> Result<Line, Overflow> {
        Ok(Line {
            burst: self.burst.checked_add(other.burst).ok_or(Overflow)?,
            rate: plus(self.rate, other.rate)?,
        })
    }

    /// Returns the line times `parts / of`, rounded up.
    pub(crate) fn share_up(self, parts: i128, of: i128) -> Result<Line, Overflow> {
        Ok(Line {
            burst: share_up(self.burst, parts, of)?,
            rate: in_range(share_up(self.rate.into(), parts, of)?)?,
        })
    }

    pub(crate) fn is_nothing(self) -> bool {
        self.burst == 0 && self.rate == 0
    }
}
