//! The description of a group of data sets: both ends need the same.

use crate::extent::{Extent, ExtentFault, MOST_FIELD_BYTES};
use crate::security::SecurityMode;
use rtwire_wire::uadp::{BuiltIn, FieldEncoding, PublisherId};

/// The identifier of a publisher, owned. Its type belongs to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Publisher {
    /// 8 bits.
    Byte(u8),
    /// 16 bits.
    UInt16(u16),
    /// 32 bits.
    UInt32(u32),
    /// 64 bits.
    UInt64(u64),
    /// A text.
    String(String),
}

impl Publisher {
    /// Returns the identifier as the wire knows it.
    #[must_use]
    pub fn id(&self) -> PublisherId<'_> {
        match self {
            Self::Byte(id) => PublisherId::Byte(*id),
            Self::UInt16(id) => PublisherId::UInt16(*id),
            Self::UInt32(id) => PublisherId::UInt32(*id),
            Self::UInt64(id) => PublisherId::UInt64(*id),
            Self::String(id) => PublisherId::String(id),
        }
    }
}

/// Returns a number for an identifier: different ones for different numbers, a hash (FNV-1a) for texts.
#[must_use]
pub fn publisher_number(id: PublisherId<'_>) -> u64 {
    match id {
        PublisherId::Byte(id) => u64::from(id),
        PublisherId::UInt16(id) => u64::from(id),
        PublisherId::UInt32(id) => u64::from(id),
        PublisherId::UInt64(id) => id,
        PublisherId::String(id) => id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        }),
    }
}

/// The header layouts of Part 14, Annex A.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Profile {
    /// UADP-Periodic-Fixed: each message has the same length, and each field its place.
    #[default]
    Fixed,
    /// UADP-Dynamic: any encoding, key, delta and keep-alive messages.
    Dynamic,
}

/// One field of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name.
    pub name: String,
    /// The type: a scalar of at most 8 bytes, `String` or `ByteString`. Of an array that of its elements.
    pub kind: BuiltIn,
    /// The longest value.
    pub extent: Extent,
}

/// One data set and its writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSet {
    /// The DataSetWriterId, from 1.
    pub writer: u16,
    /// The name.
    pub name: String,
    /// The encoding of the fields; RawData with the fixed profile.
    pub encoding: FieldEncoding,
    /// The number of messages from one key frame to the next; 1: key frames only.
    pub key_frame_count: u32,
    /// The major version of the metadata: seconds since 2000.
    pub major_version: u32,
    /// The minor version of the metadata: seconds since 2000.
    pub minor_version: u32,
    /// True for an event: a message is sent when the program raises it, and between them only keep-alives. The profile is dynamic, and
    /// the fields are Variants.
    pub event: bool,
    /// True where zeros in a padded frame are data. Only for publishers that send no heartbeats, which look the same.
    pub zeros_are_data: bool,
    /// The fields.
    pub fields: Vec<Field>,
}

impl DataSet {
    /// Returns the bytes of all fields as bare values, each as long as it can be.
    #[must_use]
    pub fn raw_bytes(&self) -> usize {
        let bytes = |field: &Field| field.extent.raw_bytes(field.kind);
        self.fields.iter().map(bytes).sum()
    }
}

/// A writer group, as its publisher and its subscribers know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The name.
    pub name: String,
    /// The publisher.
    pub publisher: Publisher,
    /// The WriterGroupId, from 1.
    pub id: u16,
    /// The version of the group's configuration: seconds since 2000.
    pub version: u32,
    /// The header layout.
    pub profile: Profile,
    /// The publishing interval, ns.
    pub interval_ns: u64,
    /// The offset of the publishing instants from whole intervals of TAI, ns.
    pub offset_ns: u64,
    /// The longest time without a message, ns; then a keep-alive is sent.
    pub keep_alive_ns: u64,
    /// The time without a message after which a reader fails, ns.
    pub receive_timeout_ns: u64,
    /// The protection of messages.
    pub security: SecurityMode,
    /// The data sets, in the order of their messages.
    pub data_sets: Vec<DataSet>,
}

/// Data sets that a group holds at most.
pub const MOST_DATA_SETS: usize = 32;

