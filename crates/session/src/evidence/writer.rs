//! The writer of evidence: drains the rings of the real-time threads into the file. It is an ordinary thread.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rtwire_channel::CardTime;
use rtwire_measure::evidence::{
    ClockLook, Encoder, End, Header, ListenerTotals, Mark, RECORDS_IN_A_BLOCK, TalkerTotals, Unkept,
};
use rtwire_measure::noise::NoiseRecord;

use super::EvidenceOptions;
use super::file::Part;
use super::taps::{ListenerTap, TalkerTap};
use crate::real_time::now_ns;

/// The time between two marks.
const MARK: Duration = Duration::from_secs(1);
/// The time between two waits for the disk.
const SYNC: Duration = Duration::from_secs(5);

/// Writes one host's evidence.
#[derive(Debug)]
pub(crate) struct Recorder {
    file: Part,
    encoder: Encoder,
    limit_bytes: u64,
    written: u64,
    /// The first error; nothing is written after it.
    failed: Option<io::Error>,
    talkers: Vec<(TalkerTap, u64)>,
    listeners: Vec<(ListenerTap, u64)>,
    marked: Instant,
    synced: Instant,
    /// The card whose stamps the listeners have.
    card: Option<Arc<CardTime>>,
    /// True once a look at the clock that was not well is in the file although it is full.
    told_apart: bool,
}

/// The outcome of writing.
#[derive(Debug)]
pub(crate) struct Written {
    /// The size of the file, bytes.
    pub(crate) bytes: u64,
    /// Records that are not in it.
    pub(crate) unkept: u64,
    /// The error that ended it early.
    pub(crate) failed: Option<io::Error>,
}

impl Recorder {
    /// Creates the file. Nothing is in it yet.
    pub(crate) fn create(options: &EvidenceOptions) -> io::Result<Self> {
        Ok(Self {
            file: Part::create(&options.path)?,
            encoder: Encoder::default(),
            limit_bytes: options.limit_bytes,
            written: 0,
            failed: None,
            talkers: Vec::new(),
            listeners: Vec::new(),
            marked: Instant::now(),
            synced: Instant::now(),
            card: None,
            told_apart: false,
        })
    }

    /// Notes the card whose stamps the listeners have: each mark tells its error.
    pub(crate) fn stamped_by(&mut self, card: Option<Arc<CardTime>>) {
        self.card = card;
    }

    /// Writes the header. The taps are those of its talkers and listeners, in order.
    pub(crate) fn begin(
        &mut self,
        header: &Header,
        talkers: Vec<TalkerTap>,
        listeners: Vec<ListenerTap>,
    ) {
        let block = self.encoder.header(header);
        self.append(&block);
        self.talkers = talkers.into_iter().map(|tap| (tap, 0)).collect();
        self.listeners = listeners.into_iter().map(|tap| (tap, 0)).collect();
    }

    /// Writes what the rings hold, and a mark once a second with the newest look at the clock.
    pub(crate) fn round(&mut self, clock: impl FnOnce() -> Option<ClockLook>) {
        let at_ns = now_ns();
        self.drain();
        if self.marked.elapsed() < MARK {
            return;
        }
        self.marked = Instant::now();
        self.mark(at_ns, clock());
        if self.failed.is_none() && self.synced.elapsed() >= SYNC {
            self.synced = Instant::now();
            self.failed = self.file.sync().err();
        }
    }

    fn mark(&mut self, at_ns: u64, clock: Option<ClockLook>) {
        let apart = clock
            .as_ref()
            .is_some_and(|look| look.uncertainty_ns.is_none());
        let full = self.written >= self.limit_bytes;
        if full && (!apart || std::mem::replace(&mut self.told_apart, true)) {
            return;
        }
        let block = self.encoder.mark(&Mark {
            at_ns,
            clock,
            card_error_ns: self.card.as_ref().map(|card| card.error_ns()),
        });
        self.append(&block);
    }

    fn drain(&mut self) {
        let mut talkers = std::mem::take(&mut self.talkers);
        for (at, (tap, beyond)) in talkers.iter_mut().enumerate() {
            let mut records = Vec::new();
            while tap.drain_sent(RECORDS_IN_A_BLOCK, |record| records.push(record)) > 0 {
                *beyond += self.records(&records, |encoder, records| encoder.sent(at, records));
                records.clear();
            }
            let mut records = Vec::new();
            while tap.drain_stamps(RECORDS_IN_A_BLOCK, |record| records.push(record)) > 0 {
                *beyond += self.records(&records, |encoder, records| encoder.stamps(at, records));
                records.clear();
            }
        }
        self.talkers = talkers;
        let mut listeners = std::mem::take(&mut self.listeners);
        for (at, (tap, beyond)) in listeners.iter_mut().enumerate() {
            let mut records = Vec::new();
            while tap.drain(RECORDS_IN_A_BLOCK, |record| records.push(record)) > 0 {
                *beyond += self.records(&records, |encoder, records| encoder.arrivals(at, records));
                records.clear();
            }
        }
        self.listeners = listeners;
    }

