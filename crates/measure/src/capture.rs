//! Captures of frames: pcap and pcapng read as they come, pcapng written.
//!
//! A reader of our own: it has to say *where* a damaged file is damaged (the offset in octets), to keep nanoseconds whole
//! whatever resolution the file counts in, and to read a file of any size with the memory of one packet.
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
//! Limits: a packet of more than 256 KiB, or a block of more than 16 MiB, counts as damage. Compressed files are not
//! unpacked.

mod pcap;
mod pcapng;
mod source;
#[cfg(test)]
mod tests;
mod write;

use std::io::{self, Read};

use source::Source;
pub use write::{Recorded, Writer};

/// Ethernet (LINKTYPE_ETHERNET): what a packet of this link type begins with is the destination address.
pub const LINK_ETHERNET: u16 = 1;
/// Linux "any" captures, version 1 (LINKTYPE_LINUX_SLL).
pub const LINK_LINUX_SLL: u16 = 113;
/// Linux "any" captures, version 2 (LINKTYPE_LINUX_SLL2).
pub const LINK_LINUX_SLL2: u16 = 276;

/// The most octets of one packet; tcpdump and Wireshark have the same limit.
const MAXIMUM_PACKET_OCTETS: u32 = 262_144;

/// Which kind of file a capture is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// pcap with stamps of microseconds.
    PcapMicroseconds,
    /// pcap with stamps of nanoseconds.
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

/// What is wrong with a capture, and where. Offsets count octets from the start of the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The file could not be read.
    #[error("at octet {offset}: {source}")]
    Read {
        /// How far it was read.
        offset: u64,
        /// Why not further.
        source: io::Error,
    },
    /// It begins as no capture does.
    #[error("this is neither pcap nor pcapng: it begins with {found}{hint}")]
    NotACapture {
        /// Its first octets, in hexadecimal.
        found: String,
        /// What it may be instead.
        hint: &'static str,
    },
    /// It ends within something.
    #[error(
        "at octet {offset}: the file ends within {what}: {needed} octets are needed, {found} are there; it was cut off, or is still being written"
    )]
    CutOff {
        /// Where that begins.
        offset: u64,
        /// What it ends within.
        what: &'static str,
        /// Octets it needs.
        needed: u64,
        /// Octets there are.
        found: u64,
    },
    /// Something in it cannot be.
    #[error("at octet {offset}: {what}; the file is damaged from here on")]
    Damaged {
        /// Where.
        offset: u64,
        /// What, and what would be right.
        what: String,
    },
}

/// One packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Its number, from 1 on, as Wireshark shows it.
    pub number: u64,
    /// When it was captured, ns since 1970-01-01 UTC; `None` where the file does not tell.
    pub time_ns: Option<u64>,
    /// What its first octets are, for example [`LINK_ETHERNET`].
    pub link_type: u16,
    /// Its octets as far as they were captured, without FCS.
    pub data: &'a [u8],
    /// Octets that it had on the link, as far as the file tells.
    pub original_octets: u32,
}

enum Kind {
    Pcap(pcap::Pcap),
    Pcapng(pcapng::Pcapng),
}

/// Reads a capture packet by packet. After an error there is nothing more to read.
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
    /// Begins to read; what `input` gives should be buffered.
    ///
    /// # Errors
    /// It begins as no capture does, or ends within its first header.
    pub fn new(input: R) -> Result<Self, CaptureError> {
        let mut source = Source::new(input);
        let mut magic = [0; 4];
        source.exactly(&mut magic, "its first four octets")?;
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

    /// Which kind of file it is.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// The next packet; `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read, is cut off, or damaged: the offset says where.
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

/// What a format's reader has found in the block that was read last.
struct Found {
    time_ns: Option<u64>,
    link_type: u16,
    data: std::ops::Range<usize>,
    original_octets: u32,
    /// Octets of FCS at the end of each frame.
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

/// The payload of a frame of EtherType `ether_type`, if the packet is one: behind the Ethernet header (one VLAN tag
/// allowed), or behind the header of a Linux "any" capture.
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
