//! The table of a benchmark: measured figures, targets and comparisons.
//!
//! A benchmark informs and exits with 0, whatever it measured; a test judges.

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

/// The results of one benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "rtwire benchmark")]
pub struct BenchTable {
    /// The machine it ran on.
    pub machine: Machine,
    /// The source's commit; ends with `-dirty` if files were changed; `unknown` outside a repository.
    pub commit: String,
    /// The exact command.
    pub command: String,
    /// The host's noise during the benchmark; null if not recorded.
    pub noise: Option<NoiseRecord>,
    /// The measured figures.
    pub rows: Vec<Row>,
    /// Programs that ran before this one and measured some of the rows, where several programs measure one area.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Earlier>,
}

/// A program that measured some of a table's rows earlier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Earlier {
    /// The source's commit at that time.
    pub commit: String,
    /// The exact command.
    pub command: String,
    /// The host's noise during that program; null if not recorded.
    pub noise: Option<NoiseRecord>,
}

/// The part of its area that a benchmark measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The whole area: the old table is replaced.
    Whole,
    /// A part of the area: its rows are added to those in the file.
    Part,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// The figure's name, for example `round trip, RTDiP queue, spin, 64 B, p50`.
    pub figure: String,
    /// Its value.
    pub value: f64,
    /// The value's unit, for example `µs`.
    pub unit: String,
    /// The target in words, for example `below UDP and TCP`; null if there is none.
    pub reach: Option<String>,
    /// True if the target was reached; null if it could not be judged (`why` names the reason).
    pub held: Option<bool>,
    /// The reason why the target was missed or could not be judged.
    pub why: Option<String>,
    /// Number of samples behind the value.
    pub samples: u64,
    /// Values to compare with, measured in the same run.
    pub against: Vec<Compared>,
}

/// A value measured in the same run, to compare with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    /// Its name, for example `UDP, spin`.
    pub name: String,
    /// Its value, in the row's unit.
    pub value: f64,
}

/// An error while writing a benchmark's table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// A file or folder could not be written.
    #[error("cannot write {}: {source}; check that the folder is yours and has room", .path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A value is infinite or not a number.
    #[error(
        "the table of {area} cannot be written as JSON: {source}; a value may be infinite or not a number"
    )]
    Json {
        /// The benchmark's area.
        area: String,
        /// The serializer's error.
        source: serde_json::Error,
    },
}

/// Returns the JSON Schema of a benchmark's table, as committed in `schema/bench.schema.json`.
#[must_use]
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(BenchTable).to_value()
}

impl BenchTable {
    /// Creates the table of what this machine measured with the current commit's code.
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

    /// Ends a benchmark: prints the table, writes it below `target` and prints the path or the error.
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

    /// Adds the rows to the table in `bench/AREA.json` below `target`. A new row replaces an old row of the same
    /// figure.
    ///
    /// This is for an area that several programs measure one after another. Machine, commit, command and noise become
    /// this table's. Those of the earlier programs stay in `earlier`.
    ///
    /// # Errors
    /// As [`write`](Self::write). A file that is not such a table is replaced.
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
            // A second run of the same program replaces its earlier results.
            self.earlier.retain(|one| one.command != self.command);
        }
        self.write(target, area)
    }

    /// Returns the table as text for a terminal.
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
