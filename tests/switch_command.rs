//! `rtwire switch` against a NETCONF server of another make (yuma123's `netconfd`), with modules made from the published
//! structure, or the published modules themselves where `RTWIRE_YANG_MODULES` names their folder. The server's settings are read
//! back here by a session of its own, with none of the client's code.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "yang_common/mod.rs"]
mod yang_common;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rtwire_testkit::{require_program, require_root};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_rtwire");
const NETCONF: &str = "urn:ietf:params:xml:ns:netconf:base:1.0";
const SFSG: &str = "ieee802-dot1q-stream-filters-gates-bridge";
const SID: &str = "ieee802-dot1cb-stream-identification";

const GATED: &str = r#"
[network]
name = "t"
[[switch]]
name = "s"
buffer = "200 kB"
queues = 8
gates = "unlimited"
[[host]]
name = "A"
[[host]]
name = "B"
[[link]]
ends = ["A", "s"]
rate = "100 Mbit/s"
[[link]]
ends = ["s", "B"]
rate = "100 Mbit/s"
[[stream]]
name = "fast"
talker = "A"
listeners = ["B"]
payload = "64 B"
interval = "1 ms"
priority = 7
schedule = "time-triggered"
vlan = 5
"#;

/// The same network with a credit instead of gates, and a second stream.
fn credit() -> String {
    let text = GATED
        .replace("schedule = \"time-triggered\"\n", "")
        .replace("gates = \"unlimited\"\n", "");
    format!(
        "{text}[[stream]]\nname = \"slow\"\ntalker = \"A\"\nlisteners = [\"B\"]\npayload = \"64 B\"\ninterval = \"1 ms\"\npriority = 6\n\
         [[shaper]]\nnode = \"s\"\nto = \"B\"\npriority = 7\nkind = \"credit\"\nidle-slope = \"20 Mbit/s\"\n"
    )
}

