//! One port for all paths. The path is chosen when the port is opened.

use super::{DriverConfig, DriverCounters, DriverError, DriverPort, UmanPort};
use rtwire_link::LinkError;
use rtwire_link::run::{Arrived, LaunchWindow, Launches, Offload, PacketPort, Port};
use rtwire_link::xdp::Attach;
use rtwire_sys::bpf::XdpMode;
use rtwire_sys::interface::{self, Interface};
use rtwire_wire::MacAddress;
use std::time::Duration;

/// A port whose isochronous phase runs in user space, in the driver, or in the kernel module `uman`.
#[derive(Debug)]
pub enum StationPort {
    /// In user space.
    User(Box<PacketPort>),
    /// In the driver.
    Driver(Box<DriverPort>),
    /// In the kernel module `uman`.
    Uman(Box<UmanPort>),
}

/// The path of the isochronous phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StationPath {
    /// The driver; user space where XDP is missing.
    #[default]
    Auto,
    /// User space.
    User,
    /// The driver.
    Driver,
    /// The driver in native mode; an error otherwise.
    Native,
    /// The kernel module `uman`, at the device of that kind that the interface is or that is above it; an error otherwise.
    Uman,
}

impl StationPath {
    /// All paths.
    pub const ALL: [Self; 5] = [
        Self::Auto,
        Self::User,
        Self::Driver,
        Self::Native,
        Self::Uman,
    ];

    /// Returns the path's name, as project files have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::User => "user",
            Self::Driver => "driver",
            Self::Native => "native",
            Self::Uman => "uman",
        }
    }
}

/// Chooses the generic mode for a veth. In native mode a veth's frames are lost unless its peer has an XDP program, and the peer
/// may be in another namespace.
fn fitting(config: &DriverConfig) -> DriverConfig {
    let mut config = config.clone();
    let driver = interface::driver(&config.port.interface);
    if config.attach == Attach::Best && driver.is_ok_and(|name| name.as_deref() == Some("veth")) {
        config.attach = Attach::Only(XdpMode::Generic);
    }
    config
}

impl StationPort {
    /// Opens a port. Returns with it a text for the user: the path that was taken, and why.
    ///
    /// # Errors
    /// The interface or a privilege is missing. For [`StationPath::Driver`] and [`StationPath::Native`] also: XDP is missing, or
    /// another XDP program is attached.
    pub fn open(config: &DriverConfig, path: StationPath) -> Result<(Self, String), DriverError> {
        let user = |why: &str| -> Result<(Self, String), DriverError> {
            let port = PacketPort::open(&config.port)?;
            Ok((Self::User(Box::new(port)), format!("in user space{why}")))
        };
        match path {
            StationPath::User => user(""),
            StationPath::Uman => {
                let port = UmanPort::open(config)?;
                let said = format!("in the kernel module uman, at {}", port.interface().name);
                Ok((Self::Uman(Box::new(port)), said))
            }
            StationPath::Native => {
                let native = DriverConfig {
                    attach: Attach::Only(XdpMode::Native),
                    ..config.clone()
                };
                let port = DriverPort::open(&native)?;
                let said = format!("in the driver, XDP in {} mode", port.mode());
                Ok((Self::Driver(Box::new(port)), said))
            }
            StationPath::Driver | StationPath::Auto => match DriverPort::open(&fitting(config)) {
                Ok(port) => {
                    let mut said = format!("in the driver, XDP in {} mode", port.mode());
                    if let Some(why) = port.why_generic() {
                        said += &format!(" (native: {why})");
                    } else if fitting(config).attach != config.attach {
                        said += " (not native: a veth sends from its driver only to a peer that has an XDP program, too)";
                    }
                    Ok((Self::Driver(Box::new(port)), said))
                }
                Err(error)
                    if path == StationPath::Auto && (error.is_lacking() || error.is_in_use()) =>
                {
                    user(&format!(", since the driver path failed: {error}"))
                }
                Err(error) => Err(error),
            },
        }
    }

    /// Returns the interface, as it was when the port was opened.
    #[must_use]
    pub fn interface(&self) -> &Interface {
        match self {
            Self::User(port) => port.interface(),
            Self::Driver(port) => port.interface(),
            Self::Uman(port) => port.interface(),
        }
    }

