//! The security header of a NetworkMessage, and the place of what is encrypted and signed.

use super::UadpError;
use super::bytes::{Reader, Writer, bit};

pub(super) const SIGNED: u8 = 0x01;
pub(super) const ENCRYPTED: u8 = 0x02;
pub(super) const FOOTER: u8 = 0x04;
pub(super) const KEY_RESET: u8 = 0x08;

/// The security header (Part 14, table 154): it tells how the message is protected and by which key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct SecurityHeader<'a> {
    /// A signature ends the message.
    pub signed: bool,
    /// The payload is encrypted.
    pub encrypted: bool,
    /// All keys become invalid, so new ones have to be fetched.
    pub force_key_reset: bool,
    /// The key's identifier in its security group.
    pub token_id: u32,
    /// The nonce, at most 255 octets; 8 for AES-CTR.
    pub nonce: &'a [u8],
    /// The octets of the security footer, if its size is told.
    pub footer_octets: Option<u16>,
}

impl<'a> SecurityHeader<'a> {
    /// Returns the octets of this header, which end the message's header.
    #[must_use]
    pub const fn octets(&self) -> usize {
        let footer = if self.footer_octets.is_some() { 2 } else { 0 };
        6 + self.nonce.len() + footer
    }

    pub(super) fn parse(reader: &mut Reader<'a>) -> Result<Self, UadpError> {
        let at = reader.offset();
        let flags = reader.u8("SecurityFlags")?;
        if flags & 0xf0 != 0 {
            return Err(UadpError::Reserved {
                what: "SecurityFlags",
                at,
                found: u64::from(flags),
            });
        }
        let token_id = reader.u32("SecurityTokenId")?;
        let octets = reader.u8("NonceLength")?;
        let nonce = reader.take("MessageNonce", usize::from(octets))?;
        let footer_octets = if flags & FOOTER != 0 {
            Some(reader.u16("SecurityFooterSize")?)
        } else {
            None
        };
        Ok(Self {
            signed: flags & SIGNED != 0,
            encrypted: flags & ENCRYPTED != 0,
            force_key_reset: flags & KEY_RESET != 0,
            token_id,
            nonce,
            footer_octets,
        })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) -> Result<(), UadpError> {
        let Ok(octets) = u8::try_from(self.nonce.len()) else {
            return Err(UadpError::TooLong {
                needed: self.nonce.len(),
                fit: usize::from(u8::MAX),
            });
        };
        writer.u8(bit(self.signed, SIGNED)
            | bit(self.encrypted, ENCRYPTED)
            | bit(self.footer_octets.is_some(), FOOTER)
            | bit(self.force_key_reset, KEY_RESET))?;
        writer.u32(self.token_id)?;
        writer.u8(octets)?;
        writer.put(self.nonce)?;
        self.footer_octets
            .map_or(Ok(()), |octets| writer.u16(octets))
    }
}

/// The parts of a message behind its header.
///
/// ```text
///  header │ payload │ footer │ signature
///         └encrypted┘
///  └────────signed──────────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The offset of the payload: the header's octets.
    pub payload_at: usize,
    /// The offset of the security footer: the payload's end.
    pub footer_at: usize,
    /// The offset of the signature: the end of what is signed.
    pub signature_at: usize,
    /// The message's octets.
    pub octets: usize,
}

impl Envelope {
    /// Finds the parts of a message of `octets` octets, of which the first `payload_at` are its header.
    ///
    /// `signature_octets` is the length of a signature: a property of the security policy, which no field tells. It
    /// counts only if the header says that the message is signed.
    ///
    /// # Errors
    /// The message is too short for its footer and signature.
    pub fn new(
        security: Option<&SecurityHeader<'_>>,
        payload_at: usize,
        octets: usize,
        signature_octets: usize,
    ) -> Result<Self, UadpError> {
        let (footer, signature) = match security {
            Some(security) => (
                usize::from(security.footer_octets.unwrap_or(0)),
                if security.signed { signature_octets } else { 0 },
            ),
            None => (0, 0),
        };
        let left = octets.saturating_sub(payload_at);
        let needed = footer.saturating_add(signature);
        if needed > left {
            return Err(UadpError::Truncated {
                what: "security footer and signature",
                at: payload_at,
                needed,
                found: left,
            });
        }
        Ok(Self {
            payload_at,
            footer_at: octets - needed,
            signature_at: octets - signature,
            octets,
        })
    }

    /// Returns the payload of the message.
    #[must_use]
    pub fn payload<'a>(&self, message: &'a [u8]) -> &'a [u8] {
        message
            .get(self.payload_at..self.footer_at)
            .unwrap_or_default()
    }

    /// Returns the security footer.
    #[must_use]
    pub fn footer<'a>(&self, message: &'a [u8]) -> &'a [u8] {
        message
            .get(self.footer_at..self.signature_at)
            .unwrap_or_default()
    }

    /// Returns the signed part of the message.
    #[must_use]
    pub fn signed<'a>(&self, message: &'a [u8]) -> &'a [u8] {
        message.get(..self.signature_at).unwrap_or_default()
    }

    /// Returns the signature.
    #[must_use]
    pub fn signature<'a>(&self, message: &'a [u8]) -> &'a [u8] {
        message
            .get(self.signature_at..self.octets)
            .unwrap_or_default()
    }
}
