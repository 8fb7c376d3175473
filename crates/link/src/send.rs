//! Sending: one prepared frame, one system call.

mod batch;
#[cfg(test)]
mod card_tests;

use crate::error::LinkError;
use crate::launch::{self, LaunchMode, LaunchQueue};
use crate::stamps::TxStamps;
use rtwire_sys::clock::Clock;
use rtwire_sys::interface::{self, Interface};
use rtwire_sys::launch::LaunchOptions;
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::stamps::{TxStampReader, TxStamping};
use rtwire_sys::udp::UdpSocket;
use rtwire_sys::xsk::XdpSocket;
use rtwire_sys::{Errno, InterfaceSocket};
use std::net::SocketAddrV4;

/// What is said where a frame of a sender of launch times has none.
const NEEDS_TIMES: &str = "a sender of the path `launch` or `xdp-launch` needs a launch time for each frame: call `send_at`";

/// The way a frame takes out of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum TxPath {
    /// Through the queueing discipline of the interface.
    #[default]
    Qdisc,
    /// Past it: no queue and no shaper but the sender's own.
    Direct,
    /// Through a queue that keeps each frame until its launch time ([`Sender::send_at`]): ETF, alone or below mqprio or
    /// TAPRIO. Looked for when the sender is opened, since a kernel without it ignores launch times silently. Needs sch_etf
    /// and CAP_NET_ADMIN.
    Launch(LaunchMode),
    /// Past it, through memory shared with the kernel (AF_XDP), without a copy where the driver can. The frame's priority
    /// chooses among the driver's queues; each has room for one sender.
    Xdp,
    /// The same, with launch times ([`Sender::send_at`]) that the card keeps. Refused where the driver does not say that it
    /// keeps them (Linux 6.15: igc, stmmac), or where no ETF has turned them on at the priority's transmit queue.
    XdpLaunch,
}

/// How a sender is to be opened.
#[derive(Clone, Debug)]
pub struct SenderConfig {
    /// The interface's name.
    pub interface: String,
    /// The way out.
    pub path: TxPath,
    /// `SO_PRIORITY`: a priority 0 to 7, or the class of a queueing discipline. Above 6 needs CAP_NET_ADMIN.
    pub priority: u32,
    /// IP type of service, for datagrams.
    pub type_of_service: u8,
    /// The transmit stamps to take, if any.
    pub stamping: Option<TxStamping>,
    /// Octets of room for stamps that wait to be collected; about 800 are used for each.
    pub stamp_room: usize,
}

impl SenderConfig {
    /// Through the queueing discipline at priority 0, without stamps.
    #[must_use]
    pub fn new(interface: impl Into<String>) -> Self {
        Self {
            interface: interface.into(),
            path: TxPath::Qdisc,
            priority: 0,
            type_of_service: 0,
            stamping: None,
            stamp_room: 8 << 20,
        }
    }
}

#[derive(Debug)]
enum Socket {
    Packet(PacketSocket),
    Udp(UdpSocket),
    Xdp(Box<XdpSocket>),
}

/// Sends frames or datagrams through one interface.
#[derive(Debug)]
pub struct Sender {
    socket: Socket,
    interface: Interface,
    frames: u64,
    refused: u64,
    reader: Option<TxStampReader>,
    launch: Option<LaunchQueue>,
}

impl SenderConfig {
    fn launch_queue(&self, interface: &Interface) -> Result<Option<LaunchQueue>, LinkError> {
        match self.path {
            TxPath::Launch(mode) => launch::queue(interface, self.priority, mode).map(Some),
            _ => Ok(None),
        }
    }

    /// Asks the socket for the stamps and launch reports of this set-up.
    fn reader(&self, socket: &InterfaceSocket) -> Result<Option<TxStampReader>, LinkError> {
        let mut reader = None;
        if let TxPath::Launch(mode) = self.path {
            socket.set_receive_room(self.stamp_room)?;
            reader = Some(socket.enable_launch(LaunchOptions {
                clock: Clock::Tai,
                deadline: mode == LaunchMode::Deadline,
                report: true,
            })?);
        }
        if let Some(which) = self.stamping {
            socket.set_receive_room(self.stamp_room)?;
            reader = Some(socket.enable_tx_stamps(which)?);
        }
        Ok(reader)
    }
}

