//! StatusResponse: a node's state and the list of its errors.

use super::PowerlinkError;
use super::bytes::{Reader, Writer, bit};
use super::codes::NmtState;
use super::poll::SendRequest;
use super::soc::NetTime;
use core::fmt;

pub(super) const EN: u8 = 0x10;
pub(super) const EC: u8 = 0x08;
/// Octets of one entry in the list of errors.
pub const ERROR_ENTRY_OCTETS: usize = 20;

/// A StatusResponse (DS 301, 7.3.3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Status<'a> {
    /// EN: new errors have been put in the list; toggles.
    pub exception_new: bool,
    /// EC: error signalling has begun anew; follows the managing node's ER.
    pub exception_clear: bool,
    /// Asynchronous frames that wait at the sender.
    pub request: SendRequest,
    /// The sender's state.
    pub state: NmtState,
    /// Errors that persist: octet 0 is the error register (object 1001h), octets 2 to 7 have the device's own
    /// meaning.
    pub static_errors: [u8; 8],
    /// The history of errors, newest last.
    pub errors: ErrorList<'a>,
}

impl<'a> Status<'a> {
    pub(super) fn parse(mut reader: Reader<'a>) -> Result<Self, PowerlinkError> {
        let flags = reader.u8()?;
        let request = SendRequest::from_octet(reader.u8()?);
        let state = NmtState(reader.u8()?);
        reader.skip(3)?;
        Ok(Self {
            exception_new: flags & EN != 0,
            exception_clear: flags & EC != 0,
            request,
            state,
            static_errors: reader.array()?,
            errors: ErrorList::new(reader.rest()),
        })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) -> Result<(), PowerlinkError> {
        let flags = bit(self.exception_new, EN) | bit(self.exception_clear, EC);
        writer.put(&[flags, self.request.octet(), self.state.0, 0, 0, 0])?;
        writer.put(&self.static_errors)?;
        writer.put(self.errors.bytes)
    }
}

/// A list of errors in its form on the wire. It ends with the frame, or with an entry of type 0.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct ErrorList<'a> {
    bytes: &'a [u8],
}

impl<'a> ErrorList<'a> {
    /// Returns the whole entries in `bytes`, up to the first of type 0.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        let whole = bytes
            .chunks_exact(ERROR_ENTRY_OCTETS)
            .take_while(|entry| entry.iter().take(2).any(|&octet| octet != 0))
            .count();
        Self {
            bytes: bytes.get(..whole * ERROR_ENTRY_OCTETS).unwrap_or_default(),
        }
    }

    /// The number of entries.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes.len() / ERROR_ENTRY_OCTETS
    }

    /// True if there is no entry.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The entries, in the order of the frame.
    pub fn iter(&self) -> impl Iterator<Item = ErrorEntry> + 'a {
        self.bytes
            .chunks_exact(ERROR_ENTRY_OCTETS)
            .filter_map(|bytes| ErrorEntry::parse(bytes).ok())
    }
}

impl fmt::Debug for ErrorList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// One entry of the list of errors (DS 301, 6.5.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ErrorEntry {
    /// The kind of the entry; 0 ends a list.
    ///
    /// - Bit 15: status (else history).
    /// - Bit 14: also for the emergency queue.
    /// - Bits 13 and 12: the mode (1 begins, 2 has ended, 3 has happened).
    /// - Bits 11 to 0: the profile (1 vendor, 2 communication).
    pub entry_type: u16,
    /// The error code, in the numbering of the profile (DS 301, appendix 3.9 for profile 2).
    pub code: u16,
    /// The time of the error.
    pub time: NetTime,
    /// Additional data; their meaning depends on the code.
    pub detail: [u8; 8],
}

impl ErrorEntry {
    /// 7002h: an error of POWERLINK itself has happened. It goes to the history and the emergency queue.
    pub const COMMUNICATION_OCCURRED: u16 = 0x7002;

    /// Reads an entry from the front of `bytes`.
    ///
    /// # Errors
    /// Fewer than 20 octets.
    pub fn parse(bytes: &[u8]) -> Result<Self, PowerlinkError> {
        let mut reader = Reader::new(bytes, "an error entry");
        Ok(Self {
            entry_type: reader.u16()?,
            code: reader.u16()?,
            time: NetTime::parse(&mut reader)?,
            detail: reader.array()?,
        })
    }

    /// Returns the entry's octets.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; ERROR_ENTRY_OCTETS] {
        let mut out = [0; ERROR_ENTRY_OCTETS];
        out[..2].copy_from_slice(&self.entry_type.to_le_bytes());
        out[2..4].copy_from_slice(&self.code.to_le_bytes());
        out[4..8].copy_from_slice(&self.time.seconds.to_le_bytes());
        out[8..12].copy_from_slice(&self.time.nanoseconds.to_le_bytes());
        out[12..].copy_from_slice(&self.detail);
        out
    }
}
