//! Configuration of talkers and listeners.

use rtwire_link::card_time::CardTime;
use rtwire_link::program::Police;
use rtwire_link::{TxPath, TxStamping, WakeUp};
use rtwire_wire::rtdip::Semantics;
use rtwire_wire::{EtherType, MacAddress, Pcp, VlanTag};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

/// Transport of a talker's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Ethernet frames of their own.
    Rtdip {
        /// The MAC address of the listener's interface, or a group address.
        destination: MacAddress,
        /// A VLAN tag for the frames.
        vlan: Option<VlanTag>,
    },
    /// UDP datagrams, for a peer beyond a router. The type of service is `pcp << 5`.
    Udp {
        /// The listener's address. By convention its UDP port equals the channel's port.
        destination: SocketAddrV4,
    },
}

impl Transport {
    /// Returns a transport in frames without a VLAN tag.
    #[must_use]
    pub const fn rtdip(destination: MacAddress) -> Self {
        Self::Rtdip {
            destination,
            vlan: None,
        }
    }

    /// Returns a transport in datagrams to a host, at the UDP port that equals the channel's port.
    #[must_use]
    pub const fn udp(destination: Ipv4Addr, port: u16) -> Self {
        Self::Udp {
            destination: SocketAddrV4::new(destination, port),
        }
    }
}

/// Configuration of a talker.
#[derive(Clone, Debug)]
pub struct TalkerConfig {
    /// The interface's name.
    pub interface: String,
    /// Transport and destination of the values.
    pub transport: Transport,
    /// The EtherType of RTDiP frames.
    pub ether_type: EtherType,
    /// The listener's port.
    pub destination_port: u16,
    /// This talker's port, by which a listener tells its senders apart.
    pub source_port: u16,
    /// Priority of the values.
    pub pcp: Pcp,
    /// `SO_PRIORITY` of the socket, for example the class of a queueing discipline. `None` uses the same number as
    /// `pcp`.
    pub socket_priority: Option<u32>,
    /// Channel key; 0 for none.
    pub key: u32,
    /// Queue or newest value; must match the listener's.
    pub semantics: Semantics,
    /// Transmit path of this host. UDP supports [`TxPath::Qdisc`] and [`TxPath::Launch`].
    pub path: TxPath,
    /// `true` writes the time of sending (CLOCK_TAI) into each value, which costs 8 bytes and one clock read (some 60
    /// ns). Without it a listener cannot tell a value's age, nor a restarted talker from one that lost values.
    pub sender_time: bool,
    /// Number of values that [`Talker::send_batch`](crate::Talker::send_batch) sends with one system call, at most
    /// 32. Each takes the memory of one frame.
    pub batch: usize,
    /// Kind of the kernel's transmit timestamps; `None` for none. See
    /// [`Talker::take_stamps`](crate::Talker::take_stamps).
    pub stamping: Option<TxStamping>,
    /// The clock of the card whose stamps are asked for ([`TxStamping::card`]).
    pub card: Option<Arc<CardTime>>,
}

impl TalkerConfig {
    /// Returns a configuration with queue semantics, priority 0 and the time of sending. It has no key and no
    /// timestamps, uses the queueing discipline, and sends from port 0.
    #[must_use]
    pub fn new(interface: impl Into<String>, transport: Transport, destination_port: u16) -> Self {
        Self {
            interface: interface.into(),
            transport,
            ether_type: EtherType::RTDIP,
            destination_port,
            source_port: 0,
            pcp: Pcp::LOWEST,
            socket_priority: None,
            key: 0,
            semantics: Semantics::Queue,
            path: TxPath::Qdisc,
            sender_time: true,
            batch: 1,
            stamping: None,
            card: None,
        }
    }
}

/// Transport of the values that a listener receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ListenerTransport {
    /// RTDiP frames for the interface's address or a group address.
    #[default]
    Rtdip,
    /// UDP datagrams for this address; 0.0.0.0 means any address of the host.
    Udp(SocketAddrV4),
}

impl ListenerTransport {
    /// Returns a transport in UDP datagrams at any address of the host, at the UDP port that equals the channel's
    /// port.
    #[must_use]
    pub const fn udp(port: u16) -> Self {
        Self::Udp(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))
    }
}

/// Order in which a queue listener returns waiting values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// The most urgent first, and first in, first out within one priority.
    #[default]
    MostUrgentFirst,
    /// Order of arrival. It suffices where all talkers of the channel send with the same priority. It is cheaper for
    /// a listener that blocks, which need not look behind the first frame.
    Arrival,
}

/// Configuration of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerConfig {
    /// The channel's port.
    pub port: u16,
    /// Channel key; 0 for none. Values with another key are dropped and counted.
    pub key: u32,
    /// Ethernet frames or UDP datagrams.
    pub transport: ListenerTransport,
    /// Way to wait: block, spin, or spin first.
    pub wake_up: WakeUp,
    /// Order in which a queue returns its values.
    pub order: Order,
    /// Number of frames that may wait: this many in the kernel, and this many again in this process, sorted by
    /// priority. With the receive program this many for each priority, rounded up to a power of two.
    pub queue_frames: usize,
    /// Number of values whose arrival is noted for
    /// [`NewestListener::arrivals`](crate::NewestListener::arrivals), the newest ones, rounded up to a power of two, at
    /// most 131072; 0 for none. For newest values only. Each takes 32 bytes of kernel memory and, when a value comes,
    /// some 10 ns in the receive program. With packet sockets each takes 64 bytes of this process's memory.
    pub arrivals: usize,
    /// `true` asks for the kernel's receive timestamps. They begin some time after opening (up to 0.3 s on a busy
    /// host).
    pub stamps: bool,
    /// The channel's contract. Frames beyond it are dropped and counted: by the receive program before they are
    /// copied, by packet sockets only when they are fetched.
    pub police: Option<Police>,
}

impl ListenerConfig {
    /// Returns a configuration for RTDiP frames: no key, blocking, most urgent first, room for 256 frames,
    /// timestamps, no contract.
    #[must_use]
    pub const fn new(port: u16) -> Self {
        Self {
            port,
            key: 0,
            transport: ListenerTransport::Rtdip,
            wake_up: WakeUp::Block,
            order: Order::MostUrgentFirst,
            queue_frames: 256,
            arrivals: 0,
            stamps: true,
            police: None,
        }
    }

    /// Returns `true` if the receive program serves such a listener at less cost than a packet socket.
    /// [`ReceivePath::Auto`](crate::ReceivePath::Auto) chooses by it. The rule is measured (`make bench-receive`;
    /// docs/receive-program.md):
    ///
    /// - newest values: yes. They are read in place, in some 20 ns and without a system call;
    /// - a queue whose reader spins, at least at first: yes. Each priority then has memory of its own;
    /// - a queue whose reader sleeps: no. The frame that wakes it is delivered twice, to memory and to Linux, and a
    ///   round trip takes some 20 % longer;
    /// - datagrams: no. They are received from their socket.
    #[must_use]
    pub fn suits_program(&self, semantics: Semantics) -> bool {
        let spins = self.wake_up != WakeUp::Block;
        self.transport == ListenerTransport::Rtdip && (semantics == Semantics::Newest || spins)
    }
}
