//! Reads the values of a project file in TOML, and notes every fault with its place. Stations of a protocol read their
//! files with it.

use crate::foreign::Foreign;
use crate::units::{self, Dimension};
use crate::{Fault, Faults};
use core::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Longer lines are cut in excerpts.
const EXCERPT_CHARACTERS: usize = 160;

/// The faults found so far, in one file.
pub struct Findings<'a> {
    text: &'a str,
    faults: Vec<(usize, Fault)>,
}

impl core::fmt::Debug for Findings<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Findings({})", self.faults.len())
    }
}

impl<'a> Findings<'a> {
    /// Begins with no fault in `text`.
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            faults: Vec::new(),
        }
    }

    /// Notes a fault at a place of the text, with a hint where there is one.
    pub fn at(&mut self, span: &Range<usize>, message: String, help: Option<String>) {
        let mut start = span.start.min(self.text.len());
        while !self.text.is_char_boundary(start) {
            start -= 1;
        }
        let before = &self.text[..start];
        let begin = before.rfind('\n').map_or(0, |at| at + 1);
        let line = self.text[begin..].lines().next().unwrap_or("");
        let column = before[begin..].chars().count() + 1;
        let length = self.text.get(span.clone()).map_or(1, |marked| {
            marked.lines().next().unwrap_or("").chars().count()
        });
        let room = line.chars().count().saturating_sub(column - 1);
        self.faults.push((
            start,
            Fault {
                line: before.matches('\n').count() + 1,
                column,
                message,
                help,
                excerpt: line.chars().take(EXCERPT_CHARACTERS).collect(),
                width: length.clamp(1, room.max(1)),
            },
        ));
    }

    /// Returns true while no fault was noted.
    pub fn is_clean(&self) -> bool {
        self.faults.is_empty()
    }

    /// Returns all faults, in the order of their places.
    pub fn into_faults(mut self, file_name: &str) -> Faults {
        self.faults.sort_by_key(|(at, _)| *at);
        Faults {
            file_name: file_name.to_owned(),
            faults: self.faults.into_iter().map(|(_, fault)| fault).collect(),
        }
    }
}

/// Returns the document's tables. Notes a fault where it is not TOML, or where it is another kind of file without any of
/// `tables`; `wanted` names the kind that was expected.
pub fn parse<'t>(
    text: &'t str,
    tables: &[&str],
    wanted: &str,
    findings: &mut Findings<'_>,
) -> Spanned<DeTable<'t>> {
    let (document, errors) = DeTable::parse_recoverable(text);
    let tables = tables.iter().copied();
    if let Some((first, foreign)) = Foreign::in_place_of(text, document.get_ref(), tables, &errors)
    {
        findings.at(&first, foreign.message(), Some(foreign.help(wanted)));
        return document;
    }
    for error in &errors {
        let message = format!("not TOML: {}", error.message().trim().replace('\n', ", "));
        findings.at(&error.span().unwrap_or(0..0), message, None);
    }
    document
}

/// A table that is being read: known keys are taken out one by one, and the rest is unknown.
pub struct Keys<'d, 'f, 't> {
    table: &'d DeTable<'d>,
    heading: &'static str,
    span: Range<usize>,
    known: Vec<&'static str>,
    missing: Vec<&'static str>,
    /// The faults found so far.
    pub findings: &'f mut Findings<'t>,
}

impl core::fmt::Debug for Keys<'_, '_, '_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Keys({})", self.heading)
    }
}

impl<'d, 'f, 't> Keys<'d, 'f, 't> {
    /// Begins to read a table, which messages name by `heading`.
    pub fn new(
        table: &'d DeTable<'d>,
        heading: &'static str,
        span: Range<usize>,
        findings: &'f mut Findings<'t>,
    ) -> Self {
        Self {
            table,
            heading,
            span,
            known: Vec::new(),
            missing: Vec::new(),
            findings,
        }
    }

    /// Returns a key's value, and notes that the key is known.
    pub fn get(&mut self, key: &'static str) -> Option<&'d Spanned<DeValue<'d>>> {
        self.known.push(key);
        self.table.get(key)
    }

    /// Notes a missing key. Called at the end, so that a misspelt key is one fault and not two.
    pub fn missing(&mut self, key: &'static str) {
        self.missing.push(key);
    }

