//! Encodes blocks. The caller writes the bytes to the file.

use serde::Serialize;

use super::check::crc;
use super::model::{
    ArrivalRecord, End, Header, HostEvidence, ListenerTotals, Mark, SentRecord, StampRecord,
    TalkerTotals,
};
use crate::noise::{NoiseRecord, Stall};

/// The first bytes of the file.
pub(super) const MAGIC: &[u8; 16] = b"rtwire evidence\n";
/// The largest payload of a block, bytes. A longer one is not read.
pub(super) const PAYLOAD_MOST: usize = 4 << 20;
/// The largest number of records in one block.
pub const RECORDS_IN_A_BLOCK: usize = 4_096;
/// The largest number of stalls in one block.
const STALLS_IN_A_BLOCK: usize = 4_096;

/// The kinds of blocks.
pub(super) mod kind {
    pub(in super::super) const HEADER: u8 = 1;
    pub(in super::super) const SENT: u8 = 2;
    pub(in super::super) const STAMPS: u8 = 3;
    pub(in super::super) const ARRIVALS: u8 = 4;
    pub(in super::super) const MARK: u8 = 5;
    pub(in super::super) const TALKER: u8 = 6;
    pub(in super::super) const LISTENER: u8 = 7;
    pub(in super::super) const NOISE: u8 = 8;
    pub(in super::super) const STALLS: u8 = 9;
    pub(in super::super) const END: u8 = 10;
}

/// A record of fixed length in a block.
pub(super) trait Record: Copy {
    const BYTES: usize;
    fn put(&self, out: &mut Vec<u8>);
    fn take(bytes: &[u8]) -> Self;
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

impl Record for SentRecord {
    const BYTES: usize = 32;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.sequence.to_le_bytes());
        out.extend(self.late_ns.to_le_bytes());
        for word in [self.called_ns, self.returned_ns, self.launch_ns] {
            out.extend(word.to_le_bytes());
        }
    }

    fn take(bytes: &[u8]) -> Self {
        Self {
            sequence: u32_at(bytes, 0),
            late_ns: u32_at(bytes, 4),
            called_ns: u64_at(bytes, 8),
            returned_ns: u64_at(bytes, 16),
            launch_ns: u64_at(bytes, 24),
        }
    }
}

impl Record for StampRecord {
    const BYTES: usize = 12;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.sequence.to_le_bytes());
        out.extend(self.stamp_ns.to_le_bytes());
    }

    fn take(bytes: &[u8]) -> Self {
        Self {
            sequence: u32_at(bytes, 0),
            stamp_ns: u64_at(bytes, 4),
        }
    }
}

impl Record for ArrivalRecord {
    const BYTES: usize = 28;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.sequence.to_le_bytes());
        for word in [self.stamp_ns, self.sender_ns, self.read_ns] {
            out.extend(word.to_le_bytes());
        }
    }

    fn take(bytes: &[u8]) -> Self {
        Self {
            sequence: u32_at(bytes, 0),
            stamp_ns: u64_at(bytes, 4),
            sender_ns: u64_at(bytes, 12),
            read_ns: u64_at(bytes, 20),
        }
    }
}

/// Encodes the blocks of one file in order. Each call returns the bytes to append.
#[derive(Debug, Default)]
pub struct Encoder {
    chain: u32,
    records: [u64; 3],
}

impl Encoder {
    /// Returns the magic and the header block.
    #[must_use]
    pub fn header(&mut self, header: &Header) -> Vec<u8> {
        self.chain = crc(0, MAGIC);
        let mut out = MAGIC.to_vec();
        out.extend(self.json(kind::HEADER, header));
        out
    }

    /// Returns a block of frames that the talker `at` of the header sent; at most [`RECORDS_IN_A_BLOCK`].
    #[must_use]
    pub fn sent(&mut self, at: usize, records: &[SentRecord]) -> Vec<u8> {
        self.records[0] += records.len() as u64;
        self.records_of(kind::SENT, at, records)
    }

    /// Returns a block of kernel transmit stamps of the talker `at`; at most [`RECORDS_IN_A_BLOCK`].
    #[must_use]
    pub fn stamps(&mut self, at: usize, records: &[StampRecord]) -> Vec<u8> {
        self.records[1] += records.len() as u64;
        self.records_of(kind::STAMPS, at, records)
    }

