//! What tests of `rtwire publish` and `rtwire subscribe` share: projects, keys, processes in namespaces.

#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "each test uses a part of it"
)]

use rtwire_testkit::Side;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{OnceLock, mpsc};

pub const BINARY: &str = env!("CARGO_BIN_EXE_rtwire");

/// Runs cargo's `verb` on a package that is no part of the workspace: it must succeed. `place` is its folder below `target`. Returns what
/// was told, and that folder.
pub fn cargo_apart(verb: &str, folder: &str, place: &str) -> (String, PathBuf) {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = root.join("target").join(place);
    let output = Command::new(env!("CARGO"))
        .args([verb, "--locked", "--manifest-path"])
        .arg(root.join(folder).join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "cargo {verb} in {folder}: {told}\n{errors}"
    );
    (told, target)
}

/// Builds a package that is no part of the workspace, and returns its program.
fn built(folder: &str, place: &str, program: &str) -> PathBuf {
    let (_, target) = cargo_apart("build", folder, place);
    target.join("debug").join(program)
}

/// Returns the program of another stack, open62541, which is built on the first call.
pub fn peer() -> &'static PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| built("tests/open62541", "open62541", "rtwire-open62541"))
}

/// Returns the OPC UA client of `rtwire pubsub keys`, which is built on the first call.
pub fn key_client() -> &'static PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let name = "get-security-keys";
        built(&format!("tools/{name}"), name, &format!("rtwire-{name}"))
    })
}

/// The way of messages.
pub const ETHERNET: &str = "transport = \"ethernet\"\naddress = \"01-00-5E-7F-00-01\"\n";
pub const TAGGED: &str =
    "transport = \"ethernet\"\naddress = \"01-00-5E-7F-00-01\"\nvlan = 8\npcp = 3\n";
pub const MULTICAST: &str = "transport = \"udp\"\naddress = \"239.0.0.7:4840\"\n";
pub const UNICAST: &str = "transport = \"udp\"\naddress = \"10.77.0.2:4840\"\n";

/// The layouts of messages, with the keys of their group.
pub const FIXED: &str = "profile = \"fixed\"\ninterval = \"2 ms\"\n";
pub const DYNAMIC: &str = "profile = \"dynamic\"\ninterval = \"2 ms\"\n";

/// The fields of each data set.
const FIELDS: &str = "\
[[writer-group.data-set.field]]\nname = \"up\"\ntype = \"Int32\"\nvalue = \"counter\"\n\
[[writer-group.data-set.field]]\nname = \"down\"\ntype = \"Int64\"\nvalue = \"negative-counter\"\n\
[[writer-group.data-set.field]]\nname = \"same\"\ntype = \"Double\"\nvalue = 2.5\n";

/// Returns a project of one group with one data set.
pub fn project(transport: &str, group: &str, data_set: &str) -> String {
    format!(
        "[connection]\npublisher-id = 2234\n{transport}[real-time]\npriority = 0\n\
         [[writer-group]]\nname = \"g\"\nid = 100\n{group}\
         [[writer-group.data-set]]\nname = \"d\"\nwriter = 7\n{data_set}{FIELDS}"
    )
}

/// A folder with files for the processes.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Writes a key file with these tokens; the first is current. The key's bytes follow from its token and `secret`.
    pub fn keys(&self, name: &str, tokens: &[u32], secret: u8) -> PathBuf {
        let mut text = format!(
            "algorithm = \"PubSub-Aes128-CTR\"\ncurrent = {}\n",
            tokens[0]
        );
        for token in tokens {
            let byte = |add: u8| format!("{:02x}", secret ^ *token as u8 ^ add);
            text += &format!(
                "[[key]]\ntoken = {token}\nsigning = \"{}\"\nencrypting = \"{}\"\nnonce = \"{}\"\n",
                byte(0x10).repeat(32),
                byte(0x20).repeat(16),
                byte(0x30).repeat(4)
            );
        }
        // Whole at once: a running station looks at it.
        let beside = self.write("keys.new", &text);
        fs::set_permissions(&beside, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(&beside, self.path(name)).unwrap();
        self.path(name)
    }
}

