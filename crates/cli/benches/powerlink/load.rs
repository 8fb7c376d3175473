//! Load on the machine, of the kind that hackbench makes: many threads that wake each other, and some that only compute.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Load until it is dropped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        let mut spawn = |work: Box<dyn FnOnce(&AtomicBool) + Send>| {
            let stop = Arc::clone(&stop);
            threads.push(thread::spawn(move || work(&stop)));
        };
        for _ in 0..8 {
            let (mut a, mut b) = UnixStream::pair().unwrap();
            spawn(Box::new(move |stop| {
                let mut octets = [0; 100];
                while !stop.load(Ordering::Relaxed) {
                    if a.write_all(&octets)
                        .and_then(|()| a.read_exact(&mut octets))
                        .is_err()
                    {
                        break;
                    }
                }
            }));
            spawn(Box::new(move |_| {
                let mut octets = [0; 100];
                // Ends with its partner.
                while b
                    .read_exact(&mut octets)
                    .and_then(|()| b.write_all(&octets))
                    .is_ok()
                {}
            }));
        }
        for _ in 0..2 {
            spawn(Box::new(move |stop| {
                let mut value = 1_u64;
                while !stop.load(Ordering::Relaxed) {
                    value = std::hint::black_box(value.wrapping_mul(31).wrapping_add(7));
                }
            }));
        }
        Self { stop, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
