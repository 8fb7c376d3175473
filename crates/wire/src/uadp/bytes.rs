//! Reads and writes little-endian fields in order, with an error instead of a panic where they end.

use super::UadpError;

/// Reads a message, or a part of one, from its front.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The offset of the part's first octet in the message.
    base: usize,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8], base: usize) -> Self {
        Self { bytes, at: 0, base }
    }

    /// The offset in the message.
    pub(super) const fn offset(&self) -> usize {
        self.base + self.at
    }

    /// Octets read so far.
    pub(super) const fn octets(&self) -> usize {
        self.at
    }

    #[inline]
    pub(super) fn take(
        &mut self,
        what: &'static str,
        octets: usize,
    ) -> Result<&'a [u8], UadpError> {
        let end = self.at.saturating_add(octets);
        let Some(taken) = self.bytes.get(self.at..end) else {
            return Err(self.truncated(what, octets));
        };
        self.at = end;
        Ok(taken)
    }

    #[cold]
    const fn truncated(&self, what: &'static str, needed: usize) -> UadpError {
        UadpError::Truncated {
            what,
            at: self.offset(),
            needed,
            found: self.left(),
        }
    }

    /// Passes over octets of [`rest`](Self::rest).
    #[inline]
    pub(super) fn pass(&mut self, octets: usize) {
        self.at = self.at.saturating_add(octets).min(self.bytes.len());
    }

    #[inline]
    pub(super) fn array<const N: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<[u8; N], UadpError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(what, N)?);
        Ok(out)
    }

    #[inline]
    pub(super) fn u8(&mut self, what: &'static str) -> Result<u8, UadpError> {
        Ok(u8::from_le_bytes(self.array(what)?))
    }

    #[inline]
    pub(super) fn u16(&mut self, what: &'static str) -> Result<u16, UadpError> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    #[inline]
    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, UadpError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    #[inline]
    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, UadpError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    #[inline]
    pub(super) fn i32(&mut self, what: &'static str) -> Result<i32, UadpError> {
        Ok(i32::from_le_bytes(self.array(what)?))
    }

    /// Reads an `Int32` length; `None` for a negative one, which is null.
    pub(super) fn length(&mut self, what: &'static str) -> Result<Option<usize>, UadpError> {
        let at = self.offset();
        let told = self.i32(what)?;
        let Ok(length) = usize::try_from(told) else {
            return Ok(None);
        };
        // Each element takes an octet at least.
        if length > self.left() {
            return Err(UadpError::Length {
                what,
                at,
                told: length as u64,
                most: self.left() as u64,
            });
        }
        Ok(Some(length))
    }

    /// Reads a `ByteString`.
    pub(super) fn byte_string(
        &mut self,
        what: &'static str,
    ) -> Result<Option<&'a [u8]>, UadpError> {
        match self.length(what)? {
            Some(octets) => Ok(Some(self.take(what, octets)?)),
            None => Ok(None),
        }
    }

    /// Reads a `String`.
    pub(super) fn string(&mut self, what: &'static str) -> Result<Option<&'a str>, UadpError> {
        let Some(octets) = self.byte_string(what)? else {
            return Ok(None);
        };
        let at = self.offset() - octets.len();
        match core::str::from_utf8(octets) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(UadpError::Text { at }),
        }
    }

    /// The next octet, which is not read yet.
    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Octets that are left.
    pub(super) const fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    /// Returns all octets that are left.
    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Returns the octets from `start` (as [`octets`](Self::octets) told) to here.
    pub(super) fn since(&self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.at).unwrap_or_default()
    }

    /// Checks that only zeros are left.
    pub(super) fn only_padding(&self) -> Result<(), UadpError> {
        let rest = self.rest();
        match rest.iter().position(|octet| *octet != 0) {
            None => Ok(()),
            Some(first) => Err(UadpError::Trailing {
                at: self.offset() + first,
                octets: rest.len() - first,
            }),
        }
    }
}

