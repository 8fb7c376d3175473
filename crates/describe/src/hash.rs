//! Fingerprints. They show that two plans come from the same text, or that a file is unchanged.
//!
//! The method is FNV-1a with 128 bits. It detects accidents, not attacks.

const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// A fingerprint that is being computed.
#[derive(Clone, Debug)]
pub struct Fingerprint(u128);

impl Default for Fingerprint {
    fn default() -> Fingerprint {
        Fingerprint::new()
    }
}

impl Fingerprint {
    /// Returns the fingerprint of no input.
    #[must_use]
    pub fn new() -> Fingerprint {
        Fingerprint(OFFSET)
    }

    /// Adds one text. Its length is part of it, so that neighbouring parts cannot be confused.
    #[must_use]
    pub fn with(self, text: &str) -> Fingerprint {
        self.with_bytes(text.as_bytes())
    }

    /// Adds bytes as [`Fingerprint::with`] adds a text.
    #[must_use]
    pub fn with_bytes(mut self, bytes: &[u8]) -> Fingerprint {
        self.take(&(bytes.len() as u64).to_be_bytes());
        self.take(bytes);
        self
    }

    /// Adds bytes without their length.
    pub fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(PRIME);
        }
    }

    /// Returns the fingerprint as text: the method's name and 32 hexadecimal digits.
    #[must_use]
    pub fn text(&self) -> String {
        format!("fnv1a128:{:032x}", self.0)
    }

    /// Returns the 128 bits of the fingerprint.
    #[must_use]
    pub fn value(&self) -> u128 {
        self.0
    }
}
