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

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::SessionError;
use crate::image::{Image, ValueStamp};
use crate::listener::Value;
use crate::task::{ListenerTask, Pattern, TalkerTask};

/// The number of values that may wait between a program and the network.
const WAITING: usize = 256;
/// The time that a program has to end.
const PATIENCE: Duration = Duration::from_millis(500);

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

/// A program that was started for a stream. Dropping it ends the program.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
}

impl Program {
    fn start(stream: &str, command: &str, talker: bool) -> Result<Self, SessionError> {
        let (input, output) = match talker {
            true => (Stdio::null(), Stdio::piped()),
            false => (Stdio::piped(), Stdio::inherit()),
        };
        let child = Command::new("sh")
            .args(["-c", command])
            .stdin(input)
            .stdout(output)
            // A group of its own: everything that it starts ends with it, and Ctrl-C reaches this program first.
            .process_group(0)
            .spawn()
            .map_err(|error| SessionError::Values {
                stream: stream.to_owned(),
                what: format!("--exec cannot start `sh`: {error}"),
            })?;
        Ok(Self { child })
    }

    /// Returns the fault of a program that failed. Waits up to 500 ms for its end.
    fn failure(&mut self) -> Option<String> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return None,
                Ok(Some(status)) => {
                    return Some(format!("the program of --exec ended with {status}"));
                }
                Ok(None) => thread::sleep(Duration::from_millis(5)),
                Err(error) => return Some(error.to_string()),
            }
        }
        None
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.try_wait();
        let group = i32::try_from(self.child.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        let signal = |signal| {
            if let Some(group) = group {
                let _ = rustix::process::kill_process_group(group, signal);
            }
        };
        signal(rustix::process::Signal::TERM);
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(5));
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            signal(rustix::process::Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// The end of a program's output, shared by a real-time thread and the thread that reads the output.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    over: AtomicBool,
    fault: Mutex<Option<String>>,
}

impl Ending {
    fn end(&self, fault: Option<String>) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
        self.over.store(true, Ordering::Release);
    }
}

/// The source of a talker's values.
#[derive(Debug)]
pub(crate) enum Source {
    /// Zeros: for measurements.
    Filler,
    /// The newest value of an image.
    Newest {
        image: Arc<Image>,
        ending: Option<Arc<Ending>>,
        program: Option<Program>,
    },
    /// Every value, in order.
    Each {
        values: Receiver<Vec<u8>>,
        ending: Arc<Ending>,
        program: Program,
    },
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
        match end {
            ValueEnd::Image(_) if !matches!(task.pattern, Pattern::Cyclic { .. }) => {
                Err(SessionError::Values {
                    stream: task.name.clone(),
                    what: "--image has the newest value for each cycle, but this stream has a rate and no interval; give its \
                           values with --exec"
                        .to_owned(),
                })
            }
            ValueEnd::Image(path) => Ok(Self::Newest {
                image: Arc::new(image(&task.name, path, task.payload_bytes)?),
                ending: None,
                program: None,
            }),
            ValueEnd::Exec(command, format) => {
                let mut program = Program::start(&task.name, command, true)?;
                let Some(output) = program.child.stdout.take() else {
                    return Err(SessionError::Work(
                        "a child has no standard output".to_owned(),
                    ));
                };
                let ending = Arc::new(Ending::default());
                let reading = Reading {
                    output: BufReader::new(output),
                    format: *format,
                    most: task.payload_bytes,
                    ending: Arc::clone(&ending),
                };
                if matches!(task.pattern, Pattern::Cyclic { .. }) {
                    let image = Arc::new(Image::in_memory(task.payload_bytes));
                    let to = Arc::clone(&image);
                    let mut sequence = 0;
                    reading.start(move |value| {
                        to.write(
                            value,
                            ValueStamp {
                                sequence,
                                ..ValueStamp::default()
                            },
                        );
                        sequence += 1;
                        true
                    });
                    return Ok(Self::Newest {
                        image,
                        ending: Some(ending),
                        program: Some(program),
                    });
                }
                let (to, values) = sync_channel::<Vec<u8>>(WAITING);
                reading.start(move |value| to.send(value.to_vec()).is_ok());
                Ok(Self::Each {
                    values,
                    ending,
                    program,
                })
            }
        }
    }

    /// Returns true if values are taken one by one, each once.
    pub(crate) fn takes_each(&self) -> bool {
        matches!(self, Self::Each { .. })
    }

    /// Writes the value of this cycle to `out`. Does not wait.
    pub(crate) fn newest(&self, out: &mut [u8]) -> Found {
        match self {
            Self::Filler => Found::Length(out.len()),
            Self::Newest { image, ending, .. } => {
                if ending
                    .as_ref()
                    .is_some_and(|ending| ending.over.load(Ordering::Acquire))
                {
                    return Found::Over;
                }
                image
                    .read(out)
                    .map_or(Found::Nothing, |(length, _)| Found::Length(length))
            }
            Self::Each { .. } => self.next(out, Duration::ZERO),
        }
    }

    /// Writes the next value to `out`. Waits up to `timeout` for one.
    pub(crate) fn next(&self, out: &mut [u8], timeout: Duration) -> Found {
        let Self::Each { values, ending, .. } = self else {
            return self.newest(out);
        };
        let value = match timeout {
            Duration::ZERO => values.try_recv().map_err(|error| match error {
                TryRecvError::Empty => RecvTimeoutError::Timeout,
                TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
            }),
            timeout => values.recv_timeout(timeout),
        };
        match value {
            Ok(value) => {
                let length = value.len().min(out.len());
                out[..length].copy_from_slice(&value[..length]);
                Found::Length(length)
            }
            Err(RecvTimeoutError::Timeout) if !ending.over.load(Ordering::Acquire) => {
                Found::Nothing
            }
            Err(_) => Found::Over,
        }
    }

    /// Returns the fault of the program, if it had one. With `over`, its output has ended, and the program must end now.
    pub(crate) fn fault(&mut self, over: bool) -> Option<String> {
        let (ending, program) = match self {
            Self::Filler => return None,
            Self::Newest {
                ending, program, ..
            } => (ending.as_ref(), program.as_mut()),
            Self::Each {
                ending, program, ..
            } => (Some(&*ending), Some(program)),
        };
        let fault = ending.and_then(|ending| {
            let fault = ending.fault.lock();
            fault.unwrap_or_else(PoisonError::into_inner).clone()
        });
        let failure = || program.filter(|_| over).and_then(Program::failure);
        fault.or_else(failure)
    }
}

