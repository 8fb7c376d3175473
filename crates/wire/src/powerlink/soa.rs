//! Start of the asynchronous phase.

use super::PowerlinkError;
use super::bytes::{Reader, Writer, bit};
use super::codes::{NmtState, RequestedService};
use crate::MacAddress;

pub(super) const EA: u8 = 0x04;
pub(super) const ER: u8 = 0x02;

/// Start of the asynchronous phase (DS 301, 4.6.1.1.5): one node may send one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Soa {
    /// The managing node's state.
    pub state: NmtState,
    /// EA: the target's newest errors have been read.
    pub exception_acknowledge: bool,
    /// ER: the target is to begin its error signalling anew.
    pub exception_reset: bool,
    /// The service that the target may send.
    pub service: RequestedService,
    /// The node that may send; 0 for none.
    pub target: u8,
    /// The managing node's version of POWERLINK: [`VERSION`](super::VERSION).
    pub version: u8,
    /// The redundancies in use (EPSG DS 302-A): 1 of the managing node, 2 of cables, 4 of the ring.
    pub redundancy: u8,
    /// The fields of a SyncRequest; present with that service and no other.
    pub sync: Option<SyncRequest>,
}

/// A SyncRequest (EPSG DS 302-C): measures the delay to a node and sets its response time for PollResponse chaining.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SyncRequest {
    /// The valid fields: bits 0 to 5, in their order. Bit 30: leave chaining. Bit 31: enter chaining.
    pub control: u32,
    /// The node's response time, ns after the end of the managing node's PRes.
    pub response_time_first_ns: u32,
    /// The same on the second path of a ring.
    pub response_time_second_ns: u32,
    /// The delay from the managing node, ns.
    pub delay_first_ns: u32,
    /// The same on the second path of a ring.
    pub delay_second_ns: u32,
    /// The time without the managing node's PRes after which the node answers requests again, ns.
    pub fall_back_timeout_ns: u32,
    /// The node's own address.
    pub address: MacAddress,
}

impl SyncRequest {
    /// Octets of a SyncRequest's fields.
    pub const OCTETS: usize = 30;
    /// [`response_time_first_ns`](Self::response_time_first_ns) is valid.
    pub const RESPONSE_TIME_FIRST: u32 = 1;
    /// [`delay_first_ns`](Self::delay_first_ns) is valid.
    pub const DELAY_FIRST: u32 = 4;
    /// [`fall_back_timeout_ns`](Self::fall_back_timeout_ns) is valid.
    pub const FALL_BACK_TIMEOUT: u32 = 0x10;
    /// [`address`](Self::address) is valid.
    pub const ADDRESS: u32 = 0x20;
    /// The node is to leave chaining.
    pub const MODE_RESET: u32 = 0x4000_0000;
    /// The node is to enter chaining.
    pub const MODE_SET: u32 = 0x8000_0000;

    fn parse(mut reader: Reader<'_>) -> Result<Self, PowerlinkError> {
        Ok(Self {
            control: reader.u32()?,
            response_time_first_ns: reader.u32()?,
            response_time_second_ns: reader.u32()?,
            delay_first_ns: reader.u32()?,
            delay_second_ns: reader.u32()?,
            fall_back_timeout_ns: reader.u32()?,
            address: MacAddress(reader.array()?),
        })
    }

    fn emit(&self, writer: &mut Writer<'_>) -> Result<(), PowerlinkError> {
        writer.u32(self.control)?;
        writer.u32(self.response_time_first_ns)?;
        writer.u32(self.response_time_second_ns)?;
        writer.u32(self.delay_first_ns)?;
        writer.u32(self.delay_second_ns)?;
        writer.u32(self.fall_back_timeout_ns)?;
        writer.put(&self.address.0)
    }
}

impl Soa {
    pub(super) fn parse(mut reader: Reader<'_>) -> Result<Self, PowerlinkError> {
        let state = NmtState(reader.u8()?);
        let flags = reader.u8()?;
        reader.skip(1)?;
        let service = RequestedService(reader.u8()?);
        let target = reader.u8()?;
        let version = reader.u8()?;
        let redundancy = reader.u8()?;
        let sync = if service == RequestedService::SYNC_REQUEST {
            Some(SyncRequest::parse(reader)?)
        } else {
            None
        };
        Ok(Self {
            state,
            exception_acknowledge: flags & EA != 0,
            exception_reset: flags & ER != 0,
            service,
            target,
            version,
            redundancy,
            sync,
        })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) -> Result<(), PowerlinkError> {
        let flags = bit(self.exception_acknowledge, EA) | bit(self.exception_reset, ER);
        let service = self.service;
        writer.put(&[self.state.0, flags, 0, service.0, self.target])?;
        writer.put(&[self.version, self.redundancy])?;
        match self.sync {
            Some(sync) if service == RequestedService::SYNC_REQUEST => sync.emit(writer),
            None if service != RequestedService::SYNC_REQUEST => Ok(()),
            _ => Err(PowerlinkError::Inconsistent {
                what: "a SyncRequest needs sync fields, and no other service has them",
            }),
        }
    }
}
