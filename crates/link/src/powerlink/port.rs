//! The port: what the node sends and sees, with the driver in between.

use super::layout::{ANSWERED, BUFFERS, Control, PREPARED_WORDS, Response};
use super::polls::{Fate, Polls};
use super::ring::Reader;
use super::{DriverCounters, Program, Role, prepare};
use crate::error::LinkError;
use crate::program::{Attach, ProgramError};
use crate::run::{LaunchWindow, Launches, PacketPort, Port, PortConfig};
use rtwire_sys::bpf::{XdpLink, XdpMode};
use rtwire_sys::interface::Interface;
use rtwire_wire::EtherType;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

const SOC: u8 = 1;
const PREQ: u8 = 3;
const PRES: u8 = 4;
/// Where the message type and the destination node are in a frame.
const MESSAGE_AT: usize = 14;
const DESTINATION_AT: usize = 15;
const SOURCE_AT: usize = 16;
/// The managing node's number.
const MN: u8 = 240;

/// How a driver port is to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverConfig {
    /// The packet socket behind it.
    pub port: PortConfig,
    /// What the station is to do.
    pub role: Role,
    /// Its number.
    pub node: u8,
    /// Nodes whose poll responses are to be heard; `None`: all.
    pub wanted: Option<Vec<u8>>,
    /// Polls in a cycle at most, for a managing node.
    pub most_polls: usize,
    /// Which mode to attach in.
    pub attach: Attach,
}

impl DriverConfig {
    /// A station that hears everything.
    #[must_use]
    pub fn new(port: PortConfig, role: Role, node: u8) -> Self {
        Self {
            port,
            role,
            node,
            wanted: None,
            most_polls: 64,
            attach: Attach::Best,
        }
    }
}

/// A port whose isochronous phase runs in the driver.
#[derive(Debug)]
pub struct DriverPort {
    pub(super) packet: PacketPort,
    pub(super) program: Program,
    reader: Reader,
    role: Role,
    polls: Polls,
    /// The last poll request that was shown: whether the driver has answered it. `None`: the node has said its response.
    request: Option<bool>,
    /// PollResponse chaining: when the node is to respond, ns after the managing node's response. `None`: it is polled.
    chained_ns: Option<u64>,
    /// Whether the driver has sent the response to the managing node's response that was shown last.
    chained_answered: bool,
    /// Whether a frame came out of the ring since the socket last had one.
    came: bool,
}

impl DriverPort {
    /// Opens the port and attaches the program.
    ///
    /// # Errors
    /// No such interface; no privilege; another XDP program is there ([`ProgramError::is_in_use`]); no XDP.
    pub fn open(config: &DriverConfig) -> Result<Self, ProgramError> {
        let packet = PacketPort::open(&config.port)?;
        let all: Vec<u8> = (0..=255).collect();
        let (object, mut program) = Program::load(
            packet.interface(),
            config.role,
            config.node,
            config.wanted.as_ref().unwrap_or(&all),
        )?;
        program.attach(&object, packet.interface().index, config.attach)?;
        Ok(Self::with(packet, program, config))
    }

    pub(super) fn with(packet: PacketPort, program: Program, config: &DriverConfig) -> Self {
        Self {
            packet,
            program,
            reader: Reader::new(),
            role: config.role,
            polls: Polls::new(config.most_polls),
            request: None,
            chained_ns: None,
            chained_answered: false,
            came: true,
        }
    }

    /// The interface, as it was when the port was opened.
    #[must_use]
    pub fn interface(&self) -> &Interface {
        self.packet.interface()
    }

    /// Where the program runs.
    #[must_use]
    pub fn mode(&self) -> XdpMode {
        let link = self.program.link.as_ref();
        link.map_or(XdpMode::Generic, XdpLink::mode)
    }

