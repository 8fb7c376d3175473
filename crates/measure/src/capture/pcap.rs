//! pcap: a header of 24 bytes, then packets with headers of 16 bytes (draft-ietf-opsawg-pcap).

use super::source::Source;
use super::{CaptureError, Format, Found, MAXIMUM_PACKET_OCTETS, Order};
use std::io::Read;

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Magic number of an old variant of pcap with longer packet headers.
const KUZNETZOV: u32 = 0xa1b2_cd34;

pub(super) struct Pcap {
    order: Order,
    ns_per_unit: u64,
    link_type: u16,
    fcs_octets: u32,
}

impl Pcap {
    /// Reads the file header behind its first four bytes.
    pub(super) fn begin<R: Read>(
        magic: [u8; 4],
        source: &mut Source<R>,
    ) -> Result<(Self, Format), CaptureError> {
        let orders = [
            (Order::Little, u32::from_le_bytes(magic)),
            (Order::Big, u32::from_be_bytes(magic)),
        ];
        let known = orders
            .into_iter()
            .find(|(_, magic)| matches!(*magic, MICROSECONDS | NANOSECONDS));
        let Some((order, number)) = known else {
            let kuznetzov = orders.iter().any(|(_, magic)| *magic == KUZNETZOV);
            return Err(CaptureError::NotACapture {
                found: magic.map(|octet| format!("{octet:02x}")).join(" "),
                hint: match magic {
                    _ if kuznetzov => {
                        ", an old variant of pcap; convert it with `editcap -F pcapng IN OUT`"
                    }
                    [0x1f, 0x8b, ..] => ", a file compressed with gzip; decompress it first",
                    [0x28, 0xb5, 0x2f, 0xfd] => {
                        ", a file compressed with zstd; decompress it first"
                    }
                    [0xfd, b'7', b'z', b'X'] => ", a file compressed with xz; decompress it first",
                    _ => "; a capture begins with a1 b2 c3 d4 or 0a 0d 0d 0a (or the like)",
                },
            });
        };
        let mut rest = [0; 20];
        source.exactly(&mut rest, "the header of the file")?;
        let major = order.u16(&rest, 0);
        if major != 2 {
            return Err(CaptureError::Damaged {
                offset: 4,
                what: format!(
                    "the file says that it is pcap version {major}; only version 2 is supported"
                ),
            });
        }
        let link = order.u32(&rest, 16);
        // Bit 26 says that bits 28 to 31 contain the FCS length in units of two bytes.
        let fcs_octets = if link & 1 << 26 != 0 {
            (link >> 28) * 2
        } else {
            0
        };
        let (ns_per_unit, format) = if number == NANOSECONDS {
            (1, Format::PcapNanoseconds)
        } else {
            (1_000, Format::PcapMicroseconds)
        };
        let pcap = Self {
            order,
            ns_per_unit,
            link_type: link as u16,
            fcs_octets,
        };
        Ok((pcap, format))
    }

    pub(super) fn next<R: Read>(
        &mut self,
        source: &mut Source<R>,
    ) -> Result<Option<Found>, CaptureError> {
        let offset = source.offset();
        let mut header = [0; 16];
        if !source.exactly_or_end(&mut header, "the header of a packet")? {
            return Ok(None);
        }
        let word = |index: usize| self.order.u32(&header, index * 4);
        let (captured, original) = (word(2), word(3));
        if captured > MAXIMUM_PACKET_OCTETS {
            return Err(CaptureError::Damaged {
                offset,
                what: format!(
                    "the header of a packet says that {captured} bytes follow; at most {MAXIMUM_PACKET_OCTETS} are possible"
                ),
            });
        }
        let part = u64::from(word(1)) * self.ns_per_unit;
        if part >= 1_000_000_000 {
            return Err(CaptureError::Damaged {
                offset,
                what: format!(
                    "the header of a packet says {part} ns within a second, which has 1000000000"
                ),
            });
        }
        source.take(captured as usize, "a packet")?;
        Ok(Some(Found {
            time_ns: Some(u64::from(word(0)) * 1_000_000_000 + part),
            link_type: self.link_type,
            data: 0..captured as usize,
            // Some writers leave the length 0.
            original_octets: original.max(captured),
            fcs_octets: self.fcs_octets,
        }))
    }
}
