//! Source of a receiver's frames: a ring shared with the kernel, a socket read in batches, or the ring of the module `uman`.

use crate::card_time::StampClocks;
use crate::error::LinkError;
use crate::receive::{Frame, ReceiverConfig};
use crate::uman::UmanQueue;
use rtwire_sys::packet::{FilterPlace, PacketSocket};
use rtwire_sys::ring::Ring;
use rtwire_sys::udp::UdpSocket;
use rtwire_sys::{Batch, Errno, InterfaceSocket, Ready, Wait};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Bytes of room for one frame or datagram.
const ROOM: usize = 1536;
/// Largest number of messages fetched with one call; the kernel's own limit.
const MOST: usize = 1024;

/// A socket that is read with system calls.
#[derive(Debug)]
pub(crate) enum Socket {
    Packet(PacketSocket),
    Udp(UdpSocket),
}

impl Socket {
    #[inline]
    fn shared(&self) -> &InterfaceSocket {
        match self {
            Self::Packet(socket) => socket,
            Self::Udp(socket) => socket,
        }
    }
}

/// A ring, a socket with the batch last read from it, or the module's ring with the frames last read from it.
#[derive(Debug)]
pub(crate) enum Source {
    Ring {
        socket: PacketSocket,
        ring: Ring,
    },
    Batch {
        socket: Socket,
        batch: Batch,
        /// Messages of the batch that were released.
        next: usize,
        /// The receive timeout in force at the socket.
        timeout: Option<Duration>,
    },
    Uman(Box<UmanQueue>),
}

impl Source {
    /// Creates a source of batches. One call fetches as many frames as may wait in the kernel, since a later one may
    /// be more urgent than the first.
    /// `tags` asks for the VLAN tags of frames.
    pub(crate) fn batch(config: &ReceiverConfig, socket: Socket, tags: bool) -> Self {
        let capacity = config.queue_frames.clamp(1, MOST);
        let names = matches!(socket, Socket::Udp(_));
        Self::Batch {
            socket,
            batch: Batch::new(capacity, ROOM).with_only(names, config.stamps || tags),
            next: 0,
            timeout: None,
        }
    }

    /// Returns the socket if it is one of datagrams.
    pub(crate) fn udp(&self) -> Option<&UdpSocket> {
        match self {
            Self::Batch {
                socket: Socket::Udp(socket),
                ..
            } => Some(socket),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn available(&self, ahead: usize) -> bool {
        match self {
            Self::Ring { ring, .. } => ring.is_ready(ahead),
            Self::Batch { batch, next, .. } => ahead < batch.len() - next,
            Self::Uman(queue) => queue.available(ahead),
        }
    }

    /// Fetches waiting frames without waiting itself. Call it only when the last batch is used up.
    #[inline]
    pub(crate) fn look(&mut self) -> Result<(), Errno> {
        match self {
            Self::Ring { .. } => Ok(()),
            Self::Batch {
                socket,
                batch,
                next,
                ..
            } => {
                *next = 0;
                socket.shared().receive(batch, Wait::No, MOST).map(drop)
            }
            Self::Uman(queue) => {
                queue.look();
                Ok(())
            }
        }
    }

    /// Waits for at most `time`. Call it only when the last batch is used up.
    pub(crate) fn block(&mut self, how: Wait, time: Duration) -> Result<(), Errno> {
        match self {
            Self::Ring { socket, .. } => match socket.wait(Some(time))? {
                Ready::Error => socket.take_error().map_or(Ok(()), Err),
                Ready::Readable | Ready::Nothing => Ok(()),
            },
            Self::Batch {
                socket,
                batch,
                next,
                timeout,
            } => {
                *next = 0;
                if *timeout != Some(time) {
                    socket.shared().set_receive_timeout(Some(time))?;
                    *timeout = Some(time);
                }
                socket.shared().receive(batch, how, MOST).map(drop)
            }
            Self::Uman(queue) => queue.block(time),
        }
    }

    /// Asks for the card's stamps in place of the kernel's.
    pub(crate) fn stamps_of_card(&mut self) -> Result<(), LinkError> {
        match self {
            Self::Ring { socket, .. } => {
                socket.enable_card_rx_stamps()?;
                socket.enable_card_ring_stamps()?;
            }
            Self::Batch { socket, .. } => socket.shared().enable_card_rx_stamps()?,
            Self::Uman(_) => {
                return Err(LinkError::Unsupported {
                    what: "the path `uman` has no stamps of the card: use packet sockets",
                });
            }
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn peek(&self, clocks: &StampClocks) -> Option<Frame<'_>> {
        let tai = |realtime, card| clocks.tai_ns(realtime, card);
        match self {
            Self::Ring { ring, .. } => ring.peek().map(|frame| Frame {
                data: frame.data,
                truncated: frame.truncated,
                stamp_tai_ns: tai(frame.stamp_realtime_ns, frame.stamp_card_ns),
                source: None,
                tag: frame.tag,
            }),
            Self::Batch { batch, next, .. } => batch.get(*next).map(|message| Frame {
                data: message.data,
                truncated: message.truncated,
                stamp_tai_ns: tai(message.stamp_realtime_ns, message.stamp_card_ns),
                source: message.source,
                tag: message.tag,
            }),
            Self::Uman(queue) => queue.peek(),
        }
    }

    #[inline]
    pub(crate) fn release(&mut self) {
        match self {
            Self::Ring { ring, .. } => ring.release(),
            Self::Batch { batch, next, .. } => *next = (*next + 1).min(batch.len()),
            Self::Uman(queue) => queue.release(),
        }
    }

    /// Returns the number of dropped frames: in total, or (then `true`) since the last query.
    pub(crate) fn dropped(&self) -> rtwire_sys::Result<(u64, bool)> {
        match self {
            Self::Ring { socket, .. }
            | Self::Batch {
                socket: Socket::Packet(socket),
                ..
            } => Ok((socket.statistics()?.dropped, true)),
            Self::Batch {
                socket: Socket::Udp(socket),
                ..
            } => Ok((socket.dropped()?, false)),
            Self::Uman(queue) => Ok((queue.lost(), false)),
        }
    }

    /// Returns the pending error of the socket. A UDP socket has none that the next receive call would not return.
    pub(crate) fn take_error(&self) -> Option<Errno> {
        match self {
            Self::Ring { socket, .. }
            | Self::Batch {
                socket: Socket::Packet(socket),
                ..
            } => socket.take_error(),
            Self::Batch {
                socket: Socket::Udp(_),
                ..
            }
            | Self::Uman(_) => None,
        }
    }

    /// Returns the descriptor that becomes readable with the next frame; `None` where several readers share one.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Ring { socket, .. } => Some(socket.as_fd()),
            Self::Batch { socket, .. } => Some(socket.shared().as_fd()),
            Self::Uman(_) => None,
        }
    }

    pub(crate) fn filter_place(&self) -> Option<FilterPlace> {
        match self {
            Self::Ring { socket, .. }
            | Self::Batch {
                socket: Socket::Packet(socket),
                ..
            } => Some(socket.filter_place()),
            Self::Batch {
                socket: Socket::Udp(_),
                ..
            }
            | Self::Uman(_) => None,
        }
    }

    pub(crate) fn interface_exists(&self) -> bool {
        match self {
            Self::Ring { socket, .. } => socket.interface_exists(),
            Self::Batch { socket, .. } => socket.shared().interface_exists(),
            Self::Uman(queue) => queue.exists(),
        }
    }
}
