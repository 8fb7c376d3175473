//! What every socket on one interface can do, whatever it carries.

use crate::error::{Errno, Result};
use crate::interface::{self, Interface};
use crate::launch::{self, LaunchOptions};
use crate::messages::{Batch, Wait};
use crate::socket::{self, Ready};
use crate::stamps::{self, TxStampReader, TxStamping};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// A socket bound to one interface: the part that packet sockets and UDP sockets share. A message is a whole frame for the
/// one and a datagram for the other.
#[derive(Debug)]
pub struct InterfaceSocket {
    pub(crate) socket: Arc<OwnedFd>,
    pub(crate) interface: u32,
    /// What the socket is called in errors.
    pub(crate) name: String,
}

impl InterfaceSocket {
    pub(crate) fn new(socket: OwnedFd, interface: &Interface, name: String) -> Self {
        Self {
            socket: Arc::new(socket),
            interface: interface.index,
            name,
        }
    }

    /// Asks for room for `octets` of what comes (and of stamps) that waits; gives what is in force.
    ///
    /// # Errors
    /// The kernel refuses; a smaller room is no error.
    pub fn set_receive_room(&self, octets: usize) -> Result<usize> {
        socket::set_receive_room(&self.socket, &self.name, octets)
    }

    /// Asks the kernel to stamp what comes. It begins in its own time: the first may be without one.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn enable_rx_stamps(&self) -> Result<()> {
        stamps::enable_rx(&self.socket, &self.name)
    }

    /// Asks the kernel to stamp what is sent, numbered from 0 on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn enable_tx_stamps(&self, which: TxStamping) -> Result<TxStampReader> {
        stamps::enable_tx(&self.socket, &self.name, which)?;
        Ok(TxStampReader::new(Arc::clone(&self.socket)))
    }

    /// Lets every message say when it is to leave; gives the reader of the queue's reports (and of transmit stamps, if any).
    ///
    /// # Errors
    /// CAP_NET_ADMIN is missing, or the kernel is older than 4.19.
    pub fn enable_launch(&self, options: LaunchOptions) -> Result<TxStampReader> {
        launch::enable(&self.socket, &self.name, options)?;
        Ok(TxStampReader::new(Arc::clone(&self.socket)))
    }

    /// Sends one message that is to leave at `launch_ns` of the launch clock. One system call; fit for a real-time loop.
    ///
    /// # Errors
    /// As of [`Self::send`]; ENOBUFS also where the queue refuses the time.
    #[inline]
    pub fn send_at(&self, message: &[u8], launch_ns: u64) -> std::result::Result<(), Errno> {
        launch::send_at(&self.socket, message, launch_ns)
    }

    /// Sends one frame, header and all, or one datagram to the peer. One system call; fit for a real-time loop.
    ///
    /// # Errors
    /// The interface is down or gone, the message too long, the queue full; of a datagram also what the peer answered to an earlier one.
    #[inline]
    pub fn send(&self, message: &[u8]) -> std::result::Result<(), Errno> {
        socket::send(&self.socket, message)
    }

    /// Sends up to 32 messages with one system call; gives how many the kernel took. Fit for a real-time loop.
    ///
    /// # Errors
    /// As [`send`](Self::send), for the first of them; one of a later comes with the next call.
    #[inline]
    pub fn send_batch(&self, messages: &[&[u8]]) -> std::result::Result<usize, Errno> {
        crate::messages::send_batch(&self.socket, messages)
    }

    /// Receives up to `limit` messages into prepared memory. One system call.
    ///
    /// # Errors
    /// Nothing there ([`Errno::would_block`]), or the interface is down or gone.
    #[inline]
    pub fn receive(
        &self,
        batch: &mut Batch,
        wait: Wait,
        limit: usize,
    ) -> std::result::Result<usize, Errno> {
        batch.receive(&self.socket, wait, limit)
    }

    /// How long a receive that waits does so at most; `None` for ever.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_receive_timeout(&self, timeout: Option<Duration>) -> std::result::Result<(), Errno> {
        socket::set_receive_timeout(&self.socket, timeout)
    }

    /// Waits for something to receive. One system call.
    ///
    /// # Errors
    /// What the kernel says; a signal or the end of the time is no error.
    pub fn wait(&self, timeout: Option<Duration>) -> std::result::Result<Ready, Errno> {
        socket::wait(&self.socket, true, timeout)
    }

    /// The error that waits at the socket, taken away by reading it.
    #[must_use]
    pub fn take_error(&self) -> Option<Errno> {
        socket::take_error(&self.socket)
    }

    /// Whether the interface is still there. One system call.
    #[must_use]
    pub fn interface_exists(&self) -> bool {
        interface::exists(&self.socket, self.interface)
    }
}
