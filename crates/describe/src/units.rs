//! Quantities as people write them: `"100 Mbit/s"`, `"1.5 ms"`, `"86 x 1514 B"`.
//!
//! A number (decimal, or a fraction such as `23070000000/757`), then a unit.
//! Parsing is exact; no floating point takes part.

use crate::nearest::nearest;
use crate::ratio::Ratio;

/// The dimension of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// A time; the base unit is the second.
    Time,
    /// A rate; the base unit is bit per second.
    Rate,
    /// An amount of data; the base unit is the bit.
    Data,
    /// A fraction of one.
    Share,
}

impl Dimension {
    /// Returns the name of the dimension, with an example.
    #[must_use]
    pub const fn wanted(self) -> &'static str {
        match self {
            Dimension::Time => "a duration such as \"1 ms\"",
            Dimension::Rate => "a rate such as \"100 Mbit/s\"",
            Dimension::Data => "an amount of data such as \"1514 B\"",
            Dimension::Share => "a share such as \"100 ppm\"",
        }
    }

    const fn named(self) -> &'static str {
        match self {
            Dimension::Time => "a unit of time",
            Dimension::Rate => "a unit of rate",
            Dimension::Data => "a unit of data",
            Dimension::Share => "a unit of shares",
        }
    }
}

/// Name, dimension, numerator and denominator of the factor to the base unit.
const UNITS: &[(&str, Dimension, i128, i128)] = &[
    ("ns", Dimension::Time, 1, 1_000_000_000),
    ("us", Dimension::Time, 1, 1_000_000),
    ("µs", Dimension::Time, 1, 1_000_000),
    ("μs", Dimension::Time, 1, 1_000_000),
    ("ms", Dimension::Time, 1, 1_000),
    ("s", Dimension::Time, 1, 1),
    ("bit/s", Dimension::Rate, 1, 1),
    ("kbit/s", Dimension::Rate, 1_000, 1),
    ("Mbit/s", Dimension::Rate, 1_000_000, 1),
    ("Gbit/s", Dimension::Rate, 1_000_000_000, 1),
    ("B/s", Dimension::Rate, 8, 1),
    ("kB/s", Dimension::Rate, 8_000, 1),
    ("MB/s", Dimension::Rate, 8_000_000, 1),
    ("GB/s", Dimension::Rate, 8_000_000_000, 1),
    ("bit", Dimension::Data, 1, 1),
    ("kbit", Dimension::Data, 1_000, 1),
    ("Mbit", Dimension::Data, 1_000_000, 1),
    ("B", Dimension::Data, 8, 1),
    ("kB", Dimension::Data, 8_000, 1),
    ("MB", Dimension::Data, 8_000_000, 1),
    ("KiB", Dimension::Data, 8 * 1024, 1),
    ("MiB", Dimension::Data, 8 * 1024 * 1024, 1),
    ("ppb", Dimension::Share, 1, 1_000_000_000),
    ("ppm", Dimension::Share, 1, 1_000_000),
    ("%", Dimension::Share, 1, 100),
];

/// Returns the names of all units of a dimension, as the schema's pattern and the manual list them.
pub fn unit_names(dimension: Dimension) -> impl Iterator<Item = &'static str> {
    UNITS
        .iter()
        .filter(move |unit| unit.1 == dimension)
        .map(|unit| unit.0)
}

/// The reason why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitFault {
    /// The text does not start with a number.
    #[error("`{text}` does not begin with a number; expected {}", wanted.wanted())]
    NoNumber {
        /// The text.
        text: String,
        /// The expected dimension.
        wanted: Dimension,
    },
    /// A number below zero.
    #[error("`{text}` is negative")]
    Negative {
        /// The text.
        text: String,
    },
    /// A number without a unit.
    #[error("`{text}` has no unit; expected {}", wanted.wanted())]
    NoUnit {
        /// The text.
        text: String,
        /// The expected dimension.
        wanted: Dimension,
    },
    /// A unit that does not exist.
    #[error("`{unit}` is not {}", wanted.named())]
    UnknownUnit {
        /// The unit.
        unit: String,
        /// The expected dimension.
        wanted: Dimension,
        /// The nearest unit of the expected dimension.
        near: Option<&'static str>,
    },
    /// A unit of another dimension.
    #[error("`{unit}` is {}, but expected is {}", found.named(), wanted.wanted())]
    WrongDimension {
        /// The unit.
        unit: String,
        /// The dimension of the unit.
        found: Dimension,
        /// The expected dimension.
        wanted: Dimension,
        /// The nearest unit of the expected dimension.
        near: Option<&'static str>,
    },
    /// More digits than 128 bits hold.
    #[error("`{text}` is too large or too fine")]
    TooLarge {
        /// The text.
        text: String,
    },
}

