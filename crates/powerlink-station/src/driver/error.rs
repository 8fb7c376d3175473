//! Errors of the driver path.

use rtwire_link::LinkError;
use rtwire_link::xdp::AttachError;
use rtwire_sys::bpf::BpfError;

/// The reason why a port was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The packet socket was not opened.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The kernel does not accept the program.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The program was not attached.
    #[error(transparent)]
    Attach(#[from] AttachError),
}

impl DriverError {
    /// Returns true where another XDP program is attached to the interface.
    #[must_use]
    pub const fn is_in_use(&self) -> bool {
        matches!(self, Self::Attach(error) if error.is_in_use())
    }

    /// Returns true where XDP is missing, so that packet sockets must do.
    #[must_use]
    pub const fn is_lacking(&self) -> bool {
        match self {
            Self::Link(_) => false,
            Self::Bpf(_) => true,
            Self::Attach(error) => !error.is_in_use(),
        }
    }
}
