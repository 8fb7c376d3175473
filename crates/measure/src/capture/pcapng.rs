//! pcapng: blocks with their length at both ends (draft-ietf-opsawg-pcapng).

use super::source::Source;
use super::{CaptureError, Found, MAXIMUM_PACKET_OCTETS, Order};
use std::io::Read;

/// The type of a section header block; the same in both byte orders.
pub(super) const SECTION: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// The longest block in bytes; Wireshark has the same limit.
const MAXIMUM_BLOCK_OCTETS: u32 = 16 << 20;
/// More interfaces than any capture has. The limit keeps a damaged file from using up memory.
const MAXIMUM_INTERFACES: usize = 65_536;

const OPTION_RESOLUTION: u16 = 9;
const OPTION_FCS: u16 = 13;
const OPTION_OFFSET: u16 = 14;

pub(super) struct Pcapng {
    order: Order,
    interfaces: Vec<Interface>,
}

struct Interface {
    link_type: u16,
    snap_octets: u32,
    /// The exponent of the resolution; true if its base is 2, false if 10.
    resolution: (u8, bool),
    offset_s: i64,
    fcs_octets: u32,
}

impl Pcapng {
    /// Reads the first section header block behind its type.
    pub(super) fn begin<R: Read>(source: &mut Source<R>) -> Result<Self, CaptureError> {
        let mut this = Self {
            order: Order::Little,
            interfaces: Vec::new(),
        };
        this.section(source, 0)?;
        Ok(this)
    }

    /// Reads a section header block behind its type.
    fn section<R: Read>(
        &mut self,
        source: &mut Source<R>,
        offset: u64,
    ) -> Result<(), CaptureError> {
        let mut start = [0; 8];
        source.exactly(&mut start, "a section header")?;
        self.order = match [Order::Little.u32(&start, 4), Order::Big.u32(&start, 4)] {
            [BYTE_ORDER, _] => Order::Little,
            [_, BYTE_ORDER] => Order::Big,
            [found, _] => {
                return Err(CaptureError::Damaged {
                    offset,
                    what: format!(
                        "the byte-order mark of a section is {found:08x}; it must be 1a2b3c4d or 4d3c2b1a"
                    ),
                });
            }
        };
        self.interfaces.clear();
        let length = self.checked(self.order.u32(&start, 0), 28, offset)?;
        // Type, length and byte-order mark are already read.
        self.rest(source, length, 12, offset)
    }

    fn checked(&self, length: u32, least: u32, offset: u64) -> Result<u32, CaptureError> {
        if length < least || length % 4 != 0 || length > MAXIMUM_BLOCK_OCTETS {
            return Err(CaptureError::Damaged {
                offset,
                what: format!(
                    "a block says that it has {length} bytes; a multiple of 4 from {least} to {MAXIMUM_BLOCK_OCTETS} is possible"
                ),
            });
        }
        Ok(length)
    }

    /// Reads the rest of a block and compares the length at its end with the one at its start.
    fn rest<R: Read>(
        &self,
        source: &mut Source<R>,
        length: u32,
        read: u32,
        offset: u64,
    ) -> Result<(), CaptureError> {
        source.take((length - read) as usize, "a block")?;
        let block = source.block();
        let at_end = self.order.u32(block, block.len().saturating_sub(4));
        if at_end != length {
            return Err(CaptureError::Damaged {
                offset,
                what: format!(
                    "a block says at its start that it has {length} bytes, and at its end {at_end}"
                ),
            });
        }
        Ok(())
    }

    pub(super) fn next<R: Read>(
        &mut self,
        source: &mut Source<R>,
    ) -> Result<Option<Found>, CaptureError> {
        loop {
            let offset = source.offset();
            let mut kind = [0; 4];
            if !source.exactly_or_end(&mut kind, "the start of a block")? {
                return Ok(None);
            }
            let kind = self.order.u32(&kind, 0);
            if kind == SECTION {
                self.section(source, offset)?;
                continue;
            }
            let mut length = [0; 4];
            source.exactly(&mut length, "the length of a block")?;
            let length = self.checked(self.order.u32(&length, 0), 12, offset)?;
            self.rest(source, length, 8, offset)?;
            let block = source.block();
            let body = block.len().saturating_sub(4);
            match kind {
                INTERFACE => {
                    let interface = self.interface(&block[..body], offset)?;
                    if self.interfaces.len() == MAXIMUM_INTERFACES {
                        return Err(CaptureError::Damaged {
                            offset,
                            what: format!(
                                "a section with more than {MAXIMUM_INTERFACES} interfaces"
                            ),
                        });
                    }
                    self.interfaces.push(interface);
                }
                ENHANCED_PACKET | OBSOLETE_PACKET => {
                    let of = if kind == ENHANCED_PACKET {
                        self.order.u32(block, 0)
                    } else {
                        u32::from(self.order.u16(block, 0))
                    };
                    return self.packet(&block[..body], of, offset).map(Some);
                }
                SIMPLE_PACKET => return self.simple(&block[..body], offset).map(Some),
                // Blocks of names, statistics and secrets, and unknown blocks, are skipped.
                _ => {}
            }
        }
    }

