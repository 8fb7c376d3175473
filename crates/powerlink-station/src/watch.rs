//! The kernel's counters of an interface: frames with a wrong check sequence, collisions, losses of the link. An ordinary thread
//! reads them; the real-time loop reads atomics.

use rtwire_powerlink::LinkErrors;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The folder of the kernel's counters.
pub(crate) const KERNEL: &str = "/sys/class/net";
/// The period of the thread.
const LOOK: Duration = Duration::from_millis(50);
const FILES: [&str; 3] = [
    "statistics/rx_crc_errors",
    "statistics/collisions",
    "carrier_down_count",
];

/// The counts since the watch began, in the order of [`FILES`].
#[derive(Debug, Default)]
struct Shared {
    counted: [AtomicU64; 3],
    changes: AtomicU32,
    stop: AtomicBool,
}

/// An interface that is watched.
#[derive(Debug)]
pub(crate) struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// The counters that the kernel has.
    there: [bool; 3],
    changes: u32,
    handed: [u64; 3],
}

/// One of the kernel's counters.
struct Counter {
    file: File,
    last: u64,
}

fn number(file: &File) -> Option<u64> {
    let mut text = [0; 32];
    let octets = file.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(text.get(..octets)?).ok()?;
    text.trim().parse().ok()
}

impl Counter {
    fn open(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        let last = number(&file)?;
        Some(Self { file, last })
    }

    /// Returns the count since the last call; 0 where a driver has reset its counter.
    fn news(&mut self) -> u64 {
        let Some(now) = number(&self.file) else {
            return 0;
        };
        let last = std::mem::replace(&mut self.last, now);
        now.saturating_sub(last)
    }
}

impl Watch {
    /// Watches the interface with this name and index below `folder`. Returns `None` where the index there differs: `/sys` may
    /// be that of another network namespace.
    pub(crate) fn open(folder: &Path, interface: &str, index: u32) -> io::Result<Option<Self>> {
        let folder = folder.join(interface);
        let there = File::open(folder.join("ifindex"));
        if there.ok().and_then(|file| number(&file)) != Some(u64::from(index)) {
            return Ok(None);
        }
        let mut counters = FILES.map(|file| Counter::open(&folder.join(file)));
        let shared = Arc::new(Shared::default());
        let there = counters.each_ref().map(Option::is_some);
        let ends = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("rtwire-link".to_owned())
            .spawn(move || {
                while !ends.stop.load(Ordering::Relaxed) {
                    look(&mut counters, &ends);
                    thread::park_timeout(LOOK);
                }
            })?;
        Ok(Some(Self {
            shared,
            thread: Some(thread),
            there,
            changes: 0,
            handed: [0; 3],
        }))
    }

    /// Returns the counts since the last call; `None` where nothing is new. No system call.
    pub(crate) fn news(&mut self) -> Option<LinkErrors> {
        let changes = self.shared.changes.load(Ordering::Acquire);
        if changes == self.changes {
            return None;
        }
        self.changes = changes;
        let mut all = [0; 3];
        for ((new, counted), handed) in all
            .iter_mut()
            .zip(&self.shared.counted)
            .zip(&mut self.handed)
        {
            let now = counted.load(Ordering::Relaxed);
            *new = u32::try_from(now - std::mem::replace(handed, now)).unwrap_or(u32::MAX);
        }
        let [crc, collisions, losses] = all;
        Some(LinkErrors {
            crc,
            collisions,
            losses,
        })
    }

    /// Returns which counters the kernel has: wrong check sequences, collisions, losses of the link.
    pub(crate) const fn tells(&self) -> [bool; 3] {
        self.there
    }
}

fn look(counters: &mut [Option<Counter>; 3], shared: &Shared) {
    let mut changed = false;
    for (counter, counted) in counters.iter_mut().zip(&shared.counted) {
        let news = counter.as_mut().map_or(0, Counter::news);
        counted.fetch_add(news, Ordering::Relaxed);
        changed |= news > 0;
    }
    if changed {
        shared.changes.fetch_add(1, Ordering::Release);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A thread that panicked has said so; there is nothing to add while dropping.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::Instant;

    fn planted(name: &str) -> std::path::PathBuf {
        let folder =
            std::env::temp_dir().join(format!("rtwire-watch-{}-{name}", std::process::id()));
        let eth0 = folder.join("eth0");
        fs::create_dir_all(eth0.join("statistics")).unwrap();
        fs::write(eth0.join("ifindex"), "7\n").unwrap();
        for file in FILES {
            fs::write(eth0.join(file), "40\n").unwrap();
        }
        folder
    }

    /// Adds up the news until everything wanted has come.
    fn sum(watch: &mut Watch, wanted: LinkErrors) -> LinkErrors {
        let begun = Instant::now();
        let mut sum = LinkErrors::default();
        while sum != wanted && begun.elapsed() < Duration::from_secs(60) {
            let news = watch.news().unwrap_or_default();
            sum.crc += news.crc;
            sum.collisions += news.collisions;
            sum.losses += news.losses;
            thread::sleep(Duration::from_millis(5));
        }
        sum
    }

    #[test]
    fn what_the_kernel_counts_is_told_once() {
        let folder = planted("once");
        let eth0 = folder.join("eth0");
        let mut watch = Watch::open(&folder, "eth0", 7).unwrap().unwrap();
        assert_eq!(watch.tells(), [true; 3]);
        // What was counted before is not ours.
        assert_eq!(watch.news(), None);
        let written = LinkErrors {
            crc: 2,
            collisions: 3,
            losses: 1,
        };
        for (file, text) in FILES.iter().zip(["42\n", "43\n", "41\n"]) {
            fs::write(eth0.join(file), text).unwrap();
        }
        assert_eq!(sum(&mut watch, written), written);
        thread::sleep(3 * LOOK);
        assert_eq!(watch.news(), None);
        drop(watch);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_driver_that_begins_anew_has_counted_nothing() {
        let folder = planted("anew");
        let path = folder.join("eth0").join(FILES[0]);
        let mut counter = Counter::open(&path).unwrap();
        // A file that is just being written tells nothing.
        for (text, new) in [
            ("41\n", 1),
            ("1\n", 0),
            ("", 0),
            ("5\n", 4),
            ("-1\n", 0),
            ("6\n", 1),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(counter.news(), new, "{text:?}");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_not_there_is_not_told() {
        let folder = planted("not-there");
        fs::remove_file(folder.join("eth0").join(FILES[2])).unwrap();
        fs::write(folder.join("eth0").join(FILES[1]), "many\n").unwrap();
        let watch = Watch::open(&folder, "eth0", 7).unwrap().unwrap();
        assert_eq!(watch.tells(), [true, false, false]);
        // Another interface of this name, and none.
        assert!(Watch::open(&folder, "eth0", 8).unwrap().is_none());
        assert!(Watch::open(&folder, "eth1", 7).unwrap().is_none());
        fs::remove_dir_all(folder).unwrap();
    }
}
