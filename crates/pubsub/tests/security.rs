//! Message security against recordings of another stack, and against every change of a message.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use proptest::prelude::*;
use rtwire_pubsub::security::{
    Algorithm, Key, KeyMaterial, NonceCounter, OpenFault, Opener, SECURITY_HEADER_BYTES,
    SIGNATURE_BYTES, SealFault, Sealer, SecurityMode, Source,
};

/// The key of `wire-sign` and `wire-enc`, as their note of origin states it.
fn material(token: u32) -> KeyMaterial {
    let signing: Vec<u8> = (0..0x20).collect();
    let encrypting: Vec<u8> = (0x40..0x50).collect();
    let nonce = [0xa0, 0xa1, 0xa2, 0xa3];
    KeyMaterial::new(Algorithm::Aes128Ctr, token, &signing, &encrypting, &nonce).unwrap()
}

fn key(token: u32) -> Key {
    Key::new(&material(token)).unwrap()
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

/// Returns the messages of a recording: what stands behind the Ethernet or UDP header.
fn messages(name: &str) -> Vec<Vec<u8>> {
    let path = format!(
        "{}/../../tests/captures/uadp/{name}",
        env!("CARGO_MANIFEST_DIR")
    );
    let bytes = std::fs::read(path).unwrap();
    let mut rest = &bytes[24..];
    let mut found = Vec::new();
    while rest.len() >= 16 {
        let length = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        let frame = &rest[16..16 + length];
        rest = &rest[16 + length..];
        let mut at = 12;
        if frame[at..at + 2] == [0x81, 0] {
            at += 4;
        }
        match frame[at..at + 2] {
            [0xb6, 0x2c] => found.push(frame[at + 2..].to_vec()),
            [0x08, 0x00] if frame[at + 2 + 9] == 17 => {
                let ip = usize::from(frame[at + 2] & 15) * 4;
                found.push(frame[at + 2 + ip + 8..].to_vec());
            }
            _ => {}
        }
    }
    found
}

/// The header of these recordings: flags, extended flags, UInt16 id, group header, payload header with one writer.
fn place(message: &[u8]) -> usize {
    let mut at = 2;
    if message[0] & 0x10 != 0 {
        at += [1, 2, 4, 8][usize::from(message[1] & 7)];
    }
    if message[0] & 0x20 != 0 {
        let group = message[at];
        at += 1 + [(1, 2), (2, 4), (4, 2), (8, 2)]
            .iter()
            .filter(|(bit, _)| group & bit != 0)
            .map(|(_, n)| n)
            .sum::<usize>();
    }
    if message[0] & 0x40 != 0 {
        at += 1 + 2 * usize::from(message[at]);
    }
    at
}

const SOURCE: Source = Source {
    publisher: 2234,
    writer_group: 100,
};

fn opener(mode: SecurityMode) -> Opener {
    let mut opener = Opener::new(mode);
    opener.add_key(key(7));
    opener
}

#[test]
fn the_golden_message_opens_and_seals_to_the_same_bytes() {
    let golden = hex(
        "f111ba080964000000014df40307000000081bc43b8001000000328d681d765b2386b50a3e4a418216b2a34e7e63b2802ba507fa8f306d76d265a62c4cc80b2d4283808978cbb09dc0",
    );
    let mut message = golden.clone();
    let at = place(&message);
    let mut opener = opener(SecurityMode::SignAndEncrypt);
    let opened = opener.open(&mut message, at, SOURCE).unwrap();
    assert_eq!(
        message[opened.payload..opened.end],
        hex("0b000000030201010302010303020 1".replace(' ', "").as_str())
    );
    // The same random bytes and number: the very same bytes leave.
    let mut nonces = NonceCounter::starting_at(1);
    nonces.reserve_until(10);
    let mut sealer = Sealer::new(key(7), [0x1b, 0xc4, 0x3b, 0x80], nonces);
    sealer
        .seal(SecurityMode::SignAndEncrypt, &mut message, at)
        .unwrap();
    assert_eq!(message, golden);
}

#[test]
fn recordings_of_another_stack_open() {
    for (name, mode, least) in [
        ("wire-sign.pcap", SecurityMode::Sign, 3),
        ("wire-enc.pcap", SecurityMode::SignAndEncrypt, 3),
    ] {
        let messages = messages(name);
        assert!(messages.len() >= least, "{name}");
        let mut lenient = opener(mode).accepting_repeated_nonces(true);
        let mut strict = opener(mode);
        let mut refused = 0;
        for message in &messages {
            let at = place(message);
            let mut copy = message.clone();
            let opened = lenient.open(&mut copy, at, SOURCE).unwrap();
            // DataSetFlags1: valid, RawData or Variant.
            assert_eq!(copy[opened.payload] & 1, 1, "{name}");
            refused += usize::from(strict.open(&mut message.clone(), at, SOURCE).is_err());
        }
        // That version of the other stack repeats its nonce; only the switch accepts that.
        assert_eq!(refused, messages.len() - 1, "{name}");
    }
}

#[test]
fn a_recording_with_keys_of_zeros_opens() {
    let material = KeyMaterial::new(Algorithm::Aes128Ctr, 1, &[0; 32], &[0; 16], &[0; 4]).unwrap();
    let mut opener = Opener::new(SecurityMode::SignAndEncrypt).accepting_repeated_nonces(true);
    opener.add_key(Key::new(&material).unwrap());
    let messages = messages("tut-enc.pcap");
    assert!(!messages.is_empty());
    for mut message in messages {
        let at = place(&message);
        opener.open(&mut message, at, SOURCE).unwrap();
    }
}

/// A message with room for security, whose header is 10 bytes long.
fn plain(payload: &[u8]) -> Vec<u8> {
    let mut message = vec![0x5a; 10 + SECURITY_HEADER_BYTES];
    message.extend_from_slice(payload);
    message.extend_from_slice(&[0; SIGNATURE_BYTES]);
    message
}

fn sealer(algorithm: Algorithm) -> (Sealer, KeyMaterial) {
    let encrypting = vec![7; algorithm.encrypting_bytes()];
    let material = KeyMaterial::new(algorithm, 9, &[3; 32], &encrypting, &[1; 4]).unwrap();
    let mut nonces = NonceCounter::starting_at(1);
    nonces.reserve_until(1 << 20);
    (
        Sealer::new(Key::new(&material).unwrap(), [1, 2, 3, 4], nonces),
        material,
    )
}

#[test]
fn a_change_of_any_bit_is_noticed() {
    for mode in [SecurityMode::Sign, SecurityMode::SignAndEncrypt] {
        let (mut sealer, material) = sealer(Algorithm::Aes256Ctr);
        let mut message = plain(b"ten fields");
        sealer.seal(mode, &mut message, 10).unwrap();
        for bit in 0..message.len() * 8 {
            let mut opener = Opener::new(mode);
            opener.add_key(Key::new(&material).unwrap());
            let mut changed = message.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let before = changed.clone();
            assert!(opener.open(&mut changed, 10, SOURCE).is_err(), "bit {bit}");
            assert_eq!(changed, before, "a refused message stays as it is");
        }
        for length in 0..message.len() {
            let mut opener = Opener::new(mode);
            opener.add_key(Key::new(&material).unwrap());
            let mut short = message[..length].to_vec();
            assert!(
                opener.open(&mut short, 10, SOURCE).is_err(),
                "{length} bytes"
            );
        }
    }
}

#[test]
fn a_signed_message_is_too_open_for_a_group_that_encrypts() {
    let (mut sealer, material) = sealer(Algorithm::Aes128Ctr);
    let mut message = plain(b"x");
    sealer.seal(SecurityMode::Sign, &mut message, 10).unwrap();
    let mut opener = Opener::new(SecurityMode::SignAndEncrypt);
    opener.add_key(Key::new(&material).unwrap());
    assert_eq!(
        opener.open(&mut message, 10, SOURCE),
        Err(OpenFault::TooOpen)
    );
}

#[test]
fn a_key_change_loses_no_message_and_the_old_key_ends() {
    let mut opener = Opener::new(SecurityMode::SignAndEncrypt);
    opener.add_key(key(7));
    opener.add_key(key(8));
    let mut nonces = NonceCounter::starting_at(1);
    nonces.reserve_until(1000);
    let mut sealer = Sealer::new(key(7), [0; 4], nonces);
    for number in 0..20 {
        if number == 10 {
            sealer.change_key(key(8), nonces);
        }
        let mut message = plain(&[number]);
        sealer
            .seal(SecurityMode::SignAndEncrypt, &mut message, 10)
            .unwrap();
        let opened = opener.open(&mut message, 10, SOURCE).unwrap();
        assert_eq!(message[opened.payload..opened.end], [number]);
        assert_eq!(opened.token, if number < 10 { 7 } else { 8 });
    }
    opener.keep_keys(&[8]);
    let mut late = plain(&[1]);
    Sealer::new(key(7), [9; 4], nonces)
        .seal(SecurityMode::SignAndEncrypt, &mut late, 10)
        .unwrap();
    assert_eq!(
        opener.open(&mut late, 10, SOURCE),
        Err(OpenFault::UnknownToken { token: 7 })
    );
}

#[test]
fn a_sealer_without_reserved_nonces_sends_nothing() {
    let mut sealer = Sealer::new(key(7), [0; 4], NonceCounter::starting_at(5));
    let mut message = plain(b"x");
    assert_eq!(
        sealer.seal(SecurityMode::Sign, &mut message, 10),
        Err(SealFault::NoNonce)
    );
    let mut last = NonceCounter::starting_at(1 << 32);
    last.reserve_until(1 << 33);
    sealer.change_key(key(7), last);
    assert_eq!(
        sealer.seal(SecurityMode::Sign, &mut message, 10),
        Err(SealFault::Exhausted { token: 7 })
    );
}

proptest! {
    /// Any content opens to itself, and a second time not at all.
    #[test]
    fn what_is_sealed_opens_once(payload in prop::collection::vec(any::<u8>(), 0..200), encrypt: bool, long: bool) {
        let algorithm = if long { Algorithm::Aes256Ctr } else { Algorithm::Aes128Ctr };
        let mode = if encrypt { SecurityMode::SignAndEncrypt } else { SecurityMode::Sign };
        let (mut sealer, material) = sealer(algorithm);
        let mut opener = Opener::new(mode);
        opener.add_key(Key::new(&material).unwrap());
        let mut message = plain(&payload);
        sealer.seal(mode, &mut message, 10).unwrap();
        let replay = message.clone();
        let opened = opener.open(&mut message, 10, SOURCE).unwrap();
        prop_assert_eq!(&message[opened.payload..opened.end], &payload[..]);
        prop_assert_eq!(opener.open(&mut replay.clone(), 10, SOURCE), Err(OpenFault::Replay));
    }

    /// No bytes at all make an opener panic.
    #[test]
    fn arbitrary_bytes_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..120), at in 0_usize..130) {
        let mut opener = opener(SecurityMode::Sign);
        prop_assert!(opener.open(&mut bytes, at, SOURCE).is_err());
    }
}