impl UnitFault {
    /// Returns the nearest correct text, if there is one.
    #[must_use]
    pub fn help(&self) -> Option<String> {
        match self {
            UnitFault::UnknownUnit {
                near: Some(near), ..
            }
            | UnitFault::WrongDimension {
                near: Some(near), ..
            } => Some(format!("did you mean `{near}`?")),
            UnitFault::UnknownUnit { wanted, .. } | UnitFault::WrongDimension { wanted, .. } => {
                Some(format!(
                    "units are {}",
                    unit_names(*wanted).collect::<Vec<_>>().join(", ")
                ))
            }
            UnitFault::NoUnit { text, wanted } => {
                let unit = match wanted {
                    Dimension::Time => "ms",
                    Dimension::Rate => "Mbit/s",
                    Dimension::Data => "B",
                    Dimension::Share => "ppm",
                };
                Some(format!("for instance \"{} {unit}\"", text.trim()))
            }
            _ => None,
        }
    }
}

/// Parses an exact number without sign: `12`, `1.5`, `1_000`, `23070000000/757`.
fn number(text: &str) -> Option<Ratio> {
    if let Some((num, den)) = text.split_once('/') {
        let (num, den) = (number(num.trim())?, number(den.trim())?);
        return num.over(den).ok();
    }
    let plain: String = text.chars().filter(|c| *c != '_').collect();
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty()
        || !digits(whole)
        || !digits(fraction)
        || (plain.contains('.') && fraction.is_empty())
    {
        return None;
    }
    let scale = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let value = format!("{whole}{fraction}").parse::<i128>().ok()?;
    Ratio::new(value, scale).ok()
}

/// Parses a quantity of the wanted dimension to its base unit (s, bit/s, bit).
///
/// # Errors
/// [`UnitFault`] with the reason and the nearest correct unit.
pub fn parse(text: &str, wanted: Dimension) -> Result<Ratio, UnitFault> {
    let trimmed = text.trim();
    let unsigned = trimmed.strip_prefix(['-', '−']);
    let body = unsigned.unwrap_or(trimmed).trim_start();
    // A slash belongs to the number only where a digit follows it: "23/7 Mbit/s".
    let mut end = 0;
    for (at, c) in body.char_indices() {
        let next = body[at + c.len_utf8()..].trim_start().chars().next();
        let in_number = c.is_ascii_digit()
            || matches!(c, '.' | '_')
            || (c == '/' && next.is_some_and(|n| n.is_ascii_digit()))
            || (c == ' ' && next.is_some_and(|n| n.is_ascii_digit() || n == '/'));
        if !in_number {
            break;
        }
        end = at + c.len_utf8();
    }
    let (digits, unit) = (body[..end].trim(), body[end..].trim());
    if digits.is_empty() {
        return Err(UnitFault::NoNumber {
            text: trimmed.to_owned(),
            wanted,
        });
    }
    if unsigned.is_some() {
        return Err(UnitFault::Negative {
            text: trimmed.to_owned(),
        });
    }
    if unit.is_empty() {
        return Err(UnitFault::NoUnit {
            text: trimmed.to_owned(),
            wanted,
        });
    }
    let near = || nearest(unit, unit_names(wanted));
    let Some((_, found, num, den)) = UNITS.iter().find(|known| known.0 == unit) else {
        return Err(UnitFault::UnknownUnit {
            unit: unit.to_owned(),
            wanted,
            near: near(),
        });
    };
    if *found != wanted {
        return Err(UnitFault::WrongDimension {
            unit: unit.to_owned(),
            found: *found,
            wanted,
            near: near(),
        });
    }
    let looks_right = digits
        .bytes()
        .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'/' | b'_' | b' '));
    let value = number(digits);
    match value.and_then(|value| value.times(Ratio::new(*num, *den).ok()?).ok()) {
        Some(value) => Ok(value),
        None if looks_right && digits.len() > 18 => Err(UnitFault::TooLarge {
            text: trimmed.to_owned(),
        }),
        None => Err(UnitFault::NoNumber {
            text: trimmed.to_owned(),
            wanted,
        }),
    }
}

