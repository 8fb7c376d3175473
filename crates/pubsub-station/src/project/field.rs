//! The tables `[[writer-group.data-set.field]]`: types, longest values and sources of values.

use core::ops::Range;
use rtwire_describe::project_file::{Findings, Keys};
use rtwire_pubsub::{Extent, ExtentFault, Field, MOST_FIELD_BYTES, Scalar, is_bytes, scalar_bytes};
use rtwire_wire::uadp::BuiltIn;
use toml::de::{DeTable, DeValue};

/// The source of a field's value at the publisher.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldSource {
    /// A program, or a memory-mapped image.
    Program,
    /// Always the same.
    Constant(Scalar),
    /// Always the same text.
    Text(String),
    /// Always the same bytes.
    Bytes(Vec<u8>),
    /// Always the same array, with the lowest byte of each element first.
    Elements(Vec<u8>),
    /// The number of the cycle; of an array its elements count on from there.
    Counter,
    /// The number of the cycle, below zero; of an array its elements count down from there.
    NegativeCounter,
    /// The time of the sample, ns of CLOCK_TAI.
    Time,
    /// One period of a sine in 256 cycles, from -100 to 100.
    Sine,
    /// The field of this name in the question: the driver copies it into the answer.
    Question(String),
}

pub(super) fn field(
    table: &DeTable<'_>,
    span: Range<usize>,
    findings: &mut Findings<'_>,
) -> Option<(Field, FieldSource)> {
    let mut keys = Keys::new(
        table,
        "[[writer-group.data-set.field]]",
        span.clone(),
        findings,
    );
    let name = keys.text("name").map(|(text, _)| text.to_owned());
    let words: Vec<&'static str> = BuiltIn::ALL
        .into_iter()
        .filter(|kind| scalar_bytes(*kind).is_some() || is_bytes(*kind))
        .map(BuiltIn::name)
        .collect();
    let kind = keys.choice("type", &words);
    let kind = kind.and_then(|name| BuiltIn::ALL.into_iter().find(|kind| kind.name() == name));
    let extent = extent(&mut keys, kind, &span);
    let source = source(&mut keys, kind, extent);
    for key in ["name", "type"] {
        if !table.contains_key(key) {
            keys.missing(key);
        }
    }
    keys.finish();
    let field = Field {
        name: name?,
        kind: kind?,
        extent,
    };
    Some((field, source))
}

/// Returns the longest value that the keys `max-bytes` and `max-elements` state.
fn extent(keys: &mut Keys<'_, '_, '_>, kind: Option<BuiltIn>, span: &Range<usize>) -> Extent {
    let range = 1..u64::from(MOST_FIELD_BYTES) + 1;
    let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let bytes = keys.number("max-bytes", range.clone()).map(number);
    let elements = keys.number("max-elements", range).map(number);
    let extent = match (bytes, elements) {
        (Some(bytes), _) => Extent::Bytes(bytes),
        (None, Some(elements)) => Extent::Elements(elements),
        (None, None) => Extent::Scalar,
    };
    let fault = match kind {
        Some(kind) if bytes.is_some() && elements.is_some() => {
            let message = match is_bytes(kind) {
                true => "a field is no array of texts: `max-elements` is for numbers",
                false => "`max-bytes` is for String and ByteString",
            };
            Some((message.to_owned(), None))
        }
        Some(kind) => match extent.check(kind) {
            Ok(()) => None,
            Err(ExtentFault::Size) => {
                let message = "the array is too long".to_owned();
                let help = format!("a field has at most {MOST_FIELD_BYTES} bytes");
                Some((message, Some(help)))
            }
            Err(_) if is_bytes(kind) => {
                let message = match elements {
                    Some(_) => "a field is no array of texts: `max-elements` is for numbers",
                    None => "missing key `max-bytes`",
                };
                let help = "write the most bytes of a value, for instance max-bytes = 32";
                Some((message.to_owned(), Some(help.to_owned())))
            }
            Err(_) => {
                let message = "`max-bytes` is for String and ByteString".to_owned();
                let help = "an array of numbers has `max-elements`".to_owned();
                Some((message, Some(help)))
            }
        },
        None => None,
    };
    if let Some((message, help)) = fault {
        keys.findings.at(span, message, help);
        return Extent::Scalar;
    }
    extent
}

