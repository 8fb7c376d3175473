//! Reads and writes several objects with one command (DS 301, 6.3.2.4.2.4).

use crate::AbortCode;

/// Offsets count from the command's header, which has 8 bytes.
const HEADER: usize = 8;

/// An object to write: index, sub-index, value.
pub type MultipleWrite = (u16, u8, Vec<u8>);
/// An object to read: index, sub-index.
pub type MultipleRead = (u16, u8);
/// Result of one object: index, sub-index, value or abort code.
pub type MultipleResult = (u16, u8, Result<Vec<u8>, AbortCode>);

/// Returns a chain of objects with data: the request of a write, or the response of a read.
pub(crate) fn emit_chain(items: &[MultipleResult]) -> Vec<u8> {
    let mut out = Vec::new();
    for (at, (index, subindex, data)) in items.iter().enumerate() {
        let (bytes, abort) = match data {
            Ok(data) => (data.clone(), 0),
            Err(code) => (code.0.to_le_bytes().to_vec(), 0x80),
        };
        let padding = (4 - bytes.len() % 4) % 4;
        let next = HEADER + out.len() + 8 + bytes.len() + padding;
        let next = if at + 1 == items.len() {
            0
        } else {
            next as u32
        };
        out.extend(next.to_le_bytes());
        out.extend(index.to_le_bytes());
        out.extend([*subindex, abort | padding as u8]);
        out.extend(&bytes);
        out.resize(out.len() + padding, 0);
    }
    out
}

/// Parses a chain.
///
/// # Errors
/// The chain is truncated, or an offset goes backwards.
pub(crate) fn parse_chain(data: &[u8]) -> Result<Vec<MultipleResult>, AbortCode> {
    let wrong = AbortCode::INVALID_BLOCK_SIZE;
    let mut items = Vec::new();
    let mut at = 0;
    while at < data.len() {
        let header: [u8; 8] = data
            .get(at..at + 8)
            .and_then(|header| header.try_into().ok())
            .ok_or(wrong)?;
        let [a, b, c, d, low, high, subindex, info] = header;
        let next = u32::from_le_bytes([a, b, c, d]) as usize;
        let end = match next {
            0 => data.len(),
            next => next.checked_sub(HEADER).ok_or(wrong)?,
        };
        if end < at + 8 {
            return Err(wrong);
        }
        let bytes = data.get(at + 8..end).ok_or(wrong)?;
        let octets = bytes
            .len()
            .checked_sub(usize::from(info & 3))
            .ok_or(wrong)?;
        let bytes = bytes.get(..octets).ok_or(wrong)?;
        let result = if info & 0x80 == 0 {
            Ok(bytes.to_vec())
        } else {
            let code = bytes.get(..4).and_then(|code| code.try_into().ok());
            Err(AbortCode(u32::from_le_bytes(code.ok_or(wrong)?)))
        };
        items.push((u16::from_le_bytes([low, high]), subindex, result));
        at = end;
    }
    Ok(items)
}

/// Returns the request of a read.
pub(crate) fn emit_reads(reads: &[MultipleRead]) -> Vec<u8> {
    let each = |&(index, subindex): &MultipleRead| {
        let [low, high] = index.to_le_bytes();
        [low, high, subindex, 0]
    };
    reads.iter().flat_map(each).collect()
}

/// Parses the request of a read; ignores a truncated entry.
pub(crate) fn parse_reads(data: &[u8]) -> Vec<MultipleRead> {
    let each = |entry: &[u8]| (u16::from_le_bytes([entry[0], entry[1]]), entry[2]);
    data.chunks_exact(4).map(each).collect()
}

/// Returns the response of a write, which lists the refused objects.
pub(crate) fn emit_refusals(refusals: &[(u16, u8, AbortCode)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, subindex, code) in refusals {
        out.extend(index.to_le_bytes());
        out.extend([*subindex, 0x80]);
        out.extend(code.0.to_le_bytes());
    }
    out
}

/// Parses the response of a write.
pub(crate) fn parse_refusals(data: &[u8]) -> Vec<(u16, u8, AbortCode)> {
    let each = |entry: &[u8]| {
        let code = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        (
            u16::from_le_bytes([entry[0], entry[1]]),
            entry[2],
            AbortCode(code),
        )
    };
    data.chunks_exact(8).map(each).collect()
}
