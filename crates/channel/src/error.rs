//! Errors of channels.

use rtwire_link::LinkError;
use rtwire_link::program::ProgramError;

/// Reason why a channel could not be opened, or a value not sent or received.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// Error of the interface or of a path on it.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Error of the receive program.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Another listener in this network namespace already uses this port of this interface.
    #[error(
        "port {port} on interface `{interface}` is in use already: choose another port, or end the program that listens there"
    )]
    PortInUse {
        /// The port.
        port: u16,
        /// The interface.
        interface: String,
    },
    /// The user data are longer than a frame of this channel can hold.
    #[error("{octets} bytes of user data do not fit one frame: send at most {fit} at once")]
    TooLong {
        /// Length of the user data, in bytes.
        octets: usize,
        /// Bytes that fit.
        fit: usize,
    },
}

impl From<rtwire_sys::Error> for ChannelError {
    fn from(error: rtwire_sys::Error) -> Self {
        Self::Link(LinkError::System(error))
    }
}

impl ChannelError {
    /// Returns the missing capability if that is the reason.
    #[must_use]
    pub fn capability(&self) -> Option<&'static str> {
        match self {
            Self::Link(error) => error.capability(),
            Self::Program(error) => error.capability(),
            _ => None,
        }
    }

    /// Returns `true` if the interface was removed, so that no frame can arrive again.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Link(LinkError::InterfaceGone { .. }))
    }
}
