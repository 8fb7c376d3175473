//! Exact rational numbers of 128 bits. Every operation is checked.
//!
//! A bound that wrapped around would be a small, wrong promise. So nothing here wraps and nothing panics. A number
//! that does not fit is [`Overflow`], which the plan turns into a refusal.

use core::cmp::Ordering;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number left the range of 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a number leaves the range of 128-bit arithmetic: a quantity in the description is beyond reason"
)]
pub struct Overflow;

/// An exact fraction in lowest terms, denominator above zero.
///
/// Its text form is `"num/den"`, or `"num"` if the denominator is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ratio {
    num: i128,
    den: i128,
}

fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    // Most values fit 64 bits, where a division costs a tenth.
    while b != 0 {
        if let (Ok(x), Ok(y)) = (u64::try_from(a), u64::try_from(b)) {
            let (mut x, mut y) = (x, y);
            while y != 0 {
                (x, y) = (y, x % y);
            }
            return i128::from(x);
        }
        (a, b) = (b, a % b);
    }
    // Only gcd(i128::MIN, i128::MIN or 0) exceeds i128, and MIN is never stored.
    i128::try_from(a).unwrap_or(1)
}

impl Default for Ratio {
    fn default() -> Ratio {
        Ratio::ZERO
    }
}

impl Ratio {
    /// The number zero.
    pub const ZERO: Ratio = Ratio { num: 0, den: 1 };
    /// The number one.
    pub const ONE: Ratio = Ratio { num: 1, den: 1 };

    /// Returns a whole number.
    #[must_use]
    pub const fn whole(value: i128) -> Ratio {
        Ratio { num: value, den: 1 }
    }

    /// Returns `num / den` in lowest terms.
    ///
    /// # Errors
    /// [`Overflow`] if `den` is zero or a sign cannot be turned.
    pub fn new(num: i128, den: i128) -> Result<Ratio, Overflow> {
        if den == 0 || num == i128::MIN || den == i128::MIN {
            return Err(Overflow);
        }
        let common = gcd(num, den).max(1);
        let sign = if den < 0 { -1 } else { 1 };
        Ok(Ratio {
            num: num / common * sign,
            den: den / common * sign,
        })
    }

    /// Converts `count` nanoseconds to seconds.
    #[must_use]
    pub fn from_ns(count: u64) -> Ratio {
        // A u64 over 10^9 is far inside the range.
        Ratio::new(i128::from(count), 1_000_000_000).unwrap_or(Ratio::ZERO)
    }

    /// Returns the numerator.
    #[must_use]
    pub const fn num(self) -> i128 {
        self.num
    }

    /// Returns the denominator, above zero.
    #[must_use]
    pub const fn den(self) -> i128 {
        self.den
    }

