//! The hosts' processes: started, told when to begin, waited for, and ended in every case.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rtwire_session::outcome::HostResult;
use rtwire_session::task::{Assignment, Order};

use crate::LabError;
use crate::worker::Answer;

/// The time that a host's process has to open its channels.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// The time that it has to write its samples after the end of its run.
const DONE_WITHIN: Duration = Duration::from_secs(15);
/// The time for each process beside it: all of them share this machine's cores.
const BESIDE: Duration = Duration::from_secs(1);

/// One host's process.
struct Process {
    host: String,
    child: Child,
    orders: Option<ChildStdin>,
    answers: Receiver<Result<Answer, String>>,
    _reader: JoinHandle<()>,
}

/// All hosts' processes of a run. Dropping it ends them.
pub(crate) struct Processes {
    all: Vec<Process>,
}

fn failed(host: &str, message: impl Into<String>) -> LabError {
    LabError::Worker {
        host: host.to_owned(),
        message: message.into(),
    }
}

impl Processes {
    /// Starts one process for each assignment and waits until all are ready.
    ///
    /// # Errors
    /// A process cannot be started, or reports an error.
    pub(crate) fn start(assignments: &[Assignment]) -> Result<Self, LabError> {
        let program = std::env::current_exe()?;
        let mut processes = Self { all: Vec::new() };
        for assignment in assignments {
            let process = Process::start(&program, assignment)?;
            processes.all.push(process);
        }
        let until = Instant::now() + READY_WITHIN + BESIDE * processes.count();
        for process in &processes.all {
            match process.answer(until)? {
                Answer::Ready => {}
                Answer::Failed { message } => return Err(failed(&process.host, message)),
                Answer::Done(_) => return Err(failed(&process.host, "ended before it began")),
            }
        }
        Ok(processes)
    }

    fn count(&self) -> u32 {
        u32::try_from(self.all.len()).unwrap_or(u32::MAX)
    }

    /// Sends an order to all processes. The loss of one that has ended already is reported by [`Self::finish`].
    pub(crate) fn order(&mut self, order: Order) {
        let Ok(mut line) = serde_json::to_string(&order) else {
            return;
        };
        line.push('\n');
        for process in &mut self.all {
            if let Some(orders) = &mut process.orders {
                let _ = orders.write_all(line.as_bytes());
                let _ = orders.flush();
            }
        }
    }

    /// Waits for the results of all processes. The error of one does not keep the others from answering.
    pub(crate) fn finish(mut self) -> Vec<(String, Result<HostResult, LabError>)> {
        let until = Instant::now() + DONE_WITHIN + BESIDE * self.count();
        let mut results = Vec::new();
        for process in &mut self.all {
            let result = match process.answer(until) {
                Ok(Answer::Done(result)) => Ok(result),
                Ok(Answer::Failed { message }) => Err(failed(&process.host, message)),
                Ok(Answer::Ready) => Err(failed(&process.host, "is ready for a second time")),
                Err(error) => Err(error),
            };
            results.push((process.host.clone(), result));
        }
        results
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for process in &mut self.all {
            // Closing the pipe is an order to stop; a process that is stuck is ended by force.
            drop(process.orders.take());
        }
        let until = Instant::now() + Duration::from_secs(2);
        for process in &mut self.all {
            while Instant::now() < until && matches!(process.child.try_wait(), Ok(None)) {
                thread::sleep(Duration::from_millis(5));
            }
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}

impl Process {
    fn start(program: &PathBuf, assignment: &Assignment) -> Result<Self, LabError> {
        let host = &assignment.host;
        let mut child = Command::new(program)
            .arg("lab-worker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|e| failed(host, format!("cannot start `{}`: {e}", program.display())))?;
        let orders = child.stdin.take();
        let (sender, answers) = channel();
        let output = child.stdout.take();
        let reader = thread::spawn(move || {
            let Some(output) = output else { return };
            for line in BufReader::new(output).lines() {
                let answer = line
                    .map_err(|e| e.to_string())
                    .and_then(|line| serde_json::from_str(&line).map_err(|e| e.to_string()));
                if sender.send(answer).is_err() {
                    return;
                }
            }
        });
        let mut process = Self {
            host: host.clone(),
            child,
            orders,
            answers,
            _reader: reader,
        };
        let mut line = serde_json::to_string(assignment).map_err(std::io::Error::other)?;
        line.push('\n');
        if let Some(orders) = &mut process.orders {
            orders
                .write_all(line.as_bytes())
                .and_then(|()| orders.flush())
                .map_err(|e| failed(host, format!("does not take its assignment: {e}")))?;
        }
        Ok(process)
    }

    fn answer(&self, until: Instant) -> Result<Answer, LabError> {
        let left = until.saturating_duration_since(Instant::now());
        match self.answers.recv_timeout(left) {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(message)) => Err(failed(&self.host, message)),
            Err(RecvTimeoutError::Timeout) => Err(failed(&self.host, "does not answer")),
            Err(RecvTimeoutError::Disconnected) => {
                Err(failed(&self.host, "its process ended before its answer"))
            }
        }
    }
}
