//! Receiving: wait in the chosen way, read without copying, release the room.

use crate::card_time::{CardTime, StampClocks};
use crate::error::LinkError;
use crate::slices::{CHECK, Slices, nanoseconds};
use crate::source::{Socket, Source};
use crate::uman::{Attachment, UmanQueue};
use rtwire_sys::clock::{self, Clock};
use rtwire_sys::filter::Filter;
use rtwire_sys::interface::{self, Interface};
use rtwire_sys::packet::{FilterPlace, PacketSocket};
use rtwire_sys::ring::Ring;
use rtwire_sys::udp::UdpSocket;
use rtwire_sys::{Errno, Wait};
use std::net::SocketAddrV4;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Way in which a receiver waits for frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum WakeUp {
    /// Sleeps until the kernel wakes the thread.
    #[default]
    Block,
    /// Polls all the time and never sleeps. A SCHED_FIFO thread then needs a core of its own, or pauses.
    Spin,
    /// Polls for this time, then sleeps.
    SpinThenBlock(Duration),
}

/// Configuration of a receiver.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// The interface's name.
    pub interface: String,
    /// Way to wait.
    pub wake_up: WakeUp,
    /// Number of frames that may wait in the kernel.
    pub queue_frames: usize,
    /// `true` asks for the kernel's receive timestamps.
    pub stamps: bool,
    /// `true` makes a blocking receiver fetch one frame with each call instead of all that wait. That is cheaper for
    /// one frame, but frames behind it are not seen.
    pub one_by_one: bool,
}

/// Bytes that the kernel charges a receive queue for one frame of full size, approximately.
const CHARGE_OCTETS: usize = 2304;

/// One frame (or the content of one datagram).
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Its bytes.
    pub data: &'a [u8],
    /// `true` if it was longer than its room.
    pub truncated: bool,
    /// The time of reception by the kernel, or by the card ([`Receiver::stamp_by_card`]), in ns of CLOCK_TAI; `None` without a
    /// timestamp.
    pub stamp_tai_ns: Option<u64>,
    /// The sender's address, for datagrams.
    pub source: Option<SocketAddrV4>,
    /// The VLAN tag (PCP, DEI, VID) that the kernel or the card removed from the frame, of a receiver that was opened with
    /// [`Receiver::frames_with_tags`].
    pub tag: Option<u16>,
}

/// Receives the frames of one interface that pass a filter, or the datagrams for one address.
#[derive(Debug)]
pub struct Receiver {
    source: Source,
    interface: Interface,
    wake_up: WakeUp,
    /// Way in which a blocking call fetches waiting frames.
    wait: Wait,
    clocks: StampClocks,
    dropped: u64,
    gone: bool,
}

impl Receiver {
    /// Opens a receiver of whole frames of one EtherType that pass `filter`.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or the interface does not exist.
    pub fn frames(
        config: &ReceiverConfig,
        ether_type: u16,
        filter: &Filter,
    ) -> Result<Self, LinkError> {
        let interface = interface::by_name(&config.interface)?;
        let (socket, ring) = PacketSocket::receiver(&interface, ether_type, filter, |socket| {
            Self::configure(config, socket)
        })?;
        Self::of_socket(config, interface, (socket, ring), false)
    }

    /// Opens a receiver of the frames of any EtherType that pass `filter`, with their VLAN tags ([`Frame::tag`]). Its
    /// filter runs for each frame of the interface: the kernel has forgotten the tag where it looks at the EtherType.
    ///
    /// # Errors
    /// As [`frames`](Self::frames).
    pub fn frames_with_tags(config: &ReceiverConfig, filter: &Filter) -> Result<Self, LinkError> {
        let interface = interface::by_name(&config.interface)?;
        let (socket, ring) = PacketSocket::first_receiver(&interface, filter, |socket| {
            socket.enable_tags()?;
            Self::configure(config, socket)
        })?;
        Self::of_socket(config, interface, (socket, ring), true)
    }

