//! The ends that real-time threads note their frames at. Noting allocates nothing, takes no lock and makes no system call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rtwire_measure::evidence::{ArrivalRecord, SentRecord, StampRecord};

use super::ring::Ring;
use crate::task::{Pattern, TalkerTask};

/// The time in s that a writer may be held up before a ring is full.
const SECONDS_OF_ROOM: u64 = 8;
/// The least and the largest number of places of a ring.
const PLACES: (u64, u64) = (1 << 10, 1 << 18);
/// The largest number of late frames that are kept with their times.
pub(crate) const LATE_MOST: usize = 4_096;

/// Returns the places of a ring for `per_second` records.
fn places(per_second: u64) -> usize {
    let places = per_second
        .saturating_mul(SECONDS_OF_ROOM)
        .clamp(PLACES.0, PLACES.1);
    usize::try_from(places).unwrap_or(1 << 18)
}

/// Returns the most frames that a talker sends in a second.
pub(crate) fn frames_per_second(task: &TalkerTask) -> u64 {
    match task.pattern {
        Pattern::Cyclic { interval_ns } => 1_000_000_000 / interval_ns.max(1) + 1,
        Pattern::Greedy => u64::MAX,
        Pattern::Saturating | Pattern::Bursts { .. } => {
            let (num, den) = task.rate;
            num / den.max(1) / task.wire_bits.max(1) + 1
        }
    }
}

/// The notes of a talker; the default notes nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct TalkerTap {
    rings: Option<Arc<(Ring<4>, Ring<2>)>>,
}

impl TalkerTap {
    /// Makes a tap for some frames a second.
    pub(crate) fn new(per_second: u64) -> Self {
        // In one kernel, the ports on the route stamp a frame as well.
        let stamps = per_second.saturating_mul(4);
        Self {
            rings: Some(Arc::new((
                Ring::new(places(per_second)),
                Ring::new(places(stamps)),
            ))),
        }
    }

    /// Returns true if frames are noted.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.rings.is_some()
    }

    /// Notes a frame that was handed over. For the sending thread.
    #[inline]
    pub(crate) fn sent(&self, record: SentRecord) {
        if let Some(rings) = &self.rings {
            let numbers = u64::from(record.sequence) << 32 | u64::from(record.late_ns);
            rings.0.push([
                numbers,
                record.called_ns,
                record.returned_ns,
                record.launch_ns,
            ]);
        }
    }

    /// Notes a kernel transmit stamp. For the collecting thread.
    #[inline]
    pub(crate) fn stamp(&self, frame: u64, stamp_ns: u64) {
        if let Some(rings) = &self.rings {
            rings.1.push([frame, stamp_ns]);
        }
    }

    /// Takes up to `most` frames.
    pub(super) fn drain_sent(&self, most: usize, mut take: impl FnMut(SentRecord)) -> usize {
        let Some(rings) = &self.rings else { return 0 };
        rings.0.drain(most, |[numbers, called, returned, launch]| {
            take(SentRecord {
                sequence: (numbers >> 32) as u32,
                late_ns: numbers as u32,
                called_ns: called,
                returned_ns: returned,
                launch_ns: launch,
            });
        })
    }

    /// Takes up to `most` stamps.
    pub(super) fn drain_stamps(&self, most: usize, mut take: impl FnMut(StampRecord)) -> usize {
        let Some(rings) = &self.rings else { return 0 };
        rings.1.drain(most, |[frame, stamp_ns]| {
            take(StampRecord {
                sequence: frame as u32,
                stamp_ns,
            });
        })
    }

    /// Returns the number of frames and stamps that found no room.
    pub(super) fn overrun(&self) -> u64 {
        let rings = self.rings.as_ref();
        rings.map_or(0, |rings| rings.0.overrun() + rings.1.overrun())
    }
}

/// The notes of a listener; the default notes nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListenerTap {
    arrivals: Option<Arc<Ring<4>>>,
    delays: Option<Arc<DelayWatch>>,
}

impl ListenerTap {
    /// Makes a tap that watches delays, and notes arrivals if `per_second` says how many.
    pub(crate) fn new(per_second: Option<u64>, delays: Arc<DelayWatch>) -> Self {
        Self {
            arrivals: per_second.map(|count| Arc::new(Ring::new(places(count)))),
            delays: Some(delays),
        }
    }

    /// Notes a frame that was taken at `read_ns`.
    #[inline]
    pub(crate) fn arrival(
        &self,
        sequence: u32,
        stamp_ns: Option<u64>,
        sender_ns: Option<u64>,
        read_ns: u64,
    ) {
        if let (Some(delays), Some(sent_ns)) = (&self.delays, sender_ns) {
            delays.note(sent_ns, stamp_ns.unwrap_or(read_ns));
        }
        if let Some(ring) = &self.arrivals {
            ring.push([
                sequence.into(),
                stamp_ns.unwrap_or(0),
                sender_ns.unwrap_or(0),
                read_ns,
            ]);
        }
    }

