//! The end of a job, in words.

use core::fmt;
use std::collections::BTreeMap;

use crate::compare::Difference;
use crate::counters::PortCounters;
use crate::reply::RpcError;

/// The settings that a switch is left with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing was put into force.
    Unchanged,
    /// It has put the settings back, as its own data show.
    PutBack,
    /// It puts the settings back by itself when the time for the confirmation is over.
    PutsBack {
        /// The time in s.
        within_s: u32,
    },
    /// It has the new settings.
    Changed,
    /// Nobody knows: it did not say whether it has put them into force for good.
    Unknown,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Left::Unchanged => f.write_str("its settings are as before"),
            Left::PutBack => f.write_str("it has put its settings back"),
            Left::PutsBack { within_s } => {
                write!(f, "it puts its settings back by itself within {within_s} s")
            }
            Left::Changed => f.write_str("it has the new settings"),
            Left::Unknown => f.write_str(
                "it may have the new settings or the old ones: `rtwire switch check` says which",
            ),
        }
    }
}

/// The end of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// All is as planned.
    Same,
    /// A check found these, or a push would change them.
    Differs(Vec<Difference>),
    /// All is as planned after these changes.
    Pushed {
        /// The differences that there were.
        changes: Vec<Difference>,
        /// `false` if the switch has no commit that waits for a confirmation.
        confirmed: bool,
    },
    /// Its counters, by the port's name. Ports without counters are not there.
    Counted(BTreeMap<String, PortCounters>),
    /// The switch does not have these modules.
    NoModules(Vec<String>),
    /// The switch has no store besides the one in force.
    NoCandidate,
    /// The switch has no commit that waits for a confirmation.
    NoConfirmation,
    /// The switch has no such interfaces.
    NoInterfaces {
        /// Those of the plan that it does not have.
        missing: Vec<String>,
        /// Those that it has.
        known: Vec<String>,
    },
    /// The switch refused a request.
    Refused {
        /// The request, as a verb phrase.
        request: &'static str,
        /// The reasons.
        errors: Vec<RpcError>,
        /// The settings that it is left with.
        left: Left,
    },
    /// The switch accepted all requests, and does not show what it was sent.
    NotTaken {
        /// The differences.
        differences: Vec<Difference>,
        /// The settings that it is left with.
        left: Left,
    },
    /// The caller did not want the settings to stay.
    Cancelled {
        /// The settings that it is left with.
        left: Left,
    },
}

/// The end of a job, with what was beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The end.
    pub outcome: Outcome,
    /// Data that were left out, because the switch does not have their modules.
    pub left_out: Vec<String>,
    /// Warnings of the switch, and requests of no weight that it refused.
    pub notes: Vec<String>,
}
