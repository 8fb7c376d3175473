//! The queue of events, in order of time, then of tie number, then of insertion.
//!
//! A wheel of buckets holds the near future, a heap the far one. A bucket is a list within one slab of slots, so
//! nothing is allocated once the slab has its size. A bucket is sorted only when its turn comes. With buckets about as
//! wide as the time between two events, the cost of insertion and removal is independent of the number of events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

const NONE: u32 = u32::MAX;
/// Number of buckets in the wheel: a power of two and a multiple of 64.
const BUCKETS: u64 = 4096;

/// The time of an event and its order at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    time_ps: u64,
    /// The tie number in the upper bits, the serial number in the lower bits.
    order: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot<E> {
    key: Key,
    event: E,
    next: u32,
}

/// An event in the far future; its slot holds the event.
type Far = Reverse<(Key, u32)>;

/// A queue of events.
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    slots: Vec<Slot<E>>,
    free: u32,
    heads: Vec<u32>,
    /// One bit for each bucket that is not empty.
    filled: Vec<u64>,
    in_wheel: usize,
    far: BinaryHeap<Far>,
    /// The current bucket and later insertions before its end, latest first.
    current: Vec<(Key, E)>,
    /// Number of the current bucket since time 0.
    tick: u64,
    shift: u32,
    serial: u64,
}

impl<E: Copy> EventQueue<E> {
    /// Creates an empty queue at time 0. `gap_ps` is the expected time between two events.
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

    /// Empties the queue and returns to time 0. Keeps all memory.
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

    /// Returns the number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.current.len() + self.in_wheel + self.far.len()
    }

    /// Returns true if there are no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all events in no particular order.
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

    /// Inserts an event at `time_ps`. At equal times the smaller `tie` comes first, then the earlier insertion.
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

    /// Returns the number of a time's bucket. It starts at 1, so an insertion at time 0 into an empty queue needs no
    /// sorting.
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
        // More than 2^32 simultaneous events do not fit into memory.
        u32::try_from(self.slots.len() - 1).unwrap_or(NONE)
    }

    fn hang(&mut self, tick: u64, index: u32) {
        let bucket = (tick % BUCKETS) as usize;
        self.slots[index as usize].next = self.heads[bucket];
        self.heads[bucket] = index;
        self.filled[bucket / 64] |= 1 << (bucket % 64);
        self.in_wheel += 1;
    }

    /// Returns the next event if its time is exactly `time_ps`; `None` if there is none. `time_ps` must not be later than
    /// the last event's time.
    pub fn pop_at(&mut self, time_ps: u64) -> Option<E> {
        match self.current.last() {
            Some((key, _)) if key.time_ps == time_ps => self.current.pop().map(|entry| entry.1),
            _ => None,
        }
    }

    /// Returns the time of the next event, ps.
    pub fn next_time_ps(&mut self) -> Option<u64> {
        if self.current.is_empty() {
            self.advance();
        }
        self.current.last().map(|entry| entry.0.time_ps)
    }

    /// Advances to the next bucket that is not empty.
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

    /// Returns the number of the first bucket after the current one that is not empty.
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
                    // Looking ahead must not influence later insertions.
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
