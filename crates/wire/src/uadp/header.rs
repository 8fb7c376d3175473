//! The header of a NetworkMessage: everything in front of the payload.

use super::bytes::{Reader, Writer, bit};
use super::fields::Fields;
use super::security::SecurityHeader;
use super::{DateTime, Guid, MessageKind, UadpError};

/// The version of UADP that this module implements.
pub const VERSION: u8 = 1;

pub(super) const PUBLISHER_ID: u8 = 0x10;
pub(super) const GROUP: u8 = 0x20;
pub(super) const PAYLOAD: u8 = 0x40;
pub(super) const EXTENDED: u8 = 0x80;

pub(super) const ID_TYPE: u8 = 0x07;
pub(super) const CLASS_ID: u8 = 0x08;
pub(super) const SECURITY: u8 = 0x10;
pub(super) const TIMESTAMP: u8 = 0x20;
pub(super) const PICOSECONDS: u8 = 0x40;

pub(super) const CHUNK: u8 = 0x01;
pub(super) const PROMOTED: u8 = 0x02;
pub(super) const RESERVED2: u8 = 0xe0;

pub(super) const WRITER_GROUP_ID: u8 = 0x01;
pub(super) const GROUP_VERSION: u8 = 0x02;
pub(super) const MESSAGE_NUMBER: u8 = 0x04;
pub(super) const SEQUENCE: u8 = 0x08;

/// The identifier of a publisher. Its type belongs to it: `UInt16(1)` and `UInt32(1)` are different publishers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PublisherId<'a> {
    /// 8 bits.
    Byte(u8),
    /// 16 bits.
    UInt16(u16),
    /// 32 bits.
    UInt32(u32),
    /// 64 bits.
    UInt64(u64),
    /// A text.
    String(&'a str),
}

impl<'a> PublisherId<'a> {
    const fn bits(&self) -> u8 {
        match self {
            Self::Byte(_) => 0,
            Self::UInt16(_) => 1,
            Self::UInt32(_) => 2,
            Self::UInt64(_) => 3,
            Self::String(_) => 4,
        }
    }

    fn parse(reader: &mut Reader<'a>, bits: u8) -> Result<Self, UadpError> {
        const WHAT: &str = "PublisherId";
        Ok(match bits {
            0 => Self::Byte(reader.u8(WHAT)?),
            1 => Self::UInt16(reader.u16(WHAT)?),
            2 => Self::UInt32(reader.u32(WHAT)?),
            3 => Self::UInt64(reader.u64(WHAT)?),
            _ => {
                let at = reader.offset();
                match reader.string(WHAT)? {
                    Some(text) => Self::String(text),
                    None => {
                        return Err(UadpError::Reserved {
                            what: "the length of the PublisherId",
                            at,
                            found: u64::from(u32::MAX),
                        });
                    }
                }
            }
        })
    }

    fn emit(&self, writer: &mut Writer<'_>) -> Result<(), UadpError> {
        match *self {
            Self::Byte(id) => writer.u8(id),
            Self::UInt16(id) => writer.u16(id),
            Self::UInt32(id) => writer.u32(id),
            Self::UInt64(id) => writer.u64(id),
            Self::String(id) => writer.byte_string(Some(id.as_bytes())),
        }
    }
}

/// The group header. Fields that are `None` are not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct GroupHeader {
    /// The number of the writer group at its publisher.
    pub writer_group_id: Option<u16>,
    /// The version of the group's configuration: seconds since 2000-01-01.
    pub group_version: Option<u32>,
    /// The number of this NetworkMessage among those of one publishing interval, from 1.
    pub message_number: Option<u16>,
    /// The number of NetworkMessages that the group has sent.
    pub sequence: Option<u16>,
}

