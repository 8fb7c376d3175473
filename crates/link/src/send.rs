//! Sending: one prepared frame, one system call.

use crate::error::LinkError;
use crate::stamps::TxStamps;
use rtwire_sys::Errno;
use rtwire_sys::interface::{self, Interface};
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::stamps::{TxStampReader, TxStamping};
use rtwire_sys::udp::UdpSocket;
use std::net::SocketAddrV4;

/// The way a frame takes out of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum TxPath {
    /// Through the queueing discipline of the interface.
    #[default]
    Qdisc,
    /// Past it: no queue and no shaper but the sender's own.
    Direct,
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
}

/// Sends frames or datagrams through one interface.
#[derive(Debug)]
pub struct Sender {
    socket: Socket,
    interface: Interface,
    frames: u64,
    refused: u64,
    reader: Option<TxStampReader>,
}

impl Sender {
    /// Opens a sender of whole Ethernet frames.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or there is no such interface.
    pub fn frames(config: &SenderConfig) -> Result<Self, LinkError> {
        let interface = interface::by_name(&config.interface)?;
        let socket = PacketSocket::sender(&interface)?;
        if config.path == TxPath::Direct {
            socket.bypass_qdisc()?;
        }
        socket.set_priority(config.priority)?;
        let reader = match config.stamping {
            Some(which) => {
                socket.set_receive_room(config.stamp_room)?;
                Some(socket.enable_tx_stamps(which)?)
            }
            None => None,
        };
        Ok(Self {
            socket: Socket::Packet(socket),
            interface,
            frames: 0,
            refused: 0,
            reader,
        })
    }

    /// Opens a sender of UDP datagrams to one peer. They always go through the queueing discipline.
    ///
    /// # Errors
    /// There is no such interface or no way to the peer, or the path is not [`TxPath::Qdisc`].
    pub fn datagrams(config: &SenderConfig, peer: SocketAddrV4) -> Result<Self, LinkError> {
        if config.path != TxPath::Qdisc {
            return Err(LinkError::Unsupported {
                what: "UDP has no way past the queueing discipline: take the path `qdisc`, or RTDiP",
            });
        }
        let interface = interface::by_name(&config.interface)?;
        let socket = UdpSocket::sender(&interface, peer)?;
        socket.set_priority(config.priority, config.type_of_service)?;
        let reader = match config.stamping {
            Some(which) => {
                socket.set_receive_room(config.stamp_room)?;
                Some(socket.enable_tx_stamps(which)?)
            }
            None => None,
        };
        Ok(Self {
            socket: Socket::Udp(socket),
            interface,
            frames: 0,
            refused: 0,
            reader,
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
        loop {
            let result = match &self.socket {
                Socket::Packet(socket) => socket.send(bytes),
                Socket::Udp(socket) => socket.send(bytes),
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
            return Err(self.failed(errno, bytes.len()));
        }
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
            },
        );
        if matches!(error, LinkError::QueueFull) {
            self.frames += 1;
        }
        error
    }

    /// Splits off the collector of transmit stamps, which may go to another thread; `None` if none were asked for or it
    /// is gone already.
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
