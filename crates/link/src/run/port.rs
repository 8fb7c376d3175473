//! Transmit path and receive path of a node's frames.

use super::{Launches, Offload};
use crate::error::LinkError;
use crate::{Sender, SenderConfig, TxPath};
use rtwire_sys::clock::{self, Clock};
use rtwire_sys::filter::{Filter, Instruction};
use rtwire_sys::interface::{self, Interface};
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::ring::Ring;
use rtwire_sys::{Errno, Ready};
use rtwire_wire::MacAddress;
use std::time::Duration;

/// Interval in ns at which an idle port checks that its interface still exists.
const CHECK_NS: u64 = 100_000_000;

/// Times before its launch instant between which a frame may be handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchWindow {
    /// Earliest time to hand it over, in ns before its instant.
    pub earliest_ns: u64,
    /// Latest time to hand it over, in ns before its instant. Later is too late for the queue that is to hold it.
    pub latest_ns: u64,
}

/// A frame that has come.
pub struct Arrived<'a> {
    /// The time of its arrival, ns of CLOCK_MONOTONIC, where that is known.
    pub at_ns: Option<u64>,
    /// Ethernet header and payload, without FCS, perhaps padded.
    pub frame: &'a [u8],
    /// The port's [`offload`](Port::offload): it knows what has left on this very frame.
    pub offload: Option<&'a mut dyn Offload>,
}

/// Transmit and receive operations that [`Runner`](super::Runner) needs.
pub trait Port {
    /// Sends one frame, at once.
    ///
    /// # Errors
    /// The interface is down, gone or full.
    fn send(&mut self, frame: &[u8]) -> Result<(), LinkError>;

    /// Returns the times at which a frame with a launch instant may be handed over to a queue that holds it. `None`
    /// means that there is no such queue, so each frame is sent at its instant.
    fn launch_window(&self) -> Option<LaunchWindow> {
        None
    }

    /// Hands over a frame that is to leave by itself at `launch_ns` of CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// [`LinkError::LaunchRefused`]: it was not taken, and is still to be sent. Else as of [`send`](Self::send).
    fn send_at(&mut self, frame: &[u8], launch_ns: u64) -> Result<(), LinkError> {
        let _ = frame;
        Err(LinkError::LaunchRefused { launch_ns })
    }

    /// Shows the oldest frame that has come. Returns false where there was none. Does not wait.
    ///
    /// # Errors
    /// The interface is gone.
    fn receive(&mut self, show: &mut dyn FnMut(Arrived<'_>)) -> Result<bool, LinkError>;

    /// The part that sends prepared frames for the node; `None` where the loop sends them all.
    fn offload(&mut self) -> Option<&mut dyn Offload> {
        None
    }

    /// Returns `true` if a frame is there. No system call.
    fn is_ready(&self) -> bool;

    /// Waits for a frame, at most for `timeout`.
    ///
    /// # Errors
    /// The interface is gone, or down (reported once).
    fn wait(&mut self, timeout: Duration) -> Result<(), LinkError>;
}

/// Configuration of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// The interface's name.
    pub interface: String,
    /// The EtherType of the frames.
    pub ether_type: u16,
    /// Group addresses whose frames are received, too.
    pub groups: Vec<MacAddress>,
    /// Transmit path.
    pub path: TxPath,
    /// `true` receives frames for other stations, too.
    pub promiscuous: bool,
    /// `true` receives frames of every other EtherType, too.
    pub all_types: bool,
    /// Number of frames that may wait in the kernel.
    pub queue_frames: usize,
}

impl PortConfig {
    /// Returns a configuration for frames of this EtherType that bypass the queueing discipline.
    #[must_use]
    pub fn new(interface: impl Into<String>, ether_type: u16) -> Self {
        Self {
            interface: interface.into(),
            ether_type,
            groups: Vec::new(),
            path: TxPath::Direct,
            promiscuous: false,
            all_types: false,
            queue_frames: 256,
        }
    }
}

/// Packet sockets: a ring shared with the kernel to receive, one system call to send. Needs CAP_NET_RAW.
#[derive(Debug)]
pub struct PacketPort {
    socket: PacketSocket,
    ring: Ring,
    sender: Sender,
    launches: Option<Launches>,
    next_check_ns: u64,
}

impl PacketPort {
    /// Opens a port.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or the interface does not exist.
    pub fn open(config: &PortConfig) -> Result<Self, LinkError> {
        let accept_all = Filter::new(&[Instruction::Accept])?;
        Self::with_filter(config, &accept_all)
    }

