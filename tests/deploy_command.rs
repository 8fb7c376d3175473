//! `rtwire deploy`, `check` and `prove` with the doors of three real hosts: all of them have the plan, or none. Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "deploy_command/switches.rs"]
mod switches;
#[path = "yang_common/mod.rs"]
mod yang_common;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rtwire_testkit::{Star, require, tc};

const BINARY: &str = env!("CARGO_BIN_EXE_rtwire");
const HOSTS: [&str; 3] = ["a", "b", "c"];
const PORT: u16 = 4434;
const NETWORK: &str = r#"
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
interval = "2 ms"
priority = 6
[[stream]]
name = "back"
talker = "b"
listeners = ["c"]
payload = "100 B"
interval = "2 ms"
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
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Room {
    folder: tempfile::TempDir,
    star: Star,
}

impl Room {
    fn new() -> Room {
        let room = Room {
            folder: tempfile::tempdir().unwrap(),
            star: Star::new(3),
        };
        room.plan("plan", NETWORK);
        let made = room.rtwire(&["manager", "keygen", "keys", "a", "b", "c"]);
        assert_eq!(made.status.code(), Some(0), "{}", said(&made));
        room
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn plan(&self, name: &str, network: &str) {
        fs::write(self.path(&format!("{name}.toml")), network).unwrap();
        let planned = self.rtwire(&[
            "plan",
            &format!("{name}.toml"),
            "--output",
            &format!("{name}.json"),
        ]);
        assert_eq!(planned.status.code(), Some(0), "{}", said(&planned));
    }

    fn address(&self, host: &str) -> Ipv4Addr {
        self.star.stations[at(host)].address
    }

    /// A command in a host's namespace, with a record of undone settings of its own.
    fn on(&self, host: &str) -> Command {
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

    fn rtwire(&self, arguments: &[&str]) -> Output {
        self.on("a").args(arguments).output().unwrap()
    }

    fn door(&self, host: &str, apply_with: &str) -> Running {
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

    fn doors(&self) -> Vec<Running> {
        HOSTS
            .map(|host| self.door(host, "--isolation none --fallback --no-sync"))
            .into()
    }

    /// A verb on a plan with all doors; that of `c` may be at another port.
    fn verb(&self, verb: &str, plan: &str, port_of_c: u16, more: &[&str]) -> Command {
        let mut command = self.on("a");
        command.args([verb, plan, "--keys", "keys"]);
        for host in HOSTS {
            let port = if host == "c" { port_of_c } else { PORT };
            command.args(["--door", &format!("{host}={}:{port}", self.address(host))]);
        }
        command.args(more);
        command
    }

    fn asked(&self, verb: &str, plan: &str, more: &[&str]) -> Output {
        self.verb(verb, plan, PORT, more).output().unwrap()
    }

    /// The queues of all hosts, by `tc`.
    fn queues(&self) -> Vec<String> {
        let stations = self.star.stations.iter();
        let listed = stations.map(|side| {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", &side.namespace, "sh", "-c"]);
            command.arg("tc qdisc show dev rtws | sed 's/direct_packets_stat [0-9]*//'; tc class show dev rtws; tc filter show dev rtws");
            said(&command.output().unwrap())
        });
        listed.collect()
    }

    fn until_queues_are(&self, before: &[String]) {
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

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < end, "never: {what}");
        thread::sleep(Duration::from_millis(100));
    }
}

fn at(host: &str) -> usize {
    HOSTS.iter().position(|name| *name == host).unwrap()
}

fn started(command: &mut Command) -> Running {
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

fn said(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&all).into_owned()
}

fn code(output: &Output, wanted: i32) {
    assert_eq!(output.status.code(), Some(wanted), "{}", said(output));
}

/// A cable in front of a door that hands `replies` replies on. The next one is lost: the line is cut, or stays silent.
/// Returns its port, and a channel that tells when that happened.
fn cable(room: &Room, replies: usize, cuts: bool) -> (u16, Receiver<()>) {
    const HELLO: usize = 69;
    const MAC: usize = 32;
    let side = &room.star.stations[2];
    let listener = side.run(|| TcpListener::bind((side.address, 0)).unwrap());
    let port = listener.local_addr().unwrap().port();
    let (namespace, address) = (
        side.namespace.clone(),
        SocketAddr::from((side.address, PORT)),
    );
    let (sender, happened) = channel();
    thread::spawn(move || {
        rtwire_sys::netns::enter(&namespace).unwrap();
        let (mut deployer, _) = listener.accept().unwrap();
        let mut door = TcpStream::connect(address).unwrap();
        let (mut from, mut to) = (deployer.try_clone().unwrap(), door.try_clone().unwrap());
        thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            // The deployer is gone: so is its line.
            let _ = to.shutdown(std::net::Shutdown::Both);
        });
        let mut hello = [0; HELLO];
        door.read_exact(&mut hello).unwrap();
        deployer.write_all(&hello).unwrap();
        for _ in 0..replies {
            deployer.write_all(&message(&mut door, MAC)).unwrap();
        }
        // The host has carried the order out, and its reply is lost.
        message(&mut door, MAC);
        sender.send(()).unwrap();
        match cuts {
            true => deployer.shutdown(std::net::Shutdown::Both).unwrap(),
            false => thread::sleep(Duration::from_secs(60)),
        }
    });
    (port, happened)
}

