//! The thread beside a subscriber's loop that reads key files when they change: the loop itself opens no file.

use crate::{KeyFile, StationError};
use rtwire_pubsub::security::Key;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

/// The period of the thread.
const LOOK: Duration = Duration::from_millis(20);

/// A group's key file.
#[derive(Debug)]
pub(crate) struct Watched {
    /// The group's place.
    pub(crate) group: usize,
    pub(crate) path: PathBuf,
    /// The time of its last change that was read; `None` as in [`KeyFile::changed`].
    pub(crate) seen: Option<SystemTime>,
}

/// All keys of a group's file.
pub(crate) struct NewKeys {
    pub(crate) group: usize,
    pub(crate) keys: Vec<Key>,
}

/// The loop's end.
#[derive(Debug)]
pub(crate) struct KeyWatch {
    keys: Receiver<NewKeys>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl KeyWatch {
    /// Starts the thread; none where there is no file.
    pub(crate) fn start(mut files: Vec<Watched>) -> Result<Self, StationError> {
        let (sender, keys) = sync_channel(4);
        let stop = Arc::new(AtomicBool::new(false));
        let thread = match files.is_empty() {
            true => None,
            false => {
                let stop = Arc::clone(&stop);
                let work = move || {
                    while !stop.load(Ordering::Relaxed) {
                        files.iter_mut().for_each(|file| file.look(&sender));
                        thread::park_timeout(LOOK);
                    }
                };
                let thread = thread::Builder::new().name("rtwire-keys".to_owned());
                let thread = thread.spawn(work);
                Some(thread.map_err(|source| StationError::Thread { source })?)
            }
        };
        Ok(Self { keys, stop, thread })
    }

    /// Returns the keys of a file that has changed. No system call.
    pub(crate) fn changed(&self) -> Option<NewKeys> {
        self.keys.try_recv().ok()
    }
}

impl Watched {
    /// Hands over the keys of a file that has changed. A file that cannot be read changes nothing.
    fn look(&mut self, sender: &SyncSender<NewKeys>) {
        let facts = std::fs::metadata(&self.path);
        let changed = facts.and_then(|facts| facts.modified()).ok();
        if changed == self.seen {
            return;
        }
        let Ok(known) = KeyFile::read(&self.path) else {
            return;
        };
        let Ok(keys) = known.all(&self.path) else {
            return;
        };
        let group = self.group;
        // Where the loop has not taken the last ones yet: the next time.
        if sender.try_send(NewKeys { group, keys }).is_ok() {
            self.seen = known.changed;
        }
    }
}

impl Drop for KeyWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A thread that panicked has said so; there is nothing to add while dropping.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
#[path = "key_watch_tests.rs"]
mod tests;
