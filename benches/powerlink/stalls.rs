//! Artificial stalls: threads above all others keep a core to themselves for up to 2 ms, as a hypervisor would.

use rtwire_sys::sched;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const PRIORITY: u8 = 99;
/// The longest artificial stall.
pub(crate) const MOST: Duration = Duration::from_millis(2);

/// Stalls until it is dropped: each core separately, at random, every 20 to 150 ms, for 0.1 to 2 ms.
pub(crate) struct Stalls {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Stalls {
    pub(crate) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let cores = sched::affinity().unwrap();
        let threads = cores.into_iter().map(|core| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || stall(core, &stop))
        });
        Self {
            threads: threads.collect(),
            stop,
        }
    }
}

fn stall(core: usize, stop: &AtomicBool) {
    sched::set_cpu(core).unwrap();
    sched::set_fifo(PRIORITY).unwrap();
    // Random numbers, the same in each run: xorshift.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ core as u64;
    let mut between = |from_us: u64, to_us: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Duration::from_micros(from_us + state % (to_us - from_us))
    };
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(between(20_000, 150_000));
        let length = between(100, MOST.as_micros() as u64);
        let begun = Instant::now();
        while begun.elapsed() < length {
            std::hint::spin_loop();
        }
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
