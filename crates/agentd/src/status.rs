//! The account of an agent so far, as a file for programs that watch it.

use std::fs;
use std::io;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of an agent: one JSON object, replaced once a second and at the agent's end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "rtwire agent status")]
pub struct AgentStatus {
    /// Version of this form: 1.
    pub format: u32,
    /// The agent's host.
    pub host: String,
    /// The channels that programs have.
    pub channels: u64,
    /// One-shot reservations that the manager granted.
    pub shares_granted: u64,
    /// Those that it refused.
    pub shares_refused: u64,
    /// Questions for them without an answer in time.
    pub shares_unanswered: u64,
    /// Frames dropped because the kernel had put several into one.
    pub unsegmented: u64,
    /// The time from a need to its usable reservation; null before the first one.
    pub share_times: Option<ShareTimes>,
}

/// The times from the first question to a usable reservation: the newest 65 536.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShareTimes {
    /// Their number.
    pub samples: u64,
    /// The median, ns.
    pub p50_ns: u64,
    /// Exceeded by one in a hundred, ns.
    pub p99_ns: u64,
    /// Exceeded by one in a thousand, ns.
    pub p999_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
}

/// Returns the JSON Schema of [`AgentStatus`], as committed in `schema/agent-status.schema.json`.
#[must_use]
pub fn status_schema() -> serde_json::Value {
    schemars::schema_for!(AgentStatus).to_value()
}

impl AgentStatus {
    /// Writes the file whole: a reader never sees half of it.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut text = serde_json::to_vec(self)?;
        text.push(b'\n');
        let aside = path.with_extension("new");
        fs::write(&aside, text)?;
        fs::rename(&aside, path)
    }
}
