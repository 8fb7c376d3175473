//! The folder of the locks: made by root, checked by everybody, cleared of the files of ended processes.

use super::{FOLDER, is_locked, is_locked_out, request};
use crate::error::{Errno, Error, Result};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::{Duration, Instant};

pub(super) const REMEDY: &str = "run as root; or let root open the folder to a group of users: `install -d -m 2770 -g GROUP /run/rtwire`, \
     and then the files that are there already: `find /run/rtwire -maxdepth 1 -type f -exec chgrp GROUP {} + -exec chmod 660 {} +`";
const STUCK: &str = "a process that removes leftovers there keeps it locked, and may be stopped: `fuser -v /run/rtwire/.guard` \
     shows it; let it go on, or end it";
const READ_ONLY: &str = "let this process write to the folder: `ReadWritePaths=/run/rtwire` in a service, the host's folder in a container";
/// The pause between two tries for the guard.
pub(super) const PAUSE: Duration = Duration::from_millis(1);
/// The file whose lock is exclusive while leftovers are removed.
const GUARD: &str = ".guard";

/// A folder that was checked.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Permissions of its files: the owner's, and the group's if that may write to the folder.
    mode: u32,
    /// The group of its files, if that may write to the folder.
    group: Option<u32>,
}

impl Folder {
    /// Returns the folder, made if it is missing. The first call of a process removes the files of ended processes.
    pub(super) fn ready() -> Result<Self> {
        static CLEARED: Once = Once::new();
        let folder = Self::made(Path::new(FOLDER))?;
        CLEARED.call_once(|| folder.clear());
        Ok(folder)
    }

    /// Returns the folder; `None` if it is missing.
    pub(super) fn there() -> Result<Option<Self>> {
        Self::checked(Path::new(FOLDER))
    }

    pub(super) fn made(path: &Path) -> Result<Self> {
        for _ in 0..2 {
            if let Some(folder) = Self::checked(path)? {
                return Ok(folder);
            }
            match DirBuilder::new().mode(0o700).create(path) {
                Ok(()) => {}
                // Another process was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(refused("mkdir", path, errno(&error), REMEDY)),
            }
        }
        Err(refused("mkdir", path, Errno(libc::ENOENT), REMEDY))
    }

    /// Checks owner and permissions: nobody but root, the caller and the folder's group may make a lock.
    pub(super) fn checked(path: &Path) -> Result<Option<Self>> {
        let found = match fs::symlink_metadata(path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(refused("stat", path, errno(&error), REMEDY)),
        };
        let wrong = |errno, remedy| Err(refused("check", path, Errno(errno), remedy));
        if !found.is_dir() {
            return wrong(libc::ENOTDIR, "remove it: it must be a folder");
        }
        // SAFETY: the call has no arguments and cannot fail.
        let own = unsafe { libc::geteuid() };
        if found.uid() != 0 && found.uid() != own {
            return wrong(
                libc::EPERM,
                "it belongs to another user: it must be root's, `chown root /run/rtwire`",
            );
        }
        if found.mode() & 0o002 != 0 {
            return wrong(
                libc::EPERM,
                "everybody may write to it, and so take each lock: `chmod o-rwx /run/rtwire`",
            );
        }
        let group = (found.mode() & 0o020 != 0).then_some(found.gid());
        Ok(Some(Self {
            path: path.to_owned(),
            mode: if group.is_some() { 0o660 } else { 0o600 },
            group,
        }))
    }

    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.path.join(file)
    }

    /// Opens a lock's file, and makes it if it is missing.
    pub(super) fn open(&self, path: &Path) -> io::Result<File> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(self.mode)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)?;
        self.share(&file)?;
        Ok(file)
    }

    /// Sets the folder's group, and the permissions for it, at a lock's file. Both may be missing: the process's umask takes
    /// permissions away, and a file may be older than the folder's group. Only the file's owner and root can do it; for
    /// others it does nothing.
    fn share(&self, file: &File) -> io::Result<()> {
        let found = file.metadata()?;
        // A file with a second name is no lock: somebody of the group has linked it here.
        if !found.is_file() || found.nlink() > 1 {
            return Ok(());
        }
        if self.group.is_some_and(|group| group != found.gid()) {
            let _ = fchown(file, None, self.group);
        }
        if found.mode() & 0o777 != self.mode {
            let _ = file.set_permissions(Permissions::from_mode(self.mode));
        }
        Ok(())
    }

    /// Keeps leftovers from being removed until the result is dropped. Waits for `patience` while another process removes
    /// some; with zero it tries once. A wait in the kernel would have no end if that process were stopped.
    pub(super) fn shared(&self, patience: Duration) -> Result<File> {
        let path = self.path(GUARD);
        let failed = |call, errno| refused(call, &path, errno, REMEDY);
        let guard = self
            .open(&path)
            .map_err(|error| failed("open", errno(&error)))?;
        let start = Instant::now();
        loop {
            match request(&guard, libc::F_OFD_SETLK, libc::F_RDLCK) {
                Ok(_) => return Ok(guard),
                Err(errno) if !is_locked_out(errno) => {
                    return Err(failed("fcntl(F_OFD_SETLK)", errno));
                }
                Err(_) if start.elapsed() < patience => std::thread::sleep(PAUSE),
                Err(_) => {
                    let errno = Errno(libc::EAGAIN);
                    return Err(failed("fcntl(F_OFD_SETLK)", errno).with_remedy(STUCK));
                }
            }
        }
    }

    /// Removes the files of processes that ended without doing so. Does nothing while another process takes a lock: the
    /// next one will do it.
    pub(super) fn clear(&self) {
        let Ok(guard) = self.open(&self.path(GUARD)) else {
            return;
        };
        if request(&guard, libc::F_OFD_SETLK, libc::F_WRLCK).is_err() {
            return;
        }
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            if entry.file_name() == GUARD {
                continue;
            }
            let path = entry.path();
            let free = open_existing(&path).is_ok_and(|file| is_locked(&file) == Ok(false));
            if free {
                let _ = fs::remove_file(path);
            }
        }
    }
}

pub(super) fn open_existing(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
}

/// Returns true if the opened file is still the one at `path`.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    let same = |own: fs::Metadata, there: fs::Metadata| {
        (own.dev(), own.ino()) == (there.dev(), there.ino())
    };
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(own), Ok(there)) => same(own, there),
        _ => false,
    }
}

pub(super) fn errno(error: &io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(libc::EIO))
}

pub(super) fn refused(
    call: &'static str,
    path: &Path,
    errno: Errno,
    remedy: &'static str,
) -> Error {
    let object = format!("`{}` (locks of ports)", path.display());
    let error = Error::new(call, object, errno, None);
    match errno.0 {
        libc::EPERM | libc::EACCES | libc::ENOTDIR | libc::ENOENT => error.with_remedy(remedy),
        libc::EROFS => error.with_remedy(READ_ONLY),
        _ => error,
    }
}
