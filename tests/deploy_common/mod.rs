//! Three real hosts with a door each, and the one who deploys a plan on them.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rtwire_testkit::Star;

const BINARY: &str = env!("CARGO_BIN_EXE_rtwire");
pub(crate) const HOSTS: [&str; 3] = ["a", "b", "c"];
pub(crate) const PORT: u16 = 4434;
pub(crate) const NETWORK: &str = r#"
[network]
name = "three hosts"
[defaults]
link-rate = "100 Mbit/s"
tick-error = "250 us"
[[switch]]
name = "s1"
latency = "100 ms"
buffer = "32 MiB"
queues = 4
[[host]]
name = "a"
queues = 4
[[host]]
name = "b"
queues = 4
[[host]]
name = "c"
queues = 4
[[link]]
ends = ["a", "s1"]
[[link]]
ends = ["b", "s1"]
[[link]]
ends = ["c", "s1"]
[[stream]]
name = "there"
talker = "a"
listeners = ["b"]
payload = "100 B"
interval = "1 ms"
priority = 6
[[stream]]
name = "back"
talker = "b"
listeners = ["c"]
payload = "100 B"
interval = "1 ms"
priority = 6
[[best-effort]]
host = "a"
to = ["b", "c"]
rate = "20 Mbit/s"
[[best-effort]]
host = "b"
to = ["a", "c"]
rate = "20 Mbit/s"
[[best-effort]]
host = "c"
to = ["a", "b"]
rate = "20 Mbit/s"
"#;

/// A process that ends with its test.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) lines: Receiver<String>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) struct Room {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) star: Star,
}

impl Room {
    pub(crate) fn new() -> Room {
        let room = Room {
            folder: tempfile::tempdir().unwrap(),
            star: Star::new(3),
        };
        room.plan("plan", NETWORK);
        let made = room.rtwire(&["manager", "keygen", "keys", "a", "b", "c"]);
        assert_eq!(made.status.code(), Some(0), "{}", said(&made));
        room
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn plan(&self, name: &str, network: &str) {
        fs::write(self.path(&format!("{name}.toml")), network).unwrap();
        let planned = self.rtwire(&[
            "plan",
            &format!("{name}.toml"),
            "--output",
            &format!("{name}.json"),
        ]);
        assert_eq!(planned.status.code(), Some(0), "{}", said(&planned));
    }

    pub(crate) fn address(&self, host: &str) -> Ipv4Addr {
        self.star.stations[at(host)].address
    }

    /// A command in a host's namespace, with a record of undone settings of its own.
    pub(crate) fn on(&self, host: &str) -> Command {
        let namespace = &self.star.stations[at(host)].namespace;
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/run/netns/{namespace}"))
            .arg(BINARY);
        command.env("RTWIRE_STATE_DIRECTORY", self.path(&format!("undo-{host}")));
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn rtwire(&self, arguments: &[&str]) -> Output {
        self.on("a").args(arguments).output().unwrap()
    }

    pub(crate) fn door(&self, host: &str, apply_with: &str) -> Running {
        let mut command = self.on(host);
        command.args([
            "door",
            "--host",
            host,
            "--interface",
            "rtws",
            "--state",
            host,
        ]);
        command.args([
            "--key",
            &format!("keys/{host}.key"),
            "--run-with",
            "--no-sync",
        ]);
        command.args(["--apply-with", apply_with, "--listen"]);
        command.arg(format!("{}:{PORT}", self.address(host)));
        let running = started(&mut command);
        let line = running.lines.recv_timeout(Duration::from_secs(10)).unwrap();
        assert!(line.starts_with("rtwire door: open"), "{line}");
        running
    }

    pub(crate) fn doors(&self) -> Vec<Running> {
        HOSTS
            .map(|host| self.door(host, "--isolation none --fallback --no-sync"))
            .into()
    }

    /// A verb on a plan with all doors; that of `c` may be at another port.
    pub(crate) fn verb(&self, verb: &str, plan: &str, port_of_c: u16, more: &[&str]) -> Command {
        let mut command = self.on("a");
        command.args([verb, plan, "--keys", "keys"]);
        for host in HOSTS {
            let port = if host == "c" { port_of_c } else { PORT };
            command.args(["--door", &format!("{host}={}:{port}", self.address(host))]);
        }
        command.args(more);
        command
    }

    pub(crate) fn asked(&self, verb: &str, plan: &str, more: &[&str]) -> Output {
        self.verb(verb, plan, PORT, more).output().unwrap()
    }

    /// The queues of all hosts, by `tc`.
    pub(crate) fn queues(&self) -> Vec<String> {
        let stations = self.star.stations.iter();
        let listed = stations.map(|side| {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", &side.namespace, "sh", "-c"]);
            command.arg("tc qdisc show dev rtws | sed 's/direct_packets_stat [0-9]*//'; tc class show dev rtws; tc filter show dev rtws");
            said(&command.output().unwrap())
        });
        listed.collect()
    }

    pub(crate) fn until_queues_are(&self, before: &[String]) {
        let end = Instant::now() + Duration::from_secs(20);
        while self.queues() != before {
            assert!(
                Instant::now() < end,
                "{:#?}\ninstead of {before:#?}",
                self.queues()
            );
            thread::sleep(Duration::from_millis(100));
        }
    }
}

pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < end, "never: {what}");
        thread::sleep(Duration::from_millis(100));
    }
}

pub(crate) fn at(host: &str) -> usize {
    HOSTS.iter().position(|name| *name == host).unwrap()
}

pub(crate) fn started(command: &mut Command) -> Running {
    let mut child = command.spawn().unwrap();
    let (sender, lines) = channel();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    Running { child, lines }
}

pub(crate) fn said(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&all).into_owned()
}

pub(crate) fn code(output: &Output, wanted: i32) {
    assert_eq!(output.status.code(), Some(wanted), "{}", said(output));
}
