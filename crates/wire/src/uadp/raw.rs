//! RawData: bare values, one behind the other, with the types and lengths that the metadata tell.

use super::bytes::{Reader, Writer};
use super::value::Value;
use super::{Array, BuiltIn, Elements, UadpError, Variant};

/// A field as its metadata describe it, for RawData.
///
/// A field takes the same octets in every message: texts and arrays that are shorter than their maximum are followed by
/// zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RawField<'d> {
    /// The type of the value, or of each element.
    pub kind: BuiltIn,
    /// The largest length of each dimension, outermost first; empty for one value. A length of 0 is not possible.
    pub dimensions: &'d [u32],
    /// The largest number of octets of a `String` or `ByteString`.
    pub maximum_octets: u32,
}

impl<'d> RawField<'d> {
    /// Returns a field with one value of a type with a fixed length.
    #[must_use]
    pub const fn scalar(kind: BuiltIn) -> Self {
        Self {
            kind,
            dimensions: &[],
            maximum_octets: 0,
        }
    }

    /// Returns a field with an array of a type with a fixed length.
    #[must_use]
    pub const fn array(kind: BuiltIn, dimensions: &'d [u32]) -> Self {
        Self {
            kind,
            dimensions,
            maximum_octets: 0,
        }
    }

    /// Returns a field with a text of at most `maximum_octets` octets.
    #[must_use]
    pub const fn string(maximum_octets: u32) -> Self {
        Self {
            kind: BuiltIn::String,
            dimensions: &[],
            maximum_octets,
        }
    }

    /// Returns the octets of one value; `None` for types that RawData cannot carry at a fixed length.
    #[must_use]
    pub fn value_octets(&self) -> Option<usize> {
        match self.kind {
            BuiltIn::String | BuiltIn::ByteString => {
                4_usize.checked_add(usize::try_from(self.maximum_octets).ok()?)
            }
            kind => kind.octets(),
        }
    }

    /// Returns the octets of the field; `None` for types that RawData cannot carry at a fixed length.
    #[must_use]
    pub fn octets(&self) -> Option<usize> {
        let mut elements = 1_usize;
        for length in self.dimensions {
            elements = elements.checked_mul(usize::try_from(*length).ok()?)?;
        }
        elements
            .checked_mul(self.value_octets()?)?
            .checked_add(self.dimensions.len() * 4)
    }

    /// Reads the field from the front of `bytes`. Returns it with its octets, padding included.
    ///
    /// Elements of texts in arrays are read one by one; see [`RawArray`].
    ///
    /// # Errors
    /// Fewer octets than the field takes, a length beyond its maximum, a type that RawData cannot carry, padding that is
    /// not zero.
    pub fn parse<'a>(
        &self,
        bytes: &'a [u8],
        at: usize,
    ) -> Result<(RawValue<'a>, usize), UadpError> {
        let Some(octets) = self.octets() else {
            return Err(UNSUITABLE);
        };
        let mut reader = Reader::new(bytes, at);
        let start = reader.offset();
        let field = reader.take(self.kind.name(), octets)?;
        let mut reader = Reader::new(field, start);
        let value = if self.dimensions.is_empty() {
            RawValue::Scalar(self.read_value(&mut reader)?)
        } else {
            let lengths = reader.take("the lengths of an array", self.dimensions.len() * 4)?;
            let mut each = Reader::new(lengths, start);
            let mut count = 1_usize;
            for most in self.dimensions {
                let at = each.offset();
                let told = each.u32("the length of an array")?;
                if told > *most {
                    return Err(UadpError::Length {
                        what: "the length of an array",
                        at,
                        told: u64::from(told),
                        most: u64::from(*most),
                    });
                }
                // Each length is at most the maximum, whose product fits.
                count = count.saturating_mul(told as usize);
            }
            let value_octets = self.value_octets().unwrap_or(0);
            let elements = reader.take("the elements of an array", count * value_octets)?;
            reader.only_padding()?;
            RawValue::Array(RawArray {
                kind: self.kind,
                value_octets,
                lengths,
                elements,
            })
        };
        Ok((value, octets))
    }

    fn read_value<'a>(&self, reader: &mut Reader<'a>) -> Result<Value<'a>, UadpError> {
        read_padded(reader, self.kind)
    }

    /// Writes a value to the front of `out`, padded, and returns the field's octets. Nothing behind them is touched.
    ///
    /// # Errors
    /// `out` is too short, or the value is not of the field's type, or longer than its maximum.
    pub fn emit(&self, value: &Variant<'_>, out: &mut [u8]) -> Result<usize, UadpError> {
        let octets = self.octets().ok_or(UNSUITABLE)?;
        let fit = out.len();
        let Some(place) = out.get_mut(..octets) else {
            return Err(UadpError::TooLong {
                needed: octets,
                fit,
            });
        };
        let mut writer = Writer::new(place);
        match value {
            Variant::Scalar(value) if self.dimensions.is_empty() => {
                self.write_value(&mut writer, value)?;
            }
            Variant::Array(array) if !self.dimensions.is_empty() => {
                self.write_array(&mut writer, array)?;
            }
            _ => {
                return Err(UadpError::Inconsistent {
                    what: "the field is one value, or an array, and the other is given",
                });
            }
        }
        writer.zeros(octets - writer.octets())?;
        Ok(octets)
    }

    fn write_array(&self, writer: &mut Writer<'_>, array: &Array<'_>) -> Result<(), UadpError> {
        const LONGER: UadpError = UadpError::Inconsistent {
            what: "an array has other dimensions than its field, or longer ones",
        };
        let mut count = 1_usize;
        for (at, most) in self.dimensions.iter().enumerate() {
            let length = match &array.dimensions {
                Some(dimensions) if dimensions.len() == self.dimensions.len() => dimensions
                    .iter()
                    .nth(at)
                    .and_then(|length| u32::try_from(length).ok()),
                None if self.dimensions.len() == 1 => u32::try_from(array.len()).ok(),
                _ => None,
            };
            let length = length.filter(|length| length <= most).ok_or(LONGER)?;
            writer.u32(length)?;
            count = count.saturating_mul(length as usize);
        }
        if count != array.len() {
            return Err(LONGER);
        }
        for value in array.iter() {
            self.write_value(writer, &value)?;
        }
        Ok(())
    }

    fn write_value(&self, writer: &mut Writer<'_>, value: &Value<'_>) -> Result<(), UadpError> {
        if value.built_in() != self.kind {
            return Err(UadpError::Inconsistent {
                what: "a value is not of its field's type",
            });
        }
        let octets = match value {
            Value::String(text) => text.map(str::as_bytes),
            Value::ByteString(octets) => *octets,
            other => return other.write(writer),
        };
        let most = self.value_octets().unwrap_or(0);
        let needed = 4 + octets.map_or(0, <[u8]>::len);
        if needed > most {
            return Err(UadpError::TooLong { needed, fit: most });
        }
        writer.byte_string(octets)?;
        writer.zeros(most - needed)
    }
}

