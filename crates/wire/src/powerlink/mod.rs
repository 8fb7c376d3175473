//! Ethernet POWERLINK version 2 (EPSG DS 301): the frames of managing and controlled nodes.
//!
//! ```text
//!  0            6       12      14       15           16      17
//!  destination  source  0x88AB  message  destination  source  the message's own fields …        (padding)
//!  address      address         type     node         node
//! ```
//! POWERLINK's own fields are little-endian. [`View`] shows every field of any bytes; [`Packet`] is a valid frame.
//! Padding is never part of a value: `parse(emit(x)) = x`, even if [`pad`] lengthened the frame in between.
//!
//! ```
//! use rtwire_wire::MacAddress;
//! use rtwire_wire::powerlink::{Message, NmtState, Packet, Poll, Response, SendRequest, multicast, node};
//!
//! let response = Packet {
//!     destination_address: multicast::PRES,
//!     source_address: MacAddress([2, 0, 0, 0, 0, 1]),
//!     destination: node::BROADCAST,
//!     source: 1,
//!     message: Message::PRes(Response {
//!         state: NmtState::OPERATIONAL,
//!         exception_new: false,
//!         request: SendRequest::NONE,
//!         poll: Poll { multiplexed: false, ready: true, pdo_version: 0, payload: &[0x2a] },
//!     }),
//! };
//! let mut frame = [0; 60];
//! let octets = response.emit(&mut frame).unwrap();
//! assert_eq!(octets, 25);
//! assert_eq!(Packet::parse(&frame), Ok(response));
//! ```
//!
//! All functions here may be called in a real-time loop: none allocates, none panics.

mod asnd;
mod bytes;
mod codes;
mod error;
mod fields;
mod nmt;
mod poll;
mod sdo;
mod soa;
mod soc;
mod status;
mod view;

pub use asnd::{Asnd, Ident, SyncResponse};
pub use codes::{
    AsndService, MessageType, NmtCommandId, NmtState, RequestedService, multicast, node,
};
pub use error::PowerlinkError;
pub use fields::{Field, Value};
pub use nmt::{NmtCommand, NmtRequest, node_list_contains, node_list_insert};
pub use poll::{MAXIMUM_PAYLOAD_OCTETS, Poll, Request, Response, SendRequest};
pub use sdo::{
    Connection, SDO_COMMAND_HEADER_OCTETS, SDO_UDP_PORT, Sdo, SdoCommand, SdoCommandId,
    Segmentation, Sequence,
};
pub use soa::{Soa, SyncRequest};
pub use soc::{NetTime, Soc};
pub use status::{ERROR_ENTRY_OCTETS, ErrorEntry, ErrorList, Status};
pub use view::View;

use crate::{EtherType, MacAddress};
use bytes::{Reader, Writer};

/// Octets before a message's own fields: Ethernet header, message type, destination and source node.
pub const HEADER_OCTETS: usize = 17;
/// The version of POWERLINK that this module implements, as frames carry it: 2.0.
pub const VERSION: u8 = 0x20;
/// Octets of the shortest frame on a real medium, without FCS; a stack may ignore shorter ones.
pub const MINIMUM_OCTETS: usize = 60;
/// Octets of the shortest IdentResponse that a managing node accepts.
pub const IDENT_RESPONSE_OCTETS: usize = 176;
/// Octets of the shortest StatusResponse that a managing node accepts.
pub const STATUS_RESPONSE_OCTETS: usize = 72;

/// A valid POWERLINK frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The frame's destination on the medium: one of [`multicast`], or a controlled node's own address.
    pub destination_address: MacAddress,
    /// The address of the sending interface.
    pub source_address: MacAddress,
    /// The node that the frame is for; [`node::BROADCAST`] for all.
    pub destination: u8,
    /// The node that sends the frame.
    pub source: u8,
    /// The message.
    pub message: Message<'a>,
}

