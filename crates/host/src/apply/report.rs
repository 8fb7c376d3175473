//! The report of planned or made changes: data, with a JSON Schema.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::choices::Mechanism;
use super::configuration::Lack;
use crate::change::Change;

/// The changes that `rtwire apply` made, or would make.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "rtwire apply")]
pub struct Report {
    /// 1.
    pub version: u32,
    /// The host of the plan.
    pub host: String,
    /// The interface.
    pub interface: String,
    /// The fingerprint of the network that was planned.
    pub input_hash: String,
    /// The discipline that was chosen.
    pub mechanism: Mechanism,
    /// The abilities that the plan asks for and that are missing on the host.
    pub lacks: Vec<Lack>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// The differences from the present state, in the order in which they are changed.
    pub changes: Vec<Change>,
    /// The command for each change.
    pub commands: Vec<String>,
    /// True if the changes were made and read back.
    pub applied: bool,
}

/// Returns the JSON Schema of a [`Report`].
#[must_use]
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(Report).to_value()
}
