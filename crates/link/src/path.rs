//! The transmit paths and receive paths, with their names as commands take them and reports show them.

use crate::launch::LaunchMode;
use crate::send::TxPath;

impl TxPath {
    /// All paths; launch times are kept strictly.
    pub const ALL: [Self; 6] = [
        Self::Qdisc,
        Self::Direct,
        Self::Xdp,
        Self::Launch(LaunchMode::Strict),
        Self::XdpLaunch,
        Self::Uman,
    ];

    /// Returns the path's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Qdisc => "qdisc",
            Self::Direct => "direct",
            Self::Xdp => "xdp",
            Self::Launch(_) => "launch",
            Self::XdpLaunch => "xdp-launch",
            Self::Uman => "uman",
        }
    }

    /// Returns true where each frame has a launch time.
    #[must_use]
    pub const fn has_launch_times(self) -> bool {
        matches!(self, Self::Launch(_) | Self::XdpLaunch)
    }

    /// Returns true where frames go past the order of the queueing discipline; the kernel stamps nothing there. The path `uman`
    /// counts: a device of mode `qdisc` sends through the discipline, but with one priority for all frames.
    #[must_use]
    pub const fn goes_past_the_queue(self) -> bool {
        !matches!(self, Self::Qdisc | Self::Launch(_))
    }
}

impl std::fmt::Display for TxPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for TxPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|path| path.name() == text);
        named.ok_or_else(|| {
            format!(
                "`{text}` is no transmit path: there are qdisc, direct, xdp, launch, xdp-launch, uman"
            )
        })
    }
}

/// The transmit path in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TxPathInUse {
    /// The path.
    pub path: TxPath,
    /// On a path of AF_XDP: true if the driver sends from the shared memory, false if the kernel copies each frame. `None`
    /// on other paths.
    pub zero_copy: Option<bool>,
}

impl std::fmt::Display for TxPathInUse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.path.name())?;
        match self.zero_copy {
            Some(true) => f.write_str(" (zero copy)"),
            Some(false) => f.write_str(" (copy)"),
            None => Ok(()),
        }
    }
}

/// The requested receive path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ReceivePath {
    /// Packet sockets; they work everywhere with CAP_NET_RAW.
    #[default]
    Packet,
    /// For each listener the path that costs less: the receive program, in the driver if possible, else behind it; or
    /// packet sockets. Packet sockets also serve where XDP is missing or another program is attached. Each listener
    /// reports the path in use.
    Auto,
    /// The receive program in the driver, or an error.
    Native,
    /// The receive program behind the driver, or an error.
    Generic,
    /// The ring of the kernel module `uman`, or an error.
    Uman,
}

/// The receive path in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathInUse {
    /// The receive program, in the driver.
    Native,
    /// The receive program, behind the driver.
    Generic,
    /// Packet sockets.
    Packet,
    /// The ring of the kernel module `uman`.
    Uman,
    /// The UDP socket of the listener's datagrams.
    Datagrams,
    /// A socket of the host's agent.
    Agent,
}

impl ReceivePath {
    /// All paths that can be requested.
    pub const ALL: [Self; 5] = [
        Self::Auto,
        Self::Native,
        Self::Generic,
        Self::Packet,
        Self::Uman,
    ];

    /// Returns the path's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Packet => "packet",
            Self::Auto => "auto",
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Uman => "uman",
        }
    }
}

impl std::fmt::Display for ReceivePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::fmt::Display for PathInUse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Packet => "packet",
            Self::Uman => "uman",
            Self::Datagrams => "datagrams",
            Self::Agent => "agent",
        })
    }
}

impl std::str::FromStr for ReceivePath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|path| path.name() == text);
        named.ok_or_else(|| {
            format!("`{text}` is no receive path: use one of auto, native, generic, packet, uman")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_back_as_its_path() {
        for path in TxPath::ALL {
            assert_eq!(path.name().parse(), Ok(path));
        }
        assert!("tunnel".parse::<TxPath>().is_err());
        for path in ReceivePath::ALL {
            assert_eq!(path.name().parse(), Ok(path));
        }
    }
}
