//! Reads a file of evidence. Allocates no more than a small multiple of the file's length.

use serde::de::DeserializeOwned;

use super::check::crc;
use super::model::{End, FORMAT, Header, HostEvidence};
use super::write::{MAGIC, PAYLOAD_MOST, Record, kind, u32_at};
use crate::noise::Stall;

/// The reason why a file is no evidence that can be judged. A file that only ends too early is read
/// ([`HostEvidence::is_truncated`]).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvidenceError {
    /// It begins otherwise.
    #[error("is no evidence of `rtwire run --evidence`")]
    NotEvidence,
    /// It ends before its header does.
    #[error("ends within its header: it holds nothing of a run")]
    NoHeader,
    /// It is of another version.
    #[error(
        "is evidence of format {found}; this rtwire reads format {FORMAT}: judge it with the rtwire that wrote it"
    )]
    Version {
        /// The version in the file.
        found: u64,
    },
    /// Bytes were changed, or a block was left out, doubled or moved.
    #[error(
        "was changed after it was written, or damaged: the check of block {block} at byte {offset} is wrong"
    )]
    Damaged {
        /// The block's number, from 0.
        block: usize,
        /// The offset of the block in the file.
        offset: usize,
    },
    /// A block has a right check and a wrong content.
    #[error("contradicts itself in block {block} at byte {offset}: {what}")]
    Contradiction {
        /// The block's number, from 0.
        block: usize,
        /// The offset of the block in the file.
        offset: usize,
        /// The contradiction.
        what: String,
    },
}

/// Returns true if these are the first bytes of evidence, or could become it.
#[must_use]
pub fn is_evidence(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC[..bytes.len().min(MAGIC.len())])
}

/// Reads a file of evidence.
///
/// # Errors
/// [`EvidenceError`]. A file that ends too early is no error once it has a header.
pub fn read(bytes: &[u8]) -> Result<HostEvidence, EvidenceError> {
    if !is_evidence(bytes) {
        return Err(EvidenceError::NotEvidence);
    }
    let mut blocks = Blocks {
        bytes,
        at: MAGIC.len(),
        chain: crc(0, MAGIC),
        number: 0,
    };
    let first = blocks.next()?.ok_or(EvidenceError::NoHeader)?;
    let mut reading = Reading {
        evidence: HostEvidence::new(header(&first)?),
        records: [0; 3],
    };
    while let Some(block) = blocks.next()? {
        if reading.evidence.end.is_some() {
            return Err(block.contradicts("a block behind the end"));
        }
        reading.take(&block)?;
    }
    if let (Some(_), true) = (reading.evidence.end, blocks.at < bytes.len()) {
        return Err(EvidenceError::Damaged {
            block: blocks.number,
            offset: blocks.at,
        });
    }
    Ok(reading.evidence)
}

/// A block whose checks are right.
struct Block<'a> {
    kind: u8,
    payload: &'a [u8],
    number: usize,
    offset: usize,
}

impl Block<'_> {
    fn contradicts(&self, what: impl Into<String>) -> EvidenceError {
        EvidenceError::Contradiction {
            block: self.number,
            offset: self.offset,
            what: what.into(),
        }
    }

    fn json<T: DeserializeOwned>(&self) -> Result<T, EvidenceError> {
        serde_json::from_slice(self.payload).map_err(|error| self.contradicts(error.to_string()))
    }
}

struct Blocks<'a> {
    bytes: &'a [u8],
    at: usize,
    chain: u32,
    number: usize,
}

