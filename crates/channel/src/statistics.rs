//! What channels count.

use std::sync::atomic::{AtomicU64, Ordering};

/// Frames that a listener or an endpoint has refused, by reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Refusals {
    /// Shorter than the header they need.
    pub truncated: u64,
    /// Another version of RTDiP.
    pub wrong_version: u64,
    /// A length field that tells of more data than there are, or a frame longer than there is room for.
    pub wrong_length: u64,
    /// A priority above 7, or flags of no known meaning.
    pub malformed: u64,
    /// A port where nobody on this interface listens.
    pub unknown_port: u64,
    /// Another channel key.
    pub wrong_key: u64,
    /// Queue semantics at a newest-value channel, or the other way round.
    pub wrong_semantics: u64,
    /// Beyond the channel's contract.
    pub policed: u64,
}

impl Refusals {
    /// All together.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.truncated
            + self.wrong_version
            + self.wrong_length
            + self.malformed
            + self.unknown_port
            + self.wrong_key
            + self.wrong_semantics
            + self.policed
    }

    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            truncated: self.truncated + other.truncated,
            wrong_version: self.wrong_version + other.wrong_version,
            wrong_length: self.wrong_length + other.wrong_length,
            malformed: self.malformed + other.malformed,
            unknown_port: self.unknown_port + other.unknown_port,
            wrong_key: self.wrong_key + other.wrong_key,
            wrong_semantics: self.wrong_semantics + other.wrong_semantics,
            policed: self.policed + other.policed,
        }
    }
}

/// What a talker has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TalkerStatistics {
    /// Values that have got a sequence number.
    pub sent: u64,
    /// Of these, those that the full transmit queue of the interface dropped.
    pub queue_full: u64,
    /// How often the peer has answered that nobody listens there (UDP).
    pub refused: u64,
}

/// What a listener has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ListenerStatistics {
    /// Values accepted.
    pub received: u64,
    /// Sequence numbers that have not come (a late one is taken off again).
    pub lost: u64,
    /// Values that came twice.
    pub duplicated: u64,
    /// Values that came behind a later one.
    pub reordered: u64,
    /// Senders that began again.
    pub restarted: u64,
    /// Values accepted without a time stamp of the kernel, though stamps were asked for.
    pub unstamped: u64,
    /// Frames that the kernel had no room for: this listener did not read fast enough.
    pub dropped: u64,
    /// Frames refused, by reason.
    pub refused: Refusals,
}

/// What an endpoint has seen on its interface beside what its listeners accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EndpointStatistics {
    /// Frames refused, by reason: by the endpoint itself and by all its listeners, closed ones included.
    pub refused: Refusals,
    /// Frames that belonged to no listener and came in such numbers that they could not be examined.
    pub not_examined: u64,
}

/// Refusals that one thread counts and another reads.
#[derive(Debug, Default)]
pub(crate) struct SharedRefusals {
    counts: [AtomicU64; 8],
}

/// Why a frame was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Truncated,
    WrongVersion,
    WrongLength,
    Malformed,
    UnknownPort,
    WrongKey,
    WrongSemantics,
    Policed,
}

impl SharedRefusals {
    pub(crate) fn count(&self, reason: Reason) {
        self.counts[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Refusals {
        let count = |reason: Reason| self.counts[reason as usize].load(Ordering::Relaxed);
        Refusals {
            truncated: count(Reason::Truncated),
            wrong_version: count(Reason::WrongVersion),
            wrong_length: count(Reason::WrongLength),
            malformed: count(Reason::Malformed),
            unknown_port: count(Reason::UnknownPort),
            wrong_key: count(Reason::WrongKey),
            wrong_semantics: count(Reason::WrongSemantics),
            policed: count(Reason::Policed),
        }
    }
}
