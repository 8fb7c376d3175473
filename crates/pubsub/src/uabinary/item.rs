//! The values of a tree.

use super::schema::{Kind, Structure};
use rtwire_wire::uadp::{Value, Variant};

/// A value of a field, or an element of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// True or false.
    Boolean(bool),
    /// 8 bits.
    Byte(u8),
    /// 16 bits.
    UInt16(u16),
    /// 32 bits.
    UInt32(u32),
    /// 32 bits, signed; also enumerations.
    Int32(i32),
    /// 64 bits, signed.
    Int64(i64),
    /// The bits of a floating-point number.
    Double(u64),
    /// A text, or null.
    String(Option<String>),
    /// Bytes, or null.
    ByteString(Option<Vec<u8>>),
    /// A GUID in its bytes.
    Guid([u8; 16]),
    /// A name in a namespace.
    QualifiedName(u16, Option<String>),
    /// A NodeId, LocalizedText or Variant in its bytes, which are valid.
    Encoded(Vec<u8>),
    /// An ExtensionObject.
    Object(Object),
    /// A structure.
    Record(Record),
    /// A list, or null.
    List(Option<Vec<Self>>),
}

/// The content of an ExtensionObject.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Object {
    /// Nothing.
    #[default]
    Null,
    /// A structure of the table.
    Known(Record),
    /// Something else: the whole ExtensionObject in its bytes, which are valid.
    Other(Vec<u8>),
}

/// A structure with its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub(super) structure: &'static Structure,
    pub(super) items: Vec<Item>,
}

fn empty(kind: &Kind) -> Item {
    match kind {
        Kind::Boolean => Item::Boolean(false),
        Kind::Byte => Item::Byte(0),
        Kind::UInt16 => Item::UInt16(0),
        Kind::UInt32 => Item::UInt32(0),
        Kind::Int32 => Item::Int32(0),
        Kind::Int64 => Item::Int64(0),
        Kind::Double => Item::Double(0),
        Kind::String => Item::String(None),
        Kind::ByteString => Item::ByteString(None),
        Kind::Guid => Item::Guid([0; 16]),
        Kind::NodeId => Item::Encoded(vec![0, 0]),
        Kind::QualifiedName => Item::QualifiedName(0, None),
        Kind::LocalizedText | Kind::Variant => Item::Encoded(vec![0]),
        Kind::Body | Kind::Object => Item::Object(Object::Null),
        Kind::Record(structure) => Item::Record(Record::of(structure)),
        Kind::List(_) => Item::List(None),
    }
}

impl Record {
    pub(super) fn of(structure: &'static Structure) -> Self {
        Self {
            structure,
            items: structure
                .fields
                .iter()
                .map(|(_, kind)| empty(kind))
                .collect(),
        }
    }

