//! Confirmation of changes that were applied for a limited time.

use std::path::Path;

use super::record::{Record, RecordError, State};
use super::transaction::{self, ApplyError};
use crate::netlink::Netlink;

/// The reason why changes do not stay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfirmError {
    /// The interface has no undo record.
    #[error(
        "there is nothing to confirm for `{0}`: nothing was changed, or it was put back already"
    )]
    Nothing(String),
    /// The program that made the changes was cut off before the last one.
    #[error("`{title}` was cut off: put back what it did with rtwire revert {interface}")]
    CutOff {
        /// The command that made the changes.
        title: String,
        /// The interface.
        interface: String,
    },
    /// The time to confirm was over; the settings were put back.
    #[error("too late: everything has been put back")]
    TooLate,
    /// The time to confirm was over; some settings could not be put back.
    #[error("too late: {0}")]
    TooLateAndLeft(ApplyError),
    /// The record could not be read or written.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// Marks the changes to `interface` as confirmed, so that its guardian leaves them. Confirming twice is no error.
/// After the time to confirm, puts the settings back instead.
///
/// # Errors
/// [`ConfirmError`]. With [`ConfirmError::TooLate`] the host is as before the changes.
pub fn confirm(directory: &Path, interface: &str) -> Result<(), ConfirmError> {
    let Some(mut record) = Record::open(directory, interface)? else {
        return Err(ConfirmError::Nothing(interface.to_owned()));
    };
    match record.state {
        State::Confirmed => Ok(()),
        State::Unfinished => Err(ConfirmError::CutOff {
            title: record.header.title,
            interface: interface.to_owned(),
        }),
        State::Applied if record.header.is_overdue() => {
            match transaction::revert(&mut Netlink::new(), record, &mut |_, _| {}) {
                Ok(_) => Err(ConfirmError::TooLate),
                Err(error) => Err(ConfirmError::TooLateAndLeft(error)),
            }
        }
        State::Applied => Ok(record.confirm()?),
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Header;
    use super::*;

    const NAME: &str = "rtw-none";

    fn begun(directory: &Path, until: Option<u64>) -> Record {
        Record::begin(directory, Header::new("title", NAME, until)).unwrap()
    }

    #[test]
    fn changes_stay_only_if_they_are_whole_and_in_time() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path();
        let now = || confirm(directory, NAME);
        assert!(matches!(now(), Err(ConfirmError::Nothing(_))));
        let mut record = begun(directory, Some(u64::MAX));
        assert!(matches!(
            now(),
            Err(ConfirmError::Record(RecordError::Busy(_)))
        ));
        drop(record);
        assert!(matches!(now(), Err(ConfirmError::CutOff { .. })));
        record = Record::open(directory, NAME).unwrap().unwrap();
        record.applied().unwrap();
        drop(record);
        now().unwrap();
        now().unwrap();
        let record = Record::open(directory, NAME).unwrap().unwrap();
        assert_eq!(record.state, State::Confirmed);
        record.remove().unwrap();
        let mut late = begun(directory, Some(0));
        late.applied().unwrap();
        drop(late);
        assert!(matches!(now(), Err(ConfirmError::TooLate)));
        assert!(matches!(now(), Err(ConfirmError::Nothing(_))));
    }
}
