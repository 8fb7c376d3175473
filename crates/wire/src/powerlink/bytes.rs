//! Reads and writes octets in order, with an error instead of a panic where they end.

use super::PowerlinkError;

/// Reads a frame from its front. An error names the message that ends too early.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    frame: &'a [u8],
    at: usize,
    message: &'static str,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(frame: &'a [u8], message: &'static str) -> Self {
        Self {
            frame,
            at: 0,
            message,
        }
    }

    pub(super) const fn named(mut self, message: &'static str) -> Self {
        self.message = message;
        self
    }

    pub(super) fn take(&mut self, octets: usize) -> Result<&'a [u8], PowerlinkError> {
        let needed = self.at.saturating_add(octets);
        let Some(taken) = self.frame.get(self.at..needed) else {
            return Err(PowerlinkError::Truncated {
                message: self.message,
                needed,
                found: self.frame.len(),
            });
        };
        self.at = needed;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], PowerlinkError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    pub(super) fn skip(&mut self, octets: usize) -> Result<(), PowerlinkError> {
        self.take(octets).map(|_| ())
    }

    pub(super) fn u8(&mut self) -> Result<u8, PowerlinkError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(super) fn u16(&mut self) -> Result<u16, PowerlinkError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, PowerlinkError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, PowerlinkError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Octets that are left.
    pub(super) const fn left(&self) -> usize {
        self.frame.len().saturating_sub(self.at)
    }

    /// Returns all octets that are left.
    pub(super) fn rest(self) -> &'a [u8] {
        self.frame.get(self.at..).unwrap_or_default()
    }
}

/// Writes a frame from its front.
pub(super) struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    pub(super) const fn new(out: &'a mut [u8]) -> Self {
        Self { out, at: 0 }
    }

    pub(super) fn put(&mut self, octets: &[u8]) -> Result<(), PowerlinkError> {
        let needed = self.at.saturating_add(octets.len());
        let fit = self.out.len();
        let Some(place) = self.out.get_mut(self.at..needed) else {
            return Err(PowerlinkError::TooLong { needed, fit });
        };
        place.copy_from_slice(octets);
        self.at = needed;
        Ok(())
    }

    pub(super) fn zeros<const N: usize>(&mut self) -> Result<(), PowerlinkError> {
        self.put(&[0; N])
    }

    pub(super) fn u16(&mut self, value: u16) -> Result<(), PowerlinkError> {
        self.put(&value.to_le_bytes())
    }

    pub(super) fn u32(&mut self, value: u32) -> Result<(), PowerlinkError> {
        self.put(&value.to_le_bytes())
    }

    pub(super) fn u64(&mut self, value: u64) -> Result<(), PowerlinkError> {
        self.put(&value.to_le_bytes())
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
