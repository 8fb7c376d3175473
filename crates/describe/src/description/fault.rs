//! Faults of a description: the place, the message, and the nearest correct value.

use core::fmt;
use core::ops::Range;
use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::nearest::nearest;

/// One fault of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fault {
    /// The line, from 1; 0 if the fault is in a `--set`.
    pub line: usize,
    /// The column in characters, from 1; 0 if the fault is in a `--set`.
    pub column: usize,
    /// The message: the value or key that is wrong, and the reason.
    pub message: String,
    /// The nearest correct value or key.
    pub help: Option<String>,
    /// The line itself, or the `--set` as the user wrote it.
    pub excerpt: String,
    /// The number of characters to mark in the line.
    pub width: usize,
}

/// All faults of one file, in order of place.
///
/// The text form is for people: it shows the first twenty faults and the number of the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
pub struct Faults {
    /// The file's name as the caller passed it.
    pub file_name: String,
    /// The faults, at least one.
    pub faults: Vec<Fault>,
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().take(MOST_SHOWN).enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            if fault.line == 0 {
                writeln!(f, "--set {}: {}", fault.excerpt, fault.message)?;
                if let Some(help) = &fault.help {
                    writeln!(f, "      | {help}")?;
                }
                continue;
            }
            writeln!(
                f,
                "{}:{}:{}: {}",
                self.file_name, fault.line, fault.column, fault.message
            )?;
            writeln!(f, "{:>5} | {}", fault.line, fault.excerpt)?;
            if fault.column > EXCERPT_CHARACTERS {
                // There is no excerpt to put marks under: see `located`.
                if let Some(help) = &fault.help {
                    writeln!(f, "      | {help}")?;
                }
                continue;
            }
            let marks = "^".repeat(fault.width.max(1));
            let help = fault.help.as_deref().unwrap_or_default();
            writeln!(
                f,
                "      | {}{marks} {help}",
                " ".repeat(fault.column - 1).as_str()
            )?;
        }
        let count = self.faults.len();
        if count > MOST_SHOWN {
            writeln!(f, "and {} more\n", count - MOST_SHOWN)?;
        }
        write!(f, "{count} {}", if count == 1 { "fault" } else { "faults" })
    }
}

/// The largest number of faults in the text form. Nobody mends more in one go.
const MOST_SHOWN: usize = 20;

/// The largest number of comparisons for "did you mean" in one file.
///
/// It suffices for every fault that is shown in any sensible network. Without a limit a large faulty file takes
/// minutes, as every name is compared with every other.
const MOST_COMPARISONS: usize = 200_000;

/// Characters of a line in an excerpt. Longer lines are cut.
const EXCERPT_CHARACTERS: usize = 160;

/// A fault as it was noted. Its place in words is made at the end, in order of place.
struct Noted {
    span: Range<usize>,
    /// The line, from 1; 0 if the fault is in a `--set`, whose text is in `option`.
    line: usize,
    message: String,
    help: Option<String>,
    option: Option<String>,
}

/// The text of a file, and the faults found in it so far.
pub(crate) struct Findings<'a> {
    text: &'a str,
    file_name: &'a str,
    /// The byte at which each line begins.
    lines: Vec<usize>,
    faults: Vec<Noted>,
    comparisons_left: usize,
}

