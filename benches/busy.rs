//! Load on the machine: a thread of ordinary priority on each core that writes memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// The memory of each thread: more than a cache.
const BYTES: usize = 4 << 20;

/// Load until it is dropped.
#[derive(Debug)]
pub struct Busy {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Busy {
    /// Starts the load.
    #[must_use]
    pub fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads = (0..cores).map(|_| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                let mut memory = vec![0_u8; BYTES];
                while !stop.load(Ordering::Relaxed) {
                    memory.fill(std::hint::black_box(1));
                }
            })
        });
        Self {
            threads: threads.collect(),
            stop,
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
