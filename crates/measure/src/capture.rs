//! Captures of frames: reads pcap and pcapng, writes pcapng.
//!
//! The reader names the offset in bytes at which a damaged file is damaged. It keeps whole nanoseconds, whatever the
//! file's resolution. It reads a file of any size with the memory of one packet.
//!
//! ```
//! use rtwire_measure::capture::{Reader, Recorded, Writer};
//!
//! let mut file = Vec::new();
//! let mut writer = Writer::new(&mut file, 1)?;
//! writer.packet(&Recorded { time_ns: 1_000, data: &[0; 60], original_octets: 60, comment: "the first" })?;
//! let mut reader = Reader::new(&file[..])?;
//! let packet = reader.next_packet()?.ok_or("empty")?;
//! assert_eq!((packet.number, packet.time_ns, packet.data.len()), (1, Some(1_000), 60));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Limits: a packet of more than 256 KiB or a block of more than 16 MiB counts as damage. Compressed files are
//! refused.

mod pcap;
mod pcapng;
mod source;
#[cfg(test)]
mod tests;
mod write;

use std::io::{self, Read};

use source::Source;
pub use write::{Recorded, Writer};

/// Ethernet (LINKTYPE_ETHERNET): a packet begins with the destination address.
pub const LINK_ETHERNET: u16 = 1;
/// Linux "any" captures, version 1 (LINKTYPE_LINUX_SLL).
pub const LINK_LINUX_SLL: u16 = 113;
/// Linux "any" captures, version 2 (LINKTYPE_LINUX_SLL2).
pub const LINK_LINUX_SLL2: u16 = 276;

/// The longest packet in bytes; tcpdump and Wireshark have the same limit.
const MAXIMUM_PACKET_OCTETS: u32 = 262_144;

/// The file format of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// pcap with timestamps in microseconds.
    PcapMicroseconds,
    /// pcap with timestamps in nanoseconds.
    PcapNanoseconds,
    /// pcapng; each interface has a resolution of its own.
    Pcapng,
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::PcapMicroseconds => "pcap, microseconds",
            Self::PcapNanoseconds => "pcap, nanoseconds",
            Self::Pcapng => "pcapng",
        })
    }
}

/// An error in a capture, with its place. Offsets count bytes from the start of the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The file could not be read.
    #[error("at byte {offset}: {source}")]
    Read {
        /// Number of bytes read before the error.
        offset: u64,
        /// The operating system's error.
        source: io::Error,
    },
    /// The file does not begin like a capture.
    #[error("this is neither pcap nor pcapng: it begins with {found}{hint}")]
    NotACapture {
        /// Its first bytes, in hexadecimal.
        found: String,
        /// A guess at the real format, and what to do.
        hint: &'static str,
    },
    /// The file ends within a header, packet or block.
    #[error(
        "at byte {offset}: the file ends within {what}: {needed} bytes are needed, {found} are there; it was cut off, or is still being written"
    )]
    CutOff {
        /// The start of the part that is cut off.
        offset: u64,
        /// The name of that part.
        what: &'static str,
        /// The length of that part in bytes.
        needed: u64,
        /// The number of bytes present.
        found: u64,
    },
    /// A field of the file has an impossible value.
    #[error("at byte {offset}: {what}; the file is damaged from here on")]
    Damaged {
        /// The field's place.
        offset: u64,
        /// The found value and the possible ones.
        what: String,
    },
}

/// One packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Its number as Wireshark shows it, from 1.
    pub number: u64,
    /// Its capture time in ns since 1970-01-01 UTC; `None` if the file contains none.
    pub time_ns: Option<u64>,
    /// The type of its first header, for example [`LINK_ETHERNET`].
    pub link_type: u16,
    /// Its captured bytes, without FCS.
    pub data: &'a [u8],
    /// Its length on the link in bytes, as the file states it, without FCS.
    pub original_octets: u32,
}

enum Kind {
    Pcap(pcap::Pcap),
    Pcapng(pcapng::Pcapng),
}

