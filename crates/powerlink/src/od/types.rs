//! Types and access rights of objects (DS 301, 6.1 and 6.2).

/// The type of an object's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataType {
    /// One octet, 0 or 1.
    Boolean,
    /// A signed number of so many octets, 1 to 8.
    Integer(u8),
    /// An unsigned number of so many octets, 1 to 8.
    Unsigned(u8),
    /// IEEE 754, 4 octets.
    Real32,
    /// IEEE 754, 8 octets.
    Real64,
    /// Text of one octet a character.
    VisibleString,
    /// Octets.
    OctetString,
    /// Text of two octets a character.
    UnicodeString,
    /// Time of day or time difference, 6 octets.
    TimeOfDay,
    /// Octets of any meaning.
    Domain,
    /// Seconds and nanoseconds, 8 octets.
    NetTime,
    /// 6 octets.
    MacAddress,
    /// 4 octets.
    IpAddress,
    /// A type of another number.
    Other(u16),
}

impl DataType {
    /// The type of a number in the object dictionary (DS 301, 6.1.4).
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

    /// Octets of a value, where the type says.
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

    /// Its name as in DS 301.
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

/// Who may do what to an object over the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read; it never changes.
    Constant,
    /// Read.
    ReadOnly,
    /// Written.
    WriteOnly,
    /// Read and written.
    ReadWrite,
}

impl Access {
    /// Whether it may be read.
    #[must_use]
    pub const fn readable(self) -> bool {
        !matches!(self, Self::WriteOnly)
    }

    /// Whether it may be written.
    #[must_use]
    pub const fn writable(self) -> bool {
        matches!(self, Self::WriteOnly | Self::ReadWrite)
    }

    /// As device descriptions write it.
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

/// Whether an object may be mapped into process data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Mappable {
    /// Not at all.
    #[default]
    No,
    /// Into what is sent.
    Transmit,
    /// From what is received.
    Receive,
    /// Both.
    Both,
}

impl Mappable {
    /// Whether into what is sent (`true`) or received.
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
