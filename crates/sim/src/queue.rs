//! What happens next: events in order of time, then of a tie number, then of arrival.
//!
//! A wheel of buckets for the near future, a heap for the far one. A bucket is a
//! list within one slab of slots, so that once the slab has its size nothing is
//! allocated; it is sorted only when its turn comes. With buckets about as wide as
//! two events are apart, putting in and taking out cost the same however many wait.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

const NONE: u32 = u32::MAX;
/// Buckets of the wheel, a power of two, a multiple of 64.
const BUCKETS: u64 = 4096;

/// When, and in which order at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    time_ps: u64,
    /// The tie number above, the serial number below.
    order: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot<E> {
    key: Key,
    event: E,
    next: u32,
}

/// Waits long: its slot holds the event.
type Far = Reverse<(Key, u32)>;

/// A queue of events.
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    slots: Vec<Slot<E>>,
    free: u32,
    heads: Vec<u32>,
    /// Which buckets hold something, a bit each.
    filled: Vec<u64>,
    in_wheel: usize,
    far: BinaryHeap<Far>,
    /// The bucket at hand and what was put before it since, latest first.
    current: Vec<(Key, E)>,
    /// Number of the bucket at hand since time 0.
    tick: u64,
    shift: u32,
    serial: u64,
}

impl<E: Copy> EventQueue<E> {
    /// An empty queue at time 0; events are expected about `gap_ps` apart.
    #[must_use]
    pub fn new(gap_ps: u64) -> EventQueue<E> {
        EventQueue {
            slots: Vec::new(),
            free: NONE,
            heads: vec![NONE; usize::try_from(BUCKETS).unwrap_or(0)],
            filled: vec![0; usize::try_from(BUCKETS / 64).unwrap_or(0)],
            in_wheel: 0,
            far: BinaryHeap::new(),
            current: Vec::new(),
            tick: 0,
            shift: 63 - gap_ps.clamp(1, 1 << 50).leading_zeros() + 1,
            serial: 0,
        }
    }

    /// Empty again at time 0, with all memory kept.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.free = NONE;
        self.heads.fill(NONE);
        self.filled.fill(0);
        self.in_wheel = 0;
        self.far.clear();
        self.current.clear();
        self.tick = 0;
        self.serial = 0;
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.current.len() + self.in_wheel + self.far.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All that waits, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &E> {
        let wheel = self.heads.iter().flat_map(move |head| {
            let mut at = *head;
            std::iter::from_fn(move || {
                let slot = self.slots.get(usize::try_from(at).ok()?)?;
                at = slot.next;
                Some(&slot.event)
            })
        });
        let far = self.far.iter();
        wheel
            .chain(far.filter_map(|entry| {
                let slot = self.slots.get(usize::try_from(entry.0.1).ok()?)?;
                Some(&slot.event)
            }))
            .chain(self.current.iter().map(|entry| &entry.1))
    }

    /// Put an event at `time_ps`; of those at one instant a smaller `tie` comes first, then what was put first.
    pub fn push(&mut self, time_ps: u64, tie: u16, event: E) {
        self.serial += 1;
        let key = Key {
            time_ps,
            order: u64::from(tie) << 48 | self.serial,
        };
        let tick = self.tick_of(time_ps);
        if tick <= self.tick {
            let at = self.current.partition_point(|entry| entry.0 > key);
            self.current.insert(at, (key, event));
            return;
        }
        let index = self.slot(key, event);
        if tick - self.tick < BUCKETS {
            self.hang(tick, index);
        } else {
            self.far.push(Reverse((key, index)));
        }
    }

    /// Counted from 1, so that time 0 is ahead of an empty queue and not a sorted insertion each.
    fn tick_of(&self, time_ps: u64) -> u64 {
        (time_ps >> self.shift) + 1
    }

    fn slot(&mut self, key: Key, event: E) -> u32 {
        let slot = Slot {
            key,
            event,
            next: NONE,
        };
        let index = self.free;
        if let Some(old) = self.slots.get_mut(index as usize) {
            self.free = old.next;
            *old = slot;
            return index;
        }
        self.slots.push(slot);
        // Four thousand million events at once do not fit the memory of any machine that this runs on.
        u32::try_from(self.slots.len() - 1).unwrap_or(NONE)
    }

