//! What does a test need? Named capabilities, and pairs of network namespaces; only ever a dev-dependency.
//!
//! ```no_run
//! use rtwire_testkit::{NetnsPair, require};
//!
//! # fn test() {
//! require!(root, program "ip");
//! let pair = NetnsPair::new();
//! let index = pair.a.run(|| std::fs::read_to_string("/proc/net/dev"));
//! # }
//! ```
//!
//! A missing ability *fails* a test, with its name. If `RTWIRE_TEST_ALLOW_SKIP` lists that name (separated by
//! commas), the test is skipped instead. The skip is printed to standard error, and added to the file that
//! `RTWIRE_TEST_SKIP_LOG` names, so that the runner can count.
// A test may panic where an ability is missing: that is this crate's purpose.
#![allow(clippy::missing_panics_doc, clippy::expect_used)]

mod apart;
mod foreign;
pub mod layout;
mod netns;
mod process;
mod slower;
mod star;

pub use apart::Apart;
pub use foreign::{TAG_BESIDE, foreign_bpf, foreign_xdp};
pub use netns::{NetnsPair, Side, cards, have_bpf_names, ip, tc, try_tc};
pub use process::{Signal, catches};
pub use rtwire_sys::counting::{CountingAllocator, allocations};
use rtwire_sys::lacking;
pub use slower::{SLOWER, slowed};
pub use star::Star;
use std::io::Write;
use std::path::Path;
use std::thread;

/// Runs `work` on a thread for which, and for whose children, the kernel has no BPF. Returns the result of `work`,
/// and continues a panic in it.
pub fn without_bpf<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let handle = scope.spawn(|| {
            lacking::refuse(lacking::BPF).expect("the kernel has seccomp filters");
            work()
        });
        handle
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Continues only if every named ability is there. Else it fails the test, or returns from it if skipping is allowed.
///
/// Takes `root`, `program "NAME"`, `kernel "/proc or /sys path"`, separated by commas.
#[macro_export]
macro_rules! require {
    ($($kind:ident $($name:literal)?),+ $(,)?) => {
        $(if !$crate::require_one(stringify!($kind), [$($name,)? ""][0]) {
            return;
        })+
    };
}

/// Checks one requirement of [`require!`]; true if the test may continue.
#[must_use]
pub fn require_one(kind: &str, name: &str) -> bool {
    match kind {
        "root" => require_root(),
        "program" => require_program(name),
        "kernel" => require_kernel(name),
        other => panic!("unknown requirement `{other}`"),
    }
}

/// True if the test may continue: the effective user is root.
#[must_use]
pub fn require_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))
        .and_then(|line| line.split_whitespace().nth(1));
    have(
        effective == Some("0"),
        "root",
        "run the tests as root: they make network namespaces",
    )
}

/// True if the test may continue: `name` is found in `PATH`.
#[must_use]
pub fn require_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin"].map(Into::into);
    let found = std::env::split_paths(&path)
        .chain(usual)
        .any(|folder| folder.join(name).is_file());
    have(found, name, "install the program")
}

/// True if the test may continue: the kernel shows `path`.
#[must_use]
pub fn require_kernel(path: &str) -> bool {
    have(Path::new(path).exists(), path, "this kernel lacks it")
}

/// True if the running kernel is of this release or later. For tests of what depends on it: both outcomes are then asserted.
#[must_use]
pub fn kernel_at_least(major: u32, minor: u32) -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(major), Some(minor))
}

fn have(there: bool, name: &str, remedy: &str) -> bool {
    if there {
        return true;
    }
    let allowed = std::env::var("RTWIRE_TEST_ALLOW_SKIP").unwrap_or_default();
    if !allowed.split(',').any(|entry| entry.trim() == name) {
        panic!("this test needs `{name}`: {remedy}; or skip it with RTWIRE_TEST_ALLOW_SKIP={name}");
    }
    let test = std::thread::current().name().unwrap_or("?").to_owned();
    let line = format!("SKIPPED {test}: `{name}` is missing");
    eprintln!("{line}");
    if let Some(log) = std::env::var_os("RTWIRE_TEST_SKIP_LOG") {
        let file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(log);
        if let Ok(mut file) = file {
            let _ = writeln!(file, "{line}");
        }
    }
    false
}
