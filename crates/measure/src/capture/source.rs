//! Reads a file block by block and keeps track of the offset.

use super::CaptureError;
use std::io::{self, Read};

/// An input with the number of bytes read and a buffer for one block.
pub(super) struct Source<R> {
    input: R,
    /// Number of bytes read so far.
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

    /// Returns the number of bytes read so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads until `into` is full or the file ends; returns the number of bytes read.
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

    /// Fills `into`; a file that ends before is an error. `what` names the part of the file for the message.
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

    /// Fills `into` and returns true; returns false if the file ends before the first byte.
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

    /// Reads a block of `octets` bytes into the buffer that [`Source::block`] returns. The caller has checked the
    /// length against its limit.
    pub(super) fn take(&mut self, octets: usize, what: &'static str) -> Result<(), CaptureError> {
        // The buffer grows in steps with the bytes present: a wrong length costs no memory.
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

    /// Returns the block that was read last.
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
