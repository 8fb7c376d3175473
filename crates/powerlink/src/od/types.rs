//! Types and access rights of objects (DS 301, 6.1 and 6.2).

/// Data type of an object's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataType {
    /// One byte, 0 or 1.
    Boolean,
    /// A signed number of this many bytes, 1 to 8.
    Integer(u8),
    /// An unsigned number of this many bytes, 1 to 8.
    Unsigned(u8),
    /// IEEE 754, 4 bytes.
    Real32,
    /// IEEE 754, 8 bytes.
    Real64,
    /// Text with one byte for each character.
    VisibleString,
    /// A string of bytes.
    OctetString,
    /// Text with two bytes for each character.
    UnicodeString,
    /// Time of day or time difference, 6 bytes.
    TimeOfDay,
    /// Bytes of any meaning.
    Domain,
    /// Seconds and nanoseconds, 8 bytes.
    NetTime,
    /// MAC address, 6 bytes.
    MacAddress,
    /// IP address, 4 bytes.
    IpAddress,
    /// A type with another number.
    Other(u16),
}

impl DataType {
    /// Returns the type of a number in the object dictionary (DS 301, 6.1.4).
    #[must_use]
    pub const fn from_code(code: u16) -> Self {
        match code {
            0x01 => Self::Boolean,
            0x02 => Self::Integer(1),
            0x03 => Self::Integer(2),
            0x04 => Self::Integer(4),
            0x05 => Self::Unsigned(1),
            0x06 => Self::Unsigned(2),
            0x07 => Self::Unsigned(4),
            0x08 => Self::Real32,
            0x09 => Self::VisibleString,
            0x0a => Self::OctetString,
            0x0b => Self::UnicodeString,
            0x0c | 0x0d => Self::TimeOfDay,
            0x0f => Self::Domain,
            0x10 => Self::Integer(3),
            0x11 => Self::Real64,
            0x12 => Self::Integer(5),
            0x13 => Self::Integer(6),
            0x14 => Self::Integer(7),
            0x15 => Self::Integer(8),
            0x16 => Self::Unsigned(3),
            0x18 => Self::Unsigned(5),
            0x19 => Self::Unsigned(6),
            0x1a => Self::Unsigned(7),
            0x1b => Self::Unsigned(8),
            0x0401 => Self::MacAddress,
            0x0402 => Self::IpAddress,
            0x0403 => Self::NetTime,
            other => Self::Other(other),
        }
    }

    /// Returns the length of a value in bytes; `None` for types of variable length.
    #[must_use]
    pub const fn octets(self) -> Option<usize> {
        match self {
            Self::Boolean => Some(1),
            Self::Integer(octets) | Self::Unsigned(octets) => Some(octets as usize),
            Self::Real32 | Self::IpAddress => Some(4),
            Self::Real64 | Self::NetTime => Some(8),
            Self::TimeOfDay | Self::MacAddress => Some(6),
            _ => None,
        }
    }

    /// Returns the name as in DS 301.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Boolean => "BOOLEAN".into(),
            Self::Integer(octets) => format!("INTEGER{}", u32::from(octets) * 8),
            Self::Unsigned(octets) => format!("UNSIGNED{}", u32::from(octets) * 8),
            Self::Real32 => "REAL32".into(),
            Self::Real64 => "REAL64".into(),
            Self::VisibleString => "VISIBLE_STRING".into(),
            Self::OctetString => "OCTET_STRING".into(),
            Self::UnicodeString => "UNICODE_STRING".into(),
            Self::TimeOfDay => "TIME_OF_DAY".into(),
            Self::Domain => "DOMAIN".into(),
            Self::NetTime => "NETTIME".into(),
            Self::MacAddress => "MAC_ADDRESS".into(),
            Self::IpAddress => "IP_ADDRESS".into(),
            Self::Other(code) => format!("type {code:04X}h"),
        }
    }
}

/// Access rights of the network to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Readable; it never changes.
    Constant,
    /// Readable.
    ReadOnly,
    /// Writable.
    WriteOnly,
    /// Readable and writable.
    ReadWrite,
}

impl Access {
    /// Returns `true` if the network may read it.
    #[must_use]
    pub const fn readable(self) -> bool {
        !matches!(self, Self::WriteOnly)
    }

    /// Returns `true` if the network may write it.
    #[must_use]
    pub const fn writable(self) -> bool {
        matches!(self, Self::WriteOnly | Self::ReadWrite)
    }

    /// Returns the name used in device descriptions.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Constant => "const",
            Self::ReadOnly => "ro",
            Self::WriteOnly => "wo",
            Self::ReadWrite => "rw",
        }
    }
}

/// Directions of process data into which an object may be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Mappable {
    /// Neither direction.
    #[default]
    No,
    /// Transmitted process data.
    Transmit,
    /// Received process data.
    Receive,
    /// Both directions.
    Both,
}

impl Mappable {
    /// Returns `true` if it may be mapped into transmitted (`transmit`) or received process data.
    #[must_use]
    pub const fn allows(self, transmit: bool) -> bool {
        match self {
            Self::No => false,
            Self::Transmit => transmit,
            Self::Receive => !transmit,
            Self::Both => true,
        }
    }
}
