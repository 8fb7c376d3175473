//! The fields of a data set, as Variants or DataValues; of a delta frame, with their indices.

use super::bytes::{Reader, Writer};
use super::data_value::skip_data_value;
use super::variant::{common, skip_variant, skip_variants};
use super::{DataValue, FieldEncoding, UadpError, Variant};

/// A field in either encoding that carries its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field<'a> {
    /// A value with its type.
    Variant(Variant<'a>),
    /// A value with its type, status and times.
    DataValue(DataValue<'a>),
}

impl<'a> Field<'a> {
    /// Returns the field's value; `None` if there is none.
    #[must_use]
    pub const fn value(&self) -> Option<Variant<'a>> {
        match self {
            Self::Variant(value) => Some(*value),
            Self::DataValue(value) => value.value,
        }
    }

    /// Reads over a field and checks it.
    #[inline]
    fn skip(reader: &mut Reader<'_>, data_values: bool) -> Result<(), UadpError> {
        if data_values {
            skip_data_value(reader, 0)
        } else {
            skip_variant(reader, 0)
        }
    }

    #[inline]
    fn read(reader: &mut Reader<'a>, data_values: bool) -> Result<Self, UadpError> {
        Ok(if data_values {
            Self::DataValue(DataValue::read(reader, 0)?)
        } else {
            Self::Variant(Variant::read(reader, 0)?)
        })
    }
}

/// The fields of a key frame or an event, or the promoted ones: a slice, or octets of a message.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(Store<'a>);

#[derive(Clone, Copy, Debug)]
enum Store<'a> {
    Variants(&'a [Variant<'a>]),
    DataValues(&'a [DataValue<'a>]),
    /// Octets that were checked, the number of fields, true for DataValues.
    Encoded(&'a [u8], u16, bool),
}

impl<'a> Fields<'a> {
    /// Takes fields that are encoded as Variants.
    #[must_use]
    pub const fn variants(fields: &'a [Variant<'a>]) -> Self {
        Self(Store::Variants(fields))
    }

    /// Takes fields that are encoded as DataValues.
    #[must_use]
    pub const fn data_values(fields: &'a [DataValue<'a>]) -> Self {
        Self(Store::DataValues(fields))
    }

    /// Returns the number of fields.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self.0 {
            Store::Variants(fields) => fields.len(),
            Store::DataValues(fields) => fields.len(),
            Store::Encoded(_, count, _) => count as usize,
        }
    }

    /// True if there is no field.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the fields' encoding: Variant or DataValue.
    #[must_use]
    pub const fn encoding(&self) -> FieldEncoding {
        match self.0 {
            Store::Variants(_) | Store::Encoded(_, _, false) => FieldEncoding::Variant,
            Store::DataValues(_) | Store::Encoded(_, _, true) => FieldEncoding::DataValue,
        }
    }

    /// Returns the fields in the order of the metadata.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        let store = self.0;
        let octets: &[u8] = match store {
            Store::Encoded(octets, ..) => octets,
            _ => &[],
        };
        let mut reader = Reader::new(octets, 0);
        (0..self.len()).map_while(move |at| match store {
            Store::Variants(fields) => fields.get(at).copied().map(Field::Variant),
            Store::DataValues(fields) => fields.get(at).copied().map(Field::DataValue),
            Store::Encoded(_, _, false) => match common(&mut reader) {
                Some(value) => Some(Field::Variant(Variant::Scalar(value))),
                None => Field::read(&mut reader, false).ok(),
            },
            Store::Encoded(_, _, true) => Field::read(&mut reader, true).ok(),
        })
    }

    /// Reads a FieldCount and that many fields.
    pub(super) fn read(reader: &mut Reader<'a>, data_values: bool) -> Result<Self, UadpError> {
        let count = reader.u16("FieldCount")?;
        let start = reader.octets();
        match data_values {
            true => (0..count).try_for_each(|_| Field::skip(reader, true))?,
            false => skip_variants(reader, count)?,
        }
        Ok(Self(Store::Encoded(
            reader.since(start),
            count,
            data_values,
        )))
    }

    /// Reads Variants up to the end.
    pub(super) fn read_all(reader: &mut Reader<'a>) -> Result<Self, UadpError> {
        let start = reader.octets();
        let mut count: u16 = 0;
        while reader.left() > 0 {
            Field::skip(reader, false)?;
            // At most 65535 octets are left, and each field takes one.
            count = count.saturating_add(1);
        }
        Ok(Self(Store::Encoded(reader.since(start), count, false)))
    }

    pub(super) fn write(&self, writer: &mut Writer<'_>) -> Result<(), UadpError> {
        let Ok(count) = u16::try_from(self.len()) else {
            return Err(UadpError::TooLong {
                needed: self.len(),
                fit: usize::from(u16::MAX),
            });
        };
        writer.u16(count)?;
        self.write_fields(writer)
    }

    pub(super) fn write_variants(&self, writer: &mut Writer<'_>) -> Result<(), UadpError> {
        if self.encoding() != FieldEncoding::Variant {
            return Err(UadpError::Inconsistent {
                what: "promoted fields are Variants",
            });
        }
        self.write_fields(writer)
    }

    #[inline]
    fn write_fields(&self, writer: &mut Writer<'_>) -> Result<(), UadpError> {
        match self.0 {
            Store::Encoded(octets, ..) => writer.put(octets),
            Store::Variants(fields) => fields.iter().try_for_each(|field| field.write(writer)),
            Store::DataValues(fields) => fields.iter().try_for_each(|field| field.write(writer)),
        }
    }
}