impl<'a> Findings<'a> {
    pub(crate) fn new(text: &'a str, file_name: &'a str) -> Findings<'a> {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Findings {
            text,
            file_name,
            lines: core::iter::once(0)
                .chain(breaks.map(|(at, _)| at + 1))
                .collect(),
            faults: Vec::new(),
            comparisons_left: MOST_COMPARISONS,
        }
    }

    /// Notes a fault at a span of bytes.
    pub(crate) fn at(
        &mut self,
        span: &Range<usize>,
        message: impl Into<String>,
        help: Option<String>,
    ) {
        let start = self.boundary(span.start);
        self.faults.push(Noted {
            span: span.clone(),
            line: self.lines.partition_point(|begin| *begin <= start),
            message: message.into(),
            help,
            option: None,
        });
    }

    /// Notes a fault of a `--set KEY=VALUE`.
    pub(crate) fn in_option(
        &mut self,
        key: &str,
        value: &str,
        message: impl Into<String>,
        help: Option<String>,
    ) {
        self.faults.push(Noted {
            span: 0..0,
            line: 0,
            message: message.into(),
            help,
            option: Some(format!("{key}={value}")),
        });
    }

    /// Returns the candidate nearest to `word`. `None` once the file's comparisons are used up.
    pub(crate) fn nearest<'c>(
        &mut self,
        word: &str,
        candidates: impl IntoIterator<Item = &'c str>,
    ) -> Option<&'c str> {
        if self.comparisons_left == 0 {
            return None;
        }
        let left = &mut self.comparisons_left;
        let counted = candidates.into_iter().inspect(|_| {
            *left = left.saturating_sub(1);
        });
        nearest(word, counted)
    }

    /// Returns the start of the character that byte `at` belongs to.
    fn boundary(&self, at: usize) -> usize {
        let mut at = at.min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        at
    }

    /// Returns the byte range of a line, counted from 1, without its line end.
    fn line(&self, line: usize) -> Range<usize> {
        let from = self.lines[line - 1];
        let Some(next) = self.lines.get(line) else {
            return from..self.text.len();
        };
        let end = next - 1;
        let carriage_return = self.text[from..end].ends_with('\r');
        from..end - usize::from(carriage_return)
    }

    /// Counts the characters of `from..to`, up to `most`. Long spans are not counted to their end.
    fn characters(&self, from: usize, to: usize, most: usize) -> usize {
        self.text[from..to].chars().take(most).count()
    }

    fn located(&self, noted: Noted, column: usize) -> Fault {
        let line = self.line(noted.line);
        let start = self.boundary(noted.span.start);
        let end = self.boundary(noted.span.end.clamp(start, line.end.max(start)));
        let from = if column > EXCERPT_CHARACTERS {
            column - EXCERPT_CHARACTERS / 2
        } else {
            1
        };
        // Where the line was cut the marks no longer match the column: drop them.
        let excerpt: String = if from > 1 {
            String::new()
        } else {
            // Tabs and control characters would misplace the marks.
            let clean = self.text[line]
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c });
            clean.take(EXCERPT_CHARACTERS).collect()
        };
        let room = EXCERPT_CHARACTERS.saturating_sub(column - from).max(1);
        let width = self.characters(start, end, room).max(1);
        Fault {
            line: noted.line,
            column,
            message: noted.message,
            help: noted.help,
            excerpt: excerpt.trim_end().to_owned(),
            width,
        }
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.faults.is_empty()
    }

    /// Returns the lines that already have a fault.
    pub(crate) fn lines(&self) -> BTreeSet<usize> {
        self.faults.iter().map(|noted| noted.line).collect()
    }

    /// Drops the faults from `first` on for which `unwanted` returns true.
    ///
    /// `unwanted` receives the fault's line, a flag and the message. The flag is set for a fault at the very start of
    /// the file that is at most one character wide. Faults without a place look like that.
    pub(crate) fn drop_after(
        &mut self,
        first: usize,
        unwanted: impl Fn(usize, bool, &str) -> bool,
    ) {
        let mut faults = core::mem::take(&mut self.faults);
        let mut index = 0;
        faults.retain(|noted| {
            index += 1;
            if index <= first {
                return true;
            }
            let start = self.boundary(noted.span.start);
            let at_start = noted.line == 1 && start == 0 && {
                let end = noted.span.end.min(self.line(1).end);
                self.characters(0, self.boundary(end), 2) <= 1
            };
            !unwanted(noted.line, at_start, &noted.message)
        });
        self.faults = faults;
    }

    pub(crate) fn count(&self) -> usize {
        self.faults.len()
    }

    pub(crate) fn into_faults(mut self) -> Faults {
        let mut noted = core::mem::take(&mut self.faults);
        noted.sort_by_key(|noted| (noted.line, noted.span.start));
        // Columns are counted on from the fault before, so that a long line is gone through once.
        let (mut line, mut at, mut column) = (0, 0, 1);
        let mut faults = Vec::with_capacity(noted.len());
        for mut noted in noted {
            if let Some(excerpt) = noted.option.take() {
                faults.push(Fault {
                    line: 0,
                    column: 0,
                    message: noted.message,
                    help: noted.help,
                    excerpt,
                    width: 0,
                });
                continue;
            }
            if noted.line != line {
                (line, at, column) = (noted.line, self.lines[noted.line - 1], 1);
            }
            let start = self.boundary(noted.span.start);
            column += self.characters(at, start, usize::MAX);
            at = start;
            faults.push(self.located(noted, column));
        }
        Faults {
            file_name: self.file_name.to_owned(),
            faults,
        }
    }
}
