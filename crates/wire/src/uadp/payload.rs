//! The payload of a NetworkMessage: DataSetMessages and their sizes, a chunk, or discovery.

use super::bytes::{Reader, Writer};
use super::data_set::{DataSetMessage, VALID};
use super::discovery::{Announcement, Probe};
use super::header::Header;
use super::security::Envelope;
use super::{Content, MessageKind, UadpError};

/// A valid NetworkMessage.
///
/// Padding behind the payload is not part of it: `parse(emit(x)) = x`. Where no signature ends the message and no sizes
/// are told, octets behind it have to be zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkMessage<'a> {
    /// Everything in front of the payload.
    pub header: Header<'a>,
    /// The payload.
    pub body: Body<'a>,
    /// The security footer.
    pub footer: &'a [u8],
    /// The signature.
    pub signature: &'a [u8],
}

/// The payload of a NetworkMessage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// DataSetMessages.
    DataSets(DataSets<'a>),
    /// A part of a payload that is too long for one message.
    Chunk(Chunk<'a>),
    /// A subscriber's question.
    Probe(Probe<'a>),
    /// A publisher's description of itself.
    Announcement(Announcement<'a>),
    /// An encrypted payload. [`Body::parse`] reads it after it was decrypted.
    Encrypted(&'a [u8]),
}

/// A part of a payload (Part 14, 7.2.4.4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct Chunk<'a> {
    /// The number of the whole payload: its DataSetMessage's sequence number.
    pub sequence: u16,
    /// The offset of the part in the whole.
    pub offset: u32,
    /// The octets of the whole.
    pub total_octets: u32,
    /// The part, not empty.
    pub data: &'a [u8],
}

impl<'a> Chunk<'a> {
    /// The octets of a chunk before its data.
    pub const HEADER_OCTETS: usize = 14;

    /// Reads a chunk from the front of a payload. Returns it with its octets.
    ///
    /// # Errors
    /// The octets are no chunk.
    pub fn parse(payload: &'a [u8]) -> Result<(Self, usize), UadpError> {
        let mut reader = Reader::new(payload, 0);
        let chunk = Self::read(&mut reader)?;
        Ok((chunk, reader.octets()))
    }

    /// Writes the chunk to the front of `out` and returns its octets.
    ///
    /// # Errors
    /// `out` is too short, or the part is empty or ends behind the whole.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, UadpError> {
        let mut writer = Writer::new(out);
        self.write(&mut writer)?;
        Ok(writer.octets())
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, UadpError> {
        let sequence = reader.u16("MessageSequenceNumber")?;
        let at = reader.offset();
        let offset = reader.u32("ChunkOffset")?;
        let total_octets = reader.u32("TotalSize")?;
        let data = reader.byte_string("ChunkData")?.unwrap_or_default();
        let chunk = Self {
            sequence,
            offset,
            total_octets,
            data,
        };
        if !chunk.fits() {
            return Err(UadpError::Length {
                what: "ChunkOffset and the length of ChunkData (one octet at least)",
                at,
                told: u64::from(offset) + data.len() as u64,
                most: u64::from(total_octets),
            });
        }
        Ok(chunk)
    }

    const fn fits(&self) -> bool {
        !self.data.is_empty()
            && self.offset as u64 + self.data.len() as u64 <= self.total_octets as u64
    }

    fn write(&self, writer: &mut Writer<'_>) -> Result<(), UadpError> {
        if !self.fits() {
            return Err(UadpError::Inconsistent {
                what: "a chunk is not empty and ends within the whole",
            });
        }
        writer.u16(self.sequence)?;
        writer.u32(self.offset)?;
        writer.u32(self.total_octets)?;
        writer.byte_string(Some(self.data))
    }
}

/// The DataSetMessages of a NetworkMessage: a slice, or octets of a message.
#[derive(Clone, Copy, Debug)]
pub struct DataSets<'a>(Store<'a>);

#[derive(Clone, Copy, Debug)]
enum Store<'a> {
    Given(&'a [DataSetMessage<'a>]),
    /// The only message, read.
    One(DataSetMessage<'a>),
    Encoded {
        /// The messages' sizes; empty where none are told.
        sizes: &'a [u8],
        messages: &'a [u8],
        count: usize,
    },
}

impl<'a> DataSets<'a> {
    /// Takes messages. Their number is that of the payload header's writers, if the message has one.
    #[must_use]
    pub const fn of(messages: &'a [DataSetMessage<'a>]) -> Self {
        Self(Store::Given(messages))
    }

    /// Returns the number of messages.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self.0 {
            Store::Given(messages) => messages.len(),
            Store::One(_) => 1,
            Store::Encoded { count, .. } => count,
        }
    }

    /// True if there is no message.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the messages in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = DataSetMessage<'a>> + use<'a> {
        let store = self.0;
        let (sizes, messages): (&[u8], &[u8]) = match store {
            Store::Given(_) | Store::One(_) => (&[], &[]),
            Store::Encoded {
                sizes, messages, ..
            } => (sizes, messages),
        };
        let mut sizes = Reader::new(sizes, 0);
        let mut reader = Reader::new(messages, 0);
        (0..self.len()).map_while(move |at| match store {
            Store::Given(messages) => messages.get(at).copied(),
            Store::One(message) => Some(message),
            Store::Encoded { .. } if sizes.left() == 0 => DataSetMessage::read(&mut reader).ok(),
            Store::Encoded { .. } => {
                let size = sizes.u16("").ok()?;
                let octets = reader.take("", usize::from(size)).ok()?;
                DataSetMessage::read(&mut Reader::new(octets, 0)).ok()
            }
        })
    }

    fn read(reader: &mut Reader<'a>, header: &Header<'a>) -> Result<Self, UadpError> {
        match header.writers.map(|writers| writers.len()) {
            Some(count) if count > 1 => Self::read_sized(reader, count),
            Some(_) => Self::read_one(reader),
            None => Self::read_unannounced(reader),
        }
    }

    fn read_sized(reader: &mut Reader<'a>, count: usize) -> Result<Self, UadpError> {
        let sizes = reader.take("the sizes of the DataSetMessages", count * 2)?;
        let mut each = Reader::new(sizes, reader.offset() - count * 2);
        let start = reader.octets();
        for _ in 0..count {
            let at = each.offset();
            let size = usize::from(each.u16("size")?);
            if size > reader.left() {
                return Err(UadpError::Length {
                    what: "the size of a DataSetMessage",
                    at,
                    told: size as u64,
                    most: reader.left() as u64,
                });
            }
            let begin = reader.offset();
            let mut message = Reader::new(reader.take("DataSetMessage", size)?, begin);
            DataSetMessage::read(&mut message)?;
            message.only_padding()?;
        }
        let messages = reader.since(start);
        Ok(Self(Store::Encoded {
            sizes,
            messages,
            count,
        }))
    }

    #[inline]
    fn read_one(reader: &mut Reader<'a>) -> Result<Self, UadpError> {
        DataSetMessage::read(reader).map(|message| Self(Store::One(message)))
    }

    /// Reads messages until only padding is left. From the second on, they have to be valid.
    fn read_unannounced(reader: &mut Reader<'a>) -> Result<Self, UadpError> {
        let start = reader.octets();
        let mut count = 0;
        while count == 0
            || reader
                .rest()
                .first()
                .is_some_and(|flags| flags & VALID != 0)
        {
            DataSetMessage::read(reader)?;
            count += 1;
        }
        Ok(Self(Store::Encoded {
            sizes: &[],
            messages: reader.since(start),
            count,
        }))
    }

    fn write(&self, writer: &mut Writer<'_>, header: &Header<'_>) -> Result<(), UadpError> {
        let sized = match header.writers.map(|writers| writers.len()) {
            Some(count) if count != self.len() => {
                return Err(UadpError::Inconsistent {
                    what: "the payload header needs one writer for each DataSetMessage",
                });
            }
            Some(count) => count > 1,
            None => false,
        };
        if self.is_empty() {
            return Err(UadpError::Inconsistent {
                what: "a NetworkMessage has at least one DataSetMessage",
            });
        }
        let sizes_at = writer.octets();
        if sized {
            writer.zeros(self.len() * 2)?;
        }
        let mut write_one = |at: usize, message: &DataSetMessage<'_>| {
            let open = matches!(message.content, Content::RawData(_) | Content::Heartbeat(_));
            if !sized && open && at + 1 < self.len() {
                return Err(UadpError::Inconsistent {
                    what: "RawData and heartbeats end nowhere without sizes; only the last can be one",
                });
            }
            if !sized && at > 0 && !message.valid {
                return Err(UadpError::Inconsistent {
                    what: "a DataSetMessage that is not valid needs a size, or could be padding",
                });
            }
            let start = writer.octets();
            message.write(writer)?;
            let octets = writer.octets() - start;
            if sized {
                let Ok(size) = u16::try_from(octets) else {
                    return Err(UadpError::TooLong {
                        needed: octets,
                        fit: usize::from(u16::MAX),
                    });
                };
                writer.patch_u16(sizes_at + at * 2, size);
            }
            Ok(())
        };
        // Messages that are there are not copied: each is large.
        match &self.0 {
            Store::Given(messages) => {
                let mut numbered = messages.iter().enumerate();
                numbered.try_for_each(|(at, message)| write_one(at, message))
            }
            Store::One(message) => write_one(0, message),
            Store::Encoded { .. } => {
                let mut numbered = self.iter().enumerate();
                numbered.try_for_each(|(at, message)| write_one(at, &message))
            }
        }
    }
}

