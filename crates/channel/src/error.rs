//! What goes wrong with channels.

use rtwire_link::LinkError;
use rtwire_link::program::ProgramError;

/// Why a channel could not be opened, or a value not sent or received.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The interface or a path upon it.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The receive program.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Somebody in this network namespace listens at this port of this interface already.
    #[error(
        "port {port} on interface `{interface}` is in use already: choose another port, or end the program that listens there"
    )]
    PortInUse {
        /// The port.
        port: u16,
        /// The interface.
        interface: String,
    },
    /// More user data than a frame of this channel takes.
    #[error("{octets} octets of user data do not fit one frame: send at most {fit} at once")]
    TooLong {
        /// Octets of user data.
        octets: usize,
        /// Octets that fit.
        fit: usize,
    },
}

impl From<rtwire_sys::Error> for ChannelError {
    fn from(error: rtwire_sys::Error) -> Self {
        Self::Link(LinkError::System(error))
    }
}

impl ChannelError {
    /// The capability that is missing, where that is the reason.
    #[must_use]
    pub fn capability(&self) -> Option<&'static str> {
        match self {
            Self::Link(error) => error.capability(),
            Self::Program(error) => error.capability(),
            _ => None,
        }
    }

    /// Whether the interface was removed: nothing will ever come again.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Link(LinkError::InterfaceGone { .. }))
    }
}
