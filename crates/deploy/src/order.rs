//! Orders to a host and its replies.

use serde::{Deserialize, Serialize};

/// An order to a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Order {
    /// Say that the door is open; change nothing.
    Ready,
    /// Show what a plan would change; change nothing.
    Show {
        /// The plan file's text.
        plan: String,
    },
    /// Apply a plan and read it back. It is put back unless it is confirmed in time.
    Apply {
        /// The plan file's text.
        plan: String,
        /// The time until it is put back, s.
        confirm_within_s: u32,
    },
    /// Keep what was applied.
    Confirm,
    /// Name each difference from a plan; change nothing.
    Check {
        /// The plan file's text.
        plan: String,
    },
    /// Run this host's streams, and give the evidence.
    Run {
        /// The plan file's text.
        plan: String,
        /// The duration, ms.
        duration_ms: u64,
    },
}

/// A host's reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// The exit code of the command that carried it out: 0 done; 1 refused, or it differs; 2 faulty; 3 the host lacks something.
    pub code: i32,
    /// The text for people.
    pub text: String,
    /// True if bytes follow in a message of their own: the evidence.
    #[serde(default)]
    pub attached: bool,
}