/// The message of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Start of cycle: the managing node's clock tick.
    Soc(Soc),
    /// Poll request: data for one controlled node, which answers at once.
    PReq(Request<'a>),
    /// Poll response: data for all.
    PRes(Response<'a>),
    /// Start of the asynchronous phase: names the node that may send next, and the service.
    Soa(Soa),
    /// An asynchronous message.
    Asnd(Asnd<'a>),
    /// Active managing node indication (EPSG DS 302-A); its data as they are, including padding.
    Amni(&'a [u8]),
    /// An invitation in addition to the SoA, laid out as an SoA (several asynchronous slots in one cycle, EPSG DS
    /// 302-B).
    AInv(Soa),
}

impl Message<'_> {
    /// Returns the message's type on the wire.
    #[must_use]
    pub const fn message_type(&self) -> MessageType {
        match self {
            Self::Soc(_) => MessageType::SOC,
            Self::PReq(_) => MessageType::PREQ,
            Self::PRes(_) => MessageType::PRES,
            Self::Soa(_) => MessageType::SOA,
            Self::Asnd(_) => MessageType::ASND,
            Self::Amni(_) => MessageType::AMNI,
            Self::AInv(_) => MessageType::AINV,
        }
    }
}

impl<'a> Packet<'a> {
    /// Reads a frame: Ethernet header and payload, without FCS, possibly padded. Reserved bits are not judged.
    ///
    /// # Errors
    /// Another EtherType, an unknown message type or service, fewer octets than the message needs, or a size field
    /// that is larger than the frame.
    pub fn parse(frame: &'a [u8]) -> Result<Self, PowerlinkError> {
        let mut reader = Reader::new(frame, "header");
        let destination_address = MacAddress(reader.array()?);
        let source_address = MacAddress(reader.array()?);
        let found = EtherType(u16::from_be_bytes(reader.array()?));
        if found != EtherType::POWERLINK {
            return Err(PowerlinkError::EtherType { found });
        }
        let message_type = MessageType(reader.u8()? & 0x7f);
        let destination = reader.u8()?;
        let source = reader.u8()?;
        let message = match message_type {
            MessageType::SOC => Message::Soc(Soc::parse(reader.named("SoC"))?),
            MessageType::PREQ => Message::PReq(Request::parse(reader.named("PReq"))?),
            MessageType::PRES => Message::PRes(Response::parse(reader.named("PRes"))?),
            MessageType::SOA => Message::Soa(Soa::parse(reader.named("SoA"))?),
            MessageType::ASND => Message::Asnd(Asnd::parse(reader.named("ASnd"))?),
            MessageType::AMNI => Message::Amni(reader.rest()),
            MessageType::AINV => Message::AInv(Soa::parse(reader.named("AInv"))?),
            found => return Err(PowerlinkError::MessageType { found }),
        };
        Ok(Self {
            destination_address,
            source_address,
            destination,
            source,
            message,
        })
    }

    /// Writes the frame to the front of `out` and returns its octets. Reserved octets are 0. [`pad`] adds padding.
    ///
    /// # Errors
    /// `out` is too short, or a payload is longer than its size field can tell.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, PowerlinkError> {
        let mut writer = Writer::new(out);
        writer.put(&self.destination_address.0)?;
        writer.put(&self.source_address.0)?;
        writer.put(&EtherType::POWERLINK.0.to_be_bytes())?;
        writer.put(&[self.message.message_type().0, self.destination, self.source])?;
        match &self.message {
            Message::Soc(soc) => soc.emit(&mut writer)?,
            Message::PReq(request) => request.emit(&mut writer)?,
            Message::PRes(response) => response.emit(&mut writer)?,
            Message::Soa(soa) | Message::AInv(soa) => soa.emit(&mut writer)?,
            Message::Asnd(asnd) => asnd.emit(&mut writer)?,
            Message::Amni(data) => writer.put(data)?,
        }
        Ok(writer.octets())
    }
}

/// Pads a frame of `octets` octets with zeros to `minimum` octets, as far as `frame` has room. Returns the octets of
/// the padded frame.
#[must_use]
pub fn pad(frame: &mut [u8], octets: usize, minimum: usize) -> usize {
    let end = minimum.min(frame.len()).max(octets);
    if let Some(padding) = frame.get_mut(octets..end) {
        padding.fill(0);
    }
    end
}
