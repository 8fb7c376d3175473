//! Signed and encrypted messages: the same key and nonce make the same octets in both codecs.
//!
//! One difference is known. The block counter of AES-CTR starts with 1 (Part 14, 7.2.4.4.3.2). The other codec starts with 0, so
//! neither can decrypt the other's messages; open62541 starts with 1. All behind the first block of 16 octets has to be the same
//! key stream, one block apart: [`their_cipher`] encrypts a block first that nobody needs, and is at 1 behind it.

use crate::{capture, emitted, their_messages};
use proptest::prelude::*;
use rtwire_pubsub::security::{
    Algorithm, Key, KeyMaterial, NonceCounter, Opener, SECURITY_HEADER_BYTES, SIGNATURE_BYTES,
    Sealer, SecurityMode, Source,
};
use rtwire_wire::uadp::{Body, Header, NetworkMessage};
use rtwire_zerodds::{ours, theirs};
use zerodds_opcua_pubsub::security::{
    SecurityError, SecurityKey, SecurityKeyService, SecurityPolicy, protect, unprotect,
};
use zerodds_opcua_pubsub::uadp::{
    DataSetData, DataSetMessage as TheirDataSet, NetworkMessage as TheirMessage,
};

const SOURCE: Source = Source {
    publisher: 1,
    writer_group: 1,
};

/// One key as both codecs take it.
struct Both {
    ours: Key,
    theirs: SecurityKey,
    policy: SecurityPolicy,
}

impl Both {
    fn new(algorithm: Algorithm, token: u32, secret: &[u8]) -> Self {
        let policy = match algorithm {
            Algorithm::Aes128Ctr => SecurityPolicy::Aes128Ctr,
            Algorithm::Aes256Ctr => SecurityPolicy::Aes256Ctr,
        };
        let row = &secret[..32 + algorithm.encrypting_bytes() + 4];
        let material = KeyMaterial::from_row(algorithm, token, row).unwrap();
        Self {
            ours: Key::new(&material).unwrap(),
            theirs: SecurityKey::from_blob(policy, token, row).unwrap(),
            policy,
        }
    }

    /// The key of `wire-sign` and `wire-enc`, as their note of origin states it.
    fn recorded() -> Self {
        let secret: Vec<u8> = (0..0x20).chain(0x40..0x50).chain(0xa0..0xa4).collect();
        Self::new(Algorithm::Aes128Ctr, 7, &secret)
    }

    fn unprotect(&self, bytes: &[u8]) -> Result<TheirMessage, SecurityError> {
        let service = SecurityKeyService::new(self.policy, "group", self.theirs.clone());
        unprotect(bytes, self.policy, &service)
    }

    fn protect(&self, message: &TheirMessage, nonce: &[u8], encrypt: bool) -> Vec<u8> {
        protect(message, self.policy, &self.theirs, nonce, encrypt).unwrap()
    }

    /// Encrypts or decrypts with the other codec's key stream from its second block on.
    fn their_cipher(&self, nonce: &[u8], data: &[u8]) -> Vec<u8> {
        // A message of flags, 15 zeros, which fill the first block, and the data. There is nothing else in its payload.
        let mut raw = TheirDataSet::key_frame_variant(0, Vec::new());
        raw.data = DataSetData::Raw([&[0; 15], data].concat());
        let mut message = TheirMessage::with_messages(vec![raw]);
        message.payload_header = false;
        let bytes = self.protect(&message, nonce, true);
        let end = bytes.len() - SIGNATURE_BYTES;
        bytes[end - data.len()..end].to_vec()
    }

    /// Seals a message of ours: `bytes` has room for the security header at `at`, and for the signature at its end.
    fn seal(&self, bytes: &mut [u8], at: usize, nonce: (&[u8; 4], u32), mode: SecurityMode) {
        let mut nonces = NonceCounter::starting_at(nonce.1.into());
        nonces.reserve_until(u64::from(nonce.1) + 1);
        let mut sealer = Sealer::new(self.ours.clone(), *nonce.0, nonces);
        sealer.seal(mode, bytes, at).unwrap();
    }

    /// Verifies and decrypts in place; false if the message is refused.
    fn open(&self, bytes: &mut [u8], mode: SecurityMode) -> bool {
        let Ok((_, payload)) = Header::parse(bytes) else {
            return false;
        };
        let mut opener = Opener::new(mode);
        opener.add_key(self.ours.clone());
        let opened = opener.open(bytes, payload - SECURITY_HEADER_BYTES, SOURCE);
        opened.is_ok()
    }
}

