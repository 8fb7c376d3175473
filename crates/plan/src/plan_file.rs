//! The plan as a file: one complete JSON document (docs/plan-file.md).
//!
//! ```text
//! Plan --text()--> JSON --read()--> Plan      or one PlanFileError: what, where, what to do
//! ```
//!
//! ```
//! # let text = "[network]\nname = \"n\"\n[[host]]\nname = \"A\"\n[[host]]\nname = \"B\"\n[[link]]\nends = [\"A\", \"B\"]\nrate = \"1 Gbit/s\"";
//! use rtwire_plan::{plan, plan_file, read};
//!
//! let made = plan(&read(text, "two.toml", &[])?, &Default::default())?;
//! let file = plan_file::text(&made);
//! assert_eq!(plan_file::read(file.as_bytes(), "plan.json")?, made);
//! assert!(plan_file::read(&file.as_bytes()[..99], "plan.json").is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Integers above 2^53 - 1 are written as decimal text, since many readers of JSON would round them. Limits: a file is
//! held in memory as a whole.

pub(crate) mod check;
mod lenient;

use serde::{Deserialize, Serialize};
use serde_json::error::Category;
use serde_json::ser::{Formatter, PrettyFormatter};

use crate::plan::{PLAN_VERSION, Plan};

/// The largest integer that every reader of JSON keeps exactly.
pub const LARGEST_EXACT: u64 = (1 << 53) - 1;

/// The reason why a file is not a usable plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanFileError {
    /// The bytes are not JSON.
    #[error(
        "{file}:{line}:{column}: not a plan: {what}; make one with `rtwire plan NETWORK.toml --output plan.json`"
    )]
    NotJson {
        /// The file's name.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// The parser's message.
        what: String,
    },
    /// The JSON ends too early.
    #[error(
        "{file}:{line}:{column}: the plan is cut off here: copy the file again, or plan again with `rtwire plan NETWORK.toml --output plan.json`"
    )]
    CutOff {
        /// The file's name.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// The file is JSON of another kind.
    #[error(
        "{file}: this is JSON, but no plan; make one with `rtwire plan NETWORK.toml --output plan.json`"
    )]
    NotAPlan {
        /// The file's name.
        file: String,
    },
    /// The file is an answer to a network that was refused or faulty.
    #[error(
        "{file}: there is no plan to use in it: the answer of `rtwire plan --json` was `{status}`; mend the description and plan again"
    )]
    NoPromise {
        /// The file's name.
        file: String,
        /// `reject`, `unbounded` or `invalid`.
        status: String,
    },
    /// The plan is of an older version.
    #[error(
        "{file}: this is a plan of version {found}; this rtwire reads version {PLAN_VERSION}: plan again with `rtwire plan NETWORK.toml --output plan.json`"
    )]
    Older {
        /// The file's name.
        file: String,
        /// The plan's version.
        found: u64,
    },
    /// The plan is of a newer version.
    #[error(
        "{file}: this is a plan of version {found}, made by a newer rtwire; this one reads version {PLAN_VERSION}: use the newer one, or plan again here"
    )]
    Newer {
        /// The file's name.
        file: String,
        /// The plan's version.
        found: u64,
    },
    /// A field is unknown, is missing, or has another type.
    #[error(
        "{file}:{line}:{column}: not a plan of version {PLAN_VERSION}: {what}; plan again with `rtwire plan NETWORK.toml --output plan.json`"
    )]
    Form {
        /// The file's name.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// The fault in words.
        what: String,
    },
    /// Parts of the plan contradict each other.
    #[error(
        "{file}: the plan contradicts itself: {what}; plan again with `rtwire plan NETWORK.toml --output plan.json`"
    )]
    Inconsistent {
        /// The file's name.
        file: String,
        /// The contradiction in words.
        what: String,
    },
    /// The checksum does not match the plan.
    #[error(
        "{file}: was changed after it was planned: `rtwire verify {file}` says what; `rtwire verify {file} --seal OUT.json` writes it anew if all of it holds"
    )]
    Changed {
        /// The file's name.
        file: String,
    },
}

impl PlanFileError {
    /// Returns the line and the column of the fault, from 1; 0 if the whole file is meant.
    #[must_use]
    pub const fn place(&self) -> (usize, usize) {
        match self {
            PlanFileError::NotJson { line, column, .. }
            | PlanFileError::CutOff { line, column, .. }
            | PlanFileError::Form { line, column, .. } => (*line, *column),
            _ => (0, 0),
        }
    }
}

/// The fields that decide if a file is read as a plan. All others are ignored.
#[derive(Deserialize)]
struct Head {
    status: Option<serde_json::Value>,
    version: Option<serde_json::Value>,
}

/// Reads a plan from the bytes of its file, or from the output of `rtwire plan --json`. `file` is its name in
/// messages.
///
/// # Errors
/// [`PlanFileError`], with a variant for each reason why the file cannot be used.
pub fn read(bytes: &[u8], file: &str) -> Result<Plan, PlanFileError> {
    let mut plan = read_changed(bytes, file)?;
    if crate::fingerprint::checksum(&mut plan) == plan.checksum {
        Ok(plan)
    } else {
        Err(PlanFileError::Changed {
            file: file.to_owned(),
        })
    }
}

