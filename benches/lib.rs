//! The common part of the benchmarks of the whole product. Run them with `make bench-plan`, `bench-host`,
//! `bench-powerlink`, `bench-run`.

pub mod busy;
pub mod cyclictest;

use std::path::{Path, PathBuf};

/// The project's root folder.
#[must_use]
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Returns the path of the `rtwire` command that was built beside the running benchmark.
///
/// # Panics
/// The command is missing: `make build` builds it.
#[must_use]
pub fn rtwire() -> PathBuf {
    let beside = std::env::current_exe().ok().and_then(|own| {
        // A benchmark is in `release/deps`, the command in `release`.
        Some(own.parent()?.parent()?.join("rtwire"))
    });
    match beside {
        Some(path) if path.is_file() => path,
        _ => panic!("there is no `rtwire` beside this benchmark: run `make build` first"),
    }
}
