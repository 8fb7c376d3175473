//! The account of an agent so far, as a file for programs that watch it.

use rtwire_managerd::Times;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of an agent: one JSON object, replaced once a second and at the agent's end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "rtwire agent status")]
pub struct AgentStatus {
    /// Version of this form: 1.
    pub format: u32,
    /// The program: `agent`.
    pub program: String,
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
    pub share_times: Option<Times>,
}

/// Returns the JSON Schema of [`AgentStatus`], as committed in `schema/agent-status.schema.json`.
#[must_use]
pub fn status_schema() -> serde_json::Value {
    schemars::schema_for!(AgentStatus).to_value()
}
