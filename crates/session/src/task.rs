//! The tasks of one host, ready for its channels: plain data, which also goes to another process as JSON.

use std::net::Ipv4Addr;

use rtwire_channel::{ReceivePath, TxPath};
use serde::{Deserialize, Serialize};

use crate::margin::SpinMargin;

/// All tasks of one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// The host's name, for messages.
    pub host: String,
    /// The network namespace to move into; empty: none.
    pub namespace: String,
    /// The interface in that namespace.
    pub interface: String,
    /// The streams that it sends.
    pub talkers: Vec<TalkerTask>,
    /// The streams that it receives.
    pub listeners: Vec<ListenerTask>,
    /// The receive path of the listeners.
    #[serde(with = "as_text")]
    pub receive_path: ReceivePath,
    /// The directory for the samples; `None`: they are not kept.
    pub directory: Option<String>,
    /// The time that listeners wait for frames on their way after the talkers' end, ns.
    pub drain_ns: u64,
}

/// Serializes a path as its name.
mod as_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::fmt::Display;
    use std::str::FromStr;

    pub(super) fn serialize<P: Display, S: Serializer>(path: &P, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(path)
    }

    pub(super) fn deserialize<'a, P, D>(from: D) -> Result<P, D::Error>
    where
        P: FromStr,
        P::Err: Display,
        D: Deserializer<'a>,
    {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// The times at which a talker sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "kebab-case")]
pub enum Pattern {
    /// One frame each interval.
    Cyclic {
        /// The interval, ns.
        interval_ns: u64,
    },
    /// As many frames as the shaper lets pass, at any time.
    Saturating,
    /// As many frames as the link takes, without a shaper.
    Greedy,
    /// Some frames back to back in each interval: to calibrate the unloaded network.
    Bursts {
        /// Frames of one burst.
        frames: u32,
        /// The time from one burst to the next, ns.
        interval_ns: u64,
        /// The time from the start to the first burst, ns.
        offset_ns: u64,
    },
}

/// The destination of a stream's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "transport", rename_all = "kebab-case")]
pub enum Address {
    /// Ethernet frames of their own.
    Rtdip {
        /// The destination's MAC address: a group, or one interface.
        mac: [u8; 6],
        /// The VLAN id of the tag; none: untagged.
        vlan: Option<u16>,
    },
    /// Datagrams.
    Udp {
        /// The destination's IPv4 address: a group, or one host.
        ip: Ipv4Addr,
    },
}

/// One stream at its talker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TalkerTask {
    /// Index of the stream in the plan's network; other traffic is numbered behind the streams.
    pub stream: usize,
    /// The stream's name.
    pub name: String,
    /// The destination.
    pub address: Address,
    /// RTDiP port of destination and source.
    pub port: u16,
    /// Channel key; 0: none.
    pub key: u32,
    /// Priority, 0 to 7.
    pub pcp: u8,
    /// True if listeners take only the newest value.
    pub newest: bool,
    /// The user data of a frame, bytes.
    pub payload_bytes: usize,
    /// A frame on the wire, bits.
    pub wire_bits: u64,
    /// The times at which it sends.
    pub pattern: Pattern,
    /// Rate on the wire, bit/s, as a ratio.
    pub rate: (u64, u64),
    /// Burst on the wire, bits.
    pub burst_bits: u64,
    /// T_s, the shaping interval, ns.
    pub shaping_interval_ns: u64,
    /// J, the declared tick error, ns.
    pub tick_error_ns: u64,
    /// The largest number of frames, to make room for their timestamps; 0: none are kept.
    pub frames_most: usize,
    /// The priority of its thread (SCHED_FIFO).
    pub realtime: u8,
    /// The transmit path.
    #[serde(with = "as_text")]
    pub path: TxPath,
    /// The plan's launch: the offset after whole periods of CLOCK_TAI, and the period, ns.
    pub launch: Option<(u64, u64)>,
    /// The time in ns from whole intervals of CLOCK_TAI to its instants, where it is cyclic and has no launch.
    pub phase_ns: u64,
    /// True if the kernel's transmit timestamps are collected.
    pub stamps: bool,
    /// The time that it spins before each instant of its grid.
    pub spin_margin: SpinMargin,
}

/// One stream at one of its listeners.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerTask {
    /// Index of the stream in the plan's network; other traffic is numbered behind the streams.
    pub stream: usize,
    /// The stream's name.
    pub name: String,
    /// True if it arrives in UDP.
    pub udp: bool,
    /// RTDiP port, or UDP port.
    pub port: u16,
    /// Channel key; 0: none.
    pub key: u32,
    /// True if it takes only the newest value.
    pub newest: bool,
    /// The largest number of frames, to make room for their samples.
    pub frames_most: usize,
    /// The number of arrivals of newest values that are noted, read or not; 0: none.
    pub arrivals: usize,
    /// True if its talker is known to send filler, so that each payload must have its checksum.
    pub filler: bool,
    /// The number of frames after which the listener stops reading: a fault for tests.
    pub reads_most: Option<usize>,
    /// The priority of its thread (SCHED_FIFO).
    pub realtime: u8,
    /// The MAC group that its interface has to let through.
    pub group: Option<[u8; 6]>,
    /// The IPv4 group that it joins.
    pub ip_group: Option<Ipv4Addr>,
    /// True if it polls the driver in its own calls.
    pub polls: bool,
    /// The time that it spins before it sleeps, ns.
    pub spin_ns: u64,
    /// The limits beyond which frames are dropped on arrival: bit/s, bits at once, bytes of overhead for a frame.
    pub police: Option<(u64, u64, u16)>,
    /// The stream's contract, which is watched here; `None`: it has none.
    pub contract: Option<ContractTerms>,
}

/// The contract of a stream, as one of its listeners watches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContractTerms {
    /// r: rate on the wire, bit/s, as a ratio.
    pub rate: (u64, u64),
    /// b: burst on the wire, bits.
    pub burst_bits: u64,
    /// The tolerance beyond the burst: the rate for this time, ns.
    pub margin_ns: u64,
    /// A frame on the wire, bits.
    pub frame_bits: u64,
    /// The largest user data of a frame, bytes.
    pub payload_bytes: usize,
}

/// An order to the threads that carry out an assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Send between two instants of CLOCK_TAI.
    Run {
        /// The beginning, ns.
        start_ns: u64,
        /// The end, ns.
        end_ns: u64,
    },
    /// End now, and answer.
    Stop,
}
