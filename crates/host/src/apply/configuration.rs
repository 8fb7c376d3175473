//! The settings of a share, and what is missing for them: data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::choices::Mechanism;
use crate::change::{Subject, Value, Wanted};

/// Something that the plan asks for and that is missing on the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lack {
    /// The missing ability.
    pub what: String,
    /// The promises that cannot be made without it.
    pub lost: String,
    /// The way to get it.
    pub remedy: String,
    /// The fallback, where falling back was asked for.
    pub instead: String,
}

/// The settings of a share, and what is missing for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configuration {
    /// The settings, in the order in which they are made.
    pub wanted: Vec<Wanted>,
    /// The abilities that are missing.
    pub lacks: Vec<Lack>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// The discipline that was chosen.
    pub mechanism: Mechanism,
}

/// Adds a setting after those before it.
pub(super) fn want(all: &mut Configuration, subject: Subject, to: Value) {
    all.wanted.push(Wanted { subject, to });
}
