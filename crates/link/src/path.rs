//! The names of the transmit paths, as commands take them and reports show them.

use crate::launch::LaunchMode;
use crate::send::TxPath;

impl TxPath {
    /// All paths; launch times are kept strictly.
    pub const ALL: [Self; 5] = [
        Self::Qdisc,
        Self::Direct,
        Self::Xdp,
        Self::Launch(LaunchMode::Strict),
        Self::XdpLaunch,
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
        }
    }

    /// Returns true where each frame has a launch time.
    #[must_use]
    pub const fn has_launch_times(self) -> bool {
        matches!(self, Self::Launch(_) | Self::XdpLaunch)
    }

    /// Returns true where frames go past the queueing discipline; the kernel stamps nothing there.
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
                "`{text}` is no transmit path: there are qdisc, direct, xdp, launch, xdp-launch"
            )
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
    }
}
