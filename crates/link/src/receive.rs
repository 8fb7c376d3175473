//! Receiving: wait in the way that was chosen, read without copying, give the room back.

use crate::error::LinkError;
use rtwire_sys::clock::{self, Clock};
use rtwire_sys::filter::Filter;
use rtwire_sys::interface::{self, Interface};
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::ring::Ring;
use rtwire_sys::udp::UdpSocket;
use rtwire_sys::{Batch, Errno, Ready, Wait};
use std::net::SocketAddrV4;
use std::time::Duration;

/// How a receiver waits for what is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum WakeUp {
    /// Sleep until the kernel wakes us.
    #[default]
    Block,
    /// Look again and again. Never sleeps: on a SCHED_FIFO thread it needs a core of its own, or pauses.
    Spin,
    /// Look again and again for this long, then sleep.
    SpinThenBlock(Duration),
}

/// How a receiver is to be opened.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// The interface's name.
    pub interface: String,
    /// How to wait.
    pub wake_up: WakeUp,
    /// How many frames may wait in the kernel.
    pub queue_frames: usize,
    /// Whether the kernel is to stamp what comes.
    pub stamps: bool,
}

/// Octets of a frame or datagram that there is room for.
const ROOM: usize = 1536;
/// Messages taken with one call at most, which the kernel limits to this.
const MOST: usize = 1024;
/// What the kernel charges a receive queue for one frame of full size, about.
const CHARGE_OCTETS: usize = 2304;
/// How often a receiver that nothing comes to looks whether its interface is still there.
const CHECK: Duration = Duration::from_millis(100);

/// One frame (or the content of one datagram).
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Its octets.
    pub data: &'a [u8],
    /// Whether it was longer than there was room for.
    pub truncated: bool,
    /// When the kernel received it, ns of CLOCK_TAI; `None` if it was not stamped.
    pub stamp_tai_ns: Option<u64>,
    /// Who sent it, for datagrams.
    pub source: Option<SocketAddrV4>,
}

#[derive(Debug)]
enum Source {
    Ring { socket: PacketSocket, ring: Ring },
    Packet { socket: PacketSocket, batch: Taken },
    Udp { socket: UdpSocket, batch: Taken },
}

/// A batch of messages, of which some have been released.
#[derive(Debug)]
struct Taken {
    batch: Batch,
    next: usize,
    /// The receive timeout in force at the socket.
    timeout: Option<Option<Duration>>,
}

impl Taken {
    /// As many as may wait in the kernel are taken with one call: a later one may be more urgent than the first.
    fn new(queue_frames: usize) -> Self {
        Self {
            batch: Batch::new(queue_frames.clamp(1, MOST), ROOM),
            next: 0,
            timeout: None,
        }
    }

    fn left(&self) -> usize {
        self.batch.len() - self.next
    }
}

/// Receives the frames of one interface that pass a filter, or the datagrams for one address.
#[derive(Debug)]
pub struct Receiver {
    source: Source,
    interface: Interface,
    wake_up: WakeUp,
    tai_offset_ns: i64,
    dropped: u64,
    gone: bool,
}

impl Receiver {
    /// Opens a receiver of whole frames of one EtherType that pass `filter`.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or there is no such interface.
    pub fn frames(
        config: &ReceiverConfig,
        ether_type: u16,
        filter: &Filter,
    ) -> Result<Self, LinkError> {
        let interface = interface::by_name(&config.interface)?;
        let ringed = config.wake_up != WakeUp::Block;
        let (socket, ring) = PacketSocket::receiver(&interface, ether_type, filter, |socket| {
            if config.stamps {
                socket.enable_rx_stamps()?;
            }
            if ringed {
                return Ok(Some(Ring::new(socket, config.queue_frames)?));
            }
            socket.set_receive_room(config.queue_frames.saturating_mul(CHARGE_OCTETS))?;
            Ok(None)
        })?;
        let source = match ring {
            Some(ring) => Source::Ring { socket, ring },
            None => Source::Packet {
                socket,
                batch: Taken::new(config.queue_frames),
            },
        };
        Self::new(source, interface, config.wake_up)
    }