/// Parses the size of a buffer. Returns its bits, and the number of frames if written `86 x 1514 B`.
///
/// # Errors
/// [`UnitFault`].
pub fn parse_buffer(text: &str) -> Result<(Ratio, Option<u64>), UnitFault> {
    let Some((count, size)) = text.split_once(['x', '×']) else {
        return Ok((parse(text, Dimension::Data)?, None));
    };
    let too_large = || UnitFault::TooLarge {
        text: text.trim().to_owned(),
    };
    if count.trim().starts_with('-') {
        return Err(UnitFault::Negative {
            text: text.trim().to_owned(),
        });
    }
    let count = count
        .trim()
        .parse::<u64>()
        .map_err(|_| UnitFault::NoNumber {
            text: text.trim().to_owned(),
            wanted: Dimension::Data,
        })?;
    let size = parse(size, Dimension::Data)?;
    Ok((
        size.times(Ratio::whole(i128::from(count)))
            .map_err(|_| too_large())?,
        Some(count),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str, dimension: Dimension) -> String {
        parse(text, dimension).map_or_else(|fault| format!("{fault}"), |value| value.to_string())
    }

    #[test]
    fn exact_values() {
        for (text, dimension, expected) in [
            ("100 Mbit/s", Dimension::Rate, "100000000"),
            ("1 Gbit/s", Dimension::Rate, "1000000000"),
            ("23070000000/757 bit/s", Dimension::Rate, "23070000000/757"),
            ("757/769 Mbit/s", Dimension::Rate, "757000000/769"),
            ("1 ms", Dimension::Time, "1/1000"),
            ("1.5ms", Dimension::Time, "3/2000"),
            ("100 µs", Dimension::Time, "1/10000"),
            ("0.1 ms", Dimension::Time, "1/10000"),
            ("1514 B", Dimension::Data, "12112"),
            ("512 KiB", Dimension::Data, "4194304"),
            ("64 kB", Dimension::Data, "512000"),
            ("300_000 bit", Dimension::Data, "300000"),
        ] {
            assert_eq!(value(text, dimension), expected, "{text}");
        }
        assert_eq!(
            parse_buffer("86 x 1514 B").unwrap(),
            (Ratio::whole(86 * 1514 * 8), Some(86))
        );
        assert_eq!(parse_buffer("512 KiB").unwrap().1, None);
    }

    #[test]
    fn faults_name_the_nearest_unit() {
        for (text, dimension, help) in [
            ("100 Mbps", Dimension::Rate, "did you mean `Mbit/s`?"),
            ("100 mbit/s", Dimension::Rate, "did you mean `Mbit/s`?"),
            ("1 msec", Dimension::Time, "did you mean `ms`?"),
            ("1514 bytes", Dimension::Data, "did you mean `B`?"),
            ("100", Dimension::Rate, "for instance \"100 Mbit/s\""),
        ] {
            let fault = parse(text, dimension).unwrap_err();
            assert_eq!(fault.help().as_deref(), Some(help), "{text}: {fault}");
        }
        assert!(matches!(
            parse("-1 ms", Dimension::Time),
            Err(UnitFault::Negative { .. })
        ));
        assert!(matches!(
            parse("ms", Dimension::Time),
            Err(UnitFault::NoNumber { .. })
        ));
        assert!(matches!(
            parse("1/0 ms", Dimension::Time),
            Err(UnitFault::NoNumber { .. })
        ));
        let long = format!("{} ms", "9".repeat(60));
        assert!(matches!(
            parse(&long, Dimension::Time),
            Err(UnitFault::TooLarge { .. })
        ));
    }
}
