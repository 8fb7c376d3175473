//! The gate of an interface: `crates/bpf/programs/agent.bpf.c` with its tables.
//!
//! The programs stay attached when the agent ends, and so does the queue: what a program may send is limited also while
//! no agent runs. [`Gate::remove`] takes them away.

use std::net::{Ipv4Addr, SocketAddrV4};

use rtwire_agent::StreamCounts;
use rtwire_sys::bpf::{BpfError, BpfObject, Direction, Table};

use crate::allowance::{Allowance, CONTROL, OTHERS, PlannedStream};

/// Words of the structures in `agent.h`.
const CHANNEL_WORDS: usize = 12;
const PEER_WORDS: usize = 3;
const LISTENER_WORDS: usize = 18;
const TOTAL_WORDS: usize = 4;
/// In the key of a planned stream.
const UDP: u32 = 0x1_0000;
/// In the key of a listener.
const RTDIP: u32 = 0x2_0000;
/// The EtherType of RTDiP.
const ETHER_TYPE_RTDIP: u16 = 0x88b5;
/// In the word of a VLAN tag: there is one.
const TAGGED: u64 = 0x1_0000;
/// Bytes of an Ethernet header, and of those of Ethernet, IPv4 and UDP.
const ETHERNET: usize = 14;
const HEADERS: usize = ETHERNET + 28;
const NS_PER_S: u64 = 1_000_000_000;

/// The gate's programs and tables.
pub(crate) struct Gate {
    object: BpfObject,
    channels: Table,
    streams: Table,
    peers: Table,
    listeners: Table,
    totals: Table,
}

/// The rights of a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rights {
    /// The class of its frames.
    pub(crate) class: u32,
    /// Source and destination of its datagrams.
    pub(crate) ends: [SocketAddrV4; 2],
    /// The longest frame in front of the gate: header and payload without FCS, bytes.
    pub(crate) longest_bytes: u64,
    pub(crate) pcp: u8,
    /// The frames that are made of its datagrams, if they leave as RTDiP.
    pub(crate) frames: Option<Frames>,
}

/// Frames of RTDiP that are made of datagrams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frames {
    pub(crate) destination: [u8; 6],
    pub(crate) source: [u8; 6],
    /// The VLAN id.
    pub(crate) vlan: Option<u16>,
    pub(crate) port: u16,
    pub(crate) key: u32,
}

/// The limits of a listener's arrivals, on the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrivals {
    pub(crate) rate_bytes: u64,
    pub(crate) burst_bytes: u64,
    pub(crate) overhead_bytes: u8,
}

/// Datagrams that are made of frames of RTDiP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagrams {
    pub(crate) port: u16,
    pub(crate) key: u32,
    pub(crate) pcp: u8,
    /// The hardware address of the interface.
    pub(crate) own: [u8; 6],
    /// The source and the destination that they have.
    pub(crate) ends: [SocketAddrV4; 2],
}

/// Bytes as words of this machine; what is missing is zero.
fn words<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut all = [0; N];
    for (word, part) in all.iter_mut().zip(bytes.chunks(8)) {
        let mut whole = [0; 8];
        whole[..part.len()].copy_from_slice(part);
        *word = u64::from_ne_bytes(whole);
    }
    all
}

impl Frames {
    fn header(&self) -> [u8; ETHERNET] {
        let mut header = [0; ETHERNET];
        header[..6].copy_from_slice(&self.destination);
        header[6..12].copy_from_slice(&self.source);
        header[12..].copy_from_slice(&ETHER_TYPE_RTDIP.to_be_bytes());
        header
    }
}

impl Datagrams {
    /// Returns the headers without lengths, and the sum of IPv4's words without its length.
    fn headers(&self) -> ([u8; HEADERS], u64) {
        const MADE_BY: [u8; 6] = [2, 0, 0, 0, 0, 0];
        let mut all = [0; HEADERS];
        all[..6].copy_from_slice(&self.own);
        all[6..12].copy_from_slice(&MADE_BY);
        // IPv4, not fragmented, 64 hops, UDP.
        let [from, to] = self.ends;
        let fixed = [0x08, 0x00, 0x45, self.pcp.min(7) << 5];
        all[12..16].copy_from_slice(&fixed);
        all[20..24].copy_from_slice(&[0x40, 0, 64, 17]);
        all[26..30].copy_from_slice(&from.ip().octets());
        all[30..34].copy_from_slice(&to.ip().octets());
        let pairs = all[ETHERNET..34].chunks_exact(2);
        let sum = pairs
            .map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]])))
            .sum();
        all[34..36].copy_from_slice(&from.port().to_be_bytes());
        all[36..38].copy_from_slice(&to.port().to_be_bytes());
        (all, sum)
    }
}