    /// Sets a packet socket's options before the first frame can come.
    fn configure(
        config: &ReceiverConfig,
        socket: &PacketSocket,
    ) -> rtwire_sys::Result<Option<Ring>> {
        if config.stamps {
            socket.enable_rx_stamps()?;
        }
        if config.wake_up != WakeUp::Block {
            return Ok(Some(Ring::new(socket, config.queue_frames)?));
        }
        socket.set_receive_room(config.queue_frames.saturating_mul(CHARGE_OCTETS))?;
        Ok(None)
    }

    fn of_socket(
        config: &ReceiverConfig,
        interface: Interface,
        (socket, ring): (PacketSocket, Option<Ring>),
        tags: bool,
    ) -> Result<Self, LinkError> {
        let source = match ring {
            Some(ring) => Source::Ring { socket, ring },
            None => Source::batch(config, Socket::Packet(socket), tags),
        };
        Self::new(source, interface, config)
    }

    /// Opens a receiver of whole frames of one EtherType that pass `filter`, from the ring of the kernel module `uman`: that
    /// of the interface itself, or of the device above it. Every frame has the time at which it reached the module. All
    /// receivers of this process share the ring; a frame for one wakes all that sleep.
    ///
    /// # Errors
    /// [`LinkError::NoUman`]: the module or a device of it is missing, or another program has the device. The filter is one
    /// that only the kernel can run ([`LinkError::Unsupported`]).
    pub fn frames_by_uman(
        config: &ReceiverConfig,
        ether_type: u16,
        filter: &Filter,
    ) -> Result<Self, LinkError> {
        let reader = Attachment::shared(&config.interface)?.reader()?;
        let interface = reader.attachment().interface().clone();
        if filter.accepts(&[], false).is_none() {
            return Err(LinkError::Unsupported {
                what: "the path `uman` needs a filter of instructions, not a program in the kernel",
            });
        }
        let queue = UmanQueue::new(reader, (ether_type, filter.clone()), config.queue_frames);
        Self::new(Source::Uman(Box::new(queue)), interface, config)
    }

    /// Opens a receiver of UDP datagrams for `local`.
    ///
    /// # Errors
    /// The port is in use, the address is not one of this host, or the interface does not exist.
    pub fn datagrams(config: &ReceiverConfig, local: SocketAddrV4) -> Result<Self, LinkError> {
        let interface = interface::by_name(&config.interface)?;
        let socket = UdpSocket::receiver(&interface, local)?;
        socket.set_receive_room(config.queue_frames.saturating_mul(CHARGE_OCTETS))?;
        if config.stamps {
            socket.enable_rx_stamps()?;
        }
        let source = Source::batch(config, Socket::Udp(socket), false);
        Self::new(source, interface, config)
    }

    /// Takes over a bound socket of the host's agent, which has set its room. Needs no privilege.
    ///
    /// # Errors
    /// The interface does not exist, or the kernel refuses timestamps.
    pub fn of_agent(config: &ReceiverConfig, socket: OwnedFd) -> Result<Self, LinkError> {
        let interface = interface::by_name(&config.interface)?;
        let socket = UdpSocket::of(&interface, socket);
        if config.stamps {
            socket.enable_rx_stamps()?;
        }
        let source = Source::batch(config, Socket::Udp(socket), false);
        Self::new(source, interface, config)
    }

    fn new(
        source: Source,
        interface: Interface,
        config: &ReceiverConfig,
    ) -> Result<Self, LinkError> {
        Ok(Self {
            source,
            interface,
            wake_up: config.wake_up,
            wait: if config.one_by_one {
                Wait::One
            } else {
                Wait::ForOne
            },
            clocks: StampClocks::new()?,
            dropped: 0,
            gone: false,
        })
    }

