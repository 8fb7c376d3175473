//! Errors of POWERLINK frames.

use super::codes::MessageType;
use crate::EtherType;
use core::fmt;

/// The reason why bytes are not a valid POWERLINK frame, or a frame cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerlinkError {
    /// The frame ends before the message does.
    Truncated {
        /// The message's name.
        message: &'static str,
        /// Octets needed at least, counted from the frame's first.
        needed: usize,
        /// Octets found.
        found: usize,
    },
    /// The EtherType is not POWERLINK's.
    EtherType {
        /// The EtherType found.
        found: EtherType,
    },
    /// The message type is unknown.
    MessageType {
        /// The message type found.
        found: MessageType,
    },
    /// A size field says more than there is, or more than is allowed.
    Size {
        /// The field's name.
        field: &'static str,
        /// The field's value.
        told: usize,
        /// The largest value that could be valid.
        most: usize,
    },
    /// The frame does not fit the buffer.
    TooLong {
        /// Octets needed at least.
        needed: usize,
        /// Octets that fit.
        fit: usize,
    },
    /// The parts of a value contradict each other, so no frame can carry it.
    Inconsistent {
        /// The contradiction.
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
                    "wrong size: {field} is {told}, at most {most} is possible"
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
