//! The reasons why a deployer or a door cannot go on.

use std::io;
use std::net::SocketAddr;

use rtwire_managerd::ManagerdError;

/// An error of a deployer or of a door.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeployError {
    /// A key file or the kernel's random numbers.
    #[error(transparent)]
    Key(#[from] ManagerdError),
    /// The door cannot be reached, or went away.
    #[error("host \"{host}\" at {address}: {what}: {error}")]
    Line {
        /// The host.
        host: String,
        /// Its door.
        address: SocketAddr,
        /// The attempt, as a verb phrase.
        what: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// Whoever answers does not have the host's key, or a message was altered.
    #[error(
        "host \"{host}\" at {address}: the answer is not of a holder of its key: is it the right address, and the same key file?"
    )]
    Forged {
        /// The host.
        host: String,
        /// Its door.
        address: SocketAddr,
    },
    /// The door cannot listen.
    #[error("cannot listen at {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// A file of the door.
    #[error("cannot {what} `{path}`: {error}")]
    File {
        /// The attempt, as a verb.
        what: &'static str,
        /// The file.
        path: String,
        /// The system's error.
        error: io::Error,
    },
}
