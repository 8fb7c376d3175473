//! The record of states that `rtwire clock` keeps.

use std::io;
use std::path::Path;

use super::state::ClockState;

/// Appends a state to a record of JSON lines. A record beyond 4 MiB is renamed to `….1` first, which replaces an older
/// one.
///
/// # Errors
/// The file cannot be written.
pub fn keep(record: &Path, state: &ClockState) -> io::Result<()> {
    use std::io::Write as _;
    const LARGEST: u64 = 4 << 20;
    if std::fs::metadata(record).is_ok_and(|found| found.len() > LARGEST) {
        let mut older = record.as_os_str().to_owned();
        older.push(".1");
        std::fs::rename(record, older)?;
    }
    if let Some(folder) = record
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        std::fs::create_dir_all(folder)?;
    }
    let mut line = serde_json::to_string(state).map_err(io::Error::other)?;
    line.push('\n');
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(record)?;
    file.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::{ClockQuestion, state};
    use super::*;

    #[test]
    fn a_record_grows_and_is_put_aside() {
        let folder = tempfile::tempdir().unwrap();
        let record = folder.path().join("inner").join("clock.jsonl");
        let state = state(&ClockQuestion {
            socket: folder.path().join("none"),
            ..ClockQuestion::default()
        });
        assert!(
            !state.synchronised && state.reasons[0].contains("not running"),
            "{state:?}"
        );
        keep(&record, &state).unwrap();
        keep(&record, &state).unwrap();
        let text = std::fs::read_to_string(&record).unwrap();
        assert_eq!(text.lines().count(), 2);
        std::fs::write(&record, vec![b'x'; (4 << 20) + 1]).unwrap();
        keep(&record, &state).unwrap();
        assert_eq!(std::fs::read_to_string(&record).unwrap().lines().count(), 1);
    }
}
