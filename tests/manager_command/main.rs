//! `rtwire manager` and its clients as processes: the verbs, their exit codes, keys, and a manager that is killed.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rtwire_manager::{Answer, Ask, Carrier, Granted, Question, Reason};
use rtwire_managerd::{Asker, FileStore, ManagerdError, Store as _, read_key};
use serde_json::Value;

mod etcd;

const BINARY: &str = env!("CARGO_BIN_EXE_rtwire");
const NETWORK: &str = include_str!("../../examples/reservations.toml");
const HOSTS: [&str; 5] = ["press", "saw", "robot", "camera", "office"];

struct Room {
    folder: tempfile::TempDir,
}

impl Room {
    /// Plans the example and makes keys for all its hosts.
    fn new() -> Room {
        let room = Room {
            folder: tempfile::tempdir().unwrap(),
        };
        fs::write(room.path("net.toml"), NETWORK).unwrap();
        let planned = room.rtwire(&["plan", "net.toml", "--output", "plan.json"]);
        assert_eq!(planned.status.code(), Some(0), "{planned:?}");
        let mut keygen = vec!["manager", "keygen", "keys"];
        keygen.extend(HOSTS);
        let made = room.rtwire(&keygen);
        assert_eq!(made.status.code(), Some(0), "{made:?}");
        room
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn rtwire(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(BINARY);
        command.args(arguments).current_dir(self.folder.path());
        command.output().unwrap()
    }

    /// Asks as a host.
    fn ask(&self, manager: &Running, host: &str, arguments: &[&str]) -> Output {
        let key = format!("keys/{host}.key");
        let address = manager.address.to_string();
        let mut all = arguments.to_vec();
        all.extend(["--manager", &address, "--host", host, "--key", &key]);
        self.rtwire(&all)
    }

    fn manager(&self, more: &[&str]) -> Running {
        Running::start(self.folder.path(), "127.0.0.1:0", more)
    }
}

/// A manager's process; it is killed when it is dropped.
struct Running {
    child: Child,
    address: SocketAddr,
    lines: std::io::Lines<BufReader<std::process::ChildStderr>>,
}

impl Running {
    fn start(folder: &Path, listen: &str, more: &[&str]) -> Running {
        let mut command = Command::new(BINARY);
        let arguments = [
            "manager",
            "plan.json",
            "--state",
            "state",
            "--keys",
            "keys",
            "--listen",
            listen,
        ];
        command.args(arguments).args(more).current_dir(folder);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let Some(Ok(line)) = lines.next() else {
            panic!("no manager: {:?}", child.wait_with_output());
        };
        let rest = line.strip_prefix("rtwire manager: ready at ").unwrap();
        let address = rest.split(": ").next().unwrap().parse().unwrap();
        Running {
            child,
            address,
            lines,
        }
    }