fn message(stream: &mut TcpStream, mac: usize) -> Vec<u8> {
    let mut all = vec![0; 4];
    stream.read_exact(&mut all).unwrap();
    let length = u32::from_be_bytes([all[0], all[1], all[2], all[3]]) as usize;
    let mut rest = vec![0; length + mac];
    stream.read_exact(&mut rest).unwrap();
    all.extend(rest);
    all
}

#[test]
fn all_hosts_have_the_plan_drift_is_named_and_the_run_is_judged() {
    require!(root, program "ip", program "tc", program "nsenter");
    let room = Room::new();
    let _doors = room.doors();
    let before = room.queues();
    let none = room.asked("check", "plan.json", &[]);
    code(&none, 1);
    for host in HOSTS {
        assert!(
            said(&none).contains(&format!("{host}: differs  no plan was deployed here")),
            "{}",
            said(&none)
        );
    }
    let dry = room.asked("deploy", "plan.json", &["--dry-run"]);
    code(&dry, 0);
    assert!(said(&dry).contains("b: would change"), "{}", said(&dry));
    assert_eq!(room.queues(), before, "a dry run changes nothing");

    let done = room.asked("deploy", "plan.json", &["--confirm-within", "3s"]);
    code(&done, 0);
    assert!(
        said(&done).contains("deployed on 3 hosts"),
        "{}",
        said(&done)
    );
    let deployed = room.queues();
    assert!(
        deployed.iter().all(|queues| queues.contains("htb")),
        "{deployed:#?}"
    );
    // It stays when the time of the guardians is over.
    thread::sleep(Duration::from_millis(3_700));
    assert_eq!(room.queues(), deployed);
    code(&room.asked("check", "plan.json", &[]), 0);
    // The same once more changes nothing.
    code(&room.asked("deploy", "plan.json", &[]), 0);
    assert_eq!(room.queues(), deployed);

    tc(&room.star.stations[1].namespace, "qdisc del dev rtws root");
    let drift = room.asked("check", "plan.json", &[]);
    code(&drift, 1);
    assert!(
        said(&drift).contains("not as planned: b\n"),
        "{}",
        said(&drift)
    );
    assert!(said(&drift).contains("b: differs"), "{}", said(&drift));
    code(&room.asked("deploy", "plan.json", &[]), 0);
    code(&room.asked("check", "plan.json", &[]), 0);

    // Another plan in its place: lost halfway, the deployed one comes back; then it takes its place.
    let first = room.queues();
    room.plan("other", &NETWORK.replace("20 Mbit/s", "30 Mbit/s"));
    let (port, _happened) = cable(&room, 2, true);
    let lost = room
        .verb("deploy", "other.json", port, &["--confirm-within", "2s"])
        .output()
        .unwrap();
    code(&lost, 1);
    assert_ne!(room.queues(), first);
    room.until_queues_are(&first);
    until("the deployed plan", || {
        room.asked("check", "plan.json", &[]).status.code() == Some(0)
    });
    code(&room.asked("deploy", "other.json", &[]), 0);
    assert_ne!(room.queues(), first);
    code(&room.asked("check", "plan.json", &[]), 1);
    code(&room.asked("deploy", "plan.json", &[]), 0);
    assert_eq!(room.queues(), first);

    // The streams of all hosts, and one verdict. A stalling machine may need several runs.
    let mut verdicts = Vec::new();
    for _ in 0..4 {
        let proof = [
            "--for",
            "3s",
            "--evidence",
            "seen",
            "--report",
            "proof.html",
        ];
        let proved = room.asked("prove", "plan.json", &proof);
        assert!(room.path("seen/b.evidence").exists(), "{}", said(&proved));
        assert!(
            matches!(proved.status.code(), Some(0 | 4)),
            "{}",
            said(&proved)
        );
        verdicts.push(said(&proved));
        if proved.status.code() == Some(0) {
            assert!(
                fs::read_to_string(room.path("proof.html"))
                    .unwrap()
                    .contains("there")
            );
            return;
        }
    }
    panic!("never kept: {verdicts:#?}");
}