    /// Appends a block of records where there is room. Returns the number of records beyond the limit.
    fn records<R>(
        &mut self,
        records: &[R],
        encode: impl FnOnce(&mut Encoder, &[R]) -> Vec<u8>,
    ) -> u64 {
        if self.failed.is_some() || self.written >= self.limit_bytes {
            return records.len() as u64;
        }
        let block = encode(&mut self.encoder, records);
        self.append(&block);
        0
    }

    fn append(&mut self, block: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        match self.file.append(block) {
            Ok(()) => self.written += block.len() as u64,
            Err(error) => self.failed = Some(error),
        }
    }

    /// Writes what is left, the totals, the noise and the end, and names the file. The totals' `unkept` is filled in.
    pub(crate) fn finish(
        mut self,
        talkers: Vec<TalkerTotals>,
        listeners: Vec<ListenerTotals>,
        noise: Option<&NoiseRecord>,
        end: End,
        clock: Option<ClockLook>,
    ) -> Written {
        self.drain();
        self.mark(now_ns(), clock);
        let mut unkept = 0;
        for (at, totals) in talkers.into_iter().enumerate() {
            let kept = self.talkers.get(at).map(|(tap, beyond)| Unkept {
                overrun: tap.overrun(),
                beyond_limit: *beyond,
            });
            let totals = TalkerTotals {
                unkept: kept.unwrap_or_default(),
                ..totals
            };
            unkept += totals.unkept.all();
            let block = self.encoder.talker(&totals);
            self.append(&block);
        }
        for (at, totals) in listeners.into_iter().enumerate() {
            let kept = self.listeners.get(at).map(|(tap, beyond)| Unkept {
                overrun: tap.overrun(),
                beyond_limit: *beyond,
            });
            let totals = ListenerTotals {
                unkept: kept.unwrap_or_default(),
                ..totals
            };
            unkept += totals.unkept.all();
            let block = self.encoder.listener(&totals);
            self.append(&block);
        }
        if let Some(noise) = noise {
            let blocks = self.encoder.noise(noise);
            self.append(&blocks);
        }
        let block = self.encoder.end(end);
        self.append(&block);
        let (bytes, failed) = (self.written, self.failed);
        Written {
            bytes,
            unkept,
            failed: failed.or_else(|| self.file.finish().err()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtwire_measure::evidence::{ClockBasis, FORMAT, SentRecord, StampKind, TalkerEntry, read};
    use rtwire_measure::report::Machine;

    fn header() -> Header {
        Header {
            format: FORMAT,
            run: "one".to_owned(),
            network: "n".to_owned(),
            plan_id: "p".to_owned(),
            epoch: 1,
            host: "A".to_owned(),
            interface: "eth0".to_owned(),
            open_ns: 1,
            start_ns: 2,
            planned_ns: None,
            talkers: vec![TalkerEntry {
                stream: "there".to_owned(),
                path: "qdisc".to_owned(),
                stamps: StampKind::Kernel,
                paced: true,
            }],
            listeners: Vec::new(),
            clock: ClockBasis::Unknown,
            stamps: None,
            boot_id: "b".to_owned(),
            machine: Machine::default(),
        }
    }

    fn written(limit_bytes: u64, frames: u32) -> (rtwire_measure::evidence::HostEvidence, Written) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.evidence");
        let options = EvidenceOptions {
            path: path.clone(),
            limit_bytes,
        };
        let mut recorder = Recorder::create(&options).unwrap();
        let tap = TalkerTap::new(100);
        recorder.begin(&header(), vec![tap.clone()], Vec::new());
        for sequence in 0..frames {
            tap.sent(SentRecord {
                sequence,
                ..SentRecord::default()
            });
            if sequence % 500 == 0 {
                recorder.round(|| None);
            }
        }
        let totals = TalkerTotals {
            stream: "there".to_owned(),
            ..TalkerTotals::default()
        };
        let done = recorder.finish(vec![totals], Vec::new(), None, End::default(), None);
        (read(&std::fs::read(&path).unwrap()).unwrap(), done)
    }

    #[test]
    fn every_frame_is_in_the_file_or_counted() {
        let (evidence, done) = written(1 << 20, 2_000);
        assert_eq!((evidence.sent[0].len(), done.unkept), (2_000, 0));
        assert!(!evidence.account.is_truncated());
        // A limit that the first frames reach.
        let (evidence, done) = written(8 << 10, 2_000);
        let kept = evidence.sent[0].len() as u64;
        assert!(kept < 1_500, "{kept}");
        assert_eq!(
            evidence.account.talkers[0].unkept.beyond_limit,
            2_000 - kept
        );
        assert_eq!(done.unkept, 2_000 - kept);
        assert!(done.failed.is_none() && !evidence.account.is_truncated());
    }

    #[test]
    fn frames_without_room_in_the_ring_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let options = EvidenceOptions {
            path: folder.path().join("a"),
            limit_bytes: 1 << 20,
        };
        let mut recorder = Recorder::create(&options).unwrap();
        let tap = TalkerTap::new(1);
        recorder.begin(&header(), vec![tap.clone()], Vec::new());
        (0..1_030).for_each(|_| tap.sent(SentRecord::default()));
        let totals = TalkerTotals {
            stream: "there".to_owned(),
            ..TalkerTotals::default()
        };
        let done = recorder.finish(vec![totals], Vec::new(), None, End::default(), None);
        assert_eq!(done.unkept, 6);
    }
}
