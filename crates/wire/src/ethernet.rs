//! Ethernet II frames with at most one IEEE 802.1Q tag.

use crate::{MacAddress, Pcp};
use core::fmt;

/// Octets of an untagged header: two addresses and a type.
pub const HEADER_OCTETS: usize = 14;

/// The type of a frame's payload. Unknown values are kept as they are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IEEE local experimental 1: the default EtherType of RTDiP.
    pub const RTDIP: Self = Self(0x88B5);
    /// Ethernet POWERLINK, version 2.
    pub const POWERLINK: Self = Self(0x88AB);
    /// OPC UA PubSub in its binary form (UADP).
    pub const UADP: Self = Self(0xB62C);
    /// IPv4.
    pub const IPV4: Self = Self(0x0800);
    /// The mark of a customer VLAN tag (C-TAG), which follows it.
    pub const VLAN: Self = Self(0x8100);
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:04X}", self.0)
    }
}

impl fmt::Debug for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The tag control information (TCI) of IEEE 802.1Q.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VlanTag {
    /// Priority code point.
    pub pcp: Pcp,
    /// Drop eligible indicator.
    pub dei: bool,
    /// VLAN identifier, 12 bits: 0 for a tag that carries only a priority; 4095 is reserved.
    pub vid: u16,
}

impl VlanTag {
    /// Returns a tag with its drop-eligible bit clear; `None` if `vid` is above 4094.
    #[must_use]
    pub const fn new(pcp: Pcp, vid: u16) -> Option<Self> {
        if vid > 4094 {
            return None;
        }
        Some(Self {
            pcp,
            dei: false,
            vid,
        })
    }

    /// Returns the 16 bits on the wire. Bits of `vid` above the twelfth are left out.
    #[must_use]
    pub const fn to_bits(self) -> u16 {
        ((self.pcp.get() as u16) << 13) | ((self.dei as u16) << 12) | (self.vid & 0x0fff)
    }

    /// Reads the 16 bits of a tag; every value is valid.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        let pcp = match Pcp::new((bits >> 13) as u8) {
            Some(pcp) => pcp,
            // Three bits are at most 7.
            None => Pcp::HIGHEST,
        };
        Self {
            pcp,
            dei: bits & 0x1000 != 0,
            vid: bits & 0x0fff,
        }
    }
}

/// The reason why bytes are no Ethernet frame, or a header does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EthernetError {
    /// The frame is too short, or the buffer for it.
    Truncated {
        /// Octets needed.
        needed: usize,
        /// Octets found.
        found: usize,
    },
}

impl fmt::Display for EthernetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { needed, found } => write!(
                f,
                "an Ethernet header needs {needed} octets, there are {found}"
            ),
        }
    }
}

impl core::error::Error for EthernetError {}

/// A lenient view of a frame, from its destination address on, without the frame check sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    bytes: &'a [u8],
    tagged: bool,
}

impl<'a> Frame<'a> {
    /// Looks at `bytes` as a frame.
    ///
    /// # Errors
    /// Fewer than 14 octets, or fewer than 18 where a VLAN tag is announced.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, EthernetError> {
        let short = |needed| EthernetError::Truncated {
            needed,
            found: bytes.len(),
        };
        if bytes.len() < HEADER_OCTETS {
            return Err(short(HEADER_OCTETS));
        }
        let tagged = bytes[12..14] == EtherType::VLAN.0.to_be_bytes();
        if tagged && bytes.len() < HEADER_OCTETS + 4 {
            return Err(short(HEADER_OCTETS + 4));
        }
        Ok(Self { bytes, tagged })
    }

    /// The destination's MAC address.
    #[inline]
    #[must_use]
    pub fn destination(&self) -> MacAddress {
        MacAddress(self.array(0))
    }

    /// The sender's MAC address.
    #[inline]
    #[must_use]
    pub fn source(&self) -> MacAddress {
        MacAddress(self.array(6))
    }

    /// The VLAN tag, if there is one.
    #[must_use]
    pub fn vlan(&self) -> Option<VlanTag> {
        self.tagged
            .then(|| VlanTag::from_bits(u16::from_be_bytes(self.array(14))))
    }

    /// The type of the payload, from behind the VLAN tag.
    #[must_use]
    pub fn ether_type(&self) -> EtherType {
        EtherType(u16::from_be_bytes(self.array(if self.tagged {
            16
        } else {
            12
        })))
    }

    /// Everything behind the header, including padding.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[HEADER_OCTETS + if self.tagged { 4 } else { 0 }..]
    }

    /// Returns `N` octets from `at`. `new` has checked that every header field is there.
    #[inline]
    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut out = [0; N];
        out.copy_from_slice(&self.bytes[at..at + N]);
        out
    }
}

/// The header of a frame to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The destination's MAC address.
    pub destination: MacAddress,
    /// The sender's MAC address.
    pub source: MacAddress,
    /// The VLAN tag, if the frame has one.
    pub vlan: Option<VlanTag>,
    /// The type of the payload.
    pub ether_type: EtherType,
}

impl Header {
    /// Octets of this header: 14, or 18 with a tag.
    #[must_use]
    pub const fn octets(&self) -> usize {
        HEADER_OCTETS + if self.vlan.is_some() { 4 } else { 0 }
    }

    /// Writes the header to the front of `out` and returns its length in octets.
    ///
    /// # Errors
    /// `out` is shorter than [`octets`](Self::octets).
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, EthernetError> {
        let needed = self.octets();
        let found = out.len();
        let Some(out) = out.get_mut(..needed) else {
            return Err(EthernetError::Truncated { needed, found });
        };
        out[..6].copy_from_slice(&self.destination.0);
        out[6..12].copy_from_slice(&self.source.0);
        let mut at = 12;
        if let Some(tag) = self.vlan {
            out[12..14].copy_from_slice(&EtherType::VLAN.0.to_be_bytes());
            out[14..16].copy_from_slice(&tag.to_bits().to_be_bytes());
            at = 16;
        }
        out[at..at + 2].copy_from_slice(&self.ether_type.0.to_be_bytes());
        Ok(needed)
    }
}