    /// Takes up to `most` arrivals.
    pub(super) fn drain(&self, most: usize, mut take: impl FnMut(ArrivalRecord)) -> usize {
        let Some(ring) = &self.arrivals else { return 0 };
        ring.drain(most, |[sequence, stamp_ns, sender_ns, read_ns]| {
            take(ArrivalRecord {
                sequence: sequence as u32,
                stamp_ns,
                sender_ns,
                read_ns,
            });
        })
    }

    /// Returns the number of arrivals that found no room.
    pub(super) fn overrun(&self) -> u64 {
        self.arrivals.as_ref().map_or(0, |ring| ring.overrun())
    }
}

/// Counts the delays that are longer than a stream's promise and its deadline.
#[derive(Debug)]
pub(crate) struct DelayWatch {
    promise_ns: u64,
    deadline_ns: u64,
    clocks_ns: u64,
    beyond_promise: AtomicU64,
    beyond_deadline: AtomicU64,
    before_sent: AtomicU64,
    late: Ring<2>,
}

impl DelayWatch {
    /// Watches with clocks that may differ by `clocks_ns`. A limit that is `None` is not watched.
    pub(crate) fn new(promise_ns: Option<u64>, deadline_ns: Option<u64>, clocks_ns: u64) -> Self {
        let limit = |ns: Option<u64>| ns.map_or(u64::MAX, |ns| ns.saturating_add(clocks_ns));
        Self {
            promise_ns: limit(promise_ns),
            deadline_ns: limit(deadline_ns),
            clocks_ns,
            beyond_promise: AtomicU64::new(0),
            beyond_deadline: AtomicU64::new(0),
            before_sent: AtomicU64::new(0),
            late: Ring::new(LATE_MOST),
        }
    }

    fn note(&self, sent_ns: u64, came_ns: u64) {
        let delay_ns = came_ns.saturating_sub(sent_ns);
        if sent_ns.saturating_sub(came_ns) > self.clocks_ns {
            self.before_sent.fetch_add(1, Ordering::Relaxed);
        }
        if delay_ns > self.promise_ns {
            self.beyond_promise.fetch_add(1, Ordering::Relaxed);
        }
        if delay_ns > self.deadline_ns {
            self.beyond_deadline.fetch_add(1, Ordering::Relaxed);
            self.late.push([sent_ns, came_ns]);
        }
    }

    /// The frames that took longer than the promise and the clocks' difference.
    pub(crate) fn beyond_promise(&self) -> u64 {
        self.beyond_promise.load(Ordering::Relaxed)
    }

    /// The frames that took longer than the deadline and the clocks' difference.
    pub(crate) fn beyond_deadline(&self) -> u64 {
        self.beyond_deadline.load(Ordering::Relaxed)
    }

    /// The frames that came before they were sent, by more than the clocks' difference.
    pub(crate) fn before_sent(&self) -> u64 {
        self.before_sent.load(Ordering::Relaxed)
    }

    /// Returns the number of frames beyond the deadline that `explains` does not explain. It is given the time of the
    /// sender, that of the arrival, and the longest delay allowed. Frames whose times were not kept are not explained.
    pub(crate) fn unexplained(&self, explains: impl Fn(u64, u64, u64) -> bool) -> u64 {
        let mut explained = 0;
        self.late.drain(LATE_MOST, |[sent, came]| {
            explained += u64::from(explains(sent, came, self.deadline_ns));
        });
        self.beyond_deadline() - explained
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_count_beyond_each_limit_and_the_clocks() {
        let watch = DelayWatch::new(Some(100), Some(1_000), 10);
        for (sent, came) in [
            (50, 160),
            (50, 161),
            (50, 1_060),
            (50, 1_061),
            (50, 40),
            (50, 39),
        ] {
            watch.note(sent, came);
        }
        assert_eq!(
            (
                watch.beyond_promise(),
                watch.beyond_deadline(),
                watch.before_sent()
            ),
            (3, 1, 1)
        );
        assert_eq!(watch.unexplained(|_, _, _| false), 1);
        watch.note(0, 5_000);
        assert_eq!(
            watch.unexplained(|sent, came, limit| (sent, came, limit) == (0, 5_000, 1_010)),
            1,
            "the first one was taken before"
        );
    }

    #[test]
    fn noting_allocates_nothing_even_without_room() {
        let talker = TalkerTap::new(1);
        let watch = Arc::new(DelayWatch::new(Some(1), Some(1), 0));
        let listener = ListenerTap::new(Some(1), watch);
        let before = rtwire_testkit::allocations();
        for number in 0..10_000 {
            talker.sent(SentRecord::default());
            talker.stamp(number, 1);
            listener.arrival(number as u32, Some(number + 9), Some(number), number + 20);
        }
        assert_eq!(rtwire_testkit::allocations(), before);
        assert!(talker.overrun() > 10_000 && listener.overrun() > 8_000);
    }
}
