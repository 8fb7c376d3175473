//! Reading a block at a time, and knowing where.

use super::CaptureError;
use std::io::{self, Read};

/// Octets in, with the offset of each block, and room for one block.
pub(super) struct Source<R> {
    input: R,
    /// Octets read so far.
    offset: u64,
    block: Vec<u8>,
}

impl<R: Read> Source<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            offset: 0,
            block: Vec::new(),
        }
    }

    /// Octets read so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads as much as fits `into`, or up to the end; gives how much that was.
    fn read(&mut self, into: &mut [u8]) -> Result<usize, CaptureError> {
        let mut filled = 0;
        while filled < into.len() {
            match self.input.read(&mut into[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(CaptureError::Read {
                        offset: self.offset + filled as u64,
                        source,
                    });
                }
            }
        }
        self.offset += filled as u64;
        Ok(filled)
    }

    /// Fills `into`, which must be there; `what` says what it is.
    pub(super) fn exactly(
        &mut self,
        into: &mut [u8],
        what: &'static str,
    ) -> Result<(), CaptureError> {
        let at = self.offset;
        let found = self.read(into)?;
        if found < into.len() {
            return Err(cut_off(at, what, into.len(), found));
        }
        Ok(())
    }

    /// Fills `into`, unless the file ends before its first octet: then gives `false`.
    pub(super) fn exactly_or_end(
        &mut self,
        into: &mut [u8],
        what: &'static str,
    ) -> Result<bool, CaptureError> {
        let at = self.offset;
        match self.read(into)? {
            0 => Ok(false),
            found if found < into.len() => Err(cut_off(at, what, into.len(), found)),
            _ => Ok(true),
        }
    }

    /// Reads a block of `octets`, of which the caller has seen that they are not too many; see [`Source::block`].
    pub(super) fn take(&mut self, octets: usize, what: &'static str) -> Result<(), CaptureError> {
        // Only as much memory as the file has octets: a damaged length costs nothing.
        const STEP: usize = 65_536;
        let at = self.offset;
        let mut block = std::mem::take(&mut self.block);
        block.clear();
        while block.len() < octets {
            let from = block.len();
            block.resize((from + STEP).min(octets), 0);
            let found = self.read(&mut block[from..])?;
            if from + found < block.len() {
                return Err(cut_off(at, what, octets, from + found));
            }
        }
        self.block = block;
        Ok(())
    }

    /// The block that was taken last.
    pub(super) fn block(&self) -> &[u8] {
        &self.block
    }
}

fn cut_off(offset: u64, what: &'static str, needed: usize, found: usize) -> CaptureError {
    CaptureError::CutOff {
        offset,
        what,
        needed: needed as u64,
        found: found as u64,
    }
}
