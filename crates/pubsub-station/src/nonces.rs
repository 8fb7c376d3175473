//! The file of used nonces: what a publisher may use is written there before it is used.

use crate::{StationError, private_file};
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The first line.
const TITLE: &str = "rtwire pubsub nonces 1";

/// The numbers that all runs so far have reserved, for each key by its fingerprint.
#[derive(Debug)]
pub struct NonceFile {
    path: PathBuf,
    ends: BTreeMap<u64, u64>,
    /// Held while this value lives, so that no two publishers use one file.
    _lock: File,
}

impl NonceFile {
    /// Opens the file, which is made where there is none.
    ///
    /// # Errors
    /// Another publisher uses it; it is damaged; it cannot be read or written.
    pub fn open(path: &Path) -> Result<Self, StationError> {
        let write = |source| StationError::Write {
            path: path.to_owned(),
            source,
        };
        let mut beside = path.as_os_str().to_owned();
        beside.push(".lock");
        let lock = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&beside);
        let lock = lock.map_err(write)?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(StationError::NoncesInUse {
                path: path.to_owned(),
            });
        }
        let ends = match fs::read_to_string(path) {
            Ok(text) => parse(&text).ok_or_else(|| StationError::Nonces {
                path: path.to_owned(),
            })?,
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
            Err(source) => {
                return Err(StationError::Read {
                    path: path.to_owned(),
                    source,
                });
            }
        };
        Ok(Self {
            path: path.to_owned(),
            ends,
            _lock: lock,
        })
    }

    /// Returns the first number of a key that no run has reserved.
    #[must_use]
    pub fn next(&self, fingerprint: u64) -> u64 {
        self.ends.get(&fingerprint).copied().unwrap_or(1)
    }

    /// Reserves all numbers of a key below `end`, on the disk.
    ///
    /// # Errors
    /// The file cannot be written. Nothing is reserved then.
    pub fn reserve(&mut self, fingerprint: u64, end: u64) -> Result<(), StationError> {
        let mut ends = self.ends.clone();
        let place = ends.entry(fingerprint).or_insert(1);
        *place = end.max(*place);
        let mut text = format!("{TITLE}\n");
        for (fingerprint, end) in &ends {
            let _ = writeln!(text, "{fingerprint:016x} {end}");
        }
        private_file::replace(&self.path, &text).map_err(|source| StationError::Write {
            path: self.path.clone(),
            source,
        })?;
        self.ends = ends;
        Ok(())
    }
}

fn parse(text: &str) -> Option<BTreeMap<u64, u64>> {
    let mut lines = text.lines();
    if lines.next() != Some(TITLE) || !text.ends_with('\n') {
        return None;
    }
    lines
        .map(|line| {
            let (fingerprint, end) = line.split_once(' ')?;
            Some((
                u64::from_str_radix(fingerprint, 16).ok()?,
                end.parse().ok()?,
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_reserved_stays_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.nonces");
        let mut file = NonceFile::open(&path).unwrap();
        assert_eq!(file.next(5), 1);
        file.reserve(5, 1000).unwrap();
        file.reserve(6, 70).unwrap();
        file.reserve(5, 10).unwrap();
        assert!(matches!(
            NonceFile::open(&path),
            Err(StationError::NoncesInUse { .. })
        ));
        drop(file);
        let file = NonceFile::open(&path).unwrap();
        assert_eq!((file.next(5), file.next(6), file.next(7)), (1000, 70, 1));
        drop(file);
        // A damaged file is not taken for an empty one.
        for text in [
            "",
            "x",
            "rtwire pubsub nonces 1\n0000000000000005 1",
            "rtwire pubsub nonces 1\n5\n",
        ] {
            fs::write(&path, text).unwrap();
            assert!(
                matches!(NonceFile::open(&path), Err(StationError::Nonces { .. })),
                "{text:?}"
            );
        }
    }
}
