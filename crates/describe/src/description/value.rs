//! Checks one value of a description for its kind and its range, and notes a fault.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fault::Findings;
use super::keys::{Key, Kind, PRIORITY_TABLES};
use super::walk::{Span, Value};
use crate::ratio::Ratio;
use crate::units::{self, Dimension};

fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

pub(super) fn wrong_type(
    findings: &mut Findings<'_>,
    span: &Span,
    what: &str,
    wanted: &str,
    found: &DeValue<'_>,
) {
    let help = match found {
        DeValue::Integer(number) if wanted.starts_with("a duration") => {
            Some(format!("for instance \"{} ms\"", number.as_str()))
        }
        DeValue::Integer(number) if wanted.starts_with("a rate") => {
            Some(format!("for instance \"{} Mbit/s\"", number.as_str()))
        }
        DeValue::Integer(number) if wanted.starts_with("an amount") => {
            Some(format!("for instance \"{} B\"", number.as_str()))
        }
        DeValue::String(text) if wanted.starts_with("a list") => {
            Some(format!("write [\"{}\"]", short(text)))
        }
        _ => None,
    };
    findings.at(
        span,
        format!("`{what}` is {}, but expected is {wanted}", type_name(found)),
        help,
    );
}

/// Shortens a text from the file for a message.
pub(crate) fn short(text: &str) -> String {
    let clean = || text.chars().map(|c| if c.is_control() { '?' } else { c });
    if text.chars().count() <= 64 {
        clean().collect()
    } else {
        clean().take(60).chain("...".chars()).collect()
    }
}

pub(super) fn parse_value(
    key: &'static Key,
    value: &Spanned<DeValue<'_>>,
    findings: &mut Findings<'_>,
) -> Option<Value> {
    let span = value.span();
    let found = value.get_ref();
    match (key.kind, found) {
        (Kind::Text, DeValue::String(text)) => Some(Value::Text(text.to_string())),
        (Kind::Name, DeValue::String(text)) => {
            name(text, &span, key.name, findings).map(Value::Text)
        }
        (Kind::Choice(words), DeValue::String(text)) => {
            choice(key.name, words, text, &span, findings)
        }
        (Kind::Choice(words), other) => {
            let listed = words
                .iter()
                .map(|word| format!("\"{word}\""))
                .collect::<Vec<_>>()
                .join(" or ");
            wrong_type(findings, &span, key.name, &listed, other);
            None
        }
        (Kind::Names | Kind::Ends, DeValue::Array(items)) => {
            let mut names = Vec::new();
            for item in items {
                match item.get_ref() {
                    DeValue::String(text) => {
                        names.push((name(text, &item.span(), key.name, findings)?, item.span()))
                    }
                    other => {
                        wrong_type(findings, &item.span(), key.name, "a list of names", other);
                        return None;
                    }
                }
            }
            if key.kind == Kind::Ends && names.len() != 2 {
                let help = Some("for instance [\"A\", \"s1\"]".to_owned());
                findings.at(
                    &span,
                    format!(
                        "`{}` names {} nodes, but a link has two ends",
                        key.name,
                        names.len()
                    ),
                    help,
                );
                return None;
            }
            Some(Value::Names(names))
        }
        (Kind::Integer { min, max }, DeValue::Integer(number)) => {
            match i64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) if (min..=max).contains(&number) => Some(Value::Integer(number)),
                _ => {
                    let below = i64::from_str_radix(number.as_str(), number.radix())
                        .is_ok_and(|value| value < min);
                    let near = if below { min } else { max };
                    let help = Some(format!("the nearest is {near}"));
                    let message = format!(
                        "`{}` is {}, but must be {min} to {max}",
                        key.name,
                        short(number.as_str())
                    );
                    findings.at(&span, message, help);
                    None
                }
            }
        }
        (Kind::Quantity { dimension, zero }, DeValue::String(text)) => {
            match quantity(key.name, text, dimension, zero) {
                Ok(value) => Some(Value::Quantity(value)),
                Err((message, help)) => {
                    findings.at(&span, message, help);
                    None
                }
            }
        }
        (Kind::PriorityMap, DeValue::String(text)) => {
            choice(key.name, &PRIORITY_TABLES, text, &span, findings)
        }
        (Kind::PriorityMap, DeValue::Array(items)) => {
            super::priorities::list(key.name, items, &span, findings).map(Value::Classes)
        }
        (Kind::Priorities, DeValue::Array(items)) => {
            super::priorities::set(key.name, items, findings).map(Value::Priorities)
        }
        (Kind::Codes { most }, DeValue::Table(codes)) => {
            super::routers::codes(key.name, most, codes, findings).map(Value::Codes)
        }
        (Kind::Latency, DeValue::String(text)) => {
            let max = latency_end(key.name, text, &span, findings)?;
            Some(Value::Latency(Ratio::ZERO, max))
        }
        (Kind::Latency, DeValue::Table(ends)) => latency_range(key.name, ends, &span, findings),
        (Kind::Buffer, DeValue::String(text)) => match units::parse_buffer(text) {
            Ok((value, frames)) => match in_range(key.name, text, value, Dimension::Data, false) {
                Ok(())
                    if value
                        .times(Ratio::new(1, 8).ok()?)
                        .is_ok_and(|bytes| bytes.den() == 1) =>
                {
                    Some(Value::Buffer(value, frames))
                }
                Ok(()) => {
                    findings.at(
                        &span,
                        format!("`{}` is no whole number of bytes", key.name),
                        None,
                    );
                    None
                }
                Err((message, help)) => {
                    findings.at(&span, message, help);
                    None
                }
            },
            Err(fault) => {
                findings.at(&span, format!("`{}`: {fault}", key.name), fault.help());
                None
            }
        },
        (kind, other) => {
            wrong_type(findings, &span, key.name, wanted(kind), other);
            None
        }
    }
}

