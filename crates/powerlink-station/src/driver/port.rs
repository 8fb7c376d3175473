//! The port: the ring of frames that the driver has seen, the socket behind it, and the driver as the node's offload.

use super::layout::{ANSWERED, Control};
use super::offload::Driver;
use super::requests::Requests;
use super::{DriverCounters, DriverError, Program, Role};
use rtwire_link::LinkError;
use rtwire_link::frame_ring::FrameRing;
use rtwire_link::run::{Arrived, LaunchWindow, Launches, Offload, PacketPort, Port, PortConfig};
use rtwire_link::xdp::Attach;
use rtwire_sys::bpf::{XdpLink, XdpMode};
use rtwire_sys::interface::Interface;
use rtwire_wire::MacAddress;
use rtwire_wire::powerlink::View;
use std::time::Duration;

/// The settings of a driver port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverConfig {
    /// The packet socket behind it.
    pub port: PortConfig,
    /// The station's role.
    pub role: Role,
    /// The station's node number.
    pub node: u8,
    /// The nodes whose PRes are shown; `None`: all.
    pub wanted: Option<Vec<u8>>,
    /// The most requests in a cycle that the driver sends, for a managing node: 1 to 255.
    pub most_requests: usize,
    /// The cycles for which the driver answers PReqs without renewal by user space, for a controlled node; 0: no limit.
    pub watchdog_cycles: u32,
    /// The time from a cycle's first request after which the driver sends no further one, ns, for a managing node.
    pub chain_ns: u64,
    /// The mode to attach in.
    pub attach: Attach,
}

impl DriverConfig {
    /// Returns the settings of a station that hears every node.
    #[must_use]
    pub fn new(port: PortConfig, role: Role, node: u8) -> Self {
        Self {
            port,
            role,
            node,
            wanted: None,
            most_requests: 64,
            watchdog_cycles: 10,
            chain_ns: 100_000_000,
            attach: Attach::Best,
        }
    }

    /// Returns [`chain_ns`](Self::chain_ns) for a watchdog of `watchdog_cycles`; 0: no limit.
    #[must_use]
    pub const fn chain_of(cycle_ns: u64, watchdog_cycles: u32) -> u64 {
        match watchdog_cycles {
            0 => u64::MAX,
            cycles => cycle_ns.saturating_mul(cycles as u64),
        }
    }
}

/// A port whose isochronous phase runs in the driver.
#[derive(Debug)]
pub struct DriverPort {
    packet: PacketPort,
    reader: FrameRing,
    driver: Driver,
    /// True where a frame came out of the ring since the socket last had one.
    came: bool,
    /// The arrival, ns, and the Ethernet header of the last ordinary frame that was not shown yet.
    ordinary: Option<(Option<u64>, [u8; 14])>,
    /// The managing node's address, as the program has it.
    managing: Option<MacAddress>,
    /// The watchdog's cycles, as the program has them.
    watchdog_cycles: u32,
}

impl DriverPort {
    /// Opens the port and attaches the program.
    ///
    /// # Errors
    /// The interface is missing; a privilege is missing; XDP is missing; another XDP program is attached
    /// ([`DriverError::is_in_use`]).
    pub fn open(config: &DriverConfig) -> Result<Self, DriverError> {
        let packet = PacketPort::open(&config.port)?;
        let all: Vec<u8> = (0..=255).collect();
        let (object, mut program) = Program::load(
            packet.interface(),
            config.role,
            config.node,
            config.wanted.as_ref().unwrap_or(&all),
            config.watchdog_cycles,
        )?;
        program.attach(&object, packet.interface().index, config.attach)?;
        Ok(Self {
            packet,
            reader: FrameRing::new(),
            driver: Driver {
                program,
                role: config.role,
                requests: Requests::new(config.most_requests, config.chain_ns),
                answered: false,
                cycle: 0,
            },
            came: true,
            ordinary: None,
            managing: None,
            watchdog_cycles: config.watchdog_cycles,
        })
    }

    /// Returns the interface, as it was when the port was opened.
    #[must_use]
    pub fn interface(&self) -> &Interface {
        self.packet.interface()
    }

    /// Returns the mode in which the program runs.
    #[must_use]
    pub fn mode(&self) -> XdpMode {
        let link = self.driver.program.link.as_ref();
        link.map_or(XdpMode::Generic, XdpLink::mode)
    }