    /// Makes this receiver's own calls poll the driver from now on: a call that finds nothing polls for `budget` if
    /// it waits, else once. The poll covers the whole receive context (NAPI). So it also delivers frames for others:
    /// values of the receive program, frames of packet sockets. Calling [`look`](Self::look) before those are read
    /// does all their receive work at this thread's priority.
    ///
    /// It works once a datagram has come through a context that can be polled (see [`napi_id`](Self::napi_id)). It
    /// keeps interrupts away only while they are deferred (`rtwire_host::napi::NapiDeferral`).
    ///
    /// # Errors
    /// [`LinkError::Unsupported`] for frames: packet sockets have no receive context. CAP_NET_ADMIN is missing.
    pub fn busy_poll(&mut self, budget: Duration) -> Result<(), LinkError> {
        match self.source.udp() {
            Some(socket) => Ok(socket.set_busy_poll(budget)?),
            None => Err(LinkError::Unsupported {
                what: "packet sockets cannot poll a driver: poll with a receiver of datagrams on the same interface",
            }),
        }
    }

    /// Returns the receive context (NAPI) of the last datagram. Returns `None` before the first one, for frames, and
    /// where there is no context to poll.
    ///
    /// # Errors
    /// The kernel does not report it.
    pub fn napi_id(&self) -> Result<Option<u32>, LinkError> {
        match self.source.udp() {
            Some(socket) => Ok(socket.napi_id()?),
            None => Ok(None),
        }
    }

    /// Takes the card's stamps from now on, in place of the kernel's. Frames that the card does not stamp have none.
    ///
    /// # Errors
    /// The receiver has the path `uman` ([`LinkError::Unsupported`]), or the kernel refuses.
    pub fn stamp_by_card(&mut self, card: Arc<CardTime>) -> Result<(), LinkError> {
        self.source.stamps_of_card()?;
        self.clocks.by_card(card);
        Ok(())
    }

    /// Returns `true` if the stamps are the card's.
    #[must_use]
    pub fn is_stamped_by_card(&self) -> bool {
        self.clocks.are_of_card()
    }

    /// Returns the interface as it was when the receiver was opened.
    #[must_use]
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Waits for a frame in the way chosen at open; returns `true` if one is there. `None` waits for ever. It makes
    /// at most one system call for a frame, and none if one is already there. A blocking receiver makes one more when
    /// the timeout differs from the last one and is below 0.1 s. A blocking wait is rounded up to the kernel's tick
    /// (1 to 10 ms).
    ///
    /// # Errors
    /// The interface is gone (in every later call, too) or down (reported once; wait again to wait for its return).
    #[inline]
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, LinkError> {
        if self.available(0) {
            return Ok(true);
        }
        if self.gone {
            return Err(self.gone_error());
        }
        if timeout == Some(Duration::ZERO) {
            return self.look();
        }
        match self.wake_up {
            WakeUp::Block => self.block(timeout),
            WakeUp::Spin => self.spin(timeout),
            WakeUp::SpinThenBlock(budget) => {
                let spin = timeout.map_or(budget, |timeout| timeout.min(budget));
                if self.spin(Some(spin))? {
                    return Ok(true);
                }
                match timeout.map(|timeout| timeout.saturating_sub(budget)) {
                    Some(Duration::ZERO) => Ok(false),
                    rest => self.block(rest),
                }
            }
        }
    }

    /// Returns `true` if there is a frame `ahead` places behind the oldest, among those fetched from the kernel. No
    /// system call.
    #[inline]
    #[must_use]
    pub fn available(&self, ahead: usize) -> bool {
        self.source.available(ahead)
    }

    /// Fetches waiting frames from the kernel without waiting; returns `true` if a frame is there. It makes one
    /// system call, or none with a ring or while earlier fetched frames are left.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    #[inline]
    pub fn look(&mut self) -> Result<bool, LinkError> {
        if self.available(0) {
            return Ok(true);
        }
        let result = self.source.look();
        self.taken(result)
    }

