//! Poll request and poll response.

use super::PowerlinkError;
use super::bytes::{Reader, Writer, bit};
use super::codes::NmtState;

/// The most process data in one frame (DS 301, C_DLL_ISOCHR_MAX_PAYL), octets.
pub const MAXIMUM_PAYLOAD_OCTETS: usize = 1490;

pub(super) const MS: u8 = 0x20;
pub(super) const EN: u8 = 0x10;
pub(super) const EA: u8 = 0x04;
pub(super) const RD: u8 = 0x01;
pub(super) const FLS: u8 = 0x80;
pub(super) const SLS: u8 = 0x40;

/// The common part of poll requests and poll responses: the process data and their properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Poll<'a> {
    /// MS: the node is polled in a multiplexed slot.
    pub multiplexed: bool,
    /// RD: the data are valid.
    pub ready: bool,
    /// Version of the data's mapping at the sender: high nibble the main version, low nibble the sub-version.
    pub pdo_version: u8,
    /// The process data, at most [`MAXIMUM_PAYLOAD_OCTETS`].
    pub payload: &'a [u8],
}

/// A poll request (DS 301, 4.6.1.1.3): managing node to one controlled node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Request<'a> {
    /// EA: the controlled node's newest errors have been read.
    pub exception_acknowledge: bool,
    /// FLS and SLS: the links of the managing node's first and second port are up (EPSG DS 302-A); otherwise false.
    pub links: [bool; 2],
    /// The process data.
    pub poll: Poll<'a>,
}

/// A poll response (DS 301, 4.6.1.1.4): from a controlled node, or from the managing node itself, to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Response<'a> {
    /// The sender's state.
    pub state: NmtState,
    /// EN: the sender has new errors to be read; toggles.
    pub exception_new: bool,
    /// Asynchronous frames that wait at the sender.
    pub request: SendRequest,
    /// The process data.
    pub poll: Poll<'a>,
}

/// A node's report of the asynchronous frames that wait at it, and of its links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct SendRequest {
    /// PR, 0 to 7: the priority of the first waiting frame; 7 for NMT requests, 3 for anything else.
    pub priority: u8,
    /// RS, 0 to 7: the number of waiting frames; 7 means seven or more.
    pub pending: u8,
    /// FLS and SLS: the first and second link are up (EPSG DS 302-A); otherwise false.
    pub links: [bool; 2],
}

impl SendRequest {
    /// No frame waits.
    pub const NONE: Self = Self {
        priority: 0,
        pending: 0,
        links: [false; 2],
    };

    pub(super) const fn from_octet(octet: u8) -> Self {
        Self {
            priority: octet >> 3 & 7,
            pending: octet & 7,
            links: [octet & FLS != 0, octet & SLS != 0],
        }
    }

    /// Returns the field's octet; numbers above 7 become 7.
    pub(super) const fn octet(self) -> u8 {
        let priority = if self.priority > 7 { 7 } else { self.priority };
        let pending = if self.pending > 7 { 7 } else { self.pending };
        links(self.links) | priority << 3 | pending
    }
}

const fn links(links: [bool; 2]) -> u8 {
    bit(links[0], FLS) | bit(links[1], SLS)
}

impl<'a> Poll<'a> {
    fn parse(flags: u8, mut reader: Reader<'a>) -> Result<Self, PowerlinkError> {
        let pdo_version = reader.u8()?;
        reader.skip(1)?;
        let told = usize::from(reader.u16()?);
        let most = reader.left().min(MAXIMUM_PAYLOAD_OCTETS);
        if told > most {
            return Err(PowerlinkError::Size {
                field: "the size of the process data",
                told,
                most,
            });
        }
        Ok(Self {
            multiplexed: flags & MS != 0,
            ready: flags & RD != 0,
            pdo_version,
            payload: reader.take(told)?,
        })
    }

    const fn flags(&self) -> u8 {
        bit(self.multiplexed, MS) | bit(self.ready, RD)
    }

    fn emit(&self, writer: &mut Writer<'_>) -> Result<(), PowerlinkError> {
        let octets = self.payload.len();
        let size = u16::try_from(octets)
            .ok()
            .filter(|_| octets <= MAXIMUM_PAYLOAD_OCTETS)
            .ok_or(PowerlinkError::TooLong {
                needed: octets,
                fit: MAXIMUM_PAYLOAD_OCTETS,
            })?;
        writer.put(&[self.pdo_version, 0])?;
        writer.u16(size)?;
        writer.put(self.payload)
    }
}

impl<'a> Request<'a> {
    pub(super) fn parse(mut reader: Reader<'a>) -> Result<Self, PowerlinkError> {
        reader.skip(1)?;
        let flags = reader.u8()?;
        let second = reader.u8()?;
        Ok(Self {
            exception_acknowledge: flags & EA != 0,
            links: [second & FLS != 0, second & SLS != 0],
            poll: Poll::parse(flags, reader)?,
        })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) -> Result<(), PowerlinkError> {
        let flags = self.poll.flags() | bit(self.exception_acknowledge, EA);
        writer.put(&[0, flags, links(self.links)])?;
        self.poll.emit(writer)
    }
}

impl<'a> Response<'a> {
    pub(super) fn parse(mut reader: Reader<'a>) -> Result<Self, PowerlinkError> {
        let state = NmtState(reader.u8()?);
        let flags = reader.u8()?;
        Ok(Self {
            state,
            exception_new: flags & EN != 0,
            request: SendRequest::from_octet(reader.u8()?),
            poll: Poll::parse(flags, reader)?,
        })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) -> Result<(), PowerlinkError> {
        let flags = self.poll.flags() | bit(self.exception_new, EN);
        writer.put(&[self.state.0, flags, self.request.octet()])?;
        self.poll.emit(writer)
    }
}