#[test]
fn recorded_signatures_are_good_in_both() {
    let key = Both::recorded();
    for bytes in capture::messages("wire-sign.pcap") {
        let ours = NetworkMessage::parse(&bytes, SIGNATURE_BYTES).unwrap();
        let theirs = key.unprotect(&bytes).unwrap();
        assert_eq!(
            ours::reading(&ours).difference(&theirs::reading(&theirs)),
            None
        );
        assert!(key.open(&mut bytes.clone(), SecurityMode::Sign));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(key.unprotect(&changed).is_err(), "octet {at}");
        }
    }
}

#[test]
fn recorded_messages_are_decrypted_alike() {
    let zeros = Both::new(Algorithm::Aes128Ctr, 1, &[0; 52]);
    for (name, key) in [("wire-enc.pcap", Both::recorded()), ("tut-enc.pcap", zeros)] {
        for bytes in capture::messages(name) {
            let (header, payload) = Header::parse(&bytes).unwrap();
            let nonce = header.security.unwrap().nonce;
            let end = bytes.len() - SIGNATURE_BYTES;
            let mut opened = bytes.clone();
            assert!(
                key.open(&mut opened, SecurityMode::SignAndEncrypt),
                "{name}"
            );
            let theirs = key.their_cipher(nonce, &bytes[payload..end]);
            assert_eq!(opened[payload..end], theirs, "{name}");
            // Its own decoder starts with the other counter: it finds the signature good, and reads something else.
            let body = Body::parse(&header, &opened[payload..end], payload).unwrap();
            let ours = ours::reading(&NetworkMessage::new(header, body));
            let theirs = key.unprotect(&bytes);
            assert_ne!(theirs, Err(SecurityError::SignatureMismatch), "{name}");
            let theirs = theirs.map(|message| theirs::reading(&message));
            assert_ne!(theirs, Ok(ours), "{name} is decrypted now");
        }
    }
}

fn algorithm() -> impl Strategy<Value = Algorithm> {
    prop_oneof![Just(Algorithm::Aes128Ctr), Just(Algorithm::Aes256Ctr)]
}

proptest! {
    #[test]
    fn both_seal_a_message_in_the_same_octets(
        message in their_messages::message(),
        algorithm in algorithm(),
        secret in any::<[[u8; 17]; 4]>(),
        (token, random, number) in (1..u32::MAX, any::<[u8; 4]>(), 1..u32::MAX),
        changed in any::<prop::sample::Index>(),
    ) {
        let key = Both::new(algorithm, token, secret.as_flattened());
        let nonce = [random, number.to_le_bytes()].concat();
        let signed = key.protect(&message, &nonce, false);
        // Ours from the same content: the security header and the signature are written anew.
        let payload = Header::parse(&signed).unwrap().1;
        let at = payload - SECURITY_HEADER_BYTES;
        let end = signed.len() - SIGNATURE_BYTES;
        let mut ours = signed.clone();
        ours[at..payload].fill(0);
        ours[end..].fill(0);
        let blank = ours.clone();
        key.seal(&mut ours, at, (&random, number), SecurityMode::Sign);
        prop_assert_eq!(&ours, &signed);
        // Each opens what is signed, and notices a changed bit.
        prop_assert!(key.open(&mut ours, SecurityMode::Sign));
        let parsed = NetworkMessage::parse(&signed, SIGNATURE_BYTES).unwrap();
        prop_assert_eq!(ours::reading(&parsed).difference(&theirs::reading(&message)), None);
        prop_assert_eq!(emitted(&parsed), signed.clone());
        let mut broken = signed.clone();
        broken[changed.index(signed.len() - at) + at] ^= 0x10;
        prop_assert!(!key.open(&mut broken.clone(), SecurityMode::Sign));
        prop_assert!(key.unprotect(&broken).is_err());
        // Encrypted: the same header, and the same key stream one block apart.
        let mut ours = blank;
        key.seal(&mut ours, at, (&random, number), SecurityMode::SignAndEncrypt);
        let theirs = key.protect(&message, &nonce, true);
        prop_assert_eq!(&ours[..payload], &theirs[..payload]);
        prop_assert_eq!(&ours[payload..end], &key.their_cipher(&nonce, &signed[payload..end])[..]);
        // Both signatures are over what is encrypted: each finds the other's good.
        prop_assert!(key.open(&mut theirs.clone(), SecurityMode::SignAndEncrypt));
        prop_assert_ne!(key.unprotect(&ours), Err(SecurityError::SignatureMismatch));
    }
}
