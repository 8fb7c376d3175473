//! A DataSetMessage: its header and its fields.

use super::bytes::{Reader, Writer, bit};
use super::fields::{DeltaFields, Fields};
use super::{DataSetKind, DateTime, FieldEncoding, UadpError};

pub(super) const VALID: u8 = 0x01;
pub(super) const SEQUENCE: u8 = 0x08;
pub(super) const STATUS: u8 = 0x10;
pub(super) const MAJOR: u8 = 0x20;
pub(super) const MINOR: u8 = 0x40;
pub(super) const FLAGS2: u8 = 0x80;
pub(super) const TIMESTAMP: u8 = 0x10;
pub(super) const PICOSECONDS: u8 = 0x20;
pub(super) const RESERVED2: u8 = 0xc0;

/// A message of one DataSetWriter. Header fields that are `None` are not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataSetMessage<'a> {
    /// False if the publisher marks the message as not to be used.
    pub valid: bool,
    /// The message's number; of a keep-alive or heartbeat the number that the next message with data will have.
    pub sequence: Option<u16>,
    /// The time of the data.
    pub timestamp: Option<DateTime>,
    /// The part of the timestamp below 100 ns, in units of 10 ps.
    pub picoseconds: Option<u16>,
    /// The high half of the data's status code; 0 is good.
    pub status: Option<u16>,
    /// The version of the metadata that changes with the fields: seconds since 2000-01-01.
    pub major_version: Option<u32>,
    /// The version of the metadata that changes with anything: seconds since 2000-01-01.
    pub minor_version: Option<u32>,
    /// True if DataSetFlags2 is sent although it is zero. The standard wants it omitted.
    pub spare_flags: bool,
    /// The data.
    pub content: Content<'a>,
}

/// The content of a DataSetMessage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// All fields, with their types.
    KeyFrame(Fields<'a>),
    /// All fields as bare values, not empty: see [`RawField`](super::RawField) for how to read them.
    ///
    /// Where no size is told these are all octets up to the payload's end, with the padding of a short frame.
    RawData(&'a [u8]),
    /// The fields that changed.
    DeltaFrame(DeltaFields<'a>),
    /// The fields of an event, as Variants.
    Event(Fields<'a>),
    /// A sign of life.
    KeepAlive(FieldEncoding),
    /// A key frame that ends with its header: a sign of life of a writer that only sends key frames. Not data.
    Heartbeat(FieldEncoding),
}

impl Default for DataSetMessage<'_> {
    fn default() -> Self {
        Self {
            valid: true,
            sequence: None,
            timestamp: None,
            picoseconds: None,
            status: None,
            major_version: None,
            minor_version: None,
            spare_flags: false,
            content: Content::Heartbeat(FieldEncoding::Variant),
        }
    }
}

impl Content<'_> {
    /// Returns the kind of message on the wire.
    #[must_use]
    pub const fn kind(&self) -> DataSetKind {
        match self {
            Self::KeyFrame(_) | Self::RawData(_) | Self::Heartbeat(_) => DataSetKind::KeyFrame,
            Self::DeltaFrame(_) => DataSetKind::DeltaFrame,
            Self::Event(_) => DataSetKind::Event,
            Self::KeepAlive(_) => DataSetKind::KeepAlive,
        }
    }

    /// Returns the encoding of the fields.
    #[must_use]
    pub const fn encoding(&self) -> FieldEncoding {
        match self {
            Self::KeyFrame(fields) | Self::Event(fields) => fields.encoding(),
            Self::RawData(_) => FieldEncoding::RawData,
            Self::DeltaFrame(fields) => fields.encoding(),
            Self::KeepAlive(encoding) | Self::Heartbeat(encoding) => *encoding,
        }
    }
}

impl<'a> DataSetMessage<'a> {
    /// Reads a message from the front of `bytes`. Returns it with its octets; what follows is not judged.
    ///
    /// # Errors
    /// Reserved bits or values, or fewer octets than announced.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<(Self, usize), UadpError> {
        let mut reader = Reader::new(bytes, 0);
        let message = Self::read(&mut reader)?;
        Ok((message, reader.octets()))
    }

    /// Writes the message to the front of `out` and returns its octets.
    ///
    /// # Errors
    /// `out` is too short, or the parts contradict each other.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, UadpError> {
        let mut writer = Writer::new(out);
        self.write(&mut writer)?;
        Ok(writer.octets())
    }

    #[inline]
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, UadpError> {
        let at = reader.offset();
        let first = reader.u8("DataSetFlags1")?;
        let Some(encoding) = FieldEncoding::from_bits(first >> 1 & 3) else {
            return Err(UadpError::Reserved {
                what: "the field encoding, in DataSetFlags1",
                at,
                found: u64::from(first),
            });
        };
        let at = reader.offset();
        let second = if first & FLAGS2 != 0 {
            reader.u8("DataSetFlags2")?
        } else {
            0
        };
        let kind = DataSetKind::from_bits(second & 0x0f).filter(|_| second & RESERVED2 == 0);
        let Some(kind) = kind else {
            return Err(UadpError::Reserved {
                what: "DataSetFlags2",
                at,
                found: u64::from(second),
            });
        };
        let mut message = Self {
            valid: first & VALID != 0,
            spare_flags: first & FLAGS2 != 0 && second == 0,
            ..Self::default()
        };
        if first & SEQUENCE != 0 {
            message.sequence = Some(reader.u16("DataSetMessageSequenceNumber")?);
        }
        if second & TIMESTAMP != 0 {
            let ticks = i64::from_le_bytes(reader.array("the DataSetMessage's Timestamp")?);
            message.timestamp = Some(DateTime(ticks));
        }
        if second & PICOSECONDS != 0 {
            message.picoseconds = Some(reader.u16("the DataSetMessage's PicoSeconds")?);
        }
        if first & STATUS != 0 {
            message.status = Some(reader.u16("the DataSetMessage's Status")?);
        }
        if first & MAJOR != 0 {
            message.major_version = Some(reader.u32("MajorVersion")?);
        }
        if first & MINOR != 0 {
            message.minor_version = Some(reader.u32("MinorVersion")?);
        }
        message.content = Content::read(reader, kind, encoding, at)?;
        Ok(message)
    }

    #[inline]
    pub(super) fn write(&self, writer: &mut Writer<'_>) -> Result<(), UadpError> {
        let kind = self.content.kind();
        let second = kind.bits()
            | bit(self.timestamp.is_some(), TIMESTAMP)
            | bit(self.picoseconds.is_some(), PICOSECONDS);
        if self.spare_flags && second != 0 {
            return Err(UadpError::Inconsistent {
                what: "DataSetFlags2 is not zero, so it is not spare",
            });
        }
        writer.u8(bit(self.valid, VALID)
            | self.content.encoding().bits() << 1
            | bit(self.sequence.is_some(), SEQUENCE)
            | bit(self.status.is_some(), STATUS)
            | bit(self.major_version.is_some(), MAJOR)
            | bit(self.minor_version.is_some(), MINOR)
            | bit(second != 0 || self.spare_flags, FLAGS2))?;
        if second != 0 || self.spare_flags {
            writer.u8(second)?;
        }
        if let Some(sequence) = self.sequence {
            writer.u16(sequence)?;
        }
        if let Some(DateTime(ticks)) = self.timestamp {
            writer.put(&ticks.to_le_bytes())?;
        }
        if let Some(picoseconds) = self.picoseconds {
            writer.u16(picoseconds)?;
        }
        if let Some(status) = self.status {
            writer.u16(status)?;
        }
        if let Some(version) = self.major_version {
            writer.u32(version)?;
        }
        if let Some(version) = self.minor_version {
            writer.u32(version)?;
        }
        self.content.write(writer)
    }
}

