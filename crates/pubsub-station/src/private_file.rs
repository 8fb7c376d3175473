//! Files with secrets: read only where nobody else may read or own them, and replaced as a whole.

use crate::StationError;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::SystemTime;

/// Permissions of group and others.
const FOR_OTHERS: u32 = 0o077;

/// Returns a file's bytes and the time of its last change.
///
/// # Errors
/// The file cannot be read, or others may read or own it.
pub(crate) fn read(path: &Path) -> Result<(Vec<u8>, Option<SystemTime>), StationError> {
    let failed = |source| StationError::Read {
        path: path.to_owned(),
        source,
    };
    let mut file = File::open(path).map_err(failed)?;
    let facts = file.metadata().map_err(failed)?;
    let mode = facts.mode() & 0o777;
    if mode & FOR_OTHERS != 0 {
        return Err(StationError::OpenKeys {
            path: path.to_owned(),
            mode,
        });
    }
    let uid = facts.uid();
    if uid != 0 && uid != rustix::process::geteuid().as_raw() {
        return Err(StationError::KeyOwner {
            path: path.to_owned(),
            uid,
        });
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(failed)?;
    Ok((bytes, facts.modified().ok()))
}

/// Replaces a file: the new text is on the disk, for its owner only, before the name leads to it.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    // What a run that was ended has left: its mode may be another one.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = File::options();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