/// Destination and source as the programs compare them.
fn addresses(destination: Ipv4Addr, source: Ipv4Addr) -> u64 {
    let word = |address: Ipv4Addr| u64::from(u32::from_ne_bytes(address.octets()));
    word(destination) << 32 | word(source)
}

fn udp_key(port: u16) -> [u8; 4] {
    u32::from(port).to_ne_bytes()
}

fn rtdip_key(port: u16) -> [u8; 4] {
    (u32::from(port) | RTDIP).to_ne_bytes()
}

fn stream_key(stream: &PlannedStream) -> [u8; 4] {
    let kind = if stream.is_udp { UDP } else { 0 };
    (u32::from(stream.port) | kind).to_ne_bytes()
}

/// The entry of a listener, with a full bucket.
fn arrived(addresses: u64, source_port: u16, arrivals: Arrivals) -> [u64; LISTENER_WORDS] {
    let mut value = [0; LISTENER_WORDS];
    value[0] = addresses;
    value[1] = source_port.into();
    value[2] = arrivals.rate_bytes;
    value[3] = arrivals.burst_bytes;
    value[4] = arrivals.overhead_bytes.into();
    value[5] = arrivals.burst_bytes.saturating_mul(NS_PER_S);
    value
}

fn word(value: &[u64], at: usize) -> u64 {
    value.get(at).copied().unwrap_or(0)
}

impl Gate {
    /// Loads the programs, with the classes of the allowance.
    pub(crate) fn load(allowance: &Allowance) -> Result<Gate, BpfError> {
        let object = BpfObject::load("agent", rtwire_bpf::AGENT.bytes, &[])?;
        let gate = Gate {
            channels: object.table("channels", 8, CHANNEL_WORDS)?,
            streams: object.table("streams", 4, 1)?,
            peers: object.table("peers", 4, PEER_WORDS)?,
            listeners: object.table("listeners", 4, LISTENER_WORDS)?,
            totals: object.table("totals", 4, TOTAL_WORDS)?,
            object,
        };
        let totals = [CONTROL.into(), OTHERS.into(), 0, 0];
        gate.totals.set(&0_u32.to_ne_bytes(), &totals)?;
        for peer in &allowance.peers {
            gate.peer(peer.address, peer.class, None)?;
        }
        for stream in &allowance.streams {
            gate.stream(stream)?;
        }
        Ok(gate)
    }

    /// Attaches the programs to an interface. Those of an earlier agent are replaced.
    pub(crate) fn attach(&self, index: u32) -> Result<(), BpfError> {
        self.object.attach_tc("leave", index, Direction::Egress)?;
        self.object.attach_tc("enter", index, Direction::Ingress)
    }

    /// Directs best effort to a peer into a class, until a moment of CLOCK_MONOTONIC, ns, if there is one.
    pub(crate) fn peer(
        &self,
        address: Ipv4Addr,
        class: u32,
        until_ns: Option<u64>,
    ) -> Result<(), BpfError> {
        let value = [class.into(), until_ns.unwrap_or(0), OTHERS.into()];
        self.peers.set(&address.octets(), &value)
    }

    /// Lets a socket of the agent or the manager use the control class.
    pub(crate) fn control(&self, cookie: u64) -> Result<(), BpfError> {
        let mut value = [0; CHANNEL_WORDS];
        value[0] = CONTROL.into();
        self.channels.set(&cookie.to_ne_bytes(), &value)
    }

    /// Lets all frames to a planned stream's port use its class.
    pub(crate) fn stream(&self, stream: &PlannedStream) -> Result<(), BpfError> {
        self.streams
            .set(&stream_key(stream), &[stream.class.into()])
    }

    /// Keeps a planned stream's class for the socket that has it: frames of others are best effort.
    pub(crate) fn reserve_stream(&self, stream: &PlannedStream) -> Result<(), BpfError> {
        self.streams.remove(&stream_key(stream))
    }

    /// Lets a socket send what its rights say, in their class.
    pub(crate) fn channel(&self, cookie: u64, rights: &Rights) -> Result<(), BpfError> {
        let [from, to] = rights.ends;
        let mut value = [0; CHANNEL_WORDS];
        value[0] = rights.class.into();
        value[1] = addresses(*to.ip(), *from.ip());
        value[2] = u64::from(from.port()) << 16 | u64::from(to.port());
        value[3] = rights.longest_bytes;
        value[4] = (rights.pcp.min(7) << 5).into();
        if let Some(frames) = &rights.frames {
            value[8] = u64::from(frames.key) << 32 | u64::from(frames.port);
            value[9] = frames.vlan.map_or(0, |id| {
                TAGGED | u64::from(rights.pcp.min(7)) << 13 | u64::from(id & 0xfff)
            });
            value[10..].copy_from_slice(&words::<2>(&frames.header()));
        }
        self.channels.set(&cookie.to_ne_bytes(), &value)
    }

