//! Reads a program's output in a thread of its own, value by value.

use std::io::{self, BufRead, BufReader, Read};
use std::process::ChildStdout;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::ValueFormat;

/// The end of a program's output, shared by a real-time thread and the thread that reads the output.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    over: AtomicBool,
    fault: Mutex<Option<String>>,
}

impl Ending {
    /// Returns true once the output has ended.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Returns the fault with which the output ended, if it had one.
    pub(super) fn fault(&self) -> Option<String> {
        let fault = self.fault.lock();
        fault.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn end(&self, fault: Option<String>) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
        self.over.store(true, Ordering::Release);
    }
}

/// Reads a program's output value by value.
pub(super) struct Reading {
    output: BufReader<ChildStdout>,
    format: ValueFormat,
    most: usize,
    ending: Arc<Ending>,
}

impl Reading {
    /// Prepares to read values of up to `most` bytes.
    pub(super) fn new(output: ChildStdout, format: ValueFormat, most: usize) -> Self {
        Self {
            output: BufReader::new(output),
            format,
            most,
            ending: Arc::default(),
        }
    }

    /// Reads in a thread of its own until the program ends or `take` returns false. Returns the place of its end.
    pub(super) fn start(
        mut self,
        mut take: impl FnMut(&[u8]) -> bool + Send + 'static,
    ) -> Arc<Ending> {
        let ending = Arc::clone(&self.ending);
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
        ending
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