    /// Opens a receiver of UDP datagrams for `local`.
    ///
    /// # Errors
    /// The port is in use, the address is none of this host's, or there is no such interface.
    pub fn datagrams(config: &ReceiverConfig, local: SocketAddrV4) -> Result<Self, LinkError> {
        let interface = interface::by_name(&config.interface)?;
        let socket = UdpSocket::receiver(&interface, local)?;
        socket.set_receive_room(config.queue_frames.saturating_mul(CHARGE_OCTETS))?;
        if config.stamps {
            socket.enable_rx_stamps()?;
        }
        let source = Source::Udp {
            socket,
            batch: Taken::new(config.queue_frames),
        };
        Self::new(source, interface, config.wake_up)
    }

    fn new(source: Source, interface: Interface, wake_up: WakeUp) -> Result<Self, LinkError> {
        Ok(Self {
            source,
            interface,
            wake_up,
            tai_offset_ns: clock::tai_offset_ns()?,
            dropped: 0,
            gone: false,
        })
    }

    /// The interface, as it was when the receiver was opened.
    #[must_use]
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Waits for a frame, as chosen at open; gives whether one is there. `None` waits for ever. At most one system call
    /// where a frame comes, none where one is there already.
    ///
    /// # Errors
    /// The interface is gone (then for ever) or down (told once; wait again to wait for its return).
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

    /// Whether a frame is there `ahead` places behind the oldest, among those taken from the kernel. No system call.
    #[must_use]
    pub fn available(&self, ahead: usize) -> bool {
        match &self.source {
            Source::Ring { ring, .. } => ring.is_ready(ahead),
            Source::Packet { batch, .. } | Source::Udp { batch, .. } => ahead < batch.left(),
        }
    }

