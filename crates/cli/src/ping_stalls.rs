//! Explains late answers by stalls of the cores that they passed, with the noise record beside the ping.
//!
//! A thread of its own keeps the record in pieces of some seconds and compares late answers with it, while asking and
//! answering go on. So it runs for days in constant memory, and the asking loop only leaves a note.
//!
//! A late answer can lie in a stall by accident. The number that would is computed from the same stalls: each late answer
//! is moved to a random moment near its own. No more than that is no explanation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rtwire_measure::noise::{
    NoiseError, NoiseOptions, NoiseRecord, NoiseRecorder, OwnCall, Stalls,
};

/// The duration of a piece of the record.
const PIECE: Duration = Duration::from_secs(5);
/// Notes that may wait for the end of a piece; further ones stay unexplained.
const NOTES: usize = 65_536;
/// The time between looks at each core, ns: more frequent looks would themselves disturb the core.
const PERIOD_NS: u64 = 100_000;
const THRESHOLD_LEAST_NS: u64 = 20_000;
const THRESHOLD_MOST_NS: u64 = 200_000;
/// The time around a late answer in which it could have been by accident, ns. Short, since load comes and goes.
const AROUND_NS: u64 = 100_000_000;
/// The number of different round trips in that time whose chance is computed; others take that of the nearest.
const LENGTHS: usize = 8;
/// The late answers that are kept one by one, the first ones.
const MISSES_KEPT: usize = 1000;

/// A round trip that took longer than the deadline, ns of CLOCK_TAI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Late {
    /// The number of the question.
    pub(crate) number: u64,
    pub(crate) sent_ns: u64,
    pub(crate) answered_ns: u64,
    /// The core that sent the question, and the core that read the answer.
    pub(crate) cores: [u32; 2],
    /// The send call of the question.
    pub(crate) call: OwnCall,
}

impl Late {
    fn took_ns(&self) -> u64 {
        self.answered_ns.saturating_sub(self.sent_ns)
    }
}

/// A late answer that was compared with the stalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Miss {
    /// The number of the question.
    pub(crate) number: u64,
    /// The round trip, ns.
    pub(crate) round_trip_ns: u64,
    /// True if stalls can have made it late.
    pub(crate) in_stall: bool,
}

/// The record of one core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CoreStalls {
    /// Stalls recorded.
    pub(crate) stalls: u64,
    /// Stalls that found no room in the record.
    pub(crate) dropped: u64,
    /// The time that the recorded ones took, ns.
    pub(crate) covered_ns: u64,
}

/// The result so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// Late answers that stalls can have made late.
    pub(crate) in_stalls: u64,
    /// Late answers that no recorded stall can have made late.
    pub(crate) outside: u64,
    /// The number of late answers that would lie in stalls by accident.
    pub(crate) by_chance: f64,
    /// The variance of that number.
    variance: f64,
    /// The cores that late answers passed, or that were named.
    cores: BTreeSet<u32>,
    /// The record of every core.
    records: BTreeMap<u32, CoreStalls>,
    /// The time recorded, ns.
    recorded_ns: u64,
    /// The first late answers.
    pub(crate) misses: Vec<Miss>,
}

impl Found {
    /// Returns the most late answers that lie in stalls by accident: the mean and two standard deviations.
    pub(crate) fn chance_at_most(&self) -> f64 {
        self.by_chance + 2.0 * self.variance.sqrt()
    }

    /// Returns true if late answers lie in stalls, and no more of them than accident puts there.
    pub(crate) fn is_accident(&self) -> bool {
        self.in_stalls > 0 && self.in_stalls as f64 <= self.chance_at_most()
    }

    /// Returns the number of late answers that stalls explain.
    pub(crate) fn explained(&self) -> u64 {
        if self.is_accident() {
            0
        } else {
            self.in_stalls
        }
    }

    /// Returns the number of late answers that nothing explains.
    pub(crate) fn unexplained(&self) -> u64 {
        self.in_stalls + self.outside - self.explained()
    }

