//! A ring of records from one thread to another. Pushing allocates nothing, takes no lock and makes no system call.

use std::sync::atomic::{AtomicU64, Ordering};

/// Records of `WORDS` numbers. One thread pushes, one drains.
#[derive(Debug)]
pub(crate) struct Ring<const WORDS: usize> {
    words: Box<[AtomicU64]>,
    places: u64,
    pushed: AtomicU64,
    drained: AtomicU64,
    overrun: AtomicU64,
}

impl<const WORDS: usize> Ring<WORDS> {
    /// Makes a ring of at least `places` records.
    pub(crate) fn new(places: usize) -> Self {
        let places = places.max(1).next_power_of_two();
        Self {
            words: (0..places * WORDS).map(|_| AtomicU64::new(0)).collect(),
            places: places as u64,
            pushed: AtomicU64::new(0),
            drained: AtomicU64::new(0),
            overrun: AtomicU64::new(0),
        }
    }

    /// Appends a record; without room it is counted only.
    #[inline]
    pub(crate) fn push(&self, record: [u64; WORDS]) {
        let pushed = self.pushed.load(Ordering::Relaxed);
        if pushed - self.drained.load(Ordering::Acquire) >= self.places {
            self.overrun.fetch_add(1, Ordering::Relaxed);
            return;
        }
        for (place, word) in self.place(pushed).iter().zip(record) {
            place.store(word, Ordering::Relaxed);
        }
        self.pushed.store(pushed + 1, Ordering::Release);
    }

    /// Takes up to `most` records. Returns their number.
    pub(crate) fn drain(&self, most: usize, mut take: impl FnMut([u64; WORDS])) -> usize {
        let drained = self.drained.load(Ordering::Relaxed);
        let there = self.pushed.load(Ordering::Acquire) - drained;
        let count = there.min(most as u64);
        for at in drained..drained + count {
            let place = self.place(at);
            take(std::array::from_fn(|word| {
                place[word].load(Ordering::Relaxed)
            }));
        }
        self.drained.store(drained + count, Ordering::Release);
        usize::try_from(count).unwrap_or(most)
    }

    /// Returns the number of records that found no room.
    pub(crate) fn overrun(&self) -> u64 {
        self.overrun.load(Ordering::Relaxed)
    }

    fn place(&self, at: u64) -> &[AtomicU64] {
        // Less than the ring's length, which is a `usize`.
        let from = (at & (self.places - 1)) as usize * WORDS;
        &self.words[from..from + WORDS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_in_order_and_those_without_room_are_counted() {
        let ring = Ring::<2>::new(3);
        for at in 0..6 {
            ring.push([at, at * 10]);
        }
        assert_eq!(ring.overrun(), 2, "four places");
        let mut seen = Vec::new();
        assert_eq!(ring.drain(3, |record| seen.push(record)), 3);
        ring.push([9, 90]);
        assert_eq!(ring.drain(10, |record| seen.push(record)), 2);
        assert_eq!(seen, [[0, 0], [1, 10], [2, 20], [3, 30], [9, 90]]);
    }

    #[test]
    fn two_threads_lose_and_mix_nothing() {
        const COUNT: u64 = 200_000;
        let ring = Ring::<3>::new(64);
        let mut seen = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| (0..COUNT).for_each(|at| ring.push([at, !at, at ^ 7])));
            let mut last = None;
            while seen + ring.overrun() < COUNT {
                seen += ring.drain(16, |[at, not, other]| {
                    assert_eq!((not, other), (!at, at ^ 7));
                    assert!(last.is_none_or(|last| at > last));
                    last = Some(at);
                }) as u64;
                std::thread::yield_now();
            }
        });
        assert_eq!(seen + ring.overrun(), COUNT);
    }
}
