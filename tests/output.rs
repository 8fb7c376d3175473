//! All that the `rtwire` command writes: every verb on a full disk and on a closed pipe, every file that an option names, and
//! runs that are interrupted. The verbs and the options are those of `output/command-line.txt`, which a test of the command
//! holds against its own definition: what is new there needs a case here. Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rtwire_testkit::{NetnsPair, Side, Signal, catches, require};

const LIST: &str = include_str!("output/command-line.txt");
const BINARY: &str = env!("CARGO_BIN_EXE_rtwire");
const MAC_B: &str = "02:00:00:00:00:02";
const MN: &str = "[station]\nnode = 240\ninterface = \"rtwa\"\ncycle = \"10 ms\"\npriority = 0\n[[node]]\nnumber = 1\n\
    sends = [\"6000h/1 u16\"]\n";
const CN: &str = "[station]\nnode = 1\ninterface = \"rtwb\"\ncycle = \"10 ms\"\npriority = 0\nsends = [\"6000h/1 u16\"]\n";
const PUBSUB: &str = "[connection]\npublisher-id = 1\naddress = \"01-00-5E-7F-00-01\"\n[real-time]\npriority = 0\n\
    [[writer-group]]\nid = 1\ninterval = \"10 ms\"\n[[writer-group.data-set]]\nwriter = 1\n\
    [[writer-group.data-set.field]]\nname = \"up\"\ntype = \"UInt32\"\nvalue = \"counter\"\n";
const STREAMS: &str = "stream,src,dst,size,period,deadline,jitter\n0,1,[2],400,1000000,1000000,0\n";
const TOPOLOGY: &str = "link,q_num,rate,t_proc,t_prop\n\
    \"(0, 1)\",8,1,2000,0\n\"(1, 0)\",8,1,2000,0\n\"(0, 2)\",8,1,2000,0\n\"(2, 0)\",8,1,2000,0\n";

