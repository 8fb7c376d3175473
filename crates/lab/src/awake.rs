//! Keeps the processors from falling asleep while the lab measures.
//!
//! An idle processor takes tens of microseconds to wake, a virtual one at times milliseconds, because its host
//! has given it away. A real-time machine is set up not to sleep; a lab does the same for its own time with a
//! thread a core that spins at SCHED_IDLE: whatever else wants to run, runs at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rtwire_sys::sched;

/// Holds all processors awake until it is dropped.
pub(crate) struct Awake {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    pub(crate) fn hold() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = sched::affinity()
            .unwrap_or_default()
            .into_iter()
            .map(|cpu| {
                let stop = stop.clone();
                thread::spawn(move || spin(cpu, &stop))
            })
            .collect();
        Self { stop, threads }
    }
}

/// Spins on one core. Without SCHED_IDLE it does not spin at all: it would take time from others.
fn spin(cpu: usize, stop: &AtomicBool) {
    let idle = sched::set_cpu(cpu).and_then(|_| sched::set_idle());
    if idle.is_err() {
        return;
    }
    while !stop.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
