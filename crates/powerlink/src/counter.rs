//! Error counters: +8 for an error, -1 for a cycle without one (DS 301, 4.7.4).

use crate::ObjectDictionary;

/// A counter with its threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counter {
    /// Total number of errors so far.
    pub cumulative: u32,
    /// Current value that is compared with the threshold.
    pub count: u32,
    /// Threshold; 0 disables it.
    pub threshold: u32,
}

impl Counter {
    /// Creates a counter with this threshold.
    #[must_use]
    pub const fn new(threshold: u32) -> Self {
        Self {
            cumulative: 0,
            count: 0,
            threshold,
        }
    }

    /// Creates a counter from its record: the total number so far, and the threshold.
    pub(crate) fn of_record(d: &ObjectDictionary, index: u16) -> Self {
        Self::of(d, (index, 1), (index, 3))
    }

    /// Creates a counter from other objects: index and sub-index of the total number and of the threshold.
    pub(crate) fn of(d: &ObjectDictionary, cumulative: (u16, u8), threshold: (u16, u8)) -> Self {
        Self {
            cumulative: d.number(cumulative.0, cumulative.1) as u32,
            count: 0,
            threshold: d.number(threshold.0, threshold.1) as u32,
        }
    }

    /// Counts an error. Returns `true` if the threshold is reached, and then starts again from 0.
    pub const fn error(&mut self) -> bool {
        self.errors(1, true)
    }

    /// Counts errors that were found together. Without a running cycle they do not count towards the threshold.
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

/// Errors of a node's interface since the last report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LinkErrors {
    /// Frames with a wrong check sequence.
    pub crc: u32,
    /// Collisions.
    pub collisions: u32,
    /// Number of times the link was lost.
    pub losses: u32,
}

/// Counters of a node since its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Statistics {
    /// SoC frames sent or received.
    pub cycles: u64,
    /// Cycles that were skipped because their time had passed.
    pub skipped_cycles: u64,
    /// Moments that came so late that the node itself must have been stalled.
    pub own_stalls: u64,
    /// Largest delay of such a moment, in ns.
    pub worst_stall_ns: u64,
    /// Poll requests sent or received.
    pub requests: u64,
    /// Poll responses received or sent.
    pub responses: u64,
    /// Responses that were lost.
    pub lost_responses: u64,
    /// Responses that came after their timeout.
    pub late_responses: u64,
    /// SoC frames that were lost.
    pub lost_soc: u64,
    /// SoA frames that were lost.
    pub lost_soa: u64,
    /// Invalid POWERLINK frames.
    pub invalid_frames: u64,
    /// Requests that were not answered: they were read when their slot was over.
    pub stale_requests: u64,
    /// Requests, SoC and SoA that were refused: the managing node has not sent them.
    pub foreign_requests: u64,
    /// Times that this program stood still for longer than its watchdog allows.
    pub lapses: u64,
    /// Frames with a wrong check sequence, as reported by the driver.
    pub crc_errors: u64,
    /// Collisions, as reported by the driver.
    pub collisions: u64,
    /// Losses of the link, as reported by the driver.
    pub link_losses: u64,
    /// Asynchronous frames sent.
    pub asynchronous_sent: u64,
    /// Invitations that were not used.
    pub invitations_unused: u64,
    /// Events that were lost because the application did not take them.
    pub events_lost: u64,
}

impl Statistics {
    /// Adds the errors that the driver has reported.
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
            // The error that reaches the threshold starts the count again; those after it were found with it.
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
            // Beyond 32 bits the count stays at its maximum, which is no less than any threshold.
            prop_assert_eq!(reached, held && full);
        }
    }
}
