//! The file of evidence: incomplete under a name that says so, whole under its own.
//!
//! While a run goes on, its evidence is `FILE.part`. Its data are on the disk at most some seconds later. At the end it gets its
//! own name. So a machine that loses power leaves the beginning, recognisable, and the evidence of the run before is not
//! lost. A `FILE.part` that is found is kept as `FILE.part.old`: a service that starts again does not destroy what the
//! crash left.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// An open file of evidence.
#[derive(Debug)]
pub(super) struct Part {
    file: File,
    /// The name until the end, and the name from then on. `None`: a device or pipe, which is written directly.
    names: Option<(PathBuf, PathBuf)>,
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

impl Part {
    /// Creates the file.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        if path.is_dir() {
            return Err(io::Error::new(
                io::ErrorKind::IsADirectory,
                "it is a directory",
            ));
        }
        if path.exists() && !path.is_file() {
            let file = OpenOptions::new().write(true).open(path)?;
            return Ok(Self { file, names: None });
        }
        let part = with_ending(path, ".part");
        if part.exists() {
            fs::rename(&part, with_ending(path, ".part.old"))?;
        }
        Ok(Self {
            file: File::create_new(&part)?,
            names: Some((part, path.to_owned())),
        })
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Waits until what was written is on the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        match self.names {
            Some(_) => self.file.sync_data(),
            None => Ok(()),
        }
    }

    /// Ends the file: it has its own name from now on.
    pub(super) fn finish(self) -> io::Result<()> {
        let Some((part, own)) = self.names else {
            return Ok(());
        };
        self.file.sync_all()?;
        fs::rename(&part, &own)?;
        let folder = match own.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        File::open(folder)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_name_only_when_it_is_whole_and_a_crash_s_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.evidence");
        let mut crashed = Part::create(&path).unwrap();
        crashed.append(b"crashed").unwrap();
        drop(crashed);
        assert!(!path.exists());
        let mut part = Part::create(&path).unwrap();
        part.append(b"whole").unwrap();
        part.sync().unwrap();
        assert!(!path.exists());
        part.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        let old = folder.path().join("a.evidence.part.old");
        assert_eq!(fs::read(old).unwrap(), b"crashed");
        assert!(!folder.path().join("a.evidence.part").exists());
        // A device is written directly, and nothing is made beside it.
        let mut full = Part::create(Path::new("/dev/full")).unwrap();
        assert!(full.append(b"x").is_err());
        assert!(!Path::new("/dev/full.part").exists());
        assert!(Part::create(folder.path()).is_err());
    }
}
