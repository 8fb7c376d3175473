//! Whole numbers that notice when they leave their range.
//!
//! Times are picoseconds, rates millionths of a bit/s, and data 10^-18 bit. So a rate times a time is data, exactly.
//! Beyond 128 bits a number is out of range, and every comparison with it is false. So no fact follows from it.

use core::cmp::Ordering;
use core::ops::{Add, Mul, Sub};

/// Picoseconds in a nanosecond.
pub(crate) const NS: i128 = 1_000;
/// Units of data in a bit.
pub(crate) const BIT: i128 = 1_000_000_000_000_000_000;
/// Units of rate in a bit/s.
pub(crate) const BPS: i128 = 1_000_000;
/// Picoseconds in a second.
const SECOND: i128 = 1_000_000_000_000;

/// A whole number, or out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Num(pub(crate) Option<i128>);

impl Num {
    pub(crate) const ZERO: Num = Num(Some(0));

    /// Returns the quotient, rounded up; out of range if `by` is not above zero.
    pub(crate) fn over_up(self, by: Num) -> Num {
        let both = self.0.zip(by.0.filter(|by| *by > 0));
        Num(both.and_then(|(a, by)| a.checked_neg()?.div_euclid(by).checked_neg()))
    }

    /// Returns the quotient, rounded down; out of range if `by` is not above zero.
    pub(crate) fn over_down(self, by: Num) -> Num {
        let both = self.0.zip(by.0.filter(|by| *by > 0));
        Num(both.map(|(a, by)| a.div_euclid(by)))
    }

    /// Returns the larger number; out of range if one of the two is.
    pub(crate) fn max(self, other: Num) -> Num {
        Num(self.0.zip(other.0).map(|(a, b)| a.max(b)))
    }

    /// Returns the smaller number; out of range if one of the two is.
    pub(crate) fn min(self, other: Num) -> Num {
        Num(self.0.zip(other.0).map(|(a, b)| a.min(b)))
    }
}

impl From<i128> for Num {
    fn from(value: i128) -> Num {
        Num(Some(value))
    }
}

impl PartialOrd for Num {
    fn partial_cmp(&self, other: &Num) -> Option<Ordering> {
        Some(self.0?.cmp(&other.0?))
    }
}

macro_rules! operator {
    ($trait:ident, $name:ident, $checked:ident) => {
        impl $trait for Num {
            type Output = Num;
            fn $name(self, other: Num) -> Num {
                Num(self.0.zip(other.0).and_then(|(a, b)| a.$checked(b)))
            }
        }
    };
}
operator!(Add, add, checked_add);
operator!(Sub, sub, checked_sub);
operator!(Mul, mul, checked_mul);

/// A fraction as written in the file: `"3/4"` or `"12"`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fraction {
    pub(crate) over: i128,
    pub(crate) under: i128,
}

/// Exact arithmetic of fractions that are not negative. `None` if a result would be, or leaves 128 bits.
impl Fraction {
    pub(crate) const fn whole(over: i128) -> Fraction {
        Fraction { over, under: 1 }
    }

    /// Returns the quotient of two whole numbers in lowest terms.
    pub(crate) fn of(over: i128, under: i128) -> Option<Fraction> {
        let (mut a, mut b) = (over, under);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        (over >= 0 && under > 0).then(|| Fraction { over: over / a, under: under / a })
    }

    pub(crate) fn plus(self, other: Fraction) -> Option<Fraction> {
        let (a, b) = (self.over.checked_mul(other.under)?, other.over.checked_mul(self.under)?);
        Fraction::of(a.checked_add(b)?, self.under.checked_mul(other.under)?)
    }

    pub(crate) fn minus(self, other: Fraction) -> Option<Fraction> {
        let (a, b) = (self.over.checked_mul(other.under)?, other.over.checked_mul(self.under)?);
        Fraction::of(a.checked_sub(b)?, self.under.checked_mul(other.under)?)
    }

    pub(crate) fn times(self, other: Fraction) -> Option<Fraction> {
        // Crosswise in lowest terms first, so that the products stay small.
        let (a, b) = (Fraction::of(self.over, other.under)?, Fraction::of(other.over, self.under)?);
        Fraction::of(a.over.checked_mul(b.over)?, a.under.checked_mul(b.under)?)
    }

    /// `None` for a division by zero, too.
    pub(crate) fn over(self, other: Fraction) -> Option<Fraction> {
        (other.over > 0).then_some(())?;
        self.times(Fraction { over: other.under, under: other.over })
    }

    pub(crate) fn at_most(self, other: Fraction) -> Option<bool> {
        Some(self.over.checked_mul(other.under)? <= other.over.checked_mul(self.under)?)
    }

    pub(crate) fn max(self, other: Fraction) -> Option<Fraction> {
        Some(if self.at_most(other)? { other } else { self })
    }

    pub(crate) fn parse(text: &str) -> Option<Fraction> {
        let (over, under) = text.split_once('/').unwrap_or((text, "1"));
        let (over, under) = (over.trim().parse().ok()?, under.trim().parse().ok()?);
        (under > 0 && over >= 0).then_some(Fraction { over, under })
    }

    /// Returns `self units times / by`, rounded up. `times / by` is a factor near 1 or a change of units.
    pub(crate) fn units_up(self, units: i128, times: i128, by: i128) -> Num {
        // Whole and rest apart, so that large numbers with large denominators stay in range.
        let (whole, rest) = (self.over / self.under, self.over % self.under);
        let factor = Num::from(units) * Num::from(times);
        let exact = Num::from(whole) * factor;
        let (whole, left) = (exact.over_down(by.into()), exact);
        let left = left - whole * by.into();
        // rest units times / (under by) + left / by
        let more = Num::from(rest) * factor + left * self.under.into();
        whole + more.over_up(Num::from(self.under) * by.into())
    }
}

/// Returns a time of whole nanoseconds.
pub(crate) fn ns(value: u64) -> Num {
    Num::from(i128::from(value)) * NS.into()
}

/// Returns data of whole bytes.
pub(crate) fn bytes(value: u64) -> Num {
    Num::from(i128::from(value)) * (8 * BIT).into()
}

const _: () = assert!(SECOND * BPS == BIT);

#[cfg(test)]
#[path = "number_tests.rs"]
mod tests;
