//! The frames of a capture in pcap form.

use std::path::PathBuf;

pub(crate) fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/captures/powerlink/boot-three-nodes.pcap")
}

/// The frames, in order.
pub(crate) fn frames() -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path()).unwrap();
    assert_eq!(bytes[..4], [0x4d, 0x3c, 0xb2, 0xa1], "nanosecond pcap");
    let mut frames = Vec::new();
    let mut at = 24;
    while at < bytes.len() {
        let octets = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
        frames.push(bytes[at + 16..at + 16 + octets].to_vec());
        at += 16 + octets;
    }
    frames
}