    /// True if the number is below zero.
    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.num < 0
    }

    /// True if the number is zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.num == 0
    }

    /// Returns the sum.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn plus(self, other: Ratio) -> Result<Ratio, Overflow> {
        if self.den == other.den {
            let num = self.num.checked_add(other.num).ok_or(Overflow)?;
            return if self.den == 1 {
                Ok(Ratio { num, den: 1 })
            } else {
                Ratio::new(num, self.den)
            };
        }
        let common = gcd(self.den, other.den).max(1);
        let (left, right) = (other.den / common, self.den / common);
        let a = self.num.checked_mul(left).ok_or(Overflow)?;
        let b = other.num.checked_mul(right).ok_or(Overflow)?;
        Ratio::new(
            a.checked_add(b).ok_or(Overflow)?,
            self.den.checked_mul(left).ok_or(Overflow)?,
        )
    }

    /// Returns the difference.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn minus(self, other: Ratio) -> Result<Ratio, Overflow> {
        self.plus(Ratio {
            num: -other.num,
            den: other.den,
        })
    }

    /// Returns the product.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn times(self, other: Ratio) -> Result<Ratio, Overflow> {
        let (a, b) = (
            gcd(self.num, other.den).max(1),
            gcd(other.num, self.den).max(1),
        );
        let num = (self.num / a).checked_mul(other.num / b).ok_or(Overflow)?;
        let den = (self.den / b).checked_mul(other.den / a).ok_or(Overflow)?;
        if num == i128::MIN {
            Err(Overflow)
        } else {
            Ok(Ratio { num, den })
        }
    }

    /// Returns the quotient.
    ///
    /// # Errors
    /// [`Overflow`], also for a division by zero.
    pub fn over(self, other: Ratio) -> Result<Ratio, Overflow> {
        if other.num == 0 {
            return Err(Overflow);
        }
        let sign = if other.num < 0 { -1 } else { 1 };
        self.times(Ratio {
            num: other.den * sign,
            den: other.num * sign,
        })
    }

    /// Returns the smallest whole number not below this number.
    #[must_use]
    pub const fn ceil(self) -> i128 {
        let floor = self.num.div_euclid(self.den);
        if self.num.rem_euclid(self.den) == 0 {
            floor
        } else {
            floor + 1
        }
    }

    /// Returns the largest whole number not above this number.
    #[must_use]
    pub const fn floor(self) -> i128 {
        self.num.div_euclid(self.den)
    }

    /// Rounds up to a multiple of `1 / grid`. A number whose denominator is `grid` or smaller is unchanged.
    ///
    /// Keeps the denominators of long sums bounded. Use it only where larger is safer.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn tidied_up(self, grid: i128) -> Result<Ratio, Overflow> {
        if self.den <= grid {
            return Ok(self);
        }
        // Split off the whole part first, so that only the fraction is scaled.
        let whole = self.num.div_euclid(self.den);
        let rest = Ratio {
            num: self.num.rem_euclid(self.den),
            den: self.den,
        };
        let scaled = match rest.num.checked_mul(grid) {
            Some(num) => Ratio { num, den: self.den }.ceil(),
            // Too fine to scale exactly: the denominator exceeds the grid by far,
            // so drop digits below the line and round up on the way.
            None => {
                let shift = rest.den / (i128::MAX / grid / 4) + 1;
                Ratio {
                    num: (rest.num / shift + 1) * grid,
                    den: rest.den / shift,
                }
                .ceil()
            }
        };
        Ratio::whole(whole).plus(Ratio::new(scaled, grid)?)
    }

    /// Rounds down to a multiple of `1 / grid` if the denominator is larger than `grid`.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn tidied_down(self, grid: i128) -> Result<Ratio, Overflow> {
        let negative = Ratio {
            num: -self.num,
            den: self.den,
        }
        .tidied_up(grid)?;
        Ok(Ratio {
            num: -negative.num,
            den: negative.den,
        })
    }

    /// Converts seconds to nanoseconds, rounded up; zero if below zero.
    ///
    /// # Errors
    /// [`Overflow`] beyond 584 years.
    pub fn ceil_ns(self) -> Result<u64, Overflow> {
        let ns = self.times(Ratio::whole(1_000_000_000))?.ceil();
        u64::try_from(ns.max(0)).map_err(|_| Overflow)
    }

    /// Converts seconds to nanoseconds, rounded down.
    ///
    /// # Errors
    /// [`Overflow`] below zero and beyond 584 years.
    pub fn floor_ns(self) -> Result<u64, Overflow> {
        let ns = self.times(Ratio::whole(1_000_000_000))?.floor();
        u64::try_from(ns).map_err(|_| Overflow)
    }
}

impl Ord for Ratio {
    /// Compares exactly and cannot overflow: first the whole parts, then the inverted remainders.
    fn cmp(&self, other: &Ratio) -> Ordering {
        if let (Some(a), Some(b)) = (
            self.num.checked_mul(other.den),
            other.num.checked_mul(self.den),
        ) {
            return a.cmp(&b);
        }
        let (mut a, mut b, mut turned) = (*self, *other, false);
        loop {
            let whole = a.floor().cmp(&b.floor());
            let (rest_a, rest_b) = (a.num.rem_euclid(a.den), b.num.rem_euclid(b.den));
            let decided = match (whole, rest_a, rest_b) {
                (Ordering::Equal, 0, 0) => Ordering::Equal,
                (Ordering::Equal, 0, _) => Ordering::Less,
                (Ordering::Equal, _, 0) => Ordering::Greater,
                (Ordering::Equal, _, _) => {
                    a = Ratio {
                        num: a.den,
                        den: rest_a,
                    };
                    b = Ratio {
                        num: b.den,
                        den: rest_b,
                    };
                    turned = !turned;
                    continue;
                }
                (unequal, _, _) => unequal,
            };
            return if turned { decided.reverse() } else { decided };
        }
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Ratio) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.den == 1 {
            write!(f, "{}", self.num)
        } else {
            write!(f, "{}/{}", self.num, self.den)
        }
    }
}

