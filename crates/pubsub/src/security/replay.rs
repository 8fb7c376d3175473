//! A window of nonce counters: each is accepted once, old ones never.

/// Counters behind the highest one that may still come, since frames may overtake each other.
const WINDOW: u32 = 64;

/// The verdict on one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fresh {
    /// It was not seen before.
    New,
    /// It was seen before.
    Repeated,
    /// It lies behind the window: nobody can say whether it was seen.
    TooOld,
}

/// The counters seen from one sender under one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ReplayWindow {
    highest: Option<u32>,
    /// Bit n: the counter `highest - n` was seen.
    seen: u64,
}

impl ReplayWindow {
    /// Judges a counter, and notes it where it is new. Call it only for messages whose signature is right.
    pub fn take(&mut self, counter: u32) -> Fresh {
        let Some(highest) = self.highest else {
            *self = Self {
                highest: Some(counter),
                seen: 1,
            };
            return Fresh::New;
        };
        if counter > highest {
            let ahead = counter - highest;
            self.seen = self.seen.checked_shl(ahead).unwrap_or(0) | 1;
            self.highest = Some(counter);
            return Fresh::New;
        }
        let behind = highest - counter;
        if behind >= WINDOW {
            return Fresh::TooOld;
        }
        let bit = 1 << behind;
        if self.seen & bit != 0 {
            return Fresh::Repeated;
        }
        self.seen |= bit;
        Fresh::New
    }
}

#[cfg(test)]
mod tests {
    use super::{Fresh, ReplayWindow};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_counter_is_taken_once() {
        let mut window = ReplayWindow::default();
        for (counter, fresh) in [
            (5, Fresh::New),
            (5, Fresh::Repeated),
            (7, Fresh::New),
            (6, Fresh::New),
            (6, Fresh::Repeated),
            (71, Fresh::New),
            (7, Fresh::TooOld),
            (8, Fresh::New),
            (u32::MAX, Fresh::New),
            (u32::MAX - 63, Fresh::New),
            (71, Fresh::TooOld),
        ] {
            assert_eq!(window.take(counter), fresh, "{counter}");
        }
    }

    proptest! {
        /// The model is a set of all counters that were ever accepted.
        #[test]
        fn nothing_is_accepted_twice(counters in prop::collection::vec(0_u32..300, 0..400)) {
            let mut window = ReplayWindow::default();
            let mut seen = BTreeSet::new();
            for counter in counters {
                let known = seen.contains(&counter);
                let highest = seen.last().copied().unwrap_or(0_u32);
                match window.take(counter) {
                    Fresh::New => prop_assert!(seen.insert(counter)),
                    Fresh::Repeated => prop_assert!(known),
                    Fresh::TooOld => prop_assert!(highest - counter >= 64),
                }
            }
        }
    }
}