    fn interface(&self, body: &[u8], offset: u64) -> Result<Interface, CaptureError> {
        too_short(body, 8, "an interface description", offset)?;
        let mut interface = Interface {
            link_type: self.order.u16(body, 0),
            snap_octets: self.order.u32(body, 4),
            resolution: (6, false),
            offset_s: 0,
            fcs_octets: 0,
        };
        let mut at = 8;
        while at + 4 <= body.len() {
            let (code, length) = (self.order.u16(body, at), self.order.u16(body, at + 2));
            let Some(value) = body.get(at + 4..at + 4 + usize::from(length)) else {
                return Err(CaptureError::Damaged {
                    offset,
                    what: format!(
                        "an option of an interface description says that it has {length} bytes, beyond the end of its block"
                    ),
                });
            };
            match (code, value) {
                (0, _) => break,
                (OPTION_RESOLUTION, [octet]) => {
                    interface.resolution = (octet & 0x7f, octet & 0x80 != 0);
                }
                (OPTION_FCS, [octets]) => interface.fcs_octets = u32::from(*octets),
                (OPTION_OFFSET, value) if value.len() == 8 => {
                    let (first, second) = (self.order.u32(value, 0), self.order.u32(value, 4));
                    let (low, high) = match self.order {
                        Order::Little => (first, second),
                        Order::Big => (second, first),
                    };
                    interface.offset_s = (u64::from(high) << 32 | u64::from(low)) as i64;
                }
                _ => {}
            }
            at += 4 + usize::from(length).next_multiple_of(4);
        }
        Ok(interface)
    }

    fn described(&self, index: u32, offset: u64) -> Result<&Interface, CaptureError> {
        self.interfaces
            .get(index as usize)
            .ok_or_else(|| CaptureError::Damaged {
                offset,
                what: format!(
                    "a packet of interface {index}, of which the file has described {} so far",
                    self.interfaces.len()
                ),
            })
    }

    fn packet(&self, body: &[u8], of: u32, offset: u64) -> Result<Found, CaptureError> {
        too_short(body, 20, "a packet", offset)?;
        let word = |index: usize| self.order.u32(body, index * 4);
        let interface = self.described(of, offset)?;
        let units = u64::from(word(1)) << 32 | u64::from(word(2));
        let (captured, original) = (word(3), word(4));
        fits(captured, body.len() - 20, offset)?;
        Ok(Found {
            time_ns: interface.time_ns(units),
            link_type: interface.link_type,
            data: 20..20 + captured as usize,
            original_octets: original.max(captured),
            fcs_octets: interface.fcs_octets,
        })
    }

    /// Reads a simple packet block: a packet of the first interface, without a time.
    fn simple(&self, body: &[u8], offset: u64) -> Result<Found, CaptureError> {
        too_short(body, 4, "a packet", offset)?;
        let interface = self.described(0, offset)?;
        let original = self.order.u32(body, 0);
        let captured = match interface.snap_octets {
            0 => original,
            snap => original.min(snap),
        };
        fits(captured, body.len() - 4, offset)?;
        Ok(Found {
            time_ns: None,
            link_type: interface.link_type,
            data: 4..4 + captured as usize,
            original_octets: original,
            fcs_octets: interface.fcs_octets,
        })
    }
}

fn too_short(
    body: &[u8],
    least: usize,
    what: &'static str,
    offset: u64,
) -> Result<(), CaptureError> {
    if body.len() >= least {
        return Ok(());
    }
    Err(CaptureError::Damaged {
        offset,
        what: format!(
            "the block of {what} has {} bytes of content; at least {least} are needed",
            body.len()
        ),
    })
}

fn fits(captured: u32, room: usize, offset: u64) -> Result<(), CaptureError> {
    if captured as usize <= room && captured <= MAXIMUM_PACKET_OCTETS {
        return Ok(());
    }
    Err(CaptureError::Damaged {
        offset,
        what: format!(
            "a packet says that it has {captured} bytes; its block has room for {}",
            room.min(MAXIMUM_PACKET_OCTETS as usize)
        ),
    })
}

impl Interface {
    /// Returns a timestamp in ns; `None` if it exceeds 64 bits.
    fn time_ns(&self, units: u64) -> Option<u64> {
        let (exponent, binary) = self.resolution;
        let units = u128::from(units);
        let ns = if binary {
            (units * 1_000_000_000)
                .checked_shr(u32::from(exponent))
                .unwrap_or(0)
        } else if exponent <= 9 {
            units * 10_u128.pow(9 - u32::from(exponent))
        } else {
            // Beyond 38 digits the result is 0.
            10_u128
                .checked_pow(u32::from(exponent) - 9)
                .map_or(0, |divisor| units / divisor)
        };
        let ns = i128::try_from(ns).ok()? + i128::from(self.offset_s) * 1_000_000_000;
        u64::try_from(ns).ok()
    }
}
