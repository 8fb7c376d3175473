//! Values of the talkers and listeners of `rtwire run`, exchanged with another program over a pipe or shared memory.
//!
//! ```text
//!  program ── stdout ──► reader thread ──► image ──► cyclic talker (the newest value in each cycle)
//!                                     └──► queue ──► other talker (every value, in order)
//!  listener ──► queue ──► writer thread ── stdin ──► program
//!  program ◄── file mapped by both (image.rs) ──► talker, listener
//! ```
//!
//! The real-time thread never waits for the program, takes no lock and allocates nothing.

mod program;
mod reading;
mod sink;
mod source;

use std::path::{Path, PathBuf};

use crate::error::SessionError;
use crate::image::Image;

pub(crate) use sink::Sink;
pub(crate) use source::{Each, Found, Newest, Source};

/// The number of values that may wait between a program and the network.
const WAITING: usize = 256;

/// The form of values on a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ValueFormat {
    /// Each line is a value, without its end of line.
    #[default]
    Lines,
    /// Each value has exactly the length of the stream's payload.
    Frames,
}

/// The other end of a stream's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueEnd {
    /// A shell command: a talker's values come from its standard output, a listener's go to its standard input.
    Exec(String, ValueFormat),
    /// A file that both map: see [`Image`].
    Image(PathBuf),
}

/// Opens the image of a stream.
fn image(stream: &str, path: &Path, bytes: usize) -> Result<Image, SessionError> {
    Image::at(path, bytes).map_err(|error| SessionError::Values {
        stream: stream.to_owned(),
        what: format!("--image `{}`: {error}", path.display()),
    })
}
