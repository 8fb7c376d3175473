//! What a user may do on the hosts of a lab: answer and ask, send and receive, by every way in and out.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::*;

/// Five nodes, kept after a short run; taken down at the end.
pub(crate) struct Kept {
    pub(crate) id: String,
}

const MAC_B: &str = "02:72:74:00:00:01";

impl Kept {
    pub(crate) fn new() -> Self {
        let file = example("five-nodes.toml");
        let brief = ["--calibration", "200ms", "--duration", "200ms", "--keep"];
        let output = lab(&file, &brief).output().unwrap();
        let said = text(&output.stderr);
        Self {
            id: kept_id(&said).to_owned(),
        }
    }

    fn on(&self, host: &str, arguments: &[&str]) -> Command {
        on(&self.id, host, arguments)
    }

    fn run(&self, host: &str, arguments: &[&str]) -> Command {
        let file = example("five-nodes.toml");
        let run = ["run", file.to_str().unwrap(), "--host", host];
        self.on(
            host,
            &[&run[..], &["--interface", "eth0"], arguments].concat(),
        )
    }
}

/// `rtwire ARGUMENTS` on a host of a lab, as JSON.
fn on(lab: &str, host: &str, arguments: &[&str]) -> Command {
    let mut command = rtwire(&["lab", "enter", lab, host, "--"]);
    command
        .arg(env!("CARGO_BIN_EXE_rtwire"))
        .args(arguments)
        .arg("--json")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = rtwire(&["lab", "down", &self.id]).status();
    }
}

/// A process that is killed where the test fails.
struct Running(Option<Child>);

impl Running {
    /// Starts it, and waits until it says on standard error, behind notes, that it is at work.
    fn answering(command: &mut Command) -> (Self, String) {
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        while stderr.read_line(&mut said).unwrap() > 0 {
            if said
                .lines()
                .last()
                .is_some_and(|line| !line.starts_with("note:"))
            {
                break;
            }
        }
        (Self(Some(child)), said)
    }

