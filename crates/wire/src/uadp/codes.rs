//! Code points of UADP and of OPC UA's binary encoding.

use core::fmt;

/// The kind of a NetworkMessage (Part 14, ExtendedFlags2 bits 2 to 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum MessageKind {
    /// DataSetMessages, or a chunk of one.
    #[default]
    Data,
    /// A subscriber's question to publishers.
    Probe,
    /// A publisher's description of itself.
    Announcement,
}

impl MessageKind {
    pub(super) const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(Self::Data),
            1 => Some(Self::Probe),
            2 => Some(Self::Announcement),
            _ => None,
        }
    }

    pub(super) const fn bits(self) -> u8 {
        match self {
            Self::Data => 0,
            Self::Probe => 1,
            Self::Announcement => 2,
        }
    }
}

/// The kind of a DataSetMessage (DataSetFlags2 bits 0 to 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum DataSetKind {
    /// All fields of the data set; a heartbeat if there are none.
    #[default]
    KeyFrame,
    /// The fields that changed, with their indices.
    DeltaFrame,
    /// The fields of an event.
    Event,
    /// No data: the writer is alive.
    KeepAlive,
}

impl DataSetKind {
    pub(super) const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(Self::KeyFrame),
            1 => Some(Self::DeltaFrame),
            2 => Some(Self::Event),
            3 => Some(Self::KeepAlive),
            _ => None,
        }
    }

    pub(super) const fn bits(self) -> u8 {
        match self {
            Self::KeyFrame => 0,
            Self::DeltaFrame => 1,
            Self::Event => 2,
            Self::KeepAlive => 3,
        }
    }
}

/// The encoding of a DataSetMessage's fields (DataSetFlags1 bits 1 and 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum FieldEncoding {
    /// Each field with its type.
    #[default]
    Variant,
    /// Bare values, one behind the other; only the metadata tell their types.
    RawData,
    /// Each field with its type, and with status and time where present.
    DataValue,
}

impl FieldEncoding {
    pub(super) const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(Self::Variant),
            1 => Some(Self::RawData),
            2 => Some(Self::DataValue),
            _ => None,
        }
    }

    pub(super) const fn bits(self) -> u8 {
        match self {
            Self::Variant => 0,
            Self::RawData => 1,
            Self::DataValue => 2,
        }
    }
}

macro_rules! built_in {
    ($($(#[$doc:meta])* $item:ident = $value:literal, $text:literal, $octets:expr;)*) => {
        /// A built-in type of OPC UA (Part 6, table 1).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum BuiltIn {
            $($(#[$doc])* $item = $value,)*
        }

        impl BuiltIn {
            /// All built-in types, in the order of their identifiers.
            pub const ALL: [Self; 25] = [$(Self::$item,)*];

            /// Returns the type of an identifier; `None` if there is none.
            #[must_use]
            pub const fn from_id(id: u8) -> Option<Self> {
                match id {
                    $($value => Some(Self::$item),)*
                    _ => None,
                }
            }

            /// Returns the type's identifier, 1 to 25.
            #[must_use]
            pub const fn id(self) -> u8 {
                self as u8
            }

            /// Returns the type's name in the standard.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$item => $text,)*
                }
            }

            /// Returns the octets of a value; `None` if values differ in length.
            #[must_use]
            pub const fn octets(self) -> Option<usize> {
                match self {
                    $(Self::$item => $octets,)*
                }
            }
        }
    };
}

built_in! {
    /// True or false, one octet.
    Boolean = 1, "Boolean", Some(1);
    /// A signed number of 8 bits.
    SByte = 2, "SByte", Some(1);
    /// An unsigned number of 8 bits.
    Byte = 3, "Byte", Some(1);
    /// A signed number of 16 bits.
    Int16 = 4, "Int16", Some(2);
    /// An unsigned number of 16 bits.
    UInt16 = 5, "UInt16", Some(2);
    /// A signed number of 32 bits.
    Int32 = 6, "Int32", Some(4);
    /// An unsigned number of 32 bits.
    UInt32 = 7, "UInt32", Some(4);
    /// A signed number of 64 bits.
    Int64 = 8, "Int64", Some(8);
    /// An unsigned number of 64 bits.
    UInt64 = 9, "UInt64", Some(8);
    /// A floating-point number of 32 bits.
    Float = 10, "Float", Some(4);
    /// A floating-point number of 64 bits.
    Double = 11, "Double", Some(8);
    /// A text in UTF-8, or null.
    String = 12, "String", None;
    /// A moment: ticks of 100 ns since 1601.
    DateTime = 13, "DateTime", Some(8);
    /// A globally unique identifier.
    Guid = 14, "Guid", Some(16);
    /// Octets, or null.
    ByteString = 15, "ByteString", None;
    /// A text in XML, or null.
    XmlElement = 16, "XmlElement", None;
    /// The identifier of a node.
    NodeId = 17, "NodeId", None;
    /// The identifier of a node, possibly of another server.
    ExpandedNodeId = 18, "ExpandedNodeId", None;
    /// The outcome of an operation.
    StatusCode = 19, "StatusCode", Some(4);
    /// A name in a namespace.
    QualifiedName = 20, "QualifiedName", None;
    /// A text with its language.
    LocalizedText = 21, "LocalizedText", None;
    /// A structure with the identifier of its encoding.
    ExtensionObject = 22, "ExtensionObject", None;
    /// A value with status and times.
    DataValue = 23, "DataValue", None;
    /// A value with its type.
    Variant = 24, "Variant", None;
    /// Details about an error.
    DiagnosticInfo = 25, "DiagnosticInfo", None;
}

impl fmt::Display for BuiltIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