/// The transmit queue of an interface that a sender of the path [`TxPath::Xdp`] has, by its priority: the higher half of the
/// priorities has the higher half of the queues, and so on. Each queue takes one such sender. Reads a folder of sysfs.
#[must_use]
pub fn shared_memory_queue(interface: &str, priority: u32) -> u32 {
    priority.min(7) * interface::transmit_queues(interface) / 8
}

impl Sender {
    /// Opens a sender of whole Ethernet frames.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, there is no such interface, or it keeps no launch times ([`LinkError::NoLaunch`]).
    pub fn frames(config: &SenderConfig) -> Result<Self, LinkError> {
        let interface = interface::by_name(&config.interface)?;
        match config.path {
            TxPath::Xdp => {
                let queue = shared_memory_queue(&interface.name, config.priority);
                return Self::in_shared_memory(config, interface, (queue, None));
            }
            TxPath::XdpLaunch => {
                let (queue, launch) = launch::card_queue(&interface, config.priority)?;
                return Self::in_shared_memory(config, interface, (queue, Some(launch)));
            }
            _ => {}
        }
        let launch = config.launch_queue(&interface)?;
        let socket = PacketSocket::sender(&interface)?;
        if config.path == TxPath::Direct {
            socket.bypass_qdisc()?;
        }
        socket.set_priority(config.priority)?;
        let reader = config.reader(&socket)?;
        Ok(Self {
            socket: Socket::Packet(socket),
            interface,
            frames: 0,
            refused: 0,
            reader,
            launch,
        })
    }

    /// Opens a sender at one transmit queue; with what keeps launch times there, if they are wanted.
    fn in_shared_memory(
        config: &SenderConfig,
        interface: Interface,
        (queue, launch): (u32, Option<LaunchQueue>),
    ) -> Result<Self, LinkError> {
        if config.stamping.is_some() {
            return Err(LinkError::Unsupported {
                what: "the paths `xdp` and `xdp-launch` have no transmit stamps: take the path `qdisc` or `direct`",
            });
        }
        let socket = match launch {
            None => XdpSocket::open(&interface, queue)?,
            Some(_) => XdpSocket::open_for_launches(&interface, queue)?,
        };
        Ok(Self {
            socket: Socket::Xdp(Box::new(socket)),
            interface,
            frames: 0,
            refused: 0,
            launch,
            reader: None,
        })
    }

    /// Opens a sender of UDP datagrams to one peer. They always go through the queueing discipline.
    ///
    /// # Errors
    /// There is no such interface or no way to the peer, the path is neither [`TxPath::Qdisc`] nor [`TxPath::Launch`], or
    /// the interface keeps no launch times ([`LinkError::NoLaunch`]).
    pub fn datagrams(config: &SenderConfig, peer: SocketAddrV4) -> Result<Self, LinkError> {
        if !matches!(config.path, TxPath::Qdisc | TxPath::Launch(_)) {
            return Err(LinkError::Unsupported {
                what: "UDP has no way past the queueing discipline: take the path `qdisc`, or RTDiP",
            });
        }
        let interface = interface::by_name(&config.interface)?;
        let launch = config.launch_queue(&interface)?;
        let socket = UdpSocket::sender(&interface, peer)?;
        socket.set_priority(config.priority, config.type_of_service)?;
        let reader = config.reader(&socket)?;
        Ok(Self {
            socket: Socket::Udp(socket),
            interface,
            frames: 0,
            refused: 0,
            reader,
            launch,
        })
    }