/// Returns a constant of a scalar type; `None` where the value is none.
fn constant(value: &DeValue<'_>, kind: BuiltIn) -> Option<Scalar> {
    match value {
        DeValue::Boolean(truth) => Some(Scalar::of_number(kind, i64::from(*truth))),
        DeValue::Integer(number) => {
            let text = number.as_str().replace('_', "");
            i64::from_str_radix(&text, number.radix())
                .ok()
                .map(|number| Scalar::of_number(kind, number))
                .filter(|scalar| {
                    scalar.kind() == BuiltIn::Boolean
                        || scalar.to_string() == text
                        || number.radix() != 10
                })
        }
        DeValue::Float(number) => number
            .as_str()
            .parse()
            .ok()
            .filter(|_| matches!(kind, BuiltIn::Float | BuiltIn::Double))
            .map(|number| Scalar::of_float(kind, number)),
        _ => None,
    }
}

/// Returns the elements of a list, the lowest byte of each first; `None` where one is of another type.
fn elements(value: &DeValue<'_>, kind: BuiltIn) -> Option<Vec<u8>> {
    let DeValue::Array(list) = value else {
        return None;
    };
    let mut octets = Vec::new();
    for item in list {
        let scalar = constant(item.get_ref(), kind)?;
        let own = scalar.bits().to_le_bytes();
        octets.extend_from_slice(own.get(..scalar_bytes(kind)?)?);
    }
    Some(octets)
}

/// Returns bytes written in hexadecimal.
fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if digits.len() % 2 != 0 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let pairs = digits.chunks_exact(2).map(|pair| {
        let pair = core::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    });
    pairs.collect()
}

fn source(keys: &mut Keys<'_, '_, '_>, kind: Option<BuiltIn>, extent: Extent) -> FieldSource {
    let copied = keys.text("copy");
    let Some(value) = keys.get("value") else {
        let Some((name, span)) = copied else {
            return FieldSource::Program;
        };
        if extent != Extent::Scalar {
            let message = "`copy` is for scalars".to_owned();
            keys.findings.at(&span, message, None);
        }
        return FieldSource::Question(name.to_owned());
    };
    if let Some((_, span)) = copied {
        let message = "a field has `value` or `copy`".to_owned();
        keys.findings.at(&span, message, None);
    }
    let kind = kind.unwrap_or(BuiltIn::UInt64);
    let word = match value.get_ref() {
        DeValue::String(text) => Some(&**text),
        _ => None,
    };
    let found = match (extent, word) {
        (Extent::Bytes(_), Some(text)) if kind == BuiltIn::String => {
            Some(FieldSource::Text(text.to_owned()))
        }
        (Extent::Bytes(_), text) => text.and_then(hexadecimal).map(FieldSource::Bytes),
        (Extent::Elements(_), None) => elements(value.get_ref(), kind).map(FieldSource::Elements),
        (Extent::Scalar, None) => constant(value.get_ref(), kind).map(FieldSource::Constant),
        (_, Some(_)) => {
            let words: &[&'static str] = match extent {
                Extent::Scalar => &["program", "counter", "negative-counter", "time", "sine"],
                _ => &["program", "counter", "negative-counter"],
            };
            return match keys.choice("value", words) {
                Some("counter") => FieldSource::Counter,
                Some("negative-counter") => FieldSource::NegativeCounter,
                Some("time") => FieldSource::Time,
                Some("sine") => FieldSource::Sine,
                _ => FieldSource::Program,
            };
        }
    };
    let bytes = match &found {
        Some(FieldSource::Text(text)) => text.len(),
        Some(FieldSource::Bytes(bytes) | FieldSource::Elements(bytes)) => bytes.len(),
        _ => 0,
    };
    let fault = match found {
        Some(found) if bytes <= extent.room_bytes(kind) => return found,
        Some(_) => (
            "`value` is longer than the field".to_owned(),
            "write a larger `max-bytes` or `max-elements`",
        ),
        None if matches!(extent, Extent::Bytes(_)) => (
            format!("`value` is no {kind}"),
            "write a text; for a ByteString in hexadecimal, two digits for each byte",
        ),
        None if matches!(extent, Extent::Elements(_)) => (
            format!("`value` is no list of {kind}, and none of the generators"),
            "write for instance [1, 2, 3], \"counter\", \"negative-counter\" or \"program\"",
        ),
        None => (
            format!("`value` is no {kind}, and none of the generators"),
            "write a number of the type, \"counter\", \"negative-counter\", \"time\", \"sine\" or \"program\"",
        ),
    };
    let (message, help) = fault;
    keys.findings
        .at(&value.span(), message, Some(help.to_owned()));
    FieldSource::Program
}
