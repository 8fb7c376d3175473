//! Keeps the emulated network from waiting behind ordinary programs.
//!
//! Links, switches and timers of a lab are soft interrupts. When there are many at once, the kernel leaves the rest to
//! `ksoftirqd/N`, an ordinary thread of each core: on a busy machine it waits for milliseconds, and each emulated port with
//! it. While a lab runs, these threads are real-time ones of the lowest urgency: before every ordinary program, behind every
//! host of a lab.

use std::fs;

use rtwire_sys::sched::Policy;
use rtwire_sys::sched::thread::{self, Want};

use crate::registry;

/// The priority of the threads. No other program is expected to choose it, so it marks what a lab has changed: also a lab
/// that was killed.
const PRIORITY: u8 = 3;

/// The threads are urgent as long as this value lives, or another lab runs.
pub(crate) struct Softirqs {
    /// The number of threads that are urgent.
    pub(crate) threads: usize,
}

impl Softirqs {
    /// Makes the threads urgent. Those that somebody has already given a priority keep it.
    pub(crate) fn hold() -> Softirqs {
        let mut threads = 0;
        for thread in all() {
            let raised = match thread::scheduling(thread).map(|now| now.policy) {
                Ok(Policy::Other) => thread::set(thread, Want::Fifo(PRIORITY)).is_ok(),
                Ok(_) => true,
                Err(_) => false,
            };
            threads += usize::from(raised);
        }
        Softirqs { threads }
    }
}

impl Drop for Softirqs {
    fn drop(&mut self) {
        let own = std::process::id();
        let labs = registry::list().unwrap_or_default();
        let is_other = |(record, state): &(registry::Record, registry::State)| {
            *state == registry::State::Running && record.pid != own
        };
        // The last lab puts it back.
        if labs.iter().any(is_other) {
            return;
        }
        for thread in all() {
            let marked = thread::scheduling(thread)
                .is_ok_and(|now| now.policy == Policy::Fifo && now.priority == PRIORITY);
            if marked {
                let _ = thread::set(thread, Want::Other(0));
            }
        }
    }
}

/// Returns the numbers of the kernel's threads for soft interrupts; none where this process cannot see them.
fn all() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let threads = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        let number = path.file_name()?.to_str()?.parse().ok()?;
        let name = fs::read_to_string(path.join("comm")).ok()?;
        // A kernel thread has no command line.
        let is_kernel = fs::read(path.join("cmdline")).is_ok_and(|line| line.is_empty());
        (is_kernel && name.starts_with("ksoftirqd/")).then_some(number)
    });
    threads.collect()
}
