//! The longest value of a field: one number, a text of some bytes, an array of some elements.

use crate::field::scalar_bytes;
use rtwire_wire::uadp::{BuiltIn, RawField};

/// The most bytes of a text, and of all elements of an array.
pub const MOST_FIELD_BYTES: u32 = 65_000;

/// The longest value of a field. It is reserved when a station is opened, so that nothing is allocated later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Extent {
    /// One value of at most 8 bytes.
    #[default]
    Scalar,
    /// A `String` or `ByteString` of at most this number of bytes.
    Bytes(u32),
    /// An array of one dimension with at most this number of values, of at most 8 bytes each.
    Elements(u32),
}

/// The reason why a type does not have an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentFault {
    /// Fields do not have the type.
    Kind,
    /// The type has an extent of another form: texts have bytes, scalars have elements.
    Form,
    /// Nothing fits into it, or more than [`MOST_FIELD_BYTES`].
    Size,
}

/// True for the types of texts and bytes.
#[must_use]
pub const fn is_bytes(kind: BuiltIn) -> bool {
    matches!(kind, BuiltIn::String | BuiltIn::ByteString)
}

impl Extent {
    /// Checks whether values of a type have this extent.
    ///
    /// # Errors
    /// The extent does not fit the type.
    pub fn check(self, kind: BuiltIn) -> Result<(), ExtentFault> {
        let each = match (scalar_bytes(kind), self) {
            (Some(_), Self::Scalar) => return Ok(()),
            (Some(bytes), Self::Elements(_)) => bytes as u64,
            (None, Self::Bytes(_)) if is_bytes(kind) => 1,
            (None, _) if !is_bytes(kind) => return Err(ExtentFault::Kind),
            _ => return Err(ExtentFault::Form),
        };
        let (Self::Bytes(most) | Self::Elements(most)) = self else {
            return Ok(());
        };
        match each * u64::from(most) {
            1.. if each * u64::from(most) <= u64::from(MOST_FIELD_BYTES) => Ok(()),
            _ => Err(ExtentFault::Size),
        }
    }

    /// Returns the bytes of a longest value beyond the word that each field has: 0 for a scalar.
    #[must_use]
    pub fn room_bytes(self, kind: BuiltIn) -> usize {
        match self {
            Self::Scalar => 0,
            Self::Bytes(most) => most as usize,
            Self::Elements(most) => (most as usize).saturating_mul(scalar_bytes(kind).unwrap_or(0)),
        }
    }

    /// Returns the field of RawData. `lengths` lends the length of an array.
    pub(crate) fn raw(self, kind: BuiltIn, lengths: &mut [u32; 1]) -> RawField<'_> {
        match self {
            Self::Scalar => RawField::scalar(kind),
            Self::Bytes(most) => RawField {
                kind,
                dimensions: &[],
                maximum_octets: most,
            },
            Self::Elements(most) => {
                *lengths = [most];
                RawField::array(kind, lengths)
            }
        }
    }

    /// Returns the bytes that the field takes in RawData: padded to the longest value.
    #[must_use]
    pub fn raw_bytes(self, kind: BuiltIn) -> usize {
        match self {
            Self::Scalar => scalar_bytes(kind).unwrap_or(0),
            Self::Bytes(_) | Self::Elements(_) => self.room_bytes(kind).saturating_add(4),
        }
    }
}
