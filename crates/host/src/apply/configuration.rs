//! The settings of a share, and what is missing for them: data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::choices::Mechanism;
use crate::change::{Subject, Value, Wanted};

/// Something that the plan asks for and the host does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lack {
    /// What is missing.
    pub what: String,
    /// Which promises cannot be made without it.
    pub lost: String,
    /// How to get it.
    pub remedy: String,
    /// What is done instead, where falling back was asked for.
    pub instead: String,
}

/// The settings of a share, and what is missing for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configuration {
    /// In the order in which they are made.
    pub wanted: Vec<Wanted>,
    /// What is missing.
    pub lacks: Vec<Lack>,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// The discipline that was chosen.
    pub mechanism: Mechanism,
}

/// Adds a setting that is made after those before it.
pub(super) fn want(all: &mut Configuration, subject: Subject, to: Value) {
    all.wanted.push(Wanted { subject, to });
}
