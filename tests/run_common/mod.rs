//! `rtwire run` at the ends of a cable: its standard error goes to a file, so that a test can wait there for what it says.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rtwire_testkit::{NetnsPair, Side};
use serde_json::Value;

/// The words of `rtwire run` when no frame that comes from now on is missed.
pub(crate) const OPEN: &str = ": open;";
/// The words of `rtwire run` when its talkers send.
pub(crate) const RUNNING: &str = ": running";

/// `rtwire run` of one host at one end of a cable, with its report as JSON.
pub(crate) fn run(side: &Side, file: &Path, host: &str) -> Command {
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", &side.namespace])
        .args([env!("CARGO_BIN_EXE_rtwire"), "run"])
        .arg(file)
        .args(["--host", host, "--interface", &side.interface, "--json"]);
    command
}

/// The end of the cable at a host: B is the second one.
pub(crate) fn side<'a>(pair: &'a NetnsPair, host: &str) -> &'a Side {
    match host {
        "B" => &pair.b,
        _ => &pair.a,
    }
}

/// The row of a stream in a report; `kind` is `talkers` or `listeners`.
pub(crate) fn row<'a>(report: &'a Value, kind: &str, stream: &str) -> &'a Value {
    let rows = report[kind].as_array().unwrap();
    rows.iter().find(|row| row["stream"] == stream).unwrap()
}

/// Sends a signal to a process.
pub(crate) fn signal(process: &str, name: &str) {
    let sent = Command::new("kill").args([name, process]).status();
    assert!(sent.unwrap().success());
}

/// A process that is killed where the test fails.
pub(crate) struct Running {
    child: Option<Child>,
    said: tempfile::NamedTempFile,
}

impl Running {
    /// Starts it; its standard output is piped.
    pub(crate) fn start(command: &mut Command) -> Self {
        let said = tempfile::NamedTempFile::new().unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(said.reopen().unwrap())
            .spawn()
            .unwrap();
        Self {
            child: Some(child),
            said,
        }
    }

    /// Waits until it has said these words. Returns itself, for a chain of calls.
    pub(crate) fn says(mut self, words: &str) -> Self {
        let until = Instant::now() + Duration::from_secs(60);
        let child = self.child.as_mut().unwrap();
        loop {
            let said = std::fs::read_to_string(self.said.path()).unwrap();
            if said.contains(words) {
                return self;
            }
            let ended = child.try_wait().unwrap();
            assert_eq!(ended, None, "it ended before `{words}`: {said}");
            assert!(Instant::now() < until, "it never said `{words}`: {said}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Sends it a signal, for instance `-INT`.
    pub(crate) fn signal(&self, name: &str) {
        signal(&self.id().to_string(), name);
    }

    /// Fails the test if it has not ended by itself after this time.
    #[allow(
        dead_code,
        reason = "not every test file that has this module waits so"
    )]
    pub(crate) fn ends_within(mut self, longest: Duration) -> Self {
        let until = Instant::now() + longest;
        let child = self.child.as_mut().unwrap();
        while child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "it runs on after {longest:?}");
            thread::sleep(Duration::from_millis(5));
        }
        self
    }

    /// Waits for its end.
    pub(crate) fn output(mut self) -> Output {
        let mut output = self.child.take().unwrap().wait_with_output().unwrap();
        output.stderr = std::fs::read(self.said.path()).unwrap();
        output
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
