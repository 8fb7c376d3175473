//! A process that puts an interface's settings back unless they are confirmed in time.
//!
//! ```text
//!   rtwire apply ── begins the record ── spawn ──► guardian process: run
//!        │                                              │ "ready"
//!        ◄──────────────────────────────────────────────┘
//!        └── makes the changes, ends            looks at the record five times a second
//! ```
//!
//! It needs nothing from the program that started it, so it outlives a crash of that and the end of its terminal. A
//! guardian that is killed too leaves the record: `rtwire doctor` and `rtwire confirm` find it.

use std::io::{self, BufRead as _, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use super::record::{Header, Record, RecordError, State};
use super::transaction::{self, ApplyError};
use crate::netlink::Netlink;

/// The line by which a guardian reports that it watches.
const READY: &str = "ready";

/// The time between two looks at the record.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The reason why a guardian does not watch, or could not put everything back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuardianError {
    /// Its process could not be started.
    #[error("cannot start the guardian that would put things back: {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// The system's error.
        source: io::Error,
    },
    /// Its process ended before it watched.
    #[error(
        "cannot start the guardian that would put things back: {program} ended before it was ready"
    )]
    NotReady {
        /// The program.
        program: String,
    },
    /// The interface has no undo record, so there is nothing to guard.
    #[error("there is nothing to guard for `{0}`: it has no undo record")]
    NoRecord(String),
    /// The starter does not read the line that the guardian is ready.
    #[error("cannot tell that the guardian of `{interface}` is ready: {source}")]
    Unheard {
        /// The interface.
        interface: String,
        /// The system's error.
        source: io::Error,
    },
    /// The settings could not be put back.
    #[error(transparent)]
    Left(#[from] ApplyError),
}

/// The outcome of a guardian's watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Somebody confirmed or reverted the changes.
    Settled,
    /// Nobody confirmed: this number of settings was put back.
    PutBack(usize),
}

/// The guardian of one record.
#[derive(Debug)]
pub struct Guardian {
    directory: PathBuf,
    own: Header,
}

/// The next step after a look at the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    End,
    Wait,
    PutBack,
}

impl Guardian {
    /// Takes up the present record of `interface`. Later records of the same interface are not guarded.
    ///
    /// # Errors
    /// [`GuardianError::NoRecord`].
    pub fn start(directory: &Path, interface: &str) -> Result<Self, GuardianError> {
        let (own, _) = find(directory, interface)
            .ok_or_else(|| GuardianError::NoRecord(interface.to_owned()))?;
        Ok(Self {
            directory: directory.to_owned(),
            own,
        })
    }