#[cold]
const fn too_long(needed: usize, fit: usize) -> UadpError {
    UadpError::TooLong { needed, fit }
}

/// Writes a message from its front.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    pub(super) const fn new(out: &'a mut [u8]) -> Self {
        Self { out, at: 0 }
    }

    #[inline]
    pub(super) fn put(&mut self, octets: &[u8]) -> Result<(), UadpError> {
        let needed = self.at.saturating_add(octets.len());
        let fit = self.out.len();
        let Some(place) = self.out.get_mut(self.at..needed) else {
            return Err(too_long(needed, fit));
        };
        place.copy_from_slice(octets);
        self.at = needed;
        Ok(())
    }

    pub(super) fn zeros(&mut self, octets: usize) -> Result<(), UadpError> {
        let needed = self.at.saturating_add(octets);
        let fit = self.out.len();
        let Some(place) = self.out.get_mut(self.at..needed) else {
            return Err(UadpError::TooLong { needed, fit });
        };
        place.fill(0);
        self.at = needed;
        Ok(())
    }

    /// Leaves `octets` octets as they are.
    pub(super) fn skip(&mut self, octets: usize) -> Result<(), UadpError> {
        let needed = self.at.saturating_add(octets);
        if needed > self.out.len() {
            let fit = self.out.len();
            return Err(UadpError::TooLong { needed, fit });
        }
        self.at = needed;
        Ok(())
    }

    #[inline]
    pub(super) fn u8(&mut self, value: u8) -> Result<(), UadpError> {
        self.put(&[value])
    }

    #[inline]
    pub(super) fn u16(&mut self, value: u16) -> Result<(), UadpError> {
        self.put(&value.to_le_bytes())
    }

    #[inline]
    pub(super) fn u32(&mut self, value: u32) -> Result<(), UadpError> {
        self.put(&value.to_le_bytes())
    }

    #[inline]
    pub(super) fn u64(&mut self, value: u64) -> Result<(), UadpError> {
        self.put(&value.to_le_bytes())
    }

    /// Writes an `Int32` length; -1 for `None`.
    pub(super) fn length(&mut self, length: Option<usize>) -> Result<(), UadpError> {
        match length {
            None => self.put(&[0xff; 4]),
            Some(length) => match i32::try_from(length) {
                Ok(length) => self.put(&length.to_le_bytes()),
                Err(_) => Err(UadpError::TooLong {
                    needed: length,
                    fit: i32::MAX as usize,
                }),
            },
        }
    }

    /// Writes a `ByteString`.
    pub(super) fn byte_string(&mut self, octets: Option<&[u8]>) -> Result<(), UadpError> {
        self.length(octets.map(<[u8]>::len))?;
        self.put(octets.unwrap_or_default())
    }

    /// Writes an octet and what belongs to it. False, with nothing written, if there is no room for both.
    #[inline]
    pub(super) fn tagged<const N: usize>(&mut self, tag: u8, value: [u8; N]) -> bool {
        let room = self.out.get_mut(self.at..).unwrap_or_default();
        let Some((first, rest)) = room.split_first_mut() else {
            return false;
        };
        let Some(place) = rest.first_chunk_mut() else {
            return false;
        };
        *place = value;
        *first = tag;
        self.at += 1 + N;
        true
    }

    /// Writes two octets at `at`, which was written before.
    pub(super) fn patch_u16(&mut self, at: usize, value: u16) {
        if let Some(place) = self.out.get_mut(at..at.saturating_add(2)) {
            place.copy_from_slice(&value.to_le_bytes());
        }
    }

    /// Octets written.
    pub(super) const fn octets(&self) -> usize {
        self.at
    }
}

/// Returns `mask` if `set`, else 0.
pub(super) const fn bit(set: bool, mask: u8) -> u8 {
    if set { mask } else { 0 }
}
