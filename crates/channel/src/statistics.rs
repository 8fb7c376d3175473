//! Counters of channels.

use rtwire_wire::rtdip::RtdipError;
use std::sync::atomic::{AtomicU64, Ordering};

/// Frames that a listener or an endpoint has refused, by reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Refusals {
    /// Shorter than the header they need.
    pub truncated: u64,
    /// Another version of RTDiP.
    pub wrong_version: u64,
    /// A length field beyond the data present, or a frame longer than its room.
    pub wrong_length: u64,
    /// A priority above 7, or unknown flags.
    pub malformed: u64,
    /// A port without a listener on this interface.
    pub unknown_port: u64,
    /// Another channel key.
    pub wrong_key: u64,
    /// Queue semantics at a newest-value channel, or newest-value semantics at a queue channel.
    pub wrong_semantics: u64,
    /// Frames beyond the channel's contract.
    pub policed: u64,
}

impl Refusals {
    /// Returns the sum of all reasons.
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

/// Counters of a talker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TalkerStatistics {
    /// Values that were given a sequence number.
    pub sent: u64,
    /// Values of these that the interface's full transmit queue dropped.
    pub queue_full: u64,
    /// Number of times the peer answered that no one listens there (UDP).
    pub refused: u64,
}

/// Counters of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ListenerStatistics {
    /// Values accepted.
    pub received: u64,
    /// Missing sequence numbers; one that comes late is subtracted again.
    pub lost: u64,
    /// Values that came twice.
    pub duplicated: u64,
    /// Values that came behind a later one.
    pub reordered: u64,
    /// Talkers that were restarted.
    pub restarted: u64,
    /// Values accepted without the kernel's timestamp although stamps were requested.
    pub unstamped: u64,
    /// Frames dropped for lack of room in the kernel: this listener did not read fast enough.
    pub dropped: u64,
    /// Frames refused, by reason.
    pub refused: Refusals,
}

/// Counters of an endpoint: frames on its interface that no listener accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EndpointStatistics {
    /// Frames refused, by reason: by the endpoint and by all its listeners, closed ones included.
    pub refused: Refusals,
    /// Frames without a listener that were too many to be examined.
    pub not_examined: u64,
}

/// Counters of refusals that one thread increments and another reads.
#[derive(Debug, Default)]
pub(crate) struct SharedRefusals {
    counts: [AtomicU64; 8],
}

/// Reason for refusing a frame.
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

/// Returns the counter of a frame with a faulty header.
pub(crate) fn reason(error: RtdipError) -> Reason {
    match error {
        RtdipError::Truncated { .. } => Reason::Truncated,
        RtdipError::Version { .. } => Reason::WrongVersion,
        RtdipError::Length { .. } | RtdipError::TooLong { .. } => Reason::WrongLength,
        RtdipError::Flags { .. } | RtdipError::Priority { .. } => Reason::Malformed,
    }
}
