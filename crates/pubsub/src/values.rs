//! The values of one data set: a word for each field, and room of its own for each text and array. Nothing is allocated after the start.

use crate::config::Field;
use crate::extent::Extent;
use crate::field::{Scalar, scalar_bytes};
use core::fmt;
use rtwire_wire::uadp::{Array, BuiltIn, RawField, RawValue, UadpError, Value, Variant};

/// The bytes of a word of the state image.
const WORD: usize = 8;

/// The value of a field: a scalar, a text, bytes or an array. A null text or array reads as an empty one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValue<'a> {
    /// One value of at most 8 bytes.
    Scalar(Scalar),
    /// A text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// An array of scalars.
    Array(ScalarArray<'a>),
}

/// An array of scalars of one type, as it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScalarArray<'a> {
    kind: BuiltIn,
    octets: &'a [u8],
}

impl<'a> ScalarArray<'a> {
    /// Takes elements as they are on the wire, the lowest byte of each first. Returns `None` for a type that is no scalar, and where the last
    /// element is not whole.
    #[must_use]
    pub fn of_octets(kind: BuiltIn, octets: &'a [u8]) -> Option<Self> {
        let whole = octets.len() % scalar_bytes(kind)? == 0;
        whole.then_some(Self { kind, octets })
    }

    /// The type of the elements.
    #[must_use]
    pub const fn kind(self) -> BuiltIn {
        self.kind
    }

    /// The elements as they are on the wire, the lowest byte of each first.
    #[must_use]
    pub const fn octets(self) -> &'a [u8] {
        self.octets
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(self) -> usize {
        self.octets.len() / scalar_bytes(self.kind).unwrap_or(1)
    }

    /// True where there is no element.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.octets.is_empty()
    }

    /// Returns the elements one after the other.
    pub fn iter(self) -> impl Iterator<Item = Scalar> + use<'a> {
        let kind = self.kind;
        self.octets
            .chunks_exact(scalar_bytes(kind).unwrap_or(1))
            .map(move |own| Scalar::from_bits(kind, little_endian(own)))
    }
}

/// Returns a number of at most 8 bytes, the lowest first.
fn little_endian(octets: &[u8]) -> u64 {
    let mut bits = [0; WORD];
    bits.iter_mut()
        .zip(octets)
        .for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(bits)
}

impl FieldValue<'_> {
    /// Returns the scalar; `None` for others.
    #[must_use]
    pub const fn scalar(&self) -> Option<Scalar> {
        match self {
            Self::Scalar(scalar) => Some(*scalar),
            _ => None,
        }
    }
}

/// Texts as they are, bytes in hexadecimal, arrays in brackets.
impl fmt::Display for FieldValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(scalar) => scalar.fmt(f),
            Self::Text(text) => f.write_str(text),
            Self::Bytes(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            Self::Array(array) => {
                f.write_str("[")?;
                for (at, element) in array.iter().enumerate() {
                    let gap = if at > 0 { ", " } else { "" };
                    write!(f, "{gap}{element}")?;
                }
                f.write_str("]")
            }
        }
    }
}

/// The room of one field that is no scalar. The word of its field is the number of elements or bytes that are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Room {
    kind: BuiltIn,
    extent: Extent,
    at: usize,
    bytes: usize,
    /// The bytes of an element; 1 of texts.
    each: usize,
}

/// The values of a data set, in the order of its fields.
#[derive(Clone, Debug)]
pub struct Values {
    words: Vec<Scalar>,
    /// Empty where all fields are scalars.
    rooms: Vec<Option<Room>>,
    octets: Vec<u8>,
}

impl Values {
    /// Reserves the values of fields: zeros, empty texts and arrays.
    #[must_use]
    pub fn new(fields: &[Field]) -> Self {
        let mut octets = 0;
        let mut rooms = Vec::new();
        if fields.iter().any(|field| field.extent != Extent::Scalar) {
            for Field { kind, extent, .. } in fields {
                let bytes = extent.room_bytes(*kind);
                rooms.push((*extent != Extent::Scalar).then_some(Room {
                    kind: *kind,
                    extent: *extent,
                    at: octets,
                    bytes,
                    each: scalar_bytes(*kind).unwrap_or(1),
                }));
                octets += bytes;
            }
        }
        let word = |field: &Field| match field.extent {
            Extent::Scalar => Scalar::from_bits(field.kind, 0),
            _ => Scalar::from_bits(BuiltIn::UInt32, 0),
        };
        Self {
            words: fields.iter().map(word).collect(),
            rooms,
            octets: vec![0; octets],
        }
    }

