//! What sequence numbers tell: lost, duplicated, reordered, restarted. No I/O.

/// How many numbers behind the newest are remembered.
pub const WINDOW: u32 = 1024;
const WORDS: usize = (WINDOW / 64) as usize;

/// What one number has turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The next, or a later one: `skipped` numbers between are missing so far.
    New {
        /// How many are missing between.
        skipped: u32,
    },
    /// One that was missing: it comes behind a later one.
    Late,
    /// One that was there before.
    Duplicate,
    /// The first of a sender that has begun again.
    Restart,
}

/// Follows the sequence numbers of one sender in one channel.
///
/// Numbers are compared modulo 2³². One that lies behind the newest, but was sent *later* by the sender's own time, is of
/// a sender that has begun again: numbering starts anew with it. Without times, one that lies more than [`WINDOW`]
/// behind is taken so if its follower comes next.
#[derive(Clone, Debug)]
pub struct SequenceTracker {
    newest: Option<u32>,
    newest_time_ns: Option<u64>,
    /// Bit i: the number `newest - i` has come.
    seen: [u64; WORDS],
    /// Numbers that have a place in the window.
    depth: u32,
    suspect: Option<u32>,
    counts: SequenceCounts,
}

/// What was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SequenceCounts {
    /// Numbers seen, duplicates included.
    pub seen: u64,
    /// Numbers missing.
    pub lost: u64,
    /// Numbers seen twice, or so late that they cannot be told from that.
    pub duplicated: u64,
    /// Numbers that came behind a later one.
    pub reordered: u64,
    /// Senders begun again.
    pub restarted: u64,
}

impl Default for SequenceTracker {
    fn default() -> Self {
        Self::new()
    }
}

impl SequenceTracker {
    /// A tracker that takes the first number it sees as the beginning.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            newest: None,
            newest_time_ns: None,
            seen: [0; WORDS],
            depth: 0,
            suspect: None,
            counts: SequenceCounts {
                seen: 0,
                lost: 0,
                duplicated: 0,
                reordered: 0,
                restarted: 0,
            },
        }
    }

    /// What was counted so far.
    #[must_use]
    pub const fn counts(&self) -> SequenceCounts {
        self.counts
    }

    /// The newest number.
    #[must_use]
    pub const fn newest(&self) -> Option<u32> {
        self.newest
    }

    /// Notes a number and, if known, when it was sent.
    pub fn observe(&mut self, sequence: u32, time_ns: Option<u64>) -> Seen {
        self.counts.seen += 1;
        let Some(newest) = self.newest else {
            self.begin(sequence, time_ns);
            return Seen::New { skipped: 0 };
        };
        let ahead = sequence.wrapping_sub(newest);
        if ahead != 0 && ahead < 1 << 31 {
            self.advance(ahead);
            self.newest = Some(sequence);
            self.newest_time_ns = time_ns;
            self.suspect = None;
            self.counts.lost += u64::from(ahead - 1);
            return Seen::New { skipped: ahead - 1 };
        }
        let behind = newest.wrapping_sub(sequence);
        if self.is_restart(sequence, behind, time_ns) {
            self.counts.restarted += 1;
            self.begin(sequence, time_ns);
            return Seen::Restart;
        }
        if behind < self.depth && !self.bit(behind) {
            self.set_bit(behind);
            self.counts.reordered += 1;
            self.counts.lost -= 1;
            return Seen::Late;
        }
        self.counts.duplicated += 1;
        Seen::Duplicate
    }

    fn is_restart(&mut self, sequence: u32, behind: u32, time_ns: Option<u64>) -> bool {
        if let (Some(time), Some(newest)) = (time_ns, self.newest_time_ns) {
            return time > newest;
        }
        if behind < WINDOW {
            return false;
        }
        let follows = self.suspect == Some(sequence);
        self.suspect = Some(sequence.wrapping_add(1));
        follows
    }

    fn begin(&mut self, sequence: u32, time_ns: Option<u64>) {
        self.newest = Some(sequence);
        self.newest_time_ns = time_ns;
        self.seen = [0; WORDS];
        self.seen[0] = 1;
        self.depth = 1;
        self.suspect = None;
    }

    /// Moves the window on by `ahead` numbers, of which only the last has come.
    fn advance(&mut self, ahead: u32) {
        if ahead >= WINDOW {
            self.seen = [0; WORDS];
        } else {
            let words = (ahead / 64) as usize;
            let bits = ahead % 64;
            for at in (0..WORDS).rev() {
                let from = at.checked_sub(words);
                let low = from.map_or(0, |from| self.seen[from] << bits);
                let high = match from {
                    Some(from) if from > 0 && bits > 0 => self.seen[from - 1] >> (64 - bits),
                    _ => 0,
                };
                self.seen[at] = low | high;
            }
        }
        self.seen[0] |= 1;
        self.depth = self.depth.saturating_add(ahead).min(WINDOW);
    }

    fn bit(&self, behind: u32) -> bool {
        self.seen[(behind / 64) as usize] >> (behind % 64) & 1 == 1
    }

    fn set_bit(&mut self, behind: u32) {
        self.seen[(behind / 64) as usize] |= 1 << (behind % 64);
    }
}

#[cfg(test)]
#[path = "sequence_tests.rs"]
mod tests;
