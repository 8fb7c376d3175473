//! Quantities as text for people: durations, sizes, shares, times.

/// Returns a duration with about four significant digits and its unit: `"1.518 ms"`, `"714.5 µs"`, `"85 ns"`.
///
/// Rounds to nearest. Use it to show a value, never to decide by it.
///
/// ```
/// use rtwire_measure::units::duration;
/// assert_eq!(duration(1_518_200), "1.518 ms");
/// assert_eq!(duration(85), "85 ns");
/// assert_eq!(duration(12_000_000_000), "12.00 s");
/// ```
#[must_use]
pub fn duration(ns: u64) -> String {
    let (scale, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (1e3, "µs"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{} {unit}", significant(ns as f64 / scale))
}

/// Returns a duration for an axis label, without needless zeros: `"100 µs"`, `"1.5 ms"`.
#[must_use]
pub fn short_duration(ns: u64) -> String {
    let (scale, unit) = match ns {
        0 => return "0".to_owned(),
        1..1_000 => (1.0, "ns"),
        1_000..1_000_000 => (1e3, "µs"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{} {unit}", trimmed(ns as f64 / scale))
}

/// Returns a number with up to three decimals and no trailing zeros: `"1.5"`, `"100"`.
#[must_use]
pub fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Returns a number with four significant digits and at most three decimals: `"1.518"`, `"93.01"`, `"714.5"`.
#[must_use]
pub fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        v if v < 10.0 => 3,
        v if v < 100.0 => 2,
        v if v < 1_000.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// Returns a whole number in groups of three digits: `"130 204"`.
///
/// The separator is a no-break space, so no line breaks inside a number.
///
/// ```
/// assert_eq!(rtwire_measure::units::grouped(130204), "130\u{a0}204");
/// ```
#[must_use]
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3 * 2);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push('\u{a0}');
        }
        out.push(c);
    }
    out
}

/// Returns a link rate: `"100 Mbit/s"`.
#[must_use]
pub fn rate(bits_per_second: u64) -> String {
    let (scale, unit) = match bits_per_second {
        0..1_000 => (1.0, "bit/s"),
        1_000..1_000_000 => (1e3, "kbit/s"),
        1_000_000..1_000_000_000 => (1e6, "Mbit/s"),
        _ => (1e9, "Gbit/s"),
    };
    format!("{} {unit}", trimmed(bits_per_second as f64 / scale))
}

/// Returns a share in percent with two decimals: `"0.06 %"`.
///
/// A share above 0 never becomes `"0 %"`; the least is `"< 0.01 %"`.
#[must_use]
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 || part == 0 {
        return "0 %".to_owned();
    }
    let percent = part as f64 * 100.0 / whole as f64;
    if percent < 0.01 {
        "< 0.01 %".to_owned()
    } else {
        format!("{} %", trimmed((percent * 100.0).round() / 100.0))
    }
}

/// Returns a time as RFC 3339 in UTC with whole seconds: `"2026-11-20T21:16:00Z"`.
///
/// `unix_s` counts seconds since 1970-01-01T00:00:00Z, without leap seconds.
///
/// ```
/// assert_eq!(rtwire_measure::units::rfc3339_utc(951_782_400), "2000-02-29T00:00:00Z");
/// ```
#[must_use]
pub fn rfc3339_utc(unix_s: u64) -> String {
    let (days, second_of_day) = (unix_s / 86_400, unix_s % 86_400);
    // Days count from 0000-03-01, so the leap day is the last day of its year. Eras of 400 years then repeat exactly.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 {
        month_index + 3
    } else {
        month_index - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (
        second_of_day / 3_600,
        second_of_day / 60 % 60,
        second_of_day % 60,
    );
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Returns the current time as RFC 3339 in UTC.
#[must_use]
pub fn now_rfc3339_utc() -> String {
    // A clock before 1970 is shown as 1970.
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    rfc3339_utc(since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.000 µs"),
            (714_500, "714.5 µs"),
            (9_400_000, "9.400 ms"),
            (50_600_000, "50.60 ms"),
        ] {
            assert_eq!(duration(ns), text);
        }
        for (ns, text) in [
            (0, "0"),
            (500, "500 ns"),
            (100_000, "100 µs"),
            (1_500_000, "1.5 ms"),
            (2_000_000_000, "2 s"),
        ] {
            assert_eq!(short_duration(ns), text);
        }
    }

    #[test]
    fn shares_never_hide_a_few() {
        assert_eq!(share(0, 100), "0 %");
        assert_eq!(share(1, 1_000_000), "< 0.01 %");
        assert_eq!(share(12, 20_000), "0.06 %");
        assert_eq!(share(5, 0), "0 %");
    }

    #[test]
    fn dates_are_right_at_the_corners() {
        for (unix_s, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339_utc(unix_s), text);
        }
    }

    #[test]
    fn groups_and_rates() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(1_234_567), "1\u{a0}234\u{a0}567");
        assert_eq!(rate(100_000_000), "100 Mbit/s");
        assert_eq!(rate(2_500_000_000), "2.5 Gbit/s");
    }
}
