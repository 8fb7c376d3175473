//! A fingerprint of a plan's input: says that two plans come from the same text.
//!
//! FNV-1a of 128 bits. It tells accidents apart, not adversaries.

const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// A fingerprint in the making.
pub(crate) struct Fingerprint(u128);

impl Fingerprint {
    pub(crate) fn new() -> Fingerprint {
        Fingerprint(OFFSET)
    }

    /// Take in one text; its length is part of it, so that parts cannot run together.
    pub(crate) fn with(mut self, text: &str) -> Fingerprint {
        for byte in (text.len() as u64)
            .to_be_bytes()
            .iter()
            .chain(text.as_bytes())
        {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(PRIME);
        }
        self
    }

    pub(crate) fn text(&self) -> String {
        format!("fnv1a128:{:032x}", self.0)
    }
}
