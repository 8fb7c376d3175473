//! The program stays attached without a process: its link has a name in the kernel's file system for BPF.
//!
//! Some drivers take their link down whenever a program is attached or detached. Held once, the program is joined by each
//! process that needs it, and none of them changes the link's state.

use super::{ProgramError, ReceiveProgram};
use rtwire_sys::bpf::XdpLink;
use rtwire_sys::interface::{self, Interface};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The folder of the names. A file system of type `bpf` is mounted at its parent.
pub const HELD: &str = "/sys/fs/bpf/rtwire";

/// Returns the name by which the program at an interface of the calling thread's network namespace is held. It stays
/// when the interface is renamed.
fn place(interface: &Interface) -> PathBuf {
    let namespace = super::namespace();
    Path::new(HELD).join(format!("receive-{namespace}-{}", interface.index))
}

impl ReceiveProgram {
    /// Keeps the program attached until [`release`] or the end of the interface, also when no process has it open.
    /// Returns the name that holds it. Does nothing if it is held already. Call it from the program's network namespace.
    ///
    /// # Errors
    /// No file system of type `bpf` is mounted, or a privilege is missing ([`ProgramError::NotHeld`]).
    pub fn hold(&self) -> Result<PathBuf, ProgramError> {
        let path = place(self.interface());
        let fail = |source: io::Error| ProgramError::NotHeld {
            path: path.clone(),
            source,
        };
        if XdpLink::is_held(&path).map_err(|errno| fail(errno.into()))? {
            return Ok(path);
        }
        // The name of an interface that is gone.
        remove(&path).map_err(fail)?;
        let made = std::fs::DirBuilder::new().mode(0o700).create(HELD);
        if let Err(error) = made {
            if error.kind() != io::ErrorKind::AlreadyExists {
                return Err(fail(error));
            }
        }
        let attachment = self.shared.attachment();
        match &attachment.link {
            Some(link) => link.hold(&path).map_err(|errno| fail(errno.into()))?,
            None => return Err(fail(io::ErrorKind::NotFound.into())),
        }
        Ok(path)
    }
}

/// Ends what [`ReceiveProgram::hold`] has begun: the program is detached as soon as no process has it open. Returns
/// false if it was not held.
///
/// # Errors
/// The interface is missing, or a privilege is.
pub fn release(interface: &str) -> Result<bool, ProgramError> {
    let path = place(&interface::by_name(interface)?);
    remove(&path).map_err(|source| ProgramError::NotHeld { path, source })
}

/// Removes a name; false if there is none.
fn remove(path: &Path) -> io::Result<bool> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
