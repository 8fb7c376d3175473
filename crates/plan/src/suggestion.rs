//! A change that would fit, as data.

use core::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// A shaper that is switched on: `shaper = "on"`.
    Shaper,
    /// A smaller shaping interval.
    ShapingInterval,
    /// Larger limits: deadlines, buffers.
    Limits,
    /// A lower rate.
    Rate,
    /// A higher priority.
    Priority,
    /// A faster link.
    LinkRate,
    /// Another interval of a time-triggered stream, or a smaller share for unscheduled traffic.
    Schedule,
}

/// A change that was planned again and fits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Suggestion {
    /// The kind of the change.
    pub kind: ChangeKind,
    /// The streams, switches or links that it changes.
    pub of: Vec<String>,
    /// The change in words.
    pub change: String,
}

impl fmt::Display for Suggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.change)
    }
}
