//! The transmit timestamps of a talker, collected in a thread of their own: where each frame really left.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rtwire_channel::{TxStampKind, TxStamps};
use rtwire_measure::summary::Summary;

use super::tail::Tail;
use crate::error::SessionError;
use crate::evidence::taps::TalkerTap;
use crate::samples::SentStamp;

/// The time to wait for missing timestamps after the last frame.
const WAIT: Duration = Duration::from_millis(300);
/// The time between two looks for timestamps where nobody waits for them. The sending thread is then not disturbed by one
/// wake-up for each frame.
const LOOK: Duration = Duration::from_millis(20);
/// The number of frames whose instants are kept until their timestamps are collected.
const INSTANTS: usize = 16_384;

/// The first timestamp of each frame, by its number; 0 for none.
///
/// A frame is stamped wherever it enters a queue: first at its host, then again in each switch of the lab. The kernel
/// carries the request along with the frame. The host's own timestamp is taken while the send call runs, which tells it
/// from later ones.
#[derive(Debug)]
pub(super) struct SentStamps(Vec<u64>);

impl SentStamps {
    /// Makes room for the timestamps of `frames` frames.
    pub(super) fn new(frames: usize) -> Self {
        Self(vec![0; frames])
    }

    pub(super) fn note(&mut self, frame: u64, stamp_ns: u64) {
        let place = usize::try_from(frame)
            .ok()
            .and_then(|frame| self.0.get_mut(frame));
        if let Some(first) = place {
            if *first == 0 || stamp_ns < *first {
                *first = stamp_ns;
            }
        }
    }

    /// Returns the timestamps that are not later than `returned_ns`, the end of their frame's send call.
    pub(super) fn records(&self, returned_ns: &[u64]) -> Vec<SentStamp> {
        (0_u32..)
            .zip(self.0.iter().zip(returned_ns))
            .filter(|(_, (stamp_ns, returned_ns))| **stamp_ns != 0 && stamp_ns <= returned_ns)
            .map(|(sequence, (&stamp_ns, _))| SentStamp { sequence, stamp_ns })
            .collect()
    }
}

/// The shared place of the sending thread and the collector. No lock.
#[derive(Debug)]
pub(super) struct Instants {
    /// From the sending thread: the instants of the newest frames. The oldest are overwritten.
    due_ns: Box<[AtomicU64]>,
    /// From the collector: the newest frame with a timestamp, counted from 1; 0 while the timestamp changes.
    stamped: AtomicU64,
    stamp_ns: AtomicU64,
}

impl Instants {
    pub(super) fn new() -> Self {
        Self {
            due_ns: (0..INSTANTS).map(|_| AtomicU64::new(0)).collect(),
            stamped: AtomicU64::new(0),
            stamp_ns: AtomicU64::new(0),
        }
    }

    fn place(&self, frame: u64) -> &AtomicU64 {
        // The remainder fits: it is less than the length.
        &self.due_ns[(frame % INSTANTS as u64) as usize]
    }

    /// Notes the first timestamp of a frame.
    fn left(&self, frame: u64, stamp_ns: u64) {
        self.stamped.store(0, Ordering::SeqCst);
        self.stamp_ns.store(stamp_ns, Ordering::SeqCst);
        self.stamped.store(frame + 1, Ordering::SeqCst);
    }

    /// Returns the timestamp of the frame, if it is the newest that has one. Two or three loads.
    pub(super) fn left_ns(&self, frame: u64) -> Option<u64> {
        let is_newest = || self.stamped.load(Ordering::SeqCst) == frame + 1;
        let stamp_ns = is_newest().then(|| self.stamp_ns.load(Ordering::SeqCst));
        stamp_ns.filter(|_| is_newest())
    }

    /// Notes the instant of a frame that is about to be sent.
    pub(super) fn note(&self, frame: u64, due_ns: u64) {
        self.place(frame).store(due_ns, Ordering::Release);
    }

    /// Returns the time in ns from a frame's instant to its timestamp; `None` if its instant was overwritten.
    fn error_ns(&self, frame: u64, stamp_ns: u64) -> Option<u64> {
        match self.place(frame).load(Ordering::Acquire) {
            0 => None,
            // A later frame's instant is behind the timestamp.
            due_ns => stamp_ns.checked_sub(due_ns),
        }
    }
}

/// Results of the timestamps of a talker.
#[derive(Debug)]
pub(super) struct Stamped {
    /// The kernel's timestamps minus the instants of their frames.
    pub(super) off_grid: Option<Summary>,
    /// The card's timestamps minus the instants of their frames.
    pub(super) on_wire: Option<Summary>,
    /// Frames that the card stamped.
    pub(super) by_card: u64,
}

