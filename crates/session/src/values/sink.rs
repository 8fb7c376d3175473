//! The values of a listener: nowhere, into an image, or to a program's input.

use std::io::{BufWriter, Write};
use std::process::ChildStdin;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::program::Program;
use super::{ValueEnd, ValueFormat, WAITING, image};
use crate::error::SessionError;
use crate::image::{Image, ValueStamp};
use crate::listener::Value;
use crate::task::ListenerTask;

/// The destination of a listener's values.
#[derive(Debug)]
pub(crate) enum Sink {
    /// None: for measurements.
    Nowhere,
    /// An image, which holds the newest value.
    Image(Image),
    /// A program, which receives every value.
    Program(Box<Pipe>),
}

/// A program's standard input behind a thread of its own.
#[derive(Debug)]
pub(crate) struct Pipe {
    /// The free buffers.
    free: Receiver<Vec<u8>>,
    full: Option<SyncSender<Vec<u8>>>,
    /// The number of values for which the program was too slow.
    dropped: u64,
    format: ValueFormat,
    bytes: usize,
    writer: Option<thread::JoinHandle<()>>,
    program: Program,
}

impl Sink {
    /// Opens the destination of a listener's values.
    pub(crate) fn open(task: &ListenerTask, end: &ValueEnd) -> Result<Self, SessionError> {
        /// The largest user data of a frame, bytes.
        const MOST: usize = 1_500;
        let bytes = task.contract.map_or(MOST, |terms| terms.payload_bytes);
        match end {
            ValueEnd::Image(path) => Ok(Self::Image(image(&task.name, path, bytes)?)),
            ValueEnd::Exec(command, format) => {
                let (program, input) = Program::of_listener(&task.name, command)?;
                let (full, to_write) = sync_channel::<Vec<u8>>(WAITING);
                let (written, free) = sync_channel::<Vec<u8>>(WAITING);
                for _ in 0..WAITING {
                    // There is room for all of them.
                    let _ = written.try_send(Vec::with_capacity(bytes.max(MOST) + 1));
                }
                let writer = thread::spawn(move || write(input, &to_write, &written));
                Ok(Self::Program(Box::new(Pipe {
                    free,
                    full: Some(full),
                    dropped: 0,
                    format: *format,
                    bytes,
                    writer: Some(writer),
                    program,
                })))
            }
        }
    }

    /// Hands a value over. Does not wait or allocate.
    pub(crate) fn put(&mut self, value: &Value<'_>) {
        match self {
            Self::Nowhere => {}
            Self::Image(image) => image.write(
                value.data,
                ValueStamp {
                    sequence: value.sequence.into(),
                    sender_time_ns: value.sender_time_ns,
                    arrival_ns: value.stamp_ns(),
                },
            ),
            Self::Program(pipe) => pipe.put(value.data),
        }
    }

    /// Ends the program after it has received every value. Returns the fault, if there was one.
    pub(crate) fn finish(self) -> Option<String> {
        let Self::Program(mut pipe) = self else {
            return None;
        };
        pipe.full = None;
        if let Some(writer) = pipe.writer.take() {
            let _ = writer.join();
        }
        let failure = pipe.program.failure();
        let slow = (pipe.dropped > 0).then(|| {
            format!(
                "the program of --exec was too slow for {} values",
                pipe.dropped
            )
        });
        failure.or(slow)
    }
}

impl Pipe {
    fn put(&mut self, data: &[u8]) {
        let (Ok(mut buffer), Some(full)) = (self.free.try_recv(), &self.full) else {
            self.dropped += 1;
            return;
        };
        buffer.clear();
        match self.format {
            ValueFormat::Lines => {
                buffer.extend_from_slice(&data[..data.len().min(buffer.capacity() - 1)]);
                buffer.push(b'\n');
            }
            ValueFormat::Frames => {
                buffer.extend_from_slice(&data[..data.len().min(self.bytes)]);
                buffer.resize(self.bytes, 0);
            }
        }
        if full.try_send(buffer).is_err() {
            self.dropped += 1;
        }
    }
}

/// Writes values to a program until the last one, or until the program stops reading.
fn write(input: ChildStdin, values: &Receiver<Vec<u8>>, written: &SyncSender<Vec<u8>>) {
    let mut input = BufWriter::new(input);
    while let Ok(value) = values.recv() {
        let mut done = input.write_all(&value);
        let _ = written.try_send(value);
        while let Ok(value) = values.try_recv() {
            done = done.and_then(|()| input.write_all(&value));
            let _ = written.try_send(value);
        }
        if done.and_then(|()| input.flush()).is_err() {
            return;
        }
    }
}
