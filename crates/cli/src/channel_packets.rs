//! The datagrams of a connection: lines as they travel.

use rtwire_agent::{Carrier, Channel};
use rtwire_sys::clock::{Clock, now_ns};
use rtwire_wire::rtdip::{HEADER_OCTETS, Header, RtdipError, Semantics, TIME_OCTETS};
use rtwire_wire::{MINIMUM_FRAME_OCTETS, Pcp, VLAN_TAG_OCTETS, ethernet};

/// Bytes of the headers of IPv4 and UDP.
const IP_UDP: usize = 28;
/// The least bytes of an RTDiP frame behind its Ethernet header: the agent refuses shorter ones.
const SHORTEST: usize = MINIMUM_FRAME_OCTETS - ethernet::HEADER_OCTETS;

/// The datagrams of one end of a connection.
#[derive(Debug)]
pub(crate) struct Packets {
    /// The next header; `None` for plain datagrams.
    header: Option<Header>,
    room: usize,
    buffer: Vec<u8>,
}

impl Packets {
    pub(crate) fn of(channel: &Channel) -> Packets {
        let frame = usize::from(channel.frame_bytes);
        let header = (channel.carrier == Carrier::Rtdip).then(|| Header {
            semantics: Semantics::Queue,
            priority: Pcp::new(channel.priority).unwrap_or_default(),
            destination_port: channel.port,
            source_port: channel.source_port,
            sequence: 0,
            key: channel.key,
            time_ns: None,
        });
        let headers = match header {
            Some(_) => channel.vlan.map_or(0, |_| VLAN_TAG_OCTETS) + HEADER_OCTETS + TIME_OCTETS,
            None => IP_UDP,
        };
        Packets {
            header,
            room: frame.saturating_sub(ethernet::HEADER_OCTETS + headers),
            buffer: Vec::new(),
        }
    }

    /// Returns the most bytes of a line.
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    /// Returns the datagram of a line, which is no longer than [`Self::room`].
    pub(crate) fn datagram<'a>(&'a mut self, line: &'a [u8]) -> &'a [u8] {
        let Some(header) = &mut self.header else {
            return line;
        };
        header.time_ns = Some(now_ns(Clock::Tai));
        self.buffer.clear();
        let octets = header.octets() + line.len();
        self.buffer.resize(octets.max(SHORTEST), 0);
        // It was made as long as both.
        let _ = header.emit(line, &mut self.buffer);
        header.sequence = header.sequence.wrapping_add(1);
        &self.buffer
    }

    /// Returns the line of a datagram.
    pub(crate) fn line<'a>(&self, datagram: &'a [u8]) -> Result<&'a [u8], RtdipError> {
        match self.header {
            Some(_) => Header::parse(datagram).map(|(_, data)| data),
            None => Ok(datagram),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    fn channel(carrier: Carrier, vlan: Option<u16>) -> Channel {
        Channel {
            connection: 1,
            epoch: 1,
            talker: "press".to_owned(),
            listener: "office".to_owned(),
            promise_ns: 1,
            priority: 5,
            frame_bytes: 100,
            rate_bytes_per_ms: 1,
            burst_bytes: 1,
            deadline_ns: None,
            source_port: 49_152,
            port: 1_000,
            number: 1,
            key: 0x0102_0304,
            carrier,
            vlan,
            interval_ns: None,
            launch_offset_ns: None,
        }
    }

    #[test]
    fn lines_travel_in_both_carriers() {
        for (carrier, vlan, room) in [
            (Carrier::Udp, None, 58),
            (Carrier::Rtdip, None, 62),
            (Carrier::Rtdip, Some(5), 58),
        ] {
            let mut packets = Packets::of(&channel(carrier, vlan));
            assert_eq!(packets.room(), room);
            let line = vec![b'x'; room];
            let sent = packets.datagram(&line).to_vec();
            assert_eq!(packets.line(&sent).unwrap(), line);
            if carrier == Carrier::Rtdip {
                // Version and flags, priority, ports: docs/rtdip.md.
                assert_eq!(&sent[..6], &[0x12, 5, 0x03, 0xe8, 0xc0, 0x00]);
                assert_eq!(&sent[12..16], &[1, 2, 3, 4]);
                assert_eq!(sent.len() + 14 + vlan.map_or(0, |_| 4), 100);
                let short = packets.datagram(b"abc").to_vec();
                assert_eq!((short.len(), short[11]), (SHORTEST, 1));
                assert_eq!(packets.line(&short).unwrap(), b"abc");
                assert!(packets.line(&short[..10]).is_err());
            }
        }
    }
}