    /// Takes a socket's rights away: what it sends from now on is best effort.
    pub(crate) fn forget(&self, cookie: u64) -> Result<(), BpfError> {
        self.channels.remove(&cookie.to_ne_bytes())
    }

    pub(crate) fn channel_counts(&self, cookie: u64) -> Result<StreamCounts, BpfError> {
        let value = self
            .channels
            .get(&cookie.to_ne_bytes())?
            .unwrap_or_default();
        Ok(StreamCounts {
            frames: word(&value, 5),
            foreign: word(&value, 7),
            too_much: 0,
        })
    }

    /// Lets only `from` send datagrams to an address, by its own port unless that is 0, and no more than `arrivals`.
    pub(crate) fn hear(
        &self,
        to: SocketAddrV4,
        from: SocketAddrV4,
        arrivals: Arrivals,
    ) -> Result<(), BpfError> {
        let value = arrived(addresses(*to.ip(), *from.ip()), from.port(), arrivals);
        self.listeners.set(&udp_key(to.port()), &value)
    }

    /// Makes datagrams of the frames of RTDiP to a port. Nobody else can send to where they go, as far as the network goes.
    pub(crate) fn hear_frames(
        &self,
        datagrams: &Datagrams,
        arrivals: Arrivals,
    ) -> Result<(), BpfError> {
        let nobody = arrived(0, 0, arrivals);
        let to = datagrams.ends[1].port();
        self.listeners.set(&udp_key(to), &nobody)?;
        let mut value = arrived(0, 0, arrivals);
        let (headers, sum) = datagrams.headers();
        value[10] = datagrams.key.into();
        value[11] = sum;
        value[12..].copy_from_slice(&words::<6>(&headers));
        self.listeners.set(&rtdip_key(datagrams.port), &value)
    }

    pub(crate) fn forget_listener(&self, port: u16) -> Result<(), BpfError> {
        self.listeners.remove(&udp_key(port))
    }

    /// Ends what [`Self::hear_frames`] began.
    pub(crate) fn forget_frames(&self, port: u16, to: u16) -> Result<(), BpfError> {
        let done = self.listeners.remove(&rtdip_key(port));
        done.and(self.listeners.remove(&udp_key(to)))
    }

    pub(crate) fn listener_counts(&self, port: u16) -> Result<StreamCounts, BpfError> {
        self.counts_of(&udp_key(port))
    }

    pub(crate) fn frame_counts(&self, port: u16) -> Result<StreamCounts, BpfError> {
        self.counts_of(&rtdip_key(port))
    }

    fn counts_of(&self, key: &[u8]) -> Result<StreamCounts, BpfError> {
        let value = self.listeners.get(key)?.unwrap_or_default();
        Ok(StreamCounts {
            frames: word(&value, 7),
            foreign: word(&value, 8),
            too_much: word(&value, 9),
        })
    }

    /// Returns the frames that were dropped because the kernel had not segmented them.
    pub(crate) fn unsegmented(&self) -> Result<u64, BpfError> {
        let value = self.totals.get(&0_u32.to_ne_bytes())?.unwrap_or_default();
        Ok(word(&value, 3))
    }

    /// Detaches the programs of an agent from an interface.
    pub(crate) fn remove(index: u32) -> Result<(), BpfError> {
        BpfObject::detach_tc(index, Direction::Egress)?;
        BpfObject::detach_tc(index, Direction::Ingress)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    /// The fields of a structure of `agent.h`, each a word.
    fn words_of(structure: &str) -> usize {
        let header = include_str!("../../bpf/programs/agent.h");
        let start = header.find(&format!("struct {structure} {{")).unwrap();
        let text = &header[start..];
        let text = &text[..text.find("};").unwrap()];
        text.lines()
            .filter_map(|line| line.trim_start().strip_prefix("__u64 "))
            .map(|field| match field.split_once('[') {
                Some((_, rest)) => rest.split_once(']').unwrap().0.parse().unwrap(),
                None => 1,
            })
            .sum()
    }

    #[test]
    fn the_structures_are_those_of_the_programs() {
        assert_eq!(words_of("rtw_agent_channel"), CHANNEL_WORDS);
        assert_eq!(words_of("rtw_agent_peer"), PEER_WORDS);
        assert_eq!(words_of("rtw_agent_listener"), LISTENER_WORDS);
        assert_eq!(words_of("rtw_agent_totals"), TOTAL_WORDS);
    }
}
