//! The clock of a card, as CLOCK_TAI: followed by an ordinary thread, read by real-time threads without a system call.
//!
//! ```text
//!  CardClock::read ──► Tracker: rate and offset ──► CardTime (two places, the newest counts) ──► tai_ns(card's stamp)
//!  every 0.1 s            └─ what the last reading had predicted beside what is read now: the error
//! ```
//!
//! The error is measured, not assumed. Each reading is compared with what the relation before it says of the same moment.
//! That moment is the farthest from the readings that made the relation, so the error is at its largest there.

use crate::error::LinkError;
use rtwire_sys::card_stamps::{CardStamps, CardWish};
use rtwire_sys::clock;
use rtwire_sys::phc::{CardClock, Reading};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time between two readings.
const EVERY: Duration = Duration::from_millis(100);
/// Number of readings over which the rate is taken: 1.5 s.
const READINGS: usize = 16;
/// Number of readings before the first stamp counts, and the time between them.
const FIRST: (usize, Duration) = (4, Duration::from_millis(25));
/// Difference from what was predicted, in ns, that is no rate any more: one of the clocks was set.
const SET_NS: u64 = 1_000_000;
/// Parts of the unit of a rate.
const TRILLION: i128 = 1_000_000_000_000;

/// Relation of a card's clock to CLOCK_TAI around one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Relation {
    /// The moment by the card's clock, ns.
    card_ns: u64,
    /// CLOCK_TAI minus the card's clock at that moment, ns.
    offset_ns: i64,
    /// Gain of the offset in 10^12 ns, in ns.
    rate: i64,
}

impl Relation {
    #[inline]
    fn tai_ns(self, card_ns: u64) -> u64 {
        let since = i128::from(card_ns) - i128::from(self.card_ns);
        let gained = since * i128::from(self.rate) / TRILLION;
        let tai = i128::from(card_ns) + i128::from(self.offset_ns) + gained;
        u64::try_from(tai.max(0)).unwrap_or(u64::MAX)
    }
}

/// One moment by both clocks.
#[derive(Clone, Copy, Debug)]
struct Moment {
    card_ns: u64,
    tai_ns: u64,
    uncertainty_ns: u64,
}

impl Moment {
    fn offset_ns(self) -> i64 {
        // Both are ns since some year: they differ by less than 2^63.
        self.tai_ns.wrapping_sub(self.card_ns) as i64
    }
}

/// Makes relations from readings, and measures their error.
#[derive(Debug, Default)]
struct Tracker {
    moments: std::collections::VecDeque<Moment>,
    relation: Option<Relation>,
    error_ns: u64,
    set: u64,
}

impl Tracker {
    /// Takes a reading, and returns the relation from it on.
    fn take(&mut self, now: Moment) -> Relation {
        if let Some(before) = self.relation {
            let apart_ns = before.tai_ns(now.card_ns).abs_diff(now.tai_ns);
            self.error_ns = self
                .error_ns
                .max(apart_ns.saturating_add(now.uncertainty_ns));
            if apart_ns > SET_NS {
                self.set += 1;
                self.moments.clear();
            }
        }
        let is_later = |last: &Moment| now.card_ns > last.card_ns && now.tai_ns > last.tai_ns;
        if !self.moments.back().is_none_or(is_later) {
            self.moments.clear();
        }
        if self.moments.len() == READINGS {
            self.moments.pop_front();
        }
        self.moments.push_back(now);
        let relation = Relation {
            card_ns: now.card_ns,
            offset_ns: now.offset_ns(),
            rate: self.rate(now),
        };
        self.relation = Some(relation);
        relation
    }

    fn rate(&self, now: Moment) -> i64 {
        let Some(first) = self.moments.front() else {
            return 0;
        };
        let gained = i128::from(now.offset_ns()) - i128::from(first.offset_ns());
        let time = i128::from(now.card_ns) - i128::from(first.card_ns);
        if time <= 0 {
            return 0;
        }
        i64::try_from(gained * TRILLION / time).unwrap_or(0)
    }
}

/// The relation in force, shared with the threads that convert stamps.
#[derive(Debug, Default)]
pub struct CardTime {
    /// Number of relations so far. Relation N is at place N mod 2.
    count: AtomicU64,
    places: [Place; 2],
    error_ns: AtomicU64,
    set: AtomicU64,
    clock: u32,
}

#[derive(Debug, Default)]
struct Place {
    card_ns: AtomicU64,
    offset_ns: AtomicI64,
    rate: AtomicI64,
}

impl CardTime {
    /// Returns the time of CLOCK_TAI of a card's stamp, in ns. No system call and no lock; the follower never keeps it
    /// waiting.
    #[inline]
    #[must_use]
    pub fn tai_ns(&self, card_ns: u64) -> u64 {
        loop {
            let count = self.count.load(Ordering::Acquire);
            let place = &self.places[(count & 1) as usize];
            let relation = Relation {
                card_ns: place.card_ns.load(Ordering::Acquire),
                offset_ns: place.offset_ns.load(Ordering::Acquire),
                rate: place.rate.load(Ordering::Acquire),
            };
            // The place is written only for the relation after the next one.
            if self.count.load(Ordering::Acquire) == count {
                return relation.tai_ns(card_ns);
            }
        }
    }

    /// Returns the largest error of a converted stamp so far, in ns: the difference between prediction and reading, and the
    /// uncertainty of the reading. It also contains what one of the clocks was set by.
    #[must_use]
    pub fn error_ns(&self) -> u64 {
        self.error_ns.load(Ordering::Relaxed)
    }

