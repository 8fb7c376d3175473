//! The newest epoch as a plan file beside the store, written by a thread of its own.
//!
//! Planning anew takes longer than admitting. So epochs that come in quick succession have one file, of the newest.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rtwire_manager::{Manager, Snapshot};
use rtwire_plan::plan_file;

use crate::service::{Told, plan_path};

/// The divisor of the manager's time: copying its connections may take a twentieth.
const COPY_SHARE: u32 = 20;

/// The writer of plan files.
#[derive(Debug)]
pub(crate) struct Epochs {
    path: PathBuf,
    changed: bool,
    working: Option<Receiver<Result<u64, String>>>,
    not_before: Option<Instant>,
    /// True once this value is gone: what its thread planned is no longer wanted.
    is_over: Arc<AtomicBool>,
}

impl Drop for Epochs {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
    }
}

impl Epochs {
    pub(crate) fn new(state: &Path) -> Epochs {
        Epochs {
            path: plan_path(state),
            // The file of an earlier start may be older than the store.
            changed: true,
            working: None,
            not_before: None,
            is_over: Arc::default(),
        }
    }

    pub(crate) fn note_change(&mut self) {
        self.changed = true;
    }

    /// Takes what the thread has done, and starts it again if there is a newer epoch.
    pub(crate) fn look(&mut self, manager: &mut Manager, tell: &mut dyn FnMut(Told)) {
        if let Some(working) = &self.working {
            match working.try_recv() {
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {}
                Ok(Ok(_)) => {}
                Ok(Err(message)) => tell(Told::Trouble(message)),
            }
            self.working = None;
        }
        let early = self.not_before.is_some_and(|time| Instant::now() < time);
        if !self.changed || early {
            return;
        }
        let begun = Instant::now();
        let snapshot = manager.snapshot();
        let pause = begun.elapsed() * COPY_SHARE;
        self.not_before = Some(Instant::now() + pause.min(Duration::from_secs(60)));
        self.changed = false;
        let (done, working) = channel();
        let path = self.path.clone();
        let is_over = Arc::clone(&self.is_over);
        // The end of the process ends it: the file is replaced as a whole or not at all.
        thread::spawn(move || {
            let _ = done.send(write(&path, &snapshot, &is_over));
        });
        self.working = Some(working);
    }

    /// Writes the last epoch before the manager ends.
    pub(crate) fn finish(&mut self, manager: &mut Manager, tell: &mut dyn FnMut(Told)) {
        if let Some(working) = self.working.take() {
            if let Ok(Err(message)) = working.recv() {
                tell(Told::Trouble(message));
            }
        }
        if self.changed {
            if let Err(message) = write(&self.path, &manager.snapshot(), &self.is_over) {
                tell(Told::Trouble(message));
            }
        }
    }
}

fn write(path: &Path, snapshot: &Snapshot, is_over: &AtomicBool) -> Result<u64, String> {
    let epoch = snapshot.epoch();
    let plan = snapshot.plan().map_err(|refusal| {
        format!("epoch {epoch} has no plan file, though its promises rest on budgets: {refusal}")
    })?;
    // A later leadership of this process has its own file of a later epoch.
    if is_over.load(Ordering::Acquire) {
        return Ok(epoch);
    }
    let beside = path.with_extension("json.new");
    let done = File::create(&beside).and_then(|mut file| {
        file.write_all(plan_file::text(&plan).as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    });
    done.map_err(|error| format!("cannot write `{}`: {error}", path.display()))?;
    Ok(epoch)
}
