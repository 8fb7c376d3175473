//! A station on a thread of its own, and a program that waits for its cycles.

use crate::error::StationError;
use crate::exchange::{CycleImage, Program, Woken, ends};
use crate::handle::Handle;
use crate::station::Station;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A station whose loop runs on a thread of its own, with the project's priority (SCHED_FIFO) and core. Dropping it ends the
/// loop.
#[derive(Debug)]
pub struct RunningStation {
    program: Program,
    handle: Handle,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), StationError>>>,
}

impl RunningStation {
    pub(crate) fn start(mut station: Station) -> Result<Self, StationError> {
        let (mut end, program) = ends(station.values());
        let handle = station.handle();
        let stop = Arc::new(AtomicBool::new(false));
        let its_stop = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("rtwire-powerlink-station".to_owned())
            .spawn(move || station.run(&its_stop, |io| end.cycle(io)))
            .map_err(|source| StationError::Thread { source })?;
        Ok(Self {
            program,
            handle,
            stop,
            thread: Some(thread),
        })
    }

    /// Returns a handle by which other threads reach the station.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Hands over the outputs, and waits for a cycle that was not seen yet. Returns `None` where none comes within `timeout`.
    ///
    /// A late caller gets the newest cycle at once; [`missed`](CycleImage::missed) is the number of cycles passed over. Outputs
    /// that are handed over before a cycle begins are taken in that cycle, all together, and sent in the next.
    ///
    /// # Errors
    /// The loop has ended; the first such error has the reason.
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<&mut CycleImage>, StationError> {
        match self.program.wait(timeout) {
            Woken::Cycle => Ok(Some(&mut self.program.image)),
            Woken::TimedOut => Ok(None),
            Woken::Ended => Err(self.end().err().unwrap_or(StationError::Ended)),
        }
    }

    /// Hands over the outputs without waiting for the next cycle.
    ///
    /// Behind a stop of the program, outputs are valid (RD = 1) once the program has seen a cycle since. It must then have called
    /// this or [`wait`](Self::wait), whether it has set any or not. A program that never waits calls this twice.
    pub fn publish(&mut self) {
        self.program.publish();
    }

    /// Ends the loop.
    ///
    /// # Errors
    /// The loop has ended before; the error has the reason.
    pub fn stop(mut self) -> Result<(), StationError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), StationError> {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        match thread.join() {
            Ok(ended) => ended,
            // A fault of ours: it goes on where it is noticed.
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for RunningStation {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A loop that has failed would have said so to a wait; there is nothing to add while dropping.
            let _ = thread.join();
        }
    }
}