    /// Returns a structure whose numbers are 0 and whose texts and lists are null; `None` if there is none of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Structure::named(name).map(Self::of)
    }

    /// The structure.
    #[must_use]
    pub const fn structure(&self) -> &'static Structure {
        self.structure
    }

    /// Returns a field; `None` if the structure has none of this name.
    #[must_use]
    pub fn get(&self, field: &str) -> Option<&Item> {
        let mut fields = self.structure.fields.iter();
        self.items.get(fields.position(|(name, _)| *name == field)?)
    }

    /// Sets a field. A name that the structure does not have, or a value of another type, is found by the type's check in
    /// [`write`](super::write).
    #[must_use]
    pub fn with(mut self, field: &str, item: impl Into<Item>) -> Self {
        let mut fields = self.structure.fields.iter();
        match fields.position(|(name, _)| *name == field) {
            Some(at) => {
                if let Some(place) = self.items.get_mut(at) {
                    *place = item.into();
                }
            }
            // One more than the structure has: it is refused.
            None => self.items.push(item.into()),
        }
        self
    }

    /// Returns a text; an empty one for null and for fields of other types.
    #[must_use]
    pub fn text(&self, field: &str) -> &str {
        match self.get(field) {
            Some(Item::String(Some(text))) => text,
            _ => "",
        }
    }

    /// Returns a whole number, at least 0; 0 for fields of other types.
    #[must_use]
    pub fn number(&self, field: &str) -> u64 {
        match self.get(field) {
            Some(Item::Boolean(truth)) => u64::from(*truth),
            Some(Item::Byte(number)) => u64::from(*number),
            Some(Item::UInt16(number)) => u64::from(*number),
            Some(Item::UInt32(number)) => u64::from(*number),
            Some(Item::Int32(number)) => u64::try_from(*number).unwrap_or(0),
            Some(Item::Int64(number)) => u64::try_from(*number).unwrap_or(0),
            _ => 0,
        }
    }

    /// Returns a floating-point number; 0 for fields of other types.
    #[must_use]
    pub fn double(&self, field: &str) -> f64 {
        match self.get(field) {
            Some(Item::Double(bits)) => f64::from_bits(*bits),
            _ => 0.0,
        }
    }

    /// Returns the elements of a list; none for null and for fields of other types.
    #[must_use]
    pub fn list(&self, field: &str) -> &[Item] {
        match self.get(field) {
            Some(Item::List(Some(items))) => items,
            _ => &[],
        }
    }

    /// Returns the structures of a list.
    pub fn records(&self, field: &str) -> impl Iterator<Item = &Self> {
        self.list(field).iter().filter_map(|item| match item {
            Item::Record(record) => Some(record),
            _ => None,
        })
    }

    /// Returns the structure in a field; `None` for fields of other types.
    #[must_use]
    pub fn record(&self, field: &str) -> Option<&Self> {
        match self.get(field) {
            Some(Item::Record(record)) => Some(record),
            _ => None,
        }
    }

    /// Returns the structure in the ExtensionObject of a field, if it is of this name.
    #[must_use]
    pub fn object(&self, field: &str, name: &str) -> Option<&Self> {
        match self.get(field) {
            Some(Item::Object(Object::Known(record))) if record.structure.name == name => {
                Some(record)
            }
            _ => None,
        }
    }

    /// Returns the Variant in a field.
    #[must_use]
    pub fn variant(&self, field: &str) -> Option<Variant<'_>> {
        match self.get(field) {
            Some(Item::Encoded(octets)) => Variant::parse(octets).ok().map(|(variant, _)| variant),
            _ => None,
        }
    }
}

impl Item {
    /// Returns a Variant.
    #[must_use]
    pub fn variant(value: Value<'_>) -> Self {
        let text = match value {
            Value::String(text) => text.map_or(0, str::len),
            _ => 0,
        };
        let mut octets = vec![0; 64 + text];
        let written = Variant::Scalar(value).emit(&mut octets).unwrap_or(0);
        octets.truncate(written);
        // A value that no Variant holds is null.
        if octets.is_empty() {
            octets.push(0);
        }
        Self::Encoded(octets)
    }

    /// Returns the NodeId of a number in namespace 0, below 256.
    #[must_use]
    pub fn node_number(id: u8) -> Self {
        Self::Encoded(vec![0, id])
    }

    /// Returns the NodeId of a text in a namespace.
    #[must_use]
    pub fn node_text(namespace: u16, text: &str) -> Self {
        let mut octets = vec![3];
        octets.extend(namespace.to_le_bytes());
        octets.extend(u32::try_from(text.len()).unwrap_or(0).to_le_bytes());
        octets.extend(text.as_bytes());
        Self::Encoded(octets)
    }

    /// Returns a list of structures; null without any.
    #[must_use]
    pub fn records(records: Vec<Record>) -> Self {
        let items: Vec<Self> = records.into_iter().map(Self::Record).collect();
        Self::List((!items.is_empty()).then_some(items))
    }

    /// Returns an ExtensionObject.
    #[must_use]
    pub const fn object(record: Record) -> Self {
        Self::Object(Object::Known(record))
    }
}

macro_rules! from_native {
    ($($native:ty => $item:ident;)*) => {
        $(
            impl From<$native> for Item {
                fn from(value: $native) -> Self {
                    Self::$item(value)
                }
            }
        )*
    };
}

from_native! {
    bool => Boolean;
    u8 => Byte;
    u16 => UInt16;
    u32 => UInt32;
    i32 => Int32;
    Record => Record;
}

impl From<f64> for Item {
    fn from(value: f64) -> Self {
        Self::Double(value.to_bits())
    }
}

impl From<&str> for Item {
    fn from(text: &str) -> Self {
        Self::String(Some(text.to_owned()))
    }
}
