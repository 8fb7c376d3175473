//! `rtwire switch` against a NETCONF server of another make (yuma123's `netconfd`), with modules made from the published
//! structure, or the published modules themselves where `RTWIRE_YANG_MODULES` names their folder. The server's settings are read
//! back here by a session of its own, with none of the client's code.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "yang_common/mod.rs"]
mod yang_common;

use std::collections::BTreeMap;
use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rtwire_testkit::require_root;
use serde_json::Value;
use yang_common::netconfd::{Netconfd, Session};

const BINARY: &str = env!("CARGO_BIN_EXE_rtwire");
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

/// The same network with frames of priority 0 to 3 that may be interrupted on the way to `B`.
fn preempted() -> String {
    GATED
        .replace("schedule = \"time-triggered\"\n", "")
        .replace("gates = \"unlimited\"\n", "preemptable = [0, 1, 2, 3]\n")
        .replace("name = \"B\"\n", "name = \"B\"\npreemptable = []\n")
}

/// A server, and the plans for it.
struct Server(Netconfd);

impl Deref for Server {
    type Target = Netconfd;

    fn deref(&self) -> &Netconfd {
        &self.0
    }
}

impl Server {
    /// Starts a server with all modules but those that are named.
    fn start(without: &[&str]) -> Option<Self> {
        if !require_root() {
            return None;
        }
        let server = Self(Netconfd::start(without)?);
        fs::write(server.folder.path().join("gated.toml"), GATED).unwrap();
        fs::write(server.folder.path().join("credit.toml"), credit()).unwrap();
        fs::write(server.folder.path().join("preempted.toml"), preempted()).unwrap();
        Some(server)
    }

    fn command(&self, verb: &str, plan: &str, via: &str, more: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command.args(["switch", verb, "s", "--via", via, "--plan"]);
        command.arg(self.folder.path().join(plan)).args(more);
        command
    }

    fn run(&self, verb: &str, plan: &str, via: &str, more: &[&str]) -> Output {
        self.command(verb, plan, via, more).output().unwrap()
    }

    fn switch(&self, verb: &str, plan: &str, more: &[&str]) -> Output {
        self.run(verb, plan, &self.via(), more)
    }

    /// Returns the data that `rtwire export` makes for the switch.
    fn exported(&self, plan: &str) -> Value {
        let output = Command::new(BINARY)
            .args(["export", "--yang", "--switch", "s"])
            .arg(self.folder.path().join(plan))
            .output()
            .unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
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

/// Frames that may be interrupted are the plan's business, also where the plan has none.
#[test]
fn preemption_comes_and_goes_with_the_plan() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let pushed = server.switch("push", "preempted.toml", &["--new-interfaces"]);
    ends(&pushed, 0, &[]);
    let running = server.running();
    for pcp in 0..8 {
        let of = |word: &str| {
            let leaf = format!("<priority{pcp}>{word}</priority{pcp}>");
            running.matches(&leaf).count()
        };
        // Two ports: to A all frames are whole.
        let expected = if pcp < 4 { (1, 1) } else { (2, 0) };
        assert_eq!((of("express"), of("preemptable")), expected, "{running}");
    }
    ends(&server.switch("check", "preempted.toml", &[]), 0, &[]);
    let extra = "priority3: preemptable is there, not planned";
    ends(&server.switch("check", "credit.toml", &[]), 1, &[extra]);
    ends(&server.switch("push", "credit.toml", &[]), 0, &[extra]);
    assert!(!server.running().contains("preemptable"));
    ends(&server.switch("check", "credit.toml", &[]), 0, &[]);
    let check = server.switch("check", "preempted.toml", &[]);
    ends(
        &check,
        1,
        &["frame-preemption-parameters: planned, not there"],
    );
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
    let (mut cut, mut kills) = (0, 0);
    for at in replies.iter().map(|at| at + 1) {
        // Byte by byte, so that nothing is held back; and no shell keeps the ends open.
        let via = format!(
            "exec 3<&0 4>&1 >&-; {} <&3 3<&- 4>&- | dd bs=1 count={at} 2>/dev/null >&4 3<&- 4>&- & exec 3<&- 4>&-; wait",
            server.via()
        );
        let output = server.run("push", "credit.toml", &via, &[]);
        // The end of the session is noticed in a moment, and undoes what was not confirmed.
        let goes_back = said(&output).contains("by itself");
        let has = |plan: &str| server.switch("check", plan, &[]).status.success();
        if goes_back {
            until(
                || has("gated.toml"),
                || format!("{}\n{}", said(&output), server.log()),
            );
            // The same moment once more: the reply does not come, and `rtwire` is killed.
            let silent = format!(
                "{{ {}; }} | {{ dd bs=1 count={at} 2>/dev/null; cat >/dev/null; }}",
                server.via()
            );
            let mut killed = server
                .command("push", "credit.toml", &silent, &[])
                .spawn()
                .unwrap();
            until(|| has("credit.toml"), || "it was never in force".to_owned());
            killed.kill().unwrap();
            killed.wait().unwrap();
            until(
                || has("gated.toml"),
                || format!("killed, and not put back: {}", server.log()),
            );
            kills += 1;
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
    assert!(
        cut >= 8 && kills >= 1,
        "{cut} sessions were cut, {kills} killed"
    );
}

#[track_caller]
fn until(mut is_so: impl FnMut() -> bool, words: impl Fn() -> String) {
    let end = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < end, "{}", words());
    }
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