    /// Returns the number of times that one of both clocks was set by more than 1 ms.
    #[must_use]
    pub fn set(&self) -> u64 {
        self.set.load(Ordering::Relaxed)
    }

    /// Returns the card's clock: N of `/dev/ptpN`.
    #[must_use]
    pub fn clock(&self) -> u32 {
        self.clock
    }

    /// Returns the rate of the card's clock minus that of CLOCK_TAI, in parts per billion.
    #[must_use]
    pub fn rate_ppb(&self) -> i64 {
        let count = self.count.load(Ordering::Acquire);
        -self.places[(count & 1) as usize]
            .rate
            .load(Ordering::Relaxed)
            / 1_000
    }

    /// Publishes a relation. For one thread.
    fn publish(&self, relation: Relation, tracker: &Tracker) {
        let count = self.count.load(Ordering::Relaxed) + 1;
        let place = &self.places[(count & 1) as usize];
        place.card_ns.store(relation.card_ns, Ordering::Release);
        place.offset_ns.store(relation.offset_ns, Ordering::Release);
        place.rate.store(relation.rate, Ordering::Release);
        self.error_ns.store(tracker.error_ns, Ordering::Relaxed);
        self.set.store(tracker.set, Ordering::Relaxed);
        self.count.store(count, Ordering::Release);
    }
}

/// The clocks of a socket's stamps.
#[derive(Debug)]
pub(crate) struct StampClocks {
    tai_offset_ns: i64,
    card: Option<Arc<CardTime>>,
}

impl StampClocks {
    pub(crate) fn new() -> Result<Self, LinkError> {
        Ok(Self {
            tai_offset_ns: clock::tai_offset_ns()?,
            card: None,
        })
    }

    #[cfg(test)]
    pub(crate) fn host(tai_offset_ns: i64) -> Self {
        Self {
            tai_offset_ns,
            card: None,
        }
    }

    pub(crate) fn by_card(&mut self, card: Arc<CardTime>) {
        self.card = Some(card);
    }

    pub(crate) fn are_of_card(&self) -> bool {
        self.card.is_some()
    }

    /// Converts a stamp of CLOCK_REALTIME to CLOCK_TAI.
    pub(crate) fn host_ns(&self, realtime_ns: u64) -> Option<u64> {
        Some(realtime_ns.saturating_add_signed(self.tai_offset_ns))
    }

    /// Converts a frame's stamp to CLOCK_TAI: the card's if the card is to stamp, else the kernel's.
    #[inline]
    pub(crate) fn tai_ns(&self, realtime_ns: Option<u64>, card_ns: Option<u64>) -> Option<u64> {
        match &self.card {
            None => realtime_ns.and_then(|ns| self.host_ns(ns)),
            Some(card) => card_ns.map(|ns| card.tai_ns(ns)),
        }
    }
}

/// Holds the card's stamps on and follows its clock, until this is dropped.
#[derive(Debug)]
pub struct CardFollower {
    clock: CardClock,
    tai_offset_ns: i64,
    tracker: Tracker,
    time: Arc<CardTime>,
    looked: Instant,
    /// The card's switch goes back with it.
    _stamps: CardStamps,
}

impl CardFollower {
    /// Switches the card's stamps on and reads its clock for a tenth of a second.
    ///
    /// # Errors
    /// The card cannot do it (with the reason), CAP_NET_ADMIN is missing, or the clock cannot be read.
    pub fn open(interface: &str, wish: CardWish) -> Result<Self, LinkError> {
        let stamps = CardStamps::hold(interface, wish)?;
        let clock = CardClock::open(stamps.clock())?;
        let mut this = Self {
            time: Arc::new(CardTime {
                clock: clock.index(),
                ..CardTime::default()
            }),
            clock,
            tai_offset_ns: clock::tai_offset_ns()?,
            tracker: Tracker::default(),
            looked: Instant::now(),
            _stamps: stamps,
        };
        this.read()?;
        for _ in 1..FIRST.0 {
            std::thread::sleep(FIRST.1);
            // The rate of the first readings is not known: only the last comparison counts.
            this.tracker.error_ns = 0;
            this.read()?;
        }
        Ok(this)
    }

    /// Returns the relation for those who convert stamps.
    #[must_use]
    pub fn time(&self) -> Arc<CardTime> {
        Arc::clone(&self.time)
    }

    /// Reads the clock if a tenth of a second has passed since the last reading. Call it all the time, from a thread that is
    /// not real-time.
    ///
    /// # Errors
    /// The clock cannot be read any more.
    pub fn look(&mut self) -> Result<(), LinkError> {
        if self.looked.elapsed() < EVERY {
            return Ok(());
        }
        self.read()
    }

    /// Reads the clock now.
    ///
    /// # Errors
    /// As [`Self::look`].
    pub fn read(&mut self) -> Result<(), LinkError> {
        let Reading {
            card_ns,
            realtime_ns,
            uncertainty_ns,
            ..
        } = self.clock.read()?;
        self.looked = Instant::now();
        let tai_ns = realtime_ns.saturating_add_signed(self.tai_offset_ns);
        let now = Moment {
            card_ns,
            tai_ns,
            uncertainty_ns,
        };
        let relation = self.tracker.take(now);
        self.time.publish(relation, &self.tracker);
        Ok(())
    }
}

#[cfg(test)]
#[path = "card_time_tests.rs"]
mod tests;
