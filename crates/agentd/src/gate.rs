//! The gate of an interface: `crates/bpf/programs/agent.bpf.c` with its tables.
//!
//! The programs stay attached when the agent ends, and so does the queue: what a program may send is limited also while
//! no agent runs. [`Gate::remove`] takes them away.

use std::net::Ipv4Addr;

use rtwire_manager::Granted;
use rtwire_sys::bpf::{BpfError, BpfObject, Direction, Table};

use crate::allowance::{Allowance, CONTROL, OTHERS};

/// Words of the structures in `agent.h`.
const CHANNEL_WORDS: usize = 8;
const PEER_WORDS: usize = 3;
const LISTENER_WORDS: usize = 10;
const TOTAL_WORDS: usize = 4;
/// In the key of a planned stream.
const UDP: u32 = 0x1_0000;

/// The gate's programs and tables.
pub(crate) struct Gate {
    object: BpfObject,
    channels: Table,
    peers: Table,
    listeners: Table,
    totals: Table,
}

/// The counts of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChannelCounts {
    pub(crate) frames: u64,
    pub(crate) refused: u64,
}

/// The counts of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListenerCounts {
    pub(crate) passed: u64,
    pub(crate) foreign: u64,
    pub(crate) too_much: u64,
}

/// Destination and source as the programs compare them.
fn addresses(destination: Ipv4Addr, source: Ipv4Addr) -> u64 {
    let word = |address: Ipv4Addr| u64::from(u32::from_ne_bytes(address.octets()));
    word(destination) << 32 | word(source)
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
            peers: object.table("peers", 4, PEER_WORDS)?,
            listeners: object.table("listeners", 4, LISTENER_WORDS)?,
            totals: object.table("totals", 4, TOTAL_WORDS)?,
            object,
        };
        let streams = gate.object.table("streams", 4, 1)?;
        let totals = [CONTROL.into(), OTHERS.into(), 0, 0];
        gate.totals.set(&0_u32.to_ne_bytes(), &totals)?;
        for peer in &allowance.peers {
            gate.peer(peer.address, peer.class, None)?;
        }
        for stream in &allowance.streams {
            let key = u32::from(stream.port) | if stream.is_udp { UDP } else { 0 };
            streams.set(&key.to_ne_bytes(), &[stream.class.into()])?;
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

    /// Lets a socket send the frames of a connection, in their class.
    pub(crate) fn channel(
        &self,
        cookie: u64,
        class: u32,
        granted: &Granted,
        [own, peer]: [Ipv4Addr; 2],
    ) -> Result<(), BpfError> {
        let ask = &granted.ask;
        let mut value = [0; CHANNEL_WORDS];
        value[0] = class.into();
        value[1] = addresses(peer, own);
        value[2] = u64::from(ask.source_port) << 16 | u64::from(ask.port);
        value[3] = ask.frame_bytes.into();
        value[4] = (ask.pcp << 5).into();
        self.channels.set(&cookie.to_ne_bytes(), &value)
    }

    /// Takes a socket's rights away: what it sends from now on is best effort.
    pub(crate) fn forget(&self, cookie: u64) -> Result<(), BpfError> {
        self.channels.remove(&cookie.to_ne_bytes())
    }

    pub(crate) fn channel_counts(&self, cookie: u64) -> Result<ChannelCounts, BpfError> {
        let value = self
            .channels
            .get(&cookie.to_ne_bytes())?
            .unwrap_or_default();
        Ok(ChannelCounts {
            frames: word(&value, 5),
            refused: word(&value, 7),
        })
    }

    /// Lets only the talker of a connection send to its port, at no more than its rate.
    pub(crate) fn listener(
        &self,
        granted: &Granted,
        [own, peer]: [Ipv4Addr; 2],
        overhead_bytes: u8,
    ) -> Result<(), BpfError> {
        let ask = &granted.ask;
        let rate = u64::from(ask.rate_bytes_per_ms) * 1_000;
        // Frames that were delayed by the longest promised time arrive together with those that were not.
        let late = rate.saturating_mul(granted.promise_ns) / 1_000_000_000;
        let burst = u64::from(ask.burst_bytes) + late + 1;
        let value = [
            addresses(own, peer),
            ask.source_port.into(),
            rate,
            burst,
            overhead_bytes.into(),
            burst * 1_000_000_000,
            0,
            0,
            0,
            0,
        ];
        let port = u32::from(ask.port);
        self.listeners.set(&port.to_ne_bytes(), &value)
    }

    pub(crate) fn forget_listener(&self, port: u16) -> Result<(), BpfError> {
        self.listeners.remove(&u32::from(port).to_ne_bytes())
    }

    pub(crate) fn listener_counts(&self, port: u16) -> Result<ListenerCounts, BpfError> {
        let value = self.listeners.get(&u32::from(port).to_ne_bytes())?;
        let value = value.unwrap_or_default();
        Ok(ListenerCounts {
            passed: word(&value, 7),
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
            .filter(|line| line.trim_start().starts_with("__u64 "))
            .count()
    }

    #[test]
    fn the_structures_are_those_of_the_programs() {
        assert_eq!(words_of("rtw_agent_channel"), CHANNEL_WORDS);
        assert_eq!(words_of("rtw_agent_peer"), PEER_WORDS);
        assert_eq!(words_of("rtw_agent_listener"), LISTENER_WORDS);
        assert_eq!(words_of("rtw_agent_totals"), TOTAL_WORDS);
    }
}