/// Parses one of a few words.
fn choice(
    key: &str,
    words: &[&'static str],
    text: &str,
    span: &Span,
    findings: &mut Findings<'_>,
) -> Option<Value> {
    if words.contains(&text) {
        return Some(Value::Text(text.to_owned()));
    }
    let listed = words.iter().map(|word| format!("\"{word}\""));
    let listed = listed.collect::<Vec<_>>().join(" or ");
    let help = findings
        .nearest(text, words.iter().copied())
        .map(|near| format!("did you mean \"{near}\"?"));
    let message = format!("`{key}` is \"{}\", but expected is {listed}", short(text));
    findings.at(span, message, help);
    None
}

/// Parses one end of a latency.
fn latency_end(key: &str, text: &str, span: &Span, findings: &mut Findings<'_>) -> Option<Ratio> {
    quantity(key, text, Dimension::Time, true)
        .map_err(|(message, help)| findings.at(span, message, help))
        .ok()
}

/// Parses `{ min, max }`: both are stated, and `min` is not above `max`.
fn latency_range(
    key: &str,
    ends: &DeTable<'_>,
    span: &Span,
    findings: &mut Findings<'_>,
) -> Option<Value> {
    const HELP: &str = "for instance { min = \"2 us\", max = \"5 us\" }";
    let (mut found, mut faulty) = ([None, None], false);
    for (name, value) in ends {
        let at = match name.get_ref().as_ref() {
            "min" => 0,
            "max" => 1,
            other => {
                let message = format!("unknown key `{}` in `{key}`", short(other));
                findings.at(&name.span(), message, Some("keys are min, max".to_owned()));
                faulty = true;
                continue;
            }
        };
        let what = format!("{key}.{}", ["min", "max"][at]);
        match value.get_ref() {
            DeValue::String(text) => {
                found[at] = latency_end(&what, text, &value.span(), findings);
                faulty |= found[at].is_none();
            }
            other => {
                wrong_type(
                    findings,
                    &value.span(),
                    &what,
                    Dimension::Time.wanted(),
                    other,
                );
                faulty = true;
            }
        }
    }
    match found {
        _ if faulty => None,
        [Some(min), Some(max)] if min <= max => Some(Value::Latency(min, max)),
        [Some(_), Some(_)] => {
            let message = format!("`{key}`: `min` is above `max`");
            findings.at(span, message, Some(HELP.to_owned()));
            None
        }
        _ => {
            let message = format!("`{key}` states one end, but expected are `min` and `max`");
            findings.at(span, message, Some(HELP.to_owned()));
            None
        }
    }
}

const fn wanted(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => "a text",
        Kind::Name => "a name in quotation marks",
        Kind::Names => "a list of names",
        Kind::Ends => "a list of two names",
        Kind::Integer { .. } => "a whole number",
        Kind::Quantity { dimension, .. } => dimension.wanted(),
        Kind::Latency => "a duration such as \"5 us\", or { min = \"5 us\", max = \"5 us\" }",
        Kind::Buffer => "an amount of data such as \"512 KiB\" or \"86 x 1514 B\"",
        Kind::PriorityMap => "a list of eight queues, or \"802.1q\" or \"802.1q-avb\"",
        Kind::Priorities => "a list of priorities such as [0, 1]",
        Kind::Codes { most: 7 } => "a table from DSCP to priority such as { 46 = 6 }",
        Kind::Codes { .. } => "a table from DSCP to DSCP such as { 46 = 34 }",
        Kind::Choice(_) => "one of few words",
    }
}

