//! RTDiP, the real-time protocol of rtwire's channels: 16 octets, or 24 with a timestamp, before the user data.
//!
//! ```text
//!  0        1         2                  4             6            8          12     16          (24)
//!  version  priority  destination port   source port   data length  sequence   key    [time, ns]  data   (padding)
//!  flags
//! ```
//! All fields are in network byte order. `docs/rtdip.md` describes the protocol in full, for other implementations.

use crate::Pcp;
use core::fmt;

/// Octets of the header without a timestamp.
pub const HEADER_OCTETS: usize = 16;
/// Octets of the timestamp.
pub const TIME_OCTETS: usize = 8;
/// The protocol version that this module implements.
pub const VERSION: u8 = 1;
/// Flag: only the newest value matters (synchronization semantics).
pub const FLAG_NEWEST: u8 = 0x1;
/// Flag: the sender's transmit time follows the header.
pub const FLAG_TIME: u8 = 0x2;
/// The most user data, in octets, that fits a frame of the usual size with a timestamp, tagged or not.
pub const MAXIMUM_DATA_OCTETS: usize = 1500 - HEADER_OCTETS - TIME_OCTETS;

/// The receiver's way to treat several values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Semantics {
    /// Every value counts: a queue, most urgent first (send/receive semantics).
    #[default]
    Queue,
    /// Only the newest value counts (synchronization semantics).
    Newest,
}

/// The reason why bytes are not a valid RTDiP packet, or a packet cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtdipError {
    /// The packet is shorter than its header.
    Truncated {
        /// Octets needed.
        needed: usize,
        /// Octets found.
        found: usize,
    },
    /// The version is not [`VERSION`].
    Version {
        /// The version found.
        found: u8,
    },
    /// Some flags are unknown. They may change the layout, so the rest cannot be read.
    Flags {
        /// The unknown flags.
        unknown: u8,
    },
    /// The priority is above 7.
    Priority {
        /// The number found.
        found: u8,
    },
    /// The length field promises more user data than there are octets.
    Length {
        /// The value of the length field, octets.
        field: usize,
        /// Octets found behind the header.
        found: usize,
    },
    /// The user data are longer than 65535 octets, or do not fit the buffer.
    TooLong {
        /// Octets of user data.
        data: usize,
        /// Octets that fit.
        fit: usize,
    },
}

impl fmt::Display for RtdipError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated { needed, found } => write!(
                f,
                "truncated: the RTDiP header needs {needed} octets, there are {found}"
            ),
            Self::Version { found } => {
                write!(f, "RTDiP version {found} found, {VERSION} expected")
            }
            Self::Flags { unknown } => write!(f, "unknown RTDiP flags {unknown:#x}"),
            Self::Priority { found } => {
                write!(f, "priority {found} found, 0 to 7 expected")
            }
            Self::Length { field, found } => write!(
                f,
                "wrong length: the header says {field} octets of data, the frame has {found}"
            ),
            Self::TooLong { data, fit } => write!(
                f,
                "{data} octets of user data do not fit: send at most {fit} at once"
            ),
        }
    }
}

impl core::error::Error for RtdipError {}

/// A lenient view of a packet: every field of any 16 or more octets, without a judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    bytes: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Looks at `bytes`, which begin with the header; padding may follow.
    ///
    /// # Errors
    /// `bytes` has fewer than 16 octets.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Result<Self, RtdipError> {
        if bytes.len() < HEADER_OCTETS {
            return Err(RtdipError::Truncated {
                needed: HEADER_OCTETS,
                found: bytes.len(),
            });
        }
        Ok(Self { bytes })
    }

    /// Version, 0 to 15.
    #[inline]
    #[must_use]
    pub const fn version(&self) -> u8 {
        self.bytes[0] >> 4
    }

    /// Flags, 0 to 15.
    #[inline]
    #[must_use]
    pub const fn flags(&self) -> u8 {
        self.bytes[0] & 0x0f
    }

    /// The priority octet; it may be above 7.
    #[inline]
    #[must_use]
    pub const fn priority(&self) -> u8 {
        self.bytes[1]
    }

    /// Destination port.
    #[inline]
    #[must_use]
    pub const fn destination_port(&self) -> u16 {
        u16::from_be_bytes([self.bytes[2], self.bytes[3]])
    }

    /// Source port.
    #[inline]
    #[must_use]
    pub const fn source_port(&self) -> u16 {
        u16::from_be_bytes([self.bytes[4], self.bytes[5]])
    }

    /// The value of the length field: octets of user data.
    #[inline]
    #[must_use]
    pub const fn data_octets(&self) -> usize {
        u16::from_be_bytes([self.bytes[6], self.bytes[7]]) as usize
    }

    /// Sequence number.
    #[inline]
    #[must_use]
    pub const fn sequence(&self) -> u32 {
        u32::from_be_bytes([self.bytes[8], self.bytes[9], self.bytes[10], self.bytes[11]])
    }

    /// Channel key, 0 for none.
    #[inline]
    #[must_use]
    pub const fn key(&self) -> u32 {
        u32::from_be_bytes([
            self.bytes[12],
            self.bytes[13],
            self.bytes[14],
            self.bytes[15],
        ])
    }

    /// The sender's time, ns since the TAI epoch. `None` if the flags announce no timestamp, or it is cut off.
    #[inline]
    #[must_use]
    pub fn time_ns(&self) -> Option<u64> {
        if self.flags() & FLAG_TIME == 0 {
            return None;
        }
        let field = self.bytes.get(HEADER_OCTETS..HEADER_OCTETS + TIME_OCTETS)?;
        Some(u64::from_be_bytes(field.try_into().ok()?))
    }

    /// The user data, without padding. `None` if there are fewer octets than the length field says.
    #[inline]
    #[must_use]
    pub fn data(&self) -> Option<&'a [u8]> {
        let time = if self.flags() & FLAG_TIME == 0 {
            0
        } else {
            TIME_OCTETS
        };
        self.bytes
            .get(HEADER_OCTETS + time..)?
            .get(..self.data_octets())
    }
}

