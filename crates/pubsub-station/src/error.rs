//! Errors of a station.

use rtwire_describe::Faults;
use rtwire_link::LinkError;
use rtwire_pubsub::ConfigFault;
use rtwire_pubsub::security::KeyError;
use rtwire_pubsub::uabinary::UabinaryFault;
use std::io;
use std::path::PathBuf;

/// The reason why a station could not be opened, or has ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StationError {
    /// A file is faulty.
    #[error("{0}")]
    Project(Faults),
    /// A plan file cannot be used.
    #[error(transparent)]
    Plan(#[from] Box<rtwire_plan::plan_file::PlanFileError>),
    /// A file could not be read.
    #[error("cannot read `{}`: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write `{}`: {source}; a publisher needs it to never repeat a nonce", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A memory-mapped image could not be opened.
    #[error("cannot map the image `{}`: {source}", .path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Others may read a file of keys or of a password.
    #[error("`{}` is secret, but others may read it (mode {mode:o}); do `chmod 600` on it", .path.display())]
    OpenKeys {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Another user owns such a file.
    #[error("`{}` is secret, but the user with the number {uid} owns it and may change them; `chown` it to root or to the user who runs this", .path.display())]
    KeyOwner {
        /// The file.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// A key file could not be written.
    #[error("cannot write `{}`: {source}", .path.display())]
    WriteKeys {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The key service refuses what the file says, or its first answer cannot be used.
    #[error("key service `{endpoint}`, security group `{group}`: {why}")]
    KeyService {
        /// The service's address.
        endpoint: String,
        /// The security group.
        group: String,
        /// The reason.
        why: String,
    },
    /// The program that asks the key service cannot be started.
    #[error("cannot start `{}`, which asks the key service: {source}; build it in tools/get-security-keys, or name it with `program`", .path.display())]
    KeyProgram {
        /// The program.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A key cannot be used.
    #[error("`{}`: {source}", .path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The fault.
        source: KeyError,
    },
    /// The file of used nonces is damaged.
    #[error("`{}` is no file of used nonces; put it back, or change the keys and remove it", .path.display())]
    Nonces {
        /// The file.
        path: PathBuf,
    },
    /// Another publisher uses the file of used nonces.
    #[error("`{}` is in use by another publisher; give each its own `nonce-file`, and its own keys", .path.display())]
    NoncesInUse {
        /// The file.
        path: PathBuf,
    },
    /// A group cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigFault),
    /// The project has no such group, data set or field.
    #[error("there is no {what} `{name}`; there are: {there}")]
    NoSuch {
        /// Group, data set or field.
        what: &'static str,
        /// The name.
        name: String,
        /// The names that exist.
        there: String,
    },
    /// A configuration file is damaged, or a project cannot be one.
    #[error(transparent)]
    Uabinary(#[from] UabinaryFault),
    /// A configuration file has what a project cannot have, or the other way round.
    #[error("{what} cannot be carried over: {why}")]
    NotCarried {
        /// The part.
        what: String,
        /// The reason.
        why: String,
    },
    /// A publisher cannot describe itself, or an announcement cannot be read.
    #[error(transparent)]
    Discovery(#[from] rtwire_pubsub::discovery::DiscoveryFault),
    /// A group's messages cannot be answers.
    #[error("group `{group}` answers `{}`: {why}", .questions.display())]
    Answer {
        /// The group.
        group: String,
        /// The project of the questions.
        questions: PathBuf,
        /// The reason.
        why: String,
    },
    /// The driver cannot answer.
    #[error(
        "the driver of interface `{interface}` cannot answer: {why}; remove `answers` from the project, and answer with the library (docs/pubsub.md)"
    )]
    Driver {
        /// The interface.
        interface: String,
        /// The reason.
        why: String,
    },
    /// No interface is named.
    #[error("no interface: write `interface` into [connection], or name it with --interface")]
    NoInterface,
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
}

impl StationError {
    /// Returns true where the fault is in a file or in the arguments, and not in the host.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        !matches!(
            self,
            Self::Thread { .. }
                | Self::Ended
                | Self::System(_)
                | Self::Link(_)
                | Self::NoncesInUse { .. }
                | Self::Driver { .. }
        )
    }
}
