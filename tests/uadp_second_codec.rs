//! The codec of OPC UA PubSub against one of another make. The comparison is a package of its own (`tests/zerodds`), whose tests are
//! run here: the other codec wants Rust 1.88, and is for no part of the product.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod pubsub_common;

#[test]
fn another_codec_reads_and_writes_the_same_messages() {
    let (told, _) = pubsub_common::cargo_apart("test", "tests/zerodds", "zerodds");
    // It compared, and did not only build.
    let compared = "both_read_the_same_in_each_recorded_message ... ok";
    assert!(told.contains(compared), "{told}");
    print!("{told}");
}
