//! The labs of this machine: running, kept or crashed.
//!
//! Each lab has a directory below [`DIRECTORY`] with its record and a lock that its process holds. A record without a
//! held lock that was not kept belongs to a crashed lab. The next run removes that lab by name, and nothing else.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rtwire_sys::clock::{self, Clock};
use rtwire_sys::netns;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::LabError;

/// The directory of the records.
pub const DIRECTORY: &str = "/run/rtwire/labs";
const RECORD: &str = "lab.json";
const LOCK: &str = "lock";

/// The record of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Four hexadecimal digits.
    pub id: String,
    /// The network's name.
    pub network: String,
    /// The description it was brought up from.
    pub file: String,
    /// The process that brought it up.
    pub pid: u32,
    /// True if it stays up after its process ends.
    pub kept: bool,
    /// Its nodes with their network namespaces.
    pub nodes: Vec<NodeRecord>,
    /// The phase of its run.
    #[serde(default)]
    pub phase: Phase,
    /// The time at which this phase began, in ns of CLOCK_TAI.
    #[serde(default)]
    pub phase_since_tai_ns: u64,
}

/// The phase of a lab's run. Programs that act on a lab wait for one: `rtwire lab list --json`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Its namespaces and links are made.
    #[default]
    BringingUp,
    /// The unloaded network is measured, and then the hosts' processes of the run are started.
    Calibrating,
    /// The talkers of the run send, and their listeners receive.
    Running,
    /// The measurement is over: the lab is judged, and then it is kept or removed.
    Ended,
}

impl Phase {
    /// Returns the phase's name, as in the record.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::BringingUp => "bringing-up",
            Self::Calibrating => "calibrating",
            Self::Running => "running",
            Self::Ended => "ended",
        }
    }
}

/// A node of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// The node's name in the description.
    pub name: String,
    /// Its network namespace.
    pub namespace: String,
}

/// The state of a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Its process is alive.
    Running,
    /// It was kept and stays until `rtwire lab down`.
    Kept,
    /// Its process ended without cleaning up.
    Crashed,
}

/// The registration of a lab that this process runs. The lock ends with the value or with the process.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) record: Record,
    path: PathBuf,
    _lock: File,
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> LabError + '_ {
    |source| LabError::File {
        path: path.to_owned(),
        source,
    }
}

impl Claim {
    /// Takes an unused id.
    ///
    /// # Errors
    /// [`LabError`] if the directory cannot be written (not root).
    pub(crate) fn new(network: &str, file: &str) -> Result<Self, LabError> {
        let base = Path::new(DIRECTORY);
        // Explicit: with a mask of 0 everybody could write to the folder, and the locks of ports would refuse it.
        let mut folders = DirBuilder::new();
        let made = folders.recursive(true).mode(0o755).create(base);
        made.map_err(at(base))?;
        loop {
            let id = random_id().map_err(LabError::Io)?;
            let path = base.join(&id);
            match fs::create_dir(&path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                other => other.map_err(at(&path))?,
            }
            let lock = File::create(path.join(LOCK)).map_err(at(&path))?;
            flock(&lock, FlockOperation::NonBlockingLockExclusive)
                .map_err(|e| at(&path)(e.into()))?;
            let claim = Self {
                record: Record {
                    id,
                    network: network.to_owned(),
                    file: file.to_owned(),
                    pid: std::process::id(),
                    kept: false,
                    nodes: Vec::new(),
                    phase: Phase::BringingUp,
                    phase_since_tai_ns: clock::now_ns(Clock::Tai),
                },
                path,
                _lock: lock,
            };
            claim.save()?;
            return Ok(claim);
        }
    }

    /// Returns the prefix of all names of this lab.
    pub(crate) fn prefix(&self) -> String {
        prefix(&self.record.id)
    }

    /// Creates a directory for the files of one part of the run. No part reads another one's samples.
    pub(crate) fn subdirectory(&self, name: &str) -> Result<PathBuf, LabError> {
        let path = self.path.join(name);
        fs::create_dir_all(&path).map_err(at(&path))?;
        Ok(path)
    }

    /// Writes the record.
    pub(crate) fn save(&self) -> Result<(), LabError> {
        let path = self.path.join(RECORD);
        let text = serde_json::to_string_pretty(&self.record).map_err(io::Error::other)?;
        // The file is written under another name and renamed, so a reader never sees half of it.
        let aside = self.path.join("lab.json.new");
        fs::write(&aside, text).map_err(at(&aside))?;
        fs::rename(&aside, &path).map_err(at(&path))
    }

