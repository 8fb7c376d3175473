//! Every field of any bytes, without a judgement.

use super::codes::{AsndService, MessageType, NmtState, RequestedService};
use super::poll::{EN, MS, RD, SendRequest};
use crate::{EtherType, MacAddress};

/// A lenient view of a frame: any bytes at all. Missing fields are `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<'a> {
    frame: &'a [u8],
}

impl<'a> View<'a> {
    /// Looks at `frame`: Ethernet header and payload, without FCS.
    #[must_use]
    pub const fn new(frame: &'a [u8]) -> Self {
        Self { frame }
    }

    /// The bytes of the frame.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.frame
    }

    /// The octet at `at`.
    #[must_use]
    pub fn u8_at(&self, at: usize) -> Option<u8> {
        self.frame.get(at).copied()
    }

    /// Returns the little-endian number of `octets` octets at `at`; of more than 8 octets, only the first 8 count.
    #[must_use]
    pub fn number_at(&self, at: usize, octets: usize) -> Option<u64> {
        let bytes = self.frame.get(at..at.checked_add(octets)?)?;
        let mut number = [0; 8];
        for (to, from) in number.iter_mut().zip(bytes) {
            *to = *from;
        }
        Some(u64::from_le_bytes(number))
    }

    /// True for a POWERLINK frame with at least its header.
    #[must_use]
    pub fn is_powerlink(&self) -> bool {
        self.frame.len() >= super::HEADER_OCTETS
            && self.frame.get(12..14) == Some(&EtherType::POWERLINK.0.to_be_bytes())
    }

    /// The address of the sending interface.
    #[must_use]
    pub fn source_address(&self) -> Option<MacAddress> {
        Some(MacAddress(self.frame.get(6..12)?.try_into().ok()?))
    }

    /// The message type.
    #[must_use]
    pub fn message_type(&self) -> Option<MessageType> {
        self.u8_at(14).map(|octet| MessageType(octet & 0x7f))
    }

    /// The node that the frame is for.
    #[must_use]
    pub fn destination(&self) -> Option<u8> {
        self.u8_at(15)
    }

    /// The node that sent the frame.
    #[must_use]
    pub fn source(&self) -> Option<u8> {
        self.u8_at(16)
    }

    /// The sender's state, in messages with that field.
    #[must_use]
    pub fn state(&self) -> Option<NmtState> {
        match self.message_type()? {
            MessageType::PRES | MessageType::SOA | MessageType::AINV => {
                self.u8_at(17).map(NmtState)
            }
            MessageType::ASND => match self.asnd_service()? {
                AsndService::IDENT_RESPONSE | AsndService::STATUS_RESPONSE => {
                    self.u8_at(20).map(NmtState)
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The service of an ASnd.
    #[must_use]
    pub fn asnd_service(&self) -> Option<AsndService> {
        (self.message_type()? == MessageType::ASND).then_some(())?;
        self.u8_at(17).map(AsndService)
    }

    /// The service that an SoA asks for, and its target node.
    #[must_use]
    pub fn requested(&self) -> Option<(RequestedService, u8)> {
        (self.message_type()? == MessageType::SOA).then_some(())?;
        Some((RequestedService(self.u8_at(20)?), self.u8_at(21)?))
    }

    /// The asynchronous frames that wait at the sender, in messages with that field.
    #[must_use]
    pub fn send_request(&self) -> Option<SendRequest> {
        let told = match self.message_type()? {
            MessageType::PRES => true,
            MessageType::ASND => matches!(
                self.asnd_service()?,
                AsndService::IDENT_RESPONSE | AsndService::STATUS_RESPONSE
            ),
            _ => false,
        };
        told.then_some(())?;
        self.u8_at(19).map(SendRequest::from_octet)
    }

    /// True if a PReq or PRes marks its data as valid.
    #[must_use]
    pub fn ready(&self) -> Option<bool> {
        self.poll_flags().map(|flags| flags & RD != 0)
    }

    /// True if a PReq or PRes belongs to a multiplexed slot.
    #[must_use]
    pub fn multiplexed(&self) -> Option<bool> {
        self.poll_flags().map(|flags| flags & MS != 0)
    }

    /// The EN flag of a PRes.
    #[must_use]
    pub fn exception_new(&self) -> Option<bool> {
        (self.message_type()? == MessageType::PRES).then_some(())?;
        self.u8_at(18).map(|flags| flags & EN != 0)
    }

    /// The value of the size field of a PReq or PRes, octets.
    #[must_use]
    pub fn payload_octets(&self) -> Option<usize> {
        self.poll_flags()?;
        self.number_at(22, 2).map(|number| number as usize)
    }

    /// The process data of a PReq or PRes: as many octets as the size field says, or as there are.
    #[must_use]
    pub fn payload(&self) -> Option<&'a [u8]> {
        let rest = self.frame.get(24..)?;
        Some(rest.get(..self.payload_octets()?).unwrap_or(rest))
    }

    fn poll_flags(&self) -> Option<u8> {
        match self.message_type()? {
            MessageType::PREQ | MessageType::PRES => self.u8_at(18),
            _ => None,
        }
    }
}
