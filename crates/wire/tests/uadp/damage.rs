//! Damaged messages: cut at each length, mutated, and with octets behind them.

use super::capture::all;
use rtwire_wire::uadp::*;

/// Looks at a message in every way. No way may panic, and no field may lie outside.
fn look(bytes: &[u8]) -> Result<NetworkMessage<'_>, UadpError> {
    let mut faults = 0;
    View::new(bytes).walk(&mut |seen| match seen {
        Seen::Field(field) => assert!(field.at + field.octets <= bytes.len(), "{field:?}"),
        Seen::Fault(fault) => {
            assert!(fault.at().unwrap() <= bytes.len(), "{fault:?}");
            faults += 1;
        }
    });
    let strict = NetworkMessage::parse(bytes, SIGNATURE_OCTETS);
    assert!(strict.is_ok() || faults > 0, "{bytes:02x?}: {strict:?}");
    strict
}

/// A message is read as the same after it was written.
fn law(message: NetworkMessage<'_>, bytes: &[u8]) {
    // Padding and null lengths other than -1 can be written in other octets.
    let mut again = vec![0; bytes.len() + 64];
    let octets = match message.emit(&mut again) {
        Ok(octets) => octets,
        Err(error) => panic!("{bytes:02x?}: what was read cannot be written: {error}"),
    };
    assert_eq!(
        NetworkMessage::parse(&again[..octets], SIGNATURE_OCTETS),
        Ok(message),
        "{bytes:02x?}"
    );
}

#[test]
fn each_message_cut_at_each_length() {
    let mut refused = 0;
    for (name, bytes) in all() {
        let whole = NetworkMessage::parse(&bytes, SIGNATURE_OCTETS).unwrap();
        for octets in 0..bytes.len() {
            match look(&bytes[..octets]) {
                Ok(cut) => {
                    // Only what says nothing about its length can be cut without notice: RawData, and what is
                    // encrypted and signed; and a key frame's header, which is a heartbeat.
                    assert_ne!(cut, whole, "{name}, {octets}");
                    let open = match cut.body {
                        Body::Encrypted(_) => true,
                        Body::DataSets(messages) => messages.iter().any(|message| {
                            matches!(message.content, Content::RawData(_) | Content::Heartbeat(_))
                        }),
                        _ => false,
                    };
                    assert!(open, "{name}, cut to {octets}: {cut:?}");
                    law(cut, &bytes[..octets]);
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn octets_behind_a_message_are_found_unless_zero() {
    for (name, bytes) in all() {
        let whole = NetworkMessage::parse(&bytes, SIGNATURE_OCTETS).unwrap();
        let Body::DataSets(messages) = whole.body else {
            continue;
        };
        let closed = whole.header.writers.is_some()
            && !whole
                .header
                .security
                .is_some_and(|security| security.signed)
            && messages.iter().all(|message| {
                !matches!(message.content, Content::RawData(_) | Content::Heartbeat(_))
            });
        if !closed {
            continue;
        }
        let mut longer = bytes.clone();
        longer.extend([0; 9]);
        assert_eq!(look(&longer), Ok(whole), "{name}");
        longer[bytes.len() + 3] = 1;
        let expected = UadpError::Trailing {
            at: bytes.len() + 3,
            octets: 6,
        };
        assert_eq!(look(&longer), Err(expected), "{name}");
    }
}

/// A million mutants of the recorded messages in an optimized build; fewer without optimization.
#[test]
fn mutated_messages() {
    let messages = all();
    let rounds = if cfg!(debug_assertions) {
        60_000
    } else {
        1_000_000
    };
    // xorshift64*: the same mutants in every run.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % below
    };
    let (mut accepted, mut refused) = (0, 0);
    let mut mutant = Vec::new();
    for _ in 0..rounds {
        mutant.clear();
        mutant.extend_from_slice(&messages[random(messages.len())].1);
        for _ in 0..1 + random(4) {
            let at = random(mutant.len());
            match random(6) {
                0 => mutant[at] ^= 1 << random(8),
                1 => mutant[at] = random(256) as u8,
                2 => mutant[at] = [0, 0xff, 0x7f, 0x80][random(4)],
                3 => mutant.truncate(at.max(1)),
                4 => mutant.insert(at, random(256) as u8),
                _ => mutant.extend_from_within(at..),
            }
        }
        match look(&mutant) {
            Ok(message) => {
                accepted += 1;
                law(message, &mutant);
            }
            Err(_) => refused += 1,
        }
    }
    assert!(
        accepted > rounds / 100 && refused > rounds / 100,
        "{accepted}, {refused}"
    );
}

#[test]
fn padding_within_the_told_size_is_zero() {
    let bytes = &super::capture::messages("wire-multi3.pcap")[0];
    let whole = NetworkMessage::parse(bytes, 0).unwrap();
    // The first message has 15 octets from offset 22 on; its size is at 16. A publisher may pad it to a ConfiguredSize.
    let mut padded = bytes.clone();
    padded[16] += 2;
    padded.splice(37..37, [0, 0]);
    assert_eq!(look(&padded), Ok(whole));
    padded[38] = 1;
    assert_eq!(
        look(&padded),
        Err(UadpError::Trailing { at: 38, octets: 1 })
    );
    // A size beyond the end.
    let mut long = bytes.clone();
    long[20] += 1;
    let expected = UadpError::Length {
        what: "the size of a DataSetMessage",
        at: 20,
        told: 16,
        most: 15,
    };
    assert_eq!(look(&long), Err(expected));
}
