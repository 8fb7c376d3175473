//! Explains late answers by stalls of this machine, with the noise record beside the ping.
//!
//! A thread of its own keeps the record in pieces of some seconds and compares late answers with it, while asking and
//! answering go on. So it runs for days in constant memory, and the asking loop only leaves a note.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rtwire_measure::noise::{NoiseError, NoiseOptions, NoiseRecord, NoiseRecorder, Stalls};

/// The duration of a piece of the record.
const PIECE: Duration = Duration::from_secs(5);
/// Notes that may wait for the end of a piece; further ones stay unexplained.
const NOTES: usize = 65_536;
/// The time between looks at each core, ns: more frequent looks would themselves disturb the core.
const PERIOD_NS: u64 = 100_000;
const THRESHOLD_LEAST_NS: u64 = 20_000;
const THRESHOLD_MOST_NS: u64 = 200_000;

/// A round trip that took longer than the deadline, ns of CLOCK_TAI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Late {
    pub(crate) sent_ns: u64,
    pub(crate) answered_ns: u64,
}

#[derive(Debug, Default)]
struct Counts {
    explained: AtomicU64,
    unexplained: AtomicU64,
    stalls: AtomicU64,
}

/// The result so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Explained {
    /// Late answers that a recorded stall explains.
    pub(crate) explained: u64,
    /// Late answers that no recorded stall explains.
    pub(crate) unexplained: u64,
    /// Stalls recorded.
    pub(crate) stalls: u64,
}

/// Compares late answers with the noise record.
#[derive(Debug)]
pub(crate) struct Explainer {
    notes: Option<SyncSender<Late>>,
    counts: Arc<Counts>,
    thread: Option<JoinHandle<()>>,
}

impl Explainer {
    /// Starts to record. The caller notes round trips longer than `deadline_ns`.
    pub(crate) fn start(deadline_ns: u64) -> Result<Self, NoiseError> {
        let options = NoiseOptions {
            period_ns: PERIOD_NS,
            stall_threshold_ns: (deadline_ns / 2).clamp(THRESHOLD_LEAST_NS, THRESHOLD_MOST_NS),
            // A priority above every asking thread's.
            priority: 99,
            ..NoiseOptions::default()
        };
        let recorder = NoiseRecorder::start(options.clone())?;
        let (sender, receiver) = sync_channel(NOTES);
        let counts = Arc::<Counts>::default();
        let keeper = Keeper {
            notes: receiver,
            counts: Arc::clone(&counts),
            deadline_ns,
            waiting: Vec::with_capacity(NOTES),
            before: Stalls::default(),
        };
        let thread = thread::Builder::new()
            .name("rtw-stalls".to_owned())
            .spawn(move || keeper.run(recorder, &options))
            .map_err(NoiseError::Thread)?;
        Ok(Self {
            notes: Some(sender),
            counts,
            thread: Some(thread),
        })
    }

    /// Notes a late answer. Does not wait and does not allocate; one that finds no room stays unexplained.
    pub(crate) fn note(&self, late: Late) {
        let sent = self
            .notes
            .as_ref()
            .is_some_and(|notes| notes.try_send(late).is_ok());
        if !sent {
            self.counts.unexplained.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends the record and compares the remaining notes with it.
    pub(crate) fn finish(&mut self) {
        self.notes = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    /// Returns the result so far. Late answers of the last seconds may be missing before the end.
    pub(crate) fn found(&self) -> Explained {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Explained {
            explained: get(&self.counts.explained),
            unexplained: get(&self.counts.unexplained),
            stalls: get(&self.counts.stalls),
        }
    }
}

impl Drop for Explainer {
    fn drop(&mut self) {
        self.finish();
    }
}

struct Keeper {
    notes: Receiver<Late>,
    counts: Arc<Counts>,
    deadline_ns: u64,
    waiting: Vec<Late>,
    /// The stalls of the piece before: a late answer may have begun in it.
    before: Stalls,
}

impl Keeper {
    fn run(mut self, mut recorder: NoiseRecorder, options: &NoiseOptions) {
        loop {
            let open = self.collect();
            // The next piece begins before this one ends: no stall falls between them.
            let next = open.then(|| NoiseRecorder::start(options.clone()));
            if let Ok(record) = recorder.stop() {
                self.judge(&record, !open);
            }
            match next {
                Some(Ok(next)) => recorder = next,
                _ => break,
            }
        }
        // Notes without a record to compare with.
        let left = self.waiting.len() as u64 + self.notes.iter().count() as u64;
        self.counts.unexplained.fetch_add(left, Ordering::Relaxed);
    }

    /// Collects notes for the duration of a piece. Returns whether more can come.
    fn collect(&mut self) -> bool {
        let end = Instant::now() + PIECE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.notes.recv_timeout(left) {
                Ok(late) if self.waiting.len() < NOTES => self.waiting.push(late),
                Ok(_) => {
                    self.counts.unexplained.fetch_add(1, Ordering::Relaxed);
                }
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// Compares all answers that came before the end of a record with it.
    fn judge(&mut self, record: &NoiseRecord, last: bool) {
        let own = Stalls::of(record);
        self.counts
            .stalls
            .fetch_add(record.stalls.len() as u64, Ordering::Relaxed);
        let stalls = self.before.and(&own);
        let (mut explained, mut unexplained) = (0, 0);
        self.waiting.retain(|late| {
            if late.answered_ns > record.to_ns && !last {
                return true;
            }
            if stalls.explain(late.sent_ns, late.answered_ns, self.deadline_ns) {
                explained += 1;
            } else {
                unexplained += 1;
            }
            false
        });
        self.before = own;
        self.counts
            .explained
            .fetch_add(explained, Ordering::Relaxed);
        self.counts
            .unexplained
            .fetch_add(unexplained, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(sent_ns: u64, answered_ns: u64) -> Late {
        Late {
            sent_ns,
            answered_ns,
        }
    }

    #[test]
    fn what_no_record_covers_stays_unexplained() {
        rtwire_testkit::require!(root);
        let mut explainer = Explainer::start(100_000).unwrap();
        let now = rtwire_sys::clock::now_ns(rtwire_sys::clock::Clock::Tai);
        explainer.note(late(now - 3_600_000_000_000, now));
        explainer.finish();
        let found = explainer.found();
        assert_eq!((found.explained, found.unexplained), (0, 1));
    }
}
