//! Programs that other parts call: found before they are needed, named when they are missing.

use std::path::PathBuf;

/// Returns the path of a program on the search path, also looking in `/usr/sbin` and `/sbin`.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
}
