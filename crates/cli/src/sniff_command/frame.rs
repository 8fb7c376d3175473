//! From a packet of a capture to the message in it: Ethernet and VLAN tags, Linux "any" captures, IP and UDP.

use rtwire_measure::capture::{LINK_ETHERNET, LINK_LINUX_SLL, LINK_LINUX_SLL2};
use rtwire_wire::{EtherType, MacAddress};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;

/// The mark of a service VLAN tag (S-TAG), which follows it.
const SERVICE_TAG: u16 = 0x88a8;
const IPV6: u16 = 0x86dd;
const UDP: u8 = 17;

/// A frame with a message, or a part of one.
pub(super) struct Frame {
    /// Destination and source, where the link has them.
    pub(super) addresses: Option<(MacAddress, MacAddress)>,
    /// The control information of the innermost VLAN tag.
    pub(super) tag: Option<u16>,
    /// Source and destination, for UDP.
    pub(super) sockets: Option<(SocketAddr, SocketAddr)>,
    /// The frame's content.
    pub(super) carried: Carried,
}

/// The content of a frame.
pub(super) enum Carried {
    /// A message.
    Message {
        /// The message's place in the frame.
        bytes: Range<usize>,
        /// Bytes of the datagram that the capture lacks; 0 if it has all.
        missing: usize,
    },
    /// A part of a datagram.
    Fragment,
}

fn half(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(data.get(at..at + 2)?.try_into().ok()?))
}

impl Frame {
    /// Finds the message of a packet; `None` if it is of another protocol.
    pub(super) fn new(link_type: u16, data: &[u8], ports: &[u16]) -> Option<Self> {
        let mut frame = Self {
            addresses: None,
            tag: None,
            sockets: None,
            carried: Carried::Fragment,
        };
        let mut at = match link_type {
            LINK_ETHERNET => {
                let address = |at: usize| Some(MacAddress(data.get(at..at + 6)?.try_into().ok()?));
                frame.addresses = Some((address(0)?, address(6)?));
                12
            }
            LINK_LINUX_SLL => 14,
            LINK_LINUX_SLL2 => 0,
            _ => return None,
        };
        let mut ether_type = half(data, at)?;
        at = if link_type == LINK_LINUX_SLL2 {
            20
        } else {
            at + 2
        };
        while ether_type == EtherType::VLAN.0 || ether_type == SERVICE_TAG {
            frame.tag = half(data, at);
            ether_type = half(data, at + 2)?;
            at += 4;
        }
        if ether_type == EtherType::UADP.0 {
            frame.carried = Carried::Message {
                bytes: at..data.len(),
                missing: 0,
            };
            return Some(frame);
        }
        let (source, destination, udp, fragment) = match ether_type {
            0x0800 => ipv4(data.get(at..)?)?,
            IPV6 => ipv6(data.get(at..)?)?,
            _ => return None,
        };
        if fragment == Part::Later {
            // Its port is in another packet.
            return None;
        }
        let at = at + udp;
        let port = half(data, at + 2)?;
        if !ports.contains(&port) {
            return None;
        }
        frame.sockets = Some((
            SocketAddr::new(source, half(data, at)?),
            SocketAddr::new(destination, port),
        ));
        if fragment == Part::Whole {
            let told = at + usize::from(half(data, at + 4)?).max(8);
            let start = at + 8;
            let end = told.min(data.len()).max(start);
            data.get(start..end)?;
            frame.carried = Carried::Message {
                bytes: start..end,
                missing: told.saturating_sub(end),
            };
        }
        Some(frame)
    }
}

#[derive(PartialEq, Eq)]
enum Part {
    Whole,
    First,
    Later,
}

/// Source, destination, the offset of UDP, and the datagram's part.
type Ip = (IpAddr, IpAddr, usize, Part);

fn ipv4(data: &[u8]) -> Option<Ip> {
    let first = *data.first()?;
    let bytes = usize::from(first & 0x0f) * 4;
    if first >> 4 != 4 || bytes < 20 || *data.get(9)? != UDP {
        return None;
    }
    let address = |at: usize| {
        let bytes: [u8; 4] = data.get(at..at + 4)?.try_into().ok()?;
        Some(IpAddr::V4(Ipv4Addr::from(bytes)))
    };
    let part = match half(data, 6)? {
        place if place & 0x1fff != 0 => Part::Later,
        place if place & 0x2000 != 0 => Part::First,
        _ => Part::Whole,
    };
    Some((address(12)?, address(16)?, bytes, part))
}

fn ipv6(data: &[u8]) -> Option<Ip> {
    if *data.first()? >> 4 != 6 || *data.get(6)? != UDP {
        return None;
    }
    let address = |at: usize| {
        let bytes: [u8; 16] = data.get(at..at + 16)?.try_into().ok()?;
        Some(IpAddr::V6(Ipv6Addr::from(bytes)))
    };
    Some((address(8)?, address(24)?, 40, Part::Whole))
}