impl<'a> Blocks<'a> {
    /// Returns the next block, or `None` where the file ends: behind a block, within one, or in zeros that a file system
    /// left after a loss of power.
    fn next(&mut self) -> Result<Option<Block<'a>>, EvidenceError> {
        let rest = &self.bytes[self.at.min(self.bytes.len())..];
        if rest.len() < 9 || rest.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let damaged = EvidenceError::Damaged {
            block: self.number,
            offset: self.at,
        };
        let (front, behind) = rest.split_at(9);
        let chain = crc(self.chain, &front[..5]);
        let length = u32_at(front, 1) as usize;
        if chain != u32_at(front, 5) || length > PAYLOAD_MOST {
            return Err(damaged);
        }
        let Some(payload) = behind.get(..length) else {
            return Ok(None);
        };
        let Some(check) = behind.get(length..length + 4) else {
            return Ok(None);
        };
        self.chain = crc(chain, payload);
        if self.chain != u32_at(check, 0) {
            return Err(damaged);
        }
        let block = Block {
            kind: front[0],
            payload,
            number: self.number,
            offset: self.at,
        };
        self.at += 13 + length;
        self.number += 1;
        Ok(Some(block))
    }
}

fn header(block: &Block<'_>) -> Result<Header, EvidenceError> {
    if block.kind != kind::HEADER {
        return Err(block.contradicts("the first block is no header"));
    }
    let value: serde_json::Value = block.json()?;
    // A later version may have other fields: its number comes first.
    match value["format"].as_u64() {
        Some(found) if found != u64::from(FORMAT) => Err(EvidenceError::Version { found }),
        _ => serde_json::from_value(value).map_err(|error| block.contradicts(error.to_string())),
    }
}

struct Reading {
    evidence: HostEvidence,
    records: [u64; 3],
}

impl Reading {
    fn take(&mut self, block: &Block<'_>) -> Result<(), EvidenceError> {
        let evidence = &mut self.evidence;
        match block.kind {
            kind::SENT => self.records[0] += append(block, &mut evidence.sent)?,
            kind::STAMPS => self.records[1] += append(block, &mut evidence.stamps)?,
            kind::ARRIVALS => self.records[2] += append(block, &mut evidence.arrivals)?,
            kind::MARK => evidence.marks.push(block.json()?),
            kind::TALKER => evidence.talkers.push(block.json()?),
            kind::LISTENER => evidence.listeners.push(block.json()?),
            kind::NOISE if evidence.noise.is_none() => evidence.noise = Some(block.json()?),
            kind::STALLS => match &mut evidence.noise {
                Some(noise) => noise.stalls.extend(block.json::<Vec<Stall>>()?),
                None => return Err(block.contradicts("stalls before the noise record")),
            },
            kind::END => {
                let end: End = block.json()?;
                if let Some(what) = self.unfinished(&end) {
                    return Err(block.contradicts(what));
                }
                self.evidence.end = Some(end);
            }
            kind::HEADER => return Err(block.contradicts("a second header")),
            kind::NOISE => return Err(block.contradicts("a second noise record")),
            other => return Err(block.contradicts(format!("an unknown kind of block, {other}"))),
        }
        Ok(())
    }

    /// Returns the reason why the file cannot end here.
    fn unfinished(&self, end: &End) -> Option<String> {
        let evidence = &self.evidence;
        let header = &evidence.header;
        let talkers = evidence.talkers.iter().map(|totals| &totals.stream);
        let listeners = evidence.listeners.iter().map(|totals| &totals.stream);
        if end.records != self.records {
            return Some(format!(
                "it counts {:?} records and has {:?}",
                end.records, self.records
            ));
        }
        if !talkers.eq(header.talkers.iter().map(|entry| &entry.stream))
            || !listeners.eq(header.listeners.iter().map(|entry| &entry.stream))
        {
            return Some("totals of other streams than the header's".to_owned());
        }
        None
    }
}

/// Appends a block's records to those of its stream, and returns their number.
fn append<R: Record>(block: &Block<'_>, streams: &mut [Vec<R>]) -> Result<u64, EvidenceError> {
    let (Some(at), Some(records)) = (block.payload.get(..4), block.payload.get(4..)) else {
        return Err(block.contradicts("records without a stream"));
    };
    if records.len() % R::BYTES != 0 {
        return Err(block.contradicts("a part of a record"));
    }
    let stream = streams
        .get_mut(u32_at(at, 0) as usize)
        .ok_or_else(|| block.contradicts("records of a stream that the header does not have"))?;
    stream.extend(records.chunks_exact(R::BYTES).map(R::take));
    Ok((records.len() / R::BYTES) as u64)
}
