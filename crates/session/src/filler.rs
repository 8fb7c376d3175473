//! The filler of streams without a program: a known pattern with a checksum, so that an altered payload is found.
//!
//! ```text
//!  user data:  pattern ... pattern | checksum, 4 bytes, network order
//! ```
//!
//! The checksum is a CRC-32 (that of Ethernet) over the sequence number, the stream's key, and the pattern. So it finds a
//! payload that was altered, and one that belongs to another frame or another stream. It finds every change of up to 32
//! bits in a row; of other changes one in 2³² escapes. User data of 1 to 3 bytes are the last bytes of the checksum: of
//! n bytes, one change in 2⁸ⁿ escapes. Empty user data carry none.

use crc32fast::Hasher;

/// Bytes of the checksum.
const CHECKSUM_BYTES: usize = 4;
/// The least length of a pattern that is recognised without its checksum, bytes.
const RECOGNISED_BYTES: usize = 8;

/// Returns the byte of the pattern at place `at`.
const fn pattern(at: usize) -> u8 {
    0x52_u8.wrapping_add((at as u8).wrapping_mul(7))
}

/// Fills a payload with the pattern. Do so once, before the first [`seal`].
pub(crate) fn fill(payload: &mut [u8]) {
    for (at, byte) in payload.iter_mut().enumerate() {
        *byte = pattern(at);
    }
}

/// Returns the pattern's part of a payload, and the checksum's.
fn parts(payload: &[u8]) -> (&[u8], &[u8]) {
    payload.split_at(payload.len().saturating_sub(CHECKSUM_BYTES))
}

fn checksum(content: &[u8], sequence: u32, key: u32) -> [u8; CHECKSUM_BYTES] {
    let mut hasher = Hasher::new();
    hasher.update(&sequence.to_be_bytes());
    hasher.update(&key.to_be_bytes());
    hasher.update(content);
    hasher.finalize().to_be_bytes()
}

/// Writes the checksum of frame `sequence` to the end of a payload. Does not allocate.
pub(crate) fn seal(payload: &mut [u8], sequence: u32, key: u32) {
    let at = payload.len().saturating_sub(CHECKSUM_BYTES);
    let (content, place) = payload.split_at_mut(at);
    let checksum = checksum(content, sequence, key);
    place.copy_from_slice(&checksum[CHECKSUM_BYTES - place.len()..]);
}

fn is_right(payload: &[u8], sequence: u32, key: u32) -> bool {
    let (content, found) = parts(payload);
    checksum(content, sequence, key).ends_with(found)
}

/// Returns true for a payload that is filler by most of its bytes.
fn looks_like_filler(payload: &[u8]) -> bool {
    let (content, _) = parts(payload);
    let equal = content.iter().enumerate();
    let equal = equal.filter(|(at, byte)| **byte == pattern(*at)).count();
    content.len() >= RECOGNISED_BYTES && 2 * equal > content.len()
}

/// Checks the payloads of one stream at its listener.
///
/// A listener does not always know whether its talker sends filler or a program's values. Where it is not told, a wrong
/// payload counts as corrupted if most of its bytes are filler, or if most payloads of the stream had a right checksum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checker {
    key: u32,
    /// True if the talker is known to send filler.
    filler: bool,
    right: u64,
    wrong: u64,
    /// Those of the wrong ones that look like filler.
    altered: u64,
}

impl Checker {
    pub(crate) const fn new(key: u32, filler: bool) -> Self {
        Self {
            key,
            filler,
            right: 0,
            wrong: 0,
            altered: 0,
        }
    }

    /// Checks one payload. Does not allocate.
    pub(crate) fn check(&mut self, payload: &[u8], sequence: u32) {
        if payload.is_empty() {
            return;
        }
        if is_right(payload, sequence, self.key) {
            self.right += 1;
        } else {
            self.wrong += 1;
            self.altered += u64::from(looks_like_filler(payload));
        }
    }

    /// Returns the payloads that were altered on their way.
    pub(crate) const fn corrupted(&self) -> u64 {
        if self.filler || self.right > self.wrong {
            self.wrong
        } else {
            self.altered
        }
    }

    /// Returns the payloads without a checksum: a program's values.
    pub(crate) const fn unchecked(&self) -> u64 {
        self.wrong - self.corrupted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sealed(length: usize, sequence: u32, key: u32) -> Vec<u8> {
        let mut payload = vec![0; length];
        fill(&mut payload);
        seal(&mut payload, sequence, key);
        payload
    }

    fn checked(payload: &[u8], sequence: u32, filler: bool) -> (u64, u64, u64) {
        let mut checker = Checker::new(5, filler);
        checker.check(payload, sequence);
        (checker.right, checker.corrupted(), checker.unchecked())
    }

    #[test]
    fn the_checksum_is_that_of_ethernet() {
        // The check value of CRC-32 (ISO-HDLC): sequence number, key and one byte are the text "123456789".
        let (sequence, key) = (0x3132_3334, 0x3536_3738);
        let mut payload = *b"9----";
        seal(&mut payload, sequence, key);
        assert_eq!(payload[1..], 0xcbf4_3926_u32.to_be_bytes());
    }

    proptest! {
        #[test]
        fn a_changed_bit_number_or_key_is_found(
            length in 4_usize..1500,
            sequence: u32,
            bit in 0_usize..12_000,
        ) {
            let mut payload = sealed(length, sequence, 5);
            prop_assert_eq!(checked(&payload, sequence, true), (1, 0, 0));
            prop_assert_eq!(checked(&payload, sequence ^ 1, true), (0, 1, 0));
            prop_assert_eq!(checked(&sealed(length, sequence, 6), sequence, true), (0, 1, 0));
            payload[bit / 8 % length] ^= 1 << (bit % 8);
            prop_assert_eq!(checked(&payload, sequence, true), (0, 1, 0));
            if length >= 12 {
                prop_assert_eq!(checked(&payload, sequence, false), (0, 1, 0));
            }
        }

        #[test]
        fn a_programs_values_are_not_taken_for_altered_filler(
            value in prop::collection::vec(any::<u8>(), 24..200),
            sequence: u32,
        ) {
            prop_assert_eq!(checked(&value, sequence, false), (0, 0, 1));
        }
    }

    #[test]
    fn short_payloads_carry_what_fits() {
        for length in 1..4 {
            for sequence in 0..50 {
                let mut payload = sealed(length, sequence, 5);
                assert_eq!(checked(&payload, sequence, true), (1, 0, 0));
                payload[length - 1] ^= 0x10;
                assert_eq!(checked(&payload, sequence, true), (0, 1, 0));
            }
        }
        assert_eq!(checked(&[], 1, true), (0, 0, 0), "nothing to check");
    }

    #[test]
    fn a_mostly_sound_stream_shows_what_is_unlike_it() {
        let mut checker = Checker::new(5, false);
        for sequence in 0..3 {
            checker.check(&sealed(40, sequence, 5), sequence);
        }
        checker.check(&[0; 40], 3);
        assert_eq!((checker.corrupted(), checker.unchecked()), (1, 0));
    }
}
