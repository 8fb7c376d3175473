//! Recognises files of another kind where a TOML file is expected, in place of a hundred faults of a parser.
//!
//! It looks only at files that are not TOML, so it never refuses a readable file.

use core::ops::Range;
use serde_json::Value;
use toml::de::DeTable;

use crate::description::{Fault, Faults};

/// A text with more syntax faults than this, and without any expected table, is of another kind.
const FAULTS_OF_TYPING: usize = 20;
/// Characters of an excerpt. Longer lines are cut.
const EXCERPT_CHARACTERS: usize = 160;

/// The kind that a file seems to have if it is not TOML.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Foreign {
    /// The output of `rtwire plan --json`.
    Plan,
    /// Other JSON.
    Json,
    /// A page for a browser, such as a report.
    Html,
    /// An XML device description of POWERLINK or CANopen (ISO 15745).
    DeviceDescription,
    /// Other XML.
    Xml,
    /// A file of captured frames.
    Capture,
    /// A text in UTF-16.
    Utf16,
    /// Data that is not text.
    Binary,
    /// A text of an unknown kind.
    Text,
}

impl Foreign {
    /// Recognises a file by its first bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        const CAPTURES: [[u8; 4]; 5] = [
            [0xd4, 0xc3, 0xb2, 0xa1],
            [0xa1, 0xb2, 0xc3, 0xd4],
            [0x4d, 0x3c, 0xb2, 0xa1],
            [0xa1, 0xb2, 0x3c, 0x4d],
            // pcapng.
            [0x0a, 0x0d, 0x0d, 0x0a],
        ];
        if CAPTURES.iter().any(|magic| bytes.starts_with(magic)) {
            return Some(Self::Capture);
        }
        if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
            return Some(Self::Utf16);
        }
        if bytes.contains(&0) {
            return Some(Self::Binary);
        }
        let text = std::str::from_utf8(bytes).ok()?;
        let text = text.trim_start_matches('\u{feff}').trim_start();
        match text.as_bytes().first()? {
            b'<' => Some(markup(text)),
            // No TOML begins so, whether the JSON is whole or not.
            b'{' => Some(match serde_json::from_str::<Value>(text) {
                Ok(value) if is_plan(&value) => Self::Plan,
                _ => Self::Json,
            }),
            // As a table of TOML may.
            b'[' => serde_json::from_str::<Value>(text)
                .is_ok()
                .then_some(Self::Json),
            _ => None,
        }
    }

    /// Recognises a text in which a TOML parser has found faults. Returns its kind and the place of the first fault.
    ///
    /// `None` if the text seems to be TOML with faults: it has few of them, or one of the expected tables.
    pub fn in_place_of<'a>(
        text: &str,
        document: &DeTable<'_>,
        mut tables: impl Iterator<Item = &'a str>,
        errors: &[toml::de::Error],
    ) -> Option<(Range<usize>, Self)> {
        let known = tables.any(|table| document.contains_key(table));
        let foreign = Self::instead_of_toml(text, errors.len(), known)?;
        let places = errors.iter().filter_map(toml::de::Error::span);
        let first = places.min_by_key(|place| place.start);
        Some((first.unwrap_or(0..0), foreign))
    }

    /// Recognises a text by its number of faults; `known` is true if it has a table that was expected.
    fn instead_of_toml(text: &str, faults: usize, known: bool) -> Option<Self> {
        if faults == 0 {
            return None;
        }
        Self::of(text.as_bytes()).or((faults > FAULTS_OF_TYPING && !known).then_some(Self::Text))
    }

    /// Returns the first line of the message: the kind that the file seems to have.
    #[must_use]
    pub fn message(self) -> String {
        let what = match self {
            Self::Plan => "this is a plan, as `rtwire plan --json` prints it",
            Self::Json => "this is JSON",
            Self::Html => "this is a page for a browser (HTML)",
            Self::DeviceDescription => "this is a device description (XDD, XDC)",
            Self::Xml => "this is XML",
            Self::Capture => "this is a capture of frames (pcap)",
            Self::Utf16 => "this is a text in UTF-16",
            Self::Binary => "this is no text",
            Self::Text => "this is a text of another kind",
        };
        format!("not TOML: {what}")
    }

    /// Returns the advice. `wanted` is the expected kind, such as "a network description (docs/…)".
    #[must_use]
    pub fn help(self, wanted: &str) -> String {
        let place = match self {
            Self::Plan => {
                "plans are for `rtwire plan`, `lab`, `run`, `apply`, `export` and `simulate`; "
            }
            Self::Json => "`rtwire import` reads networks of other programs; ",
            Self::Html => "a report's data is in the .json beside it; ",
            Self::DeviceDescription => "a project names it with `description`; ",
            Self::Capture => "`rtwire jitter` reads captures; ",
            Self::Utf16 => "save it as UTF-8; ",
            Self::Binary => "a configuration (CDC) is named by `cdc` of a project's [station]; ",
            Self::Xml | Self::Text => "",
        };
        format!("{place}expected is {wanted}, TOML")
    }
}

fn markup(text: &str) -> Foreign {
    let head: String = text.chars().take(4096).collect();
    let head = head.to_ascii_lowercase();
    if head.starts_with("<!doctype html") || head.starts_with("<html") {
        Foreign::Html
    } else if head.contains("iso15745profile") {
        Foreign::DeviceDescription
    } else {
        Foreign::Xml
    }
}

