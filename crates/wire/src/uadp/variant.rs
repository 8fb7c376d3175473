//! A value with its type: one value, or an array of one or more dimensions.

use super::bytes::{Reader, Writer};
use super::value::{MAXIMUM_DEPTH, Value};
use super::{BuiltIn, UadpError};

const ARRAY: u8 = 0x80;
const DIMENSIONS: u8 = 0x40;

/// A value with its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Variant<'a> {
    /// No value.
    #[default]
    Null,
    /// One value. A Variant cannot hold a Variant directly.
    Scalar(Value<'a>),
    /// An array.
    Array(Array<'a>),
}

/// An array with the type of its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array<'a> {
    /// The elements' type.
    pub kind: BuiltIn,
    /// The elements; `None` for a null array.
    pub elements: Option<Elements<'a>>,
    /// The lengths of the dimensions, if they are told.
    pub dimensions: Option<Dimensions<'a>>,
}

impl<'a> Array<'a> {
    /// Returns an array of one dimension.
    #[must_use]
    pub fn of<T: Element>(elements: &'a [T]) -> Self {
        Self {
            kind: T::KIND,
            elements: Some(T::native(elements)),
            dimensions: None,
        }
    }

    /// Returns an array of one dimension from its octets on the wire; `None` for types without a fixed length. Octets of an element that
    /// is not whole are left out.
    #[must_use]
    pub fn of_octets(kind: BuiltIn, octets: &'a [u8]) -> Option<Self> {
        let each = kind.octets()?;
        let count = octets.len() / each;
        let octets = octets.get(..count * each)?;
        Some(Self {
            kind,
            elements: Some(Elements::encoded(octets, count)),
            dimensions: None,
        })
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.elements.map_or(0, |elements| elements.len())
    }

    /// True if there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the elements one after the other.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let kind = self.kind;
        self.elements
            .into_iter()
            .flat_map(move |elements| elements.iter(kind))
    }
}

macro_rules! elements {
    ($($native:ty, $item:ident, $kind:ident;)*) => {
        #[derive(Clone, Copy, Debug)]
        enum Store<'a> {
            /// Octets that were checked, and the number of elements.
            Encoded(&'a [u8], usize),
            Values(&'a [Value<'a>]),
            $($item(&'a [$native]),)*
        }

        impl<'a> Store<'a> {
            const fn len(&self) -> usize {
                match self {
                    Self::Encoded(_, count) => *count,
                    Self::Values(values) => values.len(),
                    $(Self::$item(values) => values.len(),)*
                }
            }

            fn get(&self, at: usize) -> Option<Value<'a>> {
                match self {
                    Self::Encoded(..) => None,
                    Self::Values(values) => values.get(at).copied(),
                    $(Self::$item(values) => values.get(at).map(|value| Value::$kind(*value)),)*
                }
            }
        }

        $(
            impl Element for $native {
                const KIND: BuiltIn = BuiltIn::$kind;
            }

            impl sealed::Native for $native {
                fn native(slice: &[Self]) -> Elements<'_> {
                    Elements(Store::$item(slice))
                }
            }
        )*
    };
}

mod sealed {
    pub trait Native: Sized {
        fn native(slice: &[Self]) -> super::Elements<'_>;
    }
}

/// A Rust type whose slices can be the elements of an array.
pub trait Element: sealed::Native {
    /// The built-in type on the wire.
    const KIND: BuiltIn;
}

elements! {
    bool, Booleans, Boolean;
    i8, SBytes, SByte;
    u8, Bytes, Byte;
    i16, Int16s, Int16;
    u16, UInt16s, UInt16;
    i32, Int32s, Int32;
    u32, UInt32s, UInt32;
    i64, Int64s, Int64;
    u64, UInt64s, UInt64;
    f32, Floats, Float;
    f64, Doubles, Double;
}

/// The elements of an array: a slice, or octets of a message.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a>(Store<'a>);

