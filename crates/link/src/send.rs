//! Sending: one prepared frame, one system call.

mod batch;
#[cfg(test)]
mod card_tests;

use crate::error::LinkError;
use crate::launch::{self, LaunchMode, LaunchQueue};
use crate::path::TxPathInUse;
use crate::stamps::TxStamps;
use rtwire_sys::clock::Clock;
use rtwire_sys::interface::{self, Interface};
use rtwire_sys::launch::LaunchOptions;
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::stamps::{TxStampReader, TxStamping};
use rtwire_sys::udp::UdpSocket;
use rtwire_sys::xsk::XdpSocket;

use crate::uman::Attachment;
pub use rtwire_sys::xsk::ZeroCopy;
use rtwire_sys::{Errno, InterfaceSocket};
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// Error text for a frame without a launch time on a path that needs one.
const NEEDS_TIMES: &str = "a sender of the path `launch` or `xdp-launch` needs a launch time for each frame: call `send_at`";

/// Transmit path of a frame in this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum TxPath {
    /// Through the queueing discipline of the interface.
    #[default]
    Qdisc,
    /// Bypasses the queueing discipline: no queue and no shaper but the sender's own.
    Direct,
    /// Through a queue that holds each frame until its launch time ([`Sender::send_at`]): ETF, alone or below mqprio
    /// or TAPRIO. The queue is looked for when the sender is opened, since a kernel without it ignores launch times
    /// silently. Needs sch_etf and CAP_NET_ADMIN.
    Launch(LaunchMode),
    /// Bypasses the queueing discipline through memory shared with the kernel (AF_XDP), with one copy of each frame unless
    /// [`SenderConfig::zero_copy`] asks for none. The frame's priority selects one of the driver's queues. Each queue
    /// serves one sender.
    Xdp,
    /// As [`Xdp`](Self::Xdp), with launch times ([`Sender::send_at`]) that the card observes. Refused if the driver
    /// does not report that it observes them (Linux 6.15: igc, stmmac). Also refused if no ETF has enabled them at
    /// the priority's transmit queue.
    XdpLaunch,
    /// Through the kernel module `uman`, by the transmit mode of its device: the interface itself, or the one above it. All
    /// senders and receivers of this process share the device; another process cannot use it meanwhile. Frames have no
    /// priority of their own there.
    Uman,
}

/// Configuration of a sender.
#[derive(Clone, Debug)]
pub struct SenderConfig {
    /// The interface's name.
    pub interface: String,
    /// Transmit path.
    pub path: TxPath,
    /// `SO_PRIORITY`: a priority 0 to 7, or the class of a queueing discipline. Above 6 needs CAP_NET_ADMIN.
    pub priority: u32,
    /// IP type of service, for datagrams.
    pub type_of_service: u8,
    /// Kind of transmit timestamps; `None` for none.
    pub stamping: Option<TxStamping>,
    /// Bytes of room for timestamps that wait to be collected; each uses about 800.
    pub stamp_room: usize,
    /// Choice of the path [`TxPath::Xdp`]: a copy of each frame by the kernel, or none. Frames with launch times
    /// ([`TxPath::XdpLaunch`]) go without a copy where the driver can, also with [`ZeroCopy::Never`].
    pub zero_copy: ZeroCopy,
}

impl SenderConfig {
    /// Returns a configuration with the queueing discipline, priority 0 and no timestamps.
    #[must_use]
    pub fn new(interface: impl Into<String>) -> Self {
        Self {
            interface: interface.into(),
            path: TxPath::Qdisc,
            priority: 0,
            type_of_service: 0,
            stamping: None,
            stamp_room: 8 << 20,
            zero_copy: ZeroCopy::Never,
        }
    }
}

#[derive(Debug)]
enum Socket {
    Packet(PacketSocket),
    Udp(UdpSocket),
    Xdp(Box<XdpSocket>),
    Uman(Arc<Attachment>),
}

/// Sends frames or datagrams through one interface.
#[derive(Debug)]
pub struct Sender {
    socket: Socket,
    path: TxPath,
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

