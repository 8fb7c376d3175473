//! Numbers with units as Saihu writes them: `"10us"`, `"2kB"`, `"100Mbps"`, or a bare number in a unit stated elsewhere.

use crate::ratio::Ratio;

/// The kind of quantity that a number counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Seconds.
    Time,
    /// Bits.
    Data,
    /// Bit/s.
    Rate,
}

impl Kind {
    pub(super) const fn wanted(self) -> &'static str {
        match self {
            Kind::Time => "a time such as \"10us\"",
            Kind::Data => "an amount of data such as \"2kB\"",
            Kind::Rate => "a rate such as \"100Mbps\"",
        }
    }

    /// Returns each unit without its prefix, and its size in base units.
    const fn units(self) -> &'static [(&'static str, i128)] {
        match self {
            Kind::Time => &[("s", 1)],
            Kind::Data => &[("b", 1), ("B", 8)],
            Kind::Rate => &[("bps", 1), ("Bps", 8)],
        }
    }
}

/// The prefixes; each step is a factor of a thousand.
const PREFIXES: [(&str, i32); 8] = [
    ("p", -12),
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
];

fn ten_to(power: i32) -> Option<Ratio> {
    let size = 10_i128.checked_pow(power.unsigned_abs())?;
    if power < 0 {
        Ratio::new(1, size).ok()
    } else {
        Some(Ratio::whole(size))
    }
}

/// Returns the size of a unit in base units.
pub(super) fn unit(text: &str, kind: Kind) -> Option<Ratio> {
    kind.units().iter().find_map(|(name, size)| {
        let prefix = text.strip_suffix(name)?;
        let power = if prefix.is_empty() {
            0
        } else {
            PREFIXES.iter().find(|known| known.0 == prefix)?.1
        };
        ten_to(power)?.times(Ratio::whole(*size)).ok()
    })
}

/// Parses a decimal number exactly. `None` if it is negative or out of range.
fn decimal(text: &str) -> Option<Ratio> {
    let (digits, power) = match text.split_once(['e', 'E']) {
        Some((digits, power)) => (digits, power.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let value: i128 = format!("{whole}{fraction}").parse().ok()?;
    let places = i32::try_from(fraction.len()).ok()?;
    ten_to(power.checked_sub(places)?)?
        .times(Ratio::whole(value))
        .ok()
}

/// Parses a number with its unit, or a bare one in `default`, to base units.
pub(super) fn quantity(text: &str, kind: Kind, default: Ratio) -> Option<Ratio> {
    let text = text.trim();
    if let Some(value) = decimal(text) {
        return value.times(default).ok();
    }
    // The number is the longest beginning that is one: 1e3 is no unit.
    let ends = text.char_indices().map(|(at, _)| at).rev();
    let (number, rest) = ends
        .filter_map(|at| Some((decimal(text[..at].trim_end())?, text[at..].trim())))
        .next()?;
    number.times(unit(rest, kind)?).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::{Kind, quantity};
    use crate::ratio::Ratio;

    #[test]
    fn numbers_are_exact() {
        let one = Ratio::whole(1);
        for (text, kind, num, den) in [
            ("10us", Kind::Time, 1, 100_000),
            ("1e-2ms", Kind::Time, 1, 100_000),
            ("2kB", Kind::Data, 16_000, 1),
            ("0.5", Kind::Rate, 1, 2),
            ("100 Mbps", Kind::Rate, 100_000_000, 1),
            ("1.25GBps", Kind::Rate, 10_000_000_000, 1),
        ] {
            let expected = Ratio::new(num, den).unwrap();
            assert_eq!(quantity(text, kind, one), Some(expected), "{text}");
        }
        for text in ["", "us", "-1us", "1e99s", "10 Mbit/s", "1us2", "٣us", "1x"] {
            assert_eq!(quantity(text, Kind::Time, one), None, "{text}");
        }
    }
}