impl PartialEq for DataSets<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for DataSets<'_> {}

impl<'a> Body<'a> {
    /// Reads a payload that is not encrypted, or was decrypted. `at` is its offset in the message, for errors.
    ///
    /// # Errors
    /// The payload is not what its header announces, or octets behind it are no padding.
    #[inline]
    pub fn parse(header: &Header<'a>, payload: &'a [u8], at: usize) -> Result<Self, UadpError> {
        let mut reader = Reader::new(payload, at);
        let body = if header.chunk {
            Self::Chunk(Chunk::read(&mut reader)?)
        } else {
            match header.kind {
                MessageKind::Data => Self::DataSets(DataSets::read(&mut reader, header)?),
                MessageKind::Probe => Self::Probe(Probe::read(&mut reader)?),
                MessageKind::Announcement => {
                    return Ok(Self::Announcement(Announcement::read(&mut reader)?));
                }
            }
        };
        reader.only_padding()?;
        Ok(body)
    }

    /// Writes the payload to the front of `out` and returns its octets.
    ///
    /// # Errors
    /// `out` is too short, or the payload is not what `header` announces.
    #[inline]
    pub fn emit(&self, header: &Header<'_>, out: &mut [u8]) -> Result<usize, UadpError> {
        let mut writer = Writer::new(out);
        self.write(header, &mut writer)?;
        Ok(writer.octets())
    }

