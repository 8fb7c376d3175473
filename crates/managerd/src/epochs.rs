//! The newest epoch as a plan file beside the store, written by a thread of its own.
//!
//! Planning anew takes longer than admitting. So epochs that come in quick succession have one file, of the newest.
//! The thread has its own list of the connections and follows the changes: the loop that answers never stops to copy them.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rtwire_manager::{Change, Manager, Snapshot};
use rtwire_plan::plan_file;

use crate::service::{Told, plan_path};

/// The least time from one file's beginning to the next one's: planning and writing take time from the answers.
const PAUSE: Duration = Duration::from_secs(1);
/// The least number of times that a file's own time passes until the next one begins: with a million connections it takes long.
const REST: u32 = 5;
/// The thread's nice value: the one that answers goes first wherever both want a processor.
const NICE: i32 = 10;

/// The writer of plan files.
#[derive(Debug)]
pub(crate) struct Epochs {
    /// `None` once the thread shall end.
    changes: Option<Sender<Change>>,
    troubles: Receiver<String>,
    thread: Option<JoinHandle<()>>,
    /// True once this value is gone: what its thread planned is no longer wanted.
    is_over: Arc<AtomicBool>,
}

impl Drop for Epochs {
    fn drop(&mut self) {
        // The end of the process ends the thread: the file is replaced as a whole or not at all.
        self.is_over.store(true, Ordering::Release);
    }
}

impl Epochs {
    /// Begins with the manager's present epoch: the file of an earlier start may be older than the store.
    pub(crate) fn new(state: &Path, manager: &Manager) -> Epochs {
        let (changes, changed) = channel();
        let (told, troubles) = channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let writer = Writer {
            path: plan_path(state),
            snapshot: manager.snapshot(),
            is_over: Arc::clone(&is_over),
        };
        Epochs {
            changes: Some(changes),
            troubles,
            thread: Some(thread::spawn(move || writer.run(&changed, &told))),
            is_over,
        }
    }

    /// Tells of a change. Costs a message to the thread.
    pub(crate) fn follow(&self, change: Change) {
        if let Some(changes) = &self.changes {
            // The thread takes all of them until this value is gone.
            let _ = changes.send(change);
        }
    }

    /// Tells what the thread could not do.
    pub(crate) fn look(&self, tell: &mut dyn FnMut(Told)) {
        for message in self.troubles.try_iter() {
            tell(Told::Trouble(message));
        }
    }

    /// Waits for the file of the last epoch.
    pub(crate) fn finish(&mut self, tell: &mut dyn FnMut(Told)) {
        self.changes = None;
        if let Some(thread) = self.thread.take() {
            // A panic was told by its own message.
            let _ = thread.join();
        }
        self.look(tell);
    }
}

/// The state of the thread.
struct Writer {
    path: PathBuf,
    snapshot: Snapshot,
    is_over: Arc<AtomicBool>,
}

impl Writer {
    fn run(mut self, changes: &Receiver<Change>, troubles: &Sender<String>) {
        // Everybody may be nicer; where a sandbox refuses it, the answers are later.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
        let mut goes_on = true;
        loop {
            let begun = Instant::now();
            if let Err(message) = self.write() {
                // Nobody hears it after the end.
                let _ = troubles.send(message);
            }
            let until = begun + PAUSE.max(begun.elapsed() * REST);
            let Some(first) = changes.recv().ok().filter(|_| goes_on) else {
                return;
            };
            self.snapshot.follow(first);
            // Until then, and all that is there.
            loop {
                match changes.recv_timeout(until.saturating_duration_since(Instant::now())) {
                    Ok(change) => self.snapshot.follow(change),
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => {
                        goes_on = false;
                        break;
                    }
                }
            }
        }
    }

    fn write(&self) -> Result<(), String> {
        if self.is_over.load(Ordering::Acquire) {
            return Ok(());
        }
        let epoch = self.snapshot.epoch();
        let plan = self.snapshot.plan().map_err(|refusal| {
            format!(
                "epoch {epoch} has no plan file, though its promises rest on budgets: {refusal}"
            )
        })?;
        // A later leadership of this process has its own file of a later epoch.
        if self.is_over.load(Ordering::Acquire) {
            return Ok(());
        }
        let beside = self.path.with_extension("json.new");
        let done = File::create(&beside).and_then(|mut file| {
            file.write_all(plan_file::text(&plan).as_bytes())?;
            file.sync_all()?;
            fs::rename(&beside, &self.path)
        });
        done.map_err(|error| format!("cannot write `{}`: {error}", self.path.display()))
    }
}
