//! A responder and a ping as processes, for the tests of both.
#![allow(dead_code, reason = "not every test needs all of it")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rtwire_testkit::Side;
use serde_json::Value;

pub(crate) const MAC_B: &str = "02:00:00:00:00:02";

pub(crate) fn rtwire(side: &Side, arguments: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command
        .args([
            "netns",
            "exec",
            &side.namespace,
            env!("CARGO_BIN_EXE_rtwire"),
        ])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// The frames that an interface has sent, as the kernel counts them.
pub(crate) fn frames_sent(side: &Side) -> u64 {
    let path = format!("/sys/class/net/{}/statistics/tx_packets", side.interface);
    let output = Command::new("ip")
        .args(["netns", "exec", &side.namespace, "cat", &path])
        .output()
        .unwrap();
    let count = String::from_utf8_lossy(&output.stdout).trim().parse();
    count.unwrap()
}

/// Waits until an interface has sent so many frames since it was made.
pub(crate) fn wait_until_sent(side: &Side, frames: u64) {
    let until = Instant::now() + Duration::from_secs(60);
    while frames_sent(side) < frames {
        assert!(Instant::now() < until, "{frames} frames are never sent");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A responder at work; killed when dropped. (`ip netns exec` becomes the command: its id is the command's.)
pub(crate) struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
    pub(crate) said: String,
}

impl Running {
    /// Waits until it says that it answers.
    pub(crate) fn start(side: &Side, arguments: &[&str]) -> Self {
        let mut all = vec!["respond", &side.interface, "--json"];
        all.extend_from_slice(arguments);
        let mut child = rtwire(side, &all).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        stderr.read_line(&mut said).unwrap();
        assert!(said.starts_with("answering"), "{said}");
        Self {
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
            stderr,
            said,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args([name, &id])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Waits for its next report.
    pub(crate) fn report(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Stops it with `signal`, if any, and gives exit code, the reports still to come, and what it said.
    pub(crate) fn end(mut self, signal: Option<&str>) -> (Option<i32>, Vec<Value>, String) {
        if let Some(name) = signal {
            self.signal(name);
        }
        let mut out = String::new();
        self.stdout.read_to_string(&mut out).unwrap();
        let mut said = self.said.clone();
        self.stderr.read_to_string(&mut said).unwrap();
        let code = self.child.wait().unwrap().code();
        (
            code,
            out.lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect(),
            said,
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn finished(output: &Output) -> (Option<i32>, Value, String) {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let json = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code(), json, stderr)
}

pub(crate) fn ping(side: &Side, arguments: &[&str]) -> (Option<i32>, Value, String) {
    let mut all = vec!["ping", &side.interface, MAC_B, "--json"];
    all.extend_from_slice(arguments);
    finished(&rtwire(side, &all).output().unwrap())
}