/// Reads a capture packet by packet. After an error nothing more can be read.
pub struct Reader<R> {
    source: Source<R>,
    kind: Kind,
    format: Format,
    number: u64,
}

impl<R> std::fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("format", &self.format)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl<R: Read> Reader<R> {
    /// Begins to read. `input` should be buffered.
    ///
    /// # Errors
    /// [`CaptureError`] if the file does not begin like a capture or ends within its first header.
    pub fn new(input: R) -> Result<Self, CaptureError> {
        let mut source = Source::new(input);
        let mut magic = [0; 4];
        source.exactly(&mut magic, "its first four bytes")?;
        let (kind, format) = if u32::from_le_bytes(magic) == pcapng::SECTION {
            (
                Kind::Pcapng(pcapng::Pcapng::begin(&mut source)?),
                Format::Pcapng,
            )
        } else {
            let (pcap, format) = pcap::Pcap::begin(magic, &mut source)?;
            (Kind::Pcap(pcap), format)
        };
        Ok(Self {
            source,
            kind,
            format,
            number: 0,
        })
    }

    /// Returns the file format.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns the next packet; `None` at the end of the file.
    ///
    /// # Errors
    /// [`CaptureError`] if the file cannot be read, is cut off or is damaged; the offset names the place.
    pub fn next_packet(&mut self) -> Result<Option<Packet<'_>>, CaptureError> {
        let found = match &mut self.kind {
            Kind::Pcap(pcap) => pcap.next(&mut self.source)?,
            Kind::Pcapng(pcapng) => pcapng.next(&mut self.source)?,
        };
        let Some(found) = found else {
            return Ok(None);
        };
        self.number += 1;
        let mut data = &self.source.block()[found.data];
        let without_fcs = found.original_octets.saturating_sub(found.fcs_octets) as usize;
        if data.len() > without_fcs {
            data = &data[..without_fcs];
        }
        Ok(Some(Packet {
            number: self.number,
            time_ns: found.time_ns,
            link_type: found.link_type,
            data,
            original_octets: found.original_octets.saturating_sub(found.fcs_octets),
        }))
    }
}

/// The position and header fields of the packet that was read last.
struct Found {
    time_ns: Option<u64>,
    link_type: u16,
    data: std::ops::Range<usize>,
    original_octets: u32,
    /// Length of the FCS at the end of each frame, in bytes.
    fcs_octets: u32,
}

/// The byte order that a file was written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn u16(self, octets: &[u8], at: usize) -> u16 {
        let mut two = [0; 2];
        if let Some(from) = octets.get(at..at + 2) {
            two.copy_from_slice(from);
        }
        match self {
            Self::Little => u16::from_le_bytes(two),
            Self::Big => u16::from_be_bytes(two),
        }
    }

    fn u32(self, octets: &[u8], at: usize) -> u32 {
        let mut four = [0; 4];
        if let Some(from) = octets.get(at..at + 4) {
            four.copy_from_slice(from);
        }
        match self {
            Self::Little => u32::from_le_bytes(four),
            Self::Big => u32::from_be_bytes(four),
        }
    }
}

/// Returns the payload of a frame of EtherType `ether_type`; `None` if the packet is another one. The payload follows
/// the Ethernet header (with at most one VLAN tag) or the header of a Linux "any" capture.
#[must_use]
pub fn payload(link_type: u16, data: &[u8], ether_type: u16) -> Option<&[u8]> {
    let kind_at = |at: usize| Some(u16::from_be_bytes([*data.get(at)?, *data.get(at + 1)?]));
    let (kind, behind) = match link_type {
        LINK_ETHERNET => match kind_at(12)? {
            0x8100 => (kind_at(16)?, 18),
            kind => (kind, 14),
        },
        LINK_LINUX_SLL => (kind_at(14)?, 16),
        LINK_LINUX_SLL2 => (kind_at(0)?, 20),
        _ => return None,
    };
    (kind == ether_type).then(|| data.get(behind..)).flatten()
}
