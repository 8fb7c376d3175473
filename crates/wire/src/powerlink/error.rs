//! What can be wrong with a POWERLINK frame.

use super::codes::MessageType;
use crate::EtherType;
use core::fmt;

/// Why bytes are not a right POWERLINK frame, or a frame cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerlinkError {
    /// The frame ends before the message does.
    Truncated {
        /// The message.
        message: &'static str,
        /// Octets needed at least, from the frame's first.
        needed: usize,
        /// Octets there.
        found: usize,
    },
    /// Not POWERLINK's EtherType.
    EtherType {
        /// The one found.
        found: EtherType,
    },
    /// A message type of no known meaning.
    MessageType {
        /// The one found.
        found: MessageType,
    },
    /// A size field tells of more than there is, or than is allowed.
    Size {
        /// Which field.
        field: &'static str,
        /// What it tells.
        told: usize,
        /// The most that could be right.
        most: usize,
    },
    /// What is to be written does not fit.
    TooLong {
        /// Octets needed at least.
        needed: usize,
        /// Octets that fit.
        fit: usize,
    },
    /// A value whose parts contradict each other, which no frame could tell.
    Inconsistent {
        /// What is wrong with it.
        what: &'static str,
    },
}

impl fmt::Display for PowerlinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated {
                message,
                needed,
                found,
            } => write!(
                f,
                "truncated: {message} needs {needed} octets, there are {found}"
            ),
            Self::EtherType { found } => {
                write!(f, "EtherType {found} found, 0x88AB (POWERLINK) expected")
            }
            Self::MessageType { found } => write!(
                f,
                "POWERLINK message type {} found; 1, 3 to 7 and 13 are known",
                found.0
            ),
            Self::Size { field, told, most } => {
                write!(
                    f,
                    "wrong size: {field} tells {told}, at most {most} is right"
                )
            }
            Self::TooLong { needed, fit } => {
                write!(f, "{needed} octets do not fit: there is room for {fit}")
            }
            Self::Inconsistent { what } => f.write_str(what),
        }
    }
}

impl core::error::Error for PowerlinkError {}
