//! The file of a controlled node's stored parameters. An ordinary thread writes it: the real-time loop never waits for a disk.

use rtwire_powerlink::ControlledNode;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;

/// A longer file is none of stored parameters.
const MOST_BYTES: u64 = 64 << 20;

/// Reads the file. Returns `None` where there is none yet.
///
/// # Errors
/// The file cannot be read, or is too long.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::metadata(path) {
        Ok(file) if file.len() > MOST_BYTES => Err(io::Error::other("it is too long")),
        Ok(_) => fs::read(path).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes the file whole: whoever reads it, also behind a loss of power, finds the old content or the new one.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let written = File::create(&new)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        // There may be none, or its folder is gone; the first error counts.
        let _ = fs::remove_file(&new);
        return written;
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Takes over the stored parameters, where there are some that fit. Returns the outcome in words.
pub(crate) fn restore(node: &mut ControlledNode, path: &Path) -> String {
    let read = read(path);
    // The node can store its parameters, whatever becomes of those before.
    let taken = node.keep_parameters(read.as_ref().ok().and_then(Option::as_deref));
    let fault = match (read, taken) {
        (Ok(None), _) => return "no stored parameters yet".to_owned(),
        (Ok(Some(_)), Ok(count)) => return format!("{count} stored parameters restored"),
        (Ok(Some(_)), Err(error)) => error.to_string(),
        (Err(error), _) => error.to_string(),
    };
    format!("`{}`: {fault}; the defaults are in force", path.display())
}

/// The thread that writes the file.
#[derive(Debug)]
pub(crate) struct Store {
    path: PathBuf,
    bytes: SyncSender<Vec<u8>>,
    outcomes: Receiver<io::Result<()>>,
    /// True while the thread writes.
    writes: bool,
}

impl Store {
    /// Starts the thread. It ends with the store.
    ///
    /// # Errors
    /// The thread was not started.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let (bytes, to_write) = sync_channel::<Vec<u8>>(1);
        let (told, outcomes) = sync_channel(1);
        let file = path.to_owned();
        thread::Builder::new()
            .name("rtwire-store".to_owned())
            .spawn(move || {
                for bytes in to_write {
                    if told.send(write(&file, &bytes)).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Self {
            path: path.to_owned(),
            bytes,
            outcomes,
            writes: false,
        })
    }

    /// Hands over what the node wants to store, and tells the node the outcome. Returns the news in words. Without news it makes
    /// no system call and allocates nothing.
    pub(crate) fn exchange(&mut self, node: &mut ControlledNode) -> Option<String> {
        if self.writes {
            let outcome = match self.outcomes.try_recv() {
                Ok(outcome) => outcome,
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => Err(io::Error::other("the thread has ended")),
            };
            self.writes = false;
            let count = node.parameters_stored(outcome.is_ok());
            let path = self.path.display();
            return Some(match outcome {
                Ok(()) => format!("{count} parameters are stored in `{path}`"),
                Err(error) => format!("parameters are not stored: `{path}`: {error}"),
            });
        }
        let bytes = node.parameters_to_store()?;
        self.writes = true;
        // The thread takes one at a time, and has answered the last. Where it is gone, the next look says so.
        let _ = self.bytes.try_send(bytes);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_says_what_became_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parameters");
        let text = "[station]\nnode = 1\ninterface = \"eth0\"\n";
        let restored = || {
            let project = crate::Project::parse(text, Path::new("a.toml")).unwrap();
            let config = project.controlled_config(rtwire_wire::MacAddress([2; 6]));
            let mut node = ControlledNode::new(config.unwrap()).unwrap();
            restore(&mut node, &path)
        };
        assert_eq!(restored(), "no stored parameters yet");
        fs::write(&path, "[station]").unwrap();
        let said = restored();
        assert!(said.contains("a.parameters`: this is no file of"), "{said}");
        assert!(said.ends_with("the defaults are in force"), "{said}");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(restored().ends_with("the defaults are in force"));
    }

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parameters");
        assert_eq!(read(&path).unwrap(), None);
        write(&path, b"old").unwrap();
        // Another name of the old file: it is replaced, never written into.
        let other = folder.path().join("other");
        fs::hard_link(&path, &other).unwrap();
        write(&path, b"new and longer").unwrap();
        assert_eq!(read(&path).unwrap().unwrap(), b"new and longer");
        assert_eq!(fs::read(&other).unwrap(), b"old");
        // What cannot be written leaves the old content, and nothing beside it.
        fs::create_dir(folder.path().join("a.parameters.new")).unwrap();
        assert!(write(&path, b"newest").is_err());
        assert_eq!(read(&path).unwrap().unwrap(), b"new and longer");
        assert!(write(&folder.path().join("none/a"), b"x").is_err());
        assert!(read(folder.path()).is_err());
    }
}