    /// Requests the timestamps and launch reports of this configuration from the socket.
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

/// Returns the transmit queue of an interface that a sender of the path [`TxPath::Xdp`] uses, by its priority. The
/// higher half of the priorities uses the higher half of the queues, and so on. Each queue serves one such sender.
/// Reads a directory of sysfs.
#[must_use]
pub fn shared_memory_queue(interface: &str, priority: u32) -> u32 {
    priority.min(7) * interface::transmit_queues(interface) / 8
}

impl Sender {
    /// Opens a sender of whole Ethernet frames.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, the interface does not exist, or it observes no launch times
    /// ([`LinkError::NoLaunch`]).
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
            TxPath::Uman => return Self::by_uman(config),
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
            path: config.path,
            interface,
            frames: 0,
            refused: 0,
            reader,
            launch,
        })
    }

    /// Opens a sender of the kernel module.
    fn by_uman(config: &SenderConfig) -> Result<Self, LinkError> {
        if config.stamping.is_some() {
            return Err(LinkError::Unsupported {
                what: "the path `uman` has no transmit stamps: use the path `qdisc` or `direct`",
            });
        }
        let attachment = Attachment::shared(&config.interface)?;
        Ok(Self {
            interface: attachment.interface().clone(),
            socket: Socket::Uman(attachment),
            path: config.path,
            frames: 0,
            refused: 0,
            launch: None,
            reader: None,
        })
    }

    /// Opens a sender at one transmit queue, with the launch queue there if launch times are wanted.
    fn in_shared_memory(
        config: &SenderConfig,
        interface: Interface,
        (queue, launch): (u32, Option<LaunchQueue>),
    ) -> Result<Self, LinkError> {
        if config.stamping.is_some() {
            return Err(LinkError::Unsupported {
                what: "the paths `xdp` and `xdp-launch` have no transmit stamps: use the path `qdisc` or `direct`",
            });
        }
        let socket = match launch {
            None => XdpSocket::open(&interface, queue, config.zero_copy)?,
            Some(_) => {
                let zero_copy = match config.zero_copy {
                    ZeroCopy::Never | ZeroCopy::IfPossible => ZeroCopy::IfPossible,
                    ZeroCopy::Only => ZeroCopy::Only,
                };
                XdpSocket::open_for_launches(&interface, queue, zero_copy)?
            }
        };
        Ok(Self {
            socket: Socket::Xdp(Box::new(socket)),
            path: config.path,
            interface,
            frames: 0,
            refused: 0,
            launch,
            reader: None,
        })
    }

    /// Opens a sender of UDP datagrams to one peer. They always pass the queueing discipline.
    ///
    /// # Errors
    /// The interface does not exist; the peer has no route; the path is neither [`TxPath::Qdisc`] nor
    /// [`TxPath::Launch`]; or the interface observes no launch times ([`LinkError::NoLaunch`]).
    pub fn datagrams(config: &SenderConfig, peer: SocketAddrV4) -> Result<Self, LinkError> {
        if !matches!(config.path, TxPath::Qdisc | TxPath::Launch(_)) {
            return Err(LinkError::Unsupported {
                what: "UDP cannot bypass the queueing discipline: use the path `qdisc`, or RTDiP",
            });
        }
        let interface = interface::by_name(&config.interface)?;
        let launch = config.launch_queue(&interface)?;
        let socket = UdpSocket::sender(&interface, peer)?;
        socket.set_priority(config.priority, config.type_of_service)?;
        Self::over_udp(config, interface, socket, launch)
    }

    /// Takes over a connected socket of the host's agent, which limits and directs what it sends. Priority and type of
    /// service are the agent's. Needs no privilege.
    ///
    /// # Errors
    /// The interface does not exist, or the path is not [`TxPath::Qdisc`].
    pub fn of_agent(config: &SenderConfig, socket: OwnedFd) -> Result<Self, LinkError> {
        if config.path != TxPath::Qdisc {
            return Err(LinkError::Unsupported {
                what: "a socket of the agent has the path `qdisc` only",
            });
        }
        let interface = interface::by_name(&config.interface)?;
        let socket = UdpSocket::of(&interface, socket);
        Self::over_udp(config, interface, socket, None)
    }

    fn over_udp(
        config: &SenderConfig,
        interface: Interface,
        socket: UdpSocket,
        launch: Option<LaunchQueue>,
    ) -> Result<Self, LinkError> {
        let reader = config.reader(&socket)?;
        Ok(Self {
            socket: Socket::Udp(socket),
            path: config.path,
            interface,
            frames: 0,
            refused: 0,
            reader,
            launch,
        })
    }

    /// Returns the transmit path in use, and whether the kernel copies each frame on it.
    #[must_use]
    pub fn path_in_use(&self) -> TxPathInUse {
        TxPathInUse {
            path: self.path,
            zero_copy: match &self.socket {
                Socket::Xdp(socket) => Some(socket.is_zero_copy()),
                Socket::Packet(_) | Socket::Udp(_) | Socket::Uman(_) => None,
            },
        }
    }

    /// Returns the interface as it was when the sender was opened.
    #[must_use]
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Returns the number of frames numbered so far, including those dropped at a full queue.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.frames
    }

    /// Returns the number of times the peer answered that no one listens there (datagrams only).
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Sets how long a send call waits while the socket's send buffer is full. The buffer is full while some 200 frames wait
    /// in a queue of this host: for a shaper, for a gate that is shut, for the link. Zero, as a sender begins: it does not
    /// wait. The other paths have no such buffer.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_room_wait(&mut self, longest: Duration) -> Result<(), LinkError> {
        match &mut self.socket {
            Socket::Packet(socket) => socket.set_room_wait(longest)?,
            Socket::Udp(socket) => socket.set_room_wait(longest)?,
            Socket::Xdp(_) | Socket::Uman(_) => {}
        }
        Ok(())
    }

    /// Sends one frame or datagram; returns its number, from 0 on. One system call, no allocation, no wait
    /// ([`Self::set_room_wait`]): fit for a real-time loop.
    ///
    /// # Errors
    /// [`LinkError::QueueFull`] if it was dropped before it left, and has used up a number, or if the send buffer was full, and it has
    /// not: [`Self::count`] tells. With any other error it has not.
    #[inline]
    pub fn send(&mut self, bytes: &[u8]) -> Result<u64, LinkError> {
        if self.launch.is_some() {
            return Err(LinkError::Unsupported { what: NEEDS_TIMES });
        }
        self.give(bytes, None)
    }

    /// Hands over one frame or datagram that is to leave at `launch_tai_ns` of CLOCK_TAI; returns its number, from 0
    /// on. Hand it over earlier than the queue's [`LaunchQueue::delta_ns`] before that time. One system call, no
    /// allocation: fit for a real-time loop.
    ///
    /// Its later fate is in the reports ([`Sender::take_stamps`]). A card reports nothing ([`TxPath::XdpLaunch`]),
    /// and there a frame with a later time holds back those behind it.
    ///
    /// # Errors
    /// [`LinkError::LaunchRefused`] if the queue dropped it at once; then it has used up a number. Else as of
    /// [`Self::send`].
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
            let by = |socket: &InterfaceSocket| match launch_ns {
                None => socket.send(bytes),
                Some(launch_ns) => socket.send_at(bytes, launch_ns),
            };
            let result = match &self.socket {
                Socket::Packet(socket) => by(socket),
                Socket::Udp(socket) => by(socket),
                Socket::Xdp(_) => return self.copy_and_send(bytes, launch_ns),
                // It has no launch queue, so there is no time.
                Socket::Uman(attachment) => attachment.device().send(bytes),
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

    /// Returns the queue that observes launch times, for the paths [`TxPath::Launch`] and [`TxPath::XdpLaunch`].
    #[must_use]
    pub fn launch_queue(&self) -> Option<LaunchQueue> {
        self.launch
    }

    /// Returns `true` if the error concerns an earlier datagram and not this one (the kernel reports it only once).
    fn is_report(&self, errno: Errno) -> bool {
        const ECONNREFUSED: i32 = 111;
        matches!(self.socket, Socket::Udp(_)) && errno.0 == ECONNREFUSED
    }

    #[cold]
    fn failed(&mut self, errno: Errno, octets: usize) -> LinkError {
        // The send buffer is full. The kernel, too, numbers only the frames that it has taken: its stamps must fit the numbers.
        if errno.would_block() {
            return LinkError::QueueFull;
        }
        let error = LinkError::of(
            "send",
            &self.interface.name,
            errno,
            octets,
            || match &self.socket {
                Socket::Packet(socket) => socket.interface_exists(),
                Socket::Udp(socket) => socket.interface_exists(),
                Socket::Xdp(socket) => socket.interface_exists(),
                Socket::Uman(attachment) => attachment.device().exists(),
            },
        );
        if matches!(error, LinkError::QueueFull) {
            self.frames += 1;
        }
        error
    }

    /// Splits off the collector of transmit timestamps and launch reports, which may move to another thread. Returns
    /// `None` if neither was requested or it was already taken.
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