    /// The interface, as it was when the sender was opened.
    #[must_use]
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Frames that have got a number, those dropped at a full queue included.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.frames
    }

    /// How often the peer has answered that nobody listens there (datagrams only).
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Sends one frame or datagram; gives its number, from 0 on. One system call, no allocation; fit for a real-time
    /// loop. Waits only where the socket's own send buffer is full.
    ///
    /// # Errors
    /// [`LinkError::QueueFull`] if it was dropped before it left: it has used up a number. With any other error it has not.
    #[inline]
    pub fn send(&mut self, bytes: &[u8]) -> Result<u64, LinkError> {
        if self.launch.is_some() {
            return Err(LinkError::Unsupported { what: NEEDS_TIMES });
        }
        self.give(bytes, None)
    }

    /// Hands over one frame or datagram that is to leave at `launch_tai_ns` of CLOCK_TAI; gives its number, from 0 on. It
    /// must be handed over earlier than the queue's [`LaunchQueue::delta_ns`] before that. One system call, no allocation;
    /// fit for a real-time loop. What becomes of it later stands in the reports ([`Sender::take_stamps`]); a card reports
    /// nothing ([`TxPath::XdpLaunch`]), and a frame with a later time holds those behind it back.
    ///
    /// # Errors
    /// [`LinkError::LaunchRefused`] if the queue dropped it at once: it has used up a number. Else as of [`Self::send`].
    #[inline]
    pub fn send_at(&mut self, bytes: &[u8], launch_tai_ns: u64) -> Result<u64, LinkError> {
        if self.launch.is_none() {
            return Err(LinkError::Unsupported {
                what: "launch times need a sender of the path `launch` or `xdp-launch`",
            });
        }
        self.give(bytes, Some(launch_tai_ns))
    }

    #[inline]
    fn give(&mut self, bytes: &[u8], launch_ns: Option<u64>) -> Result<u64, LinkError> {
        loop {
            let socket: &InterfaceSocket = match &self.socket {
                Socket::Packet(socket) => socket,
                Socket::Udp(socket) => socket,
                Socket::Xdp(_) => return self.copy_and_send(bytes, launch_ns),
            };
            let result = match launch_ns {
                None => socket.send(bytes),
                Some(launch_ns) => socket.send_at(bytes, launch_ns),
            };
            let Err(errno) = result else {
                let number = self.frames;
                self.frames += 1;
                return Ok(number);
            };
            if errno.interrupted() {
                continue;
            }
            if self.is_report(errno) {
                self.refused += 1;
                continue;
            }
            let error = self.failed(errno, bytes.len());
            return Err(match (error, launch_ns) {
                (LinkError::QueueFull, Some(launch_ns)) => LinkError::LaunchRefused { launch_ns },
                (error, _) => error,
            });
        }
    }

    /// The queue that keeps launch times, for a sender of the path [`TxPath::Launch`] or [`TxPath::XdpLaunch`].
    #[must_use]
    pub fn launch_queue(&self) -> Option<LaunchQueue> {
        self.launch
    }

    /// Whether this is the news of an earlier datagram and not this one's fate (the kernel reports it only once).
    fn is_report(&self, errno: Errno) -> bool {
        const ECONNREFUSED: i32 = 111;
        matches!(self.socket, Socket::Udp(_)) && errno.0 == ECONNREFUSED
    }

    #[cold]
    fn failed(&mut self, errno: Errno, octets: usize) -> LinkError {
        let error = LinkError::of(
            "send",
            &self.interface.name,
            errno,
            octets,
            || match &self.socket {
                Socket::Packet(socket) => socket.interface_exists(),
                Socket::Udp(socket) => socket.interface_exists(),
                Socket::Xdp(socket) => socket.interface_exists(),
            },
        );
        if matches!(error, LinkError::QueueFull) {
            self.frames += 1;
        }
        error
    }

    /// Splits off the collector of transmit stamps and launch reports, which may go to another thread; `None` if neither were
    /// asked for or it is gone already.
    ///
    /// # Errors
    /// The offset of CLOCK_TAI cannot be read.
    pub fn take_stamps(&mut self) -> Result<Option<TxStamps>, LinkError> {
        match self.reader.take() {
            Some(reader) => Ok(Some(TxStamps::new(reader, self.interface.name.clone())?)),
            None => Ok(None),
        }
    }
}
