//! The common part of the benchmarks of the whole product. Run them with `make bench-plan`, `bench-host`,
//! `bench-powerlink`, `bench-run`.

pub mod busy;
pub mod cyclictest;

use std::path::{Path, PathBuf};
use std::process::Command;

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

/// Returns a command that runs a program in a network namespace, by `nsenter`, which becomes the program: its process id is the
/// program's. The caller adds the program and its arguments.
#[must_use]
pub fn within(namespace: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{namespace}"));
    command
}

/// Compiles a program in C into a folder. `file` is its source beside this one (`run/bare.c`), `text` what stands in it.
///
/// # Panics
/// There is no compiler, or it refuses the program.
#[must_use]
pub fn compiled(folder: &Path, file: &str, text: &str) -> PathBuf {
    let (source, program) = (folder.join("program.c"), folder.join("program"));
    let status = std::fs::write(&source, text).and_then(|()| {
        Command::new("cc")
            .args(["-O2", "-Wall", "-o"])
            .args([&program, &source])
            .status()
    });
    assert!(
        status.is_ok_and(|status| status.success()),
        "cc compiles benches/{file}: `scripts/setup bench` installs it"
    );
    program
}
