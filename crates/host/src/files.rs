//! The kernel's files, below a root that tests may put elsewhere.

use std::fs;
use std::path::{Path, PathBuf};

/// The files in `/proc`, `/sys` and `/dev`, below a root directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    root: PathBuf,
}

impl Default for Files {
    fn default() -> Self {
        Self::below("/")
    }
}

impl Files {
    /// Returns the files below `root`; `/` for this machine's own.
    #[must_use]
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns whether these are this machine's own files.
    #[must_use]
    pub fn are_real(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Returns a file's path below the root; `path` begins with a slash.
    #[must_use]
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Reads a file's text without white space around it; `None` if it is missing or not readable.
    #[must_use]
    pub fn read(&self, path: &str) -> Option<String> {
        let bytes = fs::read(self.path(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// Reads as [`Files::read`], but an empty text and the kernel's `(null)` count as none.
    #[must_use]
    pub fn said(&self, path: &str) -> Option<String> {
        self.read(path)
            .filter(|text| !text.is_empty() && text != "(null)")
    }

    /// Reads as [`Files::said`] what is mounted inside `/sys` or `/proc`. A network namespace's own view of `/sys` lacks that;
    /// then the first process's view has it.
    #[must_use]
    pub fn mounted(&self, path: &str) -> Option<String> {
        self.said(path)
            .or_else(|| self.said(&format!("/proc/1/root{path}")))
    }

    /// Reads a file that holds one number.
    #[must_use]
    pub fn number(&self, path: &str) -> Option<i64> {
        self.read(path)?.parse().ok()
    }

    /// Returns the names in a directory, sorted as text; empty if the directory is missing.
    #[must_use]
    pub fn list(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(path)) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .filter_map(Result::ok)
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// Returns whether a file or directory exists.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Returns the target of a symbolic link.
    #[must_use]
    pub fn link(&self, path: &str) -> Option<String> {
        fs::read_link(self.path(path))
            .ok()?
            .into_os_string()
            .into_string()
            .ok()
    }
}

/// Returns the numbers of a list as the kernel writes it: `0-2,5`. Stops at 4096, since the machine's owner may have
/// written the file.
#[must_use]
pub fn cpu_list(text: &str) -> Vec<u32> {
    const MOST: u32 = 4096;
    let mut found = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
            found.extend(first..=last.min(MOST));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        assert_eq!(cpu_list("0-2,5"), [0, 1, 2, 5]);
        assert_eq!(cpu_list(""), Vec::<u32>::new());
        assert_eq!(cpu_list("x,3"), [3]);
        assert_eq!(cpu_list("0-4294967295").len(), 4097);
    }
}
