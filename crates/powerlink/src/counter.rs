//! Error counters: +8 for an error, -1 for a cycle without one (DS 301, 4.7.4).

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

    /// Counts an error; says whether it is too much now, and then begins anew.
    pub const fn error(&mut self) -> bool {
        self.cumulative = self.cumulative.wrapping_add(1);
        if self.threshold == 0 {
            return false;
        }
        self.count = self.count.saturating_add(8);
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
    /// Asynchronous frames sent.
    pub asynchronous_sent: u64,
    /// Invitations that were not taken.
    pub invitations_unused: u64,
    /// Events that were lost, because nobody took them.
    pub events_lost: u64,
}
