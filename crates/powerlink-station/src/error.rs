//! What goes wrong with a station.

use crate::driver::DriverError;
use rtwire_link::LinkError;
use rtwire_plan::Faults;
use std::io;
use std::net::SocketAddrV4;
use std::path::PathBuf;

/// Why a station could not be opened, or has ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StationError {
    /// The project file is faulty.
    #[error("{0}")]
    Project(Faults),
    /// A file could not be read.
    #[error("cannot read `{}`: {source}", .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A configuration is not one, or does not fit.
    #[error("`{}`: {source}", .path.display())]
    Configuration {
        /// The file it comes from.
        path: PathBuf,
        /// What is wrong.
        source: rtwire_powerlink::Error,
    },
    /// The file is one of the other role.
    #[error("`{}` describes {found}, not {wanted}; {help}", .path.display())]
    Role {
        /// The file.
        path: PathBuf,
        /// What it describes.
        found: &'static str,
        /// What was asked for.
        wanted: &'static str,
        /// What to do.
        help: &'static str,
    },
    /// A SoC would have to be handed over before half of the cycle before it has passed.
    #[error(
        "`{}`: with launch times a SoC is handed over {lead} ahead (the queue's delta of {delta} and `soc-margin` of {margin}), \
         but at most half of the cycle of {cycle} is possible; take a shorter delta or margin, a longer cycle, or soc = \"spin\"",
        .path.display()
    )]
    Lead {
        /// The file.
        path: PathBuf,
        /// How far ahead.
        lead: String,
        /// Of it the queue's part.
        delta: String,
        /// And the file's.
        margin: String,
        /// The cycle.
        cycle: String,
    },
    /// The process image has no such object.
    #[error(
        "no object {index:04X}h/{subindex:02X}h of node {node} is in the process image as {direction}; it has: {there}"
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
        /// What there is.
        there: String,
    },
    /// There is no socket for service data over UDP.
    #[error("cannot receive service data over UDP at {at}: {source}")]
    Service {
        /// Where.
        at: SocketAddrV4,
        /// Why.
        source: io::Error,
    },
    /// There is no thread for the loop.
    #[error("cannot start a thread for the station: {source}")]
    Thread {
        /// Why.
        source: io::Error,
    },
    /// The loop has ended before.
    #[error("the station does not run any more")]
    Ended,
    /// Asking the system failed.
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
    /// Whether the fault is in a file or in how it was asked for, and not in the host.
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
