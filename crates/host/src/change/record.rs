//! The undo record: each change is written down before it is made, so that a later program can undo it.
//!
//! There is one file for each interface and network namespace, in JSON lines. A line that a crash cut off belongs to a
//! change that was not made. A record of an earlier boot describes settings that the kernel has forgotten.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rtwire_sys::clock::{self, Clock};
use serde::{Deserialize, Serialize};

use super::setting::Change;
use crate::files::Files;
use crate::netlink::Netlink;

/// The subject and origin of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// 1.
    pub version: u32,
    /// The command that made the changes, for a reader: `rtwire apply …`.
    pub title: String,
    /// The kernel's identifier of this boot.
    pub boot: String,
    /// The interface, or `host`.
    pub interface: String,
    /// The interface's index, by which it is found after it was renamed; none for `host`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// The hardware address that the interface's maker gave it, by which it is found after it was taken out and put in again; none
    /// for virtual links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permanent_address: Option<Vec<u8>>,
    /// The end of the time to confirm, ns of CLOCK_BOOTTIME; none if no confirmation is needed.
    pub confirm_until_ns: Option<u64>,
}

impl Header {
    /// Returns a header of this boot. The end of the time to confirm is in ns of CLOCK_BOOTTIME.
    #[must_use]
    pub fn new(title: impl Into<String>, interface: &str, confirm_until_ns: Option<u64>) -> Self {
        let link = Netlink::new().link(interface).ok().flatten();
        let address = link.as_ref().map(|link| link.permanent_address.clone());
        Self {
            version: 1,
            title: title.into(),
            boot: boot(),
            interface: interface.to_owned(),
            index: link.map(|link| link.index),
            permanent_address: address.filter(|address| !address.is_empty()),
            confirm_until_ns,
        }
    }

    /// Returns whether the record is of this boot. Settings of an earlier boot are gone.
    #[must_use]
    pub fn is_of_this_boot(&self) -> bool {
        self.boot == boot()
    }

    /// Returns whether the time to confirm is over, by CLOCK_BOOTTIME.
    #[must_use]
    pub fn is_overdue(&self) -> bool {
        self.is_overdue_at(clock::now_ns(Clock::Boottime))
    }

    /// Returns whether the time to confirm is over at `now_ns` of CLOCK_BOOTTIME. Pure.
    #[must_use]
    pub fn is_overdue_at(&self, now_ns: u64) -> bool {
        self.confirm_until_ns.is_some_and(|until| now_ns >= until)
    }
}

/// The progress of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Changes are being made, or the program that made them was cut off.
    Unfinished,
    /// All changes were made and read back. They wait for a confirmation if the header asks for one.
    Applied,
    /// The changes are to stay.
    Confirmed,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Begin(Header),
    Change(Change),
    Applied,
    Confirmed,
}

/// The reason why a record cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A file could not be read or written.
    #[error("cannot {what} undo record {}: {source}", .path.display())]
    File {
        /// The attempted operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The interface has a record already.
    #[error(
        "the settings of `{interface}` were changed already ({title}); put them back first: rtwire revert {interface}"
    )]
    Exists {
        /// The interface.
        interface: String,
        /// The command that made it.
        title: String,
    },
    /// Another program holds the record.
    #[error("another rtwire is changing the settings of `{0}` now: wait until it has ended")]
    Busy(String),
    /// The file does not begin as a record does.
    #[error("{} is not an undo record that this version can read; if nothing needs to be put back, remove the file", .0.display())]
    Unreadable(PathBuf),
}

/// The record of one interface, locked against others while it is open.
#[derive(Debug)]
pub struct Record {
    path: PathBuf,
    directory: PathBuf,
    file: File,
    _lock: File,
    /// Its subject and origin.
    pub header: Header,
    /// The changes made, oldest first.
    pub changes: Vec<Change>,
    /// Its progress.
    pub state: State,
}

/// Returns the directory of the records: `RTWIRE_STATE_DIRECTORY`, otherwise `/var/lib/rtwire`.
#[must_use]
pub fn default_directory() -> PathBuf {
    std::env::var_os("RTWIRE_STATE_DIRECTORY")
        .map_or_else(|| PathBuf::from("/var/lib/rtwire"), PathBuf::from)
}