    /// Waits until the record is settled or the time to confirm is over, and then puts the settings back. Blocks.
    ///
    /// # Errors
    /// [`GuardianError::Left`]: the record stays for `rtwire revert`.
    pub fn watch(self) -> Result<Watched, GuardianError> {
        let interface = &self.own.interface;
        loop {
            match self.step(find(&self.directory, interface), self.own.is_overdue()) {
                Step::End => return Ok(Watched::Settled),
                Step::Wait => {}
                Step::PutBack => match Record::open(&self.directory, interface) {
                    Ok(Some(record)) => {
                        // The lock was taken only now: somebody may have confirmed meanwhile.
                        let now = Some((record.header.clone(), record.state));
                        if self.step(now, true) != Step::PutBack {
                            return Ok(Watched::Settled);
                        }
                        let undone =
                            transaction::revert(&mut Netlink::new(), record, &mut |_, _| {})?;
                        return Ok(Watched::PutBack(undone));
                    }
                    Ok(None) => return Ok(Watched::Settled),
                    // Another program holds the record: look again.
                    Err(RecordError::Busy(_)) => {}
                    Err(error) => return Err(ApplyError::from(error).into()),
                },
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Decides after one look. Pure.
    fn step(&self, found: Option<(Header, State)>, overdue: bool) -> Step {
        match found {
            Some((header, State::Unfinished | State::Applied)) if header == self.own => {
                if overdue {
                    Step::PutBack
                } else {
                    Step::Wait
                }
            }
            // Confirmed, put back, or a later record.
            _ => Step::End,
        }
    }
}

fn find(directory: &Path, interface: &str) -> Option<(Header, State)> {
    Record::list(directory)
        .into_iter()
        .find(|(header, _, _)| header.interface == interface)
        .map(|(header, state, _)| (header, state))
}

/// Runs the guardian of `interface` from start to end, in the process that [`spawn`] starts. Leaves the starter's
/// session, writes the line that it is ready to `ready` (standard output), and watches.
///
/// # Errors
/// [`GuardianError`], but neither `Start` nor `NotReady`.
pub fn run(
    directory: &Path,
    interface: &str,
    ready: &mut dyn Write,
) -> Result<Watched, GuardianError> {
    // Fails if the process leads a group already: then the end of a terminal does not reach it anyway.
    let _ = rustix::process::setsid();
    let guardian = Guardian::start(directory, interface)?;
    writeln!(ready, "{READY}")
        .and_then(|()| ready.flush())
        .map_err(|source| GuardianError::Unheard {
            interface: interface.to_owned(),
            source,
        })?;
    guardian.watch()
}

/// Starts a guardian's process and waits until it watches. `command` is a program that calls [`run`]; its standard
/// streams are set here. The record must be begun before.
///
/// # Errors
/// [`GuardianError::Start`], [`GuardianError::NotReady`]: no change may be made then.
pub fn spawn(mut command: Command) -> Result<(), GuardianError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |source| GuardianError::Start {
        program: program.clone(),
        source,
    };
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let mut line = String::new();
    let read = match child.stdout.take() {
        Some(stdout) => BufReader::new(stdout).read_line(&mut line),
        None => Ok(0),
    };
    if line.trim() == READY {
        // Reaps the child: a long-running starter keeps no zombie.
        thread::spawn(move || child.wait());
        return Ok(());
    }
    // Leaves no process behind.
    let _ = child.kill();
    let _ = child.wait();
    read.map_err(failed)?;
    Err(GuardianError::NotReady { program })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "rtw-none";

    fn record(directory: &Path, until: u64) -> Record {
        Record::begin(directory, Header::new("title", NAME, Some(until))).unwrap()
    }

    #[test]
    fn a_look_at_the_record_decides() {
        let own = Header::new("title", NAME, Some(7));
        let guardian = Guardian {
            directory: PathBuf::new(),
            own: own.clone(),
        };
        let other = Header::new("another", NAME, Some(7));
        for (found, overdue, step) in [
            (None, true, Step::End),
            (Some((own.clone(), State::Unfinished)), false, Step::Wait),
            (Some((own.clone(), State::Applied)), false, Step::Wait),
            (Some((own.clone(), State::Applied)), true, Step::PutBack),
            (Some((own.clone(), State::Unfinished)), true, Step::PutBack),
            (Some((own, State::Confirmed)), true, Step::End),
            (Some((other, State::Applied)), true, Step::End),
        ] {
            assert_eq!(guardian.step(found.clone(), overdue), step, "{found:?}");
        }
    }

    #[test]
    fn it_waits_for_who_holds_the_record_and_then_puts_back() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path();
        assert!(matches!(
            Guardian::start(directory, NAME),
            Err(GuardianError::NoRecord(_))
        ));
        let held = record(directory, 0);
        let guardian = Guardian::start(directory, NAME).unwrap();
        let watch = thread::spawn(move || guardian.watch());
        thread::sleep(3 * LOOK_EVERY / 2);
        assert!(!watch.is_finished(), "the record is held");
        drop(held);
        assert_eq!(watch.join().unwrap().unwrap(), Watched::PutBack(0));
        assert!(Record::open(directory, NAME).unwrap().is_none());
    }

    #[test]
    fn it_ends_when_the_changes_are_confirmed() {
        let folder = tempfile::tempdir().unwrap();
        let mut own = record(folder.path(), u64::MAX);
        own.applied().unwrap();
        own.confirm().unwrap();
        let guardian = Guardian {
            directory: folder.path().to_owned(),
            own: own.header.clone(),
        };
        assert_eq!(guardian.watch().unwrap(), Watched::Settled);
        assert!(Record::list(folder.path()).len() == 1, "the record stays");
    }

    #[test]
    fn a_process_that_is_not_ready_is_no_guardian() {
        let sh = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            spawn(command)
        };
        sh("echo ready").unwrap();
        for script in ["exit 0", "echo not yet; sleep 60"] {
            let error = sh(script).unwrap_err();
            assert!(
                matches!(error, GuardianError::NotReady { .. }),
                "{script}: {error}"
            );
        }
        let error = spawn(Command::new("/nowhere/rtwire")).unwrap_err();
        assert!(matches!(error, GuardianError::Start { .. }), "{error}");
    }
}
