//! The smaller built-in types: moments, identifiers, names, structures.

use super::UadpError;
use super::bytes::{Reader, Writer, bit};
use core::fmt;

/// Ticks of 100 ns from 1601-01-01 to 1970-01-01.
const TICKS_TO_1970: i64 = 116_444_736_000_000_000;

/// A moment (UtcTime): ticks of 100 ns since 1601-01-01 00:00 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash, PartialOrd, Ord)]
pub struct DateTime(pub i64);

impl DateTime {
    /// Returns the moment `ns` nanoseconds after 1970-01-01 00:00 UTC, rounded down to 100 ns.
    #[must_use]
    pub const fn from_unix_ns(ns: i64) -> Self {
        Self(ns.div_euclid(100).saturating_add(TICKS_TO_1970))
    }

    /// Returns the nanoseconds since 1970-01-01 00:00 UTC; `None` beyond what 64 bits hold.
    #[must_use]
    pub const fn to_unix_ns(self) -> Option<i64> {
        match self.0.checked_sub(TICKS_TO_1970) {
            Some(ticks) => ticks.checked_mul(100),
            None => None,
        }
    }
}

/// A globally unique identifier, in its 16 octets on the wire: the first three groups are little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct Guid(pub [u8; 16]);

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
        for (place, &at) in order.iter().enumerate() {
            if matches!(place, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{:02x}", self.0[at])?;
        }
        Ok(())
    }
}

/// The identifier of a node. Each form of the encoding is kept, as two forms can name the same node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeId<'a> {
    /// A number below 256 in namespace 0, in two octets.
    TwoByte(u8),
    /// A number in one of the first 256 namespaces, in four octets.
    FourByte {
        /// The namespace.
        namespace: u8,
        /// The number.
        id: u16,
    },
    /// A number.
    Numeric {
        /// The namespace.
        namespace: u16,
        /// The number.
        id: u32,
    },
    /// A text.
    String {
        /// The namespace.
        namespace: u16,
        /// The text.
        id: Option<&'a str>,
    },
    /// A GUID.
    Guid {
        /// The namespace.
        namespace: u16,
        /// The GUID.
        id: Guid,
    },
    /// Octets.
    Opaque {
        /// The namespace.
        namespace: u16,
        /// The octets.
        id: Option<&'a [u8]>,
    },
}

impl<'a> NodeId<'a> {
    /// Returns the shortest form of a number in a namespace.
    #[must_use]
    pub const fn numeric(namespace: u16, id: u32) -> Self {
        if namespace == 0 && id < 0x100 {
            Self::TwoByte(id as u8)
        } else if namespace < 0x100 && id < 0x1_0000 {
            Self::FourByte {
                namespace: namespace as u8,
                id: id as u16,
            }
        } else {
            Self::Numeric { namespace, id }
        }
    }

    pub(super) fn parse(reader: &mut Reader<'a>) -> Result<Self, UadpError> {
        let at = reader.offset();
        let form = reader.u8("NodeId")?;
        Self::parse_form(reader, form, at)
    }

    fn parse_form(reader: &mut Reader<'a>, form: u8, at: usize) -> Result<Self, UadpError> {
        const WHAT: &str = "NodeId";
        Ok(match form {
            0 => Self::TwoByte(reader.u8(WHAT)?),
            1 => Self::FourByte {
                namespace: reader.u8(WHAT)?,
                id: reader.u16(WHAT)?,
            },
            2 => Self::Numeric {
                namespace: reader.u16(WHAT)?,
                id: reader.u32(WHAT)?,
            },
            3 => Self::String {
                namespace: reader.u16(WHAT)?,
                id: reader.string(WHAT)?,
            },
            4 => Self::Guid {
                namespace: reader.u16(WHAT)?,
                id: Guid(reader.array(WHAT)?),
            },
            5 => Self::Opaque {
                namespace: reader.u16(WHAT)?,
                id: reader.byte_string(WHAT)?,
            },
            found => {
                return Err(UadpError::Reserved {
                    what: "the form of a NodeId",
                    at,
                    found: u64::from(found),
                });
            }
        })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) -> Result<(), UadpError> {
        self.emit_with(writer, 0)
    }

    fn emit_with(&self, writer: &mut Writer<'_>, flags: u8) -> Result<(), UadpError> {
        match *self {
            Self::TwoByte(id) => writer.put(&[flags, id]),
            Self::FourByte { namespace, id } => {
                writer.put(&[1 | flags, namespace])?;
                writer.u16(id)
            }
            Self::Numeric { namespace, id } => {
                writer.u8(2 | flags)?;
                writer.u16(namespace)?;
                writer.u32(id)
            }
            Self::String { namespace, id } => {
                writer.u8(3 | flags)?;
                writer.u16(namespace)?;
                writer.byte_string(id.map(str::as_bytes))
            }
            Self::Guid { namespace, id } => {
                writer.u8(4 | flags)?;
                writer.u16(namespace)?;
                writer.put(&id.0)
            }
            Self::Opaque { namespace, id } => {
                writer.u8(5 | flags)?;
                writer.u16(namespace)?;
                writer.byte_string(id)
            }
        }
    }
}