/// Returns the keys of a secured group.
pub fn secured(mode: &str, keys: &str, more: &str) -> String {
    format!("security = \"{mode}\"\nkey-file = \"{keys}\"\n{more}")
}

/// A running `rtwire`, which ends with this value.
pub struct Running {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
    errors: mpsc::Receiver<String>,
}

fn command(side: &Side, verb: &str, file: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", &side.namespace, BINARY, verb])
        .arg(file);
    command
        .args(["--interface", &side.interface])
        .args(arguments);
    command
}

/// Runs `rtwire` to its end.
pub fn run(side: &Side, verb: &str, file: &Path, arguments: &[&str]) -> Output {
    command(side, verb, file, arguments).output().unwrap()
}

/// Starts `rtwire`, and waits until it has opened its sockets.
pub fn start(side: &Side, verb: &str, file: &Path, arguments: &[&str]) -> Running {
    let mut command = command(side, verb, file, arguments);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    assert!(
        line.starts_with("subscribed") || line.starts_with("publishing"),
        "{line}"
    );
    let (sender, told) = mpsc::channel();
    std::thread::spawn(move || {
        for line in errors.lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    Running {
        lines: BufReader::new(child.stdout.take().unwrap()),
        child,
        errors: told,
    }
}

impl Running {
    /// Returns the next line of output.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }

    /// Reads lines until one contains `wanted`.
    pub fn until(&mut self, wanted: &str) -> String {
        loop {
            let line = self.line();
            assert!(!line.is_empty(), "it ended before `{wanted}`");
            if line.contains(wanted) {
                return line;
            }
        }
    }

    /// Waits until it has said `wanted` beside its output.
    pub fn told(&self, wanted: &str) {
        let mut before = Vec::new();
        while let Ok(line) = self.errors.recv() {
            if line.contains(wanted) {
                return;
            }
            before.push(line);
        }
        panic!("it ended before `{wanted}`: {before:?}");
    }

    /// Waits for the end. Returns the exit code and the report.
    pub fn end(mut self) -> (Option<i32>, serde_json::Value) {
        let mut text = String::new();
        self.lines.read_to_string(&mut text).unwrap();
        let code = self.child.wait().unwrap().code();
        let last = text.lines().last().unwrap_or_default();
        (
            code,
            serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {text}")),
        )
    }

    /// Interrupts it, and returns the exit code and the report.
    pub fn stop(self) -> (Option<i32>, serde_json::Value) {
        // `ip netns exec` becomes the command: the process is the same.
        let id = self.child.id().to_string();
        Command::new("kill").args(["-INT", &id]).status().unwrap();
        self.end()
    }

    /// Sends it a signal: `STOP`, `CONT`.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &id])
            .status();
        assert!(sent.unwrap().success());
    }

    /// Stops it (SIGSTOP), and waits until all its threads stand still.
    pub fn hang(&self) {
        self.signal("STOP");
        let tasks = format!("/proc/{}/task", self.child.id());
        let state = |task: PathBuf| {
            let text = fs::read_to_string(task.join("stat")).unwrap();
            text.rsplit(") ").next().unwrap().chars().next()
        };
        let still = || {
            let mut tasks = fs::read_dir(&tasks).unwrap();
            tasks.all(|task| state(task.unwrap().path()) == Some('T'))
        };
        while !still() {
            std::thread::yield_now();
        }
    }

    /// Ends it at once, without a chance to say anything.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Returns the report of the only reader.
pub fn reader(report: &serde_json::Value) -> &serde_json::Value {
    &report["groups"][0]["readers"][0]
}

/// Returns a count of a report.
pub fn count(report: &serde_json::Value, name: &str) -> u64 {
    report[name]
        .as_u64()
        .unwrap_or_else(|| panic!("no `{name}` in {report}"))
}