    /// Ends it by Ctrl-C; gives exit code and report.
    fn end(mut self) -> (Option<i32>, Value) {
        let child = self.0.take().unwrap();
        signal(child.id(), "INT");
        reported(child)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// More questions than the switch's port has room for: frames that XDP takes are counted as gone all the same, and answers
/// from the driver find their way back.
#[test]
fn every_question_is_answered_on_each_way() {
    let _alone = alone();
    let lab = Kept::new();
    for (way, expected) in [
        (["--mode", "native"], "XDP in native mode"),
        (["--mode", "generic"], "XDP in generic mode"),
        (["--path", "packet"], "packet socket"),
    ] {
        let respond = [&["respond", "eth0"][..], &way].concat();
        let (responder, said) = Running::answering(&mut lab.on("B", &respond));
        assert!(said.contains(expected), "{said}");
        let ask = [
            "ping",
            "eth0",
            MAC_B,
            "--count",
            "3000",
            "--interval",
            "200us",
        ];
        let (code, asked) = reported(lab.on("A", &ask).spawn().unwrap());
        assert_eq!(code, Some(0), "{way:?}: {asked}");
        let (code, answered) = responder.end();
        assert_eq!(code, Some(0), "{way:?}");
        assert_eq!(asked["sent"], 3000, "{way:?}: {asked}");
        assert_eq!(asked["answered"], 3000, "{way:?}: {asked}");
        assert_eq!(answered["answered"], 3000, "{way:?}: {answered}");
        for none in ["late", "lost", "waiting", "duplicate", "reordered"] {
            assert_eq!(asked[none], 0, "{way:?}: {asked}");
        }
        assert_eq!(answered["unanswered"], 0, "{way:?}: {answered}");
    }
}

/// More questions than the switch's port has room for, while the lab measures. XDP takes them, and its answers meet no queue
/// of the host's: the ports' counts and the promises hold all the same.
#[test]
fn xdp_by_hand_on_a_lab_that_measures_changes_no_count() {
    let _alone = alone();
    let child = five_nodes("300ms", "4s");
    let (mut asked, mut answered) = (Value::Null, Value::Null);
    while_running(child.id(), |lab| {
        let id = lab["id"].as_str().unwrap();
        let (responder, said) =
            Running::answering(&mut on(id, "B", &["respond", "eth0", "--mode", "generic"]));
        assert!(said.contains("in generic mode they do"), "{said}");
        let asks = ["--count", "400", "--interval", "2ms"];
        let ask = [&["ping", "eth0", MAC_B][..], &asks].concat();
        (_, asked) = reported(on(id, "A", &ask).spawn().unwrap());
        (_, answered) = responder.end();
    });
    let (code, report) = reported(child);
    assert_eq!(asked["sent"], 400, "{asked}");
    assert_eq!(asked["lost"], 0, "{asked}");
    assert_eq!(answered["answered"], 400, "{answered}");
    assert!(matches!(code, Some(0 | 4)), "{}", report["reasons"]);
    check_ports(&report, "by hand");
    check_losses(&report, "by hand");
}

/// Each way in with each way out, and listeners that spin before they sleep; the receive work in a thread of its own.
#[test]
fn hosts_send_and_receive_by_each_way() {
    let _alone = alone();
    let lab = Kept::new();
    for (way_in, way_out, spin) in [
        ("native", "xdp", "0s"),
        ("generic", "direct", "50us"),
        ("packet", "qdisc", "20us"),
        ("auto", "xdp", "50us"),
    ] {
        let listens = ["--receive-path", way_in, "--spin", spin];
        let listens = [&listens[..], &["--receive", "thread"]].concat();
        let mut listener = Running(Some(lab.run("B", &listens).spawn().unwrap()));
        wait_for_listeners(listener.0.as_mut().unwrap());
        let talks = ["--duration", "300ms", "--transmit-path", way_out];
        let (code, talked) = reported(lab.run("A", &talks).spawn().unwrap());
        // Late cycles of a machine that stalls make it inconclusive; no frame is lost for that.
        assert!(matches!(code, Some(0 | 4)), "{way_out}: {talked:#}");
        let (code, heard) = listener.end();
        // C, D and E are silent: of their streams nothing came.
        assert_eq!(code, Some(4), "{way_in}: {heard:#}");
        let sent = talked["talkers"][0]["frames_sent"].as_u64().unwrap();
        assert!(sent > 100, "{talked:#}");
        let listeners = heard["listeners"].as_array().unwrap();
        let stream = |row: &&Value| row["stream"] == "A-to-B";
        let row = listeners.iter().find(stream).unwrap();
        assert_eq!(
            row["frames_received"], sent,
            "{way_in}, {way_out}: {heard:#}"
        );
        assert_eq!(row["frames_lost"], 0, "{way_in}, {way_out}: {heard:#}");
        // A listener that spins at first is better served by the program.
        let expected = if way_in == "auto" { "native" } else { way_in };
        assert_eq!(row["receive_path"], expected, "{heard:#}");
        assert_eq!(talked["path"], way_out);
        let work = heard["receive_work"].as_str().unwrap();
        assert!(work.contains("NAPI thread of SCHED_FIFO"), "{work}");
    }
}

/// Waits until all four streams of B have an open listener: each has a real-time thread then.
fn wait_for_listeners(process: &mut Child) {
    let tasks = format!("/proc/{}/task", process.id());
    let policy_is_fifo = |task: &std::io::Result<std::fs::DirEntry>| {
        let path = task.as_ref().unwrap().path();
        let stat = std::fs::read_to_string(path.join("stat")).unwrap_or_default();
        // The scheduling policy is field 41; field 3 is the first behind the name.
        let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
        behind.split_whitespace().nth(38) == Some("1")
    };
    loop {
        assert_eq!(process.try_wait().unwrap(), None, "the listener has ended");
        let tasks = std::fs::read_dir(&tasks).unwrap();
        if tasks.filter(policy_is_fifo).count() >= 4 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
