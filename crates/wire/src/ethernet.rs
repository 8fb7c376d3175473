//! Ethernet II frames with at most one IEEE 802.1Q tag.

use crate::{MacAddress, Pcp};
use core::fmt;

/// Octets of an untagged header: two addresses and a type.
pub const HEADER_OCTETS: usize = 14;

/// What a frame carries. Unknown values are kept as they are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IEEE local experimental 1, which RTDiP uses unless told otherwise.
    pub const RTDIP: Self = Self(0x88B5);
    /// Ethernet POWERLINK, version 2.
    pub const POWERLINK: Self = Self(0x88AB);
    /// IPv4.
    pub const IPV4: Self = Self(0x0800);
    /// A customer VLAN tag follows.
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

/// The tag control information of IEEE 802.1Q.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VlanTag {
    /// Priority code point.
    pub pcp: Pcp,
    /// Drop eligible.
    pub dei: bool,
    /// VLAN identifier, 12 bits: 0 for a tag that carries only a priority; 4095 is reserved.
    pub vid: u16,
}

impl VlanTag {
    /// A tag with its drop-eligible bit clear; `None` if `vid` is above 4094.
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

    /// The 16 bits on the wire. Bits of `vid` above the twelfth are left out.
    #[must_use]
    pub const fn to_bits(self) -> u16 {
        ((self.pcp.get() as u16) << 13) | ((self.dei as u16) << 12) | (self.vid & 0x0fff)
    }

    /// The meaning of 16 bits; every value has one.
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

/// Why bytes are no Ethernet frame, or a header does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EthernetError {
    /// The frame, or the place to write it to, is too short.
    Truncated {
        /// Octets needed.
        needed: usize,
        /// Octets there.
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

    /// Where the frame goes.
    #[inline]
    #[must_use]
    pub fn destination(&self) -> MacAddress {
        MacAddress(self.array(0))
    }

    /// Who sent it.
    #[inline]
    #[must_use]
    pub fn source(&self) -> MacAddress {
        MacAddress(self.array(6))
    }

    /// Its VLAN tag, if it has one.
    #[must_use]
    pub fn vlan(&self) -> Option<VlanTag> {
        self.tagged
            .then(|| VlanTag::from_bits(u16::from_be_bytes(self.array(14))))
    }

    /// What it carries, behind the tag.
    #[must_use]
    pub fn ether_type(&self) -> EtherType {
        EtherType(u16::from_be_bytes(self.array(if self.tagged {
            16
        } else {
            12
        })))
    }

    /// Everything behind the header, with any padding.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[HEADER_OCTETS + if self.tagged { 4 } else { 0 }..]
    }

    /// `N` octets from `at`; `new` has made sure that every header field is there.
    #[inline]
    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut out = [0; N];
        out.copy_from_slice(&self.bytes[at..at + N]);
        out
    }
}

/// The header of a frame that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Where the frame goes.
    pub destination: MacAddress,
    /// Who sends it.
    pub source: MacAddress,
    /// Its VLAN tag, if it is to have one.
    pub vlan: Option<VlanTag>,
    /// What it carries.
    pub ether_type: EtherType,
}

impl Header {
    /// Octets of this header: 14, or 18 with a tag.
    #[must_use]
    pub const fn octets(&self) -> usize {
        HEADER_OCTETS + if self.vlan.is_some() { 4 } else { 0 }
    }

    /// Writes the header to the front of `out`; gives its length.
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
