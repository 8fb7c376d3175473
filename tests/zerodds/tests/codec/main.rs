//! Two codecs of OPC UA PubSub and one message: recorded, random, secured, damaged.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

// The recordings and the random messages are those of our codec's own tests.
#[path = "../../../../crates/wire/tests/uadp/capture.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod capture;
#[path = "../../../../crates/wire/tests/uadp/messages.rs"]
mod messages;

mod damage;
mod discovery;
mod random;
mod raw_data;
mod recorded;
mod security;
mod their_messages;

use rtwire_wire::uadp::NetworkMessage;
use rtwire_zerodds::{Reading, ours, theirs};
use zerodds_opcua_pubsub::from_binary;
use zerodds_opcua_pubsub::uadp::NetworkMessage as TheirMessage;

/// Returns what the other codec reads.
fn read_by_them(bytes: &[u8]) -> Result<Reading, String> {
    let message: Result<TheirMessage, _> = from_binary(bytes);
    message
        .map(|message| theirs::reading(&message))
        .map_err(|error| error.to_string())
}

/// Returns what our codec reads in a message without a signature.
fn read_by_us(bytes: &[u8]) -> Result<Reading, String> {
    NetworkMessage::parse(bytes, 0)
        .map(|message| ours::reading(&message))
        .map_err(|error| error.to_string())
}

/// Returns the octets that our codec writes.
fn emitted(message: &NetworkMessage<'_>) -> Vec<u8> {
    let mut bytes = vec![0; 65536];
    let octets = message.emit(&mut bytes).unwrap();
    bytes.truncate(octets);
    bytes
}
