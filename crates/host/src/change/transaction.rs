//! All or nothing: each change is recorded before it is made and read back after. Undoing goes in reverse.

use super::operate;
use super::record::{Record, RecordError};
use super::setting::{Change, Subject, Value};
use crate::HostError;
use crate::netlink::Netlink;

/// The progress of one change, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It was made and read back.
    Made,
    /// It was undone.
    Undone,
}

/// The reason why changes were not made, or not all undone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// A change was refused; those before it were undone.
    #[error("{change}: {source}{}", after(*undone))]
    Refused {
        /// The change.
        change: String,
        /// The reason.
        source: HostError,
        /// True if the changes before it were undone.
        undone: bool,
    },
    /// The kernel accepted a change, but another value is in force.
    #[error("{change}: accepted, but {found} is in force{}", after(*undone))]
    Ignored {
        /// The change.
        change: String,
        /// The value in force.
        found: String,
        /// True if the changes before it were undone.
        undone: bool,
    },
    /// Some settings could not be put back; the record stays.
    #[error("not put back: {}; the record stays, so `rtwire revert` can be tried again", .0.join("; "))]
    Left(Vec<String>),
    /// The record could not be written; no further change was made.
    #[error(transparent)]
    Record(#[from] RecordError),
}

const fn after(undone: bool) -> &'static str {
    if undone {
        "; everything before it was put back, nothing is changed"
    } else {
        "; putting back the changes before it failed too: try `rtwire revert`"
    }
}

/// Makes all changes, or none.
///
/// # Errors
/// [`ApplyError`]. The host is as before and the record gone, except after [`ApplyError::Left`] and with `undone:
/// false`.
pub fn apply(
    netlink: &mut Netlink,
    mut record: Record,
    changes: &[Change],
    show: &mut dyn FnMut(&Change, Progress),
) -> Result<Record, ApplyError> {
    for change in changes {
        // The value now, not at the time of the difference: an earlier change may have changed this one too.
        let now = operate::read(netlink, &change.subject);
        let change = &match now {
            Ok(now) if now.is_as(&change.to) => continue,
            Ok(from) => Change {
                from,
                ..change.clone()
            },
            // The write below shows whether it can be written.
            Err(_) => change.clone(),
        };
        if let Err(error) = record.note(change) {
            let _ = revert(netlink, record, show);
            return Err(error.into());
        }
        let made = operate::write(netlink, &change.subject, &change.to)
            .and_then(|()| operate::read(netlink, &change.subject));
        match made {
            Ok(found) if found.is_as(&change.to) => show(change, Progress::Made),
            Ok(found) => {
                let undone = revert(netlink, record, show).is_ok();
                return Err(ApplyError::Ignored {
                    change: change.show(),
                    found: found.show(),
                    undone,
                });
            }
            Err(source) => {
                let undone = revert(netlink, record, show).is_ok();
                return Err(ApplyError::Refused {
                    change: change.show(),
                    source,
                    undone,
                });
            }
        }
    }
    record.applied()?;
    Ok(record)
}

/// Puts back everything that a record names, newest first, reads it back, and removes the record. Skips settings that
/// are as before or gone, so it may be repeated.
///
/// # Errors
/// [`ApplyError::Left`]: some settings could not be put back. The record stays then.
pub fn revert(
    netlink: &mut Netlink,
    record: Record,
    show: &mut dyn FnMut(&Change, Progress),
) -> Result<usize, ApplyError> {
    let mut left = Vec::new();
    let mut undone = 0;
    for change in record.changes.iter().rev() {
        // A refused setting may become possible once the others are back: all are checked again below.
        if let Ok(true) = undo(netlink, change) {
            undone += 1;
            show(&change.reversed(), Progress::Undone);
        }
    }
    // Settings depend on each other (one offload needs another), so each is judged only when all are back. A subject's
    // original value is the one that its first change found.
    for (nth, change) in record.changes.iter().enumerate() {
        let earlier = &record.changes[..nth];
        if earlier.iter().any(|one| one.subject == change.subject) {
            continue;
        }
        let again = match undo(netlink, change) {
            Ok(false) => continue,
            Ok(true) => operate::read(netlink, &change.subject).map_err(|error| error.to_string()),
            Err(reason) => Err(reason),
        };
        match again {
            Ok(now) if now.is_as(&change.from) => {}
            Ok(now) => left.push(format!(
                "{} ({} is in force)",
                change.reversed().show(),
                now.show()
            )),
            Err(reason) => left.push(format!("{} ({reason})", change.reversed().show())),
        }
    }
    if !left.is_empty() {
        return Err(ApplyError::Left(left));
    }
    record.remove()?;
    Ok(undone)
}

/// Undoes one change. Returns whether there was something to put back.
fn undo(netlink: &mut Netlink, change: &Change) -> Result<bool, String> {
    let now = operate::read(netlink, &change.subject).map_err(|error| error.to_string())?;
    if now.is_as(&change.from) {
        return Ok(false);
    }
    if now == Value::Absent && !matches!(change.subject, Subject::Vlan { .. }) {
        // The interface or thread is gone, and its settings with it.
        return Ok(false);
    }
    operate::write(netlink, &change.subject, &change.from).map_err(|error| error.to_string())?;
    Ok(true)
}
