//! The network's time for gates and launch times: asked for before their use, and watched during it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::ask;
use super::state::ClockQuestion;

/// The time between two looks.
const EVERY: Duration = Duration::from_secs(1);

/// One host's need for the network's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommonTime {
    /// The daemon and the limit.
    pub question: ClockQuestion,
    /// True if the user goes on without it. Results then say so.
    pub waived: bool,
}

impl CommonTime {
    /// Asks now. Returns the reasons why this host does not have the network's time, or `None` if it does. Waits for the
    /// daemon as long as [`ClockQuestion::patience`] allows.
    #[must_use]
    pub fn missing(&self) -> Option<String> {
        let state = ask::state(&self.question);
        (!state.synchronised).then(|| state.reasons.join("; "))
    }

    /// Runs `work`, and meanwhile asks once a second on another thread, and once more after it. `look` gets each answer
    /// of [`CommonTime::missing`].
    pub fn watch<T>(
        &self,
        look: &mut (dyn FnMut(Option<String>) + Send),
        work: impl FnOnce() -> T,
    ) -> T {
        watch(EVERY, &mut || look(self.missing()), work)
    }
}

/// Calls `look` at once, then after each `every` until `work` is done, and once more then.
fn watch<T>(every: Duration, look: &mut (dyn FnMut() + Send), work: impl FnOnce() -> T) -> T {
    const NAP: Duration = Duration::from_millis(20);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = &over;
        // A panic of `work` ends the watch too.
        let end = Over(over);
        scope.spawn(move || {
            loop {
                let last = over.load(Ordering::Relaxed);
                look();
                let start = Instant::now();
                while start.elapsed() < every && !over.load(Ordering::Relaxed) {
                    thread::sleep(NAP.min(every));
                }
                if last {
                    break;
                }
            }
        });
        let result = work();
        drop(end);
        result
    })
}

/// A flag that is set on drop.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_look_is_handed_on_and_the_last_comes_after_the_work() {
        let done = AtomicBool::new(false);
        let mut looks = Vec::new();
        let result = watch(
            Duration::from_millis(5),
            &mut || looks.push(done.load(Ordering::SeqCst)),
            || {
                thread::sleep(Duration::from_millis(100));
                done.store(true, Ordering::SeqCst);
                7
            },
        );
        assert_eq!(result, 7);
        assert!(looks.len() > 2, "{looks:?}");
        assert!(!looks[0] && looks[looks.len() - 1], "{looks:?}");
    }

    #[test]
    fn a_host_without_a_daemon_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let time = CommonTime {
            question: ClockQuestion {
                socket: folder.path().join("none"),
                ..ClockQuestion::default()
            },
            waived: false,
        };
        let mut looks = Vec::new();
        time.watch(&mut |missing| looks.push(missing), || ());
        let first = looks[0].as_deref().unwrap();
        assert!(first.contains("not running"), "{first}");
    }
}
