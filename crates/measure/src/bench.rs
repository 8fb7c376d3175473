//! The table of a benchmark: what was measured, what was to be reached, against what it was compared.
//!
//! A benchmark informs and exits 0 whatever was reached; a test judges.

mod asked;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::noise::NoiseRecord;
use crate::report::Machine;
use crate::units::{significant, trimmed};

use asked::commit;
pub use asked::{Asked, refuse};

/// What one benchmark found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "rtwire benchmark")]
pub struct BenchTable {
    /// The machine it ran on.
    pub machine: Machine,
    /// The source's commit, with `-dirty` where files were changed; `unknown` outside of a repository.
    pub commit: String,
    /// The exact command.
    pub command: String,
    /// The host's noise meanwhile; null if not recorded.
    pub noise: Option<NoiseRecord>,
    /// What was measured.
    pub rows: Vec<Row>,
    /// The programs before this one, where several measure one area: part of the rows is theirs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Earlier>,
}

/// A program that has measured some of a table's rows before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Earlier {
    /// The source's commit then.
    pub commit: String,
    /// The exact command.
    pub command: String,
    /// The host's noise meanwhile; null if not recorded.
    pub noise: Option<NoiseRecord>,
}

/// Whether a benchmark measures all of its area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It does: the table is written anew.
    Whole,
    /// It does not: its rows are added to those that are there.
    Part,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// What it is, for example `round trip, RTDiP queue, spin, 64 B, p50`.
    pub figure: String,
    /// Its value.
    pub value: f64,
    /// The value's unit, for example `µs`.
    pub unit: String,
    /// What was to be reached, in words, for example `below UDP and TCP`; null where nothing was set.
    pub reach: Option<String>,
    /// Whether it was reached; null where it could not be judged, then `why` says the reason.
    pub held: Option<bool>,
    /// Why it was not reached or could not be judged.
    pub why: Option<String>,
    /// From how many samples.
    pub samples: u64,
    /// What it was compared with, measured in the same run.
    pub against: Vec<Compared>,
}

/// Something measured in the same run to compare with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    /// What it is, for example `UDP, spin`.
    pub name: String,
    /// Its value, in the row's unit.
    pub value: f64,
}

/// Why a benchmark's table could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// A file or folder could not be written.
    #[error("cannot write {}: {source}; check that the folder is yours and has room", .path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A value is not a number.
    #[error(
        "the table of {area} cannot be written as JSON: {source}; a value may be infinite or not a number"
    )]
    Json {
        /// The benchmark.
        area: String,
        /// Why.
        source: serde_json::Error,
    },
}

/// The JSON Schema of a benchmark's table, as it is committed in `schema/bench.schema.json`.
#[must_use]
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(BenchTable).to_value()
}

impl BenchTable {
    /// What this machine measured with the code of this commit.
    #[must_use]
    pub fn of(command: String, noise: Option<NoiseRecord>, rows: Vec<Row>) -> Self {
        Self {
            machine: Machine::this(env!("CARGO_PKG_VERSION")),
            commit: commit(),
            command,
            noise,
            rows,
            earlier: Vec::new(),
        }
    }

    /// What a benchmark ends with: prints the table, writes it below `target` and says where, or why not.
    pub fn publish(self, target: &Path, area: &str, place: Place) {
        print!("{}", self.print_text());
        let written = match place {
            Place::Whole => self.write(target, area),
            Place::Part => self.add_to(target, area),
        };
        match written {
            Ok(path) => println!("written to {}", path.display()),
            Err(error) => eprintln!("{error}"),
        }
    }

    /// Writes `bench/AREA.json` below `target` (usually `target`) and returns its path.
    ///
    /// # Errors
    /// [`BenchError`] if a folder or the file cannot be written, or a value is not a number.
    pub fn write(&self, target: &Path, area: &str) -> Result<PathBuf, BenchError> {
        let json = serde_json::to_string_pretty(self).map_err(|source| BenchError::Json {
            area: area.to_owned(),
            source,
        })?;
        let folder = target.join("bench");
        let path = folder.join(format!("{area}.json"));
        let fault = |path: &Path| {
            let path = path.to_path_buf();
            move |source| BenchError::Write { path, source }
        };
        fs::create_dir_all(&folder).map_err(fault(&folder))?;
        fs::write(&path, json + "\n").map_err(fault(&path))?;
        Ok(path)
    }

    /// Adds the rows to those that `bench/AREA.json` below `target` has already, in place of rows of the same figure: for an
    /// area that several programs measure, one after another. Machine, commit, command and noise become this table's; those of
    /// the programs before stay in `earlier`.
    ///
    /// # Errors
    /// As [`write`](Self::write). A file that is no such table is written anew.
    pub fn add_to(mut self, target: &Path, area: &str) -> Result<PathBuf, BenchError> {
        let path = target.join("bench").join(format!("{area}.json"));
        let there = fs::read_to_string(path).ok();
        let there = there.and_then(|text| serde_json::from_str::<Self>(&text).ok());
        if let Some(there) = there {
            let mut rows = there.rows;
            rows.retain(|old| self.rows.iter().all(|new| new.figure != old.figure));
            rows.append(&mut self.rows);
            self.rows = rows;
            self.earlier = there.earlier;
            self.earlier.push(Earlier {
                commit: there.commit,
                command: there.command,
                noise: there.noise,
            });
            // The same program once more replaces what it has measured before.
            self.earlier.retain(|one| one.command != self.command);
        }
        self.write(target, area)
    }

    /// The table for a terminal.
    #[must_use]
    pub fn print_text(&self) -> String {
        let figure_width = self
            .rows
            .iter()
            .map(|r| r.figure.chars().count())
            .max()
            .unwrap_or(0)
            .clamp(6, 48);
        let mut out = format!(
            "{:<figure_width$} {:>10} {:<6} {:>5}  against\n",
            "figure", "value", "unit", "held"
        );
        for row in &self.rows {
            let held = match row.held {
                Some(true) => "yes",
                Some(false) => "no",
                None => "-",
            };
            let against: Vec<String> = row
                .against
                .iter()
                .map(|c| format!("{} {}", c.name, significant(c.value)))
                .collect();
            out += &format!(
                "{:<figure_width$} {:>10} {:<6} {held:>5}  {}\n",
                row.figure,
                trimmed(row.value),
                row.unit,
                against.join(", ")
            );
            if let Some(why) = &row.why {
                out += &format!("{:<figure_width$} {why}\n", "");
            }
        }
        out
    }
}
