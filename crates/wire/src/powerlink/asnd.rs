//! Asynchronous messages (ASnd): their kinds, IdentResponse and SyncResponse.

use super::PowerlinkError;
use super::bytes::{Reader, Writer, bit};
use super::codes::{AsndService, NmtState};
use super::nmt::{NmtCommand, NmtRequest};
use super::poll::SendRequest;
use super::sdo::Sdo;
use super::status::{EC, EN, Status};

/// An asynchronous message (DS 301, 4.6.1.1.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asnd<'a> {
    /// IdentResponse: a node's identity and abilities.
    Ident(Ident),
    /// StatusResponse: a node's state and errors.
    Status(Status<'a>),
    /// NMTRequest: a node asks the managing node for a command.
    NmtRequest(NmtRequest<'a>),
    /// NMTCommand: an order of the managing node to other nodes.
    NmtCommand(NmtCommand<'a>),
    /// Service data.
    Sdo(Sdo<'a>),
    /// The answer to a SyncRequest.
    SyncResponse(SyncResponse),
    /// Any other service; its data include any padding.
    Other {
        /// The service's number, not one of the above.
        service: AsndService,
        /// The data behind the service's number.
        data: &'a [u8],
    },
}

impl<'a> Asnd<'a> {
    /// Returns the service's number on the wire.
    #[must_use]
    pub const fn service(&self) -> AsndService {
        match self {
            Self::Ident(_) => AsndService::IDENT_RESPONSE,
            Self::Status(_) => AsndService::STATUS_RESPONSE,
            Self::NmtRequest(_) => AsndService::NMT_REQUEST,
            Self::NmtCommand(_) => AsndService::NMT_COMMAND,
            Self::Sdo(_) => AsndService::SDO,
            Self::SyncResponse(_) => AsndService::SYNC_RESPONSE,
            Self::Other { service, .. } => *service,
        }
    }

    pub(super) fn parse(mut reader: Reader<'a>) -> Result<Self, PowerlinkError> {
        let service = AsndService(reader.u8()?);
        Ok(match service {
            AsndService::IDENT_RESPONSE => {
                Self::Ident(Ident::parse(reader.named("IdentResponse"))?)
            }
            AsndService::STATUS_RESPONSE => {
                Self::Status(Status::parse(reader.named("StatusResponse"))?)
            }
            AsndService::NMT_REQUEST => {
                Self::NmtRequest(NmtRequest::parse(reader.named("NMTRequest"))?)
            }
            AsndService::NMT_COMMAND => {
                Self::NmtCommand(NmtCommand::parse(reader.named("NMTCommand"))?)
            }
            AsndService::SDO => Self::Sdo(Sdo::parse_after_service(reader.named("SDO"))?),
            AsndService::SYNC_RESPONSE => {
                Self::SyncResponse(SyncResponse::parse(reader.named("SyncResponse"))?)
            }
            service => Self::Other {
                service,
                data: reader.rest(),
            },
        })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) -> Result<(), PowerlinkError> {
        writer.put(&[self.service().0])?;
        match self {
            Self::Ident(ident) => ident.emit(writer),
            Self::Status(status) => status.emit(writer),
            Self::NmtRequest(request) => request.emit(writer),
            Self::NmtCommand(command) => command.emit(writer),
            Self::Sdo(sdo) => sdo.emit_after_service(writer),
            Self::SyncResponse(response) => response.emit(writer),
            Self::Other { data, .. } => writer.put(data),
        }
    }
}

/// An IdentResponse (DS 301, 7.3.3.2.1): a node's identity and abilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ident {
    /// EN, as in a StatusResponse.
    pub exception_new: bool,
    /// EC, as in a StatusResponse.
    pub exception_clear: bool,
    /// Asynchronous frames that wait at the sender.
    pub request: SendRequest,
    /// The sender's state.
    pub state: NmtState,
    /// Flags of the response itself; 0 in DS 301.
    pub flags: u8,
    /// The version of POWERLINK that the node implements.
    pub version: u8,
    /// The node's features (object 1F82h).
    pub feature_flags: u32,
    /// The longest asynchronous frame without Ethernet header and FCS, octets.
    pub mtu: u16,
    /// Process data in the node's PReq, octets.
    pub poll_in_octets: u16,
    /// Process data in the node's PRes, octets.
    pub poll_out_octets: u16,
    /// The longest time from PReq to PRes, ns.
    pub response_time_ns: u32,
    /// Object 1000h: the low half is the device profile, the high half additional information.
    pub device_type: u32,
    /// Object 1018h/1.
    pub vendor_id: u32,
    /// Object 1018h/2.
    pub product_code: u32,
    /// Object 1018h/3.
    pub revision_number: u32,
    /// Object 1018h/4.
    pub serial_number: u32,
    /// Data with a meaning of the vendor's own.
    pub vendor_extension_1: u64,
    /// Object 1020h/1: the configuration's date, days since 1984.
    pub configuration_date: u32,
    /// Object 1020h/2: the configuration's time, ms since midnight.
    pub configuration_time: u32,
    /// Object 1F52h/1: the application's date, days since 1984.
    pub application_date: u32,
    /// Object 1F52h/2: the application's time, ms since midnight.
    pub application_time: u32,
    /// IPv4 address, first part first.
    pub ip_address: [u8; 4],
    /// IPv4 mask of the network.
    pub subnet_mask: [u8; 4],
    /// IPv4 address of the router.
    pub default_gateway: [u8; 4],
    /// The host name, filled up with zeros.
    pub host_name: [u8; 32],
    /// Data with a meaning of the vendor's own.
    pub vendor_extension_2: [u8; 48],
}

impl Default for Ident {
    fn default() -> Self {
        Self {
            exception_new: false,
            exception_clear: false,
            request: SendRequest::NONE,
            state: NmtState::default(),
            flags: 0,
            version: super::VERSION,
            feature_flags: 0,
            mtu: 0,
            poll_in_octets: 0,
            poll_out_octets: 0,
            response_time_ns: 0,
            device_type: 0,
            vendor_id: 0,
            product_code: 0,
            revision_number: 0,
            serial_number: 0,
            vendor_extension_1: 0,
            configuration_date: 0,
            configuration_time: 0,
            application_date: 0,
            application_time: 0,
            ip_address: [0; 4],
            subnet_mask: [0; 4],
            default_gateway: [0; 4],
            host_name: [0; 32],
            vendor_extension_2: [0; 48],
        }
    }
}

impl Ident {
    pub(super) fn parse(mut r: Reader<'_>) -> Result<Self, PowerlinkError> {
        let first = r.u8()?;
        let request = SendRequest::from_octet(r.u8()?);
        let state = NmtState(r.u8()?);
        let flags = r.u8()?;
        let version = r.u8()?;
        r.skip(1)?;
        let feature_flags = r.u32()?;
        let mtu = r.u16()?;
        let poll_in_octets = r.u16()?;
        let poll_out_octets = r.u16()?;
        let response_time_ns = r.u32()?;
        r.skip(2)?;
        Ok(Self {
            exception_new: first & EN != 0,
            exception_clear: first & EC != 0,
            request,
            state,
            flags,
            version,
            feature_flags,
            mtu,
            poll_in_octets,
            poll_out_octets,
            response_time_ns,
            device_type: r.u32()?,
            vendor_id: r.u32()?,
            product_code: r.u32()?,
            revision_number: r.u32()?,
            serial_number: r.u32()?,
            vendor_extension_1: r.u64()?,
            configuration_date: r.u32()?,
            configuration_time: r.u32()?,
            application_date: r.u32()?,
            application_time: r.u32()?,
            ip_address: r.u32()?.to_be_bytes(),
            subnet_mask: r.u32()?.to_be_bytes(),
            default_gateway: r.u32()?.to_be_bytes(),
            host_name: r.array()?,
            vendor_extension_2: r.array()?,
        })
    }

    pub(super) fn emit(&self, w: &mut Writer<'_>) -> Result<(), PowerlinkError> {
        let first = bit(self.exception_new, EN) | bit(self.exception_clear, EC);
        w.put(&[first, self.request.octet(), self.state.0])?;
        w.put(&[self.flags, self.version, 0])?;
        w.u32(self.feature_flags)?;
        w.u16(self.mtu)?;
        w.u16(self.poll_in_octets)?;
        w.u16(self.poll_out_octets)?;
        w.u32(self.response_time_ns)?;
        w.zeros::<2>()?;
        for value in [
            self.device_type,
            self.vendor_id,
            self.product_code,
            self.revision_number,
            self.serial_number,
        ] {
            w.u32(value)?;
        }
        w.u64(self.vendor_extension_1)?;
        for value in [
            self.configuration_date,
            self.configuration_time,
            self.application_date,
            self.application_time,
            u32::from_be_bytes(self.ip_address),
            u32::from_be_bytes(self.subnet_mask),
            u32::from_be_bytes(self.default_gateway),
        ] {
            w.u32(value)?;
        }
        w.put(&self.host_name)?;
        w.put(&self.vendor_extension_2)
    }
}

/// A SyncResponse (EPSG DS 302-C).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SyncResponse {
    /// Bits 0 and 1: first and second response time are set; bit 31: the node answers by chaining.
    pub status: u32,
    /// The time from the end of the request to the response, ns.
    pub latency_ns: u32,
    /// The node whose SyncResponse was received last.
    pub delay_node: u32,
    /// The time from the SyncRequest to that response, ns.
    pub delay_ns: u32,
    /// The node's response time, ns after the end of the managing node's PRes.
    pub response_time_first_ns: u32,
    /// The same on the second path of a ring.
    pub response_time_second_ns: u32,
}

impl SyncResponse {
    /// The node answers by chaining.
    pub const MODE: u32 = 0x8000_0000;

    pub(super) fn parse(mut reader: Reader<'_>) -> Result<Self, PowerlinkError> {
        reader.skip(2)?;
        Ok(Self {
            status: reader.u32()?,
            latency_ns: reader.u32()?,
            delay_node: reader.u32()?,
            delay_ns: reader.u32()?,
            response_time_first_ns: reader.u32()?,
            response_time_second_ns: reader.u32()?,
        })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) -> Result<(), PowerlinkError> {
        writer.zeros::<2>()?;
        for value in [
            self.status,
            self.latency_ns,
            self.delay_node,
            self.delay_ns,
            self.response_time_first_ns,
            self.response_time_second_ns,
        ] {
            writer.u32(value)?;
        }
        Ok(())
    }
}
