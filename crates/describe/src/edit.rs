//! Sets values of streams in the text of a description. All else in the text stays as it is, also its comments.

use core::fmt;
use core::ops::Range;
use std::collections::BTreeSet;

use toml::de::{DeTable, DeValue};

/// A value of one key of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The stream's name in the file.
    pub stream: String,
    /// The key.
    pub key: String,
    /// The value as TOML: `6`, `"200 us"`, `["A", "s1", "B"]`.
    pub value: String,
}

/// The reason why a text was not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditError {
    /// The text is not TOML.
    NotToml,
    /// There is no stream of this name.
    NoStream(String),
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EditError::NotToml => f.write_str("the text is not TOML"),
            EditError::NoStream(name) => write!(f, "there is no stream \"{name}\""),
        }
    }
}

impl std::error::Error for EditError {}

/// The place of one stream in a text.
struct Place {
    name: String,
    /// The value of `name`.
    name_span: Range<usize>,
    /// True for `{ name = ... }`, false for `[[stream]]`.
    inline: bool,
    /// Each key with its value.
    values: Vec<(String, Range<usize>)>,
}

fn places(source: &str) -> Result<Vec<Place>, EditError> {
    let document = DeTable::parse(source).map_err(|_| EditError::NotToml)?;
    let Some(DeValue::Array(items)) = document.get_ref().get("stream").map(|it| it.get_ref())
    else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for item in items {
        let DeValue::Table(content) = item.get_ref() else {
            continue;
        };
        let Some(name) = content.get("name") else {
            continue;
        };
        let DeValue::String(text) = name.get_ref() else {
            continue;
        };
        let keys = content.iter();
        found.push(Place {
            name: text.to_string(),
            name_span: name.span(),
            inline: source
                .get(item.span())
                .is_some_and(|text| text.starts_with('{')),
            values: keys
                .map(|(key, value)| (key.get_ref().to_string(), value.span()))
                .collect(),
        });
    }
    Ok(found)
}

/// Returns the names of the streams that state a key. A text that is not TOML has none.
#[must_use]
pub fn streams_with(source: &str, key: &str) -> BTreeSet<String> {
    let places = places(source).unwrap_or_default().into_iter();
    let states = |place: &Place| place.values.iter().any(|(known, _)| known == key);
    places.filter(states).map(|place| place.name).collect()
}

/// Returns the text with these values. A stated value is replaced; a new key is entered below `name`.
///
/// # Errors
/// [`EditError`] if the text is not TOML, or if a stream is missing.
///
/// ```
/// use rtwire_describe::edit::{Setting, set};
///
/// let text = "[[stream]]\nname = \"x\"\npriority = 2 # low\n";
/// let setting = Setting {
///     stream: "x".to_owned(),
///     key: "priority".to_owned(),
///     value: "6".to_owned(),
/// };
/// let changed = set(text, &[setting])?;
/// assert_eq!(changed, "[[stream]]\nname = \"x\"\npriority = 6 # low\n");
/// # Ok::<(), rtwire_describe::edit::EditError>(())
/// ```
pub fn set(source: &str, settings: &[Setting]) -> Result<String, EditError> {
    let places = places(source)?;
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    for setting in settings {
        let Setting { stream, key, value } = setting;
        let found = places.iter().find(|place| place.name == *stream);
        let place = found.ok_or_else(|| EditError::NoStream(stream.clone()))?;
        match place.values.iter().find(|(known, _)| known == key) {
            Some((_, span)) => edits.push((span.clone(), value.clone())),
            None => edits.push(entered(source, place, key, value)),
        }
    }
    // From the end, so that places before stay valid. Equal places keep the order of the settings.
    edits.reverse();
    edits.sort_by_key(|(span, _)| core::cmp::Reverse(span.start));
    let mut text = source.to_owned();
    for (span, value) in edits {
        text.replace_range(span, &value);
    }
    Ok(text)
}

/// Returns the place and the text of a new key, behind the value of `name`.
fn entered(source: &str, place: &Place, key: &str, value: &str) -> (Range<usize>, String) {
    let end = place.name_span.end;
    if place.inline {
        return (end..end, format!(", {key} = {value}"));
    }
    let behind = source.get(end..).unwrap_or_default();
    let before = source.get(..place.name_span.start).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    let indent: String = line
        .chars()
        .take_while(|c| matches!(c, ' ' | '\t'))
        .collect();
    match behind.find('\n') {
        Some(at) => {
            let feed = if behind[..at].ends_with('\r') {
                "\r\n"
            } else {
                "\n"
            };
            let next = end + at + 1;
            (next..next, format!("{indent}{key} = {value}{feed}"))
        }
        None => {
            let last = source.len();
            (last..last, format!("\n{indent}{key} = {value}\n"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(stream: &str, key: &str, value: &str) -> Setting {
        Setting {
            stream: stream.to_owned(),
            key: key.to_owned(),
            value: value.to_owned(),
        }
    }

    #[test]
    fn values_are_replaced_and_entered_and_comments_stay() {
        let text = "# top\n[[stream]] # one\n  name = \"a\" # its name\n  priority = 1# low\n\n\
            [[stream]]\nroute = [ # around\n \"A\",\n \"B\",\n]\nname = 'b'";
        let all = [
            setting("a", "priority", "7"),
            setting("a", "schedule", "\"time-triggered\""),
            setting("a", "shaping-interval", "\"1 ms\""),
            setting("b", "route", "[\"A\", \"s\", \"B\"]"),
            setting("b", "priority", "3"),
        ];
        let changed = set(text, &all).unwrap();
        assert_eq!(
            changed,
            "# top\n[[stream]] # one\n  name = \"a\" # its name\n  schedule = \"time-triggered\"\n  \
             shaping-interval = \"1 ms\"\n  priority = 7# low\n\n\
             [[stream]]\nroute = [\"A\", \"s\", \"B\"]\nname = 'b'\npriority = 3\n"
        );
    }

    #[test]
    fn tables_in_one_line_and_other_line_feeds() {
        let text = "stream = [{ name = \"a\", priority = 1 }, { name = \"b\" }]\r\n";
        let all = [setting("a", "priority", "2"), setting("b", "priority", "5")];
        assert_eq!(
            set(text, &all).unwrap(),
            "stream = [{ name = \"a\", priority = 2 }, { name = \"b\", priority = 5 }]\r\n"
        );
        let text = "[[stream]]\r\nname = \"a\"\r\n";
        assert_eq!(
            set(text, &all[..1]).unwrap(),
            "[[stream]]\r\nname = \"a\"\r\npriority = 2\r\n"
        );
    }

    #[test]
    fn what_is_missing_is_an_error() {
        let one = [setting("a", "priority", "2")];
        assert_eq!(set("[[stream", &one), Err(EditError::NotToml));
        let none = Err(EditError::NoStream("a".to_owned()));
        assert_eq!(set("[network]\nname = \"a\"\n", &one), none);
        let text = "[[stream]]\nname = \"a\"\nrate = 1\n[[stream]]\nname = \"b\"";
        assert_eq!(streams_with(text, "rate"), BTreeSet::from(["a".to_owned()]));
        assert!(streams_with(text, "burst").is_empty());
    }
}
