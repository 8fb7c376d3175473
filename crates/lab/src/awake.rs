//! Keeps the processors from sleeping while the lab measures.
//!
//! An idle processor takes tens of microseconds to wake. A virtual one sometimes takes milliseconds, because its host
//! has given it away. A real-time machine is configured not to sleep. A lab has the same effect for its duration: one
//! thread per core spins at SCHED_IDLE. Any other thread runs at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rtwire_sys::sched;

/// Keeps all processors awake until it is dropped.
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

/// Spins on one core. Without SCHED_IDLE it does not spin, because it would take time from other threads.
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