/// Collects the timestamps of one talker.
#[derive(Debug)]
pub(super) struct Collector<'a> {
    sent: SentStamps,
    /// The instants of a talker on a grid.
    instants: Option<&'a Instants>,
    off_grid: Tail,
    on_wire: Tail,
    /// Frames that the card stamped.
    by_card: u64,
    /// The number of the next frame that has no timestamp yet: further ones of the same frame are of other queues.
    next: u64,
    /// The place of the evidence.
    tap: TalkerTap,
}

impl<'a> Collector<'a> {
    pub(super) fn new(sent: SentStamps, instants: Option<&'a Instants>, tap: TalkerTap) -> Self {
        Self {
            sent,
            instants,
            off_grid: Tail::new(),
            on_wire: Tail::new(),
            by_card: 0,
            next: 0,
            tap,
        }
    }

    /// Collects until the talker is `over` and no more timestamps come.
    pub(super) fn collect(
        &mut self,
        stamps: &mut TxStamps,
        over: &AtomicBool,
    ) -> Result<(), SessionError> {
        let kept = !self.sent.0.is_empty();
        let mut last_news = Instant::now();
        loop {
            let was_over = over.load(Ordering::Acquire);
            if !kept {
                thread::sleep(LOOK);
            }
            let wait = if kept { LOOK } else { Duration::ZERO };
            let count = stamps
                .collect(wait, |stamp| match stamp.kind {
                    TxStampKind::Card => self.note_wire(stamp.frame, stamp.tai_ns),
                    TxStampKind::Queue | TxStampKind::Driver => {
                        self.note(stamp.frame, stamp.tai_ns);
                    }
                })
                .map_err(|error| SessionError::Work(error.to_string()))?;
            if count > 0 {
                last_news = Instant::now();
            } else if was_over && last_news.elapsed() > WAIT {
                return Ok(());
            }
        }
    }

    fn note(&mut self, frame: u64, stamp_ns: u64) {
        self.sent.note(frame, stamp_ns);
        self.tap.stamp(frame, stamp_ns);
        if frame < self.next {
            return;
        }
        self.next = frame + 1;
        let Some(instants) = self.instants else {
            return;
        };
        instants.left(frame, stamp_ns);
        if let Some(error_ns) = instants.error_ns(frame, stamp_ns) {
            self.off_grid.record(error_ns);
        }
    }

    /// Notes the card's timestamp of a frame.
    fn note_wire(&mut self, frame: u64, stamp_ns: u64) {
        self.by_card += 1;
        let error = self.instants.and_then(|all| all.error_ns(frame, stamp_ns));
        if let Some(error_ns) = error {
            self.on_wire.record(error_ns);
        }
    }

    /// Returns the timestamps that are kept, and the summaries of the errors against the grid.
    pub(super) fn into_results(self) -> (SentStamps, Stamped) {
        let stamped = Stamped {
            off_grid: self.off_grid.summary(),
            on_wire: self.on_wire.summary(),
            by_card: self.by_card,
        };
        (self.sent, stamped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_of_the_first_queue_and_of_the_frame_s_own_instant() {
        let instants = Instants::new();
        let mut collector =
            Collector::new(SentStamps::new(0), Some(&instants), TalkerTap::default());
        for frame in 0..3 {
            instants.note(frame, 1_000_000 * (frame + 1));
        }
        collector.note(0, 1_005_000);
        collector.note(0, 1_900_000);
        assert_eq!(instants.left_ns(0), Some(1_005_000), "its own queue's");
        assert_eq!(instants.left_ns(1), None);
        // Frame 1 left nearly a cycle late, still by its own instant.
        collector.note(1, 2_990_000);
        collector.note(2, 3_007_000);
        // The card's are of the same instants, and apart from the kernel's.
        collector.note_wire(1, 2_995_000);
        let (_, stamped) = collector.into_results();
        let on_wire = stamped.on_wire.unwrap();
        assert_eq!(
            (on_wire.samples, on_wire.max, stamped.by_card),
            (1, 995_000, 1)
        );
        let errors = stamped.off_grid.unwrap();
        assert_eq!((errors.samples, errors.max), (3, 990_000));
        assert!(errors.p50.abs_diff(7_000) <= 7, "{errors:?}");
    }

    #[test]
    fn an_instant_that_was_overwritten_counts_for_nothing() {
        let instants = Instants::new();
        instants.note(0, 1_000);
        instants.note(INSTANTS as u64, 9_000);
        assert_eq!(instants.error_ns(0, 1_500), None);
        assert_eq!(instants.error_ns(INSTANTS as u64, 9_500), Some(500));
        assert_eq!(instants.error_ns(7, 1_500), None, "never sent");
    }
}
