//! Undo records that nobody finished.

use std::path::Path;

use super::record::{Header, Record, State};

/// A record that waits for `rtwire revert`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Leftover {
    /// The program that made the changes was cut off before the last one.
    #[error(
        "`{title}` was cut off after {changes} change(s) to `{interface}`; put them back: rtwire revert {interface}"
    )]
    CutOff {
        /// The command that made the changes.
        title: String,
        /// The interface, or `host`.
        interface: String,
        /// The number of changes that were begun.
        changes: usize,
    },
    /// The time to confirm is over, and no guardian put the settings back.
    #[error(
        "`{title}` was not confirmed in time, and its guardian is gone; put its changes back: rtwire revert \
    {interface}"
    )]
    Unconfirmed {
        /// The command that made the changes.
        title: String,
        /// The interface, or `host`.
        interface: String,
    },
}

impl Leftover {
    /// Returns the records of this network namespace that wait for `rtwire revert`. Takes no lock.
    #[must_use]
    pub fn list(directory: &Path) -> Vec<Self> {
        Record::list(directory)
            .into_iter()
            .filter_map(|(header, state, changes)| {
                let overdue = header.is_overdue();
                Self::of(header, state, changes, overdue)
            })
            .collect()
    }

    /// Judges one record. Pure.
    fn of(header: Header, state: State, changes: usize, overdue: bool) -> Option<Self> {
        let Header {
            title, interface, ..
        } = header;
        match state {
            State::Unfinished => Some(Self::CutOff {
                title,
                interface,
                changes,
            }),
            State::Applied if overdue => Some(Self::Unconfirmed { title, interface }),
            State::Applied | State::Confirmed => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_waits_for_somebody_is_named() {
        let of = |state, overdue| {
            Leftover::of(Header::new("title", "eth9", Some(5)), state, 3, overdue)
                .map(|left| left.to_string())
        };
        let cut_off = of(State::Unfinished, false).unwrap();
        assert!(
            cut_off.contains("after 3 change(s)") && cut_off.contains("rtwire revert eth9"),
            "{cut_off}"
        );
        let late = of(State::Applied, true).unwrap();
        assert!(late.contains("not confirmed in time"), "{late}");
        assert_eq!(of(State::Applied, false), None);
        assert_eq!(of(State::Confirmed, true), None);
    }
}
