//! Times and numbers for people. They are exact, so that a value and its limit can be compared.
//!
//! Text that users copy into a description has the form of a description: no groups of digits.

/// Returns nanoseconds in the largest unit that keeps the digits few.
///
/// ```
/// use rtwire_plan::show::show_ns;
/// assert_eq!(show_ns(1_518_240), "1.51824 ms");
/// assert_eq!(show_ns(200_000), "200 µs");
/// ```
#[must_use]
pub fn show_ns(ns: u64) -> String {
    let (scale, unit) = match ns {
        1_000_000_000.. => (1_000_000_000, "s"),
        1_000_000.. => (1_000_000, "ms"),
        1_000.. => (1_000, "µs"),
        _ => return format!("{ns} ns"),
    };
    let width = scale.to_string().len() - 1;
    let text = format!("{}.{:0width$}", ns / scale, ns % scale);
    format!(
        "{} {unit}",
        text.trim_end_matches('0').trim_end_matches('.')
    )
}

/// Returns a whole number in groups of three digits. No-break spaces keep it on one line.
///
/// ```
/// assert_eq!(rtwire_plan::show::grouped(11_550), "11\u{a0}550");
/// ```
#[must_use]
pub fn grouped(number: impl ToString) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 * 2);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push('\u{a0}');
        }
        text.push(digit);
    }
    text
}
