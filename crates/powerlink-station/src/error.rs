//! Errors of a station.

use crate::driver::DriverError;
use rtwire_describe::Faults;
use rtwire_link::LinkError;
use std::io;
use std::net::SocketAddrV4;
use std::path::PathBuf;

/// The reason why a station could not be opened, or has ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StationError {
    /// The project file is faulty.
    #[error("{0}")]
    Project(Faults),
    /// A file could not be read.
    #[error("cannot read `{}`: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A configuration is invalid or does not fit.
    #[error("`{}`: {source}", .path.display())]
    Configuration {
        /// The file it comes from.
        path: PathBuf,
        /// The fault.
        source: rtwire_powerlink::Error,
    },
    /// The file describes a station of the other role.
    #[error("`{}` describes {found}, not {wanted}; {help}", .path.display())]
    Role {
        /// The file.
        path: PathBuf,
        /// The role that it describes.
        found: &'static str,
        /// The role that was asked for.
        wanted: &'static str,
        /// The remedy.
        help: &'static str,
    },
    /// A SoC would be handed over more than half a cycle ahead.
    #[error(
        "`{}`: with launch times a SoC is handed over {lead} ahead (the queue's delta of {delta} and `soc-margin` of {margin}), \
         but at most half of the cycle of {cycle} is possible; take a shorter delta or margin, a longer cycle, or soc = \"spin\"",
        .path.display()
    )]
    Lead {
        /// The file.
        path: PathBuf,
        /// The time ahead.
        lead: String,
        /// The queue's part of it.
        delta: String,
        /// The file's part of it.
        margin: String,
        /// The cycle.
        cycle: String,
    },
    /// The process image has no such object.
    #[error(
        "the process image has no {direction} {index:04X}h/{subindex:02X}h of node {node}; it has: {there}"
    )]
    NoObject {
        /// The node.
        node: u8,
        /// Index.
        index: u16,
        /// Sub-index.
        subindex: u8,
        /// `input` or `output`.
        direction: &'static str,
        /// The objects that it has.
        there: String,
    },
    /// The socket for service data over UDP was not opened.
    #[error("cannot receive service data over UDP at {at}: {source}")]
    Service {
        /// The address and port.
        at: SocketAddrV4,
        /// The reason.
        source: io::Error,
    },
    /// The thread for the loop was not started.
    #[error("cannot start a thread for the station: {source}")]
    Thread {
        /// The reason.
        source: io::Error,
    },
    /// The loop has ended.
    #[error("the station is not running any more")]
    Ended,
    /// A system call failed.
    #[error(transparent)]
    System(#[from] rtwire_sys::Error),
    /// The interface failed.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The driver path failed.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

impl StationError {
    /// Returns true where the fault is in a file or in the arguments, and not in the host.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Project(_)
                | Self::Read { .. }
                | Self::Configuration { .. }
                | Self::Role { .. }
                | Self::Lead { .. }
                | Self::NoObject { .. }
        )
    }
}