/// Reads a plan that may have been changed after it was planned, so that [`crate::verify`] can find the changes.
///
/// # Errors
/// As [`read`], except for the checksum.
pub fn read_changed(bytes: &[u8], file: &str) -> Result<Plan, PlanFileError> {
    let name = || file.to_owned();
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if !bytes.trim_ascii().is_empty() && !looks_like_one(bytes) {
        return Err(PlanFileError::NotJson {
            file: name(),
            line: 1,
            column: 1,
            what: "it does not begin with `{`".to_owned(),
        });
    }
    let head: Head = serde_json::from_slice(bytes).map_err(|fault| broken(&fault, file))?;
    match head.status.as_ref().map(|status| status.as_str()) {
        None | Some(Some("ok")) => {}
        Some(Some(status @ ("reject" | "unbounded" | "invalid"))) => {
            return Err(PlanFileError::NoPromise {
                file: name(),
                status: status.to_owned(),
            });
        }
        Some(_) => return Err(PlanFileError::NotAPlan { file: name() }),
    }
    let version = head.version.as_ref().and_then(serde_json::Value::as_u64);
    match version {
        None => return Err(PlanFileError::NotAPlan { file: name() }),
        Some(found) if found < u64::from(PLAN_VERSION) => {
            return Err(PlanFileError::Older {
                file: name(),
                found,
            });
        }
        Some(found) if found > u64::from(PLAN_VERSION) => {
            return Err(PlanFileError::Newer {
                file: name(),
                found,
            });
        }
        Some(_) => {}
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let plan =
        Plan::deserialize(lenient::Document(&mut json)).map_err(|fault| broken(&fault, file))?;
    check::check(&plan).map_err(|what| PlanFileError::Inconsistent { file: name(), what })?;
    Ok(plan)
}

/// True if the bytes begin like JSON. They are then read as a plan, not as a description.
#[must_use]
pub fn looks_like_one(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    bytes.trim_ascii_start().starts_with(b"{")
}

fn broken(fault: &serde_json::Error, file: &str) -> PlanFileError {
    let (file, line, column) = (file.to_owned(), fault.line(), fault.column());
    let what = fault.to_string();
    let place = format!(" at line {line} column {column}");
    let what = what.strip_suffix(&place).unwrap_or(&what).to_owned();
    match fault.classify() {
        Category::Eof => PlanFileError::CutOff { file, line, column },
        Category::Data => PlanFileError::Form {
            file,
            line,
            column,
            what,
        },
        Category::Syntax | Category::Io => PlanFileError::NotJson {
            file,
            line,
            column,
            what,
        },
    }
}

/// Returns the text of a plan's file. The same plan has the same bytes.
#[must_use]
pub fn text(plan: &Plan) -> String {
    json_text(plan)
}

/// Returns the plan with its correct checksum. Everything else is unchanged.
#[must_use]
pub fn sealed(mut plan: Plan) -> Plan {
    plan.checksum = crate::fingerprint::checksum(&mut plan);
    plan
}

/// Returns a value as a plan's file writes it: indented, integers above 2^53 - 1 as decimal text, with a line end.
#[must_use]
pub fn json_text<T: Serialize>(value: &T) -> String {
    let mut bytes = Vec::new();
    // Writing to a vector cannot fail, and nothing in a plan is without a JSON form.
    let _ = write(value, &mut bytes);
    String::from_utf8(bytes).unwrap_or_default()
}

/// Writes what [`json_text`] returns, piece by piece: the text of a large plan takes as much memory as the plan itself.
///
/// # Errors
/// Those of the writer.
pub fn write<T: Serialize>(value: &T, mut writer: impl std::io::Write) -> std::io::Result<()> {
    let mut serializer =
        serde_json::Serializer::with_formatter(&mut writer, Exact(PrettyFormatter::new()));
    value.serialize(&mut serializer)?;
    writer.write_all(b"\n")
}

/// A formatter that indents, and writes integers as text that other readers would round.
struct Exact<'a>(PrettyFormatter<'a>);

macro_rules! as_pretty {
    ($($name:ident($($argument:ident: $kind:ty),*);)*) => {
        $(fn $name<W: ?Sized + std::io::Write>(
            &mut self,
            writer: &mut W,
            $($argument: $kind),*
        ) -> std::io::Result<()> {
            self.0.$name(writer, $($argument),*)
        })*
    };
}

impl Formatter for Exact<'_> {
    fn write_u64<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
        value: u64,
    ) -> std::io::Result<()> {
        if value > LARGEST_EXACT {
            write!(writer, "\"{value}\"")
        } else {
            self.0.write_u64(writer, value)
        }
    }

    as_pretty! {
        begin_array();
        end_array();
        begin_array_value(first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first: bool);
        begin_object_value();
        end_object_value();
    }
}