    /// Writes that a phase begins now.
    pub(crate) fn enter(&mut self, phase: Phase) -> Result<(), LabError> {
        self.record.phase = phase;
        self.record.phase_since_tai_ns = clock::now_ns(Clock::Tai);
        self.save()
    }

    /// Ends the registration and removes its files.
    pub(crate) fn release(self) -> Result<(), LabError> {
        fs::remove_dir_all(&self.path).map_err(at(&self.path))
    }
}

fn prefix(id: &str) -> String {
    format!("rtw-{id}")
}

fn random_id() -> io::Result<String> {
    let mut bytes = [0; 2];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:04x}", u16::from_be_bytes(bytes)))
}

fn read(path: &Path) -> Option<Record> {
    let text = fs::read_to_string(path.join(RECORD)).ok()?;
    serde_json::from_str(&text).ok()
}

/// Returns true if the lab's process holds its lock.
fn is_held(path: &Path) -> bool {
    let Ok(lock) = File::open(path.join(LOCK)) else {
        return false;
    };
    flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err()
}

/// Returns all labs of this machine with their states, sorted by id.
///
/// # Errors
/// [`LabError`] if the directory exists and cannot be read.
pub fn list() -> Result<Vec<(Record, State)>, LabError> {
    let base = Path::new(DIRECTORY);
    let entries = match fs::read_dir(base) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(at(base))?,
    };
    let mut labs = Vec::new();
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        let Some(id) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        let held = is_held(&path);
        let record = read(&path).unwrap_or_else(|| Record {
            id: id.to_owned(),
            network: String::new(),
            file: String::new(),
            pid: 0,
            kept: false,
            nodes: Vec::new(),
            phase: Phase::BringingUp,
            phase_since_tai_ns: 0,
        });
        let state = match (held, record.kept) {
            (true, _) => State::Running,
            (false, true) => State::Kept,
            (false, false) => State::Crashed,
        };
        labs.push((record, state));
    }
    labs.sort_by(|a, b| a.0.id.cmp(&b.0.id));
    Ok(labs)
}

/// Returns the lab with this id.
///
/// # Errors
/// [`LabError`] if there is no such lab; the message lists the existing ones.
pub fn find(id: &str) -> Result<(Record, State), LabError> {
    let labs = list()?;
    let ids: Vec<String> = labs.iter().map(|(record, _)| record.id.clone()).collect();
    labs.into_iter()
        .find(|(record, _)| record.id == id)
        .ok_or_else(|| LabError::NoSuchLab {
            id: id.to_owned(),
            others: ids,
        })
}

/// Removes a kept or crashed lab: its namespaces, and with them its links, and its record.
///
/// # Errors
/// [`LabError`] if it still runs, or a namespace cannot be removed.
pub fn take_down(id: &str) -> Result<(), LabError> {
    let (record, state) = find(id)?;
    if state == State::Running {
        return Err(LabError::StillRunning {
            id: record.id,
            pid: record.pid,
        });
    }
    remove(&record.id)
}

/// Removes the remains of crashed labs; returns their ids.
///
/// # Errors
/// [`LabError`] if the records cannot be read, or a namespace cannot be removed.
pub(crate) fn remove_crashed() -> Result<Vec<String>, LabError> {
    let mut removed = Vec::new();
    for (record, state) in list()? {
        if state == State::Crashed && !is_new(&record.id) {
            remove(&record.id)?;
            removed.push(record.id);
        }
    }
    Ok(removed)
}

/// Returns true for a lab that is just being registered: it has a directory before it has a lock.
fn is_new(id: &str) -> bool {
    let age = fs::metadata(Path::new(DIRECTORY).join(id))
        .and_then(|metadata| metadata.modified())
        .ok()
        .and_then(|modified| modified.elapsed().ok());
    !Path::new(DIRECTORY).join(id).join(RECORD).exists() && age.is_none_or(|age| age.as_secs() < 5)
}

fn remove(id: &str) -> Result<(), LabError> {
    // The dash ends the id, so no other lab's names begin with this.
    for name in netns::list(&format!("{}-", prefix(id))).map_err(LabError::Io)? {
        netns::delete(&name).map_err(LabError::Io)?;
    }
    let path = Path::new(DIRECTORY).join(id);
    match fs::remove_dir_all(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(at(&path)(e)),
        _ => Ok(()),
    }
}
