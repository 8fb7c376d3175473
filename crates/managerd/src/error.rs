//! The reasons why a manager or its client cannot go on.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use rtwire_manager::{CodecError, ManagerError};

/// An error of the manager's daemon, its store, its key files or its client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManagerdError {
    /// A file or folder cannot be used.
    #[error("cannot {what} `{}`: {error}", path.display())]
    File {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// Others may read a key file.
    #[error("the key file `{}` has mode {mode:03o}: others may read it; make a new key with `rtwire manager rekey`, or `chmod 600` it", path.display())]
    KeyMode {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A key file belongs to another user.
    #[error("the key file `{}` belongs to user {uid}, who could replace it: `chown` it to yourself", path.display())]
    KeyOwner {
        /// The file.
        path: PathBuf,
        /// The owner.
        uid: u32,
    },
    /// A key file has no key in it.
    #[error("the key file `{}` is not 64 hexadecimal digits: make a new one with `rtwire manager rekey`", path.display())]
    KeyForm {
        /// The file.
        path: PathBuf,
    },
    /// A folder has no key file.
    #[error("there is no key file in `{}`: make them with `rtwire manager keygen`", path.display())]
    NoKeys {
        /// The folder.
        path: PathBuf,
    },
    /// The name is none of a host.
    #[error("`{name}` is no host's name: 1 to 64 letters, digits, `-`, `_` and `.`")]
    HostName {
        /// The name.
        name: String,
    },
    /// Another manager uses the store.
    #[error("another manager runs on the state `{}`: stop it, or state another `--state`", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The store fails.
    #[error("the store `{}` fails: {error}", path.display())]
    Store {
        /// The file.
        path: PathBuf,
        /// The error of the store.
        error: Box<redb::Error>,
    },
    /// The store in etcd does not answer, or not as it should.
    #[error("the store `{}` fails: {why}; nothing is granted without a majority of its members", place.display())]
    Etcd {
        /// Its address.
        place: PathBuf,
        /// The reason, in words.
        why: String,
    },
    /// Another manager may lead: this one answers nothing any more.
    #[error("this manager no longer leads by the store `{}`, and grants nothing: {why}", place.display())]
    NoLongerLeads {
        /// The address of the store.
        place: PathBuf,
        /// The reason, in words.
        why: String,
    },
    /// The store has a record that cannot be read.
    #[error("the store `{}` has a record that cannot be read: {error}; use the rtwire that wrote it", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: CodecError,
    },
    /// The store belongs to another plan.
    #[error("the state `{}` belongs to the plan {stored}, not to {given}: give that plan, or a new folder", path.display())]
    OtherPlan {
        /// The folder.
        path: PathBuf,
        /// The fingerprint of the store's plan.
        stored: String,
        /// The fingerprint of the plan that was given.
        given: String,
    },
    /// The store has other budgets.
    #[error("the state `{}` has other budgets, on which its promises rest: leave `--budget` away, or give a new folder", path.display())]
    OtherBudgets {
        /// The folder.
        path: PathBuf,
    },
    /// The state machine refuses its start.
    #[error(transparent)]
    Manager(#[from] ManagerError),
    /// A socket cannot be used.
    #[error("cannot {what} {address}: {error}")]
    Socket {
        /// The operation.
        what: &'static str,
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        error: io::Error,
    },
    /// No answer came in time.
    #[error(
        "the manager at {address} did not answer within {seconds} s. It may have decided all the same: `rtwire connections` shows what it did. Is it running, and does it have this host's key?"
    )]
    NoAnswer {
        /// The address of the manager, or of all that may lead.
        address: String,
        /// The time, seconds.
        seconds: f64,
    },
}

impl ManagerdError {
    pub(crate) fn file(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> ManagerdError {
        let path = path.into();
        move |error| ManagerdError::File { what, path, error }
    }
}