impl<'a> Elements<'a> {
    /// Takes values as elements. They have to be of the array's type.
    #[must_use]
    pub const fn values(values: &'a [Value<'a>]) -> Self {
        Self(Store::Values(values))
    }

    /// Returns the number of elements.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there is no element.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the elements one after the other.
    pub fn iter(&self, kind: BuiltIn) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let store = self.0;
        let encoded = match store {
            Store::Encoded(octets, _) => octets,
            _ => &[],
        };
        let mut reader = Reader::new(encoded, 0);
        (0..self.len()).map_while(move |at| match store {
            Store::Encoded(..) => Value::read(&mut reader, kind, 0).ok(),
            _ => store.get(at),
        })
    }

    pub(super) const fn encoded(octets: &'a [u8], count: usize) -> Self {
        Self(Store::Encoded(octets, count))
    }

    pub(super) fn read(
        reader: &mut Reader<'a>,
        kind: BuiltIn,
        count: usize,
        depth: u8,
    ) -> Result<Self, UadpError> {
        let start = reader.octets();
        match kind.octets() {
            Some(octets) => {
                reader.take(kind.name(), octets.saturating_mul(count))?;
            }
            None => {
                for _ in 0..count {
                    Value::read(reader, kind, depth)?;
                }
            }
        }
        Ok(Self(Store::Encoded(reader.since(start), count)))
    }

    pub(super) fn write(&self, writer: &mut Writer<'_>, kind: BuiltIn) -> Result<(), UadpError> {
        if let Store::Encoded(octets, _) = self.0 {
            return writer.put(octets);
        }
        for at in 0..self.len() {
            let Some(value) = self.0.get(at) else { break };
            if value.built_in() != kind {
                return Err(UadpError::Inconsistent {
                    what: "an element of an array is not of the array's type",
                });
            }
            value.write(writer)?;
        }
        Ok(())
    }

    fn kind_fits(&self, kind: BuiltIn) -> bool {
        match self.0 {
            Store::Encoded(..) => true,
            _ => self.0.get(0).is_none_or(|value| value.built_in() == kind),
        }
    }
}

// What both are compared as depends on the array's type, which is compared before; octets are compared where both are
// encoded.
impl PartialEq for Elements<'_> {
    fn eq(&self, other: &Self) -> bool {
        if self.len() != other.len() {
            return false;
        }
        if let (Store::Encoded(a, _), Store::Encoded(b, _)) = (self.0, other.0) {
            return a == b;
        }
        let kind = self.0.get(0).or_else(|| other.0.get(0));
        let Some(kind) = kind.map(|value| value.built_in()) else {
            return true;
        };
        self.kind_fits(kind) && other.kind_fits(kind) && self.iter(kind).eq(other.iter(kind))
    }
}

impl Eq for Elements<'_> {}

/// The lengths of an array's dimensions: a slice, or octets of a message.
#[derive(Clone, Copy, Debug)]
pub struct Dimensions<'a>(Lengths<'a>);

#[derive(Clone, Copy, Debug)]
enum Lengths<'a> {
    Given(&'a [i32]),
    Encoded(&'a [u8]),
}

impl<'a> Dimensions<'a> {
    /// Takes a slice of lengths.
    #[must_use]
    pub const fn of(lengths: &'a [i32]) -> Self {
        Self(Lengths::Given(lengths))
    }

    /// Returns the number of dimensions.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self.0 {
            Lengths::Given(lengths) => lengths.len(),
            Lengths::Encoded(octets) => octets.len() / 4,
        }
    }

    /// True if there is no dimension.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the lengths, outermost dimension first.
    pub fn iter(&self) -> impl Iterator<Item = i32> + use<'a> {
        let (given, encoded): (&[i32], &[u8]) = match self.0 {
            Lengths::Given(lengths) => (lengths, &[]),
            Lengths::Encoded(octets) => (&[], octets),
        };
        let encoded = encoded.chunks_exact(4).map(|octets| {
            let mut number = [0; 4];
            number.copy_from_slice(octets);
            i32::from_le_bytes(number)
        });
        given.iter().copied().chain(encoded)
    }

    /// The number of elements that the lengths make; `None` if it is beyond an `Int32` or a length is negative.
    fn product(&self) -> Option<usize> {
        let mut product = 1_i32;
        for length in self.iter() {
            product = product.checked_mul(length)?;
            if length < 0 {
                return None;
            }
        }
        usize::try_from(product).ok()
    }
}

impl PartialEq for Dimensions<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Dimensions<'_> {}

