//! Signs and encrypts the messages of one writer group.

use super::SecurityMode;
use super::key::{Key, SIGNATURE_BYTES};
use super::nonce::NonceCounter;

/// Bytes of the security header as it is written here: flags, token, length of the nonce, nonce.
pub const SECURITY_HEADER_BYTES: usize = 14;

/// The reason why a message was not sealed, and must not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealFault {
    /// No nonce is reserved.
    #[error("no nonce is reserved: the file of used nonces is not written fast enough")]
    NoNonce,
    /// The key has used all its nonces.
    #[error("the key with token {token} has used all its nonces; change the key")]
    Exhausted {
        /// The key's token.
        token: u32,
    },
    /// The buffer has no room for header and signature.
    #[error("a message of {bytes} bytes has no room for a security header at {at} and a signature")]
    NoRoom {
        /// The buffer's bytes.
        bytes: usize,
        /// The place of the security header.
        at: usize,
    },
}

/// The key and the nonces of one security group's sender.
#[derive(Clone, Debug)]
pub struct Sealer {
    key: Key,
    random: [u8; 4],
    nonces: NonceCounter,
}

impl Sealer {
    /// Takes the key, four random bytes for this run, and the numbers that are left.
    #[must_use]
    pub const fn new(key: Key, random: [u8; 4], nonces: NonceCounter) -> Self {
        Self {
            key,
            random,
            nonces,
        }
    }

    /// The token of the key in use.
    #[must_use]
    pub const fn token(&self) -> u32 {
        self.key.token()
    }

    /// The number of the key in use, for the file of used nonces.
    #[must_use]
    pub const fn fingerprint(&self) -> u64 {
        self.key.fingerprint()
    }

    /// The counter of the nonces.
    #[must_use]
    pub const fn nonces(&self) -> &NonceCounter {
        &self.nonces
    }

    /// Permits all numbers below `end`, which the file of used nonces holds already.
    pub fn reserve_until(&mut self, end: u64) {
        self.nonces.reserve_until(end);
    }

    /// Uses another key from the next message on.
    pub fn change_key(&mut self, key: Key, nonces: NonceCounter) {
        self.key = key;
        self.nonces = nonces;
    }

    /// Seals a whole message in place.
    ///
    /// `message` begins with the UADP version and ends with room for the signature. `at` is the place of the security
    /// header, whose bytes are written here. Encrypted is all between it and the signature. No allocation.
    ///
    /// # Errors
    /// No nonce is left, or no room. The message must not be sent then.
    pub fn seal(
        &mut self,
        mode: SecurityMode,
        message: &mut [u8],
        at: usize,
    ) -> Result<(), SealFault> {
        if !mode.is_secured() {
            return Ok(());
        }
        let bytes = message.len();
        let payload = at.saturating_add(SECURITY_HEADER_BYTES);
        let Some(end) = bytes
            .checked_sub(SIGNATURE_BYTES)
            .filter(|end| *end >= payload)
        else {
            return Err(SealFault::NoRoom { bytes, at });
        };
        let token = self.key.token();
        let Some(number) = self.nonces.take() else {
            return Err(match self.nonces.is_exhausted() {
                true => SealFault::Exhausted { token },
                false => SealFault::NoNonce,
            });
        };
        let mut nonce = [0; 8];
        nonce[..4].copy_from_slice(&self.random);
        nonce[4..].copy_from_slice(&number.to_le_bytes());
        message[at] = mode.flags();
        message[at + 1..at + 5].copy_from_slice(&token.to_le_bytes());
        message[at + 5] = 8;
        message[at + 6..payload].copy_from_slice(&nonce);
        if mode == SecurityMode::SignAndEncrypt {
            self.key.apply(nonce, &mut message[payload..end]);
        }
        let signature = self.key.sign(&message[..end]);
        message[end..].copy_from_slice(&signature);
        Ok(())
    }
}
