//! Counts of what was granted and refused, and of messages that were not believed, with their source.

use std::collections::BTreeMap;

use crate::message::Reason;

/// The sources that are counted one by one; all others are counted together.
const MOST_SOURCES: usize = 256;

/// The reason why a message was not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distrust {
    /// The bytes are no message.
    Malformed,
    /// The host has no key here.
    UnknownHost,
    /// The MAC is wrong.
    Forged,
    /// The message came before.
    Replayed,
    /// The session is not one of this manager's.
    Stale,
}

impl Distrust {
    /// Returns the reason in a word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Distrust::Malformed => "malformed",
            Distrust::UnknownHost => "unknown_host",
            Distrust::Forged => "forged",
            Distrust::Replayed => "replayed",
            Distrust::Stale => "stale",
        }
    }
}

/// The counts since the manager's start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections granted.
    pub granted: u64,
    /// Connections released.
    pub released: u64,
    /// One-shot reservations granted.
    pub shared: u64,
    /// Answers that repeat an earlier one.
    pub repeated: u64,
    /// Refusals by their reason.
    pub refused: BTreeMap<Reason, u64>,
    /// Messages that were not believed, by source and reason. The source `others` stands for all that did not fit.
    pub distrusted: BTreeMap<(String, Distrust), u64>,
}

impl Counts {
    pub(crate) fn refuse(&mut self, reason: Reason) {
        *self.refused.entry(reason).or_default() += 1;
    }

    pub(crate) fn distrust(&mut self, source: &str, why: Distrust) {
        let key = (source.to_owned(), why);
        let is_known = self.distrusted.contains_key(&key);
        let key = if is_known || self.distrusted.len() < MOST_SOURCES {
            key
        } else {
            ("others".to_owned(), why)
        };
        *self.distrusted.entry(key).or_default() += 1;
    }

    /// Returns the number of messages that were not believed for this reason.
    #[must_use]
    pub fn distrusted_for(&self, why: Distrust) -> u64 {
        let all = self.distrusted.iter().filter(|((_, one), _)| *one == why);
        all.map(|(_, count)| count).sum()
    }
}
