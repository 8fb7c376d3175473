//! The evidence of one host, written to a file while it runs: `rtwire run --evidence`.
//!
//! ```text
//!  talker ───── frames sent ──►┐
//!  collector ── stamps ───────►├ rings of fixed size ──► writer (ordinary thread) ──► FILE.part ──► FILE
//!  listener ─── arrivals ─────►┘                              ▲ totals, noise, end
//! ```
//!
//! Real-time threads only store numbers in their ring (`taps`). What finds no room is counted, and the file says so. The
//! form of the file is [`rtwire_measure::evidence`].

mod file;
mod ring;
pub(crate) mod taps;
mod writer;

use std::path::PathBuf;

pub(crate) use writer::Recorder;

/// The file of a run's evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvidenceOptions {
    /// The file. While it is written its name ends in `.part`.
    pub path: PathBuf,
    /// The largest size of its frames, bytes. Later frames are only counted.
    pub limit_bytes: u64,
}