const UNSUITABLE: UadpError = UadpError::Inconsistent {
    what: "RawData cannot carry this type at a fixed length",
};

/// Reads a value that takes all octets of `reader`, with its padding.
fn read_padded<'a>(reader: &mut Reader<'a>, kind: BuiltIn) -> Result<Value<'a>, UadpError> {
    let value = Value::read(reader, kind, 0)?;
    reader.only_padding()?;
    Ok(value)
}

/// A field of RawData.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawValue<'a> {
    /// One value.
    Scalar(Value<'a>),
    /// An array.
    Array(RawArray<'a>),
}

impl<'a> RawValue<'a> {
    /// Returns the value as a Variant; `None` for arrays of more than one dimension, or of padded texts.
    #[must_use]
    pub fn to_variant(&self) -> Option<Variant<'a>> {
        match self {
            Self::Scalar(value) => Some(Variant::Scalar(*value)),
            Self::Array(array) => array.to_array().map(Variant::Array),
        }
    }
}

/// An array of RawData.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawArray<'a> {
    kind: BuiltIn,
    value_octets: usize,
    lengths: &'a [u8],
    elements: &'a [u8],
}

impl<'a> RawArray<'a> {
    /// Returns the type of the elements.
    #[must_use]
    pub const fn kind(&self) -> BuiltIn {
        self.kind
    }

    /// Returns the length of each dimension, outermost first.
    pub fn lengths(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.lengths.chunks_exact(4).map(|octets| {
            let mut number = [0; 4];
            number.copy_from_slice(octets);
            u32::from_le_bytes(number)
        })
    }

    /// Returns the number of elements of all dimensions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.elements
            .len()
            .checked_div(self.value_octets)
            .unwrap_or(0)
    }

    /// True if there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the elements; an error for each that is not valid (a text that is not UTF-8 or not padded with zeros).
    pub fn iter(&self) -> impl Iterator<Item = Result<Value<'a>, UadpError>> + use<'a> {
        let (kind, octets) = (self.kind, self.value_octets.max(1));
        self.elements
            .chunks_exact(octets)
            .map(move |element| read_padded(&mut Reader::new(element, 0), kind))
    }

    fn to_array(self) -> Option<Array<'a>> {
        self.kind.octets()?;
        if self.lengths.len() != 4 {
            return None;
        }
        Some(Array {
            kind: self.kind,
            elements: Some(Elements::encoded(self.elements, self.len())),
            dimensions: None,
        })
    }
}

/// Reads the fields of RawData one after the other.
///
/// All octets have to be used, but for zeros at the end where `padded` is true.
///
/// # Errors
/// See [`RawField::parse`]; and octets that no field uses.
pub fn parse_raw<'a, 'd>(
    fields: &[RawField<'d>],
    data: &'a [u8],
    at: usize,
    padded: bool,
    mut visit: impl FnMut(usize, RawValue<'a>),
) -> Result<(), UadpError> {
    let mut used = 0;
    for (index, field) in fields.iter().enumerate() {
        let rest = data.get(used..).unwrap_or_default();
        let (value, octets) = field.parse(rest, at + used)?;
        visit(index, value);
        used += octets;
    }
    let rest = data.get(used..).unwrap_or_default();
    let reader = Reader::new(rest, at + used);
    if padded || rest.is_empty() {
        return reader.only_padding();
    }
    Err(UadpError::Trailing {
        at: at + used,
        octets: rest.len(),
    })
}