    /// Sends frames with a launch instant through `launches` from now on.
    pub fn launch_by(&mut self, launches: Launches) {
        match self {
            Self::User(port) => port.launch_by(launches),
            Self::Driver(port) => port.launch_by(launches),
            Self::Uman(port) => port.launch_by(launches),
        }
    }

    /// Has the kernel module send frames with a launch instant, as [`UmanPort::keep_by_module`]. Does nothing on other paths.
    pub fn keep_by_module(&mut self, period_ns: u64, window: LaunchWindow) {
        if let Self::Uman(port) = self {
            port.keep_by_module(period_ns, window);
        }
    }

    /// Returns the SoC that the kernel module has lost; `None` where it keeps none.
    #[inline]
    #[must_use]
    pub fn soc_lost(&self) -> Option<u64> {
        match self {
            Self::User(_) | Self::Driver(_) => None,
            Self::Uman(port) => port.soc_lost(),
        }
    }

    /// Tells the driver or the module the managing node's address, as [`DriverPort::set_managing`]. Does nothing in user space.
    #[inline]
    pub fn set_managing(&mut self, managing: Option<MacAddress>) {
        match self {
            Self::User(_) => {}
            Self::Driver(port) => port.set_managing(managing),
            Self::Uman(port) => port.set_managing(managing),
        }
    }

    /// Tells the driver or the module the watchdog's cycles, as [`DriverPort::set_watchdog`]. Does nothing in user space.
    #[inline]
    pub fn set_watchdog(&mut self, cycles: u32) {
        match self {
            Self::User(_) => {}
            Self::Driver(port) => port.set_watchdog(cycles),
            Self::Uman(port) => port.set_watchdog(cycles),
        }
    }

    /// Returns the driver port, if that path was taken.
    #[must_use]
    pub fn driver(&self) -> Option<&DriverPort> {
        match self {
            Self::User(_) | Self::Uman(_) => None,
            Self::Driver(port) => Some(port),
        }
    }

    /// Returns the counters of the driver or the module; `None` in user space. No system call.
    #[must_use]
    pub fn counters(&self) -> Option<DriverCounters> {
        match self {
            Self::User(_) => None,
            Self::Driver(port) => Some(port.counters()),
            Self::Uman(port) => Some(port.counters()),
        }
    }
}

impl Port for StationPort {
    #[inline]
    fn send(&mut self, frame: &[u8]) -> Result<(), LinkError> {
        match self {
            Self::User(port) => port.send(frame),
            Self::Driver(port) => port.send(frame),
            Self::Uman(port) => port.send(frame),
        }
    }

    #[inline]
    fn launch_window(&self) -> Option<LaunchWindow> {
        match self {
            Self::User(port) => port.launch_window(),
            Self::Driver(port) => port.launch_window(),
            Self::Uman(port) => port.launch_window(),
        }
    }

    #[inline]
    fn send_at(&mut self, frame: &[u8], launch_ns: u64) -> Result<(), LinkError> {
        match self {
            Self::User(port) => port.send_at(frame, launch_ns),
            Self::Driver(port) => port.send_at(frame, launch_ns),
            Self::Uman(port) => port.send_at(frame, launch_ns),
        }
    }

    #[inline]
    fn receive(&mut self, show: &mut dyn FnMut(Arrived<'_>)) -> Result<bool, LinkError> {
        match self {
            Self::User(port) => port.receive(show),
            Self::Driver(port) => port.receive(show),
            Self::Uman(port) => port.receive(show),
        }
    }

    #[inline]
    fn offload(&mut self) -> Option<&mut dyn Offload> {
        match self {
            Self::User(_) => None,
            Self::Driver(port) => port.offload(),
            Self::Uman(port) => port.offload(),
        }
    }

    #[inline]
    fn is_ready(&self) -> bool {
        match self {
            Self::User(port) => port.is_ready(),
            Self::Driver(port) => port.is_ready(),
            Self::Uman(port) => port.is_ready(),
        }
    }

    #[inline]
    fn wait(&mut self, timeout: Duration) -> Result<(), LinkError> {
        match self {
            Self::User(port) => port.wait(timeout),
            Self::Driver(port) => port.wait(timeout),
            Self::Uman(port) => port.wait(timeout),
        }
    }
}