impl GroupHeader {
    fn parse(reader: &mut Reader<'_>) -> Result<Self, UadpError> {
        let at = reader.offset();
        let flags = reader.u8("GroupFlags")?;
        if flags & 0xf0 != 0 {
            return Err(UadpError::Reserved {
                what: "GroupFlags",
                at,
                found: u64::from(flags),
            });
        }
        let mut group = Self::default();
        if flags & WRITER_GROUP_ID != 0 {
            group.writer_group_id = Some(reader.u16("WriterGroupId")?);
        }
        if flags & GROUP_VERSION != 0 {
            group.group_version = Some(reader.u32("GroupVersion")?);
        }
        if flags & MESSAGE_NUMBER != 0 {
            group.message_number = Some(reader.u16("NetworkMessageNumber")?);
        }
        if flags & SEQUENCE != 0 {
            group.sequence = Some(reader.u16("SequenceNumber")?);
        }
        Ok(group)
    }

    fn emit(&self, writer: &mut Writer<'_>) -> Result<(), UadpError> {
        writer.u8(bit(self.writer_group_id.is_some(), WRITER_GROUP_ID)
            | bit(self.group_version.is_some(), GROUP_VERSION)
            | bit(self.message_number.is_some(), MESSAGE_NUMBER)
            | bit(self.sequence.is_some(), SEQUENCE))?;
        if let Some(id) = self.writer_group_id {
            writer.u16(id)?;
        }
        if let Some(version) = self.group_version {
            writer.u32(version)?;
        }
        if let Some(number) = self.message_number {
            writer.u16(number)?;
        }
        if let Some(sequence) = self.sequence {
            writer.u16(sequence)?;
        }
        Ok(())
    }
}

/// The identifiers of the DataSetWriters whose messages follow: a slice, or octets of a message.
#[derive(Clone, Copy, Debug)]
pub struct WriterIds<'a>(Ids<'a>);

#[derive(Clone, Copy, Debug)]
enum Ids<'a> {
    Given(&'a [u16]),
    Encoded(&'a [u8]),
}

impl<'a> WriterIds<'a> {
    /// Takes a slice of identifiers.
    #[must_use]
    pub const fn of(ids: &'a [u16]) -> Self {
        Self(Ids::Given(ids))
    }

    pub(super) const fn encoded(octets: &'a [u8]) -> Self {
        Self(Ids::Encoded(octets))
    }

    /// Returns the number of writers.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self.0 {
            Ids::Given(ids) => ids.len(),
            Ids::Encoded(octets) => octets.len() / 2,
        }
    }

    /// True if there is no writer.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the identifiers in the order of their messages.
    pub fn iter(&self) -> impl Iterator<Item = u16> + use<'a> {
        let (given, encoded): (&[u16], &[u8]) = match self.0 {
            Ids::Given(ids) => (ids, &[]),
            Ids::Encoded(octets) => (&[], octets),
        };
        let encoded = encoded
            .chunks_exact(2)
            .map(|octets| u16::from(octets[0]) | u16::from(octets[1]) << 8);
        given.iter().copied().chain(encoded)
    }
}

impl PartialEq for WriterIds<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for WriterIds<'_> {}

/// The header of a NetworkMessage. Parts that are `None` are not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Header<'a> {
    /// The publisher.
    pub publisher_id: Option<PublisherId<'a>>,
    /// The class of the data sets.
    pub data_set_class_id: Option<Guid>,
    /// The writer group.
    pub group: Option<GroupHeader>,
    /// The kind of the message.
    pub kind: MessageKind,
    /// True if the payload is a chunk of a longer one.
    pub chunk: bool,
    /// The payload header: the writers of the messages that follow. A chunk has exactly one; discovery has none.
    pub writers: Option<WriterIds<'a>>,
    /// The time of sending.
    pub timestamp: Option<DateTime>,
    /// The part of the timestamp below 100 ns, in units of 10 ps.
    pub picoseconds: Option<u16>,
    /// The promoted fields, as Variants.
    pub promoted: Option<Fields<'a>>,
    /// The security header.
    pub security: Option<SecurityHeader<'a>>,
    /// The type bits of a `PublisherId` that is not sent. The standard wants 0; some publishers send others.
    pub stray_id_type: u8,
    /// The number of ExtendedFlags octets that are sent although they are zero, 0 to 2. The standard wants none.
    pub spare_flags: u8,
}