/// The checks of a verb.
enum Case {
    /// It prints and ends by itself, with one of these codes where all can be written.
    Prints(Vec<String>, &'static [i32]),
    /// It prints when it is interrupted.
    Until(Vec<String>),
    /// It prints nothing of its own.
    Silent,
    /// It has a test of its own below.
    Own,
}

struct World {
    pair: NetnsPair,
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self {
            pair: NetnsPair::new(),
            folder: tempfile::tempdir().unwrap(),
        };
        for (name, text) in [
            ("net.toml", include_str!("vm/suites/two-hosts.toml")),
            ("mn.toml", MN),
            ("cn.toml", CN),
            ("pubsub.toml", PUBSUB),
            ("streams.csv", STREAMS),
            ("topology.csv", TOPOLOGY),
        ] {
            fs::write(world.path(name), text).unwrap();
        }
        // A configuration with nothing but the length of a cycle.
        let cdc = [1, 0, 0, 0, 0x06, 0x10, 0, 4, 0, 0, 0, 0x10, 0x27, 0, 0];
        fs::write(world.path("cell.cdc"), cdc).unwrap();
        let planned = world.output(
            &world.pair.a,
            &[
                "plan",
                &world.at("net.toml"),
                "--output",
                &world.at("plan.json"),
            ],
        );
        assert_eq!(planned.status.code(), Some(0), "{planned:?}");
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn at(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// The evidence of a short run of one host.
    fn evidence(&self) -> String {
        let file = self.at("a.evidence");
        let run = [
            "run",
            &self.at("plan.json"),
            "--host",
            "A",
            "--interface",
            "rtwa",
            "--no-sync",
            "--duration",
            "300ms",
            "--evidence",
            &file,
        ];
        let ran = self.output(&self.pair.a, &run);
        assert!(self.path("a.evidence").is_file(), "{ran:?}");
        file
    }

    /// A PubSub project as a configuration file.
    fn configuration(&self) -> String {
        let (project, file) = (self.at("pubsub.toml"), self.at("pubsub.uabinary"));
        let export = ["pubsub", "export", &project, "--output", &file];
        let made = self.output(&self.pair.a, &export);
        assert_eq!(made.status.code(), Some(0), "{made:?}");
        file
    }

    /// Returns the messages of a switch that takes everything, and shows nothing of it.
    fn netconf(&self, push: bool) -> String {
        const XMLNS: &str = "xmlns=\"urn:ietf:params:xml:ns:netconf:base:1.0\"";
        let modules = [
            "ietf-interfaces",
            "ieee802-dot1q-bridge",
            "ieee802-dot1q-stream-filters-gates-bridge",
            "ieee802-dot1cb-stream-identification",
        ];
        let abilities = ["base:1.0", "capability:candidate:1.0"]
            .map(|one| format!("urn:ietf:params:netconf:{one}"));
        let all = abilities
            .into_iter()
            .chain(modules.map(|one| format!("urn:x?module={one}")));
        let list: String = all
            .map(|one| format!("<capability>{one}</capability>"))
            .collect();
        let mut text = format!("<hello {XMLNS}><capabilities>{list}</capabilities></hello>]]>]]>");
        let names = "<data><interfaces xmlns=\"urn:ietf:params:xml:ns:yang:ietf-interfaces\"><interface><name>A</name></interface>\
            <interface><name>B</name></interface></interfaces></data>";
        let (nothing, ok) = ("<data/>", "<ok/>");
        let replies: &[&str] = match push {
            false => &[nothing, ok],
            true => &[names, ok, nothing, ok, nothing, ok, ok, ok],
        };
        for (reply, id) in replies.iter().zip(1..) {
            text += &format!("<rpc-reply message-id=\"{id}\" {XMLNS}>{reply}</rpc-reply>]]>]]>");
        }
        let file = self.at(if push {
            "push.netconf"
        } else {
            "check.netconf"
        });
        fs::write(&file, text).unwrap();
        file
    }

    /// A folder with a key of one host.
    fn keys(&self) -> String {
        let folder = self.at("keys");
        let made = self.output(&self.pair.a, &["manager", "rekey", &folder, "A"]);
        assert_eq!(made.status.code(), Some(0), "{made:?}");
        folder
    }

    /// The program in a namespace. (`nsenter` becomes it: its id is the program's.)
    fn command(&self, side: &Side, program: &[&str], arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/run/netns/{}", side.namespace))
            .args(program)
            .args(arguments)
            .env("RTWIRE_STATE_DIRECTORY", self.path("state"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn rtwire(&self, side: &Side, arguments: &[&str]) -> Command {
        self.command(side, &[BINARY], arguments)
    }

    fn output(&self, side: &Side, arguments: &[&str]) -> Output {
        self.rtwire(side, arguments).output().unwrap()
    }

    /// The verb with its arguments, and what it does.
    fn case(&self, verb: &str) -> Case {
        let of = |more: &[&str]| {
            let words = verb.split(' ').chain(more.iter().copied());
            words.map(str::to_owned).collect::<Vec<_>>()
        };
        let (net, plan) = (&self.at("net.toml"), &self.at("plan.json"));
        let capture = &project("tests/captures/powerlink/boot-three-nodes.pcap");
        let prints = |more: &[&str]| Case::Prints(of(more), &[0]);
        match verb {
            "plan" => prints(&[net]),
            "verify" => prints(&[plan]),
            "import tsnkit" => prints(&[&self.at("streams.csv"), &self.at("topology.csv")]),
            "import saihu" => Case::Own,
            "simulate" => prints(&[net, "--duration", "10ms"]),
            "lab" | "lab enter" | "lab down" => Case::Own,
            "lab list" => prints(&[]),
            "run" => {
                let more = [
                    "--host",
                    "A",
                    "--interface",
                    "rtwa",
                    "--duration",
                    "300ms",
                    "--no-sync",
                    net,
                ];
                Case::Prints(of(&more), &[0, 1, 4])
            }
            // One host's evidence: nothing of the other one is known, so it is inconclusive, or broken here already.
            "judge" => Case::Prints(of(&[plan, &self.evidence()]), &[1, 4]),
            "respond" => Case::Until(of(&["rtwa"])),
            "attach" => {
                rtwire_testkit::have_bpf_names();
                prints(&["rtwa"])
            }
            "detach" => prints(&["rtwa"]),
            "ping" => Case::Prints(
                of(&["rtwa", MAC_B, "--count", "3", "--timeout", "20ms"]),
                &[1],
            ),
            "jitter" => prints(&[capture]),
            "sniff" => prints(&[&project("tests/captures/uadp/wire-multi3.pcap")]),
            "powerlink check" => prints(&[&self.at("cell.cdc")]),
            "powerlink mn" => prints(&[&self.at("mn.toml"), "--duration", "500ms"]),
            "powerlink cn" => prints(&[
                &self.at("cn.toml").replace("cn.toml", "cn-a.toml"),
                "--duration",
                "500ms",
            ]),
            "powerlink scan" => prints(&["rtwa"]),
            "powerlink monitor" => prints(&["rtwa", "--duration", "300ms"]),
            "powerlink sdo read" => prints(&["rtwa", "1", "1000h/0"]),
            "powerlink sdo write" | "powerlink nmt" => Case::Silent,
            "publish" => prints(&[
                &self.at("pubsub.toml"),
                "--interface",
                "rtwa",
                "--cycles",
                "5",
            ]),
            "pubsub export" | "pubsub keys" => Case::Silent,
            "pubsub import" => prints(&[&self.configuration()]),
            // It prints a project as `pubsub import` does: `tests/pubsub_command.rs`.
            "pubsub discover" => Case::Own,
            // Nobody publishes.
            "subscribe" => {
                let file = self.at("pubsub.toml");
                let more = [&file, "--interface", "rtwa", "--duration", "300ms"];
                Case::Prints(of(&more), &[1])
            }
            "apply" => prints(&[
                "--host",
                "A",
                "--interface",
                "rtwa",
                "--dry-run",
                "--fallback",
                "--no-sync",
                net,
            ]),
            "confirm" => Case::Own,
            "uman show" => prints(&[]),
            "uman add" | "uman set" | "uman delete" => Case::Silent,
            "clock" => {
                let (socket, record) = (self.at("no.sock"), self.at("clock.jsonl"));
                Case::Prints(of(&["--socket", &socket, "--record", &record]), &[1, 3])
            }
            "doctor" => Case::Prints(of(&[]), &[0, 1]),
            "revert" => prints(&[]),
            "export" => prints(&["--page", net]),
            "switch check" | "switch push" => {
                let via = format!(
                    "cat {}; cat >/dev/null",
                    self.netconf(verb == "switch push")
                );
                Case::Prints(of(&["s", "--plan", net, "--via", &via]), &[1])
            }
            "manager" => Case::Until(of(&[
                plan,
                "--state",
                &self.at("manager"),
                "--keys",
                &self.keys(),
                "--listen",
                "0.0.0.0:0",
            ])),
            "manager rekey" => prints(&[&self.keys(), "A"]),
            // No key may be there, and no manager answers here: `manager_command.rs` has them.
            "manager keygen" | "reserve" | "release" | "connections" | "explain" => Case::Own,
            // They need the doors of all hosts: `deploy_command.rs`.
            "door" | "deploy" | "check" | "prove" => Case::Own,
            "agent remove" => prints(&["rtwa"]),
            // No status file: it says so.
            "top" => Case::Prints(of(&[plan]), &[3]),
            // It answers readers, and prints nothing.
            "metrics" => Case::Silent,
            // They need a manager and an agent: `agent_command` has them.
            "agent" | "channel send" | "channel hear" => Case::Own,
            "schema" => prints(&["plan"]),
            new => panic!(
                "`{new}` has no case here: how does it end where its output cannot be written?"
            ),
        }
    }
}

fn project(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path);
    path.to_str().unwrap().to_owned()
}

fn verbs() -> impl Iterator<Item = &'static str> {
    LIST.lines().filter_map(|line| line.strip_prefix("verb "))
}

/// A disk without room.
fn full() -> Stdio {
    OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap()
        .into()
}

/// A pipe whose reader has gone.
fn closed() -> Stdio {
    let mut reader = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
    let pipe = reader.stdin.take().unwrap();
    reader.wait().unwrap();
    pipe.into()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    assert!(
        Command::new("kill")
            .args([name, &id])
            .status()
            .unwrap()
            .success()
    );
}

/// Ends a command after its first line on standard error, which says that it is at work.
fn interrupt(mut child: Child, name: &str) -> Output {
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut first = String::new();
    stderr.read_line(&mut first).unwrap();
    signal(&child, name);
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    let mut output = child.wait_with_output().unwrap();
    output.stderr = (first + &rest).into_bytes();
    output
}

/// Has a controlled node answer at the other end while `work` runs.
fn beside_a_node<T>(world: &World, work: impl FnOnce() -> T) -> T {
    let mut node = world
        .rtwire(&world.pair.b, &["powerlink", "cn", &world.at("cn.toml")])
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(node.stderr.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.contains("isochronous phase"), "{line}");
    let result = work();
    signal(&node, "-TERM");
    node.wait().unwrap();
    result
}

fn run(world: &World, arguments: &[String], until: bool, to: Stdio) -> Output {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut command = world.rtwire(&world.pair.a, &arguments);
    command.stdout(to);
    let mut work = || match until {
        true => interrupt(command.spawn().unwrap(), "-INT"),
        false => command.output().unwrap(),
    };
    if arguments.contains(&"sdo") {
        beside_a_node(world, work)
    } else {
        work()
    }
}

/// One line of standard error says that standard output cannot be written.
fn tells_a_full_disk(output: &Output, at: &str) {
    let stderr = said(output);
    let code = output
        .status
        .code()
        .unwrap_or_else(|| panic!("{at}: ended by a signal: {stderr}"));
    assert!(code != 0 && code != 101, "{at}: {code} {stderr}");
    let lines = stderr
        .lines()
        .filter(|line| line.contains("cannot write to standard output"));
    assert_eq!(lines.count(), 1, "{at}: {stderr}");
}

fn is_quiet(output: &Output, codes: &[i32], at: &str) {
    let stderr = said(output);
    let code = output
        .status
        .code()
        .unwrap_or_else(|| panic!("{at}: ended by a signal: {stderr}"));
    assert!(codes.contains(&code), "{at}: {code} {stderr}");
    assert!(
        !stderr.contains("panicked") && !stderr.contains("cannot write"),
        "{at}: {stderr}"
    );
}

#[test]
fn every_verb_tells_a_full_disk_and_ends_quietly_on_a_closed_pipe() {
    require!(root, program "ip", program "nsenter");
    let world = World::new();
    fs::write(world.path("cn-a.toml"), CN.replace("rtwb", "rtwa")).unwrap();
    for verb in verbs() {
        let (arguments, codes, until) = match world.case(verb) {
            Case::Prints(arguments, codes) => (arguments, codes, false),
            Case::Until(arguments) => (arguments, &[0][..], true),
            Case::Silent | Case::Own => continue,
        };
        let whole = run(&world, &arguments, until, Stdio::piped());
        is_quiet(&whole, codes, verb);
        assert!(
            !whole.stdout.is_empty(),
            "{verb} prints nothing: {}",
            said(&whole)
        );
        let stopped = run(&world, &arguments, until, full());
        tells_a_full_disk(&stopped, verb);
        if codes == [0] {
            assert_eq!(stopped.status.code(), Some(2), "{verb}");
        }
        is_quiet(&run(&world, &arguments, until, closed()), codes, verb);
    }
    for arguments in [
        &["--help"][..],
        &["--version"],
        &["help", "plan"],
        &["plan", "--help"],
    ] {
        let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
        tells_a_full_disk(&run(&world, &arguments, false, full()), &arguments[0]);
        is_quiet(
            &run(&world, &arguments, false, closed()),
            &[0],
            &arguments[0],
        );
    }
}

#[test]
fn a_full_standard_error_is_no_panic() {
    let command = |to: Stdio| {
        let mut command = Command::new(BINARY);
        command
            .args(["plan", "/nowhere.toml"])
            .stderr(to)
            .output()
            .unwrap()
    };
    assert_eq!(command(full()).status.code(), Some(2));
    assert_eq!(command(closed()).status.code(), Some(2));
}

#[test]
fn an_import_and_a_confirmation_tell_a_full_disk_too() {
    require!(root, program "ip", program "nsenter");
    let world = World::new();
    let net = world.at("net.toml");
    for to in [full as fn() -> Stdio, closed] {
        let apply = [
            "apply",
            "--host",
            "A",
            "--interface",
            "rtwa",
            "--fallback",
            "--no-sync",
            "--confirm-within",
            "60s",
            &net,
        ];
        let applied = world.output(&world.pair.a, &apply);
        assert_eq!(applied.status.code(), Some(0), "{}", said(&applied));
        let confirmed = world
            .rtwire(&world.pair.a, &["confirm", "rtwa"])
            .stdout(to())
            .output()
            .unwrap();
        let reverted = world.output(&world.pair.a, &["revert", "rtwa"]);
        assert_eq!(reverted.status.code(), Some(0), "{}", said(&reverted));
        if said(&confirmed).is_empty() {
            is_quiet(&confirmed, &[0], "confirm");
        } else {
            tells_a_full_disk(&confirmed, "confirm");
        }
    }
}

/// The state of a file behind a write that fails.
enum File {
    /// The command only reads it, or it is no file of data.
    Read,
    /// Replaced whole: the command before the option, and after the path.
    Replaced(Vec<String>, Vec<String>),
    /// Lines are added.
    Appended(Vec<String>),
    /// It has a test of its own below.
    Own,
}

fn file_of(world: &World, place: &str) -> File {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let capture = project("tests/captures/powerlink/boot-three-nodes.pcap");
    match place {
        "plan --output" => File::Replaced(words("plan --output"), vec![world.at("net.toml")]),
        "plan --write" => File::Replaced(
            words("plan --synthesize --write"),
            vec![world.at("net.toml")],
        ),
        "verify --seal" => File::Replaced(words("verify --seal"), vec![world.at("plan.json")]),
        "jitter --report" => File::Replaced(words("jitter --report"), vec![capture]),
        "jitter --worst-to" => File::Replaced(words("jitter --worst-to"), vec![capture]),
        "pubsub export --output" => File::Replaced(
            words(&format!("pubsub export {} --output", world.at("pubsub.toml"))),
            Vec::new(),
        ),
        "pubsub import --output" => File::Replaced(
            words(&format!("pubsub import {} --output", world.configuration())),
            Vec::new(),
        ),
        "powerlink sdo read --output" => File::Replaced(
            words("powerlink sdo read rtwa 1 1000h/0 --output"),
            Vec::new(),
        ),
        "clock --record" => File::Appended(words(&format!(
            "clock --socket {} --record",
            world.at("no.sock")
        ))),
        "judge --report" => {
            let judge = ["judge".to_owned(), world.at("plan.json"), world.evidence()];
            File::Replaced([&judge[..], &["--report".to_owned()]].concat(), Vec::new())
        }
        // It grows while the run lasts, under another name: `tests/judge_command.rs`.
        "lab --report" | "run --evidence" => File::Own,
        // A folder of files: `tests/export_command.rs`.
        "export --into" => File::Own,
        // Folders of memory-mapped files, and the answer of a publisher: `tests/pubsub_command.rs`.
        "publish --images" | "subscribe --images" | "pubsub discover --output" => File::Own,
        "plan --keep"
        | "plan --diff"
        | "run --plan"
        | "publish --plan"
        | "pubsub export --plan"
        | "subscribe --plan"
        | "run --ptp-socket"
        | "respond --file"
        | "jitter --beside"
        | "powerlink sdo read --description"
        | "powerlink sdo write --description"
        | "powerlink sdo write --file"
        | "apply --ptp-socket"
        | "clock --socket"
        | "doctor --plan"
        | "switch check --plan"
        | "switch push --plan"
        | "manager --keys"
        | "door --key"
        | "deploy --keys"
        | "check --keys"
        | "prove --keys"
        // Sockets to connect to.
        | "manager --agent"
        | "channel send --agent"
        | "channel hear --agent"
        | "agent --key"
        | "reserve --key"
        | "release --key"
        | "connections --key"
        | "explain --key" => File::Read,
        // A store, and the newest plan beside it: `tests/manager_command`.
        "manager --state" => File::Own,
        // Plans and evidence of hosts: `tests/deploy_command.rs`.
        "door --state" | "prove --evidence" | "prove --report" => File::Own,
        // A socket that it makes, and files that it replaces once a second: `tests/agent_command`.
        "agent --socket" | "agent --status" | "manager --status" => File::Own,
        // Arguments without a name are what a command reads.
        positional if positional.ends_with('>') => File::Read,
        new => panic!(
            "`{new}` has no case here: is the file written, and what becomes of it where that fails?"
        ),
    }
}

/// Runs a command that writes to `path`; with `limit`, no regular file can grow.
fn writes(world: &World, before: &[String], path: &str, after: &[String], limit: bool) -> Output {
    let arguments = before
        .iter()
        .map(String::as_str)
        .chain([path])
        .chain(after.iter().map(String::as_str));
    let arguments: Vec<&str> = arguments.collect();
    let limited = [
        "sh",
        "-c",
        "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\"",
        BINARY,
    ];
    let program = if limit { &limited[..] } else { &[BINARY] };
    let work = || {
        world
            .command(&world.pair.a, program, &arguments)
            .output()
            .unwrap()
    };
    if before.contains(&"sdo".to_owned()) {
        beside_a_node(world, work)
    } else {
        work()
    }
}

#[test]
fn every_file_is_replaced_whole_and_the_tables_come_first() {
    require!(root, program "ip", program "nsenter");
    let world = World::new();
    for place in LIST.lines().filter_map(|line| line.strip_prefix("path ")) {
        let (before, after, whole) = match file_of(&world, place) {
            File::Read | File::Own => continue,
            File::Replaced(before, after) => (before, after, true),
            File::Appended(before) => (before, Vec::new(), false),
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        let name = path.to_str().unwrap();
        fs::write(&path, "as it was\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::chown(&path, Some(1234), Some(1235)).unwrap();
        for (to, limit) in [
            ("/dev/full", false),
            ("/nowhere/of/all", false),
            (name, true),
        ] {
            if to.starts_with("/nowhere") && !whole {
                // The folder of the record is made.
                continue;
            }
            let failed = writes(&world, &before, to, &after, limit);
            let (code, stderr) = (failed.status.code(), said(&failed));
            assert!(
                code.is_some_and(|code| code != 0 && code != 101),
                "{place} {to}: {code:?} {stderr}"
            );
            let told = stderr.contains("cannot write") || stderr.contains("cannot keep the record");
            assert!(told && stderr.contains(to), "{place} {to}: {stderr}");
            let prints = !place.contains("sdo") && !place.contains("pubsub");
            assert_eq!(
                !failed.stdout.is_empty(),
                prints,
                "{place} {to}: the tables: {stderr}"
            );
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "as it was\n", "{place}");
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "{place}: nothing left beside"
        );
        writes(&world, &before, name, &after, false);
        let text = fs::read(&path).unwrap();
        assert_eq!(text.starts_with(b"as it was\n"), !whole, "{place}");
        assert_ne!(text, b"as it was\n", "{place}");
        let found = fs::metadata(&path).unwrap();
        assert_eq!(
            (found.mode() & 0o777, found.uid(), found.gid()),
            (0o640, 1234, 1235),
            "{place}"
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{place}");
    }
}

#[test]
fn a_lab_loses_no_measurement_where_its_report_cannot_be_written() {
    require!(root, program "ip", program "nsenter");
    let world = World::new();
    let net = world.at("net.toml");
    fs::write(world.path("r.html"), "as it was").unwrap();
    symlink("/dev/full", world.path("r.json")).unwrap();
    let report = world.at("r.html");
    let lab = [
        "lab",
        &net,
        "--duration",
        "500ms",
        "--calibration",
        "500ms",
        "--keep",
    ];
    let id_of = |output: &Output| {
        let stderr = said(output);
        let id = stderr
            .lines()
            .find_map(|line| line.strip_prefix("lab ")?.split(' ').next());
        id.unwrap_or_else(|| panic!("{stderr}")).to_owned()
    };
    let run = |more: &[&str], to: Stdio| {
        let arguments = [&lab[..], more].concat();
        Command::new(BINARY)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(to)
            .stderr(Stdio::piped())
            .output()
            .unwrap()
    };
    let failed = run(&["--report", &report], Stdio::piped());
    let down = Command::new(BINARY)
        .args(["lab", "down", &id_of(&failed)])
        .stdout(full())
        .output()
        .unwrap();
    tells_a_full_disk(&down, "lab down");
    let stderr = said(&failed);
    assert!(stderr.contains("r.json`: No space left"), "{stderr}");
    assert_ne!(failed.status.code(), Some(0), "{stderr}");
    assert!(
        String::from_utf8_lossy(&failed.stdout).lines().count() > 5,
        "the tables"
    );
    let failed = run(&[], full());
    let down = Command::new(BINARY)
        .args(["lab", "down", &id_of(&failed)])
        .stdout(closed())
        .output()
        .unwrap();
    is_quiet(&down, &[0], "lab down");
    tells_a_full_disk(&failed, "lab");
}

#[test]
fn an_interrupted_run_says_so_and_is_never_kept() {
    require!(root, program "ip", program "nsenter");
    let world = World::new();
    let (mn, net) = (world.at("mn.toml"), world.at("net.toml"));
    // What is interrupted, and the code of a run that was to last longer.
    let pubsub = world.at("pubsub.toml");
    let publish = ["publish", &pubsub, "--interface", "rtwa"];
    let long = [&publish[..], &["--duration", "3600s"]].concat();
    let cases: [(&[&str], i32); 11] = [
        (&publish, 0),
        (&long, 4),
        (
            &[
                "ping",
                "rtwa",
                MAC_B,
                "--count",
                "100000",
                "--timeout",
                "500ms",
            ],
            4,
        ),
        (&["jitter", "rtwa", "--duration", "3600s", "--json"], 4),
        (&["sniff", "rtwa", "--duration", "3600s"], 4),
        (&["powerlink", "monitor", "rtwa", "--duration", "3600s"], 4),
        (&["powerlink", "monitor", "rtwa"], 0),
        (&["powerlink", "mn", &mn, "--duration", "3600s"], 4),
        (&["powerlink", "mn", &mn], 0),
        (&["respond", "rtwa"], 0),
        (
            &[
                "simulate",
                &net,
                "--duration",
                "10ms",
                "--search",
                "100000000",
            ],
            4,
        ),
    ];
    for (arguments, code) in cases {
        for name in ["-INT", "-TERM"] {
            let mut child = world.rtwire(&world.pair.a, arguments).spawn().unwrap();
            wait_for_handler(&mut child);
            if child.try_wait().unwrap().is_none() {
                signal(&child, name);
            }
            let output = child.wait_with_output().unwrap();
            let stderr = said(&output);
            assert!(
                stderr.contains("interrupted (Ctrl-C or SIGTERM) after"),
                "{arguments:?}: {stderr}"
            );
            let found = output.status.code();
            // Questions that were not answered are lost, which is worse.
            let found = found.map(|found| {
                if arguments[0] == "ping" && found == 1 {
                    4
                } else {
                    found
                }
            });
            assert!(found == Some(code), "{arguments:?}: {found:?} {stderr}");
        }
    }
}

/// Waits until a process catches SIGTERM: then it is at work. Or until it has ended.
fn wait_for_handler(child: &mut Child) {
    while child.try_wait().unwrap().is_none() {
        if catches(child.id(), Signal::Terminate) {
            return;
        }
        std::thread::yield_now();
    }
}