impl<'a> Variant<'a> {
    /// Reads a Variant from the front of `bytes`. Returns it with its octets.
    ///
    /// # Errors
    /// The octets are no Variant.
    pub fn parse(bytes: &'a [u8]) -> Result<(Self, usize), UadpError> {
        let mut reader = Reader::new(bytes, 0);
        let variant = Self::read(&mut reader, 0)?;
        Ok((variant, reader.octets()))
    }

    /// Writes the Variant to the front of `out` and returns its octets.
    ///
    /// # Errors
    /// `out` is too short, or the parts contradict each other: a Variant directly in a Variant, elements of another
    /// type, dimensions that do not make the number of elements.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, UadpError> {
        let mut writer = Writer::new(out);
        self.write(&mut writer)?;
        Ok(writer.octets())
    }

    #[inline]
    pub(super) fn read(reader: &mut Reader<'a>, depth: u8) -> Result<Self, UadpError> {
        let at = reader.offset();
        let mask = reader.u8("the type of a Variant")?;
        if mask == 0 {
            return Ok(Self::Null);
        }
        let kind = BuiltIn::from_id(mask & 0x3f).filter(|kind| {
            // Dimensions without an array, and a Variant directly in one, are no encoding.
            mask & ARRAY != 0 || (mask & DIMENSIONS == 0 && *kind != BuiltIn::Variant)
        });
        let Some(kind) = kind else {
            return Err(UadpError::Reserved {
                what: "the type of a Variant",
                at,
                found: u64::from(mask),
            });
        };
        if mask & ARRAY == 0 {
            return Ok(Self::Scalar(Value::read(reader, kind, depth)?));
        }
        if depth >= MAXIMUM_DEPTH {
            return Err(UadpError::TooDeep { at });
        }
        let elements = match reader.length("the length of an array")? {
            Some(count) => Some(Elements::read(reader, kind, count, depth + 1)?),
            None => None,
        };
        let mut array = Array {
            kind,
            elements,
            dimensions: None,
        };
        if mask & DIMENSIONS != 0 {
            const WHAT: &str = "the number of dimensions";
            let at = reader.offset();
            let count = reader.length(WHAT)?.unwrap_or(0);
            let dimensions = Dimensions(Lengths::Encoded(
                reader.take(WHAT, count.saturating_mul(4))?,
            ));
            if dimensions.product() != Some(array.len()) || count == 0 {
                return Err(UadpError::Length {
                    what: "the product of an array's dimensions",
                    at,
                    told: dimensions
                        .product()
                        .map_or(u64::MAX, |product| product as u64),
                    most: array.len() as u64,
                });
            }
            array.dimensions = Some(dimensions);
        }
        Ok(Self::Array(array))
    }

    #[inline]
    pub(super) fn write(&self, writer: &mut Writer<'_>) -> Result<(), UadpError> {
        if self.write_common(writer) {
            return Ok(());
        }
        self.write_any(writer)
    }

    /// Writes a single value of a common type in one step. False, with nothing written, for all others and without room.
    #[inline]
    fn write_common(&self, writer: &mut Writer<'_>) -> bool {
        match self {
            Self::Scalar(Value::Int32(value)) => {
                writer.tagged(BuiltIn::Int32.id(), value.to_le_bytes())
            }
            Self::Scalar(Value::UInt32(value)) => {
                writer.tagged(BuiltIn::UInt32.id(), value.to_le_bytes())
            }
            Self::Scalar(Value::Float(value)) => {
                writer.tagged(BuiltIn::Float.id(), value.to_le_bytes())
            }
            Self::Scalar(Value::Double(value)) => {
                writer.tagged(BuiltIn::Double.id(), value.to_le_bytes())
            }
            _ => false,
        }
    }

    #[inline(never)]
    fn write_any(&self, writer: &mut Writer<'_>) -> Result<(), UadpError> {
        let array = match self {
            Self::Null => return writer.u8(0),
            Self::Scalar(Value::Variant(_)) => {
                return Err(UadpError::Inconsistent {
                    what: "a Variant cannot hold a Variant directly; an array of one can",
                });
            }
            Self::Scalar(value) => {
                writer.u8(value.built_in().id())?;
                return value.write(writer);
            }
            Self::Array(array) => array,
        };
        let dimensions = array.dimensions.as_ref();
        let flag = if dimensions.is_some() { DIMENSIONS } else { 0 };
        writer.u8(array.kind.id() | ARRAY | flag)?;
        writer.length(array.elements.map(|elements| elements.len()))?;
        if let Some(elements) = &array.elements {
            elements.write(writer, array.kind)?;
        }
        if let Some(dimensions) = dimensions {
            if dimensions.product() != Some(array.len()) || dimensions.is_empty() {
                return Err(UadpError::Inconsistent {
                    what: "the dimensions of an array do not make its number of elements",
                });
            }
            writer.length(Some(dimensions.len()))?;
            for length in dimensions.iter() {
                writer.put(&length.to_le_bytes())?;
            }
        }
        Ok(())
    }
}