    fn hang(&mut self, tick: u64, index: u32) {
        let bucket = (tick % BUCKETS) as usize;
        self.slots[index as usize].next = self.heads[bucket];
        self.heads[bucket] = index;
        self.filled[bucket / 64] |= 1 << (bucket % 64);
        self.in_wheel += 1;
    }

    /// The next event, if it is due at exactly `time_ps`, which must be the time of the last event or before.
    pub fn pop_at(&mut self, time_ps: u64) -> Option<E> {
        match self.current.last() {
            Some((key, _)) if key.time_ps == time_ps => self.current.pop().map(|entry| entry.1),
            _ => None,
        }
    }

    /// When the next event is due.
    pub fn next_time_ps(&mut self) -> Option<u64> {
        if self.current.is_empty() {
            self.advance();
        }
        self.current.last().map(|entry| entry.0.time_ps)
    }

    /// Go to the next bucket that holds something.
    fn advance(&mut self) {
        let far_tick = self.far.peek().map(|far| self.tick_of(far.0.0.time_ps));
        let next = match (self.next_filled(), far_tick) {
            (Some(near), Some(far)) => near.min(far),
            (Some(tick), None) | (None, Some(tick)) => tick,
            (None, None) => return,
        };
        self.tick = next;
        while let Some(Reverse((key, index))) = self.far.peek().copied() {
            let tick = self.tick_of(key.time_ps);
            if tick - self.tick >= BUCKETS {
                break;
            }
            self.far.pop();
            self.hang(tick, index);
        }
        let bucket = (next % BUCKETS) as usize;
        let mut at = std::mem::replace(&mut self.heads[bucket], NONE);
        self.filled[bucket / 64] &= !(1 << (bucket % 64));
        while let Some(slot) = self.slots.get_mut(at as usize) {
            self.current.push((slot.key, slot.event));
            let following = std::mem::replace(&mut slot.next, self.free);
            self.free = at;
            at = following;
            self.in_wheel -= 1;
        }
        self.current.sort_unstable_by_key(|entry| Reverse(entry.0));
    }

    /// Number of the first bucket after the one at hand that holds something.
    fn next_filled(&self) -> Option<u64> {
        if self.in_wheel == 0 {
            return None;
        }
        let start = self.tick + 1;
        let first = (start % BUCKETS) as usize;
        let words = self.filled.len();
        let mut word = self.filled[first / 64] & (u64::MAX << (first % 64));
        for step in 0..=words {
            let at = (first / 64 + step) % words;
            if step > 0 {
                word = self.filled[at];
            }
            if word != 0 {
                let bucket = (at * 64) as u64 + u64::from(word.trailing_zeros());
                let ahead = (bucket + BUCKETS - start % BUCKETS) % BUCKETS;
                return Some(start + ahead);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::EventQueue;
    use crate::random::Random;

    #[test]
    fn it_orders_as_a_heap_does() {
        for seed in 0..60 {
            let mut random = Random::new(seed, 0);
            let gap = 1 << random.below(20);
            let mut queue = EventQueue::new(gap);
            let mut heap = BinaryHeap::new();
            let (mut now, mut serial) = (0_u64, 0_u32);
            for round in 0..3000 {
                for _ in 0..random.below(3) {
                    let ahead = if random.once_in(4) {
                        0
                    } else {
                        let shift = random.below(24);
                        random.of_any_size(gap << shift)
                    };
                    let tie = u16::try_from(random.below(3)).unwrap();
                    serial += 1;
                    queue.push(now + ahead, tie, serial);
                    heap.push(Reverse((now + ahead, tie, serial)));
                }
                assert_eq!(queue.len(), heap.len());
                if round % 256 == 0 {
                    assert_eq!(queue.iter().count(), heap.len());
                }
                if random.once_in(2) {
                    // Looking ahead must not matter to what is put afterwards.
                    if let Some(next) = queue.next_time_ps() {
                        let at = now + random.up_to(next - now);
                        serial += 1;
                        queue.push(at, 3, serial);
                        heap.push(Reverse((at, 3, serial)));
                    }
                }
                if let Some(Reverse((time, _, wanted))) = heap.pop() {
                    assert_eq!(queue.next_time_ps(), Some(time));
                    assert_eq!(queue.pop_at(time), Some(wanted));
                    now = time;
                }
            }
        }
    }
}
