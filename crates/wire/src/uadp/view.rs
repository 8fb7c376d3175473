//! Every field of any bytes, with its offset, and what is wrong with them.

use super::view_walk::Walk;
use super::{NetworkMessage, UadpError, Value};
use core::fmt;

/// Octets of the signature of all security policies that Part 14 names: HMAC-SHA-256.
pub const SIGNATURE_OCTETS: usize = 32;

/// A lenient view of a NetworkMessage: any bytes at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<'a> {
    message: &'a [u8],
    signature_octets: usize,
}

/// A field that a view found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewField<'a> {
    /// The field's name in the standard.
    pub name: &'static str,
    /// The field's place among others of its name.
    pub place: Place,
    /// The offset of its first octet.
    pub at: usize,
    /// Its octets.
    pub octets: usize,
    /// Its value.
    pub value: ViewValue<'a>,
}

/// The place of a field among others of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct Place {
    /// The DataSetMessage that it is part of, from 0.
    pub data_set: Option<usize>,
    /// The field of the data set that it is part of, from 0; its number in a list, outside of DataSetMessages.
    pub index: Option<usize>,
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewValue<'a> {
    /// A number, or a set of flags.
    Number(u64),
    /// A value of a built-in type.
    Value(Value<'a>),
    /// A text.
    Text(&'a str),
    /// Octets: data, a nonce, a signature.
    Octets(&'a [u8]),
}

impl fmt::Display for ViewField<'_> {
    /// Shows the field's name with its place, as in `DSM0.f2.Int32`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.place.data_set, self.place.index) {
            (Some(data_set), Some(index)) => write!(f, "DSM{data_set}.f{index}.{}", self.name),
            (Some(data_set), None) => write!(f, "DSM{data_set}.{}", self.name),
            (None, Some(index)) => write!(f, "{}[{index}]", self.name),
            (None, None) => f.write_str(self.name),
        }
    }
}

/// A part of a message, or a fault in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen<'a> {
    /// A field.
    Field(ViewField<'a>),
    /// A fault. Fields that follow are read as if there was none, as far as that is possible.
    Fault(UadpError),
}

impl<'a> View<'a> {
    /// Looks at a message: the octets behind the Ethernet or UDP header.
    ///
    /// A signed message is taken to end with [`SIGNATURE_OCTETS`].
    #[must_use]
    pub const fn new(message: &'a [u8]) -> Self {
        Self {
            message,
            signature_octets: SIGNATURE_OCTETS,
        }
    }

    /// Takes another length of signatures.
    #[must_use]
    pub const fn with_signature_octets(mut self, octets: usize) -> Self {
        self.signature_octets = octets;
        self
    }

    /// The octets of the message.
    #[must_use]
    pub const fn message(&self) -> &'a [u8] {
        self.message
    }

    /// Reads the message strictly.
    ///
    /// # Errors
    /// See [`NetworkMessage::parse`].
    pub fn strict(&self) -> Result<NetworkMessage<'a>, UadpError> {
        NetworkMessage::parse(self.message, self.signature_octets)
    }

    /// Calls `visit` with each field and each fault, in the order of the message.
    pub fn walk(&self, visit: &mut dyn FnMut(Seen<'a>)) {
        let mut faults = 0_u32;
        let mut counting = |seen| {
            if matches!(seen, Seen::Fault(_)) {
                faults = faults.saturating_add(1);
            }
            visit(seen);
        };
        Walk::new(self.message, self.signature_octets, &mut counting).message();
        // The strict reader has the last word on what is no fault.
        if faults == 0 {
            if let Err(fault) = self.strict() {
                visit(Seen::Fault(fault));
            }
        }
    }
}