    /// Ends it by SIGTERM. Returns its last line and all that it said on standard error.
    fn end(mut self) -> (String, String) {
        let pid = rustix_pid(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let said: Vec<String> = self.lines.by_ref().map_while(Result::ok).collect();
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(0));
        let mut last = String::new();
        let mut out = self.child.stdout.take().unwrap();
        std::io::Read::read_to_string(&mut out, &mut last).unwrap();
        let said = said.join("\n");
        (last, said)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the request for a connection to the listener `office`.
fn reserve(request: u128) -> Question {
    Question::Reserve {
        request,
        only_ask: false,
        ask: Ask {
            listener: "office".to_owned(),
            carrier: Carrier::Udp,
            pcp: 3,
            vlan: None,
            frame_bytes: 200,
            rate_bytes_per_ms: 20,
            burst_bytes: 224,
            deadline_ns: None,
            interval_ns: None,
            source_port: 0,
            port: 0,
        },
    }
}

fn rustix_pid(child: &Child) -> rustix::process::Pid {
    rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap()
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

const RESERVE: [&str; 9] = [
    "reserve",
    "--to",
    "office",
    "--rate",
    "8 Mbit/s",
    "--frame",
    "1000 B",
    "--priority",
    "5",
];

/// Policy and real-time priority of each thread of a process, by the kernel's listing (proc(5), fields 40 and 41 of `stat`).
fn scheduled(child: &Child) -> Vec<(u32, u32)> {
    let threads = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let of_thread = |thread: std::io::Result<fs::DirEntry>| {
        let stat = fs::read_to_string(thread.unwrap().path().join("stat")).unwrap();
        // The name, in brackets, may contain anything.
        let (_, behind) = stat.rsplit_once(')').unwrap();
        let fields: Vec<&str> = behind.split_whitespace().collect();
        // The third field is the first one behind the name.
        (
            fields[41 - 3].parse().unwrap(),
            fields[40 - 3].parse().unwrap(),
        )
    };
    let mut found: Vec<(u32, u32)> = threads.map(of_thread).collect();
    found.sort_unstable();
    found
}

#[test]
fn the_thread_that_answers_has_real_time_priority_and_no_other() {
    // It is for those who may take it: CAP_SYS_NICE.
    if !rtwire_testkit::require_root() {
        return;
    }
    let room = Room::new();
    let manager = room.manager(&[]);
    let found = scheduled(&manager.child);
    let (last, others) = found.split_last().unwrap();
    assert_eq!(*last, (1, 10), "SCHED_FIFO of priority 10: {found:?}");
    assert!(
        !others.is_empty(),
        "keys and plans have threads of their own"
    );
    assert!(others.iter().all(|one| *one == (0, 0)), "{found:?}");
}

#[test]
fn a_connection_is_reserved_listed_explained_and_released() {
    let room = Room::new();
    let manager = room.manager(&[]);
    let mut ask = RESERVE.to_vec();
    ask.push("--only-ask");
    let only = room.ask(&manager, "press", &ask);
    assert_eq!(only.status.code(), Some(0), "{only:?}");
    assert!(text(&only).contains("nothing is reserved"), "{only:?}");

    let shown = room.ask(&manager, "press", &RESERVE);
    assert_eq!(shown.status.code(), Some(0), "{shown:?}");
    for words in [
        "connection 1: \"press\" to \"office\"",
        "1000 B/ms (8000000 bit/s)",
        "every frame within",
    ] {
        assert!(text(&shown).contains(words), "{words}: {}", text(&shown));
    }
    let mut as_json = RESERVE.to_vec();
    as_json.push("--json");
    let second = json(&room.ask(&manager, "press", &as_json));
    assert_eq!(second["connections"][0]["connection"], 2);
    let schema = room.rtwire(&["schema", "connections"]);
    jsonschema::validate(&json(&schema), &second).unwrap();

    // The talker and the listener see both, another host sees none.
    for (host, count) in [("press", 2), ("office", 2), ("saw", 0)] {
        let listed = json(&room.ask(&manager, host, &["connections", "--json"]));
        assert_eq!(
            listed["connections"].as_array().unwrap().len(),
            count,
            "{host}"
        );
        jsonschema::validate(&json(&schema), &listed).unwrap();
    }
    let explained = json(&room.ask(&manager, "press", &["explain", "1", "--json"]));
    let terms = explained["terms"].as_array().unwrap();
    let sum: u64 = terms
        .iter()
        .map(|term| term["budget_ns"].as_u64().unwrap() + term["cable_ns"].as_u64().unwrap())
        .sum();
    assert_eq!(explained["connections"][0]["promise_ns"], sum);

    for (host, to) in [("pr ess", "office"), ("press", "off/ice")] {
        let arguments = [
            "reserve", "--to", to, "--rate", "1 Mbit/s", "--frame", "60 B",
        ];
        let wrong = room.ask(&manager, host, &arguments);
        assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
        assert!(text(&wrong).contains("a host's name is"), "{wrong:?}");
    }
    let foreign = room.ask(&manager, "saw", &["release", "1"]);
    assert_eq!(foreign.status.code(), Some(1), "{foreign:?}");
    assert!(text(&foreign).contains("refused (foreign)"), "{foreign:?}");
    let released = room.ask(&manager, "press", &["release", "1"]);
    assert_eq!(released.status.code(), Some(0), "{released:?}");

    let full = [
        "reserve",
        "--to",
        "office",
        "--rate",
        "60 Mbit/s",
        "--frame",
        "1000 B",
        "--json",
    ];
    let refused = room.ask(&manager, "press", &full);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let refused = json(&refused);
    assert_eq!(refused["refused"]["reason"], "capacity");
    jsonschema::validate(&json(&schema), &refused).unwrap();

    // A cyclic connection has a launch offset; its rate follows from frame and interval.
    let cyclic = [
        "reserve",
        "--to",
        "office",
        "--interval",
        "10 ms",
        "--frame",
        "1000 B",
    ];
    let would = room.ask(&manager, "press", &[&cyclic[..], &["--only-ask"]].concat());
    assert_eq!(would.status.code(), Some(0), "{would:?}");
    let launch = "0.000 us behind each multiple of 10000.000 us in TAI";
    assert!(text(&would).contains(launch), "{}", text(&would));
    let would = json(&room.ask(
        &manager,
        "press",
        &[&cyclic[..], &["--only-ask", "--json"]].concat(),
    ));
    jsonschema::validate(&json(&schema), &would).unwrap();
    assert_eq!(would["connections"][0]["launch_offset_ns"], 0);
    assert_eq!(would["connections"][0]["rate_bytes_per_ms"], 103);
    for (wrong, words) in [
        (
            &["reserve", "--to", "office", "--frame", "1000 B"][..],
            "--rate",
        ),
        (
            &[
                "reserve",
                "--to",
                "office",
                "--frame",
                "1000 B",
                "--interval",
                "0s",
            ],
            "a duration is above 0",
        ),
    ] {
        let wrong = room.ask(&manager, "press", wrong);
        assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
        assert!(text(&wrong).contains(words), "{}", text(&wrong));
    }

    // Output that cannot be written is a failure.
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let address = manager.address.to_string();
    for verb in [&["connections"][..], &["explain", "2"], &["release", "1"]] {
        let mut command = Command::new(BINARY);
        command.args(verb).current_dir(room.folder.path());
        command.args([
            "--manager",
            &address,
            "--host",
            "press",
            "--key",
            "keys/press.key",
        ]);
        let output = command.stdout(full.try_clone().unwrap()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(
            text(&output).contains("cannot write to standard output"),
            "{output:?}"
        );
    }

    let (last, said) = manager.end();
    assert!(last.contains("2 granted, 2 released"), "{last}");
    assert_eq!(said, "");
    // The newest epoch is a plan that verify accepts, with the connection that is left.
    let verified = room.rtwire(&["verify", "state/plan.json"]);
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");
    let plan: Value =
        serde_json::from_slice(&fs::read(room.path("state/plan.json")).unwrap()).unwrap();
    assert_eq!(plan["epoch"], 4);
    let names: Vec<&str> = plan["streams"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stream| stream["name"].as_str().unwrap())
        .collect();
    assert!(
        names.contains(&"connection-2") && !names.contains(&"connection-1"),
        "{names:?}"
    );
}

#[test]
fn keys_are_private_and_can_be_replaced_while_the_manager_runs() {
    let room = Room::new();
    let key = room.path("keys/press.key");
    assert_eq!(
        fs::metadata(&key).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let again = room.rtwire(&["manager", "keygen", "keys", "press"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again).contains("rekey"), "{again:?}");
    let files = fs::read_dir(room.path("keys")).unwrap();
    assert_eq!(files.count(), HOSTS.len(), "a temporary file is left");
    let bad = room.rtwire(&["manager", "keygen", "keys", "../press"]);
    assert_eq!(bad.status.code(), Some(2));

    // A key that others may read serves neither side.
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
    let refused = room.rtwire(&[
        "manager",
        "plan.json",
        "--state",
        "state",
        "--keys",
        "keys",
        "--listen",
        "127.0.0.1:0",
    ]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused).contains("mode 640"), "{refused:?}");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();

    let manager = room.manager(&[]);
    let old = room.path("old.key");
    fs::copy(&key, &old).unwrap();
    let rekeyed = room.rtwire(&["manager", "rekey", "keys", "press"]);
    assert_eq!(rekeyed.status.code(), Some(0), "{rekeyed:?}");
    // From some moment on the new key is believed, and the old one is not.
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let listed = room.ask(&manager, "press", &["connections", "--timeout", "500ms"]);
        match listed.status.code() {
            Some(0) => break,
            Some(4) => assert!(Instant::now() < until, "{listed:?}"),
            _ => panic!("{listed:?}"),
        }
    }
    let address = manager.address.to_string();
    let with_old = room.rtwire(&[
        "connections",
        "--manager",
        &address,
        "--host",
        "press",
        "--key",
        "old.key",
        "--timeout",
        "300ms",
    ]);
    assert_eq!(with_old.status.code(), Some(4), "{with_old:?}");
    // A host with its own key and another's name is forged, too.
    let other_name = room.rtwire(&[
        "connections",
        "--manager",
        &address,
        "--host",
        "saw",
        "--key",
        "keys/press.key",
        "--timeout",
        "300ms",
    ]);
    assert_eq!(other_name.status.code(), Some(4), "{other_name:?}");
    let (_, said) = manager.end();
    assert!(said.contains("key files were read again"), "{said}");
    assert!(said.contains("forged message from 127.0.0.1"), "{said}");
}

#[test]
fn a_store_belongs_to_one_plan_one_manager_and_its_budgets() {
    let room = Room::new();
    let manager = room.manager(&[]);
    let start = |arguments: &[&str]| {
        let mut all = vec!["manager"];
        all.extend(arguments);
        all.extend([
            "--state",
            "state",
            "--keys",
            "keys",
            "--listen",
            "127.0.0.1:0",
        ]);
        room.rtwire(&all)
    };
    let second = start(&["plan.json"]);
    assert_eq!(second.status.code(), Some(2), "{second:?}");
    assert!(text(&second).contains("another manager runs"), "{second:?}");
    manager.end();
    // A start with a shorter lifetime waits for the longest one, by default 100 ms.
    let mut store = FileStore::open(&room.path("state")).unwrap();
    assert_eq!(store.longest_lifetime_us(10_000).unwrap(), 100_000);
    assert_eq!(store.longest_lifetime_us(200_000).unwrap(), 200_000);
    assert_eq!(store.longest_lifetime_us(10_000).unwrap(), 200_000);
    drop(store);
    let budgets = start(&["plan.json", "--budget", "5=9ms"]);
    assert_eq!(budgets.status.code(), Some(2), "{budgets:?}");
    assert!(text(&budgets).contains("other budgets"), "{budgets:?}");
    let changed = NETWORK.replace("deadline = \"10 ms\"", "deadline = \"11 ms\"");
    fs::write(room.path("other.toml"), changed).unwrap();
    room.rtwire(&["plan", "other.toml", "--output", "other.json"]);
    let other = start(&["other.json"]);
    assert_eq!(other.status.code(), Some(2), "{other:?}");
    assert!(text(&other).contains("belongs to the plan"), "{other:?}");
    // A plan that does not hold is not managed.
    let plan = fs::read_to_string(room.path("plan.json")).unwrap();
    let broken = plan.replacen("\"burst_bits\": ", "\"burst_bits\": 1", 1);
    assert_ne!(plan, broken);
    fs::write(room.path("broken.json"), broken).unwrap();
    let refused = start(&["broken.json"]);
    assert_ne!(refused.status.code(), Some(0), "{refused:?}");
}

/// One host's program in the test below: it reserves and releases without end, and notes what it was told.
struct Program {
    host: &'static str,
    asker: Asker,
    owns: BTreeMap<u64, Granted>,
    /// Connections whose release was asked for, and not yet answered.
    open: Option<Question>,
    decisions: usize,
}

impl Program {
    fn step(&mut self, number: u64) {
        let question = self.open.take().unwrap_or_else(|| {
            let request = Asker::request().unwrap();
            match self.owns.keys().next() {
                Some(connection) if self.owns.len() > 3 || number % 3 == 0 => Question::Release {
                    request,
                    connection: *connection,
                },
                _ => reserve(request),
            }
        });
        match self.asker.ask(&question, Duration::from_millis(100)) {
            Err(ManagerdError::NoAnswer { .. }) => self.open = Some(question),
            Err(error) => panic!("{}: {error}", self.host),
            Ok(Answer::Granted(granted)) => {
                self.decisions += 1;
                let before = self.owns.insert(granted.connection, granted);
                assert_eq!(before, None);
            }
            Ok(Answer::Released { connection, .. }) => {
                self.decisions += 1;
                self.owns.remove(&connection);
            }
            // The manager has just started.
            Ok(Answer::Refused(no)) if no.reason == Reason::Busy => {
                std::thread::sleep(Duration::from_micros(no.retry_after_us.into()));
            }
            Ok(other) => panic!("{}: {other:?}", self.host),
        }
    }
}

/// SIGKILL at random moments, again and again: what was acknowledged is there afterwards, and nothing else.
#[test]
fn a_killed_manager_has_exactly_what_it_acknowledged() {
    let moments: usize = std::env::var("RTWIRE_MANAGER_KILLS").map_or(200, |text| {
        text.parse().expect("RTWIRE_MANAGER_KILLS is a number")
    });
    let room = Room::new();
    let rate = ["--requests-per-second", "100000", "--lifetime", "10ms"];
    let first = room.manager(&rate);
    let listen = first.address.to_string();
    let mut manager = Some(first);
    let stop = Arc::new(AtomicBool::new(false));
    let programs: Vec<_> = HOSTS[..4]
        .iter()
        .map(|host| {
            let key = read_key(&room.path(&format!("keys/{host}.key"))).unwrap();
            let asker = Asker::new(&[listen.parse().unwrap()], host, key).unwrap();
            let program = Arc::new(Mutex::new(Program {
                host,
                asker,
                owns: BTreeMap::new(),
                open: None,
                decisions: 0,
            }));
            let (ours, stop) = (Arc::clone(&program), Arc::clone(&stop));
            let thread = std::thread::spawn(move || {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) || ours.lock().unwrap().open.is_some() {
                    number += 1;
                    ours.lock().unwrap().step(number);
                }
            });
            (program, thread)
        })
        .collect();
    let decided = || -> usize {
        let all = programs
            .iter()
            .map(|(program, _)| program.lock().unwrap().decisions);
        all.sum()
    };
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for moment in 0..moments {
        // Some decisions are made between two kills, so that there is something to lose.
        let (before, until) = (decided(), Instant::now() + Duration::from_secs(60));
        while decided() < before + 3 {
            assert!(Instant::now() < until, "no decision before kill {moment}");
            std::thread::sleep(Duration::from_millis(1));
        }
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        std::thread::sleep(Duration::from_micros(random >> 49));
        // Killed by the drop.
        drop(manager.take());
        manager = Some(Running::start(room.folder.path(), &listen, &rate));
    }
    stop.store(true, Ordering::Relaxed);
    let mut believed = BTreeMap::new();
    let total = decided();
    for (program, thread) in programs {
        thread.join().unwrap();
        let program = program.lock().unwrap();
        assert!(program.open.is_none());
        believed.extend(program.owns.clone());
    }
    // By what the manager says, by the plan file of its last epoch, and by the store itself.
    let running = manager.take().unwrap();
    let listed = json(&room.ask(&running, "office", &["connections", "--json"]));
    let ids = |value: &Value| -> BTreeSet<u64> {
        let all = value["connections"].as_array().unwrap().iter();
        all.map(|one| one["connection"].as_u64().unwrap()).collect()
    };
    assert_eq!(ids(&listed), believed.keys().copied().collect());
    running.end();
    let verified = room.rtwire(&["verify", "state/plan.json"]);
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");
    let store = FileStore::open(&room.path("state")).unwrap();
    let stored = store.restored().unwrap().connections.into_iter();
    let stored: BTreeMap<u64, Granted> = stored
        .map(|one| (one.granted.connection, one.granted))
        .collect();
    assert_eq!(stored, believed);
    assert!(total > 3 * moments, "{total} decisions");
    println!(
        "{total} decisions, {moments} kills, {} connections left",
        believed.len()
    );
}
