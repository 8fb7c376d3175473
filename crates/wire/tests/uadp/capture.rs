//! The messages of the captures, behind Ethernet or UDP headers, and what another decoder read in them.

use serde_json::Value;
use std::path::PathBuf;

pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures/uadp")
}

/// The names of all captures, in order.
pub(crate) fn names() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".pcap"))
        .collect();
    names.sort();
    assert!(names.len() >= 26, "{names:?}");
    names
}

/// The messages of a capture, in order.
pub(crate) fn messages(name: &str) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(folder().join(name)).unwrap();
    assert_eq!(bytes[..4], [0x4d, 0x3c, 0xb2, 0xa1], "nanosecond pcap");
    let mut messages = Vec::new();
    let mut at = 24;
    while at < bytes.len() {
        let octets = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
        messages.extend(message(&bytes[at + 16..at + 16 + octets]));
        at += 16 + octets;
    }
    assert!(!messages.is_empty(), "{name}");
    messages
}

/// The message in a frame, if there is one.
fn message(frame: &[u8]) -> Option<Vec<u8>> {
    let mut at = 12;
    if frame[at..at + 2] == [0x81, 0x00] {
        at += 4;
    }
    match frame[at..at + 2] {
        [0xb6, 0x2c] => Some(frame[at + 2..].to_vec()),
        [0x08, 0x00] => {
            let ip = at + 2;
            let udp = ip + usize::from(frame[ip] & 0x0f) * 4;
            if frame[ip + 9] != 17 {
                return None;
            }
            let octets = usize::from(u16::from_be_bytes([frame[udp + 4], frame[udp + 5]]));
            Some(frame[udp + 8..udp + octets].to_vec())
        }
        _ => None,
    }
}

/// Every message of every capture, with its capture's name.
pub(crate) fn all() -> Vec<(String, Vec<u8>)> {
    let of = |name: String| {
        let messages = messages(&name);
        messages
            .into_iter()
            .map(move |message| (name.clone(), message))
    };
    names().into_iter().flat_map(of).collect()
}

pub(crate) fn expected() -> Value {
    serde_json::from_slice(&std::fs::read(folder().join("expected.json")).unwrap()).unwrap()
}

pub(crate) fn from_hex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digit).collect()
}