#[test]
fn a_host_that_cannot_have_the_plan_keeps_all_from_it() {
    require!(root, program "ip", program "tc", program "nsenter");
    let room = Room::new();
    let with = "--isolation none --fallback --no-sync";
    // The host `c` is told to use a queue that this kernel does not have, and to take nothing less.
    let _doors = [
        room.door("a", with),
        room.door("b", with),
        room.door("c", "--isolation none --queues taprio --no-sync"),
    ];
    let before = room.queues();
    let refused = room.asked("deploy", "plan.json", &[]);
    code(&refused, 1);
    assert!(
        said(&refused).contains("c cannot have this plan; no host has changed anything"),
        "{}",
        said(&refused)
    );
    assert_eq!(room.queues(), before);
}

/// The reply of one host is lost after it has applied the plan: nobody keeps it.
#[test]
fn a_host_that_goes_silent_leaves_all_as_they_were() {
    require!(root, program "ip", program "tc", program "nsenter");
    let room = Room::new();
    let _doors = room.doors();
    let before = room.queues();
    // Ready and show are answered.
    let (port, _happened) = cable(&room, 2, true);
    let lost = room
        .verb("deploy", "plan.json", port, &["--confirm-within", "3s"])
        .output()
        .unwrap();
    code(&lost, 1);
    assert!(
        said(&lost).contains("c did not apply; each host puts its settings back within 3 s"),
        "{}",
        said(&lost)
    );
    room.until_queues_are(&before);
    let unlike = room.asked("check", "plan.json", &[]);
    code(&unlike, 1);
}

/// The deployer is killed when all hosts have applied the plan.
#[test]
fn a_deployer_that_dies_leaves_all_as_they_were() {
    require!(root, program "ip", program "tc", program "nsenter");
    let room = Room::new();
    let _doors = room.doors();
    let before = room.queues();
    let (port, happened) = cable(&room, 2, false);
    let mut deployer =
        started(&mut room.verb("deploy", "plan.json", port, &["--confirm-within", "4s"]));
    happened.recv_timeout(Duration::from_secs(30)).unwrap();
    assert_ne!(room.queues(), before, "it was applied");
    deployer.child.kill().unwrap();
    room.until_queues_are(&before);
    // The line of a dead deployer is no deployer at work.
    code(&room.asked("deploy", "plan.json", &[]), 0);
}

#[test]
fn only_a_holder_of_the_key_deploys() {
    require!(root, program "ip", program "nsenter");
    let room = Room::new();
    let doors = room.doors();
    let made = room.rtwire(&["manager", "keygen", "others", "a", "b", "c"]);
    code(&made, 0);
    fs::rename(room.path("others/b.key"), room.path("foreign.key")).unwrap();
    let own = fs::read(room.path("keys/b.key")).unwrap();
    fs::copy(room.path("foreign.key"), room.path("others/b.key")).unwrap();
    for host in ["a", "c"] {
        fs::copy(
            room.path(&format!("keys/{host}.key")),
            room.path(&format!("others/{host}.key")),
        )
        .unwrap();
    }
    let mut command = room.on("a");
    command.args(["deploy", "plan.json", "--keys", "others"]);
    for host in HOSTS {
        command.args(["--door", &format!("{host}={}:{PORT}", room.address(host))]);
    }
    let refused = command.output().unwrap();
    code(&refused, 3);
    assert!(said(&refused).contains("host \"b\""), "{}", said(&refused));
    assert!(
        said(&refused).contains("not of a holder of its key"),
        "{}",
        said(&refused)
    );
    assert_eq!(fs::read(room.path("keys/b.key")).unwrap(), own);

    // Bytes that are no deployer's, and a host too few.
    let mut stream =
        room.star.stations[0].run(|| TcpStream::connect((room.address("b"), PORT)).unwrap());
    stream.write_all(&[7; 200]).unwrap();
    let told = doors[1]
        .lines
        .recv_timeout(Duration::from_secs(10))
        .unwrap();
    assert!(
        told.contains("does not have the key of this host"),
        "{told}"
    );
    // A door ends at once, also with a line open.
    let _open =
        room.star.stations[0].run(|| TcpStream::connect((room.address("c"), PORT)).unwrap());
    let mut c = doors.into_iter().nth(2).unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(c.child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let end = Instant::now() + Duration::from_secs(3);
    while c.child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < end, "the door stays");
        thread::sleep(Duration::from_millis(20));
    }
    let few = room.rtwire(&[
        "check",
        "plan.json",
        "--keys",
        "keys",
        "--door",
        &format!("a={}:{PORT}", room.address("a")),
    ]);
    code(&few, 2);
    assert!(
        said(&few).contains("host \"b\" has no door"),
        "{}",
        said(&few)
    );
    let typo = room.rtwire(&[
        "check",
        "plan.json",
        "--keys",
        "keys",
        "--door",
        "aa=10.78.0.1:1",
    ]);
    code(&typo, 2);
    assert!(
        said(&typo).contains("the plan has no such host; it has a, b, c"),
        "{}",
        said(&typo)
    );
}
