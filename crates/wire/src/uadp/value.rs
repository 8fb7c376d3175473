//! A value of each built-in type, without its type's octet: as arrays and RawData have it.

use super::bytes::{Reader, Writer};
use super::data_value::skip_data_value;
use super::scalar::{
    DateTime, ExpandedNodeId, ExtensionObject, Guid, LocalizedText, NodeId, QualifiedName,
};
use super::variant::skip_variant;
use super::{BuiltIn, DataValue, UadpError, Variant};

/// Values can contain each other to this depth.
pub(super) const MAXIMUM_DEPTH: u8 = 16;

/// A value of a built-in type.
///
/// Floating-point numbers are equal if their bits are, so a value always equals itself.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// True or false.
    Boolean(bool),
    /// A signed number of 8 bits.
    SByte(i8),
    /// An unsigned number of 8 bits.
    Byte(u8),
    /// A signed number of 16 bits.
    Int16(i16),
    /// An unsigned number of 16 bits.
    UInt16(u16),
    /// A signed number of 32 bits.
    Int32(i32),
    /// An unsigned number of 32 bits.
    UInt32(u32),
    /// A signed number of 64 bits.
    Int64(i64),
    /// An unsigned number of 64 bits.
    UInt64(u64),
    /// A floating-point number of 32 bits.
    Float(f32),
    /// A floating-point number of 64 bits.
    Double(f64),
    /// A text.
    String(Option<&'a str>),
    /// A moment.
    DateTime(DateTime),
    /// A globally unique identifier.
    Guid(Guid),
    /// Octets.
    ByteString(Option<&'a [u8]>),
    /// A text in XML, as octets.
    XmlElement(Option<&'a [u8]>),
    /// The identifier of a node.
    NodeId(NodeId<'a>),
    /// The identifier of a node, possibly of another server.
    ExpandedNodeId(ExpandedNodeId<'a>),
    /// The outcome of an operation.
    StatusCode(u32),
    /// A name in a namespace.
    QualifiedName(QualifiedName<'a>),
    /// A text with its language.
    LocalizedText(LocalizedText<'a>),
    /// A structure.
    ExtensionObject(ExtensionObject<'a>),
    /// A value with status and times, encoded: see [`Encoded::data_value`].
    DataValue(Encoded<'a>),
    /// A value with its type, encoded: see [`Encoded::variant`].
    Variant(Encoded<'a>),
    /// Details about an error, encoded.
    DiagnosticInfo(Encoded<'a>),
}

/// The octets of an encoded value that can contain others. They are checked when they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded<'a>(pub(super) &'a [u8]);

impl<'a> Encoded<'a> {
    /// Writes a Variant into `out`, which lends its octets to the value.
    ///
    /// # Errors
    /// `out` is too short.
    pub fn of_variant(variant: &Variant<'_>, out: &'a mut [u8]) -> Result<Self, UadpError> {
        let octets = variant.emit(out)?;
        Ok(Self(out.get(..octets).unwrap_or_default()))
    }

    /// Writes a `DataValue` into `out`, which lends its octets to the value.
    ///
    /// # Errors
    /// `out` is too short.
    pub fn of_data_value(value: &DataValue<'_>, out: &'a mut [u8]) -> Result<Self, UadpError> {
        let octets = value.emit(out)?;
        Ok(Self(out.get(..octets).unwrap_or_default()))
    }

    /// The octets.
    #[must_use]
    pub const fn octets(self) -> &'a [u8] {
        self.0
    }

    /// Reads the octets as a Variant.
    ///
    /// # Errors
    /// They are no Variant.
    pub fn variant(self) -> Result<Variant<'a>, UadpError> {
        Variant::parse(self.0).map(|(variant, _)| variant)
    }

    /// Reads the octets as a `DataValue`.
    ///
    /// # Errors
    /// They are no `DataValue`.
    pub fn data_value(self) -> Result<DataValue<'a>, UadpError> {
        DataValue::parse(self.0).map(|(value, _)| value)
    }
}

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (*self, *other) {
            (Self::Boolean(a), Self::Boolean(b)) => a == b,
            (Self::SByte(a), Self::SByte(b)) => a == b,
            (Self::Byte(a), Self::Byte(b)) => a == b,
            (Self::Int16(a), Self::Int16(b)) => a == b,
            (Self::UInt16(a), Self::UInt16(b)) => a == b,
            (Self::Int32(a), Self::Int32(b)) => a == b,
            (Self::UInt32(a), Self::UInt32(b)) | (Self::StatusCode(a), Self::StatusCode(b)) => {
                a == b
            }
            (Self::Int64(a), Self::Int64(b)) => a == b,
            (Self::UInt64(a), Self::UInt64(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits(),
            (Self::Double(a), Self::Double(b)) => a.to_bits() == b.to_bits(),
            (Self::String(a), Self::String(b)) => a == b,
            (Self::DateTime(a), Self::DateTime(b)) => a == b,
            (Self::Guid(a), Self::Guid(b)) => a == b,
            (Self::ByteString(a), Self::ByteString(b))
            | (Self::XmlElement(a), Self::XmlElement(b)) => a == b,
            (Self::NodeId(a), Self::NodeId(b)) => a == b,
            (Self::ExpandedNodeId(a), Self::ExpandedNodeId(b)) => a == b,
            (Self::QualifiedName(a), Self::QualifiedName(b)) => a == b,
            (Self::LocalizedText(a), Self::LocalizedText(b)) => a == b,
            (Self::ExtensionObject(a), Self::ExtensionObject(b)) => a == b,
            (Self::DataValue(a), Self::DataValue(b))
            | (Self::Variant(a), Self::Variant(b))
            | (Self::DiagnosticInfo(a), Self::DiagnosticInfo(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Value<'_> {}

impl<'a> Value<'a> {
    /// Returns the value's type.
    #[must_use]
    pub const fn built_in(&self) -> BuiltIn {
        match self {
            Self::Boolean(_) => BuiltIn::Boolean,
            Self::SByte(_) => BuiltIn::SByte,
            Self::Byte(_) => BuiltIn::Byte,
            Self::Int16(_) => BuiltIn::Int16,
            Self::UInt16(_) => BuiltIn::UInt16,
            Self::Int32(_) => BuiltIn::Int32,
            Self::UInt32(_) => BuiltIn::UInt32,
            Self::Int64(_) => BuiltIn::Int64,
            Self::UInt64(_) => BuiltIn::UInt64,
            Self::Float(_) => BuiltIn::Float,
            Self::Double(_) => BuiltIn::Double,
            Self::String(_) => BuiltIn::String,
            Self::DateTime(_) => BuiltIn::DateTime,
            Self::Guid(_) => BuiltIn::Guid,
            Self::ByteString(_) => BuiltIn::ByteString,
            Self::XmlElement(_) => BuiltIn::XmlElement,
            Self::NodeId(_) => BuiltIn::NodeId,
            Self::ExpandedNodeId(_) => BuiltIn::ExpandedNodeId,
            Self::StatusCode(_) => BuiltIn::StatusCode,
            Self::QualifiedName(_) => BuiltIn::QualifiedName,
            Self::LocalizedText(_) => BuiltIn::LocalizedText,
            Self::ExtensionObject(_) => BuiltIn::ExtensionObject,
            Self::DataValue(_) => BuiltIn::DataValue,
            Self::Variant(_) => BuiltIn::Variant,
            Self::DiagnosticInfo(_) => BuiltIn::DiagnosticInfo,
        }
    }

    /// Reads a value of a type from the front of `bytes`. Returns it with its octets.
    ///
    /// # Errors
    /// The octets are not a value of that type.
    pub fn parse(kind: BuiltIn, bytes: &'a [u8]) -> Result<(Self, usize), UadpError> {
        let mut reader = Reader::new(bytes, 0);
        let value = Self::read(&mut reader, kind, 0)?;
        Ok((value, reader.octets()))
    }

    /// Writes the value to the front of `out` and returns its octets.
    ///
    /// # Errors
    /// `out` is too short.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, UadpError> {
        let mut writer = Writer::new(out);
        self.write(&mut writer)?;
        Ok(writer.octets())
    }

    #[inline]
    pub(super) fn read(
        reader: &mut Reader<'a>,
        kind: BuiltIn,
        depth: u8,
    ) -> Result<Self, UadpError> {
        let what = kind.name();
        Ok(match kind {
            // Any value but 0 is true (Part 6, 5.2.2.1).
            BuiltIn::Boolean => Self::Boolean(reader.u8(what)? != 0),
            BuiltIn::SByte => Self::SByte(i8::from_le_bytes(reader.array(what)?)),
            BuiltIn::Byte => Self::Byte(reader.u8(what)?),
            BuiltIn::Int16 => Self::Int16(i16::from_le_bytes(reader.array(what)?)),
            BuiltIn::UInt16 => Self::UInt16(reader.u16(what)?),
            BuiltIn::Int32 => Self::Int32(reader.i32(what)?),
            BuiltIn::UInt32 => Self::UInt32(reader.u32(what)?),
            BuiltIn::Int64 => Self::Int64(i64::from_le_bytes(reader.array(what)?)),
            BuiltIn::UInt64 => Self::UInt64(reader.u64(what)?),
            BuiltIn::Float => Self::Float(f32::from_le_bytes(reader.array(what)?)),
            BuiltIn::Double => Self::Double(f64::from_le_bytes(reader.array(what)?)),
            BuiltIn::String => Self::String(reader.string(what)?),
            BuiltIn::DateTime => Self::DateTime(DateTime(i64::from_le_bytes(reader.array(what)?))),
            BuiltIn::Guid => Self::Guid(Guid(reader.array(what)?)),
            BuiltIn::ByteString => Self::ByteString(reader.byte_string(what)?),
            BuiltIn::XmlElement => Self::XmlElement(reader.byte_string(what)?),
            BuiltIn::NodeId => Self::NodeId(NodeId::parse(reader)?),
            BuiltIn::ExpandedNodeId => Self::ExpandedNodeId(ExpandedNodeId::parse(reader)?),
            BuiltIn::StatusCode => Self::StatusCode(reader.u32(what)?),
            BuiltIn::QualifiedName => Self::QualifiedName(QualifiedName::parse(reader)?),
            BuiltIn::LocalizedText => Self::LocalizedText(LocalizedText::parse(reader)?),
            BuiltIn::ExtensionObject => Self::ExtensionObject(ExtensionObject::parse(reader)?),
            BuiltIn::DataValue | BuiltIn::Variant | BuiltIn::DiagnosticInfo => {
                if depth >= MAXIMUM_DEPTH {
                    return Err(UadpError::TooDeep {
                        at: reader.offset(),
                    });
                }
                let start = reader.octets();
                match kind {
                    BuiltIn::DataValue => {
                        skip_data_value(reader, depth + 1)?;
                        Self::DataValue(Encoded(reader.since(start)))
                    }
                    BuiltIn::Variant => {
                        skip_variant(reader, depth + 1)?;
                        Self::Variant(Encoded(reader.since(start)))
                    }
                    _ => {
                        skip_diagnostic_info(reader, depth + 1)?;
                        Self::DiagnosticInfo(Encoded(reader.since(start)))
                    }
                }
            }
        })
    }

    #[inline]
    pub(super) fn write(&self, writer: &mut Writer<'_>) -> Result<(), UadpError> {
        match *self {
            Self::Boolean(value) => writer.u8(u8::from(value)),
            Self::SByte(value) => writer.put(&value.to_le_bytes()),
            Self::Byte(value) => writer.u8(value),
            Self::Int16(value) => writer.put(&value.to_le_bytes()),
            Self::UInt16(value) => writer.u16(value),
            Self::Int32(value) => writer.put(&value.to_le_bytes()),
            Self::UInt32(value) | Self::StatusCode(value) => writer.u32(value),
            Self::Int64(value) | Self::DateTime(DateTime(value)) => {
                writer.put(&value.to_le_bytes())
            }
            Self::UInt64(value) => writer.u64(value),
            Self::Float(value) => writer.put(&value.to_le_bytes()),
            Self::Double(value) => writer.put(&value.to_le_bytes()),
            Self::String(text) => writer.byte_string(text.map(str::as_bytes)),
            Self::Guid(guid) => writer.put(&guid.0),
            Self::ByteString(octets) | Self::XmlElement(octets) => writer.byte_string(octets),
            Self::NodeId(id) => id.emit(writer),
            Self::ExpandedNodeId(id) => id.emit(writer),
            Self::QualifiedName(name) => name.emit(writer),
            Self::LocalizedText(text) => text.emit(writer),
            Self::ExtensionObject(object) => object.emit(writer),
            Self::DataValue(encoded) | Self::Variant(encoded) | Self::DiagnosticInfo(encoded) => {
                writer.put(encoded.0)
            }
        }
    }
}

fn skip_diagnostic_info(reader: &mut Reader<'_>, depth: u8) -> Result<(), UadpError> {
    const WHAT: &str = "DiagnosticInfo";
    let at = reader.offset();
    if depth > MAXIMUM_DEPTH {
        return Err(UadpError::TooDeep { at });
    }
    let mask = reader.u8(WHAT)?;
    if mask & 0x80 != 0 {
        return Err(UadpError::Reserved {
            what: "the mask of a DiagnosticInfo",
            at,
            found: u64::from(mask),
        });
    }
    // Symbolic id, namespace, locale, localized text: numbers in a table of texts.
    for field in [0x01, 0x02, 0x08, 0x04] {
        if mask & field != 0 {
            reader.i32(WHAT)?;
        }
    }
    if mask & 0x10 != 0 {
        reader.string(WHAT)?;
    }
    if mask & 0x20 != 0 {
        reader.u32(WHAT)?;
    }
    if mask & 0x40 != 0 {
        skip_diagnostic_info(reader, depth + 1)?;
    }
    Ok(())
}