    /// For a managing node: the polls of the cycle whose SoC is said next, in their order, each with its node. Said before that SoC
    /// is; where nothing was said, or a cycle polls otherwise, user space sends its polls. No system call.
    pub fn announce_polls<'a>(&mut self, polls: impl IntoIterator<Item = (u8, &'a [u8])>) {
        self.polls.announce(&self.program, polls);
    }

    /// Why it does not run in native mode, where that was tried.
    #[must_use]
    pub fn why_generic(&self) -> Option<&str> {
        self.program.why_generic.as_deref()
    }

    /// What was counted so far. No system call.
    #[must_use]
    pub fn counters(&self) -> DriverCounters {
        self.program.counters(self.reader.overrun())
    }

    /// From now on frames with a launch instant leave by this way.
    pub fn launch_by(&mut self, launches: Launches) {
        self.packet.launch_by(launches);
    }

    /// From now on the driver answers no poll request, until the node has said a response to one again.
    pub fn disarm(&mut self) {
        self.arm(0);
    }

    /// From now on the driver answers poll requests with this frame, whole and padded; an empty one disarms it. For nodes
    /// that tell their response as soon as it changes: what leaves is then never older than that.
    pub fn respond_with(&mut self, frame: &[u8]) {
        if frame.is_empty() {
            self.disarm();
        } else {
            self.respond(frame);
        }
    }

    /// PollResponse chaining: from now on the managing node's response is answered, so long after its arrival, ns; `None`: it
    /// is not, as at first. Up to 200 µs the driver itself waits, and its processor with it; a later response is the node's
    /// to send. A node that does not want to be answered for any more says so by [`disarm`](Self::disarm).
    pub fn respond_in_chain(&mut self, after_ns: Option<u64>) {
        if self.chained_ns != after_ns {
            self.chained_ns = after_ns;
            self.chained_answered = false;
            self.program.set(Control::AfterNs, after_ns.unwrap_or(0));
            let chained = u64::from(after_ns.is_some());
            self.program.set(Control::ChainedIn, chained);
        }
    }

    fn arm(&self, armed: u64) {
        if let Some(word) = self.program.response.word(0, Response::Armed as usize) {
            word.store(armed, Ordering::Release);
        }
    }

    /// Prepares the response to the next poll request. One writer: `&mut`.
    fn respond(&mut self, frame: &[u8]) {
        let Some(version) = self.program.response.word(0, Response::Version as usize) else {
            return;
        };
        let next = version.load(Ordering::Relaxed) + 1;
        let at = Response::Prepared as usize + (next % BUFFERS) as usize * PREPARED_WORDS;
        // The version stored last time comes before what is overwritten now: a program that still copies this buffer sees it.
        fence(Ordering::SeqCst);
        prepare(&self.program.response, 0, at, 0, frame);
        version.store(next, Ordering::Release);
        self.arm(1);
    }

    /// The socket's copies only wake: what they hold is in the ring.
    fn drain_socket(&mut self) -> Result<bool, LinkError> {
        let mut some = false;
        while self.packet.receive(&mut |_, _| {})? {
            some = true;
        }
        Ok(some)
    }

    /// Frames that reach the socket but not the ring mean that the program is gone.
    #[cold]
    fn look_at_program(&self) -> Result<(), LinkError> {
        match self.program.link.as_ref().map(XdpLink::is_attached) {
            Some(Ok(false)) => Err(LinkError::Detached {
                interface: self.interface().name.clone(),
            }),
            _ => Ok(()),
        }
    }
}

/// The kind of a POWERLINK frame; 0 for any other. Ordinary frames of the asynchronous phase are sent as they are.
fn message(frame: &[u8]) -> u8 {
    let ours = frame.get(12..14) == Some(&EtherType::POWERLINK.0.to_be_bytes()[..]);
    let message = frame.get(MESSAGE_AT).filter(|_| ours);
    message.map_or(0, |octet| octet & 0x7f)
}

impl Port for DriverPort {
    fn send(&mut self, frame: &[u8]) -> Result<(), LinkError> {
        match (self.role, message(frame)) {
            (Role::Controlled, PRES) => {
                self.respond(frame);
                // Left already where the driver has answered; a response to nothing is sent as it is.
                let left = if self.chained_ns.is_some() {
                    // Said for its time, which may be behind frames that came since.
                    std::mem::take(&mut self.chained_answered)
                } else {
                    self.request.take() == Some(true)
                };
                if left {
                    return Ok(());
                }
            }
            (Role::Managing, SOC) => self.polls.cycle(&self.program),
            (Role::Managing, PREQ) => {
                let node = frame.get(DESTINATION_AT).copied().unwrap_or(0);
                if self.polls.poll(&self.program, node) == Fate::Sent {
                    return Ok(());
                }
            }
            _ => {}
        }
        self.packet.send(frame)
    }

    fn launch_window(&self) -> Option<LaunchWindow> {
        self.packet.launch_window()
    }

    fn send_at(&mut self, frame: &[u8], launch_ns: u64) -> Result<(), LinkError> {
        self.packet.send_at(frame, launch_ns)?;
        // The requests are the new cycle's from here on; none of them leaves before the first, which is behind this frame.
        if (self.role, message(frame)) == (Role::Managing, SOC) {
            self.polls.cycle(&self.program);
        }
        Ok(())
    }

    fn receive(&mut self, show: &mut dyn FnMut(Option<u64>, &[u8])) -> Result<bool, LinkError> {
        // A node that has seen a poll request and said nothing does not want to be answered for.
        if self.request.take().is_some() {
            self.arm(0);
        }
        let head = self.program.get(Control::Head);
        let Some(taken) = self.reader.take(&self.program.ring, head) else {
            if self.packet.is_ready() && self.drain_socket()? && !std::mem::take(&mut self.came) {
                self.look_at_program()?;
            }
            return Ok(false);
        };
        self.came = true;
        let frame = &self.reader.octets()[..taken.length];
        let answered = taken.did & ANSWERED != 0;
        match frame.get(MESSAGE_AT).map(|octet| octet & 0x7f) {
            Some(PREQ) => self.request = Some(answered),
            Some(PRES) if frame.get(SOURCE_AT) == Some(&MN) => self.chained_answered = answered,
            _ => {}
        }
        show(Some(taken.arrival_ns), frame);
        Ok(true)
    }

    fn is_ready(&self) -> bool {
        self.reader.is_ready(&self.program.ring)
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), LinkError> {
        // Else what woke us last time would do so at once.
        self.drain_socket()?;
        if self.is_ready() {
            return Ok(());
        }
        self.packet.wait(timeout)
    }
}
