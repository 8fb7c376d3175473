//! Keys, MACs and the window against replays.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::message::MAC_BYTES;

/// A host's key: 32 random bytes, shared with the manager.
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// Returns the key with these bytes, prepared for many messages.
    #[must_use]
    pub fn new(bytes: &[u8; 32]) -> Key {
        // HMAC fills a key up to a block of SHA-256 with zeros.
        let mut block = [0; 64];
        block[..32].copy_from_slice(bytes);
        Key(Hmac::new(&block.into()))
    }

    /// Adds the MAC to a message.
    #[must_use]
    pub fn seal(&self, mut message: Vec<u8>) -> Vec<u8> {
        let mut mac = self.0.clone();
        mac.update(&message);
        message.extend_from_slice(&mac.finalize().into_bytes());
        message
    }

    /// Returns the message without its MAC, if the MAC is right. The comparison takes the same time for all MACs.
    #[must_use]
    pub fn open<'a>(&self, sealed: &'a [u8]) -> Option<&'a [u8]> {
        let end = sealed.len().checked_sub(MAC_BYTES)?;
        let (message, stated) = sealed.split_at(end);
        let mut mac = self.0.clone();
        mac.update(message);
        mac.verify_slice(stated).ok()?;
        Some(message)
    }
}

/// The last 64 sequence numbers of a session. It moves only for messages whose MAC is right.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    /// The largest number seen; numbers begin at 1.
    highest: u64,
    /// Bit n is set if `highest - n` was seen.
    seen: u64,
}

impl Window {
    /// Takes a number. Returns false if it was seen already, or is too old to know.
    pub fn take(&mut self, sequence: u64) -> bool {
        if sequence == 0 {
            return false;
        }
        if sequence > self.highest {
            let ahead = sequence - self.highest;
            self.seen = if ahead < 64 { self.seen << ahead } else { 0 };
            self.seen |= 1;
            self.highest = sequence;
            return true;
        }
        let behind = self.highest - sequence;
        if behind >= 64 || self.seen & (1 << behind) != 0 {
            return false;
        }
        self.seen |= 1 << behind;
        true
    }
}