    /// Returns a block of arrivals at the listener `at`; at most [`RECORDS_IN_A_BLOCK`].
    #[must_use]
    pub fn arrivals(&mut self, at: usize, records: &[ArrivalRecord]) -> Vec<u8> {
        self.records[2] += records.len() as u64;
        self.records_of(kind::ARRIVALS, at, records)
    }

    /// Returns a mark.
    #[must_use]
    pub fn mark(&mut self, mark: &Mark) -> Vec<u8> {
        self.json(kind::MARK, mark)
    }

    /// Returns the totals of a talker.
    #[must_use]
    pub fn talker(&mut self, totals: &TalkerTotals) -> Vec<u8> {
        self.json(kind::TALKER, totals)
    }

    /// Returns the totals of a listener.
    #[must_use]
    pub fn listener(&mut self, totals: &ListenerTotals) -> Vec<u8> {
        self.json(kind::LISTENER, totals)
    }

    /// Returns the noise record, its stalls in blocks of their own.
    #[must_use]
    pub fn noise(&mut self, noise: &NoiseRecord) -> Vec<u8> {
        let without = NoiseRecord {
            stalls: Vec::new(),
            ..noise.clone()
        };
        let mut out = self.json(kind::NOISE, &without);
        for stalls in noise.stalls.chunks(STALLS_IN_A_BLOCK) {
            out.extend(self.json::<[Stall]>(kind::STALLS, stalls));
        }
        out
    }

    /// Returns the end block; `end.records` is filled in.
    #[must_use]
    pub fn end(&mut self, end: End) -> Vec<u8> {
        let records = self.records;
        self.json(kind::END, &End { records, ..end })
    }

    /// Returns a block of any kind and content, with right checks: for tests of readers.
    #[doc(hidden)]
    #[must_use]
    pub fn raw(&mut self, kind: u8, payload: &[u8]) -> Vec<u8> {
        self.block(kind, payload)
    }

    fn records_of<R: Record>(&mut self, kind: u8, at: usize, records: &[R]) -> Vec<u8> {
        let mut payload = Vec::with_capacity(4 + records.len() * R::BYTES);
        payload.extend(u32::try_from(at).unwrap_or(u32::MAX).to_le_bytes());
        for record in records {
            record.put(&mut payload);
        }
        self.block(kind, &payload)
    }

    fn json<T: Serialize + ?Sized>(&mut self, kind: u8, value: &T) -> Vec<u8> {
        // Plain data with text keys and no floating-point number always has a JSON form.
        let payload = serde_json::to_vec(value)
            .unwrap_or_else(|error| unreachable!("plain data has a JSON form: {error}"));
        self.block(kind, &payload)
    }

    fn block(&mut self, kind: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let mut out = Vec::with_capacity(payload.len() + 13);
        out.push(kind);
        out.extend(length.to_le_bytes());
        self.chain = crc(self.chain, &out);
        out.extend(self.chain.to_le_bytes());
        out.extend(payload);
        self.chain = crc(self.chain, payload);
        out.extend(self.chain.to_le_bytes());
        out
    }
}

impl HostEvidence {
    /// Returns the file of this evidence.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut encoder = Encoder::default();
        let mut out = encoder.header(&self.account.header);
        for (at, records) in self.sent.iter().enumerate() {
            for chunk in records.chunks(RECORDS_IN_A_BLOCK) {
                out.extend(encoder.sent(at, chunk));
            }
        }
        for (at, records) in self.stamps.iter().enumerate() {
            for chunk in records.chunks(RECORDS_IN_A_BLOCK) {
                out.extend(encoder.stamps(at, chunk));
            }
        }
        for (at, records) in self.arrivals.iter().enumerate() {
            for chunk in records.chunks(RECORDS_IN_A_BLOCK) {
                out.extend(encoder.arrivals(at, chunk));
            }
        }
        for mark in &self.account.marks {
            out.extend(encoder.mark(mark));
        }
        for totals in &self.account.talkers {
            out.extend(encoder.talker(totals));
        }
        for totals in &self.account.listeners {
            out.extend(encoder.listener(totals));
        }
        if let Some(noise) = &self.account.noise {
            out.extend(encoder.noise(noise));
        }
        if let Some(end) = self.account.end {
            out.extend(encoder.end(end));
        }
        out
    }
}