    /// Returns the number of fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// True where there is no field.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns a word for each field: a scalar's value; the bytes of a text and the elements of an array that are in use, as a UInt32.
    #[must_use]
    pub fn words(&self) -> &[Scalar] {
        &self.words
    }

    /// Returns the words, where all fields are scalars.
    pub(crate) fn scalars_mut(&mut self) -> Option<&mut [Scalar]> {
        self.rooms.is_empty().then_some(&mut self.words[..])
    }

    /// True where all fields are scalars.
    pub(crate) fn all_scalars(&self) -> bool {
        self.rooms.is_empty()
    }

    fn room(&self, field: usize) -> Option<Room> {
        *self.rooms.get(field)?
    }

    /// Returns what is in use of a field's room.
    fn used(&self, field: usize, room: &Room) -> &[u8] {
        let length = self.words.get(field).map_or(0, |word| word.bits() as usize);
        let bytes = (length * room.each).min(room.bytes);
        self.octets
            .get(room.at..room.at + bytes)
            .unwrap_or_default()
    }

    /// Returns a field's value; `None` where there is no such field.
    #[must_use]
    pub fn get(&self, field: usize) -> Option<FieldValue<'_>> {
        let word = *self.words.get(field)?;
        let Some(room) = self.room(field) else {
            return Some(FieldValue::Scalar(word));
        };
        let octets = self.used(field, &room);
        Some(match (room.extent, room.kind) {
            (Extent::Elements(_), kind) => FieldValue::Array(ScalarArray { kind, octets }),
            (_, BuiltIn::String) => {
                FieldValue::Text(core::str::from_utf8(octets).unwrap_or_default())
            }
            _ => FieldValue::Bytes(octets),
        })
    }

    /// Sets a scalar. Returns false, and changes nothing, where the field is of another type.
    #[inline]
    pub fn set_scalar(&mut self, field: usize, value: Scalar) -> bool {
        let no_room = self.rooms.is_empty() || self.room(field).is_none();
        match self.words.get_mut(field) {
            Some(place) if no_room && place.kind() == value.kind() => {
                *place = value;
                true
            }
            _ => false,
        }
    }

    /// Sets a field. Returns false, and changes nothing, where it is of another type, or the value is longer than the field.
    pub fn set(&mut self, field: usize, value: FieldValue<'_>) -> bool {
        let Some(room) = self.room(field) else {
            return match value {
                FieldValue::Scalar(scalar) => self.set_scalar(field, scalar),
                _ => false,
            };
        };
        match (room.extent, value) {
            (Extent::Bytes(_), FieldValue::Text(text)) if room.kind == BuiltIn::String => {
                self.put_octets(field, &room, text.as_bytes())
            }
            (Extent::Bytes(_), FieldValue::Bytes(bytes)) if room.kind == BuiltIn::ByteString => {
                self.put_octets(field, &room, bytes)
            }
            (Extent::Elements(_), FieldValue::Array(array)) if room.kind == array.kind => {
                self.put_octets(field, &room, array.octets)
            }
            _ => false,
        }
    }

    /// Sets each element of an array, which has as many as it can have. `element` tells the number at a place. Returns false where the field is no
    /// array.
    pub fn set_each(&mut self, field: usize, element: impl Fn(usize) -> i64) -> bool {
        let room = self.room(field);
        let Some(room) = room.filter(|room| matches!(room.extent, Extent::Elements(_))) else {
            return false;
        };
        let place = self.octets.get_mut(room.at..room.at + room.bytes);
        let places = place.unwrap_or_default().chunks_exact_mut(room.each);
        for (at, place) in places.enumerate() {
            let bits = Scalar::of_number(room.kind, element(at))
                .bits()
                .to_le_bytes();
            place.copy_from_slice(bits.get(..room.each).unwrap_or_default());
        }
        if let Some(word) = self.words.get_mut(field) {
            *word = Scalar::from_bits(BuiltIn::UInt32, (room.bytes / room.each) as u64);
        }
        true
    }

    fn put_octets(&mut self, field: usize, room: &Room, octets: &[u8]) -> bool {
        let fits = octets.len() <= room.bytes;
        let place = self.octets.get_mut(room.at..room.at + octets.len());
        let (Some(word), Some(place), true) = (self.words.get_mut(field), place, fits) else {
            return false;
        };
        place.copy_from_slice(octets);
        *word = Scalar::from_bits(BuiltIn::UInt32, (octets.len() / room.each) as u64);
        true
    }

    /// Puts a received value into its field. Returns false where it is of another type or too long. A missing value changes nothing; null
    /// changes no scalar, and empties a text or an array.
    pub(crate) fn put(&mut self, field: usize, value: Option<Variant<'_>>) -> bool {
        let Some(room) = self.room(field) else {
            return match value {
                None | Some(Variant::Null) => field < self.words.len(),
                Some(Variant::Scalar(value)) => {
                    Scalar::of_value(&value).is_some_and(|scalar| self.set_scalar(field, scalar))
                }
                Some(Variant::Array(_)) => false,
            };
        };
        match (room.extent, value) {
            (_, None) => true,
            (_, Some(Variant::Null)) => self.put_octets(field, &room, &[]),
            (Extent::Bytes(_), Some(Variant::Scalar(Value::String(text))))
                if room.kind == BuiltIn::String =>
            {
                self.put_octets(field, &room, text.unwrap_or_default().as_bytes())
            }
            (Extent::Bytes(_), Some(Variant::Scalar(Value::ByteString(bytes))))
                if room.kind == BuiltIn::ByteString =>
            {
                self.put_octets(field, &room, bytes.unwrap_or_default())
            }
            (Extent::Elements(_), Some(Variant::Array(array))) if array.kind == room.kind => {
                let flat = array.dimensions.is_none_or(|lengths| lengths.len() == 1);
                flat && self.put_elements(field, &room, &array)
            }
            _ => false,
        }
    }

    fn put_elements(&mut self, field: usize, room: &Room, array: &Array<'_>) -> bool {
        if array.len().saturating_mul(room.each) > room.bytes {
            return false;
        }
        let place = self.octets.get_mut(room.at..room.at + room.bytes);
        let Some((word, place)) = self.words.get_mut(field).zip(place) else {
            return false;
        };
        let mut count = 0;
        for (place, element) in place.chunks_exact_mut(room.each).zip(array.iter()) {
            let bits = Scalar::of_value(&element).map_or(0, Scalar::bits);
            place.copy_from_slice(bits.to_le_bytes().get(..room.each).unwrap_or_default());
            count += 1;
        }
        *word = Scalar::from_bits(BuiltIn::UInt32, count);
        true
    }

    /// Takes all values of others of the same fields.
    #[inline]
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.words.copy_from_slice(&other.words);
        if !self.octets.is_empty() {
            self.octets.copy_from_slice(&other.octets);
        }
    }

    /// True where a field differs from that of others of the same fields.
    #[inline]
    pub(crate) fn differs(&self, other: &Self, field: usize) -> bool {
        self.words.get(field) != other.words.get(field)
            || !self.rooms.is_empty()
                && self
                    .room(field)
                    .is_some_and(|room| self.used(field, &room) != other.used(field, &room))
    }

    /// Makes each text and array as long as it can be, or empty.
    pub(crate) fn fill(&mut self, full: bool) {
        for (word, room) in self.words.iter_mut().zip(&self.rooms) {
            if let Some(room) = room {
                let length = if full { room.bytes / room.each } else { 0 };
                *word = Scalar::from_bits(BuiltIn::UInt32, length as u64);
            }
        }
    }

    /// Returns a field's value as the wire knows it.
    pub(crate) fn variant(&self, field: usize) -> Variant<'_> {
        match self.get(field) {
            None => Variant::Null,
            Some(FieldValue::Scalar(scalar)) => Variant::Scalar(scalar.value()),
            Some(FieldValue::Text(text)) => Variant::Scalar(Value::String(Some(text))),
            Some(FieldValue::Bytes(bytes)) => Variant::Scalar(Value::ByteString(Some(bytes))),
            Some(FieldValue::Array(ScalarArray { kind, octets })) => {
                Array::of_octets(kind, octets).map_or(Variant::Null, Variant::Array)
            }
        }
    }

    fn raw<'d>(&self, field: usize, lengths: &'d mut [u32; 1]) -> RawField<'d> {
        match self.room(field) {
            Some(room) => room.extent.raw(room.kind, lengths),
            None => RawField::scalar(self.words.get(field).map_or(BuiltIn::Byte, |w| w.kind())),
        }
    }

    /// Writes a field as RawData to the front of `out`. Returns its bytes, padding included.
    pub(crate) fn emit_raw(&self, field: usize, out: &mut [u8]) -> Result<usize, UadpError> {
        let mut lengths = [0];
        self.raw(field, &mut lengths)
            .emit(&self.variant(field), out)
    }

    /// Reads a field of RawData from the front of `bytes`. Returns its bytes; `None` where there are too few, or it is not valid.
    pub(crate) fn take_raw(&mut self, field: usize, bytes: &[u8]) -> Option<usize> {
        let mut lengths = [0];
        let (value, octets) = self.raw(field, &mut lengths).parse(bytes, 0).ok()?;
        let value = match value {
            RawValue::Scalar(value) => Variant::Scalar(value),
            RawValue::Array(_) => value.to_variant()?,
        };
        self.put(field, Some(value)).then_some(octets)
    }

    /// Returns the words of the state image: one for each scalar; one with the length, and the longest value's bytes in whole words, for
    /// each other.
    #[must_use]
    pub fn image_words(&self) -> usize {
        let rooms = self.rooms.iter().flatten();
        self.words.len() + rooms.map(|room| room.bytes.div_ceil(WORD)).sum::<usize>()
    }

    /// Returns the words of the state image one after the other. Bytes behind a value's end are zero.
    pub fn image(&self) -> impl Iterator<Item = u64> {
        self.words
            .iter()
            .enumerate()
            .flat_map(move |(field, word)| {
                let room = self.room(field);
                let used = room.map_or(&[][..], |room| self.used(field, &room));
                let words = room.map_or(0, |room| room.bytes.div_ceil(WORD));
                let own = (0..words).map(move |at| {
                    let own = used.get(at * WORD..).unwrap_or_default();
                    little_endian(own.get(..WORD).unwrap_or(own))
                });
                core::iter::once(word.bits()).chain(own)
            })
    }

    /// Takes the values of a state image. A length beyond the field's is cut to it, and a text that is not UTF-8 is empty. Returns false where
    /// there was one.
    pub fn take_image(&mut self, image: &[u64]) -> bool {
        let mut rest = image.iter();
        let mut right = true;
        for field in 0..self.words.len() {
            let (room, bits) = (self.room(field), rest.next().copied().unwrap_or(0));
            let Some(room) = room else {
                if let Some(word) = self.words.get_mut(field) {
                    *word = Scalar::from_bits(word.kind(), bits);
                }
                continue;
            };
            let most = room.bytes / room.each;
            let length = usize::try_from(bits).map_or(most, |length| length.min(most));
            right &= length as u64 == bits;
            let words = room.bytes.div_ceil(WORD);
            let own = rest.as_slice().get(..words).unwrap_or_default();
            rest = rest.as_slice().get(words..).unwrap_or_default().iter();
            let place = self.octets.get_mut(room.at..room.at + room.bytes);
            let used = place.and_then(|place| place.get_mut(..length * room.each));
            let used = used.unwrap_or_default();
            let bytes = own.iter().flat_map(|word| word.to_le_bytes());
            used.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
            let broken = room.kind == BuiltIn::String && core::str::from_utf8(used).is_err();
            right &= !broken;
            let length = if broken { 0 } else { length };
            if let Some(word) = self.words.get_mut(field) {
                *word = Scalar::from_bits(BuiltIn::UInt32, length as u64);
            }
        }
        right
    }
}
