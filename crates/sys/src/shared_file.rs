//! A file in memory that several programs share, as 64-bit words.

use std::fs::File;
use std::io;
use std::sync::atomic::AtomicU64;

use crate::words::MappedWords;

/// The first words of a file, mapped and shared with every program that maps the same file.
///
/// Touch it before a real-time loop: the first access to a page costs a fault.
pub struct SharedFile(MappedWords);

impl std::fmt::Debug for SharedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedFile({} words)", self.words().len())
    }
}

impl SharedFile {
    /// Maps the first `count` words of a file, which is made as long where it is shorter.
    ///
    /// Another program that cuts the file short makes the next access end this process (SIGBUS): map only files of
    /// programs that you trust.
    ///
    /// # Errors
    /// The file cannot be made long enough or mapped; `count` is 0.
    pub fn map(file: File, count: usize) -> io::Result<Self> {
        let length = (count as u64).saturating_mul(size_of::<u64>() as u64);
        if file.metadata()?.len() < length {
            file.set_len(length)?;
        }
        MappedWords::map(file.into(), count).map(Self)
    }

    /// The words. No system call; fit for a real-time loop.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        self.0.words()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn two_mappings_of_one_file_are_one_memory() {
        let path = std::env::temp_dir().join(format!("rtwire-shared-{}", std::process::id()));
        let open = || {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(false);
            options.open(&path).unwrap()
        };
        let (one, two) = (
            SharedFile::map(open(), 16).unwrap(),
            SharedFile::map(open(), 16).unwrap(),
        );
        one.words()[15].store(7, Ordering::Release);
        assert_eq!(two.words()[15].load(Ordering::Acquire), 7);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 128);
        assert!(SharedFile::map(open(), 0).is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