/// Returns the kernel's identifier of this boot.
#[must_use]
fn boot() -> String {
    let files = Files::default();
    files
        .read("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
}

/// Returns the file name of an interface's record. Interfaces of different network namespaces may share a name.
fn stem(interface: &str) -> String {
    let namespace = Files::default()
        .link("/proc/thread-self/ns/net")
        .unwrap_or_default();
    let number: String = namespace.chars().filter(char::is_ascii_digit).collect();
    format!("net{number}-{}", interface.replace('/', "_"))
}

impl Record {
    /// Begins a record.
    ///
    /// # Errors
    /// A record exists already, another program holds it, or the directory cannot be written.
    pub fn begin(directory: &Path, header: Header) -> Result<Self, RecordError> {
        let name = Self::name_for(directory, &header.interface);
        let name = name.as_ref().unwrap_or(&header.interface);
        if let Some(old) = Self::open(directory, name)? {
            if old.header.boot == header.boot {
                return Err(RecordError::Exists {
                    interface: name.clone(),
                    title: old.header.title,
                });
            }
            // The machine was restarted since: those settings are gone.
            old.remove()?;
        }
        let lock = lock(directory, &header.interface)?;
        let path = directory.join(stem(&header.interface) + ".undo");
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(&path)
            .map_err(fault("begin", &path))?;
        let mut record = Self {
            path,
            directory: directory.to_owned(),
            file,
            _lock: lock,
            header: header.clone(),
            changes: Vec::new(),
            state: State::Unfinished,
        };
        record.line(&Line::Begin(header))?;
        record.sync_directory()?;
        Ok(record)
    }

    /// Opens the record of an interface. Returns `None` if it has none.
    ///
    /// # Errors
    /// Another program holds the record, or it cannot be read.
    pub fn open(directory: &Path, interface: &str) -> Result<Option<Self>, RecordError> {
        let path = directory.join(stem(interface) + ".undo");
        if !path.exists() {
            return Ok(None);
        }
        let lock = lock(directory, interface)?;
        let text = match fs::read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(fault("read", &path)(source)),
        };
        let file = OpenOptions::new()
            .append(true)
            .open(&path)
            .map_err(fault("open", &path))?;
        let Some((header, changes, state)) = Self::parse(&text) else {
            // Cut off within its first line: nothing was changed yet.
            if !text.contains('\n') {
                fs::remove_file(&path).map_err(fault("remove", &path))?;
                return Ok(None);
            }
            return Err(RecordError::Unreadable(path));
        };
        Ok(Some(Self {
            path,
            directory: directory.to_owned(),
            file,
            _lock: lock,
            header,
            changes,
            state,
        }))
    }

    /// Returns the interfaces of this network namespace that have a record, even a damaged one; [`Record::open`]
    /// reports damage.
    #[must_use]
    pub fn interfaces(directory: &Path) -> Vec<String> {
        let start = stem("");
        let names = Files::default().list(&directory.to_string_lossy());
        let interface = |name: &String| {
            let interface = name.strip_prefix(&start)?.strip_suffix(".undo")?;
            Some(interface.to_owned())
        };
        names.iter().filter_map(interface).collect()
    }

    /// Returns the name by which `interface` has a record: its own, or the one that it had before it was renamed. `None` if
    /// it has no record.
    #[must_use]
    pub fn name_for(directory: &Path, interface: &str) -> Option<String> {
        if directory.join(stem(interface) + ".undo").exists() {
            return Some(interface.to_owned());
        }
        let link = Netlink::new().link(interface).ok()??;
        let address = Some(link.permanent_address).filter(|address| !address.is_empty());
        let mut records = Self::list(directory).into_iter();
        let own = records.find(|(header, ..)| {
            let same_address = address.is_some() && header.permanent_address == address;
            header.is_of_this_boot() && (header.index == Some(link.index) || same_address)
        });
        own.map(|(header, ..)| header.interface)
    }

    /// Returns header, state and number of changes of each readable record of this network namespace. Takes no lock.
    #[must_use]
    pub fn list(directory: &Path) -> Vec<(Header, State, usize)> {
        let read = |interface: String| {
            let text = fs::read_to_string(directory.join(stem(&interface) + ".undo")).ok()?;
            let (header, changes, state) = Self::parse(&text)?;
            Some((header, state, changes.len()))
        };
        Self::interfaces(directory)
            .into_iter()
            .filter_map(read)
            .collect()
    }

    /// Notes a change that is about to be made. The line is on the disk when this returns.
    ///
    /// # Errors
    /// The disk is full or gone.
    pub fn note(&mut self, change: &Change) -> Result<(), RecordError> {
        self.line(&Line::Change(change.clone()))?;
        self.changes.push(change.clone());
        Ok(())
    }

    /// Notes that all changes were made and read back.
    ///
    /// # Errors
    /// As [`Record::note`].
    pub fn applied(&mut self) -> Result<(), RecordError> {
        self.line(&Line::Applied)?;
        self.state = State::Applied;
        Ok(())
    }

    /// Notes that the changes are to stay.
    ///
    /// # Errors
    /// As [`Record::note`].
    pub fn confirm(&mut self) -> Result<(), RecordError> {
        self.line(&Line::Confirmed)?;
        self.state = State::Confirmed;
        Ok(())
    }

    /// Removes the record after everything was put back.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn remove(self) -> Result<(), RecordError> {
        fs::remove_file(&self.path).map_err(fault("remove", &self.path))?;
        self.sync_directory()
    }

    /// Returns header, changes and state; `None` if the first line is not whole. A line is on the disk before its change is
    /// made, so changes after an unreadable line were never made. Pure.
    #[must_use]
    pub fn parse(text: &str) -> Option<(Header, Vec<Change>, State)> {
        let whole = &text[..text.rfind('\n')?];
        let mut lines = whole.lines();
        let Ok(Line::Begin(header)) = serde_json::from_str(lines.next()?) else {
            return None;
        };
        let mut changes = Vec::new();
        let mut state = State::Unfinished;
        for line in lines {
            match serde_json::from_str(line) {
                Ok(Line::Change(change)) => changes.push(change),
                Ok(Line::Applied) => state = State::Applied,
                Ok(Line::Confirmed) => state = State::Confirmed,
                Ok(Line::Begin(_)) | Err(_) => return None,
            }
        }
        (header.version == 1).then_some((header, changes, state))
    }

    fn line(&mut self, line: &Line) -> Result<(), RecordError> {
        let mut text = serde_json::to_string(line)
            .map_err(|error| fault("write", &self.path)(io::Error::other(error)))?;
        text.push('\n');
        self.file
            .write_all(text.as_bytes())
            .and_then(|()| self.file.sync_all())
            .map_err(fault("write", &self.path))
    }

    fn sync_directory(&self) -> Result<(), RecordError> {
        File::open(&self.directory)
            .and_then(|directory| directory.sync_all())
            .map_err(fault("write", &self.directory))
    }
}

fn fault(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RecordError {
    let path = path.to_owned();
    move |source| RecordError::File { what, path, source }
}

/// A lock is tried again for this long. A process that is just being started holds copies of its parent's descriptors
/// until it executes another program, and so a lock that its parent has given back.
const LOCK_PATIENCE: Duration = Duration::from_millis(200);

/// Takes the lock of an interface's record. Closing the file releases it, also by a crash.
fn lock(directory: &Path, interface: &str) -> Result<File, RecordError> {
    use rustix::fs::{FlockOperation, flock};
    fs::create_dir_all(directory).map_err(fault("make the directory of", directory))?;
    let path = directory.join(stem(interface) + ".lock");
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(fault("lock", &path))?;
    let begin = Instant::now();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) if begin.elapsed() < LOCK_PATIENCE => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(RecordError::Busy(interface.to_owned()));
            }
            Err(errno) => return Err(fault("lock", &path)(errno.into())),
        }
    }
}
