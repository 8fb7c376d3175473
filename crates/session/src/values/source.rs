//! The values of a talker: filler, an image, or a program's output.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use super::program::Program;
use super::reading::{Ending, Reading};
use super::{ValueEnd, WAITING, image};
use crate::error::SessionError;
use crate::image::{Image, ValueStamp};
use crate::task::{Pattern, TalkerTask};

/// The source of a talker's values.
#[derive(Debug)]
pub(crate) enum Source {
    /// One value for each cycle or tick.
    Newest(Newest),
    /// Every value of a program, in order.
    Each(Each),
}

/// The values of which only the newest one counts.
#[derive(Debug)]
pub(crate) enum Newest {
    /// A pattern with a checksum (`filler.rs`): for measurements.
    Filler,
    /// A file that another program writes.
    Image(Image),
    /// A program's output.
    Program {
        image: Arc<Image>,
        ending: Arc<Ending>,
        program: Program,
    },
}

/// The values of a program that are all sent, in order.
#[derive(Debug)]
pub(crate) struct Each {
    values: Receiver<Vec<u8>>,
    ending: Arc<Ending>,
    program: Program,
}

/// The answer of a source to a talker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A value of this length.
    Length(usize),
    /// No value yet.
    Nothing,
    /// The source has ended.
    Over,
}

impl Source {
    /// Opens the source of a talker's values.
    pub(crate) fn open(task: &TalkerTask, end: &ValueEnd) -> Result<Self, SessionError> {
        let cyclic = matches!(task.pattern, Pattern::Cyclic { .. });
        match end {
            ValueEnd::Image(_) if !cyclic => Err(SessionError::Values {
                stream: task.name.clone(),
                what: "--image has the newest value for each cycle, but this stream has a rate and no interval; give its \
                       values with --exec"
                    .to_owned(),
            }),
            ValueEnd::Image(path) => {
                let image = image(&task.name, path, task.payload_bytes)?;
                Ok(Self::Newest(Newest::Image(image)))
            }
            ValueEnd::Exec(command, format) => {
                let (program, output) = Program::of_talker(&task.name, command)?;
                let reading = Reading::new(output, *format, task.payload_bytes);
                if cyclic {
                    let image = Arc::new(Image::in_memory(task.payload_bytes));
                    let ending = reading.start(into_image(Arc::clone(&image)));
                    return Ok(Self::Newest(Newest::Program {
                        image,
                        ending,
                        program,
                    }));
                }
                let (to, values) = sync_channel::<Vec<u8>>(WAITING);
                let ending = reading.start(move |value| to.send(value.to_vec()).is_ok());
                Ok(Self::Each(Each {
                    values,
                    ending,
                    program,
                }))
            }
        }
    }

    /// Returns the fault of the program, if it had one. With `over`, its output has ended, and the program must end now.
    pub(crate) fn fault(&mut self, over: bool) -> Option<String> {
        let (ending, program) = match self {
            Self::Newest(Newest::Filler | Newest::Image(_)) => return None,
            Self::Newest(Newest::Program {
                ending, program, ..
            }) => (ending, program),
            Self::Each(each) => (&mut each.ending, &mut each.program),
        };
        let fault = ending.fault();
        fault.or_else(|| over.then(|| program.failure()).flatten())
    }
}

/// Returns what writes each value into an image.
fn into_image(image: Arc<Image>) -> impl FnMut(&[u8]) -> bool {
    let mut sequence = 0;
    move |value| {
        let stamp = ValueStamp {
            sequence,
            ..ValueStamp::default()
        };
        image.write(value, stamp);
        sequence += 1;
        true
    }
}

impl Newest {
    /// Writes the value of this cycle to `out`. Does not wait.
    pub(crate) fn take(&self, out: &mut [u8]) -> Found {
        let image = match self {
            Self::Filler => return Found::Length(out.len()),
            Self::Image(image) => image,
            Self::Program { ending, .. } if ending.is_over() => return Found::Over,
            Self::Program { image, .. } => image,
        };
        let found = image.read(out);
        found.map_or(Found::Nothing, |(length, _)| Found::Length(length))
    }
}

impl Each {
    /// Writes the next value to `out`. Waits up to `timeout` for one.
    pub(crate) fn take(&self, out: &mut [u8], timeout: Duration) -> Found {
        match self.values.recv_timeout(timeout) {
            Ok(value) => {
                let length = value.len().min(out.len());
                out[..length].copy_from_slice(&value[..length]);
                Found::Length(length)
            }
            Err(RecvTimeoutError::Timeout) if !self.ending.is_over() => Found::Nothing,
            Err(_) => Found::Over,
        }
    }
}
