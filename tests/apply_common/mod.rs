//! An interface that somebody used before, a plan for it, and what a person sees of it: for tests of `rtwire apply`.
#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod listing;

use std::fs;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rtwire_testkit::NetnsPair;

const NETWORK: &str = include_str!("../vm/suites/two-hosts.toml");

/// What a person sees of an interface, to be compared byte by byte.
const LOOKS: &str = "set +e; ip -d link show dev rtwa; ip address show dev rtwa; ip route; ip -6 route; tc qdisc show dev rtwa | sed 's/direct_packets_stat [0-9]*//'; \
    tc class show dev rtwa; tc filter show dev rtwa; ethtool -k rtwa; ethtool -l rtwa; ethtool -c rtwa 2>&1; \
    sysctl net.ipv4.conf.rtwa net.ipv6.conf.rtwa 2>&1; true";

/// The time that the kernel has to settle.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Bench {
    pub(crate) pair: NetnsPair,
    pub(crate) folder: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let bench = Self::unsettled();
        bench.settled();
        bench
    }

    /// The same, amid what follows the carrier by itself.
    pub(crate) fn unsettled() -> Self {
        let bench = Self {
            pair: NetnsPair::new(),
            folder: tempfile::tempdir().unwrap(),
        };
        fs::write(bench.plan(), NETWORK).unwrap();
        // Settings of somebody who was here before: all of it must come back.
        bench.set(
            "ip route add 10.9.0.0/16 via 10.77.0.2; ip route add 10.8.0.0/16 via 10.77.0.2 metric 7; \
             ip address add 10.78.0.1/24 dev rtwa; ip address add 10.77.0.9/24 dev rtwa; ethtool -K rtwa gro off tso on; \
             sysctl -qw net.ipv6.conf.rtwa.accept_dad=0 net.ipv6.conf.rtwa.disable_ipv6=0; \
             ip -6 address add fd77::1/64 dev rtwa nodad",
        );
        bench
    }

    /// Waits until the listing that a person sees stays the same, and returns it: addresses and flags follow the carrier one by one.
    pub(crate) fn settled(&self) -> String {
        let (mut last, end) = (String::new(), Instant::now() + PATIENCE);
        loop {
            let now = self.looks();
            if now == last && now.contains("LOWER_UP") {
                return now;
            }
            assert!(Instant::now() < end, "it never settles: {now}");
            last = now;
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until a person sees what was seen before; fails with the lines that differ.
    pub(crate) fn comes_back_to(&self, before: &str, context: &str) {
        let end = Instant::now() + PATIENCE;
        let mut now = self.looks();
        while now != before && Instant::now() < end {
            thread::sleep(Duration::from_millis(100));
            now = self.looks();
        }
        same(&now, before, context);
    }

    pub(crate) fn plan(&self) -> std::path::PathBuf {
        self.folder.path().join("plan.toml")
    }

    /// The undo records that there are.
    pub(crate) fn records(&self) -> Vec<std::path::PathBuf> {
        let Ok(state) = fs::read_dir(self.folder.path().join("state")) else {
            return Vec::new();
        };
        state
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|end| end == "undo"))
            .collect()
    }

    pub(crate) fn command(&self, program: &str) -> Command {
        // Not `ip netns exec`: it gives a view of the file system of its own, with which a namespace would go.
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/run/netns/{}", self.pair.a.namespace))
            .arg(program)
            .env("RTWIRE_STATE_DIRECTORY", self.folder.path().join("state"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn sh(&self, line: &str) -> String {
        // Not `sh`: that of the kernel lab's guest has an `ip` of its own.
        let output = self.command("bash").args(["-ec", line]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a program in the namespace, with `input` as its standard input: without a program that enters it.
    pub(crate) fn run(&self, program: &str, arguments: &[&str], input: &str) -> Output {
        self.pair.a.run(|| {
            let mut child = Command::new(program)
                .args(arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            // A broken pipe is a failed program: its status says so.
            let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
            child.wait_with_output().unwrap()
        })
    }

    /// Does the same, fails unless the program succeeds, and returns what it prints.
    pub(crate) fn succeeds(&self, program: &str, arguments: &[&str], input: &str) -> String {
        let output = self.run(program, arguments, input);
        assert!(
            output.status.success(),
            "{program} {arguments:?}\n{input}{}",
            said(&output)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs commands separated by `; `, each of `ip`, `tc`, `ethtool` or `sysctl -qw`, and fails at the first that fails. What follows one
    /// another of `ip` or of `tc` is one call, and settings need none.
    pub(crate) fn set(&self, commands: &str) {
        let mut batch = ("", String::new());
        for command in commands.split("; ").chain([""]) {
            let (program, rest) = command.split_once(' ').unwrap_or_default();
            if program != batch.0 {
                if !batch.1.is_empty() {
                    self.succeeds(batch.0, &["-batch", "-"], &batch.1);
                }
                batch = (program, String::new());
            }
            match program {
                // The family of IPv6 follows from its addresses.
                "ip" | "tc" => {
                    batch.1.push_str(rest.trim_start_matches("-6 "));
                    batch.1.push('\n');
                }
                "sysctl" => {
                    let settings = rest.strip_prefix("-qw ").unwrap();
                    self.pair
                        .a
                        .run(|| settings.split(' ').for_each(write_setting));
                }
                "" => {}
                _ => {
                    let arguments: Vec<&str> = rest.split(' ').collect();
                    self.succeeds(program, &arguments, "");
                }
            }
        }
    }

    pub(crate) fn looks(&self) -> String {
        // A link-local address that came back is probed for a second: that is a state, no setting.
        self.sh(LOOKS).replace(" tentative", "")
    }

    pub(crate) fn apply_command(&self, more: &[&str]) -> Command {
        let mut command = self.command(&command_of_rtwire());
        command
            .args(["apply", self.plan().to_str().unwrap()])
            .args(["--host", "A", "--interface", "rtwa"])
            .args(more);
        command
    }

    pub(crate) fn apply(&self, more: &[&str]) -> Output {
        self.apply_command(more).output().unwrap()
    }

    pub(crate) fn rtwire(&self, arguments: &[&str]) -> Output {
        self.command(&command_of_rtwire())
            .args(arguments)
            .output()
            .unwrap()
    }
}

/// Writes a setting, `net.ipv6.conf.rtwa.hop_limit=44`, of the calling thread's namespace.
fn write_setting(setting: &str) {
    let (name, value) = setting.split_once('=').unwrap();
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    fs::write(&path, value).unwrap_or_else(|error| panic!("{path} = {value}: {error}"));
}

/// The command that was built with this test. The kernel lab has it elsewhere.
fn command_of_rtwire() -> String {
    std::env::var("RTWIRE_TEST_COMMAND").unwrap_or_else(|_| env!("CARGO_BIN_EXE_rtwire").to_owned())
}

pub(crate) fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

pub(crate) fn code(output: &Output, wanted: i32) {
    assert_eq!(output.status.code(), Some(wanted), "{}", said(output));
}

/// Fails with the lines that differ.
pub(crate) fn same(now: &str, before: &str, context: &str) {
    let missing: Vec<&str> = before
        .lines()
        .filter(|line| !now.lines().any(|one| one == *line))
        .collect();
    let new: Vec<&str> = now
        .lines()
        .filter(|line| !before.lines().any(|one| one == *line))
        .collect();
    let first = now.lines().zip(before.lines()).find(|(a, b)| a != b);
    assert!(
        now == before,
        "{context}\nmissing: {missing:#?}\nnew: {new:#?}\nfirst difference, now and before: {first:#?}"
    );
}

pub(crate) fn wait_for(limit: Duration, mut there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !there() {
        assert!(start.elapsed() < limit, "still not after {limit:?}");
        thread::sleep(Duration::from_millis(100));
    }
}