    /// Returns the reason why the program does not run in native mode, where that was tried.
    #[must_use]
    pub fn why_generic(&self) -> Option<&str> {
        self.driver.program.why_generic.as_deref()
    }

    /// Returns what was counted so far. No system call.
    #[must_use]
    pub fn counters(&self) -> DriverCounters {
        self.driver.program.counters(self.reader.overrun())
    }

    /// Tells the program the managing node's address: PReqs of others are dropped and counted. `None`: any address of node 240.
    /// May be called in a real-time loop; costs a comparison where nothing has changed.
    pub fn set_managing(&mut self, managing: Option<MacAddress>) {
        if self.managing != managing {
            self.managing = managing;
            let word = managing.map_or(0, super::word_of);
            self.driver.program.set(Control::Managing, word);
        }
    }

    /// Sets the cycles for which the program answers PReqs without renewal, for a controlled node; 0: no limit. May be called in a
    /// real-time loop; costs a comparison where nothing has changed.
    pub fn set_watchdog(&mut self, cycles: u32) {
        if self.watchdog_cycles != cycles {
            self.watchdog_cycles = cycles;
            self.driver.program.set_watchdog(cycles);
        }
    }

    /// Sends frames with a launch instant through `launches` from now on.
    pub fn launch_by(&mut self, launches: Launches) {
        self.packet.launch_by(launches);
    }

    /// Empties the socket. Its POWERLINK frames only wake the loop: the ring has them, too. Of the others the last one's header is
    /// kept. Returns true where there was a POWERLINK frame.
    fn drain_socket(&mut self) -> Result<bool, LinkError> {
        let Self {
            packet, ordinary, ..
        } = self;
        let mut some = false;
        while packet.receive(&mut |arrived| {
            if View::new(arrived.frame).is_powerlink() {
                some = true;
            } else if let Some(header) = arrived.frame.first_chunk() {
                *ordinary = Some((arrived.at_ns, *header));
            }
        })? {}
        Ok(some)
    }

    /// Returns an error where the program was detached. Called where frames reach the socket but not the ring.
    #[cold]
    fn look_at_program(&self) -> Result<(), LinkError> {
        match self.driver.program.link.as_ref().map(XdpLink::is_attached) {
            Some(Ok(false)) => Err(LinkError::Detached {
                interface: self.interface().name.clone(),
            }),
            _ => Ok(()),
        }
    }
}

impl Port for DriverPort {
    fn send(&mut self, frame: &[u8]) -> Result<(), LinkError> {
        self.packet.send(frame)
    }

    fn launch_window(&self) -> Option<LaunchWindow> {
        self.packet.launch_window()
    }

    fn send_at(&mut self, frame: &[u8], launch_ns: u64) -> Result<(), LinkError> {
        self.packet.send_at(frame, launch_ns)
    }

    fn receive(&mut self, show: &mut dyn FnMut(Arrived<'_>)) -> Result<bool, LinkError> {
        let program = &self.driver.program;
        let head = program.get(Control::Head);
        let Some(taken) = self.reader.take(&program.ring, head) else {
            if self.packet.is_ready() && self.drain_socket()? && !std::mem::take(&mut self.came) {
                self.look_at_program()?;
            }
            let Some((at_ns, header)) = self.ordinary.take() else {
                return Ok(false);
            };
            show(Arrived {
                at_ns,
                frame: &header,
                offload: Some(&mut self.driver),
            });
            return Ok(true);
        };
        self.came = true;
        self.driver.answered = taken.did & ANSWERED != 0;
        self.driver.cycle = taken.note;
        show(Arrived {
            at_ns: Some(taken.arrival_ns),
            frame: &self.reader.octets()[..taken.length],
            offload: Some(&mut self.driver),
        });
        self.driver.answered = false;
        Ok(true)
    }

    fn offload(&mut self) -> Option<&mut dyn Offload> {
        Some(&mut self.driver)
    }

    fn is_ready(&self) -> bool {
        self.reader.is_ready(&self.driver.program.ring)
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), LinkError> {
        // A frame that was left in the socket would end the wait at once.
        self.drain_socket()?;
        if self.is_ready() || self.ordinary.is_some() {
            return Ok(());
        }
        self.packet.wait(timeout)
    }
}