/// A valid header: the form that a sender writes and a receiver accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Semantics: queue or newest value.
    pub semantics: Semantics,
    /// Urgency.
    pub priority: Pcp,
    /// The receiver's port.
    pub destination_port: u16,
    /// The sender's port.
    pub source_port: u16,
    /// The packet's number among those of its sender in this channel; wraps.
    pub sequence: u32,
    /// Channel key, 0 for none.
    pub key: u32,
    /// The time at which the packet was sent, ns since the TAI epoch.
    pub time_ns: Option<u64>,
}

impl Header {
    /// Octets of this header: 16, or 24 with a timestamp.
    #[inline]
    #[must_use]
    pub const fn octets(&self) -> usize {
        HEADER_OCTETS
            + if self.time_ns.is_some() {
                TIME_OCTETS
            } else {
                0
            }
    }

    /// Reads a packet into its header and its user data. `bytes` begin with the header; padding may follow.
    ///
    /// # Errors
    /// The first thing that is wrong. The order is: truncated, version, flags, truncated timestamp, length, priority.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), RtdipError> {
        let packet = Packet::new(bytes)?;
        if packet.version() != VERSION {
            return Err(RtdipError::Version {
                found: packet.version(),
            });
        }
        let unknown = packet.flags() & !(FLAG_NEWEST | FLAG_TIME);
        if unknown != 0 {
            return Err(RtdipError::Flags { unknown });
        }
        let header_octets = if packet.flags() & FLAG_TIME == 0 {
            HEADER_OCTETS
        } else {
            HEADER_OCTETS + TIME_OCTETS
        };
        if bytes.len() < header_octets {
            return Err(RtdipError::Truncated {
                needed: header_octets,
                found: bytes.len(),
            });
        }
        let Some(data) = packet.data() else {
            return Err(RtdipError::Length {
                field: packet.data_octets(),
                found: bytes.len() - header_octets,
            });
        };
        let Some(priority) = Pcp::new(packet.priority()) else {
            return Err(RtdipError::Priority {
                found: packet.priority(),
            });
        };
        let header = Self {
            semantics: if packet.flags() & FLAG_NEWEST == 0 {
                Semantics::Queue
            } else {
                Semantics::Newest
            },
            priority,
            destination_port: packet.destination_port(),
            source_port: packet.source_port(),
            sequence: packet.sequence(),
            key: packet.key(),
            time_ns: packet.time_ns(),
        };
        Ok((header, data))
    }

    /// Writes header and user data to the front of `out`, without padding. Returns the octets of both together.
    ///
    /// # Errors
    /// [`RtdipError::TooLong`] if they do not fit `out`, or `data` is longer than the length field can tell.
    #[inline]
    pub fn emit(&self, data: &[u8], out: &mut [u8]) -> Result<usize, RtdipError> {
        let header_octets = self.octets();
        let room = out.len().saturating_sub(header_octets);
        let fit = room.min(usize::from(u16::MAX));
        let length = u16::try_from(data.len()).ok().filter(|_| data.len() <= fit);
        let (Some(length), Some(out)) = (length, out.get_mut(..header_octets + data.len())) else {
            return Err(RtdipError::TooLong {
                data: data.len(),
                fit,
            });
        };
        let newest = if self.semantics == Semantics::Newest {
            FLAG_NEWEST
        } else {
            0
        };
        let time = if self.time_ns.is_some() { FLAG_TIME } else { 0 };
        out[0] = VERSION << 4 | newest | time;
        out[1] = self.priority.get();
        out[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        out[4..6].copy_from_slice(&self.source_port.to_be_bytes());
        out[6..8].copy_from_slice(&length.to_be_bytes());
        out[8..12].copy_from_slice(&self.sequence.to_be_bytes());
        out[12..16].copy_from_slice(&self.key.to_be_bytes());
        if let Some(time_ns) = self.time_ns {
            out[HEADER_OCTETS..HEADER_OCTETS + TIME_OCTETS].copy_from_slice(&time_ns.to_be_bytes());
        }
        out[header_octets..].copy_from_slice(data);
        Ok(out.len())
    }
}
