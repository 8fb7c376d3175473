//! The names that this process holds. It knows them by itself, also where somebody has removed their files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The files of the names, each with the process that took it: a forked process has a copy of this set and holds nothing.
static HELD: Mutex<BTreeSet<(u32, PathBuf)>> = Mutex::new(BTreeSet::new());

fn held() -> MutexGuard<'static, BTreeSet<(u32, PathBuf)>> {
    // The set is consistent between any two statements that could panic.
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn entry(path: &Path) -> (u32, PathBuf) {
    (std::process::id(), path.to_owned())
}

/// Adds a name; returns false if this process holds it already.
pub(super) fn add(path: &Path) -> bool {
    held().insert(entry(path))
}

pub(super) fn remove(path: &Path) {
    held().remove(&entry(path));
}

/// Returns true if this process holds the name.
pub(super) fn has(path: &Path) -> bool {
    held().contains(&entry(path))
}