/// A running server, and the plans for it.
struct Server {
    child: Child,
    folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts a server with all modules but those that are named.
    fn start(without: &[&str]) -> Option<Self> {
        if !(require_root() && require_program("netconfd") && require_program("netconf-subsystem"))
        {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("modules");
        fs::create_dir(&own).unwrap();
        let names = yang_common::modules::write(&own).unwrap();
        let published = std::env::var_os("RTWIRE_YANG_MODULES").map(PathBuf::from);
        let modules = published.unwrap_or(own);
        fs::write(folder.path().join("gated.toml"), GATED).unwrap();
        fs::write(folder.path().join("credit.toml"), credit()).unwrap();
        let mut command = Command::new("netconfd");
        command
            .args([
                "--no-startup",
                "--superuser=root",
                "--target=candidate",
                "--log-level=info",
            ])
            .arg(format!(
                "--ncxserver-sockname={}",
                folder.path().join("ncx").display()
            ))
            .arg(format!("--log={}", folder.path().join("log").display()))
            .arg(format!(
                "--modpath={}:/usr/share/yuma/modules",
                modules.display()
            ))
            .args(["--module=iana-if-type", "--module=ietf-interfaces"])
            .env("HOME", folder.path())
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        for name in names.iter().filter(|name| !without.contains(name)) {
            command.arg(format!("--module={name}"));
        }
        let mut server = Self {
            child: command.spawn().unwrap(),
            folder,
        };
        let until = Instant::now() + Duration::from_secs(20);
        while !server.log().contains("Running netconfd server") {
            let ended = server.child.try_wait().unwrap();
            assert!(
                ended.is_none() && Instant::now() < until,
                "netconfd does not run ({ended:?}):\n{}",
                server.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(server)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// The command that leads to the server, as `sshd` starts it.
    fn via(&self) -> String {
        format!(
            "SSH_CONNECTION='127.0.0.1 50000 127.0.0.1 830' USER=root netconf-subsystem --ncxserver-sockname=830@{}",
            self.folder.path().join("ncx").display()
        )
    }

    fn run(&self, verb: &str, plan: &str, via: &str, more: &[&str]) -> Output {
        Command::new(BINARY)
            .args(["switch", verb, "s", "--via", via, "--plan"])
            .arg(self.folder.path().join(plan))
            .args(more)
            .output()
            .unwrap()
    }

    fn switch(&self, verb: &str, plan: &str, more: &[&str]) -> Output {
        self.run(verb, plan, &self.via(), more)
    }

    /// What `rtwire export` makes for the switch.
    fn exported(&self, plan: &str) -> Value {
        let output = Command::new(BINARY)
            .args(["export", "--yang", "--switch", "s"])
            .arg(self.folder.path().join(plan))
            .output()
            .unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The settings in force.
    fn running(&self) -> String {
        let mut session = Session::open(&self.via());
        session.ask("<get-config><source><running/></source></get-config>")
    }
}

/// A session in NETCONF 1.0, by hand.
struct Session {
    child: Child,
    number: u32,
}

impl Session {
    fn open(via: &str) -> Self {
        let child = Command::new("sh")
            .args(["-c", via])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut session = Self { child, number: 0 };
        session.write(&format!(
            "<hello xmlns=\"{NETCONF}\"><capabilities><capability>urn:ietf:params:netconf:base:1.0</capability></capabilities></hello>"
        ));
        session.read();
        // It leaves a request alone that comes together with the hello.
        std::thread::sleep(Duration::from_millis(50));
        session
    }

    fn write(&mut self, text: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(text.as_bytes()).unwrap();
        input.write_all(b"]]>]]>").unwrap();
        input.flush().unwrap();
    }

    fn read(&mut self) -> String {
        let mut found = Vec::new();
        let output = self.child.stdout.as_mut().unwrap();
        while !found.ends_with(b"]]>]]>") {
            let mut byte = [0];
            assert_eq!(
                output.read(&mut byte).unwrap(),
                1,
                "{}",
                String::from_utf8_lossy(&found)
            );
            found.push(byte[0]);
        }
        found.truncate(found.len() - 6);
        String::from_utf8(found).unwrap()
    }

    fn ask(&mut self, request: &str) -> String {
        self.number += 1;
        self.write(&format!(
            "<rpc message-id=\"{}\" xmlns=\"{NETCONF}\">{request}</rpc>",
            self.number
        ));
        self.read()
    }

    /// Changes the settings in force, as somebody else would.
    fn edit(&mut self, config: &str) {
        for request in [
            format!(
                "<edit-config><target><candidate/></target><config xmlns:nc=\"{NETCONF}\">{config}</config></edit-config>"
            ),
            "<commit/>".to_owned(),
        ] {
            let reply = self.ask(&request);
            assert!(reply.contains("<ok/>"), "{request}\n{reply}");
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Each leaf with its value, and how often it is there. A prefix of a value is left out, and so is what plans do not set.
type Leaves = BTreeMap<(String, String), u32>;

fn leaves_of_json(value: &Value, name: &str, into: &mut Leaves) {
    match value {
        Value::Object(members) => members.iter().for_each(|(key, value)| {
            leaves_of_json(value, key.rsplit(':').next().unwrap(), into);
        }),
        Value::Array(items) => items.iter().for_each(|one| leaves_of_json(one, name, into)),
        Value::String(text) => count(name, text, into),
        other => count(name, &other.to_string(), into),
    }
}

fn count(name: &str, text: &str, into: &mut Leaves) {
    let identities = [
        "type",
        "bridge-type",
        "port-type",
        "operation-name",
        "transmission-selection-algorithm",
    ];
    let text = match identities.contains(&name) {
        true => text.rsplit(':').next().unwrap(),
        false => text,
    };
    *into
        .entry((name.to_owned(), text.trim().to_owned()))
        .or_default() += 1;
}

fn leaves_of_xml(text: &str) -> Leaves {
    let document = roxmltree::Document::parse(text.trim()).unwrap();
    let mut found = Leaves::new();
    let planned = ["interfaces", "bridges", "stream-identity"];
    let tops = document.descendants().filter(|one| {
        planned.contains(&one.tag_name().name())
            && one
                .parent_element()
                .is_some_and(|up| up.tag_name().name() == "data")
    });
    for top in tops {
        for leaf in top
            .descendants()
            .filter(|one| one.is_element() && one.first_element_child().is_none())
        {
            count(
                leaf.tag_name().name(),
                leaf.text().unwrap_or_default(),
                &mut found,
            );
        }
    }
    found
}

fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[track_caller]
fn ends(output: &Output, code: i32, words: &[&str]) {
    let said = said(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for word in words {
        assert!(said.contains(word), "{word}\n{said}");
    }
}

#[test]
fn a_switch_gets_its_share_shows_it_and_drift_is_named_and_mended() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    ends(
        &server.switch("check", "gated.toml", &[]),
        1,
        &["/interfaces: planned, not there"],
    );
    ends(
        &server.switch("push", "gated.toml", &[]),
        3,
        &["no interface A, B; it has none", "--new-interfaces"],
    );
    ends(
        &server.switch("push", "gated.toml", &["--new-interfaces"]),
        0,
        &["read back as planned, confirmed"],
    );
    let mut wanted = Leaves::new();
    leaves_of_json(&server.exported("gated.toml"), "", &mut wanted);
    assert_eq!(leaves_of_xml(&server.running()), wanted);
    ends(
        &server.switch("check", "gated.toml", &[]),
        0,
        &["switch s: as planned"],
    );
    ends(
        &server.switch("push", "gated.toml", &[]),
        0,
        &["nothing changed"],
    );

    // Somebody else changes a value, adds an entry to a gate list, and adds what is no business of the plan.
    let bridge = "urn:ieee:std:802.1Q:yang:ieee802-dot1q-bridge";
    let port = |inside: &str| {
        format!(
            "<interfaces xmlns=\"urn:ietf:params:xml:ns:yang:ietf-interfaces\"><interface><name>B</name>\
             <bridge-port xmlns=\"{bridge}\">{inside}</bridge-port></interface></interfaces>"
        )
    };
    Session::open(&server.via()).edit(&port(
        "<pvid>99</pvid><gate-parameter-table xmlns=\"urn:ieee:std:802.1Q:yang:ieee802-dot1q-sched-bridge\">\
         <supported-list-max>60</supported-list-max><admin-control-list><gate-control-entry><index>50</index>\
         <operation-name xmlns:x=\"urn:ieee:std:802.1Q:yang:ieee802-dot1q-sched\">x:set-gate-states</operation-name>\
         <gate-states-value>255</gate-states-value><time-interval-value>7</time-interval-value>\
         </gate-control-entry></admin-control-list></gate-parameter-table>",
    ));
    Session::open(&server.via()).edit(&format!(
        "<bridges xmlns=\"{bridge}\"><bridge><name>s</name><component><name>s</name><bridge-vlan><vlan><vid>700</vid></vlan>\
         </bridge-vlan></component></bridge></bridges>"
    ));
    let place = "s: /interfaces/interface[B]/bridge-port";
    ends(
        &server.switch("check", "gated.toml", &[]),
        1,
        &[
            &format!("{place}/pvid: planned 1, found 99"),
            &format!(
                "{place}/gate-parameter-table/admin-control-list/gate-control-entry[50]: there, not planned"
            ),
            "2 differences from the plan",
        ],
    );
    let json = server.switch("check", "gated.toml", &["--json"]);
    let data: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(data["differences"].as_array().unwrap().len(), 2, "{data}");
    assert_eq!(
        (json.status.code(), &data["as_planned"]),
        (Some(1), &Value::Bool(false))
    );

    // Somebody else is at work: refused, and nothing is changed.
    let before = server.running();
    let mut other = Session::open(&server.via());
    assert!(
        other
            .ask("<lock><target><candidate/></target></lock>")
            .contains("<ok/>")
    );
    ends(
        &server.switch("push", "gated.toml", &[]),
        1,
        &[
            "refused to lock the candidate settings: lock-denied",
            "its settings are as before",
        ],
    );
    drop(other);
    assert_eq!(leaves_of_xml(&server.running()), leaves_of_xml(&before));

    ends(
        &server.switch("push", "gated.toml", &[]),
        0,
        &["2 differences mended"],
    );
    ends(&server.switch("check", "gated.toml", &[]), 0, &[]);
    assert!(
        server.running().contains("<vid>700</vid>"),
        "a VLAN of somebody else is gone"
    );

    // Another plan: gates go, credits come.
    ends(
        &server.switch("push", "credit.toml", &[]),
        0,
        &["gate-enabled: true is there, not planned"],
    );
    let running = server.running();
    assert!(
        running.contains("<admin-idle-slope>20000000</admin-idle-slope>"),
        "{running}"
    );
    assert!(!running.contains("gate-control-entry"), "{running}");
    ends(&server.switch("check", "credit.toml", &[]), 0, &[]);
    ends(
        &server.switch("push", "gated.toml", &[]),
        0,
        &["cbsa-parameter-table[7]: there, not planned"],
    );
    assert!(!server.running().contains("admin-idle-slope"));
}

/// The way to the switch breaks in the midst, wherever that may be: it has the one plan or the other, whole.
#[test]
fn a_session_that_is_cut_leaves_one_plan_or_the_other() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    ends(
        &server.switch("push", "gated.toml", &["--new-interfaces"]),
        0,
        &[],
    );
    let record = server.folder.path().join("record");
    let whole = format!("{} | tee {}", server.via(), record.display());
    ends(&server.run("push", "credit.toml", &whole, &[]), 0, &[]);
    let record = fs::read(&record).unwrap();
    // The ends of the server's messages behind its hello.
    let replies: Vec<usize> = (0..record.len())
        .filter(|at| record[*at..].starts_with(b"\n##\n"))
        .collect();
    assert!(replies.len() >= 10, "{} replies", replies.len());
    ends(&server.switch("push", "gated.toml", &[]), 0, &[]);
    let mut cut = 0;
    for at in replies.iter().map(|at| at + 1) {
        // Byte by byte, so that nothing is held back; and no shell keeps the ends open.
        let via = format!(
            "exec 3<&0 4>&1 >&-; {} <&3 3<&- 4>&- | dd bs=1 count={at} 2>/dev/null >&4 3<&- 4>&- & exec 3<&- 4>&-; wait",
            server.via()
        );
        let output = server.run("push", "credit.toml", &via, &[]);
        // The end of the session is noticed in a moment, and undoes what was not confirmed.
        let until = Instant::now() + Duration::from_secs(10);
        let goes_back = said(&output).contains("by itself");
        let has = |plan: &str| server.switch("check", plan, &[]).status.success();
        while goes_back && !has("gated.toml") {
            assert!(
                Instant::now() < until,
                "it is not put back:\n{}\n{}",
                said(&output),
                server.log()
            );
        }
        let (is_new, is_old) = (has("credit.toml"), has("gated.toml"));
        assert!(
            is_new != is_old,
            "behind {at} bytes: neither plan\n{}",
            said(&output)
        );
        if output.status.success() {
            assert!(is_new, "{}", said(&output));
        } else {
            cut += 1;
            let said = said(&output);
            assert_eq!(output.status.code(), Some(3), "{said}");
            if said.contains("as before") || said.contains("by itself") {
                assert!(is_old, "{said}");
            }
        }
        if is_new {
            ends(&server.switch("push", "gated.toml", &[]), 0, &[]);
        }
    }
    assert!(cut >= 8, "{cut} sessions were cut");
}

#[test]
fn a_switch_without_some_modules_gets_the_rest_only_if_that_is_wanted() {
    let Some(server) = Server::start(&[SFSG, SID]) else {
        return;
    };
    let push = server.switch("push", "gated.toml", &["--new-interfaces"]);
    ends(&push, 3, &[SFSG, SID, "--limited"]);
    assert!(!server.running().contains("bridge-port"));
    let push = server.switch("push", "gated.toml", &["--new-interfaces", "--limited"]);
    ends(
        &push,
        0,
        &[
            &format!("without the data of {SFSG}"),
            &format!("without the data of {SID}"),
        ],
    );
    ends(
        &server.switch("check", "gated.toml", &["--limited"]),
        0,
        &["as planned"],
    );
    assert!(server.running().contains("gate-control-entry"));
}

#[test]
fn a_way_that_leads_nowhere_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.toml");
    fs::write(&plan, GATED).unwrap();
    let run = |switch: &str, via: &str, more: &[&str]| {
        Command::new(BINARY)
            .args(["switch", "push", switch, "--via", via, "--plan"])
            .arg(Path::new(&plan))
            .args(more)
            .output()
            .unwrap()
    };
    ends(
        &run("x", "true", &[]),
        2,
        &["there is no switch \"x\"; its switches are s"],
    );
    ends(
        &run("s", "exit 7", &[]),
        3,
        &["the session ended", "exit status: 7", "as before"],
    );
    ends(
        &run(
            "s",
            "echo Welcome; cat >/dev/null",
            &["--reply-within", "300ms"],
        ),
        3,
        &["to say hello", "began with `Welcome"],
    );
    ends(
        &run("s", "echo 'Welcome]]>]]>'; cat >/dev/null", &[]),
        3,
        &["Welcome"],
    );
}
