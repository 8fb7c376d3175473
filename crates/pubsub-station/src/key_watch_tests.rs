//! Changes of a key file that follow each other fast.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use super::*;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Writes a file with one key, changed at `at`.
fn write(path: &Path, token: u32, at: SystemTime) {
    let text = format!(
        "algorithm = \"PubSub-Aes128-CTR\"\n[[key]]\ntoken = {token}\nsigning = \"{}\"\nencrypting = \"{}\"\nnonce = \"{}\"\n",
        "11".repeat(32),
        "22".repeat(16),
        "33".repeat(4)
    );
    let mut options = File::options();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.set_modified(at).unwrap();
}

fn tokens(keys: &Receiver<NewKeys>) -> Vec<u32> {
    let keys = keys.try_iter().flat_map(|new| new.keys);
    keys.map(|key| key.token()).collect()
}

/// The second change has the time of the first one, as within one step of the kernel's clock.
#[test]
fn a_change_in_the_same_step_of_the_clock_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    let now = SystemTime::now();
    write(&path, 1, now);
    let known = KeyFile::read(&path).unwrap();
    let mut file = Watched {
        group: 0,
        path: path.clone(),
        seen: known.changed,
    };
    let (sender, keys) = sync_channel(4);
    write(&path, 2, now);
    file.look(&sender);
    assert_eq!(tokens(&keys), [2]);
    write(&path, 3, now);
    file.look(&sender);
    assert_eq!(tokens(&keys), [3]);
}

/// A settled file is read once, and so is one from the future.
#[test]
fn a_settled_file_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    let (sender, keys) = sync_channel(4);
    let mut file = Watched {
        group: 0,
        path: path.clone(),
        seen: None,
    };
    let hour = Duration::from_secs(3600);
    for (token, at) in [(1, SystemTime::now() - hour), (2, SystemTime::now() + hour)] {
        write(&path, token, at);
        file.look(&sender);
        file.look(&sender);
        assert_eq!(tokens(&keys), [token]);
    }
}
