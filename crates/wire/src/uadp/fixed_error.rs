//! The reasons why a message does not have the layout that it should have.

use core::fmt;

/// The reason why a received message does not give values by its fixed layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FixedError {
    /// The message ends before its layout does.
    Truncated {
        /// Octets of the layout.
        expected: usize,
        /// Octets found.
        found: usize,
    },
    /// The message is longer than its layout, and not by padding.
    TooLong {
        /// Octets of the layout.
        expected: usize,
        /// Octets found.
        found: usize,
    },
    /// An octet differs that is the same in all messages of the layout.
    Mismatch {
        /// The offset of the octet.
        at: usize,
        /// The octet of the layout.
        expected: u8,
        /// The octet found.
        found: u8,
    },
    /// The message ends with its DataSetMessage's header: a sign of life, not data.
    Heartbeat,
    /// The data of a padded message are all zero: it could be a padded heartbeat.
    Ambiguous {
        /// The offset of the data.
        at: usize,
    },
}

impl fmt::Display for FixedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated { expected, found } => write!(
                f,
                "truncated: the layout has {expected} octets, the message {found}"
            ),
            Self::TooLong { expected, found } => write!(
                f,
                "the layout has {expected} octets, the message {found}, and the rest is no padding"
            ),
            Self::Mismatch {
                at,
                expected,
                found,
            } => write!(
                f,
                "another layout: the octet at offset {at} is 0x{found:02x}, 0x{expected:02x} expected"
            ),
            Self::Heartbeat => f.write_str("a heartbeat: the message has no data"),
            Self::Ambiguous { at } => write!(
                f,
                "the data from offset {at} on are zero in a padded message, as in a padded heartbeat"
            ),
        }
    }
}

impl core::error::Error for FixedError {}
