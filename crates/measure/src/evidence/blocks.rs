//! The blocks of a file of evidence, one after the other, each with right checks.

use std::io;

use serde::de::DeserializeOwned;

use super::check::crc;
use super::read::EvidenceError;
use super::write::{MAGIC, PAYLOAD_MOST, u32_at};

/// The length of a block's kind, length and their check, bytes.
const FRONT: usize = 9;
/// The length of a check, bytes.
const CHECK: usize = 4;
/// The number of bytes that are looked at together for being zero.
const LOOK: usize = 64 << 10;

/// The bytes of a file, read at any place.
pub trait Source {
    /// Returns the number of bytes.
    ///
    /// # Errors
    /// The file cannot be asked.
    fn length(&self) -> io::Result<u64>;

    /// Fills `into` with the bytes from `offset` on.
    ///
    /// # Errors
    /// The file cannot be read, or ends before.
    fn fill(&self, into: &mut [u8], offset: u64) -> io::Result<()>;
}

impl Source for std::fs::File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn fill(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, into, offset)
    }
}

impl Source for &[u8] {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn fill(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let there = self.get(from..).and_then(|rest| rest.get(..into.len()));
        into.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl Source for Vec<u8> {
    fn length(&self) -> io::Result<u64> {
        self.as_slice().length()
    }

    fn fill(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.as_slice().fill(into, offset)
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn length(&self) -> io::Result<u64> {
        (**self).length()
    }

    fn fill(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        (**self).fill(into, offset)
    }
}

/// A block whose checks are right.
pub(super) struct Block<'a> {
    pub(super) kind: u8,
    pub(super) payload: &'a [u8],
    /// Its place.
    pub(super) place: Place,
}

/// The place of a block in its file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The block's number, from 0.
    number: u32,
    /// The length of the payload, bytes.
    length: u32,
    /// The offset of the block, bytes.
    offset: u64,
    /// The check that its payload's check begins with.
    chain: u32,
}

impl Place {
    fn damaged(&self) -> EvidenceError {
        EvidenceError::Damaged {
            block: self.number as usize,
            offset: self.offset,
        }
    }

    /// Reads the payload again, into `payload`.
    pub(super) fn read<'a>(
        &self,
        source: &impl Source,
        payload: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], EvidenceError> {
        let length = self.length as usize;
        payload.resize(length + CHECK, 0);
        source
            .fill(payload, self.offset + FRONT as u64)
            .map_err(EvidenceError::unreadable)?;
        let (payload, check) = payload.split_at(length);
        match crc(self.chain, payload) == u32_at(check, 0) {
            true => Ok(payload),
            false => Err(self.damaged()),
        }
    }
}

impl Block<'_> {
    pub(super) fn contradicts(&self, what: impl Into<String>) -> EvidenceError {
        EvidenceError::Contradiction {
            block: self.place.number as usize,
            offset: self.place.offset,
            what: what.into(),
        }
    }

    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, EvidenceError> {
        serde_json::from_slice(self.payload).map_err(|error| self.contradicts(error.to_string()))
    }
}

/// The blocks of a file that begins as evidence does.
pub(super) struct Blocks<'a, S> {
    source: &'a S,
    length: u64,
    at: u64,
    chain: u32,
    number: u32,
    payload: Vec<u8>,
}

impl<'a, S: Source> Blocks<'a, S> {
    pub(super) fn of(source: &'a S) -> Result<Self, EvidenceError> {
        let length = source.length().map_err(EvidenceError::unreadable)?;
        let blocks = Self {
            source,
            length,
            at: MAGIC.len() as u64,
            chain: crc(0, MAGIC),
            number: 0,
            payload: Vec::new(),
        };
        let mut magic = MAGIC.to_vec();
        magic.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        let expected = magic.clone();
        blocks.fill(&mut magic, 0)?;
        match magic == expected {
            true => Ok(blocks),
            false => Err(EvidenceError::NotEvidence),
        }
    }

    /// Returns the next block, or `None` where the file ends: behind a block, within one, or in zeros that a file system
    /// left after a loss of power.
    pub(super) fn next(&mut self) -> Result<Option<Block<'_>>, EvidenceError> {
        let rest = self.rest();
        if rest < FRONT as u64 {
            return Ok(None);
        }
        let mut front = [0; FRONT];
        self.fill(&mut front, self.at)?;
        if front == [0; FRONT] && self.is_zero_to_the_end()? {
            return Ok(None);
        }
        let place = Place {
            number: self.number,
            length: u32_at(&front, 1),
            offset: self.at,
            chain: crc(self.chain, &front[..5]),
        };
        let length = place.length as usize;
        if place.chain != u32_at(&front, 5) || length > PAYLOAD_MOST {
            return Err(place.damaged());
        }
        let all = (FRONT + length + CHECK) as u64;
        if rest < all {
            return Ok(None);
        }
        let payload = place.read(self.source, &mut self.payload)?;
        self.chain = crc(place.chain, payload);
        self.at += all;
        self.number += 1;
        Ok(Some(Block {
            kind: front[0],
            payload,
            place,
        }))
    }

    /// Returns the number of bytes behind the last block.
    pub(super) fn rest(&self) -> u64 {
        self.length.saturating_sub(self.at)
    }

    /// Returns the error of bytes behind the last block.
    pub(super) fn more(&self) -> EvidenceError {
        EvidenceError::Damaged {
            block: self.number as usize,
            offset: self.at,
        }
    }

    fn fill(&self, into: &mut [u8], offset: u64) -> Result<(), EvidenceError> {
        let filled = self.source.fill(into, offset);
        filled.map_err(EvidenceError::unreadable)
    }

    fn is_zero_to_the_end(&self) -> Result<bool, EvidenceError> {
        let mut look = vec![0; LOOK];
        let mut at = self.at;
        while at < self.length {
            let count = usize::try_from(self.length - at).map_or(LOOK, |rest| rest.min(LOOK));
            self.fill(&mut look[..count], at)?;
            if look[..count].iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            at += count as u64;
        }
        Ok(true)
    }
}