/// The octets behind a Variant's type octet, for single values of a fixed length; 0 for all others.
const SINGLE_OCTETS: [u8; 256] = {
    let mut table = [0; 256];
    let mut id = 0;
    while id < BuiltIn::ALL.len() {
        let kind = BuiltIn::ALL[id];
        if let Some(octets) = kind.octets() {
            // At most 16.
            table[kind.id() as usize] = octets as u8;
        }
        id += 1;
    }
    table
};

/// Reads a single value of a common type in one step; `None` for all others, which are for [`Variant::read`].
#[inline]
pub(super) fn common<'a>(reader: &mut Reader<'a>) -> Option<Value<'a>> {
    let (value, octets) = match *reader.rest() {
        [6, a, b, c, d, ..] => (Value::Int32(i32::from_le_bytes([a, b, c, d])), 5),
        [7, a, b, c, d, ..] => (Value::UInt32(u32::from_le_bytes([a, b, c, d])), 5),
        [10, a, b, c, d, ..] => (Value::Float(f32::from_le_bytes([a, b, c, d])), 5),
        [11, a, b, c, d, e, f, g, h, ..] => {
            let bits = [a, b, c, d, e, f, g, h];
            (Value::Double(f64::from_le_bytes(bits)), 9)
        }
        _ => return None,
    };
    reader.pass(octets);
    Some(value)
}

/// Reads over some Variants and checks them.
#[inline]
pub(super) fn skip_variants(reader: &mut Reader<'_>, count: u16) -> Result<(), UadpError> {
    let bytes = reader.rest();
    let (mut at, mut left) = (0, count);
    // Any octets are a value of a type with a fixed length.
    while left > 0 {
        let octets = bytes
            .get(at)
            .map_or(0, |mask| SINGLE_OCTETS[usize::from(*mask)]);
        let next = at + 1 + usize::from(octets);
        if octets == 0 || next > bytes.len() {
            break;
        }
        at = next;
        left -= 1;
    }
    reader.pass(at);
    (0..left).try_for_each(|_| skip_variant(reader, 0))
}

/// Reads over a Variant and checks it.
#[inline]
pub(super) fn skip_variant(reader: &mut Reader<'_>, depth: u8) -> Result<(), UadpError> {
    // Any octets are a value of a type with a fixed length.
    let octets = reader
        .peek()
        .and_then(BuiltIn::from_id)
        .and_then(BuiltIn::octets);
    if let Some(octets) = octets.filter(|octets| *octets < reader.left()) {
        return reader.take("Variant", 1 + octets).map(|_| ());
    }
    skip_any(reader, depth)
}

fn skip_any(reader: &mut Reader<'_>, depth: u8) -> Result<(), UadpError> {
    if depth > MAXIMUM_DEPTH {
        return Err(UadpError::TooDeep {
            at: reader.offset(),
        });
    }
    Variant::read(reader, depth).map(|_| ())
}

impl<'a> From<Value<'a>> for Variant<'a> {
    fn from(value: Value<'a>) -> Self {
        Self::Scalar(value)
    }
}

macro_rules! from_native {
    ($($native:ty => $item:ident;)*) => {
        $(
            impl From<$native> for Variant<'_> {
                fn from(value: $native) -> Self {
                    Self::Scalar(Value::$item(value))
                }
            }
        )*
    };
}

from_native! {
    bool => Boolean;
    i8 => SByte;
    u8 => Byte;
    i16 => Int16;
    u16 => UInt16;
    i32 => Int32;
    u32 => UInt32;
    i64 => Int64;
    u64 => UInt64;
    f32 => Float;
    f64 => Double;
}

impl<'a> From<&'a str> for Variant<'a> {
    fn from(text: &'a str) -> Self {
        Self::Scalar(Value::String(Some(text)))
    }
}