    /// Prepares a wait elsewhere (`epoll`, an async runtime). Returns `true` if a frame is there. Otherwise
    /// [`descriptor`](Self::descriptor) becomes readable when the next one comes, or when the interface goes down.
    /// Three system calls at most.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn arm(&mut self) -> Result<bool, LinkError> {
        if self.gone {
            return Err(self.gone_error());
        }
        if self.look()? {
            return Ok(true);
        }
        self.check()?;
        Ok(false)
    }

    /// Returns the descriptor that `epoll` takes: see [`arm`](Self::arm). Only wait for it, never read from it.
    ///
    /// # Errors
    /// [`LinkError::Unsupported`]: the path is `uman`, whose one ring has several readers.
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>, LinkError> {
        self.source.descriptor().ok_or(LinkError::Unsupported {
            what: "the path `uman` has no descriptor of its own for each listener: wait in a thread, or choose another path",
        })
    }

    /// Returns the oldest frame. No system call.
    #[inline]
    #[must_use]
    pub fn peek(&self) -> Option<Frame<'_>> {
        self.source.peek(&self.clocks)
    }

    /// Releases the room of the oldest frame. No system call.
    #[inline]
    pub fn release(&mut self) {
        self.source.release();
    }

    /// Returns the number of frames lost for lack of room since the receiver was opened. One system call.
    ///
    /// # Errors
    /// The kernel does not report it.
    pub fn dropped(&mut self) -> Result<u64, LinkError> {
        let (dropped, since) = self.source.dropped()?;
        self.dropped = if since {
            self.dropped + dropped
        } else {
            dropped
        };
        Ok(self.dropped)
    }

    /// Returns a handle that sets the filter of this receiver's socket from elsewhere; `None` for datagrams.
    #[must_use]
    pub fn filter_place(&self) -> Option<FilterPlace> {
        self.source.filter_place()
    }

    fn spin(&mut self, timeout: Option<Duration>) -> Result<bool, LinkError> {
        let mut end = None;
        let mut next_check = None;
        loop {
            // A ring costs only a memory read, so the clock is read only now and then, and not before the first look.
            for _ in 0..32 {
                if self.look()? {
                    return Ok(true);
                }
                std::hint::spin_loop();
            }
            let now = clock::now_ns(Clock::Monotonic);
            if let Some(timeout) = timeout {
                let end = *end.get_or_insert_with(|| now.saturating_add(nanoseconds(timeout)));
                if now >= end {
                    return Ok(false);
                }
            }
            let check = now + nanoseconds(CHECK);
            if now >= *next_check.get_or_insert(check) {
                self.check()?;
                next_check = Some(check);
            }
        }
    }

    fn block(&mut self, timeout: Option<Duration>) -> Result<bool, LinkError> {
        // A frame that comes within the first slice costs no clock read.
        let mut slices = Slices::new(timeout);
        loop {
            let result = self.source.block(self.wait, slices.slice());
            if self.taken(result)? {
                return Ok(true);
            }
            self.check()?;
            if !slices.step() {
                return Ok(false);
            }
        }
    }

    /// Converts the result of a call that fetched frames, or none.
    #[inline]
    fn taken(&mut self, result: Result<(), Errno>) -> Result<bool, LinkError> {
        match result {
            Ok(()) => Ok(self.available(0)),
            Err(errno) if errno.would_block() || errno.interrupted() => Ok(false),
            Err(errno) => Err(self.failed(errno)),
        }
    }

    /// Checks the socket for an error, and that its interface still exists.
    #[cold]
    fn check(&mut self) -> Result<(), LinkError> {
        if !self.source.interface_exists() {
            self.gone = true;
            return Err(self.gone_error());
        }
        match self.source.take_error() {
            Some(errno) => Err(self.failed(errno)),
            None => Ok(()),
        }
    }

    fn gone_error(&self) -> LinkError {
        LinkError::InterfaceGone {
            interface: self.interface.name.clone(),
        }
    }

    #[cold]
    fn failed(&mut self, errno: Errno) -> LinkError {
        let exists = self.source.interface_exists();
        self.gone |= !exists;
        LinkError::of("receive", &self.interface.name, errno, 0, || exists)
    }
}

#[cfg(test)]
#[path = "receive_tests.rs"]
mod tests;
