//! The common abilities of all sockets on one interface.

use crate::error::{Errno, Error, Result};
use crate::interface::{self, Interface};
use crate::launch::{self, LaunchOptions};
use crate::messages::{Batch, Wait};
use crate::socket::{self, FullBuffer, Ready};
use crate::stamps::{self, StampSource, TxStampReader, TxStamping};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// A socket bound to one interface: the part that packet sockets and UDP sockets share.
///
/// A message is a whole frame for a packet socket, and a datagram for a UDP socket.
#[derive(Debug)]
pub struct InterfaceSocket {
    pub(crate) socket: Arc<OwnedFd>,
    pub(crate) interface: u32,
    /// The socket's name in errors.
    pub(crate) name: String,
    full: FullBuffer,
}

impl AsFd for InterfaceSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl InterfaceSocket {
    pub(crate) fn new(socket: OwnedFd, interface: &Interface, name: String) -> Self {
        Self {
            socket: Arc::new(socket),
            interface: interface.index,
            name,
            full: FullBuffer::Fails,
        }
    }

    /// Sets how long a send call waits for room in the socket's send buffer before it fails. Without this call it fails at
    /// once, so that a real-time loop goes on when a shaper or a shut gate holds its frames.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_room_wait(&mut self, longest: Duration) -> Result<()> {
        if longest.is_zero() {
            self.full = FullBuffer::Fails;
            return Ok(());
        }
        socket::set_send_timeout(&self.socket, longest)
            .map_err(|errno| Error::new("setsockopt(SO_SNDTIMEO)", &self.name, errno, None))?;
        self.full = FullBuffer::Waits;
        Ok(())
    }

    /// Sets the receive buffer, for messages and timestamps that wait, to `octets` bytes. Returns the size in force.
    ///
    /// # Errors
    /// The kernel refuses; a smaller size is no error.
    pub fn set_receive_room(&self, octets: usize) -> Result<usize> {
        socket::set_receive_room(&self.socket, &self.name, octets)
    }

    /// Asks the kernel to timestamp received messages. It takes some time to begin: the first messages may have no
    /// timestamp.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn enable_rx_stamps(&self) -> Result<()> {
        stamps::enable_rx(&self.socket, &self.name, StampSource::Software)
    }

    /// Asks for the timestamps of the received messages that the card takes by its own clock, in place of the kernel's. They
    /// come while [`crate::card_stamps::CardStamps`] are held.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn enable_card_rx_stamps(&self) -> Result<()> {
        stamps::enable_rx(&self.socket, &self.name, StampSource::Hardware)
    }

    /// Asks the kernel to timestamp sent messages, numbered from 0 on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn enable_tx_stamps(&self, which: TxStamping) -> Result<TxStampReader> {
        stamps::enable_tx(&self.socket, &self.name, which)?;
        Ok(TxStampReader::new(Arc::clone(&self.socket)))
    }

    /// Turns launch times on. Returns the reader of the queue's reports (and of transmit timestamps, if any).
    ///
    /// # Errors
    /// CAP_NET_ADMIN is missing, or the kernel is older than 4.19.
    pub fn enable_launch(&self, options: LaunchOptions) -> Result<TxStampReader> {
        launch::enable(&self.socket, &self.name, options)?;
        Ok(TxStampReader::new(Arc::clone(&self.socket)))
    }

    /// Sends one message that is to leave at `launch_ns` of the launch clock. One system call; fit for a real-time
    /// loop.
    ///
    /// # Errors
    /// As for [`Self::send`]; also ENOBUFS if the queue refuses the time.
    #[inline]
    pub fn send_at(&self, message: &[u8], launch_ns: u64) -> std::result::Result<(), Errno> {
        launch::send_at(&self.socket, message, launch_ns, self.full)
    }

    /// Sends one whole frame, or one datagram to the peer. One system call; fit for a real-time loop.
    ///
    /// # Errors
    /// The interface is down or gone, the message is too long, or the queue is full ([`Errno::QUEUE_FULL`]) or the
    /// send buffer ([`Errno::would_block`]). For a datagram also the peer's answer to an earlier one.
    #[inline]
    pub fn send(&self, message: &[u8]) -> std::result::Result<(), Errno> {
        socket::send(&self.socket, message, self.full)
    }

    /// Sends up to 32 messages with one system call. Returns the number that the kernel took. Fit for a real-time
    /// loop.
    ///
    /// # Errors
    /// As for [`send`](Self::send), for the first message. An error of a later message comes with the next call.
    #[inline]
    pub fn send_batch(&self, messages: &[&[u8]]) -> std::result::Result<usize, Errno> {
        crate::messages::send_batch(&self.socket, messages, self.full)
    }

    /// Receives up to `limit` messages into prepared memory. One system call.
    ///
    /// # Errors
    /// No message waits ([`Errno::would_block`]), or the interface is down or gone.
    #[inline]
    pub fn receive(
        &self,
        batch: &mut Batch,
        wait: Wait,
        limit: usize,
    ) -> std::result::Result<usize, Errno> {
        batch.receive(&self.socket, wait, limit)
    }

    /// Sets the longest wait of a receive call; `None` waits for ever.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_receive_timeout(&self, timeout: Option<Duration>) -> std::result::Result<(), Errno> {
        socket::set_receive_timeout(&self.socket, timeout)
    }

    /// Waits for a message. One system call.
    ///
    /// # Errors
    /// The kernel's error; a signal or the end of the time is no error.
    pub fn wait(&self, timeout: Option<Duration>) -> std::result::Result<Ready, Errno> {
        socket::wait(&self.socket, true, timeout)
    }

    /// Takes the error that is pending at the socket.
    #[must_use]
    pub fn take_error(&self) -> Option<Errno> {
        socket::take_error(&self.socket)
    }

    /// Returns the hardware address that the interface has now; `None` if it is gone. Two system calls.
    #[must_use]
    pub fn address(&self) -> Option<[u8; 6]> {
        interface::address(&self.socket, self.interface)
    }

    /// True if the interface still exists. One system call.
    #[must_use]
    pub fn interface_exists(&self) -> bool {
        interface::exists(&self.socket, self.interface)
    }
}