/// The text is not `num` or `num/den`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a fraction such as \"3/4\"")]
pub struct NotAFraction(String);

impl FromStr for Ratio {
    type Err = NotAFraction;

    fn from_str(text: &str) -> Result<Ratio, NotAFraction> {
        let fault = || NotAFraction(text.to_owned());
        let (num, den) = text.split_once('/').unwrap_or((text, "1"));
        let num = num.trim().parse::<i128>().map_err(|_| fault())?;
        let den = den.trim().parse::<i128>().map_err(|_| fault())?;
        Ratio::new(num, den).map_err(|_| fault())
    }
}

impl Serialize for Ratio {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Ratio {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ratio, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for Ratio {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Ratio".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "An exact fraction in lowest terms, num/den or num.",
            "type": "string",
            "pattern": "^-?[0-9]+(/[0-9]+)?$"
        })
    }
}

/// Returns the sum of many numbers.
///
/// # Errors
/// [`Overflow`].
pub fn sum(values: impl IntoIterator<Item = Ratio>) -> Result<Ratio, Overflow> {
    values.into_iter().try_fold(Ratio::ZERO, Ratio::plus)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn r(text: &str) -> Ratio {
        text.parse().unwrap()
    }

    #[test]
    fn lowest_terms_and_text() {
        assert_eq!(Ratio::new(6, -4).unwrap().to_string(), "-3/2");
        assert_eq!(r("8/4").to_string(), "2");
        assert_eq!(Ratio::new(1, 0), Err(Overflow));
        assert!("1/0".parse::<Ratio>().is_err());
    }

    #[test]
    fn arithmetic_is_exact() {
        assert_eq!(r("1/3").plus(r("1/6")), Ok(r("1/2")));
        assert_eq!(r("1/3").minus(r("1/2")), Ok(r("-1/6")));
        assert_eq!(r("2/3").times(r("9/4")), Ok(r("3/2")));
        assert_eq!(r("2/3").over(r("-4/9")), Ok(r("-3/2")));
        assert_eq!(
            (r("-7/2").ceil(), r("-7/2").floor(), r("7/2").ceil()),
            (-3, -4, 4)
        );
    }

    #[test]
    fn overflow_is_an_error_and_never_wraps() {
        let large = Ratio::whole(i128::MAX);
        assert_eq!(large.plus(Ratio::ONE), Err(Overflow));
        assert_eq!(large.times(r("3/2")), Err(Overflow));
        assert_eq!(Ratio::whole(i128::MAX).ceil_ns(), Err(Overflow));
        let fine = Ratio::new(1, i128::MAX).unwrap();
        assert_eq!(
            fine.plus(Ratio::new(1, i128::MAX - 1).unwrap()),
            Err(Overflow)
        );
    }

    #[test]
    fn order_is_exact_even_where_products_overflow() {
        let a = Ratio::new(i128::MAX, i128::MAX - 1).unwrap();
        let b = Ratio::new(i128::MAX - 1, i128::MAX - 2).unwrap();
        assert!(a < b);
        assert!(r("-1/3") > r("-1/2"));
        assert_eq!(a.cmp(&a), Ordering::Equal);
    }

    #[test]
    fn tidying_rounds_to_the_named_side_only() {
        for value in ["1/3", "-1/3", "123456789/757", "5"] {
            let (value, grid) = (r(value), 100);
            let (up, down) = (
                value.tidied_up(grid).unwrap(),
                value.tidied_down(grid).unwrap(),
            );
            assert!(down <= value && value <= up);
            assert!(up.minus(down).unwrap() <= Ratio::new(1, grid).unwrap());
        }
        let tiny = Ratio::new(i128::MAX / 2, i128::MAX).unwrap();
        let up = tiny.tidied_up(1_000_000_000_000).unwrap();
        assert!(up >= tiny && up < r("500001/1000000"));
    }
}
