//! How channels are to be opened.

use rtwire_link::program::Police;
use rtwire_link::{TxPath, TxStamping, WakeUp};
use rtwire_wire::rtdip::Semantics;
use rtwire_wire::{EtherType, MacAddress, Pcp, VlanTag};
use std::net::{Ipv4Addr, SocketAddrV4};

/// How a talker's values travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// In Ethernet frames of their own.
    Rtdip {
        /// The listener's interface, or a group.
        destination: MacAddress,
        /// A VLAN tag for the frames.
        vlan: Option<VlanTag>,
    },
    /// In UDP datagrams, where the peer is beyond a router. The type of service is `pcp << 5`.
    Udp {
        /// The listener's address; its UDP port is by habit the channel's port.
        destination: SocketAddrV4,
    },
}

impl Transport {
    /// Frames without a VLAN tag.
    #[must_use]
    pub const fn rtdip(destination: MacAddress) -> Self {
        Self::Rtdip {
            destination,
            vlan: None,
        }
    }

    /// Datagrams to a host, at the UDP port that equals the channel's port.
    #[must_use]
    pub const fn udp(destination: Ipv4Addr, port: u16) -> Self {
        Self::Udp {
            destination: SocketAddrV4::new(destination, port),
        }
    }
}

/// How a talker is to be opened.
#[derive(Clone, Debug)]
pub struct TalkerConfig {
    /// The interface's name.
    pub interface: String,
    /// How the values travel, and where to.
    pub transport: Transport,
    /// The EtherType of RTDiP frames.
    pub ether_type: EtherType,
    /// The listener's port.
    pub destination_port: u16,
    /// This talker's port: tells a listener's several senders apart.
    pub source_port: u16,
    /// Urgency.
    pub pcp: Pcp,
    /// `SO_PRIORITY` of the socket, for example the class of a queueing discipline; `None`: the same number as `pcp`.
    pub socket_priority: Option<u32>,
    /// Channel key, 0 for none.
    pub key: u32,
    /// Queue or newest value; must be the listener's.
    pub semantics: Semantics,
    /// The way out of this host. UDP has [`TxPath::Qdisc`] and [`TxPath::Launch`].
    pub path: TxPath,
    /// Whether each value tells the moment of CLOCK_TAI at which it was sent: 8 octets, and a look at the clock (some
    /// 60 ns). Without it a listener cannot tell a value's age, nor a talker that began again from one that lost some.
    pub sender_time: bool,
    /// How many values [`Talker::send_batch`](crate::Talker::send_batch) sends with one system call: at most 32, and a frame's
    /// memory each.
    pub batch: usize,
    /// The kernel's transmit stamps, if any; see [`Talker::take_stamps`](crate::Talker::take_stamps).
    pub stamping: Option<TxStamping>,
}

impl TalkerConfig {
    /// Queue semantics at priority 0, with the time of sending, without key and stamps, through the queueing discipline;
    /// source port 0.
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
        }
    }
}

/// What a listener listens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ListenerTransport {
    /// RTDiP frames for the interface's address or a group.
    #[default]
    Rtdip,
    /// UDP datagrams for this address; 0.0.0.0 is any of the host's.
    Udp(SocketAddrV4),
}

impl ListenerTransport {
    /// UDP at any address of the host, at the UDP port that equals the channel's port.
    #[must_use]
    pub const fn udp(port: u16) -> Self {
        Self::Udp(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))
    }
}

/// In which order a queue listener hands out what waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// The most urgent first, and first in first out within one priority.
    #[default]
    MostUrgentFirst,
    /// As they have come. Enough, and cheaper for one that blocks, where all talkers of the channel send with the same
    /// priority: there is nothing to look for behind the first.
    Arrival,
}

/// How a listener is to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerConfig {
    /// The channel's port.
    pub port: u16,
    /// Channel key, 0 for none: what has another is dropped and counted.
    pub key: u32,
    /// Frames or datagrams.
    pub transport: ListenerTransport,
    /// How to wait.
    pub wake_up: WakeUp,
    /// In which order a queue is handed out.
    pub order: Order,
    /// How many frames may wait: as many in the kernel, and as many again in this process, sorted by priority. With the
    /// receive program: as many of each priority, rounded up to a power of two.
    pub queue_frames: usize,
    /// Whether the kernel is to stamp what comes. It begins some time after opening (up to 0.3 s on a busy host).
    pub stamps: bool,
    /// The channel's contract: what exceeds it is dropped and counted. The receive program does that before a frame costs a
    /// copy, packet sockets only when it is fetched.
    pub police: Option<Police>,
}

impl ListenerConfig {
    /// RTDiP frames, no key, blocking, most urgent first, room for 256 frames, with stamps, no contract.
    #[must_use]
    pub const fn new(port: u16) -> Self {
        Self {
            port,
            key: 0,
            transport: ListenerTransport::Rtdip,
            wake_up: WakeUp::Block,
            order: Order::MostUrgentFirst,
            queue_frames: 256,
            stamps: true,
            police: None,
        }
    }

    /// Whether the receive program serves such a listener at less cost than a packet socket does; by this
    /// [`ReceivePath::Auto`](crate::ReceivePath::Auto) chooses. Measured (`make bench-receive`; docs/measurements/receive-figures.md):
    ///
    /// - newest values: yes. They are read where they lie, in some 20 ns and without a system call;
    /// - a queue whose reader spins, at least at first: yes, and each priority has memory of its own;
    /// - a queue whose reader sleeps: no. The frame that wakes it goes two ways, into memory and to Linux, and a round trip
    ///   takes some 20 % longer;
    /// - datagrams: no, they come through their socket.
    #[must_use]
    pub fn suits_program(&self, semantics: Semantics) -> bool {
        let spins = self.wake_up != WakeUp::Block;
        self.transport == ListenerTransport::Rtdip && (semantics == Semantics::Newest || spins)
    }
}
