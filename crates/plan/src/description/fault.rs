//! Faults of a description: where, what, and the nearest right thing.

use core::fmt;
use core::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fault {
    /// Line, from 1; 0 where the fault is in a `--set`.
    pub line: usize,
    /// Column in characters, from 1; 0 where the fault is in a `--set`.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// The nearest right thing.
    pub help: Option<String>,
    /// The line itself, or the `--set` as given.
    pub excerpt: String,
    /// How many characters of the line are meant.
    pub width: usize,
}

/// All faults of one file, in order of place. Its text form is for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
pub struct Faults {
    /// The file's name as given.
    pub file_name: String,
    /// At least one.
    pub faults: Vec<Fault>,
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
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
            let marks = "^".repeat(fault.width.max(1));
            let help = fault.help.as_deref().unwrap_or_default();
            writeln!(
                f,
                "      | {}{marks} {help}",
                " ".repeat(fault.column - 1).as_str()
            )?;
        }
        let count = self.faults.len();
        write!(f, "{count} {}", if count == 1 { "fault" } else { "faults" })
    }
}

/// The text of a file, and the faults found in it so far.
pub(crate) struct Findings<'a> {
    text: &'a str,
    file_name: &'a str,
    faults: Vec<(usize, Fault)>,
}

/// Longer lines are cut in excerpts.
const EXCERPT_CHARACTERS: usize = 160;

impl<'a> Findings<'a> {
    pub(crate) fn new(text: &'a str, file_name: &'a str) -> Findings<'a> {
        Findings {
            text,
            file_name,
            faults: Vec::new(),
        }
    }

    /// Note a fault at a span of bytes.
    pub(crate) fn at(
        &mut self,
        span: &Range<usize>,
        message: impl Into<String>,
        help: Option<String>,
    ) {
        let fault = self.locate(span, message.into(), help);
        self.faults.push((span.start, fault));
    }

    /// Note a fault of a `--set KEY=VALUE`.
    pub(crate) fn in_option(
        &mut self,
        key: &str,
        value: &str,
        message: impl Into<String>,
        help: Option<String>,
    ) {
        let excerpt = format!("{key}={value}");
        self.faults.push((
            0,
            Fault {
                line: 0,
                column: 0,
                message: message.into(),
                help,
                excerpt,
                width: 0,
            },
        ));
    }

    fn locate(&self, span: &Range<usize>, message: String, help: Option<String>) -> Fault {
        let mut start = span.start.min(self.text.len());
        while !self.text.is_char_boundary(start) {
            start -= 1;
        }
        let line_start = self.text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line = self.text[..start].matches('\n').count() + 1;
        let whole_line = self.text[line_start..].lines().next().unwrap_or_default();
        let column = self.text[line_start..start].chars().count() + 1;
        let line_end = line_start + whole_line.len();
        let mut end = span.end.clamp(start, line_end.max(start));
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        // Tabs and control characters would misplace the marks.
        let clean: String = whole_line
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let from = if column > EXCERPT_CHARACTERS {
            column - EXCERPT_CHARACTERS / 2
        } else {
            1
        };
        let excerpt: String = clean
            .chars()
            .skip(from - 1)
            .take(EXCERPT_CHARACTERS)
            .collect();
        let room = EXCERPT_CHARACTERS.saturating_sub(column - from);
        let width = self.text[start..end].chars().count().clamp(1, room.max(1));
        // Where the line was cut the marks no longer match the column: drop them.
        let excerpt = if from > 1 { String::new() } else { excerpt };
        Fault {
            line,
            column,
            message,
            help,
            excerpt: excerpt.trim_end().to_owned(),
            width,
        }
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.faults.is_empty()
    }

    /// The lines that already have a fault.
    pub(crate) fn lines(&self) -> Vec<usize> {
        self.faults.iter().map(|(_, fault)| fault.line).collect()
    }

    /// Drop the faults from `first` on that `unwanted` names.
    pub(crate) fn drop_after(&mut self, first: usize, unwanted: impl Fn(&Fault) -> bool) {
        let mut index = 0;
        self.faults.retain(|(_, fault)| {
            index += 1;
            index <= first || !unwanted(fault)
        });
    }

    pub(crate) fn count(&self) -> usize {
        self.faults.len()
    }

    pub(crate) fn into_faults(mut self) -> Faults {
        self.faults
            .sort_by_key(|(start, fault)| (fault.line, *start));
        let faults = self.faults.into_iter().map(|(_, fault)| fault).collect();
        Faults {
            file_name: self.file_name.to_owned(),
            faults,
        }
    }
}
