//! Waiting for a word of memory to change, between threads of this process (futex).
//!
//! A wake costs a system call even if no thread waits. So the waker in a hot path keeps a flag of its own that is set
//! while a thread waits.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Waits until the word is woken. Returns at once if the word no longer holds `expected`, and after `timeout` at the
/// latest.
///
/// It may also end without a reason: look at the word, and at the clock.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    let timeout = libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        // Below 10^9, which fits each `c_long`.
        tv_nsec: timeout.subsec_nanos() as libc::c_long,
    };
    // SAFETY: the word and the time are valid for the whole call; the kernel reads both, and writes neither.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            &raw const timeout,
        );
    }
}

/// Wakes one thread that waits for the word.
pub fn wake_one(word: &AtomicU32) {
    // SAFETY: the kernel takes the address as a name, and does not touch the word.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::{wait, wake_one};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    #[test]
    fn a_word_that_has_changed_is_not_waited_for() {
        let begun = Instant::now();
        wait(&AtomicU32::new(1), 0, Duration::MAX);
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_wait_ends_with_its_time() {
        let word = AtomicU32::new(0);
        let begun = Instant::now();
        // A signal may end one early.
        while begun.elapsed() < Duration::from_millis(20) {
            wait(&word, 0, Duration::from_millis(20));
        }
    }

    #[test]
    fn who_waits_is_woken() {
        let (word, waits) = (AtomicU32::new(0), AtomicU32::new(0));
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let begun = Instant::now();
                while word.load(Ordering::SeqCst) == 0 {
                    waits.fetch_add(1, Ordering::SeqCst);
                    wait(&word, 0, Duration::from_secs(60));
                }
                begun.elapsed()
            });
            while waits.load(Ordering::SeqCst) == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(Duration::from_millis(20));
            word.store(1, Ordering::SeqCst);
            wake_one(&word);
            let waited = waiter.join().unwrap_or(Duration::MAX);
            assert!(waited < Duration::from_secs(30), "{waited:?}");
        });
    }
}
