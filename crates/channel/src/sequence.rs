//! Evaluation of sequence numbers: lost, duplicated, reordered, restarted. No I/O.

/// Length of the window: the numbers behind the newest that are remembered.
pub const WINDOW: u32 = 1024;
/// Words of the bit field: a power of two, with enough room that a word being cleared holds no number of the window.
const WORDS: u32 = 2 * WINDOW / 64;

/// Verdict on one sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The next number, or a later one: `skipped` numbers before it are missing so far.
    New {
        /// Number of missing sequence numbers between the newest so far and this one.
        skipped: u32,
    },
    /// A missing number that comes behind a later one.
    Late,
    /// A number that was seen before.
    Duplicate,
    /// The first number of a restarted sender.
    Restart,
}

/// Follows the sequence numbers of one sender in one channel.
///
/// Numbers are compared modulo 2³². A number behind the newest that was sent *later* by the sender's own time belongs
/// to a restarted sender: numbering starts anew with it. Without times, a number more than [`WINDOW`] behind counts
/// as a restart if its successor comes next.
#[derive(Clone, Debug)]
pub struct SequenceTracker {
    newest: Option<u32>,
    newest_time_ns: Option<u64>,
    /// Numbers of the window that have come; the lowest bits of a number select its bit.
    seen: [u64; WORDS as usize],
    /// Numbers that have a place in the window.
    depth: u32,
    suspect: Option<u32>,
    counts: SequenceCounts,
}

/// Counters of a sequence.
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
    /// Restarts of the sender.
    pub restarted: u64,
}

impl Default for SequenceTracker {
    fn default() -> Self {
        Self::new()
    }
}

impl SequenceTracker {
    /// Creates a tracker that takes the first number it sees as the beginning.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            newest: None,
            newest_time_ns: None,
            seen: [0; WORDS as usize],
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

    /// Returns the counters so far.
    #[must_use]
    pub const fn counts(&self) -> SequenceCounts {
        self.counts
    }

    /// Returns the newest number.
    #[must_use]
    pub const fn newest(&self) -> Option<u32> {
        self.newest
    }

    /// Records a number and, if known, its time of sending.
    pub fn observe(&mut self, sequence: u32, time_ns: Option<u64>) -> Seen {
        self.counts.seen += 1;
        let Some(newest) = self.newest else {
            self.begin(sequence, time_ns);
            return Seen::New { skipped: 0 };
        };
        let ahead = sequence.wrapping_sub(newest);
        if ahead != 0 && ahead < 1 << 31 {
            self.advance(newest, ahead);
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
        if behind < self.depth && !self.has(sequence) {
            self.set(sequence);
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
        self.seen = [0; WORDS as usize];
        self.set(sequence);
        self.depth = 1;
        self.suspect = None;
    }

    /// Moves the window forward by `ahead` numbers, of which only the last has come.
    fn advance(&mut self, newest: u32, ahead: u32) {
        let next = newest.wrapping_add(ahead);
        // Words that are begun: one in every 64 calls for numbers without gaps.
        let begun = (newest % 64 + ahead.min(64 * WORDS)) / 64;
        for word in 0..begun.min(WORDS) {
            self.seen[word_of(next.wrapping_sub(64 * word))] = 0;
        }
        self.set(next);
        self.depth = self.depth.saturating_add(ahead).min(WINDOW);
    }

    fn has(&self, sequence: u32) -> bool {
        self.seen[word_of(sequence)] >> (sequence % 64) & 1 == 1
    }

    fn set(&mut self, sequence: u32) {
        self.seen[word_of(sequence)] |= 1 << (sequence % 64);
    }
}

const fn word_of(sequence: u32) -> usize {
    (sequence / 64 % WORDS) as usize
}

#[cfg(test)]
#[path = "sequence_tests.rs"]
mod tests;
