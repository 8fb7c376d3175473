//! The account of a manager so far, as a file for programs that watch it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::times::Times;

/// The state of a manager: one JSON object, replaced once a second and at the manager's end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "rtwire manager status")]
pub struct ManagerStatus {
    /// Version of this form: 1.
    pub format: u32,
    /// The program: `manager`.
    pub program: String,
    /// The plan's newest epoch.
    pub epoch: u64,
    /// The connections that are admitted now.
    pub connections: u64,
    /// Connections granted since the start.
    pub granted: u64,
    /// Connections released since the start.
    pub released: u64,
    /// One-shot reservations granted since the start.
    pub shares_granted: u64,
    /// Refusals since the start, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Messages that were not believed since the start, by reason.
    pub distrusted: BTreeMap<String, u64>,
    /// Each link, in each direction.
    pub links: Vec<LinkStatus>,
    /// The time from a message to its answer, with its change on the disk; null before the first one.
    pub answer_times: Option<Times>,
}

/// The rates of a link in one direction, as admitted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkStatus {
    /// The node that sends.
    pub from: String,
    /// The node that receives.
    pub to: String,
    /// The link's rate, bit/s.
    pub rate_bps: u64,
    /// The rate of streams and connections, which is promised, bit/s.
    pub promised_bps: u64,
    /// The rate of one-shot reservations, bit/s.
    pub shared_bps: u64,
}

/// Returns the JSON Schema of [`ManagerStatus`], as committed in `schema/manager-status.schema.json`.
#[must_use]
pub fn status_schema() -> serde_json::Value {
    schemars::schema_for!(ManagerStatus).to_value()
}

/// Writes a status file whole: a reader never sees half of it.
///
/// # Errors
/// The folder cannot be written.
pub fn write_status(status: &impl Serialize, path: &Path) -> io::Result<()> {
    let mut text = serde_json::to_vec(status)?;
    text.push(b'\n');
    let aside = path.with_extension("new");
    fs::write(&aside, text)?;
    fs::rename(&aside, path)
}
