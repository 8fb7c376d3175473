//! The recordings of a third implementation, open62541: both codecs read the same in each message.

use crate::{capture, emitted, read_by_them, read_by_us};
use rtwire_wire::uadp::NetworkMessage;
use zerodds_opcua_pubsub::uadp::NetworkMessage as TheirMessage;
use zerodds_opcua_pubsub::{from_binary, to_binary};

/// The recordings that the other codec does not decode, with what it says. Secured ones are compared in `security.rs`.
const NOT_DECODED: &[(&str, &str)] = &[
    ("tut-enc.pcap", "secured"),
    ("wire-enc.pcap", "secured"),
    // `Form::Heartbeat`: there is no FieldCount to read.
    ("wire-heartb.pcap", "unexpected end"),
    ("wire-sign.pcap", "secured"),
];

/// The recordings that the other codec reads, and writes in other octets: they have type bits of a PublisherId that is not sent. Its
/// types do not keep those, and the standard wants none (Part 14, 7.2.4.4.2).
const WRITTEN_OTHERWISE: &[&str] = &["wire-nomask.pcap"];

#[test]
fn both_read_the_same_in_each_recorded_message() {
    let mut compared = 0;
    for name in capture::names() {
        let refusal = NOT_DECODED.iter().find(|(listed, _)| *listed == name);
        for (number, bytes) in capture::messages(&name).iter().enumerate() {
            match (read_by_them(bytes), refusal) {
                (Ok(theirs), None) => {
                    let ours = read_by_us(bytes).unwrap();
                    assert_eq!(ours.difference(&theirs), None, "{name}, message {number}");
                    compared += 1;
                }
                (Err(error), Some((_, told))) => assert!(error.contains(told), "{name}: {error}"),
                (Ok(_), Some(_)) => panic!("{name} is decoded now: take it off the list"),
                (Err(error), None) => panic!("{name}, message {number}: {error}"),
            }
        }
    }
    println!("{compared} recorded messages are read alike");
    assert!(compared > 100, "{compared}");
}

#[test]
fn they_write_what_was_recorded() {
    let (mut refused, mut otherwise) = (Vec::new(), Vec::new());
    for name in capture::names() {
        for bytes in capture::messages(&name) {
            let ours = emitted(&NetworkMessage::parse(&bytes, 32).unwrap());
            // Ethernet pads short messages: neither writes the padding.
            assert!(bytes.starts_with(&ours), "{name}");
            match from_binary::<TheirMessage>(&bytes) {
                Ok(theirs) if to_binary(&theirs).unwrap() == ours => {}
                Ok(_) => otherwise.push(name.clone()),
                Err(_) => refused.push(name.clone()),
            }
        }
    }
    refused.dedup();
    otherwise.dedup();
    let listed: Vec<&str> = NOT_DECODED.iter().map(|(name, _)| *name).collect();
    assert_eq!(refused, listed);
    assert_eq!(otherwise, WRITTEN_OTHERWISE);
}