    /// Returns the records of the cores that count.
    pub(crate) fn records(&self) -> impl Iterator<Item = (u32, CoreStalls)> + '_ {
        let of = |core: &u32| (*core, self.records.get(core).copied().unwrap_or_default());
        self.cores.iter().map(of)
    }

    /// Returns the part of the time, 0 to 1, that the stalls of a record can have taken.
    pub(crate) fn share(&self, record: CoreStalls) -> f64 {
        record.covered_ns as f64 / self.recorded_ns.max(1) as f64
    }

    /// Returns the cores that count and whose record was full, each with the number of stalls that found no room.
    pub(crate) fn full(&self) -> Vec<(u32, u64)> {
        self.records()
            .filter(|(_, record)| record.dropped > 0)
            .map(|(core, record)| (core, record.dropped))
            .collect()
    }
}

/// Compares late answers with the noise record.
#[derive(Debug)]
pub(crate) struct Explainer {
    notes: Option<SyncSender<Late>>,
    /// Late answers that found no room.
    overflow: AtomicU64,
    found: Arc<Mutex<Found>>,
    thread: Option<JoinHandle<()>>,
}

/// Returns the options of a record on these cores; on none: on all that this process may run on.
pub(crate) fn options(deadline_ns: u64, cores: Vec<u32>) -> NoiseOptions {
    NoiseOptions {
        cores,
        period_ns: PERIOD_NS,
        stall_threshold_ns: (deadline_ns / 2).clamp(THRESHOLD_LEAST_NS, THRESHOLD_MOST_NS),
        // A priority above every asking thread's.
        priority: 99,
        ..NoiseOptions::default()
    }
}

