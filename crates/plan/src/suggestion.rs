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
    /// A larger idle slope of a credit.
    IdleSlope,
    /// Regulators at the ports before those that have one.
    Regulators,
    /// Shorter frames of best effort.
    BestEffortFrame,
    /// Another interval of a time-triggered stream, another cycle, or a smaller share for unscheduled traffic.
    Schedule,
}

/// A change that was planned again and fits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Suggestion {
    /// The kind of the change.
    pub kind: ChangeKind,
    /// The streams, switches or links that it changes.
    pub of: Vec<String>,
    /// The change in words, all parts together.
    pub change: String,
    /// Its parts, one key each. It fits only with all of them.
    #[serde(default)]
    pub parts: Vec<String>,
}

impl fmt::Display for Suggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = self.parts.iter();
        f.write_str(parts.next().unwrap_or(&self.change))?;
        parts.try_for_each(|part| write!(f, "\n    and {part}"))
    }
}
