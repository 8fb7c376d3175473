//! The content masks of the configuration, and the two header profiles (Part 14, annex A) that name common ones.

use super::{DataSetMessage, GroupHeader, Header};

/// The parts that the header of a NetworkMessage has: `UadpNetworkMessageContentMask`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct NetworkMask(pub u32);

impl NetworkMask {
    /// The `PublisherId`.
    pub const PUBLISHER_ID: u32 = 0x001;
    /// The group header; the next four only count together with it.
    pub const GROUP_HEADER: u32 = 0x002;
    /// The number of the writer group.
    pub const WRITER_GROUP_ID: u32 = 0x004;
    /// The version of the group.
    pub const GROUP_VERSION: u32 = 0x008;
    /// The number of the message in its publishing interval.
    pub const MESSAGE_NUMBER: u32 = 0x010;
    /// The number of messages sent.
    pub const SEQUENCE: u32 = 0x020;
    /// The payload header, with the writers.
    pub const PAYLOAD_HEADER: u32 = 0x040;
    /// The time of sending.
    pub const TIMESTAMP: u32 = 0x080;
    /// Its part below 100 ns.
    pub const PICOSECONDS: u32 = 0x100;
    /// The class of the data sets.
    pub const DATA_SET_CLASS_ID: u32 = 0x200;
    /// The promoted fields.
    pub const PROMOTED_FIELDS: u32 = 0x400;

    const fn has(self, bit: u32) -> bool {
        self.0 & bit != 0
    }

    /// Returns `header` with only the parts that the mask selects. Kind, chunk and security stay.
    #[must_use]
    pub fn select<'a>(self, header: &Header<'a>) -> Header<'a> {
        fn keep<T>(selected: bool, part: Option<T>) -> Option<T> {
            part.filter(|_| selected)
        }
        let group = header.group.map(|group| GroupHeader {
            writer_group_id: keep(self.has(Self::WRITER_GROUP_ID), group.writer_group_id),
            group_version: keep(self.has(Self::GROUP_VERSION), group.group_version),
            message_number: keep(self.has(Self::MESSAGE_NUMBER), group.message_number),
            sequence: keep(self.has(Self::SEQUENCE), group.sequence),
        });
        Header {
            publisher_id: keep(self.has(Self::PUBLISHER_ID), header.publisher_id),
            group: keep(self.has(Self::GROUP_HEADER), group),
            writers: keep(self.has(Self::PAYLOAD_HEADER), header.writers),
            timestamp: keep(self.has(Self::TIMESTAMP), header.timestamp),
            picoseconds: keep(self.has(Self::PICOSECONDS), header.picoseconds),
            data_set_class_id: keep(self.has(Self::DATA_SET_CLASS_ID), header.data_set_class_id),
            promoted: keep(self.has(Self::PROMOTED_FIELDS), header.promoted),
            ..*header
        }
    }
}

/// The parts that the header of a DataSetMessage has: `UadpDataSetMessageContentMask`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct DataSetMask(pub u32);

impl DataSetMask {
    /// The time of the data.
    pub const TIMESTAMP: u32 = 0x01;
    /// Its part below 100 ns.
    pub const PICOSECONDS: u32 = 0x02;
    /// The status.
    pub const STATUS: u32 = 0x04;
    /// The major version of the metadata.
    pub const MAJOR_VERSION: u32 = 0x08;
    /// The minor version of the metadata.
    pub const MINOR_VERSION: u32 = 0x10;
    /// The message's number.
    pub const SEQUENCE: u32 = 0x20;

    const fn has(self, bit: u32) -> bool {
        self.0 & bit != 0
    }

    /// Returns `message` with only the header fields that the mask selects.
    #[must_use]
    pub fn select<'a>(self, message: &DataSetMessage<'a>) -> DataSetMessage<'a> {
        DataSetMessage {
            timestamp: message.timestamp.filter(|_| self.has(Self::TIMESTAMP)),
            picoseconds: message.picoseconds.filter(|_| self.has(Self::PICOSECONDS)),
            status: message.status.filter(|_| self.has(Self::STATUS)),
            major_version: message
                .major_version
                .filter(|_| self.has(Self::MAJOR_VERSION)),
            minor_version: message
                .minor_version
                .filter(|_| self.has(Self::MINOR_VERSION)),
            sequence: message.sequence.filter(|_| self.has(Self::SEQUENCE)),
            ..*message
        }
    }
}

/// A header profile of Part 14, annex A. With or without security, the other fields are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Profile {
    /// UADP-Periodic-Fixed: one layout, RawData, key frames only; the reader knows it from its configuration.
    PeriodicFixed,
    /// UADP-Dynamic: messages name their writers and can carry any encoding and kind.
    Dynamic,
}

impl Profile {
    /// Both profiles.
    pub const ALL: [Self; 2] = [Self::PeriodicFixed, Self::Dynamic];

    /// Returns the profile's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PeriodicFixed => "UADP-Periodic-Fixed",
            Self::Dynamic => "UADP-Dynamic",
        }
    }

    /// Returns the profile with a name, or with the URI that ends in it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let last = name.rsplit('/').next().unwrap_or(name);
        Self::ALL.into_iter().find(|profile| profile.name() == last)
    }

    /// Returns the URI by which a configuration names the profile.
    #[must_use]
    pub const fn uri(self) -> &'static str {
        match self {
            Self::PeriodicFixed => "http://opcfoundation.org/UA/PubSub-Layouts/UADP-Periodic-Fixed",
            Self::Dynamic => "http://opcfoundation.org/UA/PubSub-Layouts/UADP-Dynamic",
        }
    }

    /// Returns the parts of the NetworkMessage's header.
    #[must_use]
    pub const fn network_mask(self) -> NetworkMask {
        match self {
            Self::PeriodicFixed => NetworkMask(0x3f),
            Self::Dynamic => NetworkMask(0x41),
        }
    }

    /// Returns the parts of the DataSetMessage's header.
    #[must_use]
    pub const fn data_set_mask(self) -> DataSetMask {
        match self {
            Self::PeriodicFixed => DataSetMask(0x24),
            Self::Dynamic => DataSetMask(0x35),
        }
    }
}