impl Explainer {
    /// Starts to record. The caller notes round trips longer than `deadline_ns`. Stalls of the cores `also` count for
    /// each of them.
    pub(crate) fn start(
        options: NoiseOptions,
        deadline_ns: u64,
        also: Vec<u32>,
    ) -> Result<Self, NoiseError> {
        let recorder = NoiseRecorder::start(options.clone())?;
        let (sender, receiver) = sync_channel(NOTES);
        let found = Arc::new(Mutex::new(Found {
            cores: also.iter().copied().collect(),
            misses: Vec::with_capacity(MISSES_KEPT),
            ..Found::default()
        }));
        let keeper = Keeper {
            notes: receiver,
            found: Arc::clone(&found),
            deadline_ns,
            also,
            waiting: Vec::with_capacity(NOTES),
            before: NoiseRecord::default(),
        };
        let thread = thread::Builder::new()
            .name("rtw-stalls".to_owned())
            .spawn(move || keeper.run(recorder, &options))
            .map_err(NoiseError::Thread)?;
        Ok(Self {
            notes: Some(sender),
            overflow: AtomicU64::new(0),
            found,
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
            self.overflow.fetch_add(1, Ordering::Relaxed);
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
    pub(crate) fn found(&self) -> Found {
        let mut found = locked(&self.found).clone();
        found.outside += self.overflow.load(Ordering::Relaxed);
        found
    }
}

impl Drop for Explainer {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Counts stay right where a thread panicked: each update is whole.
fn locked(found: &Mutex<Found>) -> MutexGuard<'_, Found> {
    found.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Keeper {
    notes: Receiver<Late>,
    found: Arc<Mutex<Found>>,
    deadline_ns: u64,
    also: Vec<u32>,
    waiting: Vec<Late>,
    /// The piece before: a late answer may have begun in it.
    before: NoiseRecord,
}

impl Keeper {
    fn run(mut self, mut recorder: NoiseRecorder, options: &NoiseOptions) {
        loop {
            let open = self.collect();
            // The next piece begins before this one ends: no stall falls between them.
            let next = open.then(|| NoiseRecorder::start(options.clone()));
            if let Ok(record) = recorder.stop() {
                self.judge(record, !open);
            }
            match next {
                Some(Ok(next)) => recorder = next,
                _ => break,
            }
        }
        // Notes without a record to compare with.
        let left = self.waiting.len() as u64 + self.notes.iter().count() as u64;
        locked(&self.found).outside += left;
    }

    /// Collects notes for the duration of a piece. Returns whether more can come.
    fn collect(&mut self) -> bool {
        let end = Instant::now() + PIECE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.notes.recv_timeout(left) {
                Ok(late) if self.waiting.len() < NOTES => self.waiting.push(late),
                Ok(_) => locked(&self.found).outside += 1,
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// Compares all answers that came before the end of a record with it.
    fn judge(&mut self, record: NoiseRecord, last: bool) {
        let mut judged: BTreeMap<(u32, Vec<u32>), Vec<Late>> = BTreeMap::new();
        self.waiting.retain(|late| {
            if late.answered_ns > record.to_ns && !last {
                return true;
            }
            let mut cores = [&late.cores[..], &self.also].concat();
            cores.sort_unstable();
            cores.dedup();
            let alike = judged.entry((late.cores[0], cores)).or_default();
            alike.push(*late);
            false
        });
        let mut found = locked(&self.found);
        for core in &record.cores {
            let entry = found.records.entry(core.core).or_default();
            entry.stalls += core.stalls;
            entry.dropped += core.dropped_stalls;
            entry.covered_ns +=
                Stalls::likely_on(&record, &[core.core]).covered_ns(record.from_ns, record.to_ns);
        }
        found.recorded_ns += record.to_ns.saturating_sub(record.from_ns);
        let of = |cores: &[u32]| {
            Stalls::likely_on(&record, cores).and(&Stalls::likely_on(&self.before, cores))
        };
        for ((sender, cores), lates) in judged {
            let mut stalls = of(&cores);
            if cores.len() == 1 {
                stalls = stalls.of_its_own_core();
            }
            let known = Known {
                stalls,
                of_sender: of(&[sender]),
                from_ns: match self.before.from_ns {
                    0 => record.from_ns,
                    before => before,
                },
                to_ns: record.to_ns,
                deadline_ns: self.deadline_ns,
            };
            found.cores.extend(cores);
            known.compare(lates, &mut found);
        }
        drop(found);
        self.before = record;
    }
}

/// The stalls of some cores, and the time that is known of them.
struct Known {
    stalls: Stalls,
    /// Those of the core that sent.
    of_sender: Stalls,
    from_ns: u64,
    to_ns: u64,
    deadline_ns: u64,
}

impl Known {
    fn compare(&self, lates: Vec<Late>, found: &mut Found) {
        let mut near: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for late in lates {
            // What the send call usually takes is no stall of its core.
            let own_ns = (self.of_sender).within_call_ns(late.sent_ns, late.call);
            let deadline_ns = self.deadline_ns.saturating_sub(own_ns);
            let in_stall = (self.stalls).explain(late.sent_ns, late.answered_ns, deadline_ns);
            if in_stall {
                found.in_stalls += 1;
            } else {
                found.outside += 1;
            }
            if found.misses.len() < MISSES_KEPT {
                found.misses.push(Miss {
                    number: late.number,
                    round_trip_ns: late.took_ns(),
                    in_stall,
                });
            }
            let place = late.sent_ns.saturating_sub(self.from_ns) / AROUND_NS;
            near.entry(place).or_default().push(late.took_ns());
        }
        for (place, mut lengths) in near {
            lengths.sort_unstable();
            for alike in lengths.chunks(lengths.len().div_ceil(LENGTHS)) {
                let chance = self.chance(place, alike[alike.len() / 2]);
                found.by_chance += alike.len() as f64 * chance;
                found.variance += alike.len() as f64 * chance * (1.0 - chance);
            }
        }
    }

    /// Returns the chance of a round trip that began at a random moment of this place.
    fn chance(&self, place: u64, took_ns: u64) -> f64 {
        let to_ns = (self.from_ns + (place + 1) * AROUND_NS).min(self.to_ns);
        let from_ns = to_ns.saturating_sub(AROUND_NS).max(self.from_ns);
        (self.stalls).chance(from_ns, to_ns, took_ns, self.deadline_ns)
    }
}

#[cfg(test)]
#[path = "ping_stalls_tests.rs"]
mod tests;
