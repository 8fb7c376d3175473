//! A responder and a ping as processes, for the tests of both.
#![allow(dead_code, reason = "not every test needs all of it")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

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

/// A responder at work; killed when dropped. (`ip netns exec` becomes the command: its id is the command's.)
pub(crate) struct Running {
    child: Child,
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

    /// Stops it with `signal`, if any, and gives exit code, all reports, and what it said.
    pub(crate) fn end(mut self, signal: Option<&str>) -> (Option<i32>, Vec<Value>, String) {
        if let Some(name) = signal {
            self.signal(name);
        }
        let mut out = String::new();
        self.child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut out)
            .unwrap();
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
