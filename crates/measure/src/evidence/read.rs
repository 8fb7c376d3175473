//! Reads a file of evidence.
//!
//! [`Opened`] checks the whole file once and keeps what the host says of its run. The records of single frames stay in the
//! file: it keeps 24 bytes for each of their blocks, and reads those of one stream when they are asked for.

use super::blocks::{Block, Blocks, Place, Source};
use super::model::{
    ArrivalRecord, End, FORMAT, Header, HostAccount, HostEvidence, SentRecord, StampRecord,
};
use super::write::{MAGIC, Record, kind, u32_at};
use crate::noise::{NoiseRecord, Stall};

/// The reason why a file is no evidence that can be judged. A file that only ends too early is read
/// ([`HostAccount::is_truncated`]).
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
        offset: u64,
    },
    /// A block has a right check and a wrong content.
    #[error("contradicts itself in block {block} at byte {offset}: {what}")]
    Contradiction {
        /// The block's number, from 0.
        block: usize,
        /// The offset of the block in the file.
        offset: u64,
        /// The contradiction.
        what: String,
    },
    /// The file cannot be read.
    #[error("cannot be read: {what}")]
    Unreadable {
        /// The reason.
        what: String,
    },
}

impl EvidenceError {
    pub(super) fn unreadable(error: std::io::Error) -> Self {
        let what = error.to_string();
        Self::Unreadable { what }
    }
}

/// Returns true if these are the first bytes of evidence, or could become it.
#[must_use]
pub fn is_evidence(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC[..bytes.len().min(MAGIC.len())])
}

/// Reads a file of evidence into memory.
///
/// # Errors
/// [`EvidenceError`]. A file that ends too early is no error once it has a header.
pub fn read(bytes: &[u8]) -> Result<HostEvidence, EvidenceError> {
    let opened = Opened::open(bytes)?;
    let mut evidence = HostEvidence::new(opened.account.header.clone());
    for (at, records) in evidence.sent.iter_mut().enumerate() {
        opened.sent(at, &mut |record| records.push(*record))?;
    }
    for (at, records) in evidence.stamps.iter_mut().enumerate() {
        opened.stamps(at, &mut |record| records.push(*record))?;
    }
    for (at, records) in evidence.arrivals.iter_mut().enumerate() {
        opened.arrivals(at, &mut |record| records.push(*record))?;
    }
    evidence.account = opened.account;
    Ok(evidence)
}

/// One host's evidence: what it says of its run, and its records, stream by stream, in the order in which they were written.
pub trait Witness {
    /// Returns what the host says of its run.
    fn account(&self) -> &HostAccount;

    /// Hands over the frames that the talker `at` of the header sent.
    ///
    /// # Errors
    /// The records cannot be read, or were changed since the file was opened.
    fn sent(&self, at: usize, each: &mut dyn FnMut(&SentRecord)) -> Result<(), EvidenceError>;

    /// Hands over the kernel's transmit stamps of the talker `at` of the header.
    ///
    /// # Errors
    /// As [`Self::sent`].
    fn stamps(&self, at: usize, each: &mut dyn FnMut(&StampRecord)) -> Result<(), EvidenceError>;

    /// Hands over the arrivals at the listener `at` of the header.
    ///
    /// # Errors
    /// As [`Self::sent`].
    fn arrivals(
        &self,
        at: usize,
        each: &mut dyn FnMut(&ArrivalRecord),
    ) -> Result<(), EvidenceError>;
}

impl Witness for HostEvidence {
    fn account(&self) -> &HostAccount {
        &self.account
    }

    fn sent(&self, at: usize, each: &mut dyn FnMut(&SentRecord)) -> Result<(), EvidenceError> {
        self.sent.iter().skip(at).take(1).flatten().for_each(each);
        Ok(())
    }

    fn stamps(&self, at: usize, each: &mut dyn FnMut(&StampRecord)) -> Result<(), EvidenceError> {
        self.stamps.iter().skip(at).take(1).flatten().for_each(each);
        Ok(())
    }

    fn arrivals(
        &self,
        at: usize,
        each: &mut dyn FnMut(&ArrivalRecord),
    ) -> Result<(), EvidenceError> {
        let own = self.arrivals.iter().skip(at).take(1);
        own.flatten().for_each(each);
        Ok(())
    }
}

/// A file of evidence that was checked and stays open: its records are read when they are asked for.
#[derive(Debug)]
pub struct Opened<S> {
    source: S,
    account: HostAccount,
    places: Places,
}

/// The blocks of records, for each stream of the header.
#[derive(Debug)]
struct Places {
    sent: Vec<Vec<Place>>,
    stamps: Vec<Vec<Place>>,
    arrivals: Vec<Vec<Place>>,
}