fn is_plan(value: &Value) -> bool {
    value.get("status").is_some()
        && (value.get("streams").is_some() || value.get("faults").is_some())
}

/// Returns the text of a TOML file. `wanted` is the expected kind.
///
/// # Errors
/// One fault: the kind that the file seems to have, or the first place that is not UTF-8.
pub fn text(bytes: Vec<u8>, file_name: &str, wanted: &str) -> Result<String, Faults> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let bytes = error.as_bytes();
        let fault = match Foreign::of(bytes) {
            Some(foreign) => Fault {
                line: 1,
                column: 1,
                message: foreign.message(),
                help: Some(foreign.help(wanted)),
                excerpt: String::new(),
                width: 1,
            },
            None => not_utf8(bytes, at, wanted),
        };
        Faults {
            file_name: file_name.to_owned(),
            faults: vec![fault],
        }
    })
}

/// Returns a fault at the first byte that is not valid UTF-8.
fn not_utf8(bytes: &[u8], at: usize, wanted: &str) -> Fault {
    let before = &bytes[..at];
    let begin = before
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |newline| newline + 1);
    let line = bytes[begin..].split(|byte| *byte == b'\n').next();
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let excerpt: String = String::from_utf8_lossy(line.unwrap_or(&[]))
        .chars()
        .map(clean)
        .take(EXCERPT_CHARACTERS)
        .collect();
    Fault {
        line: before.iter().filter(|byte| **byte == b'\n').count() + 1,
        column: String::from_utf8_lossy(&before[begin..]).chars().count() + 1,
        message: format!(
            "not in UTF-8: byte 0x{:02x}",
            bytes.get(at).copied().unwrap_or(0)
        ),
        help: Some(format!("expected is {wanted}, a text in UTF-8: save it so")),
        excerpt: excerpt.trim_end().to_owned(),
        width: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_recognised_by_how_they_begin() {
        for (bytes, expected) in [
            (
                &b"\xd4\xc3\xb2\xa1\x02\x00\x04\x00"[..],
                Some(Foreign::Capture),
            ),
            (b"\n\r\r\n\x1c\x00\x00\x00", Some(Foreign::Capture)),
            (b"\xff\xfe[\x00n\x00", Some(Foreign::Utf16)),
            (
                b"\x02\x00\x00\x00\x06\x10\x00\x04\x00\x00\x00",
                Some(Foreign::Binary),
            ),
            (
                b" {\"status\": \"ok\", \"streams\": []}",
                Some(Foreign::Plan),
            ),
            (
                b"{\"status\": \"invalid\", \"faults\": []}",
                Some(Foreign::Plan),
            ),
            (b"{\"status\": \"ok\"}", Some(Foreign::Json)),
            (b"{\"status\": \"ok\", \"streams\": [", Some(Foreign::Json)),
            (b"[{\"network\": {}}]", Some(Foreign::Json)),
            (b"[network]\nname = \"x\"\n", None),
            (b"[\"network\"]\nname = \"x\"\n", None),
            (b"[[host]]\n", None),
            (b"<!DOCTYPE html>\n<html>", Some(Foreign::Html)),
            (
                b"<?xml version=\"1.0\"?>\n<ISO15745ProfileContainer>",
                Some(Foreign::DeviceDescription),
            ),
            (
                b"\xef\xbb\xbf<?xml version=\"1.0\"?>\n<network/>",
                Some(Foreign::Xml),
            ),
            (b"network:\n  name: x\n", None),
            (b"", None),
            (b"\xff\xff", None),
        ] {
            let shown = String::from_utf8_lossy(bytes);
            assert_eq!(Foreign::of(bytes), expected, "{shown}");
        }
    }

    #[test]
    fn what_may_be_mended_is_not_turned_away() {
        let yaml = "network:\n  name: x\n";
        assert_eq!(Foreign::instead_of_toml(yaml, 0, false), None);
        assert_eq!(Foreign::instead_of_toml(yaml, 20, false), None);
        assert_eq!(Foreign::instead_of_toml(yaml, 21, true), None);
        assert_eq!(
            Foreign::instead_of_toml(yaml, 21, false),
            Some(Foreign::Text)
        );
        assert_eq!(
            Foreign::instead_of_toml("{}", 1, false),
            Some(Foreign::Json)
        );
    }

    #[test]
    fn the_first_byte_that_is_no_utf8_has_its_place() {
        let fault = |bytes: &[u8]| text(bytes.to_vec(), "x.toml", "a thing").unwrap_err();
        let faults = fault(b"[network]\nname = \"\xc3\xbc \xfcber\"\nmore\n");
        let one = &faults.faults[0];
        assert_eq!((faults.faults.len(), one.line, one.column), (1, 2, 11));
        assert_eq!(one.message, "not in UTF-8: byte 0xfc");
        assert!(
            one.excerpt.starts_with("name = \"\u{fc} "),
            "{}",
            one.excerpt
        );
        for bytes in [&b"\xff"[..], b"\n\xff", b"\xff\n", b"a\xff\0"] {
            assert_eq!(fault(bytes).faults.len(), 1);
        }
    }
}
