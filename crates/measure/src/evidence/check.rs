//! CRC-32 (IEEE 802.3), chained over the blocks of a file.

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            value = (value >> 1) ^ (0xedb8_8320 & (value & 1).wrapping_neg());
            bit += 1;
        }
        table[byte] = value;
        byte += 1;
    }
    table
}

/// Returns the check of `bytes` that continues `before`; 0 begins.
pub(super) fn crc(before: u32, bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!before, |value, byte| {
        (value >> 8) ^ TABLE[((value ^ u32::from(*byte)) & 0xff) as usize]
    })
}

#[cfg(test)]
mod tests {
    use super::crc;

    #[test]
    fn it_is_the_usual_one_and_continues() {
        // The check value that every catalogue of CRCs lists for CRC-32.
        assert_eq!(crc(0, b"123456789"), 0xcbf4_3926);
        assert_eq!(crc(crc(0, b"1234"), b"56789"), 0xcbf4_3926);
        assert_eq!(crc(0, b""), 0);
    }
}
