//! Arguments that all commands read alike: durations, rates, `KEY=VALUE`, receive paths.

use std::time::Duration;

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use rtwire_plan::Ratio;
use rtwire_plan::units::{self, Dimension};
use rtwire_session::{ReceivePath, TxPath};
use rtwire_sys::stamps::StampSource;

/// The place that stamps frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stamps {
    /// The kernel, by the host's clock: on every interface
    Software,
    /// The card, by its own clock, converted to the host's; refused where the card cannot
    Hardware,
}

impl From<Stamps> for StampSource {
    fn from(stamps: Stamps) -> Self {
        match stamps {
            Stamps::Software => Self::Software,
            Stamps::Hardware => Self::Hardware,
        }
    }
}

/// The help of FILE, for every command that takes one.
pub(crate) const NETWORK_HELP: &str =
    "A network description (TOML) or a plan (JSON, from `rtwire plan --output`)";

/// Reads a quantity. The message of a fault contains the nearest right text.
fn quantity(text: &str, dimension: Dimension) -> Result<Ratio, String> {
    units::parse(text, dimension).map_err(|fault| match fault.help() {
        Some(help) => format!("{fault}; {help}"),
        None => fault.to_string(),
    })
}

/// Reads a duration such as `30s`, `1.5 ms`, `500us`, `2min`, or 0. Parts of a nanosecond are rounded up.
pub(crate) fn parse_duration_or_none(text: &str) -> Result<Duration, String> {
    let out_of_range = || "a duration is at least 0 and below 500 years".to_owned();
    let seconds = match text.trim().strip_suffix("min") {
        Some(minutes) => quantity(&format!("{minutes} s"), Dimension::Time)?
            .times(Ratio::whole(60))
            .map_err(|_| out_of_range())?,
        None if text.trim() == "0" => Ratio::ZERO,
        None => quantity(text, Dimension::Time)?,
    };
    let ns = seconds.ceil_ns().map_err(|_| out_of_range())?;
    Ok(Duration::from_nanos(ns))
}

/// Reads a duration above 0.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    match parse_duration_or_none(text)? {
        Duration::ZERO => Err("a duration is above 0; say for example 1ms".to_owned()),
        time => Ok(time),
    }
}

/// The longest time to spin: a thread of SCHED_FIFO that never sleeps takes its whole core.
const SPIN_MOST: Duration = Duration::from_millis(1);

/// Reads the time that a listener spins: 0 to 1 ms.
pub(crate) fn parse_spin(text: &str) -> Result<Duration, String> {
    match parse_duration_or_none(text)? {
        time if time <= SPIN_MOST => Ok(time),
        _ => Err(
            "at most 1ms: a real-time thread that spins for longer has its core for itself"
                .to_owned(),
        ),
    }
}

/// Reads a rate such as `100 Mbit/s`, in bit/s, rounded up.
pub(crate) fn parse_rate(text: &str) -> Result<u64, String> {
    u64::try_from(quantity(text, Dimension::Rate)?.ceil())
        .ok()
        .filter(|rate| *rate > 0)
        .ok_or_else(|| "a rate is at least 1 bit/s".to_owned())
}

/// Reads a size such as `500 MB`, in bytes, rounded up.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let bits = quantity(text, Dimension::Data)?.ceil();
    let bytes = u64::try_from(bits).map_or(u64::MAX, |bits| bits.div_ceil(8));
    match bytes {
        0 => Err("a size is above 0; say for example 500MB".to_owned()),
        bytes => Ok(bytes),
    }
}

/// Reads `KEY=VALUE`.
pub(crate) fn key_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
        None => Err("expected KEY=VALUE, for instance shaping-interval=10ms".to_owned()),
    }
}

/// Returns a duration in nanoseconds, at most the largest 64-bit number.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the parser of a transmit path's name, for these paths.
pub(crate) fn transmit_paths<const N: usize>(
    paths: [TxPath; N],
) -> impl TypedValueParser<Value = TxPath> {
    PossibleValuesParser::new(paths.map(TxPath::name)).try_map(|name| name.parse::<TxPath>())
}

/// Returns the parser of a receive path's name, for these paths.
pub(crate) fn receive_paths<const N: usize>(
    paths: [ReceivePath; N],
) -> impl TypedValueParser<Value = ReceivePath> {
    PossibleValuesParser::new(paths.map(ReceivePath::name))
        .try_map(|name| name.parse::<ReceivePath>())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::{parse_duration, parse_duration_or_none, parse_rate, parse_spin};

    #[test]
    fn durations_are_read_alike_everywhere() {
        for (text, ns) in [
            ("30s", 30_000_000_000),
            ("1.5s", 1_500_000_000),
            ("500us", 500_000),
            ("500 µs", 500_000),
            ("1/3 ms", 333_334),
            ("2min", 120_000_000_000),
            ("1.5 min", 90_000_000_000),
        ] {
            assert_eq!(parse_duration(text).unwrap().as_nanos(), ns, "{text}");
        }
        for (text, message) in [
            ("0s", "above 0"),
            ("30", "has no unit"),
            ("-1s", "is negative"),
            ("1 msec", "did you mean `ms`?"),
            ("9999999999999999999999 s", "500 years"),
        ] {
            let fault = parse_duration(text).unwrap_err();
            assert!(fault.contains(message), "{text}: {fault}");
        }
        assert!(parse_duration_or_none("0").unwrap().is_zero());
        assert!(parse_spin("0s").unwrap().is_zero());
        assert!(parse_spin("2ms").unwrap_err().starts_with("at most 1ms"));
        assert_eq!(parse_rate("100Mbit/s"), Ok(100_000_000));
        assert!(parse_rate("0 bit/s").is_err());
    }
}