    fn wrong(&mut self, key: &str, value: &Spanned<DeValue<'_>>, wanted: &str) {
        let found = match value.get_ref() {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a number with a fraction",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        let message = format!("`{key}` is {found}, but expected is {wanted}");
        self.findings.at(&value.span(), message, None);
    }

    /// Reads a text, with its place.
    pub fn text(&mut self, key: &'static str) -> Option<(&'d str, Range<usize>)> {
        let value = self.get(key)?;
        if let DeValue::String(text) = value.get_ref() {
            return Some((text.as_ref(), value.span()));
        }
        self.wrong(key, value, "a text");
        None
    }

    /// Reads true or false.
    pub fn flag(&mut self, key: &'static str) -> Option<bool> {
        let value = self.get(key)?;
        if let DeValue::Boolean(flag) = value.get_ref() {
            return Some(*flag);
        }
        self.wrong(key, value, "true or false");
        None
    }

    /// Reads a whole number within a range.
    pub fn number(&mut self, key: &'static str, range: Range<u64>) -> Option<u64> {
        let value = self.get(key)?;
        let DeValue::Integer(number) = value.get_ref() else {
            let wanted = format!("a whole number from {} to {}", range.start, range.end - 1);
            self.wrong(key, value, &wanted);
            return None;
        };
        let text = number.as_str().replace('_', "");
        match u64::from_str_radix(&text, number.radix()) {
            Ok(number) if range.contains(&number) => Some(number),
            _ => {
                let message = format!(
                    "`{key}` is {text}, but expected is a number from {} to {}",
                    range.start,
                    range.end - 1
                );
                self.findings.at(&value.span(), message, None);
                None
            }
        }
    }

    /// Reads one of a few words.
    pub fn choice(&mut self, key: &'static str, words: &[&'static str]) -> Option<&'static str> {
        let (text, span) = self.text(key)?;
        let found = words.iter().find(|word| **word == text);
        if found.is_none() {
            let listed: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
            let message = format!(
                "`{key}` is \"{}\", but expected is {}",
                short(text),
                listed.join(" or ")
            );
            let help = nearest(text, words).map(|near| format!("did you mean \"{near}\"?"));
            self.findings.at(&span, message, help);
        }
        found.copied()
    }

    /// Reads a duration in ns, at least `least_ns`.
    pub fn time(&mut self, key: &'static str, least_ns: u64) -> Option<u64> {
        let value = self.get(key)?;
        let DeValue::String(text) = value.get_ref() else {
            self.wrong(key, value, "a duration, such as \"1 ms\"");
            return None;
        };
        let parsed = units::parse(text, Dimension::Time)
            .map_err(|fault| (fault.to_string(), fault.help()))
            .and_then(|time| time.ceil_ns().map_err(|_| ("too long".to_owned(), None)));
        match parsed {
            Ok(ns) if ns >= least_ns => Some(ns),
            Ok(_) => {
                let message = format!("`{key}` is too short: at least {least_ns} ns");
                self.findings.at(&value.span(), message, None);
                None
            }
            Err((message, help)) => {
                self.findings
                    .at(&value.span(), format!("`{key}`: {message}"), help);
                None
            }
        }
    }

    /// Reads a list of texts, each with its place.
    pub fn texts(&mut self, key: &'static str) -> Vec<(&'d str, Range<usize>)> {
        let Some(value) = self.get(key) else {
            return Vec::new();
        };
        let DeValue::Array(items) = value.get_ref() else {
            self.wrong(key, value, "a list of texts");
            return Vec::new();
        };
        let mut texts = Vec::new();
        for item in items {
            match item.get_ref() {
                DeValue::String(text) => texts.push((text.as_ref(), item.span())),
                _ => self.wrong(key, item, "a list of texts"),
            }
        }
        texts
    }

    /// Notes unknown keys.
    pub fn finish(mut self) {
        for (name, _) in self.table {
            let text = name.get_ref().as_ref();
            if self.known.contains(&text) {
                continue;
            }
            let near = nearest(text, &self.known);
            self.missing.retain(|key| near != Some(*key));
            let help = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("keys are {}", self.known.join(", ")),
            };
            let message = format!("unknown key `{}` in {}", short(text), self.heading);
            self.findings.at(&name.span(), message, Some(help));
        }
        for key in &self.missing {
            let message = format!("missing key `{key}` in {}", self.heading);
            self.findings.at(&self.span, message, None);
        }
    }
}

/// Shortens a text from the file for a message.
pub fn short(text: &str) -> String {
    let clean = text.chars().map(|c| if c.is_control() { '?' } else { c });
    clean.take(64).collect()
}

/// Returns the nearest word, if it is a few edits away.
pub fn nearest<'w>(word: &str, words: &[&'w str]) -> Option<&'w str> {
    let word: Vec<char> = word.chars().take(64).collect();
    let distance = |other: &str| {
        let other: Vec<char> = other.chars().collect();
        let mut row: Vec<usize> = (0..=other.len()).collect();
        for (at, mine) in word.iter().enumerate() {
            let mut corner = row[0];
            row[0] = at + 1;
            for (place, theirs) in other.iter().enumerate() {
                let replaced = corner + usize::from(mine != theirs);
                corner = row[place + 1];
                row[place + 1] = replaced.min(corner + 1).min(row[place] + 1);
            }
        }
        row[other.len()]
    };
    words
        .iter()
        .map(|candidate| (distance(candidate), *candidate))
        .filter(|(edits, candidate)| *edits <= 1 + candidate.chars().count() / 4)
        .min()
        .map(|(_, candidate)| candidate)
}
