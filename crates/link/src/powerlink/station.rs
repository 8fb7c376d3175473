//! One port for either path, chosen when it is opened.

use super::{DriverConfig, DriverPort};
use crate::error::LinkError;
use crate::program::{Attach, ProgramError};
use crate::run::{LaunchWindow, Launches, PacketPort, Port};
use rtwire_sys::bpf::XdpMode;
use rtwire_sys::interface::{self, Interface};
use std::time::Duration;

/// The isochronous phase in user space, or in the driver.
#[derive(Debug)]
pub enum StationPort {
    /// In user space.
    User(Box<PacketPort>),
    /// In the driver.
    Driver(Box<DriverPort>),
}

/// Which path to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StationPath {
    /// The driver where XDP is to be had, else user space.
    #[default]
    Auto,
    /// User space.
    User,
    /// The driver.
    Driver,
    /// The driver in native mode, or not at all.
    Native,
}

/// The best mode of a veth is the generic one: in native mode what it sends is lost, unless its peer, which may be anywhere,
/// has an XDP program.
fn fitting(config: &DriverConfig) -> DriverConfig {
    let mut config = config.clone();
    let driver = interface::driver(&config.port.interface);
    if config.attach == Attach::Best && driver.is_ok_and(|name| name.as_deref() == Some("veth")) {
        config.attach = Attach::Only(XdpMode::Generic);
    }
    config
}

impl StationPort {
    /// Opens a port. With it comes what to tell the user: which path was taken, and why.
    ///
    /// # Errors
    /// No such interface; no privilege; for [`StationPath::Driver`] and [`StationPath::Native`] also: no XDP, or another XDP
    /// program is there.
    pub fn open(config: &DriverConfig, path: StationPath) -> Result<(Self, String), ProgramError> {
        let user = |why: &str| -> Result<(Self, String), ProgramError> {
            let port = PacketPort::open(&config.port)?;
            Ok((Self::User(Box::new(port)), format!("in user space{why}")))
        };
        match path {
            StationPath::User => user(""),
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
                        said += " (native: a veth sends from its driver only to a peer that has an XDP program, too)";
                    }
                    Ok((Self::Driver(Box::new(port)), said))
                }
                Err(error)
                    if path == StationPath::Auto && (error.is_lacking() || error.is_in_use()) =>
                {
                    user(&format!(", since XDP is not to be had: {error}"))
                }
                Err(error) => Err(error),
            },
        }
    }

    /// The interface, as it was when the port was opened.
    #[must_use]
    pub fn interface(&self) -> &Interface {
        match self {
            Self::User(port) => port.interface(),
            Self::Driver(port) => port.interface(),
        }
    }

    /// From now on frames with a launch instant leave by this way.
    pub fn launch_by(&mut self, launches: Launches) {
        match self {
            Self::User(port) => port.launch_by(launches),
            Self::Driver(port) => port.launch_by(launches),
        }
    }

    /// The driver port, if that path was taken.
    #[must_use]
    pub fn driver(&self) -> Option<&DriverPort> {
        match self {
            Self::User(_) => None,
            Self::Driver(port) => Some(port),
        }
    }

    /// The driver port to be changed, if that path was taken.
    pub fn driver_mut(&mut self) -> Option<&mut DriverPort> {
        match self {
            Self::User(_) => None,
            Self::Driver(port) => Some(port),
        }
    }
}

impl Port for StationPort {
    #[inline]
    fn send(&mut self, frame: &[u8]) -> Result<(), LinkError> {
        match self {
            Self::User(port) => port.send(frame),
            Self::Driver(port) => port.send(frame),
        }
    }

    #[inline]
    fn launch_window(&self) -> Option<LaunchWindow> {
        match self {
            Self::User(port) => port.launch_window(),
            Self::Driver(port) => port.launch_window(),
        }
    }

    #[inline]
    fn send_at(&mut self, frame: &[u8], launch_ns: u64) -> Result<(), LinkError> {
        match self {
            Self::User(port) => port.send_at(frame, launch_ns),
            Self::Driver(port) => port.send_at(frame, launch_ns),
        }
    }

    #[inline]
    fn receive(&mut self, show: &mut dyn FnMut(Option<u64>, &[u8])) -> Result<bool, LinkError> {
        match self {
            Self::User(port) => port.receive(show),
            Self::Driver(port) => port.receive(show),
        }
    }

    #[inline]
    fn is_ready(&self) -> bool {
        match self {
            Self::User(port) => port.is_ready(),
            Self::Driver(port) => port.is_ready(),
        }
    }

    #[inline]
    fn wait(&mut self, timeout: Duration) -> Result<(), LinkError> {
        match self {
            Self::User(port) => port.wait(timeout),
            Self::Driver(port) => port.wait(timeout),
        }
    }
}
