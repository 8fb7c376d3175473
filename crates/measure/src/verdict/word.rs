//! The verdict itself, and the words for numbers in its reasons.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::grouped;

/// The verdict on a promise. Ordered from best to worst.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Measured, and within the promise.
    Kept,
    /// The measurement proves neither; the reason is given.
    Inconclusive,
    /// Measured, and not within the promise. No stall of the machine explains it.
    Broken,
}

impl Verdict {
    /// Returns the command's exit code: 0 kept, 1 broken, 4 inconclusive.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Kept => 0,
            Self::Broken => 1,
            Self::Inconclusive => 4,
        }
    }

    /// Returns the verdict's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Broken => "broken",
            Self::Inconclusive => "inconclusive",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Returns a number with its noun: `"1 frame"`, `"2 000 frames"`.
pub(super) fn counted(n: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(n), if n == 1 { "" } else { "s" })
}
