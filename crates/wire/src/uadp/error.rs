//! Errors of UADP messages.

use core::fmt;

/// The reason why bytes are not a valid UADP message, or a message cannot be written.
///
/// Offsets count from the message's first byte, behind the Ethernet or UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UadpError {
    /// The message ends within a field.
    Truncated {
        /// The field's name.
        what: &'static str,
        /// The field's offset.
        at: usize,
        /// Octets that the field needs.
        needed: usize,
        /// Octets found from its offset on.
        found: usize,
    },
    /// The version of UADP is not 1.
    Version {
        /// The version found.
        found: u8,
    },
    /// A field has a value that the standard reserves.
    Reserved {
        /// The field's name.
        what: &'static str,
        /// The field's offset.
        at: usize,
        /// The value found.
        found: u64,
    },
    /// A length says more than there is, or more than is allowed.
    Length {
        /// The field's name.
        what: &'static str,
        /// The field's offset.
        at: usize,
        /// The value found.
        told: u64,
        /// The largest value that could be valid.
        most: u64,
    },
    /// A text is not UTF-8.
    Text {
        /// The offset of the text's first octet.
        at: usize,
    },
    /// Octets follow that belong to nothing and are not zero, so they are no padding.
    Trailing {
        /// The offset of the first of them.
        at: usize,
        /// Their number.
        octets: usize,
    },
    /// Values contain each other too deeply.
    TooDeep {
        /// The offset of the innermost value read.
        at: usize,
    },
    /// The message does not fit the buffer.
    TooLong {
        /// Octets needed at least.
        needed: usize,
        /// Octets that fit.
        fit: usize,
    },
    /// The parts of a value contradict each other, so no message can carry it.
    Inconsistent {
        /// The contradiction.
        what: &'static str,
    },
}

impl UadpError {
    /// Returns the offset of the fault in the message; `None` for errors of writing.
    #[must_use]
    pub const fn at(&self) -> Option<usize> {
        match *self {
            Self::Version { .. } => Some(0),
            Self::Truncated { at, .. }
            | Self::Reserved { at, .. }
            | Self::Length { at, .. }
            | Self::Text { at }
            | Self::Trailing { at, .. }
            | Self::TooDeep { at } => Some(at),
            Self::TooLong { .. } | Self::Inconsistent { .. } => None,
        }
    }
}

impl fmt::Display for UadpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated {
                what,
                at,
                needed,
                found,
            } => write!(
                f,
                "truncated: {what} at offset {at} needs {needed} octets, there are {found}"
            ),
            Self::Version { found } => {
                write!(f, "UADP version {found} at offset 0; only 1 is known")
            }
            Self::Reserved { what, at, found } => {
                write!(f, "{what} at offset {at} is {found}, a reserved value")
            }
            Self::Length {
                what,
                at,
                told,
                most,
            } => write!(
                f,
                "wrong length: {what} at offset {at} is {told}, at most {most} is possible"
            ),
            Self::Text { at } => write!(f, "the text at offset {at} is not UTF-8"),
            Self::Trailing { at, octets } => write!(
                f,
                "{octets} octets from offset {at} on belong to no field and are no padding"
            ),
            Self::TooDeep { at } => {
                write!(f, "the value at offset {at} is nested too deeply")
            }
            Self::TooLong { needed, fit } => {
                write!(f, "{needed} octets do not fit: there is room for {fit}")
            }
            Self::Inconsistent { what } => f.write_str(what),
        }
    }
}

impl core::error::Error for UadpError {}
