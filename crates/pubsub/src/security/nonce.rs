//! The counter in the nonces of one key: no number is handed out twice.

/// Numbers that one key has: the counter is 32 bits wide and begins with 1.
const NUMBERS: u64 = 1 << 32;

/// Hands out the numbers of one key's nonces, and only those that were reserved before.
///
/// The station writes the reservation to a file before it calls [`reserve_until`](Self::reserve_until). After a restart it
/// begins behind everything that was reserved, so that a number is lost at worst, and never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonceCounter {
    next: u64,
    reserved: u64,
}

impl NonceCounter {
    /// Begins with the first number that no run has reserved so far; 1 with a new key. Nothing is reserved yet.
    #[must_use]
    pub const fn starting_at(next: u64) -> Self {
        let next = if next == 0 { 1 } else { next };
        Self {
            next,
            reserved: next,
        }
    }

    /// Permits all numbers below `end`, which the file holds already. Never takes a permission back.
    pub fn reserve_until(&mut self, end: u64) {
        self.reserved = self.reserved.max(end.min(NUMBERS));
    }

    /// Returns the next number, or `None` where none is reserved or the key has no more.
    pub fn take(&mut self) -> Option<u32> {
        if self.next >= self.reserved {
            return None;
        }
        let number = u32::try_from(self.next).ok()?;
        self.next += 1;
        Some(number)
    }

    /// The number that comes next.
    #[must_use]
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// The end of what is reserved.
    #[must_use]
    pub const fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Returns true where the key has no numbers left: it must be changed.
    #[must_use]
    pub const fn is_exhausted(&self) -> bool {
        self.next >= NUMBERS
    }
}

#[cfg(test)]
mod tests {
    use super::NonceCounter;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn nothing_is_handed_out_before_it_is_reserved() {
        let mut counter = NonceCounter::starting_at(0);
        assert_eq!(counter.take(), None);
        counter.reserve_until(3);
        assert_eq!(
            (counter.take(), counter.take(), counter.take()),
            (Some(1), Some(2), None)
        );
        counter.reserve_until(1);
        assert_eq!(counter.reserved(), 3, "a permission stays");
    }

    #[test]
    fn a_key_ends_with_its_last_number() {
        let mut counter = NonceCounter::starting_at(u64::from(u32::MAX));
        counter.reserve_until(u64::MAX);
        assert_eq!(counter.take(), Some(u32::MAX));
        assert_eq!(counter.take(), None);
        assert!(counter.is_exhausted());
    }

    proptest! {
        /// Each number leaves once, at any moments of restarts.
        #[test]
        fn restarts_repeat_no_number(runs in prop::collection::vec((0_usize..50, 1_u64..20), 1..20)) {
            let mut file = 1;
            let mut seen = BTreeSet::new();
            for (messages, block) in runs {
                let mut counter = NonceCounter::starting_at(file);
                for _ in 0..messages {
                    if counter.next() == counter.reserved() {
                        file = counter.reserved() + block;
                        counter.reserve_until(file);
                    }
                    prop_assert!(seen.insert(counter.take().unwrap()));
                }
            }
        }
    }
}