    /// Opens a port that receives only frames that pass `filter`.
    ///
    /// # Errors
    /// As [`PacketPort::open`].
    pub fn with_filter(config: &PortConfig, filter: &Filter) -> Result<Self, LinkError> {
        let interface = interface::by_name(&config.interface)?;
        let configure = |socket: &PacketSocket| {
            for group in &config.groups {
                socket.join_group(group.0)?;
            }
            if config.promiscuous {
                socket.take_all()?;
            }
            socket.enable_rx_stamps()?;
            Ring::new(socket, config.queue_frames)
        };
        let (socket, ring) = if config.all_types {
            PacketSocket::first_receiver(&interface, filter, configure)?
        } else {
            PacketSocket::receiver(&interface, config.ether_type, filter, configure)?
        };
        let sender = Sender::frames(&SenderConfig {
            path: config.path,
            ..SenderConfig::new(&config.interface)
        })?;
        Ok(Self {
            socket,
            ring,
            sender,
            launches: None,
            next_check_ns: 0,
        })
    }

    /// Sends frames with a launch instant by this path from now on.
    pub fn launch_by(&mut self, launches: Launches) {
        self.launches = Some(launches);
    }

    /// Returns the interface as it was when the port was opened.
    #[must_use]
    pub fn interface(&self) -> &Interface {
        self.sender.interface()
    }

    /// Returns the number of frames lost for lack of room since the last call. One system call.
    ///
    /// # Errors
    /// The kernel does not report it.
    pub fn dropped(&self) -> Result<u64, LinkError> {
        Ok(self.socket.statistics()?.dropped)
    }

    #[cold]
    fn failed(&self, errno: Errno) -> LinkError {
        LinkError::of("receive", &self.interface().name, errno, 0, || {
            self.socket.interface_exists()
        })
    }

    /// Checks now and then that the interface still exists.
    fn check(&mut self) -> Result<(), LinkError> {
        let now = clock::now_ns(Clock::Monotonic);
        if now < self.next_check_ns {
            return Ok(());
        }
        self.next_check_ns = now + CHECK_NS;
        if self.socket.interface_exists() {
            return Ok(());
        }
        Err(LinkError::InterfaceGone {
            interface: self.interface().name.clone(),
        })
    }
}

/// Turns the kernel's stamp into CLOCK_MONOTONIC; never later than now. Where somebody has set CLOCK_REALTIME since the frame came,
/// it is wrong by that, for the frames that lie unread at that moment. No system call.
fn monotonic_ns(stamp_realtime_ns: u64) -> u64 {
    let realtime_ns = clock::now_ns(Clock::Realtime);
    // Read last: a pause between both readings makes a frame younger, and never older than it is.
    let now_ns = clock::now_ns(Clock::Monotonic);
    now_ns.saturating_sub(realtime_ns.saturating_sub(stamp_realtime_ns))
}

impl Port for PacketPort {
    fn send(&mut self, frame: &[u8]) -> Result<(), LinkError> {
        self.sender.send(frame).map(drop)
    }

    fn launch_window(&self) -> Option<LaunchWindow> {
        self.launches.as_ref().map(Launches::window)
    }

    fn send_at(&mut self, frame: &[u8], launch_ns: u64) -> Result<(), LinkError> {
        match &mut self.launches {
            Some(launches) => launches.send_at(frame, launch_ns),
            None => Err(LinkError::LaunchRefused { launch_ns }),
        }
    }

    fn receive(&mut self, show: &mut dyn FnMut(Arrived<'_>)) -> Result<bool, LinkError> {
        let Some(frame) = self.ring.peek() else {
            return Ok(false);
        };
        show(Arrived {
            at_ns: frame.stamp_realtime_ns.map(monotonic_ns),
            frame: frame.data,
            offload: None,
        });
        self.ring.release();
        Ok(true)
    }

    fn is_ready(&self) -> bool {
        self.ring.is_ready(0)
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), LinkError> {
        match self.socket.wait(Some(timeout)) {
            Ok(Ready::Readable) => Ok(()),
            Ok(Ready::Nothing) => self.check(),
            Ok(Ready::Error) => match self.socket.take_error() {
                Some(errno) => Err(self.failed(errno)),
                None => self.check(),
            },
            Err(errno) => Err(self.failed(errno)),
        }
    }
}