/// The reason why a group's description cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigFault {
    /// A number is 0.
    #[error("writer group `{group}`: {what} is 0; write at least 1")]
    Zero {
        /// The group.
        group: String,
        /// The number's name.
        what: &'static str,
    },
    /// The group or a data set is empty.
    #[error("{what} is empty; add at least one entry")]
    Empty {
        /// The group or the data set.
        what: String,
    },
    /// More data sets than a group holds.
    #[error(
        "writer group `{group}` has {found} data sets; at most {MOST_DATA_SETS} fit, so make more groups"
    )]
    TooMany {
        /// The group.
        group: String,
        /// The data sets found.
        found: usize,
    },
    /// Two data sets have the same writer id.
    #[error("writer group `{group}`: two data sets have the writer id {writer}; give each its own")]
    SameWriter {
        /// The group.
        group: String,
        /// The id.
        writer: u16,
    },
    /// Fields do not have the type.
    #[error(
        "field `{field}`: fields are no {kind}; use a number, Boolean, DateTime, StatusCode, String or ByteString"
    )]
    NoFieldType {
        /// The field.
        field: String,
        /// Its type.
        kind: BuiltIn,
    },
    /// A field's longest value does not suit its type.
    #[error(
        "field `{field}`: a String or ByteString has a number of bytes at most, and is no array; only an array has a number of elements at most"
    )]
    OtherExtent {
        /// The field.
        field: String,
    },
    /// A field's longest value is too long, or empty.
    #[error("field `{field}`: its longest value has 1 to {MOST_FIELD_BYTES} bytes")]
    ExtentSize {
        /// The field.
        field: String,
    },
    /// The profile does not allow the data set.
    #[error(
        "data set `{data_set}`: the profile `fixed` has RawData key frames only; use the profile `dynamic`"
    )]
    NotFixed {
        /// The data set.
        data_set: String,
    },
    /// An event in another form than the standard's.
    #[error(
        "data set `{data_set}`: an event has the profile `dynamic`, the encoding `variant` and the key frame count 1"
    )]
    NoEvent {
        /// The data set.
        data_set: String,
    },
    /// RawData with delta frames.
    #[error(
        "data set `{data_set}`: RawData has no delta frames; set the key frame count to 1 or another encoding"
    )]
    RawDelta {
        /// The data set.
        data_set: String,
    },
    /// The message is longer than a frame.
    #[error(
        "writer group `{group}`: its message has {bytes} bytes, but at most {most} fit; split the data sets into groups, or use the profile `dynamic`, which has chunks"
    )]
    TooLong {
        /// The group.
        group: String,
        /// The bytes of the message.
        bytes: usize,
        /// The bytes that fit.
        most: usize,
    },
    /// Security without keys.
    #[error("writer group `{group}` is secured, but has no keys; give it a sealer or an opener")]
    NoKeys {
        /// The group.
        group: String,
    },
    /// More than one data set with the fixed profile.
    #[error(
        "writer group `{group}`: without a payload header a reader cannot tell data sets apart; one data set in each group of the profile `fixed`"
    )]
    OneDataSet {
        /// The group.
        group: String,
    },
}

impl Group {
    /// Checks the description.
    ///
    /// # Errors
    /// The first fault found.
    pub fn check(&self) -> Result<(), ConfigFault> {
        let group = || self.name.clone();
        let zero = |what, is_zero| match is_zero {
            true => Err(ConfigFault::Zero {
                group: group(),
                what,
            }),
            false => Ok(()),
        };
        zero("the id", self.id == 0)?;
        zero("the interval", self.interval_ns == 0)?;
        if self.data_sets.is_empty() {
            return Err(ConfigFault::Empty {
                what: format!("writer group `{}`", self.name),
            });
        }
        if self.data_sets.len() > MOST_DATA_SETS {
            return Err(ConfigFault::TooMany {
                group: group(),
                found: self.data_sets.len(),
            });
        }
        if self.profile == Profile::Fixed && self.data_sets.len() > 1 {
            return Err(ConfigFault::OneDataSet { group: group() });
        }
        for (at, data_set) in self.data_sets.iter().enumerate() {
            zero("a writer id", data_set.writer == 0)?;
            zero("a key frame count", data_set.key_frame_count == 0)?;
            self.check_data_set(data_set)?;
            if self.data_sets[..at]
                .iter()
                .any(|other| other.writer == data_set.writer)
            {
                return Err(ConfigFault::SameWriter {
                    group: group(),
                    writer: data_set.writer,
                });
            }
        }
        Ok(())
    }

    fn check_data_set(&self, data_set: &DataSet) -> Result<(), ConfigFault> {
        let name = || data_set.name.clone();
        if data_set.fields.is_empty() {
            return Err(ConfigFault::Empty {
                what: format!("data set `{}`", data_set.name),
            });
        }
        let raw = data_set.encoding == FieldEncoding::RawData;
        let keys_only = data_set.key_frame_count == 1;
        let variants = data_set.encoding == FieldEncoding::Variant;
        if data_set.event && !(self.profile == Profile::Dynamic && variants && keys_only) {
            return Err(ConfigFault::NoEvent { data_set: name() });
        }
        if self.profile == Profile::Fixed && !(raw && keys_only) {
            return Err(ConfigFault::NotFixed { data_set: name() });
        }
        if raw && !keys_only {
            return Err(ConfigFault::RawDelta { data_set: name() });
        }
        for field in &data_set.fields {
            let (name, kind) = (|| field.name.clone(), field.kind);
            match field.extent.check(kind) {
                Ok(()) => {}
                Err(ExtentFault::Kind) => {
                    let field = name();
                    return Err(ConfigFault::NoFieldType { field, kind });
                }
                Err(ExtentFault::Form) => {
                    return Err(ConfigFault::OtherExtent { field: name() });
                }
                Err(ExtentFault::Size) => return Err(ConfigFault::ExtentSize { field: name() }),
            }
        }
        Ok(())
    }
}
