//! The senders: `rtwire run`, isochron, and a bare loop in C. Each sends frames from one end of the link at its cycle.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use rtwire_benches::{compiled, within};
use rtwire_testkit::NetnsPair;
use serde_json::Value;

/// SCHED_FIFO priority of every sender, and of cyclictest.
pub(crate) const PRIORITY: u8 = 80;
const BARE: &str = include_str!("bare.c");

/// A program that sends in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sender {
    Rtwire,
    /// `rtwire run` that does not spin: what the margin is worth.
    Sleeping,
    Isochron,
    Bare,
}

impl Sender {
    pub(crate) const ALL: [Self; 4] = [Self::Rtwire, Self::Bare, Self::Sleeping, Self::Isochron];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rtwire => "rtwire run",
            Self::Sleeping => "rtwire run --spin-margin 0s",
            Self::Isochron => "isochron",
            Self::Bare => "clock_nanosleep + sendto in C",
        }
    }

    /// Returns true if its instants are whole multiples of the cycle of CLOCK_TAI.
    pub(crate) fn has_known_grid(self) -> bool {
        self != Self::Isochron
    }
}

/// The senders, ready to start.
pub(crate) struct Senders {
    pub(crate) pair: NetnsPair,
    folder: tempfile::TempDir,
    bare: PathBuf,
}

/// The outcome of a run, as the sender itself reports it.
pub(crate) struct Said {
    /// The report of `rtwire run`.
    pub(crate) report: Option<Value>,
    /// The reason why there is no measurement.
    pub(crate) failed: Option<String>,
}

impl Senders {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bare = compiled(folder.path(), "run/bare.c", BARE);
        Self {
            pair: NetnsPair::new(),
            folder,
            bare,
        }
    }

    /// Sends for `seconds` at a cycle of `interval_us`. Returns when the sender has ended.
    pub(crate) fn send(&self, sender: Sender, interval_us: u64, seconds: f64) -> Said {
        let side = &self.pair.a;
        let frames = ((seconds * 1e6) as u64 / interval_us).max(1).to_string();
        let to = self.pair.b.mac.map(|byte| format!("{byte:02x}")).join(":");
        let mut command = within(&side.namespace);
        match sender {
            Sender::Rtwire | Sender::Sleeping => {
                command
                    .arg(rtwire_benches::rtwire())
                    .args(["run"])
                    .arg(network(self.folder.path(), interval_us))
                    .args(["--host", "A", "--interface", &side.interface, "--json"])
                    .args(["--realtime", &PRIORITY.to_string()])
                    .args(["--duration", &format!("{seconds}s")]);
                if sender == Sender::Sleeping {
                    command.args(["--spin-margin", "0s"]);
                }
            }
            Sender::Isochron => {
                // Its own option for the priority has no effect with glibc, so it inherits one.
                command
                    .args(["chrt", "-f", &PRIORITY.to_string()])
                    .args(["isochron", "send", "-i", &side.interface, "-d", &to])
                    .args(["-c", &format!("0.{:09}", interval_us * 1_000)])
                    .args(["-n", &frames, "-s", "64", "-T", "--omit-sync", "--quiet"]);
            }
            Sender::Bare => {
                command
                    .arg(&self.bare)
                    .args([&side.interface, &to, &(interval_us * 1_000).to_string()])
                    .args([&frames, &PRIORITY.to_string()]);
            }
        }
        let output = command.stdin(Stdio::null()).output().unwrap();
        Said {
            report: serde_json::from_slice(&output.stdout).ok(),
            failed: failure(sender, &output),
        }
    }
}

/// Returns the reason why a sender did not do its work.
fn failure(sender: Sender, output: &Output) -> Option<String> {
    use std::os::unix::process::ExitStatusExt;
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().replace('\n', "; ");
    let how = match (output.status.code(), output.status.signal()) {
        (Some(0), _) => return None,
        // A verdict on the run, not an error.
        (Some(1 | 4), _) if matches!(sender, Sender::Rtwire | Sender::Sleeping) => return None,
        (Some(code), _) => format!("exit code {code}"),
        (None, signal) => format!("signal {}", signal.unwrap_or(0)),
    };
    Some(format!("{} ended with {how}: {said}", sender.name()))
}

/// Writes a network of one stream with this cycle, and returns the file. Half a cycle of lateness is declared.
fn network(folder: &Path, interval_us: u64) -> PathBuf {
    let text = format!(
        r#"
[network]
name = "one stream"
[defaults]
tick-error = "{error} ns"
link-rate = "1 Gbit/s"
[[host]]
name = "A"
[[host]]
name = "B"
[[link]]
ends = ["A", "B"]
[[stream]]
name = "cyclic"
talker = "A"
listeners = ["B"]
frame = "64 B"
interval = "{interval_us} us"
priority = 7
"#,
        error = interval_us * 500,
    );
    let path = folder.join(format!("network-{interval_us}.toml"));
    std::fs::write(&path, text).unwrap();
    path
}
