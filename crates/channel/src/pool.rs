//! Preallocated memory in which frames wait, sorted by priority.

use crate::inbox::Accepted;

const NONE: u32 = u32::MAX;
/// Bytes of user data that one place holds.
const ROOM: usize = 1536;

#[derive(Clone, Copy, Debug)]
struct Place {
    accepted: Accepted,
    /// The next in the same queue.
    next: u32,
}

/// First in, first out for each priority; a fixed number of places.
#[derive(Debug)]
pub(crate) struct Pool {
    data: Box<[u8]>,
    places: Box<[Place]>,
    free: u32,
    heads: [u32; 8],
    tails: [u32; 8],
    /// Bit p is set while a frame of priority p waits.
    waiting: u8,
}

impl Pool {
    pub(crate) fn new(places: usize) -> Self {
        let places = places.clamp(1, 1 << 16);
        Self {
            data: vec![0; places * ROOM].into_boxed_slice(),
            places: (1..=places)
                .map(|next| Place {
                    accepted: Accepted::EMPTY,
                    // `places` is at most 2¹⁶.
                    next: if next == places { NONE } else { next as u32 },
                })
                .collect(),
            free: 0,
            heads: [NONE; 8],
            tails: [NONE; 8],
            waiting: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    pub(crate) fn has_room(&self) -> bool {
        self.free != NONE
    }

    /// Adds a frame; returns `false` if there was no room.
    pub(crate) fn push(&mut self, accepted: &Accepted, data: &[u8]) -> bool {
        if self.free == NONE || data.len() > ROOM {
            return false;
        }
        let at = self.free;
        let place = &mut self.places[at as usize];
        self.free = place.next;
        *place = Place {
            accepted: *accepted,
            next: NONE,
        };
        let start = at as usize * ROOM;
        self.data[start..start + data.len()].copy_from_slice(data);
        let priority = usize::from(accepted.header.priority.get());
        match self.tails[priority] {
            NONE => self.heads[priority] = at,
            tail => self.places[tail as usize].next = at,
        }
        self.tails[priority] = at;
        self.waiting |= 1 << priority;
        true
    }

    /// Takes out the first frame of the highest priority. Its place stays occupied until [`free`](Self::free).
    pub(crate) fn pop(&mut self) -> Option<u32> {
        if self.waiting == 0 {
            return None;
        }
        let priority = 7 - self.waiting.leading_zeros() as usize;
        let at = self.heads[priority];
        let next = self.places[at as usize].next;
        self.heads[priority] = next;
        if next == NONE {
            self.tails[priority] = NONE;
            self.waiting &= !(1 << priority);
        }
        Some(at)
    }

    pub(crate) fn get(&self, at: u32) -> (&Accepted, &[u8]) {
        let accepted = &self.places[at as usize].accepted;
        let start = at as usize * ROOM;
        (accepted, &self.data[start..start + accepted.length])
    }

    pub(crate) fn free(&mut self, at: u32) {
        self.places[at as usize].next = self.free;
        self.free = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rtwire_wire::Pcp;

    proptest! {
        /// Compares with a list that is sorted anew for each take.
        #[test]
        fn highest_first_then_oldest(places in 1usize..20, steps in prop::collection::vec((0u8..12, 0usize..64), 0..200)) {
            let mut pool = Pool::new(places);
            let mut model: Vec<(u8, usize, Vec<u8>)> = Vec::new();
            for (step, (priority, length)) in steps.into_iter().enumerate() {
                if let Some(pcp) = Pcp::new(priority) {
                    let data: Vec<u8> = (0..length).map(|at| (at + step) as u8).collect();
                    let mut accepted = Accepted::EMPTY;
                    accepted.header.priority = pcp;
                    accepted.length = length;
                    let fits = model.len() < places;
                    prop_assert_eq!(pool.has_room(), fits);
                    prop_assert_eq!(pool.push(&accepted, &data), fits);
                    if fits { model.push((priority, step, data)) }
                } else {
                    let best = model.iter().map(|entry| entry.0).max();
                    let at = best.and_then(|best| model.iter().position(|entry| entry.0 == best));
                    let expected = at.map(|at| model.remove(at));
                    let taken = pool.pop();
                    prop_assert_eq!(taken.is_some(), expected.is_some());
                    if let (Some(at), Some((priority, _, data))) = (taken, expected) {
                        let (accepted, found) = pool.get(at);
                        prop_assert_eq!(accepted.header.priority.get(), priority);
                        prop_assert_eq!(found, &data[..]);
                        pool.free(at);
                    }
                }
                prop_assert_eq!(pool.is_empty(), model.is_empty());
            }
        }
    }
}
