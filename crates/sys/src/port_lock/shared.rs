//! A name that several processes hold together, with a note that the first leaves for the last.

use super::folder::{self, Folder, errno, refused};
use super::{PATIENCE, TRIES, file_name, is_locked_out, request};
use crate::error::{Errno, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Longest note, in bytes.
const NOTE_MOST: usize = 256;

/// A name that several holders share: processes, and parts of one process. A holder ends with its process, however it ends.
#[derive(Debug)]
pub(crate) struct SharedName {
    file: File,
    path: PathBuf,
    process: u32,
}

impl SharedName {
    /// Joins the holders of the name in the calling thread's network namespace.
    ///
    /// # Errors
    /// As [`super::NameLock::take`]; [`crate::ErrorKind::Other`] while the last holder is ending.
    pub(crate) fn join(name: &str) -> Result<Self> {
        let folder = Folder::ready()?;
        let path = folder.path(&file_name(name)?);
        let failed = |call, errno| refused(call, &path, errno, folder::REMEDY);
        let _no_removal = folder.shared(PATIENCE)?;
        for _ in 0..TRIES {
            let file = folder
                .open(&path)
                .map_err(|error| failed("open", errno(&error)))?;
            match request(&file, libc::F_OFD_SETLK, libc::F_RDLCK) {
                Ok(_) if folder::is_at(&file, &path) => {
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
                // The last holder is ending, or has just removed the file.
                Ok(_) | Err(_) => std::thread::sleep(folder::PAUSE),
            }
        }
        Err(failed("fcntl(F_OFD_SETLK)", Errno(libc::EAGAIN)))
    }

    /// Returns the note of the first holder; empty if there is none.
    pub(crate) fn note(&self) -> String {
        let mut octets = [0; NOTE_MOST];
        let length = self.file.read_at(&mut octets, 0).unwrap_or(0);
        String::from_utf8_lossy(&octets[..length]).into_owned()
    }

    /// Leaves a note, in place of the one that is there.
    pub(crate) fn leave(&self, note: &str) -> Result<()> {
        let failed = |error| refused("write", &self.path, errno(&error), folder::REMEDY);
        self.file.set_len(0).map_err(failed)?;
        self.file.write_all_at(note.as_bytes(), 0).map_err(failed)
    }

    /// Leaves the holders. The last one calls `end` with the note before anybody can join again.
    pub(crate) fn leave_last(self, end: impl FnOnce(&str)) {
        let is_own = self.process == std::process::id();
        if is_own && request(&self.file, libc::F_OFD_SETLK, libc::F_WRLCK).is_ok() {
            end(&self.note());
            if folder::is_at(&self.file, &self.path) {
                let _ = std::fs::remove_file(&self.path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_holder_reads_what_the_first_noted() {
        let name = format!("shared-test-{}", std::process::id());
        let first = SharedName::join(&name).unwrap();
        assert_eq!(first.note(), "");
        first.leave("as it was").unwrap();
        let second = SharedName::join(&name).unwrap();
        first.leave_last(|_| panic!("there is another holder"));
        assert_eq!(second.note(), "as it was");
        let mut ended = false;
        second.leave_last(|note| ended = note == "as it was");
        assert!(ended);
        // The note has gone with its last holder.
        assert_eq!(SharedName::join(&name).unwrap().note(), "");
    }
}
