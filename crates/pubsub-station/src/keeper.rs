//! The thread beside a publisher's loop that reserves nonces on the disk and notices changes of the key file.

use crate::nonces::NonceFile;
use crate::{KeyFile, StationError};
use rtwire_pubsub::security::{Key, NonceCounter, Sealer};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

/// Numbers that are reserved at once: 6.5 s of 10 000 messages a second.
const BLOCK: u64 = 1 << 16;
/// The period of the thread.
const LOOK: Duration = Duration::from_millis(20);

/// The numbers that the loop and the thread share.
#[derive(Debug, Default)]
struct Shared {
    next: AtomicU64,
    reserved: AtomicU64,
    changed: AtomicBool,
    stop: AtomicBool,
}

/// The loop's end: one sealer's keeper.
#[derive(Debug)]
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    keys: Receiver<(Key, NonceCounter)>,
    thread: Option<JoinHandle<()>>,
}

/// The thread's end.
struct Work {
    shared: Arc<Shared>,
    keys: SyncSender<(Key, NonceCounter)>,
    path: PathBuf,
    file: NonceFile,
    fingerprint: u64,
    seen: Option<SystemTime>,
}

fn random() -> Result<[u8; 4], StationError> {
    let mut bytes = [0; 4];
    let path = Path::new("/dev/urandom");
    std::fs::File::open(path)
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes))
        .map_err(|source| StationError::Read {
            path: path.to_owned(),
            source,
        })?;
    Ok(bytes)
}

impl Keeper {
    /// Reads the keys, reserves the first nonces, and starts the thread. Returns the sealer for the loop.
    pub(crate) fn start(keys: &Path, nonces: &Path) -> Result<(Sealer, Self), StationError> {
        let known = KeyFile::read(keys)?;
        let key = known.current_key(keys)?;
        let mut file = NonceFile::open(nonces)?;
        let fingerprint = key.fingerprint();
        let mut counter = NonceCounter::starting_at(file.next(fingerprint));
        let end = counter.next() + BLOCK;
        file.reserve(fingerprint, end)?;
        counter.reserve_until(end);
        let shared = Arc::new(Shared::default());
        shared.next.store(counter.next(), Ordering::Relaxed);
        shared.reserved.store(end, Ordering::Relaxed);
        let (sender, receiver) = sync_channel(4);
        let mut work = Work {
            shared: Arc::clone(&shared),
            keys: sender,
            path: keys.to_owned(),
            file,
            fingerprint,
            seen: known.changed,
        };
        let thread = thread::Builder::new()
            .name("rtwire-nonces".to_owned())
            .spawn(move || {
                while !work.shared.stop.load(Ordering::Relaxed) {
                    work.reserve();
                    work.look();
                    thread::park_timeout(LOOK);
                }
            })
            .map_err(|source| StationError::Thread { source })?;
        let this = Self {
            shared,
            keys: receiver,
            thread: Some(thread),
        };
        Ok((Sealer::new(key, random()?, counter), this))
    }

    /// Exchanges numbers with the thread. No system call, no lock; called once a cycle.
    pub(crate) fn exchange(&self, sealer: &mut Sealer) {
        if self.shared.changed.load(Ordering::Acquire) {
            while let Ok((key, nonces)) = self.keys.try_recv() {
                self.shared.next.store(nonces.next(), Ordering::Relaxed);
                self.shared
                    .reserved
                    .store(nonces.reserved(), Ordering::Relaxed);
                sealer.change_key(key, nonces);
            }
            self.shared.changed.store(false, Ordering::Release);
            return;
        }
        self.shared
            .next
            .store(sealer.nonces().next(), Ordering::Relaxed);
        sealer.reserve_until(self.shared.reserved.load(Ordering::Acquire));
    }
}

impl Work {
    /// Reserves the next block when half of the last one is used.
    fn reserve(&mut self) {
        // While a new key is on its way the numbers are those of the old one.
        if self.shared.changed.load(Ordering::Acquire) {
            return;
        }
        let next = self.shared.next.load(Ordering::Relaxed);
        let reserved = self.shared.reserved.load(Ordering::Relaxed);
        if reserved.saturating_sub(next) < BLOCK / 2
            && self
                .file
                .reserve(self.fingerprint, reserved + BLOCK)
                .is_ok()
        {
            self.shared
                .reserved
                .store(reserved + BLOCK, Ordering::Release);
        }
    }

    /// Hands over the current key where the key file names another one. A file that cannot be read changes nothing.
    fn look(&mut self) {
        let changed = std::fs::metadata(&self.path)
            .and_then(|facts| facts.modified())
            .ok();
        if changed == self.seen || self.shared.changed.load(Ordering::Acquire) {
            return;
        }
        let Ok(known) = KeyFile::read(&self.path) else {
            return;
        };
        let Ok(key) = known.current_key(&self.path) else {
            return;
        };
        self.seen = known.changed;
        if key.fingerprint() == self.fingerprint {
            return;
        }
        let mut counter = NonceCounter::starting_at(self.file.next(key.fingerprint()));
        let end = counter.next() + BLOCK;
        if self.file.reserve(key.fingerprint(), end).is_err() {
            self.seen = None;
            return;
        }
        counter.reserve_until(end);
        self.fingerprint = key.fingerprint();
        if self.keys.try_send((key, counter)).is_ok() {
            self.shared.changed.store(true, Ordering::Release);
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A thread that panicked has said so; there is nothing to add while dropping.
            let _ = thread.join();
        }
    }
}
