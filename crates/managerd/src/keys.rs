//! Key files: one for each host, `HOST.key`, with 64 hexadecimal digits, readable by their owner only.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, SystemTime};

use rtwire_manager::{Key, is_name};

use crate::ManagerdError;

/// The end of a key file's name.
const ENDING: &str = "key";

/// Returns random bytes of the kernel.
///
/// # Errors
/// The kernel has none.
pub fn random<const N: usize>() -> Result<[u8; N], ManagerdError> {
    const SOURCE: &str = "/dev/urandom";
    let mut bytes = [0; N];
    let read = File::open(SOURCE).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(ManagerdError::file("read", SOURCE))?;
    Ok(bytes)
}

/// Returns the path of a host's key in a folder.
#[must_use]
pub fn key_path(folder: &Path, host: &str) -> PathBuf {
    folder.join(format!("{host}.{ENDING}"))
}

/// Makes a new key file for a host. With `replace`, an old one is replaced. Readers see the old file, the new one or
/// none, and never a part of one.
///
/// # Errors
/// [`ManagerdError`] if the name is no host's, the file is there already, or it cannot be written.
pub fn make_key(folder: &Path, host: &str, replace: bool) -> Result<PathBuf, ManagerdError> {
    if !is_name(host) {
        return Err(ManagerdError::HostName {
            name: host.to_owned(),
        });
    }
    fs::create_dir_all(folder).map_err(ManagerdError::file("make", folder))?;
    let path = key_path(folder, host);
    let written = folder.join(format!(".{host}.{}.new", std::process::id()));
    // One of an earlier process with this id, which was killed.
    let _ = fs::remove_file(&written);
    let bytes: [u8; 32] = random()?;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let done = options.open(&written).and_then(|mut file| {
        file.write_all(format!("{digits}\n").as_bytes())?;
        file.sync_all()
    });
    let done = done
        .map_err(ManagerdError::file("write", &written))
        .and_then(|()| {
            if replace {
                fs::rename(&written, &path).map_err(ManagerdError::file("replace", &path))
            } else {
                // Unlike a renaming, a link never replaces a file.
                fs::hard_link(&written, &path).map_err(ManagerdError::file("make", &path))
            }
        });
    // The second name of a new key, or what is left of a failure.
    let _ = fs::remove_file(&written);
    done.map(|()| path)
}

/// Reads a key file.
///
/// # Errors
/// [`ManagerdError`] if others may read or replace it, or it is no key.
pub fn read_key(path: &Path) -> Result<Key, ManagerdError> {
    let failed = |what| ManagerdError::file(what, path);
    let file = File::open(path).map_err(failed("read"))?;
    // Of the open file, so that nothing can be put in its place meanwhile.
    let facts = file.metadata().map_err(failed("read"))?;
    let mode = facts.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(ManagerdError::KeyMode {
            path: path.to_owned(),
            mode,
        });
    }
    let uid = facts.uid();
    if uid != 0 && uid != rustix::process::geteuid().as_raw() {
        return Err(ManagerdError::KeyOwner {
            path: path.to_owned(),
            uid,
        });
    }
    let mut text = String::new();
    let mut limited = (&file).take(100);
    let form = || ManagerdError::KeyForm {
        path: path.to_owned(),
    };
    limited.read_to_string(&mut text).map_err(|_| form())?;
    let digits = text.trim_end().as_bytes();
    let mut bytes = [0_u8; 32];
    if digits.len() != 64 {
        return Err(form());
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        let pair = core::str::from_utf8(pair).map_err(|_| form())?;
        let is_hex = pair.bytes().all(|digit| digit.is_ascii_hexdigit());
        *byte = u8::from_str_radix(pair, 16)
            .ok()
            .filter(|_| is_hex)
            .ok_or_else(form)?;
    }
    Ok(Key::new(&bytes))
}

/// The keys that a thread of its own reads again. The looks at a thousand files take milliseconds, which no answer shall wait.
#[derive(Debug)]
pub(crate) struct KeyWatch {
    news: Receiver<Result<HashMap<String, Key>, ManagerdError>>,
    /// The thread ends when this is gone.
    _alive: Arc<()>,
}

impl KeyWatch {
    /// Returns all keys if a file came, went or changed since the last call. Costs no system call.
    pub(crate) fn changed(&self) -> Result<Option<HashMap<String, Key>>, ManagerdError> {
        self.news.try_recv().ok().transpose()
    }
}

/// A folder of key files.
#[derive(Debug)]
pub(crate) struct KeyFolder {
    path: PathBuf,
    seen: Vec<(String, Option<SystemTime>, u64)>,
}

impl KeyFolder {
    pub(crate) fn new(path: &Path) -> KeyFolder {
        KeyFolder {
            path: path.to_owned(),
            seen: Vec::new(),
        }
    }

    /// Looks at the files again and again, in a thread.
    pub(crate) fn watch(mut self, every: Duration) -> KeyWatch {
        let (told, news) = channel();
        let alive = Arc::new(());
        let wanted = Arc::downgrade(&alive);
        thread::spawn(move || {
            loop {
                thread::sleep(every);
                if wanted.strong_count() == 0 {
                    return;
                }
                if let Some(news) = self.changed().transpose() {
                    // Nobody hears it at the end.
                    let _ = told.send(news);
                }
            }
        });
        KeyWatch {
            news,
            _alive: alive,
        }
    }

    fn look(&self) -> Result<Vec<(String, Option<SystemTime>, u64)>, ManagerdError> {
        let failed = || ManagerdError::file("read", &self.path);
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed())? {
            let entry = entry.map_err(failed())?;
            let path = entry.path();
            let name = path.file_stem().and_then(|name| name.to_str());
            let is_key = path.extension().is_some_and(|ending| ending == ENDING);
            let (Some(name), true) = (name, is_key) else {
                continue;
            };
            let facts = entry.metadata().ok();
            let changed = facts.as_ref().and_then(|facts| facts.modified().ok());
            let inode = facts.map_or(0, |facts| facts.ino());
            found.push((name.to_owned(), changed, inode));
        }
        found.sort();
        Ok(found)
    }

    /// Returns all keys if a file came, went or changed since the last call.
    pub(crate) fn changed(&mut self) -> Result<Option<HashMap<String, Key>>, ManagerdError> {
        let found = self.look()?;
        if found == self.seen {
            return Ok(None);
        }
        // A folder that cannot be used is reported once for each of its states.
        self.seen.clone_from(&found);
        let mut keys = HashMap::new();
        for (name, _, _) in &found {
            keys.insert(name.clone(), read_key(&key_path(&self.path, name))?);
        }
        if keys.is_empty() {
            return Err(ManagerdError::NoKeys {
                path: self.path.clone(),
            });
        }
        Ok(Some(keys))
    }
}
