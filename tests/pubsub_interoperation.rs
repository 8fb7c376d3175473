//! OPC UA PubSub with a peer of another make, open62541, in both directions: each value is checked. The peer is a package of
//! its own (`tests/open62541`), built here on first use: it brings its C sources along, and needs cmake and libclang.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod pubsub_common;

use pubsub_common::*;
use rtwire_link::program::ReceiveProgram;
use rtwire_testkit::{NetnsPair, Side, ip, require};
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

const MESSAGES: i64 = 60;

/// A running peer, which ends with this value.
struct Peer {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Peer {
    fn start(side: &Side, role: &str, url: &str, layout: &str, security: &str) -> Self {
        let mut child = Command::new("ip")
            .args(["netns", "exec", &side.namespace])
            .arg(peer())
            .args([role, url, &side.interface, layout, security])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Returns the next line that begins with one of `words`; the library's own log is passed over.
    fn next(&mut self, words: &[&str]) -> (String, String) {
        loop {
            let mut line = String::new();
            assert!(
                self.lines.read_line(&mut line).unwrap() > 0,
                "the peer has ended"
            );
            let Some((word, value)) = line.trim_end().split_once(' ') else {
                continue;
            };
            if words.contains(&word) {
                return (word.to_owned(), value.to_owned());
            }
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One way to send, and one layout and protection.
struct Case {
    transport: &'static str,
    url: &'static str,
    fixed: bool,
    /// A text and an array are behind the other fields.
    long: bool,
    security: &'static str,
}

/// The text and the array, as the peer has them.
const LONG: &str = "\
[[writer-group.data-set.field]]\nname = \"text\"\ntype = \"String\"\nmax-bytes = 12\nvalue = \"öne\"\n\
[[writer-group.data-set.field]]\nname = \"list\"\ntype = \"Int16\"\nmax-elements = 3\nvalue = \"counter\"\n";

const ETHERNET_URL: &str = "opc.eth://01-00-5E-7F-00-01";
const TAGGED_URL: &str = "opc.eth://01-00-5E-7F-00-01:8.3";
const UDP_URL: &str = "opc.udp://239.0.0.7:4840/";

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (transport, url) in [
        (ETHERNET, ETHERNET_URL),
        (TAGGED, TAGGED_URL),
        (MULTICAST, UDP_URL),
    ] {
        for fixed in [true, false] {
            for security in ["none", "sign", "sign-and-encrypt"] {
                cases.push(Case {
                    transport,
                    url,
                    fixed,
                    long: security == "sign",
                    security,
                });
            }
        }
    }
    cases
}

impl Case {
    fn layout(&self) -> &'static str {
        match (self.fixed, self.long) {
            (true, false) => "fixed",
            (true, true) => "fixed-long",
            (false, false) => "dynamic",
            (false, true) => "dynamic-long",
        }
    }

    fn describe(&self) -> String {
        format!("{} {} {}", self.url, self.layout(), self.security)
    }

    /// Returns our project for the case. The peer's metadata have versions of its own.
    fn project(&self, folder: &Folder) -> PathBuf {
        let profile = if self.fixed { "fixed" } else { "dynamic" };
        let mut group = format!("profile = \"{profile}\"\ninterval = \"5 ms\"\n");
        if self.security != "none" {
            group += &secured(self.security, "peer.keys", "");
        }
        let any = "major-version = 0\nminor-version = 0\n";
        let mut text = project(self.transport, &group, any);
        if self.long {
            text += LONG;
        }
        if !self.fixed {
            text = text.replace(
                "publisher-id = 2234",
                "publisher-id = 2234\npublisher-id-type = \"UInt64\"",
            );
        }
        folder.write("project.toml", &text)
    }
}

/// Returns a pair in which groups have a route, and a folder with the peer's key.
fn world() -> (NetnsPair, Folder) {
    use std::os::unix::fs::PermissionsExt as _;
    // Before anything waits for it: the first build takes minutes on a loaded machine.
    peer();
    let pair = NetnsPair::new();
    for side in [&pair.a, &pair.b] {
        ip(
            &side.namespace,
            &format!("route add 224.0.0.0/4 dev {}", side.interface),
        );
    }
    let folder = Folder::new();
    let row =
        |bytes: std::ops::Range<u8>| bytes.map(|byte| format!("{byte:02x}")).collect::<String>();
    let text = format!(
        "algorithm = \"PubSub-Aes128-CTR\"\n[[key]]\ntoken = 7\nsigning = \"{}\"\nencrypting = \"{}\"\nnonce = \"{}\"\n",
        row(0..0x20),
        row(0x40..0x50),
        row(0xa0..0xa4)
    );
    let keys = folder.write("peer.keys", &text);
    std::fs::set_permissions(keys, std::fs::Permissions::from_mode(0o600)).unwrap();
    (pair, folder)
}

#[test]
fn we_read_what_the_other_stack_publishes() {
    require!(root, program "ip", program "cmake");
    let (pair, folder) = world();
    for case in cases() {
        let what = case.describe();
        let file = case.project(&folder);
        let wanted = MESSAGES.to_string();
        let arguments = [
            "--messages",
            &wanted,
            "--duration",
            "120s",
            "--values",
            "--json",
        ];
        let mut subscriber = start(&pair.b, "subscribe", &file, &arguments);
        let publisher = Peer::start(&pair.a, "publish", case.url, case.layout(), case.security);
        let mut last = None;
        for _ in 0..MESSAGES {
            let line = subscriber.until("up = ");
            let number = |name: &str| -> i64 {
                let rest = line.split(&format!("{name} = ")).nth(1).unwrap();
                rest.split([',', '\n']).next().unwrap().parse().unwrap()
            };
            let up = number("up");
            assert!(
                last.is_none_or(|last| up == last + 1),
                "{what}: {line} behind {last:?}"
            );
            assert_eq!(number("down"), -up, "{what}: {line}");
            assert!(line.contains("same = 2.5"), "{what}: {line}");
            if case.long {
                let wanted = format!("text = text {up}, list = [{up}, -{up}, 7]");
                assert!(line.contains(&wanted), "{what}: {line}");
            }
            last = Some(up);
        }
        let (code, report) = subscriber.end();
        drop(publisher);
        assert_eq!(code, Some(0), "{what}: {report}");
        assert_eq!(
            count(&report["groups"][0], "malformed"),
            0,
            "{what}: {report}"
        );
        assert_eq!(
            count(&report["groups"][0], "refused"),
            0,
            "{what}: {report}"
        );
    }
}

#[test]
fn the_other_stack_reads_what_our_driver_answers() {
    require!(root, program "ip", program "cmake");
    let (pair, folder) = world();
    // A veth takes what its peer's driver sends only if it has a program itself.
    let _program = pair
        .a
        .run(|| ReceiveProgram::attach(&pair.a.interface).unwrap());
    let group = "interval = \"5 ms\"\n";
    for (transport, url) in [
        (ETHERNET, "opc.eth://01-00-5E-7F-00-02"),
        (TAGGED, "opc.eth://01-00-5E-7F-00-02:8.3"),
    ] {
        let asked = folder.write("out.toml", &project(transport, group, ""));
        let answers = format!("{group}answers = \"out.toml\"\nanswers-lease = \"10 s\"\n");
        let back = project(transport, &answers, "")
            .replace("00-01\"", "00-02\"")
            .replace("\"Int32\"\nvalue = \"counter\"", "\"Int32\"\ncopy = \"up\"")
            .replace(
                "\"Int64\"\nvalue = \"negative-counter\"",
                "\"Int64\"\ncopy = \"down\"",
            );
        let back = folder.write("back.toml", &back);
        let station = start(&pair.b, "publish", &back, &["--json"]);
        let mut subscriber = Peer::start(&pair.a, "subscribe", url, "fixed", "none");
        for _ in 0..2 {
            while subscriber.next(&["state"]).1 != "4" {}
        }
        let asking = start(&pair.a, "publish", &asked, &["--json"]);
        let mut last = None;
        for _ in 0..MESSAGES {
            let [up, down, same] = ["up", "down", "same"].map(|name| {
                let (found, value) = subscriber.next(&["up", "down", "same"]);
                assert_eq!(found, name, "{url}");
                value
            });
            let up: i64 = up.parse().unwrap();
            assert_eq!((down, &same[..]), ((-up).to_string(), "2.5"), "{url}");
            assert!(last.is_none_or(|last| up > last), "{url}: {up}");
            last = Some(up);
        }
        let (_, sent) = asking.stop();
        let (code, report) = station.stop();
        assert_eq!(code, Some(0), "{url}: {report}");
        // Each question has its fate, and nothing else was there.
        let counters = &report["groups"][0]["answers"];
        let fates = ["answered", "too_soon", "unarmed"].map(|fate| count(counters, fate));
        let fates: u64 = fates.iter().sum();
        assert_eq!(fates, count(&sent, "frames"), "{url}: {report} {sent}");
        assert_eq!(count(counters, "others"), 0, "{url}: {report}");
        let reader = &report["answers"]["questions"][0]["readers"][0];
        assert_eq!(
            count(reader, "taken"),
            count(&sent, "frames"),
            "{url}: {report}"
        );
    }
}

#[test]
fn the_other_stack_reads_what_we_publish() {
    require!(root, program "ip", program "cmake");
    let (pair, folder) = world();
    for case in cases() {
        let what = case.describe();
        let file = case.project(&folder);
        let mut subscriber =
            Peer::start(&pair.b, "subscribe", case.url, case.layout(), case.security);
        // Reader group and reader wait for their first message.
        for _ in 0..2 {
            while subscriber.next(&["state"]).1 != "4" {}
        }
        let cycles = MESSAGES.to_string();
        let arguments = ["--cycles", &cycles, "--json"];
        let (code, report) = start(&pair.a, "publish", &file, &arguments).end();
        assert_eq!(code, Some(0), "{what}: {report}");
        assert_eq!(
            count(&report, "frames"),
            MESSAGES as u64,
            "{what}: {report}"
        );
        for nth in 0..MESSAGES {
            let mut wanted = vec![
                ("up", nth.to_string()),
                ("down", (-nth).to_string()),
                ("same", "2.5".to_owned()),
            ];
            if case.long {
                wanted.push(("text", "öne".to_owned()));
                wanted.push(("list", format!("[{nth}, {}, {}]", nth + 1, nth + 2)));
            }
            for (field, value) in wanted {
                let (word, found) = subscriber.next(&["up", "down", "same", "text", "list"]);
                assert_eq!(
                    (word.as_str(), found),
                    (field, value),
                    "{what}, message {nth}"
                );
            }
        }
    }
}

/// The project of the file that both stacks read: two groups of UDP, one of them secured.
const EXCHANGED: &str = "\
[connection]\ninterface = \"eth7\"\ntransport = \"udp\"\naddress = \"239.0.0.7:4840\"\npublisher-id = 2234\n\
[[writer-group]]\nname = \"fast\"\nid = 100\ninterval = \"250 us\"\noffset = \"40 us\"\nversion = 9\nkeep-alive = \"2 s\"\n\
[[writer-group.data-set]]\nname = \"d\"\nwriter = 7\n\
[[writer-group.data-set.field]]\nname = \"up\"\ntype = \"Int32\"\nvalue = \"counter\"\n\
[[writer-group.data-set.field]]\nname = \"same\"\ntype = \"Double\"\nvalue = 2.5\n\
[[writer-group]]\nname = \"slow\"\nid = 102\nprofile = \"dynamic\"\ninterval = \"20 ms\"\nreceive-timeout = \"300 ms\"\n\
security = \"sign-and-encrypt\"\nkey-file = \"peer.keys\"\n\
[[writer-group.data-set]]\nname = \"e\"\nwriter = 8\nkey-frame-count = 5\n\
[[writer-group.data-set.field]]\nname = \"on\"\ntype = \"Boolean\"\n";

#[test]
fn the_other_stack_reads_and_writes_our_configuration_file() {
    require!(program "cmake");
    let folder = Folder::new();
    let project = folder.write("project.toml", EXCHANGED);
    let told = [
        "set fast/d (100.7)",
        "field up 6 -1",
        "field same 11 -1",
        "set slow/e (102.8)",
        "field on 1 -1",
        "connection http://opcfoundation.org/UA-Profile/Transport/pubsub-udp-uadp",
        "url opc.udp://239.0.0.7:4840 eth7",
        "publisher 2234",
        "group 100 0.25 2000 1 0",
        "settings 9 0x3f [0.04]",
        "writer 7 1 fast/d (100.7)",
        "group 102 20 1000 3 0",
        "settings 1 0x41 []",
        "writer 8 5 slow/e (102.8)",
        "reader 100 7 100",
        "reader 102 8 300",
    ];
    let rtwire = |arguments: &[&str]| {
        let output = Command::new(BINARY)
            .arg("pubsub")
            .args(arguments)
            .output()
            .unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), errors.as_str()), (Some(0), ""));
        String::from_utf8(output.stdout).unwrap()
    };
    for version in ["1.04", "1.05"] {
        let [file, again, changed] =
            ["a", "b", "c"].map(|name| folder.path(&format!("{name}-{version}.uabinary")));
        let [file_name, again_name, changed_name] =
            [&file, &again, &changed].map(|path| path.to_str().unwrap());
        let source = project.to_str().unwrap();
        rtwire(&[
            "export",
            source,
            "--output",
            file_name,
            "--standard",
            version,
        ]);
        let output = Command::new(peer())
            .args(["file", file_name, again_name, changed_name])
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{version}: {errors}");
        let lines = String::from_utf8(output.stdout).unwrap();
        assert_eq!(lines.lines().collect::<Vec<_>>(), told, "{version}");
        // Its encoder writes what its decoder has understood: nothing was passed over.
        assert!(
            std::fs::read(&again).unwrap() == std::fs::read(&file).unwrap(),
            "{version}"
        );
        let ours = rtwire(&["import", file_name]);
        let theirs = rtwire(&["import", changed_name]);
        let mut wanted = ours.replace("interval = \"250 us\"", "interval = \"500 us\"");
        for (from, to) in [
            ("interval = \"20 ms\"", "interval = \"40 ms\""),
            ("id = 100\n", "id = 101\n"),
            ("id = 102\n", "id = 103\n"),
            (
                "receive-timeout = \"100 ms\"",
                "receive-timeout = \"200 ms\"",
            ),
            (
                "receive-timeout = \"300 ms\"",
                "receive-timeout = \"600 ms\"",
            ),
        ] {
            assert!(wanted.contains(from), "{wanted}");
            wanted = wanted.replace(from, to);
        }
        assert_eq!(theirs, wanted);
    }
}