    /// Takes from the kernel what is there now, without waiting; gives whether a frame is there. No system call where
    /// frames taken before are left, or with a ring; else one.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn look(&mut self) -> Result<bool, LinkError> {
        if self.available(0) {
            return Ok(true);
        }
        let result = match &mut self.source {
            Source::Ring { .. } => return Ok(false),
            Source::Packet { socket, batch } => {
                batch.next = 0;
                socket.receive(&mut batch.batch, Wait::No, MOST)
            }
            Source::Udp { socket, batch } => {
                batch.next = 0;
                socket.receive(&mut batch.batch, Wait::No, MOST)
            }
        };
        match result {
            Ok(count) => Ok(count > 0),
            Err(errno) if errno.would_block() || errno.interrupted() => Ok(false),
            Err(errno) => Err(self.failed(errno)),
        }
    }

    /// The oldest frame that is there. No system call.
    #[must_use]
    pub fn peek(&self) -> Option<Frame<'_>> {
        let tai = |realtime_ns: u64| realtime_ns.saturating_add_signed(self.tai_offset_ns);
        match &self.source {
            Source::Ring { ring, .. } => ring.peek().map(|frame| Frame {
                data: frame.data,
                truncated: frame.truncated,
                stamp_tai_ns: frame.stamp_realtime_ns.map(tai),
                source: None,
            }),
            Source::Packet { batch, .. } | Source::Udp { batch, .. } => {
                batch.batch.get(batch.next).map(|message| Frame {
                    data: message.data,
                    truncated: message.truncated,
                    stamp_tai_ns: message.stamp_realtime_ns.map(tai),
                    source: message.source,
                })
            }
        }
    }

    /// Gives the room of the oldest frame back. No system call.
    pub fn release(&mut self) {
        match &mut self.source {
            Source::Ring { ring, .. } => ring.release(),
            Source::Packet { batch, .. } | Source::Udp { batch, .. } => {
                batch.next = (batch.next + 1).min(batch.batch.len());
            }
        }
    }

    /// Frames lost since there was no room for them, since the receiver was opened. One system call.
    ///
    /// # Errors
    /// The kernel refuses to tell.
    pub fn dropped(&mut self) -> Result<u64, LinkError> {
        match &self.source {
            // The kernel forgets what it has told.
            Source::Ring { socket, .. } | Source::Packet { socket, .. } => {
                self.dropped += socket.statistics()?.dropped;
            }
            Source::Udp { socket, .. } => self.dropped = socket.dropped()?,
        }
        Ok(self.dropped)
    }

    fn spin(&mut self, timeout: Option<Duration>) -> Result<bool, LinkError> {
        let start = clock::now_ns(Clock::Monotonic);
        let end = timeout.map(|timeout| start.saturating_add(nanoseconds(timeout)));
        let check = nanoseconds(CHECK);
        let mut next_check = start + check;
        loop {
            // A ring costs a read of memory: the clock is looked at only now and then.
            for _ in 0..32 {
                if self.look()? {
                    return Ok(true);
                }
                std::hint::spin_loop();
            }
            let now = clock::now_ns(Clock::Monotonic);
            if end.is_some_and(|end| now >= end) {
                return Ok(false);
            }
            if now >= next_check {
                self.check()?;
                next_check = now + check;
            }
        }
    }

    fn block(&mut self, timeout: Option<Duration>) -> Result<bool, LinkError> {
        let start = clock::now_ns(Clock::Monotonic);
        let end = timeout.map(|timeout| start.saturating_add(nanoseconds(timeout)));
        let mut slice = timeout.map_or(CHECK, |timeout| timeout.min(CHECK));
        loop {
            if self.block_once(slice)? {
                return Ok(true);
            }
            self.check()?;
            let now = clock::now_ns(Clock::Monotonic);
            if let Some(end) = end {
                if now >= end {
                    return Ok(false);
                }
                slice = Duration::from_nanos(end - now).min(CHECK);
            }
        }
    }

    /// Waits at most `slice` (shorter waits are rounded to what the socket is set to already, so that no call is spent
    /// on setting it again).
    fn block_once(&mut self, slice: Duration) -> Result<bool, LinkError> {
        let result = match &mut self.source {
            Source::Ring { socket, .. } => match socket.wait(Some(slice)) {
                Ok(Ready::Error) => match socket.take_error() {
                    Some(errno) => Err(errno),
                    None => Ok(0),
                },
                Ok(_) => Ok(0),
                Err(errno) => Err(errno),
            },
            Source::Packet { socket, batch } => {
                batch.next = 0;
                let set = batch.timeout != Some(Some(slice));
                let ready = if set {
                    socket.set_receive_timeout(Some(slice))
                } else {
                    Ok(())
                };
                batch.timeout = Some(Some(slice));
                ready.and_then(|()| socket.receive(&mut batch.batch, Wait::ForOne, MOST))
            }
            Source::Udp { socket, batch } => {
                batch.next = 0;
                let set = batch.timeout != Some(Some(slice));
                let ready = if set {
                    socket.set_receive_timeout(Some(slice))
                } else {
                    Ok(())
                };
                batch.timeout = Some(Some(slice));
                ready.and_then(|()| socket.receive(&mut batch.batch, Wait::ForOne, MOST))
            }
        };
        match result {
            Ok(_) => Ok(self.available(0)),
            Err(errno) if errno.would_block() || errno.interrupted() => Ok(false),
            Err(errno) => Err(self.failed(errno)),
        }
    }

    /// Looks whether the socket has an error or its interface is gone.
    #[cold]
    fn check(&mut self) -> Result<(), LinkError> {
        let (error, exists) = match &self.source {
            Source::Ring { socket, .. } | Source::Packet { socket, .. } => {
                (socket.take_error(), socket.interface_exists())
            }
            Source::Udp { socket, .. } => (None, socket.interface_exists()),
        };
        if !exists {
            self.gone = true;
            return Err(self.gone_error());
        }
        match error {
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
        let exists = match &self.source {
            Source::Ring { socket, .. } | Source::Packet { socket, .. } => {
                socket.interface_exists()
            }
            Source::Udp { socket, .. } => socket.interface_exists(),
        };
        self.gone |= !exists;
        LinkError::of("receive", &self.interface.name, errno, 0, || exists)
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
