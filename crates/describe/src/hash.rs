//! Fingerprints: say that two plans come from the same text, or that a file is as it was written.
//!
//! FNV-1a of 128 bits. It tells accidents apart, not adversaries.

const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// A fingerprint in the making.
#[derive(Clone, Debug)]
pub struct Fingerprint(u128);

impl Default for Fingerprint {
    fn default() -> Fingerprint {
        Fingerprint::new()
    }
}

impl Fingerprint {
    /// A fingerprint of nothing yet.
    #[must_use]
    pub fn new() -> Fingerprint {
        Fingerprint(OFFSET)
    }

    /// Takes in one text; its length is part of it, so that parts cannot run together.
    #[must_use]
    pub fn with(mut self, text: &str) -> Fingerprint {
        for byte in (text.len() as u64)
            .to_be_bytes()
            .iter()
            .chain(text.as_bytes())
        {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(PRIME);
        }
        self
    }

    /// Returns it as text: the method's name and 32 hexadecimal digits.
    #[must_use]
    pub fn text(&self) -> String {
        format!("fnv1a128:{:032x}", self.0)
    }

    /// Returns its 128 bits.
    #[must_use]
    pub fn value(&self) -> u128 {
        self.0
    }
}
