//! All or nothing: each change is recorded before it is made and read back after. Undoing goes in reverse.

use super::operate;
use super::record::{Record, RecordError};
use super::setting::{Change, Subject, Value};
use crate::HostError;
use crate::netlink::{LinkFacts, Netlink};

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
    #[error(
        "not put back: {}; the record stays, so `rtwire revert` can be tried again; to give these up: rtwire revert --force",
        .0.join("; ")
    )]
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
    let (undone, left) = put_back(netlink, &record, show)?;
    if !left.is_empty() {
        return Err(ApplyError::Left(
            left.into_iter().map(|(_, why)| why).collect(),
        ));
    }
    record.remove()?;
    Ok(undone)
}

/// A setting that could not be put back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// The command with the same effect.
    pub command: String,
    /// The setting, its value before, and the value in force or the kernel's reason.
    pub why: String,
}

/// Puts back what can be put back, as [`revert`], and removes the record whatever was left. Returns the number of settings
/// that were put back, and those that were not.
///
/// # Errors
/// The record could not be removed.
pub fn revert_by_force(
    netlink: &mut Netlink,
    record: Record,
    show: &mut dyn FnMut(&Change, Progress),
) -> Result<(usize, Vec<GivenUp>), ApplyError> {
    let (undone, left) = put_back(netlink, &record, show).unwrap_or_else(|error| {
        let all = record.changes.iter().map(Change::reversed);
        let why = error.to_string();
        (
            0,
            all.map(|change| (change.command(), why.clone())).collect(),
        )
    });
    record.remove()?;
    let left = left.into_iter();
    let left = left.map(|(command, why)| GivenUp { command, why });
    Ok((undone, left.collect()))
}

/// The whereabouts of a record's interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// It has the name that it had, or the record is not about one interface.
    Same,
    /// It has this name now.
    Renamed(String),
    /// It is gone. Another interface may have its name.
    Gone,
}

impl Whereabouts {
    /// Finds the interface of a record: by its index, else by the hardware address that its maker gave it.
    ///
    /// # Errors
    /// The kernel refuses to tell.
    pub fn of(netlink: &mut Netlink, record: &Record) -> Result<Self, HostError> {
        let old = &record.header.interface;
        // One that was moved comes back with its name, and perhaps with another index.
        let moved = record
            .changes
            .iter()
            .any(|change| matches!(change.subject, Subject::Place { .. }));
        let Some(index) = record.header.index.filter(|_| !moved) else {
            return Ok(Self::Same);
        };
        let links = netlink.links()?;
        let address = record.header.permanent_address.as_ref();
        let by_address = || {
            let same =
                |link: &&LinkFacts| address.is_some_and(|one| *one == link.permanent_address);
            links.iter().find(same)
        };
        let now = links.iter().find(|link| link.index == index);
        Ok(match now.or_else(by_address) {
            Some(link) if link.name == *old => Self::Same,
            Some(link) => Self::Renamed(link.name.clone()),
            None => Self::Gone,
        })
    }
}

/// Returns the record's changes by the name that its interface has now, without those of an interface that is gone.
fn by_present_name(netlink: &mut Netlink, record: &Record) -> Result<Vec<Change>, HostError> {
    let old = &record.header.interface;
    let changes = record.changes.iter();
    Ok(match Whereabouts::of(netlink, record)? {
        Whereabouts::Same => changes.cloned().collect(),
        Whereabouts::Renamed(new) => changes
            .map(|change| Change {
                subject: change.subject.renamed(old, &new),
                ..change.clone()
            })
            .collect(),
        // A name that no interface can have: what names the old one changes by it.
        Whereabouts::Gone => changes
            .filter(|change| change.subject.renamed(old, "/") == change.subject)
            .cloned()
            .collect(),
    })
}

/// Returns the changes with the values that are put back: those before, and what others have added since. That is each address,
/// route and neighbour that is there, was not there before, and was not set by these changes.
fn with_others(netlink: &mut Netlink, changes: &[Change]) -> Vec<Change> {
    let mut all = changes.to_vec();
    let subjects: Vec<Subject> = changes
        .iter()
        .map(|change| change.subject.clone())
        .collect();
    for (nth, subject) in subjects.iter().enumerate() {
        if !matches!(subject, Subject::Addresses { .. }) || subjects[..nth].contains(subject) {
            continue;
        }
        let Ok(Value::Addresses(mut others)) = operate::read(netlink, subject) else {
            continue;
        };
        for change in changes.iter().filter(|change| change.subject == *subject) {
            for value in [&change.from, &change.to] {
                if let Value::Addresses(known) = value {
                    others = others.without(known);
                }
            }
        }
        for change in all.iter_mut().filter(|change| change.subject == *subject) {
            if let Value::Addresses(before) = &mut change.from {
                before.extend(&others);
            }
        }
    }
    all
}

/// Undoes all that a record names, newest first. Returns the number of settings put back, and for each setting that is not as
/// before its command and the reason.
fn put_back(
    netlink: &mut Netlink,
    record: &Record,
    show: &mut dyn FnMut(&Change, Progress),
) -> Result<(usize, Vec<(String, String)>), ApplyError> {
    let changes = by_present_name(netlink, record).map_err(|error| {
        ApplyError::Left(vec![format!(
            "all of `{}` ({error})",
            record.header.interface
        )])
    })?;
    let with_others = with_others(netlink, &changes);
    let mut left = Vec::new();
    let mut undone = 0;
    for (change, whole) in changes.iter().zip(&with_others).rev() {
        // A refused setting may become possible once the others are back: all are checked again below.
        if let Ok(true) = undo(netlink, change, &whole.from) {
            undone += 1;
            show(&change.reversed(), Progress::Undone);
        }
    }
    // Settings depend on each other (one offload needs another), so each is judged only when all are back. A subject's
    // original value is the one that its first change found.
    for (nth, (change, whole)) in changes.iter().zip(&with_others).enumerate() {
        let earlier = &changes[..nth];
        if earlier.iter().any(|one| one.subject == change.subject) {
            continue;
        }
        let again = match undo(netlink, change, &whole.from) {
            Ok(false) => continue,
            Ok(true) => operate::read(netlink, &change.subject).map_err(|error| error.to_string()),
            Err(reason) => Err(reason),
        };
        let why = match again {
            Ok(now) if now.is_back(&change.from) => continue,
            Ok(now) => format!("{} is in force", now.show()),
            Err(reason) => reason,
        };
        let back = change.reversed();
        left.push((back.command(), format!("{} ({why})", back.show())));
    }
    Ok((undone, left))
}

/// Undoes one change, unless the value before is in force already: writes `value`, which may have more than that one. Returns
/// whether there was something to put back.
fn undo(netlink: &mut Netlink, change: &Change, value: &Value) -> Result<bool, String> {
    let now = operate::read(netlink, &change.subject).map_err(|error| error.to_string())?;
    if now.is_back(&change.from) {
        return Ok(false);
    }
    if now == Value::Absent && !matches!(change.subject, Subject::Vlan { .. }) {
        // The interface or thread is gone, and its settings with it.
        return Ok(false);
    }
    operate::write(netlink, &change.subject, value).map_err(|error| error.to_string())?;
    Ok(true)
}
