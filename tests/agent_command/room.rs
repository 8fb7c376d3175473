//! What the tests of the agent share: three hosts around a bridge, a manager, agents, captures.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rtwire_agent::{AgentClient, ReserveWish};
use rtwire_testkit::{Side, Star};

use crate::capture_common::Capture;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_rtwire");
const NETWORK: &str = include_str!("../../examples/reservations.toml");
/// The stations of the star, in their order.
pub(crate) const HOSTS: [&str; 3] = ["press", "saw", "office"];

/// A process that ends with its test.
pub(crate) struct Running {
    pub(crate) child: Child,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Running {
        Running {
            child: command.spawn().unwrap(),
        }
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Ends it by SIGTERM, and returns what it said.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        self.signal(rustix::process::Signal::TERM);
        let status = self.child.wait().unwrap();
        let mut said = String::new();
        if let Some(mut out) = self.child.stdout.take() {
            out.read_to_string(&mut said).unwrap();
        }
        (status.code(), said)
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Three hosts, the example's plan, and keys.
pub(crate) struct Room {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) star: Star,
}

impl Room {
    pub(crate) fn new() -> Room {
        Room::with("")
    }

    /// A room whose plan has more than the example's.
    pub(crate) fn with(more: &str) -> Room {
        let room = Room {
            folder: tempfile::tempdir().unwrap(),
            star: Star::new(3),
        };
        fs::write(
            room.path("net.toml"),
            NETWORK.replace("400 kbit/s", "320 kbit/s") + more,
        )
        .unwrap();
        let planned = room.rtwire(&["plan", "net.toml", "--output", "plan.json"]);
        assert_eq!(planned.status.code(), Some(0), "{}", text(&planned));
        let made = room.rtwire(&["manager", "keygen", "keys", "press", "saw", "office"]);
        assert_eq!(made.status.code(), Some(0), "{}", text(&made));
        room
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn rtwire(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(BINARY);
        command.args(arguments).current_dir(self.folder.path());
        command.output().unwrap()
    }

    pub(crate) fn side(&self, host: &str) -> &Side {
        let at = HOSTS.iter().position(|name| *name == host).unwrap();
        &self.star.stations[at]
    }

    /// A command in a host's namespace.
    pub(crate) fn at(&self, host: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.side(host).namespace, program]);
        command.current_dir(self.folder.path());
        command
    }

    pub(crate) fn socket(&self, host: &str) -> PathBuf {
        self.path(&format!("{host}.sock"))
    }

    fn manager_address(&self) -> String {
        format!("{}:4433", self.side("office").address)
    }

    /// Starts the manager on the host `office`.
    pub(crate) fn manager(&self) -> Running {
        let mut command = self.at("office", BINARY);
        command.args([
            "manager",
            "plan.json",
            "--state",
            "state",
            "--keys",
            "keys",
            "--listen",
        ]);
        command.arg(self.manager_address());
        command.args(["--status", "manager.status"]);
        started(command, "rtwire manager: ready")
    }

    pub(crate) fn agent_command(&self, host: &str) -> Command {
        let mut command = self.at(host, BINARY);
        command.args([
            "agent",
            "plan.json",
            "--host",
            host,
            "--interface",
            "rtws",
            "--manager",
        ]);
        command.arg(self.manager_address());
        command.args(["--key", &format!("keys/{host}.key"), "--socket"]);
        command.arg(self.socket(host));
        command.args(["--status", &format!("{host}.status")]);
        for other in HOSTS.iter().filter(|other| **other != host) {
            let address = self.side(other).address;
            command.args(["--peer", &format!("{other}={address}")]);
        }
        command
    }

    pub(crate) fn agent(&self, host: &str) -> Running {
        started(self.agent_command(host), "rtwire agent: ready")
    }

    pub(crate) fn client(&self, host: &str) -> AgentClient {
        AgentClient::connect(&self.socket(host)).unwrap()
    }

    /// The connections that a host sends and hears, by the manager.
    pub(crate) fn connections(&self, host: &str) -> Vec<u64> {
        let report = self.listed(host);
        let all = report["connections"].as_array().unwrap().iter();
        all.map(|one| one["connection"].as_u64().unwrap()).collect()
    }

    /// The same as `rtwire connections --json` prints it.
    pub(crate) fn listed(&self, host: &str) -> serde_json::Value {
        let mut command = self.at(host, BINARY);
        let key = format!("keys/{host}.key");
        command.args([
            "connections",
            "--json",
            "--host",
            host,
            "--key",
            &key,
            "--manager",
        ]);
        let listed = command.arg(self.manager_address()).output().unwrap();
        assert_eq!(listed.status.code(), Some(0), "{}", text(&listed));
        serde_json::from_slice(&listed.stdout).unwrap()
    }

    /// The bytes that have left a host, by the counter of the other end of its cable.
    pub(crate) fn left_bytes(&self, host: &str) -> u64 {
        self.left(host, "bytes")
    }

    /// Returns the bytes that have left a host on the wire: header and payload of each frame, and 24 beyond.
    pub(crate) fn left_on_the_wire(&self, host: &str) -> u64 {
        self.left(host, "bytes") + 24 * self.left(host, "packets")
    }

    fn left(&self, host: &str, unit: &str) -> u64 {
        let at = HOSTS.iter().position(|name| *name == host).unwrap();
        let port = &self.star.ports[at];
        let file = format!("/sys/class/net/{}/statistics/rx_{unit}", port.interface);
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &port.namespace, "cat", &file]);
        let output = command.output().unwrap();
        text(&output).trim().parse().unwrap()
    }

    /// Captures what leaves a host, behind its queue.
    pub(crate) fn capture(&self, host: &str, file: &str) -> Capture {
        Capture::start(&self.side(host).namespace, "rtws", &self.path(file))
    }
}

/// Starts a process and waits for its first line.
pub(crate) fn started(mut command: Command, line: &str) -> Running {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::start(&mut command);
    let mut lines = BufReader::new(running.child.stderr.take().unwrap()).lines();
    let first = lines.next().map(Result::unwrap).unwrap_or_default();
    if !first.starts_with(line) {
        let rest: Vec<String> = lines.map_while(Result::ok).collect();
        panic!("instead of `{line}`: {first}\n{}", rest.join("\n"));
    }
    // It goes on talking; nobody has to read it.
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    running
}

pub(crate) fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Waits until something is true; panics with its name after ten seconds.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(10), "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A reservation to the office: 8 Mbit/s, frames of 1000 bytes, a burst of two of them.
pub(crate) fn wish() -> ReserveWish {
    ReserveWish {
        to: "office".to_owned(),
        priority: 5,
        frame_bytes: 1_000,
        rate_bytes_per_ms: 1_000,
        burst_bytes: 2_048,
        ..ReserveWish::default()
    }
}