fn name(text: &str, span: &Span, key: &str, findings: &mut Findings<'_>) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !text.is_empty() && text.len() <= 64 && text.chars().all(fits) {
        return Some(text.to_owned());
    }
    let message = format!("`{key}`: \"{}\" is no name", short(text));
    findings.at(
        span,
        message,
        Some("a name has 1 to 64 letters, digits, `-`, `_` and `.`".to_owned()),
    );
    None
}

/// The error in words, and the nearest correct value.
pub(crate) type Complaint = (String, Option<String>);

/// Parses a quantity and checks that it is within a sensible range.
pub(crate) fn quantity(
    key: &str,
    text: &str,
    dimension: Dimension,
    zero: bool,
) -> Result<Ratio, Complaint> {
    let value = units::parse(text, dimension)
        .map_err(|fault| (format!("`{key}`: {}", short_fault(&fault)), fault.help()))?;
    in_range(key, text, value, dimension, zero)?;
    let exact = match dimension {
        Dimension::Time => {
            let ns = value
                .times(Ratio::whole(1_000_000_000))
                .map_err(|_| (format!("`{key}` is too fine"), None))?;
            if ns.den() != 1 {
                let help = Some(format!(
                    "the nearest are \"{} ns\" and \"{} ns\"",
                    ns.floor(),
                    ns.ceil()
                ));
                return Err((
                    format!(
                        "`{key}` is \"{}\", no whole number of nanoseconds",
                        short(text)
                    ),
                    help,
                ));
            }
            true
        }
        Dimension::Rate | Dimension::Data | Dimension::Share => value.den() <= 1_000_000_000,
    };
    if exact {
        Ok(value)
    } else {
        Err((
            format!("`{key}` is \"{}\", which is too fine", short(text)),
            None,
        ))
    }
}

fn short_fault(fault: &units::UnitFault) -> String {
    short_message(&fault.to_string())
}

fn short_message(text: &str) -> String {
    if text.chars().count() <= 160 {
        text.to_owned()
    } else {
        text.chars().take(157).chain("...".chars()).collect()
    }
}

fn in_range(
    key: &str,
    text: &str,
    value: Ratio,
    dimension: Dimension,
    zero: bool,
) -> Result<(), Complaint> {
    // Wide enough for any Ethernet, narrow enough that exact arithmetic never runs out.
    let (largest, called) = match dimension {
        Dimension::Time => (Ratio::whole(1_000), "1000 s"),
        Dimension::Rate => (Ratio::whole(1_000_000_000_000), "1000 Gbit/s"),
        Dimension::Data => (Ratio::whole(8 * 1024 * 1024 * 1024), "1024 MiB"),
        Dimension::Share => (Ratio::new(1, 10).unwrap_or(Ratio::ONE), "100000 ppm"),
    };
    if value.is_zero() && !zero {
        return Err((format!("`{key}` is zero"), None));
    }
    if value > largest {
        return Err((
            format!("`{key}` is \"{}\", beyond reason", short(text)),
            Some(format!("the largest is \"{called}\"")),
        ));
    }
    Ok(())
}