fn image(stream: &str, path: &std::path::Path, bytes: usize) -> Result<Image, SessionError> {
    Image::at(path, bytes).map_err(|error| SessionError::Values {
        stream: stream.to_owned(),
        what: format!("--image `{}`: {error}", path.display()),
    })
}

/// Reads a program's output value by value.
struct Reading {
    output: BufReader<ChildStdout>,
    format: ValueFormat,
    most: usize,
    ending: Arc<Ending>,
}

impl Reading {
    /// Reads in a thread of its own until the program ends or `take` returns false.
    fn start(mut self, mut take: impl FnMut(&[u8]) -> bool + Send + 'static) {
        thread::spawn(move || {
            let mut value = Vec::new();
            let fault = loop {
                match self.value(&mut value) {
                    Ok(true) if take(&value) => {}
                    Ok(_) => break None,
                    Err(error) => break Some(error.to_string()),
                }
            };
            self.ending.end(fault);
        });
    }

    /// Reads the next value into `value`. Returns false at the end of the output.
    fn value(&mut self, value: &mut Vec<u8>) -> io::Result<bool> {
        value.clear();
        match self.format {
            ValueFormat::Lines => {
                let most = self.most as u64 + 2;
                self.output.by_ref().take(most).read_until(b'\n', value)?;
                if value.is_empty() {
                    return Ok(false);
                }
                if value.last() == Some(&b'\n') {
                    value.pop();
                }
                if value.len() > self.most {
                    return Err(io::Error::other(format!(
                        "the program of --exec wrote a line of more than {} bytes, which is all that the plan gives to a frame",
                        self.most
                    )));
                }
                Ok(true)
            }
            ValueFormat::Frames => {
                value.resize(self.most, 0);
                let mut filled = 0;
                while filled < self.most {
                    match self.output.read(&mut value[filled..]) {
                        Ok(0) if filled == 0 => return Ok(false),
                        Ok(0) => {
                            return Err(io::Error::other(format!(
                                "the program of --exec ended after {filled} of the {} bytes of a value",
                                self.most
                            )));
                        }
                        Ok(more) => filled += more,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(true)
            }
        }
    }
}

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
                let mut program = Program::start(&task.name, command, false)?;
                let Some(input) = program.child.stdin.take() else {
                    return Err(SessionError::Work(
                        "a child has no standard input".to_owned(),
                    ));
                };
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
                    arrival_ns: value.arrival_ns,
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
