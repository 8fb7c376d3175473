//! Service data (SDO): the sequence layer keeps messages in order, the command layer says what they do.

use super::PowerlinkError;
use super::bytes::{Reader, Writer, bit};
use super::codes::{AsndService, MessageType, codes};
use core::fmt;

/// The UDP port of service data (DS 301, C_SDO_EPL_PORT).
pub const SDO_UDP_PORT: u16 = 3819;
/// Octets of the command layer's fixed header.
pub const SDO_COMMAND_HEADER_OCTETS: usize = 8;

const RESPONSE: u8 = 0x80;
const ABORT: u8 = 0x40;

/// A message of service data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Sdo<'a> {
    /// The message's place in its connection.
    pub sequence: Sequence,
    /// The command. `None` in a message that only opens, acknowledges or closes (its header is missing, or all
    /// zeros).
    pub command: Option<SdoCommand<'a>>,
}

/// The state of one direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum Connection {
    /// There is no connection.
    #[default]
    None,
    /// The connection is being opened.
    Initialisation,
    /// The connection is open.
    Valid,
    /// The connection is open, and more is wanted. As send state: an acknowledgement at once. As receive state: the
    /// repetition of lost messages.
    Request,
}

impl Connection {
    const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::None,
            1 => Self::Initialisation,
            2 => Self::Valid,
            _ => Self::Request,
        }
    }

    const fn bits(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Initialisation => 1,
            Self::Valid => 2,
            Self::Request => 3,
        }
    }
}

/// The sequence layer (DS 301, 6.3.2.3): 4 octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct Sequence {
    /// The number of the last message received, 0 to 63.
    pub receive_number: u8,
    /// The state of the receiving direction.
    pub receive: Connection,
    /// The number of this message, 0 to 63; of the last one if this message carries no command.
    pub send_number: u8,
    /// The state of the sending direction.
    pub send: Connection,
}

impl Sequence {
    fn parse(reader: &mut Reader<'_>) -> Result<Self, PowerlinkError> {
        let [receive, send, _, _] = reader.array()?;
        Ok(Self {
            receive_number: receive >> 2,
            receive: Connection::from_bits(receive),
            send_number: send >> 2,
            send: Connection::from_bits(send),
        })
    }

    const fn octets(self) -> [u8; 4] {
        [
            (self.receive_number & 0x3f) << 2 | self.receive.bits(),
            (self.send_number & 0x3f) << 2 | self.send.bits(),
            0,
            0,
        ]
    }
}

codes! {
    /// The number of an SDO command (DS 301, 6.3.2.4.2).
    SdoCommandId {
        /// No command.
        NIL = 0x00, "NIL";
        /// One object is written.
        WRITE_BY_INDEX = 0x01, "WriteByIndex";
        /// One object is read.
        READ_BY_INDEX = 0x02, "ReadByIndex";
        /// All sub-indices of an object are written.
        WRITE_ALL_BY_INDEX = 0x03, "WriteAllByIndex";
        /// All sub-indices of an object are read.
        READ_ALL_BY_INDEX = 0x04, "ReadAllByIndex";
        /// An object is written by its name.
        WRITE_BY_NAME = 0x05, "WriteByName";
        /// An object is read by its name.
        READ_BY_NAME = 0x06, "ReadByName";
        /// A file is written.
        FILE_WRITE = 0x20, "FileWrite";
        /// A file is read.
        FILE_READ = 0x21, "FileRead";
        /// Several objects are written.
        WRITE_MULTIPLE_BY_INDEX = 0x31, "WriteMultipleParameterByIndex";
        /// Several objects are read.
        READ_MULTIPLE_BY_INDEX = 0x32, "ReadMultipleParameterByIndex";
        /// The longest segment is agreed on.
        MAXIMUM_SEGMENT_SIZE = 0x70, "MaximumSegmentSize";
    }
}

/// The way in which a command's data are divided over messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum Segmentation {
    /// All data are in this message.
    #[default]
    Expedited,
    /// The first message of several.
    Initiate {
        /// Octets of all the command's data, including the 4 of this number.
        total_octets: u32,
    },
    /// A message between first and last.
    Segment,
    /// The last message of several.
    Complete,
}

/// The command layer (DS 301, 6.3.2.4).
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct SdoCommand<'a> {
    /// The command's number, chosen by the client; the same in each of its messages and in the answer.
    pub transaction: u8,
    /// True in the server's answer.
    pub response: bool,
    /// True if the transfer is aborted; the data are then the abort code, 4 octets.
    pub abort: bool,
    /// The way in which the data are divided.
    pub segmentation: Segmentation,
    /// The command.
    pub command: SdoCommandId,
    /// The command's data in this message, without the number of all octets.
    pub data: &'a [u8],
}