/// The identifier of a node, possibly of another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExpandedNodeId<'a> {
    /// The node.
    pub node: NodeId<'a>,
    /// The namespace's URI, if it is told so; the namespace's number is then 0.
    pub namespace_uri: Option<Option<&'a str>>,
    /// The number of the server.
    pub server: Option<u32>,
}

impl<'a> ExpandedNodeId<'a> {
    const URI: u8 = 0x80;
    const SERVER: u8 = 0x40;

    pub(super) fn parse(reader: &mut Reader<'a>) -> Result<Self, UadpError> {
        const WHAT: &str = "ExpandedNodeId";
        let at = reader.offset();
        let form = reader.u8(WHAT)?;
        let node = NodeId::parse_form(reader, form & 0x3f, at)?;
        let namespace_uri = if form & Self::URI != 0 {
            Some(reader.string(WHAT)?)
        } else {
            None
        };
        let server = if form & Self::SERVER != 0 {
            Some(reader.u32(WHAT)?)
        } else {
            None
        };
        Ok(Self {
            node,
            namespace_uri,
            server,
        })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) -> Result<(), UadpError> {
        let flags =
            bit(self.namespace_uri.is_some(), Self::URI) | bit(self.server.is_some(), Self::SERVER);
        self.node.emit_with(writer, flags)?;
        if let Some(uri) = self.namespace_uri {
            writer.byte_string(uri.map(str::as_bytes))?;
        }
        self.server.map_or(Ok(()), |server| writer.u32(server))
    }
}

/// A name in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct QualifiedName<'a> {
    /// The namespace.
    pub namespace: u16,
    /// The name.
    pub name: Option<&'a str>,
}

impl<'a> QualifiedName<'a> {
    pub(super) fn parse(reader: &mut Reader<'a>) -> Result<Self, UadpError> {
        Ok(Self {
            namespace: reader.u16("QualifiedName")?,
            name: reader.string("QualifiedName")?,
        })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) -> Result<(), UadpError> {
        writer.u16(self.namespace)?;
        writer.byte_string(self.name.map(str::as_bytes))
    }
}

/// A text with its language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct LocalizedText<'a> {
    /// The language, if it is told; it can be null even then.
    pub locale: Option<Option<&'a str>>,
    /// The text, if it is told; it can be null even then.
    pub text: Option<Option<&'a str>>,
}

impl<'a> LocalizedText<'a> {
    pub(super) fn parse(reader: &mut Reader<'a>) -> Result<Self, UadpError> {
        const WHAT: &str = "LocalizedText";
        let at = reader.offset();
        let mask = reader.u8(WHAT)?;
        if mask & !3 != 0 {
            return Err(UadpError::Reserved {
                what: "the mask of a LocalizedText",
                at,
                found: u64::from(mask),
            });
        }
        let locale = if mask & 1 != 0 {
            Some(reader.string(WHAT)?)
        } else {
            None
        };
        let text = if mask & 2 != 0 {
            Some(reader.string(WHAT)?)
        } else {
            None
        };
        Ok(Self { locale, text })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) -> Result<(), UadpError> {
        writer.u8(bit(self.locale.is_some(), 1) | bit(self.text.is_some(), 2))?;
        for part in [self.locale, self.text].into_iter().flatten() {
            writer.byte_string(part.map(str::as_bytes))?;
        }
        Ok(())
    }
}

/// A structure with the identifier of its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExtensionObject<'a> {
    /// The identifier of the structure's encoding.
    pub type_id: NodeId<'a>,
    /// The structure, encoded.
    pub body: ExtensionBody<'a>,
}

/// The body of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExtensionBody<'a> {
    /// There is none.
    None,
    /// In OPC UA's binary encoding.
    Binary(Option<&'a [u8]>),
    /// In XML.
    Xml(Option<&'a [u8]>),
}

impl<'a> ExtensionObject<'a> {
    pub(super) fn parse(reader: &mut Reader<'a>) -> Result<Self, UadpError> {
        const WHAT: &str = "ExtensionObject";
        let type_id = NodeId::parse(reader)?;
        let at = reader.offset();
        let body = match reader.u8(WHAT)? {
            0 => ExtensionBody::None,
            1 => ExtensionBody::Binary(reader.byte_string(WHAT)?),
            2 => ExtensionBody::Xml(reader.byte_string(WHAT)?),
            found => {
                return Err(UadpError::Reserved {
                    what: "the form of an ExtensionObject",
                    at,
                    found: u64::from(found),
                });
            }
        };
        Ok(Self { type_id, body })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) -> Result<(), UadpError> {
        self.type_id.emit(writer)?;
        match self.body {
            ExtensionBody::None => writer.u8(0),
            ExtensionBody::Binary(octets) => {
                writer.u8(1)?;
                writer.byte_string(octets)
            }
            ExtensionBody::Xml(octets) => {
                writer.u8(2)?;
                writer.byte_string(octets)
            }
        }
    }
}