impl<'a> Content<'a> {
    #[inline]
    fn read(
        reader: &mut Reader<'a>,
        kind: DataSetKind,
        encoding: FieldEncoding,
        flags_at: usize,
    ) -> Result<Self, UadpError> {
        let data_values = encoding == FieldEncoding::DataValue;
        let raw = encoding == FieldEncoding::RawData;
        Ok(match kind {
            DataSetKind::KeepAlive => Self::KeepAlive(encoding),
            DataSetKind::KeyFrame if reader.left() == 0 => Self::Heartbeat(encoding),
            DataSetKind::KeyFrame if raw => Self::RawData(reader.take("RawData", reader.left())?),
            DataSetKind::KeyFrame => Self::KeyFrame(Fields::read(reader, data_values)?),
            DataSetKind::DeltaFrame if !raw => {
                Self::DeltaFrame(DeltaFields::read(reader, data_values)?)
            }
            DataSetKind::Event if encoding == FieldEncoding::Variant => {
                Self::Event(Fields::read(reader, false)?)
            }
            DataSetKind::DeltaFrame | DataSetKind::Event => {
                return Err(UadpError::Reserved {
                    what: "the field encoding of a delta frame or event",
                    at: flags_at.saturating_sub(1),
                    found: u64::from(encoding.bits()),
                });
            }
        })
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>) -> Result<(), UadpError> {
        match self {
            Self::KeyFrame(fields) => fields.write(writer),
            Self::RawData([]) => Err(UadpError::Inconsistent {
                what: "RawData without an octet would be a heartbeat",
            }),
            Self::RawData(octets) => writer.put(octets),
            Self::DeltaFrame(fields) => fields.write(writer),
            Self::Event(fields) => match fields.encoding() {
                FieldEncoding::Variant => fields.write(writer),
                _ => Err(UadpError::Inconsistent {
                    what: "the fields of an event are Variants",
                }),
            },
            Self::KeepAlive(_) | Self::Heartbeat(_) => Ok(()),
        }
    }
}
