//! Abort codes of service data, and errors of files and configurations.

use core::fmt;

/// The reason why access to an object was refused (DS 301, appendix 3.10): the number that goes over the network.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AbortCode(pub u32);

macro_rules! abort_codes {
    ($($item:ident = $value:literal, $text:literal;)*) => {
        impl AbortCode {
            $(#[doc = $text] pub const $item: Self = Self($value);)*

            /// Returns the code's meaning; `None` where it is not known.
            #[must_use]
            pub const fn meaning(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

abort_codes! {
    TIMEOUT = 0x0504_0000, "the peer did not answer in time";
    UNKNOWN_COMMAND = 0x0504_0001, "the command is not known";
    INVALID_BLOCK_SIZE = 0x0504_0002, "a segment is longer than it may be";
    INVALID_SEQUENCE = 0x0504_0003, "a message came out of sequence";
    OUT_OF_MEMORY = 0x0504_0005, "out of memory";
    UNSUPPORTED_ACCESS = 0x0601_0000, "the object cannot be accessed so";
    WRITE_ONLY = 0x0601_0001, "the object can only be written";
    READ_ONLY = 0x0601_0002, "the object can only be read";
    NO_OBJECT = 0x0602_0000, "there is no such object";
    NOT_MAPPABLE = 0x0604_0041, "the object cannot be mapped into process data";
    PDO_LENGTH = 0x0604_0042, "the mapped objects are longer than the process data may be";
    INCOMPATIBLE = 0x0604_0043, "the parameter does not fit the others";
    INVALID_HEARTBEAT = 0x0604_0044, "the heartbeat declaration is invalid";
    INTERNAL_INCOMPATIBLE = 0x0604_0047, "the device cannot do that";
    HARDWARE = 0x0606_0000, "the hardware failed";
    LENGTH = 0x0607_0010, "the data's length does not fit their type";
    LENGTH_HIGH = 0x0607_0012, "the data are longer than their type";
    LENGTH_LOW = 0x0607_0013, "the data are shorter than their type";
    NO_SUBINDEX = 0x0609_0011, "there is no such sub-index";
    RANGE = 0x0609_0030, "the value is out of its range";
    RANGE_HIGH = 0x0609_0031, "the value is too high";
    RANGE_LOW = 0x0609_0032, "the value is too low";
    GENERAL = 0x0800_0000, "the access failed";
    NOT_STORED = 0x0800_0020, "the data cannot be transferred or stored";
    LOCAL_CONTROL = 0x0800_0021, "the data cannot be transferred because of local control";
    DEVICE_STATE = 0x0800_0022, "the data cannot be transferred in the device's present state";
    NO_DICTIONARY = 0x0800_0023, "there is no object dictionary";
    NO_CONFIGURATION = 0x0800_0024, "the configuration data are empty";
}

impl fmt::Display for AbortCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.meaning() {
            Some(meaning) => write!(f, "{meaning} ({:08X}h)", self.0),
            None => write!(f, "abort code {:08X}h", self.0),
        }
    }
}

impl fmt::Debug for AbortCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for AbortCode {}

/// An error in a file or a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A concise device configuration ends too early.
    #[error("the configuration ends at octet {at}, {what} needs {needed} more")]
    CdcTruncated {
        /// The octet at which it ends.
        at: usize,
        /// The part that was to be read.
        what: &'static str,
        /// Octets that are missing.
        needed: usize,
    },
    /// A concise device configuration goes on behind its last entry.
    #[error(
        "{octets} octets follow the last of the {entries} entries that the configuration announces"
    )]
    CdcTrailing {
        /// The number of octets behind it.
        octets: usize,
        /// Entries announced.
        entries: u32,
    },
    /// An entry of a configuration is refused by the dictionary that it is for.
    #[error("object {index:04X}h/{subindex}: {code}")]
    Object {
        /// Index.
        index: u16,
        /// Sub-index.
        subindex: u8,
        /// The reason.
        code: AbortCode,
    },
    /// A device description is no XML.
    #[error("line {line}: no right XML: {reason}")]
    Xml {
        /// Line, from 1.
        line: u32,
        /// The parser's message.
        reason: String,
    },
    /// A device description does not keep to EPSG DS 311.
    #[error("line {line}: {what}")]
    Description {
        /// Line, from 1.
        line: u32,
        /// The fault, and what would be right.
        what: String,
    },
    /// Stored parameters that are not used.
    #[error("{what}")]
    Parameters {
        /// The fault.
        what: String,
    },
    /// A configuration that no node can run with.
    #[error("{what}")]
    Configuration {
        /// The fault, and what would be right.
        what: String,
    },
}
