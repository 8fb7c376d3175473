//! The program at the other end of a stream's values, from its start to its end.

use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::SessionError;

/// The time that a program has to end.
const PATIENCE: Duration = Duration::from_millis(500);

/// A program that was started for a stream. Dropping it ends the program.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
}

impl Program {
    /// Starts the program of a talker. Returns it with its standard output.
    pub(super) fn of_talker(
        stream: &str,
        command: &str,
    ) -> Result<(Self, ChildStdout), SessionError> {
        let mut program = Self::start(stream, command, (Stdio::null(), Stdio::piped()))?;
        match program.child.stdout.take() {
            Some(output) => Ok((program, output)),
            None => Err(SessionError::Work("a child has no standard output".into())),
        }
    }

    /// Starts the program of a listener. Returns it with its standard input.
    pub(super) fn of_listener(
        stream: &str,
        command: &str,
    ) -> Result<(Self, ChildStdin), SessionError> {
        let mut program = Self::start(stream, command, (Stdio::piped(), Stdio::inherit()))?;
        match program.child.stdin.take() {
            Some(input) => Ok((program, input)),
            None => Err(SessionError::Work("a child has no standard input".into())),
        }
    }

    fn start(
        stream: &str,
        command: &str,
        (input, output): (Stdio, Stdio),
    ) -> Result<Self, SessionError> {
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
    pub(super) fn failure(&mut self) -> Option<String> {
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
