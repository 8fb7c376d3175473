//! A name that one process of this host holds: a lock on a file in [`FOLDER`], which ends with its process, however it ends.
//!
//! Each network namespace has names of its own. Only who may write to the folder can hold a name, so a process without
//! privilege blocks nobody.
//!
//! # Limits
//! Containers that share a network namespace must share the folder, too. Nothing may remove its files: to other processes, a
//! name without a file is free. Not for a real-time loop.

mod folder;
mod own;
mod shared;
#[cfg(test)]
mod tests;

use crate::error::{Errno, Error, Result};
use crate::socket;
use folder::{Folder, errno, refused};
pub(crate) use shared::SharedName;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The folder of the locks. Its owner is root or the caller, and only its owner and its group may write to it.
pub const FOLDER: &str = "/run/rtwire";

/// The number of tries for a file that its holder removes at the same moment.
const TRIES: u32 = 100;
/// The longest wait for a process that removes leftovers.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest name, in bytes.
const MOST_BYTES: usize = 100;

/// A held name.
///
/// Its file is removed when this is dropped. If the process is killed, the kernel frees the lock when the last descriptor
/// of the file is closed. A process that it has started holds none: descriptors are closed when its program begins.
/// A copy of this in a forked process is no lock: the name stays with the process that took it.
#[derive(Debug)]
pub struct NameLock {
    file: File,
    path: PathBuf,
    /// The process that took it.
    process: u32,
}

impl Drop for NameLock {
    fn drop(&mut self) {
        // The name and its file are the parent's.
        if !self.is_own() {
            return;
        }
        own::remove(&self.path);
        // Whoever opens the path from now on makes a new file. So a copy of the descriptor, in a process that another
        // thread has just forked, does not keep the name.
        if folder::is_at(&self.file, &self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl NameLock {
    /// Returns true if this process took the name. A forked process has a copy of the value, and nothing that belongs to the
    /// name is its own.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.process == std::process::id()
    }

    /// Takes the name in the calling thread's network namespace. Waits for at most 2 s while another process removes the
    /// files of ended processes.
    ///
    /// # Errors
    /// Another process holds it ([`crate::ErrorKind::InUse`]), or it is longer than 100 bytes. The folder is missing and
    /// cannot be made, belongs to another user, or others may write to it ([`crate::ErrorKind::Permission`]). A process
    /// that removes files was stopped ([`crate::ErrorKind::Other`]).
    pub fn take(name: &str) -> Result<Self> {
        Self::take_in(&Folder::ready()?, name, PATIENCE)
    }

    /// Takes the name as [`take`](Self::take) does, but never waits.
    ///
    /// # Errors
    /// As [`take`](Self::take); also where another process removes files at this moment.
    pub fn try_take(name: &str) -> Result<Self> {
        Self::take_in(&Folder::ready()?, name, Duration::ZERO)
    }

    fn take_in(folder: &Folder, name: &str, patience: Duration) -> Result<Self> {
        let path = folder.path(&file_name(name)?);
        let failed = |call, errno| refused(call, &path, errno, folder::REMEDY);
        let in_use = || refused_name(name, libc::EADDRINUSE);
        // Nobody removes leftovers between the next two steps.
        let _no_removal = folder.shared(patience)?;
        for _ in 0..TRIES {
            let file = folder
                .open(&path)
                .map_err(|error| failed("open", errno(&error)))?;
            match request(&file, libc::F_OFD_SETLK, libc::F_WRLCK) {
                Ok(_) if folder::is_at(&file, &path) => {
                    // False if somebody has removed the file of a name that this process holds.
                    if !own::add(&path) {
                        return Err(in_use());
                    }
                    let process = std::process::id();
                    return Ok(Self {
                        file,
                        path,
                        process,
                    });
                }
                Err(errno) if !is_locked_out(errno) => {
                    return Err(failed("fcntl(F_OFD_SETLK)", errno));
                }
                Err(_) if folder::is_at(&file, &path) => return Err(in_use()),
                // The file's holder has just removed it: another file is the lock now.
                Ok(_) | Err(_) => {}
            }
        }
        Err(in_use())
    }
}

/// True if a process holds the name in the calling thread's network namespace. If somebody has removed the name's file, only
/// the process that holds it knows that.
///
/// # Errors
/// The name is longer than 100 bytes, or the folder is not as [`FOLDER`] says.
pub fn is_held(name: &str) -> Result<bool> {
    let file = file_name(name)?;
    match Folder::there()? {
        Some(folder) => is_held_in(&folder, &file),
        None => Ok(own::has(&Path::new(FOLDER).join(file))),
    }
}

fn is_held_in(folder: &Folder, file_name: &str) -> Result<bool> {
    let path = folder.path(file_name);
    if own::has(&path) {
        return Ok(true);
    }
    let file = match folder::open_existing(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => {
            return Err(refused("open", &path, errno(&error), folder::REMEDY));
        }
    };
    is_locked(&file).map_err(|errno| refused("fcntl(F_OFD_GETLK)", &path, errno, folder::REMEDY))
}

/// Returns true if another opened file has a lock on this one. It takes no lock, so it disturbs nobody.
fn is_locked(file: &File) -> std::result::Result<bool, Errno> {
    Ok(request(file, libc::F_OFD_GETLK, libc::F_WRLCK)? != libc::F_UNLCK)
}

/// Returns true if the error says that another opened file has the lock: POSIX allows two numbers for it.
fn is_locked_out(errno: Errno) -> bool {
    errno.would_block() || errno.0 == libc::EACCES
}

/// Makes a request about a lock of the whole file; returns the kind of lock that the kernel reports.
fn request(file: &File, command: i32, kind: i32) -> std::result::Result<i32, Errno> {
    // SAFETY: flock is plain data, for which all zeroes is a valid value: from the beginning to the end of the file.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    loop {
        // SAFETY: the descriptor is open and `lock` is a valid place for the whole call.
        if unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) } == 0 {
            return Ok(i32::from(lock.l_type));
        }
        let errno = Errno::last();
        if !errno.interrupted() {
            return Err(errno);
        }
    }
}

fn refused_name(name: &str, errno: i32) -> Error {
    Error::new("lock", format!("the name `{name}`"), Errno(errno), None)
}

/// Returns the name of the file that is the lock: it begins with the cookie of the network namespace.
fn file_name(name: &str) -> Result<String> {
    if name.len() > MOST_BYTES {
        return Err(refused_name(name, libc::ENAMETOOLONG));
    }
    Ok(format!("{:x}-{}", namespace()?, name.replace('/', "-")))
}

/// Returns the cookie of the calling thread's network namespace. No two namespaces have the same one until the
/// next boot, unlike their inodes. Needs Linux 5.14.
fn namespace() -> Result<u64> {
    let object = "the network namespace";
    let kind = (libc::AF_UNIX, libc::SOCK_DGRAM, 0);
    let socket = socket::open("socket(AF_UNIX)", object, kind, None)?;
    let mut cookie = 0_u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: `cookie` is a valid place of the size given.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(cookie)
    } else {
        Err(Error::last("getsockopt(SO_NETNS_COOKIE)", object, None))
    }
}

/// Missing in `libc`; the same on all architectures but PA-RISC and SPARC.
const SO_NETNS_COOKIE: i32 = 71;