    fn write(&self, header: &Header<'_>, writer: &mut Writer<'_>) -> Result<(), UadpError> {
        let encrypted = header.security.is_some_and(|security| security.encrypted);
        match (self, header.kind, header.chunk) {
            (Self::Encrypted(octets), _, _) if encrypted => writer.put(octets),
            (Self::DataSets(messages), MessageKind::Data, false) => messages.write(writer, header),
            (Self::Chunk(chunk), _, true) => chunk.write(writer),
            (Self::Probe(probe), MessageKind::Probe, false) => probe.write(writer),
            (Self::Announcement(announcement), MessageKind::Announcement, false) => {
                announcement.write(writer)
            }
            _ => Err(UadpError::Inconsistent {
                what: "the payload is not of the kind that the header announces",
            }),
        }
    }
}

impl<'a> NetworkMessage<'a> {
    /// Returns a message without security.
    #[must_use]
    pub const fn new(header: Header<'a>, body: Body<'a>) -> Self {
        Self {
            header,
            body,
            footer: &[],
            signature: &[],
        }
    }

    /// Reads a message, possibly padded. An encrypted payload stays as it is.
    ///
    /// `signature_octets` is the length of a signature: see [`Envelope::new`].
    ///
    /// # Errors
    /// Another version, reserved bits or values, fewer octets than announced, octets that belong to nothing.
    #[inline]
    pub fn parse(message: &'a [u8], signature_octets: usize) -> Result<Self, UadpError> {
        let (header, payload_at) = Header::parse(message)?;
        let envelope = Envelope::new(
            header.security.as_ref(),
            payload_at,
            message.len(),
            signature_octets,
        )?;
        let payload = envelope.payload(message);
        let body = if header.security.is_some_and(|security| security.encrypted) {
            Body::Encrypted(payload)
        } else {
            Body::parse(&header, payload, payload_at)?
        };
        Ok(Self {
            header,
            body,
            footer: envelope.footer(message),
            signature: envelope.signature(message),
        })
    }

    /// Writes the message to the front of `out` and returns its octets.
    ///
    /// # Errors
    /// `out` is too short, or the parts contradict each other.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, UadpError> {
        let security = self.header.security.unwrap_or_default();
        if self.footer.len() != usize::from(security.footer_octets.unwrap_or(0))
            || (!security.signed && !self.signature.is_empty())
        {
            return Err(UadpError::Inconsistent {
                what: "the security header does not announce this footer or signature",
            });
        }
        if security.encrypted && !matches!(self.body, Body::Encrypted(_)) {
            return Err(UadpError::Inconsistent {
                what: "the security header announces an encrypted payload",
            });
        }
        let payload_at = self.header.emit(out)?;
        let fit = out.len();
        let too_long = |needed| UadpError::TooLong { needed, fit };
        let rest = out.get_mut(payload_at..).ok_or(too_long(payload_at))?;
        let mut writer = Writer::new(rest);
        let error = |error| match error {
            UadpError::TooLong { needed, .. } => too_long(payload_at.saturating_add(needed)),
            other => other,
        };
        self.body.write(&self.header, &mut writer).map_err(error)?;
        writer.put(self.footer).map_err(error)?;
        writer.put(self.signature).map_err(error)?;
        Ok(payload_at + writer.octets())
    }
}