impl fmt::Debug for SdoCommand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match (self.abort, self.response) {
            (true, _) => "abort",
            (false, true) => "response",
            (false, false) => "request",
        };
        let Self {
            command,
            transaction,
            segmentation,
            data,
            ..
        } = self;
        write!(
            f,
            "{command} {kind} {transaction} {segmentation:?} {data:02x?}"
        )
    }
}

impl<'a> SdoCommand<'a> {
    /// Returns the abort code if this message aborts a transfer.
    #[must_use]
    pub fn abort_code(&self) -> Option<u32> {
        let code = self.data.get(..4).filter(|_| self.abort)?;
        Some(u32::from_le_bytes(code.try_into().ok()?))
    }

    fn parse(mut reader: Reader<'a>) -> Result<Option<Self>, PowerlinkError> {
        let Ok(header) = reader.array::<SDO_COMMAND_HEADER_OCTETS>() else {
            return Ok(None);
        };
        let [_, transaction, flags, command, low, high, _, _] = header;
        // The low four bits have no meaning.
        let flags = flags & 0xf0;
        if [transaction, flags, command, low, high] == [0; 5] {
            return Ok(None);
        }
        let told = usize::from(u16::from_le_bytes([low, high]));
        let size = |most| PowerlinkError::Size {
            field: "the size of the segment",
            told,
            most,
        };
        if told > reader.left() {
            return Err(size(reader.left()));
        }
        let mut data = Reader::new(reader.take(told)?, "SDO segment");
        let segmentation = match flags >> 4 & 3 {
            0 => Segmentation::Expedited,
            1 => Segmentation::Initiate {
                total_octets: data.u32()?,
            },
            2 => Segmentation::Segment,
            _ => Segmentation::Complete,
        };
        Ok(Some(Self {
            transaction,
            response: flags & RESPONSE != 0,
            abort: flags & ABORT != 0,
            segmentation,
            command: SdoCommandId(command),
            data: data.rest(),
        }))
    }

    fn emit(&self, writer: &mut Writer<'_>) -> Result<(), PowerlinkError> {
        let (bits, total) = match self.segmentation {
            Segmentation::Expedited => (0, None),
            Segmentation::Initiate { total_octets } => (0x10, Some(total_octets)),
            Segmentation::Segment => (0x20, None),
            Segmentation::Complete => (0x30, None),
        };
        let octets = self.data.len() + if total.is_some() { 4 } else { 0 };
        let size = u16::try_from(octets).map_err(|_| PowerlinkError::TooLong {
            needed: octets,
            fit: usize::from(u16::MAX),
        })?;
        let flags = bit(self.response, RESPONSE) | bit(self.abort, ABORT) | bits;
        if self.transaction == 0 && flags == 0 && self.command == SdoCommandId::NIL && size == 0 {
            return Err(PowerlinkError::Inconsistent {
                what: "a command with all fields zero looks like no command",
            });
        }
        writer.put(&[0, self.transaction, flags, self.command.0])?;
        writer.u16(size)?;
        writer.zeros::<2>()?;
        if let Some(total) = total {
            writer.u32(total)?;
        }
        writer.put(self.data)
    }
}

impl<'a> Sdo<'a> {
    pub(super) fn parse_after_service(mut reader: Reader<'a>) -> Result<Self, PowerlinkError> {
        Ok(Self {
            sequence: Sequence::parse(&mut reader)?,
            command: SdoCommand::parse(reader.named("SDO command"))?,
        })
    }

    pub(super) fn emit_after_service(&self, writer: &mut Writer<'_>) -> Result<(), PowerlinkError> {
        writer.put(&self.sequence.octets())?;
        self.command.map_or(Ok(()), |command| command.emit(writer))
    }

    /// Reads service data from the payload of a UDP datagram.
    ///
    /// The payload is: message type, two reserved octets, service, then the same as in an ASnd frame.
    ///
    /// # Errors
    /// Too few octets, another message type or service, or a wrong segment size.
    pub fn parse_datagram(payload: &'a [u8]) -> Result<Self, PowerlinkError> {
        let mut reader = Reader::new(payload, "SDO datagram");
        let [message_type, _, _, service] = reader.array()?;
        let found = MessageType(message_type & 0x7f);
        if found != MessageType::ASND || AsndService(service) != AsndService::SDO {
            return Err(PowerlinkError::MessageType { found });
        }
        Self::parse_after_service(reader)
    }

    /// Writes the payload of a UDP datagram to the front of `out` and returns its octets.
    ///
    /// # Errors
    /// `out` is too short, or the segment is longer than its size field can tell.
    pub fn emit_datagram(&self, out: &mut [u8]) -> Result<usize, PowerlinkError> {
        let mut writer = Writer::new(out);
        writer.put(&[MessageType::ASND.0, 0, 0, AsndService::SDO.0])?;
        self.emit_after_service(&mut writer)?;
        Ok(writer.octets())
    }
}
