//! Compiles the programs of `crates/bpf/programs/` with clang, for the kernel's BPF machine.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let sources = PathBuf::from(env("CARGO_MANIFEST_DIR")).join("programs");
    println!("cargo::rerun-if-changed={}", sources.display());
    println!("cargo::rerun-if-env-changed=CLANG");
    for name in [
        "agent",
        "powerlink",
        "pubsub",
        "receive",
        "strays",
        "switch",
    ] {
        compile(&sources, name, name, None);
    }
    // For drivers that tell a program the VLAN tags which they keep outside of frames.
    let asks = Some("-DRTW_ASKS_FOR_TAGS");
    compile(&sources, "pubsub", "pubsub_tags", asks);
    compile(&sources, "receive", "receive_tags", asks);
}

fn compile(sources: &Path, name: &str, object: &str, define: Option<&str>) {
    let source = format!("{name}.bpf.c");
    let object = PathBuf::from(env("OUT_DIR")).join(format!("{object}.bpf.o"));
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let mut command = Command::new(&clang);
    command
        .args([
            "-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror",
        ])
        .args(define)
        // The kernel's headers refer to one directory by machine (Debian's multiarch layout).
        .arg(format!(
            "-I/usr/include/{}-linux-gnu",
            env("CARGO_CFG_TARGET_ARCH")
        ))
        .arg("-c")
        .arg(sources.join(&source))
        .arg("-o")
        .arg(&object);
    if env("CARGO_CFG_TARGET_ARCH") == "x86_64" {
        command.arg("-DRTW_ORDERED_STORES");
    }
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("clang ended with {status} on {source}"),
        Err(error) => panic!(
            "cannot run `{clang}` to compile {source}: {error}\nhelp: install it (Debian: apt install clang), or name it in CLANG"
        ),
    }
}

fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name} for build scripts"))
}
