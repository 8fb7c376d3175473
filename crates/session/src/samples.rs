//! The samples of a run as files from a host's process to the lab.
//!
//! The files have fixed records in native byte order. They are for one machine and one run.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// A frame at its talker: sequence number, and the kernel's timestamp at the transmit queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentStamp {
    /// The sequence number.
    pub sequence: u32,
    /// The timestamp, ns of CLOCK_TAI.
    pub stamp_ns: u64,
}

/// A frame at a listener. A time of 0 in the file is a missing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The sequence number.
    pub sequence: u32,
    /// The kernel's timestamp, ns of CLOCK_TAI.
    pub stamp_ns: Option<u64>,
    /// The talker's own time, ns of CLOCK_TAI; 0: none.
    pub app_sent_ns: u64,
    /// The instant at which the program had it, ns of CLOCK_TAI. `None` if it never had it: a newest value that was
    /// overtaken before it was read.
    pub app_received_ns: Option<u64>,
}

/// Returns the path of a talker's stamps.
pub fn sent_path(directory: &Path, stream: usize) -> PathBuf {
    directory.join(format!("sent-{stream}"))
}

/// Returns the path of a listener's arrivals.
pub fn arrivals_path(directory: &Path, stream: usize, host: &str) -> PathBuf {
    let hex: String = host.bytes().map(|byte| format!("{byte:02x}")).collect();
    directory.join(format!("arrivals-{stream}-{hex}"))
}

/// Writes a talker's stamps.
///
/// # Errors
/// The file cannot be written or read.
pub fn write_sent(path: &Path, stamps: &[SentStamp]) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for stamp in stamps {
        file.write_all(&stamp.sequence.to_ne_bytes())?;
        file.write_all(&stamp.stamp_ns.to_ne_bytes())?;
    }
    file.flush()
}

/// Reads a talker's stamps; none where there is no file.
///
/// # Errors
/// The file cannot be written or read.
pub fn read_sent(path: &Path) -> io::Result<Vec<SentStamp>> {
    records::<12>(path).map(|records| {
        records
            .iter()
            .map(|record| SentStamp {
                sequence: u32::from_ne_bytes(part(record, 0)),
                stamp_ns: u64::from_ne_bytes(part(record, 4)),
            })
            .collect()
    })
}

/// Returns the first stamp of each sequence number, ns, at its place; 0 where there is none.
#[must_use]
pub fn stamps_by_sequence(stamps: &[SentStamp]) -> Vec<u64> {
    let most = stamps.iter().map(|stamp| stamp.sequence).max();
    let mut all = vec![0; most.map_or(0, |most| most as usize + 1)];
    for stamp in stamps.iter().rev() {
        all[stamp.sequence as usize] = stamp.stamp_ns;
    }
    all
}

/// Writes a listener's arrivals.
///
/// # Errors
/// The file cannot be written or read.
pub fn write_arrivals(path: &Path, arrivals: &[Arrival]) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for arrival in arrivals {
        file.write_all(&arrival.sequence.to_ne_bytes())?;
        file.write_all(&arrival.stamp_ns.unwrap_or(0).to_ne_bytes())?;
        file.write_all(&arrival.app_sent_ns.to_ne_bytes())?;
        file.write_all(&arrival.app_received_ns.unwrap_or(0).to_ne_bytes())?;
    }
    file.flush()
}

/// Reads a listener's arrivals; none where there is no file.
///
/// # Errors
/// The file cannot be written or read.
pub fn read_arrivals(path: &Path) -> io::Result<Vec<Arrival>> {
    records::<28>(path).map(|records| {
        records
            .iter()
            .map(|record| Arrival {
                sequence: u32::from_ne_bytes(part(record, 0)),
                stamp_ns: Some(u64::from_ne_bytes(part(record, 4))).filter(|&stamp| stamp != 0),
                app_sent_ns: u64::from_ne_bytes(part(record, 12)),
                app_received_ns: Some(u64::from_ne_bytes(part(record, 20)))
                    .filter(|&time| time != 0),
            })
            .collect()
    })
}

/// Returns all complete records of a file. A missing file has none (its writer ended early).
fn records<const LENGTH: usize>(path: &Path) -> io::Result<Vec<[u8; LENGTH]>> {
    let file = match File::open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut reader = BufReader::new(file);
    let mut records = Vec::new();
    let mut record = [0; LENGTH];
    loop {
        match reader.read_exact(&mut record) {
            Ok(()) => records.push(record),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(records),
            Err(e) => return Err(e),
        }
    }
}

fn part<const LENGTH: usize>(record: &[u8], from: usize) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    bytes.copy_from_slice(&record[from..from + LENGTH]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let sent = [
            SentStamp {
                sequence: u32::MAX,
                stamp_ns: u64::MAX,
            },
            SentStamp {
                sequence: 0,
                stamp_ns: 1,
            },
        ];
        let path = sent_path(directory.path(), 3);
        write_sent(&path, &sent).unwrap();
        assert_eq!(read_sent(&path).unwrap(), sent);
        let arrivals = [
            Arrival {
                sequence: 7,
                stamp_ns: None,
                app_sent_ns: 5,
                app_received_ns: Some(u64::MAX),
            },
            Arrival {
                sequence: 8,
                stamp_ns: Some(9),
                app_sent_ns: 6,
                app_received_ns: None,
            },
        ];
        let path = arrivals_path(directory.path(), 3, "a/b");
        write_arrivals(&path, &arrivals).unwrap();
        assert_eq!(read_arrivals(&path).unwrap(), arrivals);
    }

    #[test]
    fn a_file_that_is_not_there_or_cut_short_gives_what_there_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = sent_path(directory.path(), 0);
        assert_eq!(read_sent(&path).unwrap(), []);
        std::fs::write(&path, [1; 17]).unwrap();
        assert_eq!(read_sent(&path).unwrap().len(), 1);
    }
}