impl<'a> Header<'a> {
    /// Reads the header from the front of a message. Returns it with its octets: the offset of the payload.
    ///
    /// # Errors
    /// Another version, reserved bits or values, or fewer octets than the flags announce.
    pub fn parse(message: &'a [u8]) -> Result<(Self, usize), UadpError> {
        let mut reader = Reader::new(message, 0);
        let header = Self::read(&mut reader)?;
        Ok((header, reader.octets()))
    }

    /// Writes the header to the front of `out` and returns its octets: the offset of the payload.
    ///
    /// # Errors
    /// `out` is too short, or the parts contradict each other.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, UadpError> {
        let mut writer = Writer::new(out);
        self.write(&mut writer)?;
        Ok(writer.octets())
    }

    #[inline]
    fn read(reader: &mut Reader<'a>) -> Result<Self, UadpError> {
        let flags = reader.u8("UADPFlags")?;
        if flags & 0x0f != VERSION {
            return Err(UadpError::Version {
                found: flags & 0x0f,
            });
        }
        let mut sent = 0;
        let (mut first, mut second) = (0, 0);
        if flags & EXTENDED != 0 {
            let at = reader.offset();
            first = reader.u8("ExtendedFlags1")?;
            sent = 1;
            if first & ID_TYPE > 4 {
                return Err(UadpError::Reserved {
                    what: "the type of the PublisherId, in ExtendedFlags1",
                    at,
                    found: u64::from(first),
                });
            }
        }
        let at = reader.offset();
        if first & EXTENDED != 0 {
            second = reader.u8("ExtendedFlags2")?;
            sent = 2;
        }
        let kind = MessageKind::from_bits(second >> 2 & 7).filter(|_| second & RESERVED2 == 0);
        let Some(kind) = kind else {
            return Err(UadpError::Reserved {
                what: "ExtendedFlags2",
                at,
                found: u64::from(second),
            });
        };
        let mut header = Self {
            kind,
            chunk: second & CHUNK != 0,
            ..Self::default()
        };
        let needed = if second != 0 {
            2
        } else {
            u8::from(first & !EXTENDED != 0)
        };
        header.spare_flags = sent - needed;
        if flags & PUBLISHER_ID != 0 {
            header.publisher_id = Some(PublisherId::parse(reader, first & ID_TYPE)?);
        } else {
            header.stray_id_type = first & ID_TYPE;
        }
        if first & CLASS_ID != 0 {
            header.data_set_class_id = Some(Guid(reader.array("DataSetClassId")?));
        }
        if flags & GROUP != 0 {
            header.group = Some(GroupHeader::parse(reader)?);
        }
        if flags & PAYLOAD != 0 {
            header.writers = Some(header.read_writers(reader)?);
        }
        if first & TIMESTAMP != 0 {
            header.timestamp = Some(DateTime(i64::from_le_bytes(reader.array("Timestamp")?)));
        }
        if first & PICOSECONDS != 0 {
            header.picoseconds = Some(reader.u16("PicoSeconds")?);
        }
        if second & PROMOTED != 0 {
            let at = reader.offset();
            let octets = reader.u16("the size of the promoted fields")?;
            if usize::from(octets) > reader.left() {
                return Err(UadpError::Length {
                    what: "the size of the promoted fields",
                    at,
                    told: u64::from(octets),
                    most: reader.left() as u64,
                });
            }
            let at = reader.offset();
            let octets = reader.take("PromotedFields", usize::from(octets))?;
            header.promoted = Some(Fields::read_all(&mut Reader::new(octets, at))?);
        }
        if first & SECURITY != 0 {
            header.security = Some(SecurityHeader::parse(reader)?);
        }
        Ok(header)
    }

    #[inline]
    fn read_writers(&self, reader: &mut Reader<'a>) -> Result<WriterIds<'a>, UadpError> {
        let at = reader.offset();
        if self.kind != MessageKind::Data {
            return Err(UadpError::Reserved {
                what: "the payload header's flag of a discovery message",
                at: 0,
                found: 1,
            });
        }
        let count = if self.chunk {
            1
        } else {
            reader.u8("the number of DataSetMessages")?
        };
        if count == 0 {
            return Err(UadpError::Reserved {
                what: "the number of DataSetMessages",
                at,
                found: 0,
            });
        }
        let octets = reader.take("DataSetWriterIds", usize::from(count) * 2)?;
        Ok(WriterIds::encoded(octets))
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>) -> Result<(), UadpError> {
        let type_bits = match &self.publisher_id {
            Some(id) => id.bits(),
            None => self.stray_id_type,
        };
        if type_bits > 4 || (self.publisher_id.is_some() && self.stray_id_type != 0) {
            return Err(UadpError::Inconsistent {
                what: "stray type bits (0 to 4) go only without a PublisherId",
            });
        }
        let second =
            bit(self.chunk, CHUNK) | bit(self.promoted.is_some(), PROMOTED) | self.kind.bits() << 2;
        let first = type_bits
            | bit(self.data_set_class_id.is_some(), CLASS_ID)
            | bit(self.security.is_some(), SECURITY)
            | bit(self.timestamp.is_some(), TIMESTAMP)
            | bit(self.picoseconds.is_some(), PICOSECONDS);
        let needed = if second != 0 { 2 } else { u8::from(first != 0) };
        let sent = needed.saturating_add(self.spare_flags);
        if sent > 2 {
            return Err(UadpError::Inconsistent {
                what: "there are at most two ExtendedFlags octets",
            });
        }
        writer.u8(VERSION
            | bit(self.publisher_id.is_some(), PUBLISHER_ID)
            | bit(self.group.is_some(), GROUP)
            | bit(self.writers.is_some(), PAYLOAD)
            | bit(sent > 0, EXTENDED))?;
        if sent > 0 {
            writer.u8(first | bit(sent > 1, EXTENDED))?;
        }
        if sent > 1 {
            writer.u8(second)?;
        }
        if let Some(id) = &self.publisher_id {
            id.emit(writer)?;
        }
        if let Some(id) = &self.data_set_class_id {
            writer.put(&id.0)?;
        }
        if let Some(group) = &self.group {
            group.emit(writer)?;
        }
        if let Some(writers) = &self.writers {
            self.write_writers(writer, writers)?;
        }
        if let Some(DateTime(ticks)) = self.timestamp {
            writer.put(&ticks.to_le_bytes())?;
        }
        if let Some(picoseconds) = self.picoseconds {
            writer.u16(picoseconds)?;
        }
        if let Some(promoted) = &self.promoted {
            let size_at = writer.octets();
            writer.u16(0)?;
            promoted.write_variants(writer)?;
            let octets = writer.octets() - size_at - 2;
            let Ok(size) = u16::try_from(octets) else {
                return Err(UadpError::TooLong {
                    needed: octets,
                    fit: usize::from(u16::MAX),
                });
            };
            writer.patch_u16(size_at, size);
        }
        self.security
            .as_ref()
            .map_or(Ok(()), |security| security.emit(writer))
    }

    #[inline]
    fn write_writers(&self, writer: &mut Writer<'_>, ids: &WriterIds<'_>) -> Result<(), UadpError> {
        let count = match u8::try_from(ids.len()) {
            Ok(count) if count > 0 && self.kind == MessageKind::Data => count,
            _ => {
                return Err(UadpError::Inconsistent {
                    what: "a payload header names 1 to 255 writers; discovery has none",
                });
            }
        };
        if !self.chunk {
            writer.u8(count)?;
        } else if count != 1 {
            return Err(UadpError::Inconsistent {
                what: "a chunk has exactly one writer",
            });
        }
        for id in ids.iter() {
            writer.u16(id)?;
        }
        Ok(())
    }
}
