//! Error counters: +8 for an error, -1 for a cycle without one (DS 301, 4.7.4).

use crate::ObjectDictionary;

/// A counter with its threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counter {
    /// All errors so far.
    pub cumulative: u32,
    /// What is held against the threshold.
    pub count: u32,
    /// Where it is too much; 0: never.
    pub threshold: u32,
}

impl Counter {
    /// A counter with this threshold.
    #[must_use]
    pub const fn new(threshold: u32) -> Self {
        Self {
            cumulative: 0,
            count: 0,
            threshold,
        }
    }

    /// As its record says: what was counted so far, and the threshold.
    pub(crate) fn of_record(d: &ObjectDictionary, index: u16) -> Self {
        Self::of(d, (index, 1), (index, 3))
    }

    /// The same where the two stand elsewhere: index and sub-index of each.
    pub(crate) fn of(d: &ObjectDictionary, cumulative: (u16, u8), threshold: (u16, u8)) -> Self {
        Self {
            cumulative: d.number(cumulative.0, cumulative.1) as u32,
            count: 0,
            threshold: d.number(threshold.0, threshold.1) as u32,
        }
    }

    /// Counts an error; says whether it is too much now, and then begins anew.
    pub const fn error(&mut self) -> bool {
        self.errors(1, true)
    }

    /// Counts errors that were found together. Where no cycle runs they are not held against the threshold.
    pub(crate) const fn errors(&mut self, number: u32, in_cycle: bool) -> bool {
        self.cumulative = self.cumulative.wrapping_add(number);
        if self.threshold == 0 || number == 0 || !in_cycle {
            return false;
        }
        self.count = self.count.saturating_add(number.saturating_mul(8));
        let reached = self.count >= self.threshold;
        if reached {
            self.count = 0;
        }
        reached
    }

    /// Counts a cycle without an error.
    pub const fn good(&mut self) {
        self.count = self.count.saturating_sub(1);
    }
}

/// What has gone wrong at a node's interface since it was told last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LinkErrors {
    /// Frames with a wrong check sequence.
    pub crc: u32,
    /// Collisions.
    pub collisions: u32,
    /// How often the link was lost.
    pub losses: u32,
}

/// What a node has seen since it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Statistics {
    /// SoC sent or received.
    pub cycles: u64,
    /// Cycles that were left out, because their time had passed.
    pub skipped_cycles: u64,
    /// Moments that came so late that the node itself must have been stalled.
    pub own_stalls: u64,
    /// The latest of them, ns.
    pub worst_stall_ns: u64,
    /// Poll requests sent or received.
    pub requests: u64,
    /// Poll responses received or sent.
    pub responses: u64,
    /// Responses that did not come.
    pub lost_responses: u64,
    /// Responses that came after their timeout.
    pub late_responses: u64,
    /// SoC that did not come.
    pub lost_soc: u64,
    /// SoA that did not come.
    pub lost_soa: u64,
    /// Frames that claim to be POWERLINK and are not right.
    pub invalid_frames: u64,
    /// Frames with a wrong check sequence, as the driver has told.
    pub crc_errors: u64,
    /// Collisions, as the driver has told.
    pub collisions: u64,
    /// Losses of the link, as the driver has told.
    pub link_losses: u64,
    /// Asynchronous frames sent.
    pub asynchronous_sent: u64,
    /// Invitations that were not taken.
    pub invitations_unused: u64,
    /// Events that were lost, because nobody took them.
    pub events_lost: u64,
}

impl Statistics {
    /// Adds what the driver has told.
    pub(crate) const fn observe(&mut self, seen: &LinkErrors) {
        self.crc_errors += seen.crc as u64;
        self.collisions += seen.collisions as u64;
        self.link_losses += seen.losses as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::Counter;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn errors_found_together_count_as_those_found_one_by_one(
            threshold in 0_u32..200,
            before in 0_u32..300,
            number in 0_u32..50,
        ) {
            let begun = Counter { count: before, ..Counter::new(threshold) };
            let (mut together, mut single) = (begun, begun);
            let reached = together.errors(number, true);
            // The first that reaches the threshold begins anew; those behind it were found with it.
            let at = (0..number).find(|_| single.error());
            prop_assert_eq!(reached, at.is_some());
            prop_assert_eq!(together.cumulative, number);
            if !reached {
                prop_assert_eq!(together.count, single.count);
            } else {
                prop_assert_eq!(together.count, 0);
            }
        }

        #[test]
        fn no_number_of_errors_is_too_large(
            threshold: u32, count: u32, cumulative: u32, number: u32, in_cycle: bool,
        ) {
            let mut counter = Counter { cumulative, count, threshold };
            let reached = counter.errors(number, in_cycle);
            prop_assert_eq!(counter.cumulative, cumulative.wrapping_add(number));
            let held = threshold > 0 && number > 0 && in_cycle;
            let full = u64::from(count) + 8 * u64::from(number) >= u64::from(threshold);
            // Beyond 32 bits the count stays at the end, which is no less than any threshold.
            prop_assert_eq!(reached, held && full);
        }
    }
}
