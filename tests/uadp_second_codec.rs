//! The codec of OPC UA PubSub against one of another make. The comparison is a package of its own (`tests/zerodds`), whose tests are
//! run here: the other codec wants Rust 1.88, and is for no part of the product.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::PathBuf;
use std::process::Command;

#[test]
fn another_codec_reads_and_writes_the_same_messages() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(env!("CARGO"))
        .args(["test", "--locked", "--manifest-path"])
        .arg(root.join("tests/zerodds/Cargo.toml"))
        .arg("--target-dir")
        .arg(root.join("target/zerodds"))
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}\n{errors}");
    // It compared, and did not only build.
    let compared = "both_read_the_same_in_each_recorded_message ... ok";
    assert!(told.contains(compared), "{told}");
    print!("{told}");
}