impl PartialEq for Fields<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.encoding() == other.encoding() && self.iter().eq(other.iter())
    }
}

impl Eq for Fields<'_> {}

/// The changed fields of a delta frame, each with its index in the metadata: a slice, or octets of a message.
#[derive(Clone, Copy, Debug)]
pub struct DeltaFields<'a>(DeltaStore<'a>);

#[derive(Clone, Copy, Debug)]
enum DeltaStore<'a> {
    Variants(&'a [(u16, Variant<'a>)]),
    DataValues(&'a [(u16, DataValue<'a>)]),
    /// Octets that were checked, the number of fields, true for DataValues.
    Encoded(&'a [u8], u16, bool),
}

impl<'a> DeltaFields<'a> {
    /// Takes fields that are encoded as Variants.
    #[must_use]
    pub const fn variants(fields: &'a [(u16, Variant<'a>)]) -> Self {
        Self(DeltaStore::Variants(fields))
    }

    /// Takes fields that are encoded as DataValues.
    #[must_use]
    pub const fn data_values(fields: &'a [(u16, DataValue<'a>)]) -> Self {
        Self(DeltaStore::DataValues(fields))
    }

    /// Returns the number of entries.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self.0 {
            DeltaStore::Variants(fields) => fields.len(),
            DeltaStore::DataValues(fields) => fields.len(),
            DeltaStore::Encoded(_, count, _) => count as usize,
        }
    }

    /// True if there is no entry.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the fields' encoding: Variant or DataValue.
    #[must_use]
    pub const fn encoding(&self) -> FieldEncoding {
        match self.0 {
            DeltaStore::Variants(_) | DeltaStore::Encoded(_, _, false) => FieldEncoding::Variant,
            DeltaStore::DataValues(_) | DeltaStore::Encoded(_, _, true) => FieldEncoding::DataValue,
        }
    }

    /// Returns all entries as they are on the wire.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (u16, Field<'a>)> + use<'a> {
        let store = self.0;
        let (octets, data_values): (&[u8], _) = match store {
            DeltaStore::Encoded(octets, _, data_values) => (octets, data_values),
            _ => (&[], false),
        };
        let mut reader = Reader::new(octets, 0);
        (0..self.len()).map_while(move |at| match store {
            DeltaStore::Variants(fields) => {
                let (index, field) = fields.get(at)?;
                Some((*index, Field::Variant(*field)))
            }
            DeltaStore::DataValues(fields) => {
                let (index, field) = fields.get(at)?;
                Some((*index, Field::DataValue(*field)))
            }
            DeltaStore::Encoded(..) => {
                let index = reader.u16("the index of a field").ok()?;
                Some((index, Field::read(&mut reader, data_values).ok()?))
            }
        })
    }

    /// Returns the entries that carry data: those up to the last that is not index 0 with a null Variant.
    ///
    /// open62541 1.5 fills a delta frame up with such entries, to the data set's number of fields.
    pub fn without_fill(&self) -> impl Iterator<Item = (u16, Field<'a>)> + use<'a> {
        let fill = (0, Field::Variant(Variant::Null));
        let mut real = 0;
        for (at, entry) in self.iter().enumerate() {
            if entry != fill {
                real = at + 1;
            }
        }
        self.iter().take(real)
    }

    pub(super) fn read(reader: &mut Reader<'a>, data_values: bool) -> Result<Self, UadpError> {
        let count = reader.u16("FieldCount")?;
        let start = reader.octets();
        for _ in 0..count {
            reader.u16("the index of a field")?;
            Field::skip(reader, data_values)?;
        }
        Ok(Self(DeltaStore::Encoded(
            reader.since(start),
            count,
            data_values,
        )))
    }

    pub(super) fn write(&self, writer: &mut Writer<'_>) -> Result<(), UadpError> {
        let Ok(count) = u16::try_from(self.len()) else {
            return Err(UadpError::TooLong {
                needed: self.len(),
                fit: usize::from(u16::MAX),
            });
        };
        writer.u16(count)?;
        match self.0 {
            DeltaStore::Encoded(octets, ..) => writer.put(octets),
            DeltaStore::Variants(fields) => fields.iter().try_for_each(|(index, field)| {
                writer.u16(*index)?;
                field.write(writer)
            }),
            DeltaStore::DataValues(fields) => fields.iter().try_for_each(|(index, field)| {
                writer.u16(*index)?;
                field.write(writer)
            }),
        }
    }
}

impl PartialEq for DeltaFields<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.encoding() == other.encoding() && self.iter().eq(other.iter())
    }
}

impl Eq for DeltaFields<'_> {}