impl<S: Source> Opened<S> {
    /// Reads the whole file once, block by block.
    ///
    /// # Errors
    /// [`EvidenceError`]. A file that ends too early is no error once it has a header.
    pub fn open(source: S) -> Result<Self, EvidenceError> {
        let mut blocks = Blocks::of(&source)?;
        let first = blocks.next()?.ok_or(EvidenceError::NoHeader)?;
        let mut reading = Reading::of(header(&first)?);
        while let Some(block) = blocks.next()? {
            if reading.account.end.is_some() {
                return Err(block.contradicts("a block behind the end"));
            }
            reading.take(&block)?;
        }
        if reading.account.end.is_some() && blocks.rest() > 0 {
            return Err(blocks.more());
        }
        let Reading {
            account, places, ..
        } = reading;
        Ok(Self {
            account,
            places,
            source,
        })
    }

    fn each<R: Record>(
        &self,
        places: &[Vec<Place>],
        at: usize,
        each: &mut dyn FnMut(&R),
    ) -> Result<(), EvidenceError> {
        let mut payload = Vec::new();
        for place in places.get(at).into_iter().flatten() {
            let payload = place.read(&self.source, &mut payload)?;
            // The stream's number comes first.
            let records = payload.get(4..).unwrap_or_default();
            records
                .chunks_exact(R::BYTES)
                .for_each(|record| each(&R::take(record)));
        }
        Ok(())
    }
}

impl<S: Source> Witness for Opened<S> {
    fn account(&self) -> &HostAccount {
        &self.account
    }

    fn sent(&self, at: usize, each: &mut dyn FnMut(&SentRecord)) -> Result<(), EvidenceError> {
        self.each(&self.places.sent, at, each)
    }

    fn stamps(&self, at: usize, each: &mut dyn FnMut(&StampRecord)) -> Result<(), EvidenceError> {
        self.each(&self.places.stamps, at, each)
    }

    fn arrivals(
        &self,
        at: usize,
        each: &mut dyn FnMut(&ArrivalRecord),
    ) -> Result<(), EvidenceError> {
        self.each(&self.places.arrivals, at, each)
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

/// The part that was read so far.
struct Reading {
    account: HostAccount,
    places: Places,
    records: [u64; 3],
}

impl Reading {
    fn of(header: Header) -> Self {
        Self {
            places: Places {
                sent: vec![Vec::new(); header.talkers.len()],
                stamps: vec![Vec::new(); header.talkers.len()],
                arrivals: vec![Vec::new(); header.listeners.len()],
            },
            account: HostAccount::new(header),
            records: [0; 3],
        }
    }

    fn take(&mut self, block: &Block<'_>) -> Result<(), EvidenceError> {
        let (account, places) = (&mut self.account, &mut self.places);
        match block.kind {
            kind::SENT => self.records[0] += keep::<SentRecord>(block, &mut places.sent)?,
            kind::STAMPS => self.records[1] += keep::<StampRecord>(block, &mut places.stamps)?,
            kind::ARRIVALS => {
                self.records[2] += keep::<ArrivalRecord>(block, &mut places.arrivals)?;
            }
            kind::MARK => account.marks.push(block.json()?),
            kind::TALKER => account.talkers.push(block.json()?),
            kind::LISTENER => account.listeners.push(block.json()?),
            kind::NOISE if account.noise.is_none() => {
                let noise: NoiseRecord = block.json()?;
                in_order(block, &noise.stalls)?;
                account.noise = Some(noise);
            }
            kind::STALLS => match &mut account.noise {
                Some(noise) => {
                    let stalls: Vec<Stall> = block.json()?;
                    in_order(block, &stalls)?;
                    noise.stalls.extend(stalls);
                }
                None => return Err(block.contradicts("stalls before the noise record")),
            },
            kind::END => {
                let end: End = block.json()?;
                if let Some(what) = self.unfinished(&end) {
                    return Err(block.contradicts(what));
                }
                self.account.end = Some(end);
            }
            kind::HEADER => return Err(block.contradicts("a second header")),
            kind::NOISE => return Err(block.contradicts("a second noise record")),
            other => return Err(block.contradicts(format!("an unknown kind of block, {other}"))),
        }
        Ok(())
    }

    /// Returns the reason why the file cannot end here.
    fn unfinished(&self, end: &End) -> Option<String> {
        let account = &self.account;
        let header = &account.header;
        let talkers = account.talkers.iter().map(|totals| &totals.stream);
        let listeners = account.listeners.iter().map(|totals| &totals.stream);
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

/// Refuses stalls that end before they begin.
fn in_order(block: &Block<'_>, stalls: &[Stall]) -> Result<(), EvidenceError> {
    match stalls.iter().all(Stall::is_in_order) {
        true => Ok(()),
        false => Err(block.contradicts("a stall that ends before it begins")),
    }
}

/// Keeps the place of a block of records with those of its stream, and returns their number.
fn keep<R: Record>(block: &Block<'_>, streams: &mut [Vec<Place>]) -> Result<u64, EvidenceError> {
    let (Some(at), Some(records)) = (block.payload.get(..4), block.payload.get(4..)) else {
        return Err(block.contradicts("records without a stream"));
    };
    if records.len() % R::BYTES != 0 {
        return Err(block.contradicts("a part of a record"));
    }
    let stream = streams
        .get_mut(u32_at(at, 0) as usize)
        .ok_or_else(|| block.contradicts("records of a stream that the header does not have"))?;
    stream.push(block.place);
    Ok((records.len() / R::BYTES) as u64)
}
