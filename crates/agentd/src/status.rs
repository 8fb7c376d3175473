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
    /// The ends of planned streams and connections that programs have, and what the gate counted of them. Absent in the files
    /// of earlier agents.
    #[serde(default)]
    pub ends: Vec<EndStatus>,
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

/// One end of a planned stream or a connection that a program has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EndStatus {
    /// The stream's name, as in the plan file: `connection-NUMBER` for a connection.
    pub stream: String,
    /// The end: `talker` or `listener`.
    pub end: String,
    /// The program's user.
    pub uid: u32,
    /// The program's process.
    pub pid: i32,
    /// At the talker: frames sent, also those that its queue dropped. At the listener: frames that came.
    pub frames: u64,
    /// At the talker: frames that were not the stream's, dropped. At the listener: frames of other senders or with another
    /// key, dropped.
    pub foreign: u64,
    /// At the listener: frames beyond the contract, dropped.
    pub too_much: u64,
}

/// Returns the JSON Schema of [`AgentStatus`], as committed in `schema/agent-status.schema.json`.
#[must_use]
pub fn status_schema() -> serde_json::Value {
    schemars::schema_for!(AgentStatus).to_value()
}
